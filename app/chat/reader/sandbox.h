// SPDX-License-Identifier: Apache-2.0
// How a process gives up what it does not need to turn bytes into text. None of it can be taken back.
#pragma once

#include "app/chat/reader/outcome.h"

namespace runnel::reader {

/// Memory, computing time and time are limited; no core is dumped and no file written; open files but the standard
/// three are closed. When the time is over the process ends with Why::Time.
Outcome setLimits(const Limits& limits);

/// From here on the process can compute, allocate, and use files that are open, and nothing else: no file is opened, no
/// socket or process made, no other process reached. What it tries fails with EPERM.
Outcome enterSandbox();

/// The same for a process that is about to become another program: that can be started and can read files.
Outcome enterProgramSandbox();

}  // namespace runnel::reader
