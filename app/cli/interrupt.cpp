// SPDX-License-Identifier: Apache-2.0
// The signal handler only writes a byte to a pipe: requesting a stop takes locks, which a handler must not.
#include "app/cli/interrupt.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>

namespace runnel::cli {
namespace {

std::atomic<int> interrupt_pipe{-1};  // a signal handler can reach nothing but a global

extern "C" void on_interrupt(int) {
  const int saved = errno;
  const int pipe = interrupt_pipe.load();
  if (pipe >= 0) [[maybe_unused]]
    const ssize_t ignored = ::write(pipe, "!", 1);
  errno = saved;
}

}  // namespace

InterruptHandler::InterruptHandler() {
  if (::pipe2(pipe_, O_CLOEXEC | O_NONBLOCK) != 0) return;  // Ctrl-C then ends the program as usual
  interrupt_pipe = pipe_[1];
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGINT, &action, nullptr);
}

InterruptHandler::~InterruptHandler() {
  if (pipe_[0] < 0) return;
  std::signal(SIGINT, SIG_DFL);
  interrupt_pipe = -1;
  ::close(pipe_[0]);
  ::close(pipe_[1]);
}

bool InterruptHandler::take() {
  char presses[16];
  bool any = false;
  while (pipe_[0] >= 0 && ::read(pipe_[0], presses, sizeof(presses)) > 0) any = true;
  return any;
}

StopOnInterrupt::StopOnInterrupt(InterruptHandler& handler) {
  handler.take();
  if (handler.descriptor() < 0 || ::pipe2(wake_, O_CLOEXEC) != 0) return;
  watcher_ = std::thread([this, &handler] {
    pollfd watched[2] = {{handler.descriptor(), POLLIN, 0}, {wake_[0], POLLIN, 0}};
    while (::poll(watched, 2, -1) < 0 && errno == EINTR) {
    }
    if (watched[0].revents != 0 && handler.take()) source_.request_stop();
  });
}

StopOnInterrupt::~StopOnInterrupt() {
  if (!watcher_.joinable()) return;
  ::close(wake_[1]);  // the watcher sees the end of the pipe
  watcher_.join();
  ::close(wake_[0]);
}

}  // namespace runnel::cli
