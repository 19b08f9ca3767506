// SPDX-License-Identifier: Apache-2.0
// A running server with a tiny model, and clients for it.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "app/serve/server.h"
#include "tests/support/temporary_directory.h"

namespace runnel::test {

using Json = nlohmann::json;

using Headers = std::vector<std::pair<std::string, std::string>>;

/// What came back.
struct Reply {
  int status = -1;  // -1: nothing
  Json body;
  std::string raw;   // the body
  std::string head;  // status line and headers

  /// The value of a header, empty if there is none.
  std::string header(const std::string& name) const;
};

/// Lays out the last message as it is and all before it anew.
inline constexpr std::string_view kLastAloneTemplate =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{{ m.content if loop.last else '(said)' }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

class Serving : public ::testing::Test {
 protected:
  ~Serving() override { stop(); }

  /// Starts a server on a free port; stops the one before. Its defaults are greedy.
  void start(serve::ServerSettings settings = {});
  void stop();

  Reply get(const std::string& path, const Headers& headers = {}) const;
  Reply post(const std::string& path, const Json& body, const Headers& headers = {}) const;
  /// Any request on a connection of its own. Headers replace those of the same name that would be
  /// sent otherwise.
  Reply send(const std::string& method, const std::string& path, const std::string& body,
             const Headers& headers = {}) const;
  Reply chat(const std::string& text, const Json& more = {}) const;

  /// The text of an answer.
  static std::string text(const Reply& reply);
  /// Polls /health until `ready`; fails the test after ten seconds.
  bool wait_for(const std::function<bool(const Json&)>& ready) const;
  /// A socket connected to the server that has sent `bytes`.
  int raw_connection(const std::string& bytes, const char* from = nullptr) const;
  /// What the server still sends there until it closes; fails the test if nothing comes for that long.
  static std::string read_to_end(int client,
                                 std::chrono::seconds timeout = std::chrono::seconds(10));
  /// All that the server says to `bytes` until it closes the connection; it does so within
  /// `timeout`, or the test fails.
  std::string conversation(const std::string& bytes,
                           std::chrono::seconds timeout = std::chrono::seconds(10)) const;
  serve::Server& server() { return *server_; }

  /// Byte tokens and ChatML, unless a suite has another.
  virtual void write_model(const std::filesystem::path& file) const;
  const std::shared_ptr<const Model>& model();
  /// For the next start(): a server of another model.
  void use_model(std::shared_ptr<const Model> model) { model_ = std::move(model); }
  int port() const { return server_->port(); }

  TemporaryDirectory directory_;
  std::string chat_template_;  // a file, before the first start(); empty: the model's own
  /// Makes a file of `text` the chat template.
  void use_template(std::string_view text);

 private:
  std::shared_ptr<const Model> model_;
  std::unique_ptr<serve::Server> server_;
  std::thread thread_;
};

/// The answers in what a server said on one connection.
std::vector<Reply> answers(const std::string& said);

/// The "data:" lines of an event stream, without the last [DONE].
std::vector<Json> events(const std::string& raw);

}  // namespace runnel::test
