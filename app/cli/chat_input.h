// SPDX-License-Identifier: Apache-2.0
// Reading what the user types, line by line, with Ctrl-C.
#pragma once

#include <string>

#include "app/cli/interrupt.h"

namespace runnel::cli {

/// Lines of standard input, a terminal or a pipe.
class ChatInput {
 public:
  enum class Event { line, end, interrupt };

  explicit ChatInput(InterruptHandler& interrupts) : interrupts_(interrupts) {}

  /// Waits for the next line (without its end) or Ctrl-C. The last line needs no end.
  Event read_line(std::string& line);

 private:
  InterruptHandler& interrupts_;
  std::string buffer_;
  bool ended_ = false;
};

}  // namespace runnel::cli
