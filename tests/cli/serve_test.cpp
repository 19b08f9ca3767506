// SPDX-License-Identifier: Apache-2.0
// `runnel serve` as operators run it: started, asked, logged, told to end.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/model/sampling_keys.h"
#include "tests/cli/program.h"
#include "tests/support/chat_model.h"
#include "tests/support/initial_state.h"
#include "tests/support/temporary_directory.h"

extern char** environ;

namespace runnel {
namespace {

class CliServe : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::string(RUNNEL_EMULATOR).empty()) return;
    GTEST_SKIP() << "SKIPPED: the program runs in an emulator, which signals would end";
  }
  ~CliServe() override {
    if (child_ != 0) ::kill(child_, SIGKILL);
    if (child_ != 0) ::waitpid(child_, nullptr, 0);
  }

  // The first line that it says.
  std::string start(std::vector<std::string> more, const std::string& model = test::chat_model()) {
    std::vector<std::string> words = {RUNNEL_PROGRAM, "serve", model, "--port", "0"};
    words.insert(words.end(), more.begin(), more.end());
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    int out[2] = {};
    if (::pipe(out) != 0) throw std::runtime_error("cannot make a pipe");
    const std::string err = directory_ / "err";
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err.c_str(), O_WRONLY | O_CREAT,
                                     0600);
    posix_spawn_file_actions_addclose(&actions, out[0]);
    if (::posix_spawn(&child_, pointers[0], &actions, nullptr, pointers.data(), environ) != 0)
      throw std::runtime_error("cannot start the program");
    posix_spawn_file_actions_destroy(&actions);
    ::close(out[1]);
    std::string line;
    for (char c = 0; ::read(out[0], &c, 1) == 1 && c != '\n';) line += c;
    ::close(out[0]);
    return line;
  }

  int end() {
    ::kill(child_, SIGTERM);
    int status = 0;
    ::waitpid(child_, &status, 0);
    child_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  // All that the server at `line`'s address answers to a request.
  static std::string ask(const std::string& line, const std::string& body) {
    const std::size_t at = line.find("//127.0.0.1:");
    if (at == std::string::npos) return "no address in: " + line;
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(line.substr(at + 12))));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int client = ::socket(AF_INET, SOCK_STREAM, 0);
    if (::connect(client, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
      return "cannot connect";
    const std::string request =
        "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: "
        "application/json\r\nContent-Length: " +
        std::to_string(body.size()) + "\r\n\r\n" + body;
    EXPECT_EQ(::send(client, request.data(), request.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(request.size()));
    const timeval time{.tv_sec = 60, .tv_usec = 0};
    ::setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time));
    std::string said;
    char bytes[4096];
    for (ssize_t n = 0; (n = ::recv(client, bytes, sizeof(bytes), 0)) > 0;)
      said.append(bytes, static_cast<std::size_t>(n));
    ::close(client);
    return said;
  }

  test::TemporaryDirectory directory_;
  pid_t child_ = 0;
};

TEST_F(CliServe, EndsWellOnSigtermAndHasLoggedEveryAnswerAsJson) {
  const std::string line = start({"--log-format", "json", "--model-name", "parrot"});
  const std::string said =
      ask(line, R"({"model": "parrot", "prompt": "secret words", "max_tokens": 2})");
  ASSERT_EQ(said.substr(0, 15), "HTTP/1.1 200 OK") << said;
  const std::size_t at = said.find("X-Request-Id: ") + 14;
  const std::string id = said.substr(at, said.find('\r', at) - at);
  EXPECT_EQ(end(), 0);
  const std::string log = test::read_text(directory_ / "err");
  const nlohmann::json entry = nlohmann::json::parse(log.substr(0, log.find('\n')));
  EXPECT_EQ(entry.at("id"), id);
  EXPECT_EQ(entry.at("status"), 200);
  EXPECT_EQ(log.find("secret"), std::string::npos) << log;
}

