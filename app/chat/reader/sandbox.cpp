// SPDX-License-Identifier: Apache-2.0
#include "app/chat/reader/sandbox.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <vector>

namespace runnel::reader {
namespace {

#if defined(__x86_64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
constexpr std::uint32_t kArchitecture = 0;  // no filter is written for it
#endif
// Calls of a second ABI on x86-64, none of which is needed.
constexpr std::uint32_t kX32 = 0x40000000;

constexpr std::uint32_t kRefuse = SECCOMP_RET_ERRNO | EPERM;
// A C library that is told so uses the older call, whose flags can be looked at.
constexpr std::uint32_t kUnknown = SECCOMP_RET_ERRNO | ENOSYS;

Outcome refused(const char* what) {
  return {Why::Sandbox, std::string(what) + ": " + std::strerror(errno)};
}

/// A program of the kernel's packet filter that looks at the number of a call and at its arguments.
class Filter {
 public:
  Filter() {
    load(offsetof(seccomp_data, arch));
    unless(BPF_JEQ, kArchitecture, SECCOMP_RET_KILL_PROCESS);
    load(offsetof(seccomp_data, nr));
#if defined(__x86_64__)
    when(BPF_JGE, kX32, kRefuse);
#endif
  }

  void answer(long call, std::uint32_t action) {
    when(BPF_JEQ, static_cast<std::uint32_t>(call), action);
  }
  /// `action` if the low half of an argument equals `value`, else the call is refused.
  void answerIfIs(long call, unsigned argument, std::uint32_t value, std::uint32_t action) {
    look(call, argument);
    unless(BPF_JEQ, value, kRefuse);
    put(BPF_RET | BPF_K, action);
  }
  /// `action` if the low half of an argument has one of these bits, else `otherwise`.
  void answerByBits(long call, unsigned argument, std::uint32_t bits, std::uint32_t action,
                    std::uint32_t otherwise) {
    look(call, argument);
    when(BPF_JSET, bits, action);
    put(BPF_RET | BPF_K, otherwise);
  }

  Outcome install(std::uint32_t otherwise) {
    put(BPF_RET | BPF_K, otherwise);
    if (kArchitecture == 0)
      return {Why::Sandbox, "there is no filter of calls for this kind of processor"};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return refused("PR_SET_NO_NEW_PRIVS");
    sock_fprog program{static_cast<unsigned short>(m_code.size()), m_code.data()};
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) != 0)
      return refused("PR_SET_SECCOMP");
    return {};
  }

 private:
  void put(int code, std::uint32_t k, std::uint8_t jt = 0, std::uint8_t jf = 0) {
    m_code.push_back({static_cast<std::uint16_t>(code), jt, jf, k});
  }
  void load(std::size_t offset) {
    put(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offset));
  }
  void when(int test, std::uint32_t value, std::uint32_t action) {
    put(BPF_JMP | test | BPF_K, value, 0, 1);
    put(BPF_RET | BPF_K, action);
  }
  void unless(int test, std::uint32_t value, std::uint32_t action) {
    put(BPF_JMP | test | BPF_K, value, 1, 0);
    put(BPF_RET | BPF_K, action);
  }
  /// The next four instructions, which return, are for this call alone and find its argument loaded.
  void look(long call, unsigned argument) {
    put(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(call), 0, 4);
    // Both processors are little-endian: the low half comes first.
    load(offsetof(seccomp_data, args) + argument * sizeof(std::uint64_t));
  }

  std::vector<sock_filter> m_code;
};

void overTime(int) {
  static constexpr char kWords[] = "took more time than it may\n";
  static_cast<void>(!write(STDERR_FILENO, kWords, sizeof kWords - 1));
  _exit(static_cast<int>(Why::Time));
}

bool isFile(int fd) {
  struct stat about {};
  return fstat(fd, &about) == 0 && S_ISREG(about.st_mode);
}

bool limit(__rlimit_resource what, rlim_t value, rlim_t most) {
  rlimit64 now{};
  if (getrlimit64(what, &now) != 0) return false;
  // A limit that is lower already stays.
  const rlimit64 wanted{std::min<rlim64_t>(value, now.rlim_max),
                        std::min<rlim64_t>(most, now.rlim_max)};
  return setrlimit64(what, &wanted) == 0;
}

}  // namespace

