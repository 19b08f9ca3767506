// SPDX-License-Identifier: Apache-2.0
#include "tests/cli/program.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <stdexcept>
#include <thread>

#include "tests/support/chat_model.h"
#include "tests/support/loaded_model.h"
#include "tests/support/temporary_directory.h"

extern char** environ;

namespace runnel::test {
namespace {

// The limit of one run of the program; emulated ones share their cores with other tests.
constexpr std::chrono::seconds kPatience{sizeof RUNNEL_EMULATOR > 1 ? 600 : 60};

std::string slurp(int file) {
  std::string text;
  char bytes[4096];
  ::lseek(file, 0, SEEK_SET);
  for (ssize_t n; (n = ::read(file, bytes, sizeof(bytes))) > 0;)
    text.append(bytes, static_cast<std::size_t>(n));
  ::close(file);
  return text;
}

// An unlinked file: outputs of any length without reading while the program runs.
int anonymous_file(const std::string& contents = "") {
  std::string name = (scratch() / "io-XXXXXX").string();
  const int file = ::mkstemp(name.data());
  if (file < 0) throw std::runtime_error("cannot make a temporary file");
  ::unlink(name.c_str());
  if (::write(file, contents.data(), contents.size()) != static_cast<ssize_t>(contents.size())) {
    throw std::runtime_error("cannot write a temporary file");
  }
  ::lseek(file, 0, SEEK_SET);
  return file;
}

}  // namespace

const std::filesystem::path& scratch() {
  static const TemporaryDirectory directory;
  return directory.path();
}

const std::string& chat_model() {
  static const std::string path = [] {
    std::string file = (scratch() / "tiny.gguf").string();
    write_chat_model(file);
    return file;
  }();
  return path;
}

const std::string& bare_model() {
  static const std::string path = [] {
    std::string file = (scratch() / "bare.gguf").string();
    write_gguf(chat_weights(), file);
    return file;
  }();
  return path;
}

Outcome run_program(const std::vector<std::string>& arguments, const std::string& input) {
  const int in = anonymous_file(input);
  const int out = anonymous_file();
  const int err = anonymous_file();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err, STDERR_FILENO);

  std::vector<std::string> words;
  if (const std::string emulator = RUNNEL_EMULATOR; !emulator.empty()) {
    for (std::size_t at = 0; at <= emulator.size();) {  // words of a command
      const std::size_t end = std::min(emulator.find(' ', at), emulator.size());
      words.push_back(emulator.substr(at, end - at));
      at = end + 1;
    }
  }
  words.emplace_back(RUNNEL_PROGRAM);
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);

  Outcome outcome;
  pid_t child = 0;
  const int spawned =
      ::posix_spawnp(&child, pointers[0], &actions, nullptr, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(in);
  if (spawned != 0) {
    ADD_FAILURE() << "cannot start " << words[0];
    return outcome;
  }
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > deadline) {
      ADD_FAILURE() << "runnel " << (arguments.empty() ? "" : arguments[0]) << " did not end";
      ::kill(child, SIGKILL);
      ::waitpid(child, &status, 0);
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  outcome.out = slurp(out);
  outcome.err = slurp(err);
  return outcome;
}

}  // namespace runnel::test