TEST_F(CliServe, WhatNobodySaysOfTheSamplingIsAsTheModelsFileRecommends) {
  const std::string model = directory_ / "keys.gguf";
  test::write_chat_model(model, [](GgufWriter& w) {
    for (const char* key : {"temp=0", "dry_multiplier=3", "dry_allowed_length=1"})
      EXPECT_TRUE(set_sampling_key(key, w));
  });
  const auto text = [&](const std::vector<std::string>& options, const std::string& fields) {
    const std::string said =
        ask(start(options, model),
            R"({"prompt": "abcabc", "max_tokens": 40, "ignore_end": true)" + fields + "}");
    EXPECT_EQ(said.substr(0, 15), "HTTP/1.1 200 OK") << said;
    EXPECT_EQ(end(), 0);
    return nlohmann::json::parse(said.substr(said.find("\r\n\r\n") + 4)).at("choices").at(0).dump();
  };
  const std::string dry = text({}, "");
  const std::string greedy = text({"--dry-multiplier", "0"}, "");
  EXPECT_NE(dry, greedy) << "the case is not one in which DRY matters";
  EXPECT_EQ(text({}, R"(, "dry_multiplier": 0)"), greedy);
  EXPECT_EQ(text({"--dry-multiplier", "0"}, R"(, "dry_multiplier": 3)"), dry);
  EXPECT_EQ(text({}, R"(, "temperature": 0, "seed": 5)"), dry) << "0 is greedy";
}

TEST_F(CliServe, WritesItsStatesBeforeItEnds) {
  const std::string line = start({"--states", directory_.path(), "--no-autosave"});
  const std::string said =
      ask(line, R"({"prompt": "words", "max_tokens": 2, "conversation": "c"})");
  ASSERT_EQ(said.substr(0, 15), "HTTP/1.1 200 OK") << said;
  EXPECT_EQ(end(), 0);
  EXPECT_TRUE(std::filesystem::exists(directory_ / "c.state"));
}

TEST_F(CliServe, BeginsFromAStateAsRunDoes) {
  const auto model = Model::load(test::chat_model(), {.device = "cpu", .threads = 1});
  ASSERT_TRUE(model);
  const std::string file = directory_ / "tuned.snap";
  ASSERT_TRUE(test::random_initial_state(*model).save(file));
  const test::Outcome run =
      test::run_program({"run", test::chat_model(), "--load", file, "-p", "abc", "-n", "12",
                         "--temp", "0", "--ignore-end", "-t", "1"});
  ASSERT_EQ(run.code, 0) << run.err;
  const std::string said =
      ask(start({"--load", file}),
          R"({"prompt": "abc", "max_tokens": 12, "temperature": 0, "ignore_end": true})");
  EXPECT_EQ(end(), 0);
  ASSERT_EQ(said.substr(0, 15), "HTTP/1.1 200 OK") << said;
  const auto body = nlohmann::json::parse(said.substr(said.find("\r\n\r\n") + 4));
  const std::string text = body.at("choices").at(0).at("text");
  EXPECT_NE(run.out.find(text), std::string::npos) << run.out << " and not " << text;
}

TEST_F(CliServe, RefusesToBeginFromALaterSnapshot) {
  const std::string file = directory_ / "later.snap";
  const test::Outcome run = test::run_program(
      {"run", test::chat_model(), "-p", "abc", "-n", "1", "--temp", "0", "--save", file});
  ASSERT_EQ(run.code, 0) << run.err;
  const test::Outcome served =
      test::run_program({"serve", test::chat_model(), "--port", "0", "--load", file});
  EXPECT_EQ(served.code, 1);
  EXPECT_NE(served.err.find("later.snap: the snapshot was taken after "), std::string::npos)
      << served.err;
}

TEST_F(CliServe, TellsASecondServerWhoseFolderItIs) {
  start({"--states", directory_.path()});
  const test::Outcome second = test::run_program(
      {"serve", test::chat_model(), "--port", "0", "--states", directory_.path()});
  EXPECT_NE(second.code, 0);
  EXPECT_NE(second.err.find("another server keeps its states there"), std::string::npos)
      << second.err;
  EXPECT_EQ(end(), 0);
}

TEST_F(CliServe, SaysAnIpv6AddressAsAUrl) {
  const std::string line = start({"--host", "::1"});
  if (line.empty()) GTEST_SKIP() << "SKIPPED: this machine has no IPv6 loopback";
  EXPECT_NE(line.find("http://[::1]:"), std::string::npos) << line;
  EXPECT_EQ(end(), 0);
}

}  // namespace
}  // namespace runnel
