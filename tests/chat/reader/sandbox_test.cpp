// SPDX-License-Identifier: Apache-2.0
#include "app/chat/reader/sandbox.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>

namespace runnel::reader {
namespace {

/// What became of a process that does `what`, whose value is its exit code; 1000 + a signal that ended it.
template <class What>
int inProcess(const What& what) {
  const pid_t child = fork();
  if (child == 0) _exit(what());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

/// How many of these calls are not refused with EPERM.
int notRefused(bool reading) {
  int count = 0;
  const auto refused = [&count](long result) {
    if (result != -1 || errno != EPERM) ++count;
  };
  refused(socket(AF_INET, SOCK_STREAM, 0));
  refused(socket(AF_INET6, SOCK_DGRAM, 0));
  refused(socket(AF_UNIX, SOCK_STREAM, 0));
  int pair[2];
  refused(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
  sockaddr_in address{};
  refused(connect(0, reinterpret_cast<sockaddr*>(&address), sizeof address));
  refused(open("/tmp/runnel-not-made", O_WRONLY | O_CREAT, 0600));
  refused(open("/dev/null", O_RDWR));
  refused(unlink("/tmp/runnel-not-made"));
  refused(mkdir("/tmp/runnel-not-made", 0700));
  refused(fork());
  refused(kill(getppid(), 0));
  refused(ptrace(PTRACE_TRACEME, 0, nullptr, nullptr));
  if (!reading) {
    refused(open("/etc/hostname", O_RDONLY));
    refused(execl("/bin/true", "true", static_cast<char*>(nullptr)));
  }
  return count;
}

TEST(ReaderSandbox, AProcessCanDoMuchBeforeIt) {
  EXPECT_GE(inProcess([] {
              const int fd = socket(AF_INET, SOCK_STREAM, 0);
              const int file = open("/dev/null", O_RDWR);
              return (fd >= 0 ? 1 : 0) + (file >= 0 ? 1 : 0) + (kill(getppid(), 0) == 0 ? 1 : 0);
            }),
            3);
}

TEST(ReaderSandbox, NothingOpensNothingStartsNothingReachesOut) {
  EXPECT_EQ(inProcess([] { return enterSandbox().ok() ? notRefused(false) : 100; }), 0);
}

TEST(ReaderSandbox, AProgramCanReadAndStartAndNothingElse) {
  EXPECT_EQ(inProcess([] { return enterProgramSandbox().ok() ? notRefused(true) : 100; }), 0);
  EXPECT_EQ(inProcess([] {
              if (!enterProgramSandbox().ok()) return 100;
              if (open("/etc/passwd", O_RDONLY) < 0) return 101;
              execl("/bin/sh", "sh", "-c", "exit 7", static_cast<char*>(nullptr));
              return 102;
            }),
            7);
}

TEST(ReaderSandbox, ItStillComputesAllocatesAndAborts) {
  EXPECT_EQ(inProcess([] {
              if (!enterSandbox().ok()) return 100;
              constexpr std::size_t kBytes = 64 << 20;
              auto* bytes = static_cast<char*>(std::malloc(kBytes));
              if (bytes == nullptr) return 101;
              bytes[kBytes - 1] = 1;
              std::free(bytes);
              return 0;
            }),
            0);
  EXPECT_EQ(inProcess([]() -> int {
              static_cast<void>(enterSandbox());
              std::abort();
            }),
            1000 + SIGABRT);
}

TEST(ReaderLimits, MemoryEnds) {
  EXPECT_EQ(
      inProcess([] {
        Limits limits;
        limits.memoryBytes = 256 << 20;
        if (!setLimits(limits).ok()) return 100;
        if (mmap(nullptr, 300 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
          return 101;
        return errno == ENOMEM ? 0 : 102;
      }),
      0);
}

TEST(ReaderLimits, TimeEndsWhetherItComputesOrWaits) {
  const auto spend = [](bool computing) {
    return inProcess([computing] {
      Limits limits;
      limits.seconds = 1;
      if (!setLimits(limits).ok()) return 100;
      volatile bool on = true;
      while (on) {
        if (!computing) pause();
      }
      return 101;
    });
  };
  EXPECT_EQ(spend(true), static_cast<int>(Why::Time));
  EXPECT_EQ(spend(false), static_cast<int>(Why::Time));
}

TEST(ReaderLimits, NoFileIsWrittenNoCoreDumpedAndNothingElseStaysOpen) {
  EXPECT_EQ(
      inProcess([] {
        int out[2];
        if (pipe(out) != 0 || dup2(out[1], STDOUT_FILENO) < 0 || dup2(out[1], STDERR_FILENO) < 0)
          return 100;
        const int other = open("/dev/null", O_RDONLY);
        if (!setLimits({}).ok()) return 101;
        if (fcntl(other, F_GETFD) != -1 || fcntl(out[0], F_GETFD) != -1) return 102;
        rlimit core{};
        if (getrlimit(RLIMIT_CORE, &core) != 0 || core.rlim_max != 0) return 103;
        const int file = open("/tmp", O_TMPFILE | O_RDWR, 0600);
        if (file < 0) return 104;
        std::signal(SIGXFSZ, SIG_IGN);
        return write(file, "x", 1) == -1 && errno == EFBIG ? 0 : 105;
      }),
      0);
}

}  // namespace
}  // namespace runnel::reader
