// SPDX-License-Identifier: Apache-2.0
#include "app/cli/chat_input.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>

namespace runnel::cli {

ChatInput::Event ChatInput::read_line(std::string& line) {
  for (;;) {
    if (const std::size_t end = buffer_.find('\n'); end != std::string::npos) {
      line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      if (!line.empty() && line.back() == '\r') line.pop_back();
      return Event::line;
    }
    if (ended_) {
      if (buffer_.empty()) return Event::end;
      line = std::move(buffer_);
      buffer_.clear();
      return Event::line;
    }
    pollfd watched[2] = {{STDIN_FILENO, POLLIN, 0}, {interrupts_.descriptor(), POLLIN, 0}};
    if (::poll(watched, 2, -1) < 0 && errno != EINTR) return Event::end;
    if (watched[1].revents != 0 && interrupts_.take()) {
      buffer_.clear();
      return Event::interrupt;
    }
    if (watched[0].revents == 0) continue;
    char bytes[4096];
    const ssize_t count = ::read(STDIN_FILENO, bytes, sizeof(bytes));
    if (count > 0) buffer_.append(bytes, static_cast<std::size_t>(count));
    if (count == 0 || (count < 0 && errno != EINTR && errno != EAGAIN)) ended_ = true;
  }
}

}  // namespace runnel::cli
