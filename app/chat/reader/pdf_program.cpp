// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "app/chat/reader/pdf_text.h"
#include "app/chat/reader/sandbox.h"

namespace runnel::reader {
namespace {

constexpr int kNotFound = 127;  // as a shell says it

[[noreturn]] void becomeProgram(int output, int errors) {
  // It has no use once nobody reads.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (dup2(output, STDOUT_FILENO) < 0 || dup2(errors, STDERR_FILENO) < 0 ||
      !enterProgramSandbox().ok())
    _exit(static_cast<int>(Why::Sandbox));
  execlp("pdftotext", "pdftotext", "-enc", "UTF-8", "-eol", "unix", "-", "-",
         static_cast<char*>(nullptr));
  _exit(errno == ENOENT ? kNotFound : static_cast<int>(Why::Sandbox));
}

/// Until the end, or `most` bytes.
void readAll(int from, std::size_t most, std::string& out) {
  char piece[16384];
  while (out.size() <= most) {
    const ssize_t got = read(from, piece, sizeof piece);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return;
    out.append(piece, static_cast<std::size_t>(got));
  }
}

}  // namespace

Outcome pdfTextByProgram(const Limits& limits, std::string& out) {
  if (lseek(STDIN_FILENO, 0, SEEK_SET) != 0)
    return {Why::Usage, "is a PDF file that comes through a pipe, expected one on a disk"};
  int output[2];
  int errors[2];
  // Only the beginning of its complaints is kept: it must not wait until they are read.
  if (pipe2(output, O_CLOEXEC) != 0 || pipe2(errors, O_CLOEXEC | O_NONBLOCK) != 0)
    return {Why::Memory, std::string("pipe: ") + std::strerror(errno)};
  const pid_t program = fork();
  if (program < 0) return {Why::Memory, std::string("fork: ") + std::strerror(errno)};
  if (program == 0) becomeProgram(output[1], errors[1]);
  close(output[1]);
  close(errors[1]);
  if (Outcome locked = enterSandbox(); !locked.ok()) return locked;
  readAll(output[0], limits.textBytes * 2, out);
  if (out.size() > limits.textBytes * 2) {
    close(output[0]);  // it ends when it writes on
    return {};
  }
  std::string complaint;
  constexpr std::size_t kMostComplaint = 65536;
  readAll(errors[0], kMostComplaint, complaint);
  int status = 0;
  while (waitpid(program, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) {
    return WTERMSIG(status) == SIGXCPU || WTERMSIG(status) == SIGKILL
               ? Outcome{Why::Time, "took more time than it may"}
               : Outcome{Why::Damaged, "made pdftotext fail"};
  }
  constexpr int kCannotOpen = 1, kForbidden = 3;  // as its manual says
  switch (WEXITSTATUS(status)) {
    case 0:
      return {};
    case kNotFound:
      return {Why::NotSupported,
              "is a PDF file: this program was built without Qt PDF, and there is no pdftotext"};
    case static_cast<int>(Why::Sandbox):
      return {Why::Sandbox, "pdftotext could not be locked in"};
    case kForbidden:
      return {Why::Encrypted, "does not allow its text to be taken"};
    case kCannotOpen:
      return complaint.find("password") != std::string::npos
                 ? Outcome{Why::Encrypted, "opens with a password only"}
                 : Outcome{Why::Damaged, "is no PDF file that can be read"};
    default:
      return {Why::Damaged, "made pdftotext fail"};
  }
}

}  // namespace runnel::reader
