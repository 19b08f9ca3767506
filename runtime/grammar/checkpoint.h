// SPDX-License-Identifier: Apache-2.0
// Where XGrammar asks whether it may go on compiling. Put before each of its sources by cmake/RunnelGrammar.cmake.
#pragma once

#include <cstddef>

/// Throws if the compilation on this thread has taken too long or too much.
/// @param bytes  it takes more now
void runnel_xgrammar_checkpoint(std::size_t bytes);

/// The same where it is asked so often that the time is looked at now and then.
void runnel_xgrammar_takes(std::size_t bytes);