Outcome setLimits(const Limits& limits) {
  const auto seconds = static_cast<rlim_t>(limits.seconds);
  // Somebody at a terminal may have sent the text, or the reason, to a file.
  const rlim_t written =
      isFile(STDOUT_FILENO) || isFile(STDERR_FILENO) ? limits.textBytes + limits.textBytes / 4 : 0;
  struct sigaction action {};
  action.sa_handler = overTime;
  sigaction(SIGXCPU, &action, nullptr);
  sigaction(SIGALRM, &action, nullptr);
  alarm(static_cast<unsigned>(limits.seconds));
  if (!limit(RLIMIT_AS, limits.memoryBytes, limits.memoryBytes) ||
      !limit(RLIMIT_CPU, seconds, seconds + 1) || !limit(RLIMIT_CORE, 0, 0) ||
      !limit(RLIMIT_FSIZE, written, written))
    return refused("setrlimit");
  if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) return refused("PR_SET_DUMPABLE");
#ifdef SYS_close_range
  if (syscall(SYS_close_range, STDERR_FILENO + 1, ~0U, 0) == 0) return {};
#endif
  const long most = sysconf(_SC_OPEN_MAX);
  for (int fd = STDERR_FILENO + 1; fd < most && fd < 4096; ++fd) close(fd);
  return {};
}

Outcome enterSandbox() {
  Filter filter;
  for (const long call : {
           SYS_read,         SYS_write,         SYS_readv,
           SYS_writev,       SYS_pread64,       SYS_lseek,
           SYS_close,        SYS_fstat,         SYS_newfstatat,
           SYS_mmap,         SYS_munmap,        SYS_mremap,
           SYS_mprotect,     SYS_madvise,       SYS_brk,
           SYS_futex,        SYS_rt_sigaction,  SYS_rt_sigprocmask,
           SYS_rt_sigreturn, SYS_sigaltstack,   SYS_restart_syscall,
           SYS_nanosleep,    SYS_clock_gettime, SYS_clock_nanosleep,
           SYS_gettimeofday, SYS_getrandom,     SYS_getpid,
           SYS_gettid,       SYS_getrusage,     SYS_sched_yield,
           SYS_sysinfo,      SYS_uname,         SYS_sched_getaffinity,
           SYS_wait4,        SYS_exit,          SYS_exit_group,
       })
    filter.answer(call, SECCOMP_RET_ALLOW);
  filter.answer(SYS_clone3, kUnknown);
  // abort() sends itself a signal; nobody else gets one.
  filter.answerIfIs(SYS_tgkill, 0, static_cast<std::uint32_t>(getpid()), SECCOMP_RET_ALLOW);
  return filter.install(kRefuse);
}

Outcome enterProgramSandbox() {
  constexpr std::uint32_t kWriting = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | O_APPEND;
  Filter filter;
  for (const long call : {
         SYS_socket, SYS_socketpair, SYS_connect, SYS_bind, SYS_listen, SYS_accept, SYS_accept4,
             SYS_sendto, SYS_sendmsg, SYS_sendmmsg, SYS_ptrace, SYS_process_vm_readv, SYS_kill,
             SYS_process_vm_writev, SYS_tkill, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo,
             SYS_pidfd_send_signal, SYS_mknodat, SYS_mkdirat, SYS_unlinkat, SYS_renameat2,
             SYS_linkat, SYS_symlinkat, SYS_fchmod, SYS_fchmodat, SYS_fchown, SYS_fchownat,
             SYS_truncate, SYS_ftruncate, SYS_utimensat, SYS_setxattr, SYS_lsetxattr, SYS_fsetxattr,
             SYS_removexattr, SYS_mount, SYS_umount2, SYS_unshare, SYS_setns, SYS_chroot,
             SYS_pivot_root, SYS_bpf, SYS_perf_event_open, SYS_userfaultfd, SYS_keyctl, SYS_add_key,
             SYS_request_key, SYS_memfd_create, SYS_renameat,
#if defined(__x86_64__)
             SYS_fork, SYS_vfork, SYS_creat, SYS_mknod, SYS_mkdir, SYS_rmdir, SYS_unlink,
             SYS_rename, SYS_link, SYS_symlink, SYS_chmod, SYS_chown, SYS_lchown, SYS_utime,
             SYS_utimes, SYS_futimesat,
#endif
       })
    filter.answer(call, kRefuse);
  for (const long call : {SYS_clone3, SYS_io_uring_setup, SYS_openat2})
    filter.answer(call, kUnknown);
  filter.answerByBits(SYS_clone, 0, CLONE_THREAD, SECCOMP_RET_ALLOW, kRefuse);
  filter.answerByBits(SYS_openat, 2, kWriting, kRefuse, SECCOMP_RET_ALLOW);
#if defined(__x86_64__)
  filter.answerByBits(SYS_open, 1, kWriting, kRefuse, SECCOMP_RET_ALLOW);
#endif
  filter.answerIfIs(SYS_tgkill, 0, static_cast<std::uint32_t>(getpid()), SECCOMP_RET_ALLOW);
  return filter.install(SECCOMP_RET_ALLOW);
}

}  // namespace runnel::reader
