// SPDX-License-Identifier: Apache-2.0
// What the model picker shows about a file before anything of it is loaded.
#pragma once

#include "app/chat/engine/chat_types.h"

namespace runnel::chat {

/// Reads the file's header and tables. Never fails: `problem` says what is wrong with the file.
ModelFacts readModelFacts(const QString& file);

/// Window slots of a model file; 0: none, or it cannot be read.
int fileWindowSlots(const QString& file);

}  // namespace runnel::chat
