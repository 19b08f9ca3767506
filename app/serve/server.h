// SPDX-License-Identifier: Apache-2.0
// The HTTP server: OpenAI's chat and completion interfaces, and conversations whose states are kept.
//
//   RUNNEL_TRY(std::unique_ptr<Server> server, Server::create(model, settings));
//   server->run();                     // until stop()
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/serve/net/http_server.h"
#include "runnel/generation.h"
#include "runnel/model.h"
#include "runnel/result.h"
#include "runnel/snapshot.h"

namespace runnel::serve {

struct ServerSettings {
  std::string host = "127.0.0.1";
  int port = 8080;                     // 0: any free one
  std::string api_key;                 // empty: none; then only this machine is listened to
  GenerationOptions defaults;          // for what requests do not say
  std::uint64_t most_tokens = 4096;    // generated for one request
  std::uint64_t most_prompt = 32'768;  // tokens of one request's prompt
  std::size_t body_bytes = 1 << 20;    // of one request
  std::size_t parallel = 8;            // requests that are answered together
  std::size_t queue = 64;              // requests that wait
  // bytes of all states, those of running requests included
  std::uint64_t state_memory = 256'000'000;
  std::optional<Snapshot>
      initial;  // taken before the first token; what everything begins from; none: the empty state
  std::filesystem::path states;  // folder for saved states; empty: saving is refused
  bool autosave = true;          // with `states`: an answer says 200 when its state is on the disk
  std::chrono::milliseconds request_time{10'000};  // for a client to send a request
  std::chrono::milliseconds idle_time{5'000};      // between requests on one connection
  std::chrono::milliseconds write_time{5'000};     // for a client to take anything of what is sent
  std::size_t connections = 2048;                  // in all
  std::size_t connections_per_address = 512;       // of one client address
  std::vector<std::string> hosts;               // names of this machine that a Host header may bear
  std::string model_name;                       // in place of the model's own
  bool any_model = false;                       // requests may give any other too
  std::function<void(const AccessEntry&)> log;  // called for every answer that has ended
  std::function<void(const std::string&)>
      note;  // called with what an operator should know, from any thread
};

class Server {
 public:
  /// Binds the port.
  /// @return invalid_argument for settings that cannot work together or a model that cannot talk, what initial_state()
  ///         says of `initial`, io if the address cannot be had.
  static Result<std::unique_ptr<Server>> create(std::shared_ptr<const Model> model,
                                                ServerSettings settings);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  int port() const;

  /// Serves until stop().
  Status run();

  /// From any thread; returns when all is said and written, and ends run(). GET /ready says no from
  /// the beginning, running answers have `grace` to end and then end with an error, states that are
  /// not on the disk are written. @return io if one could not be.
  Status stop(std::chrono::milliseconds grace = std::chrono::milliseconds(0));

 private:
  struct Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// An entry of the access log as one line of JSON.
/// @param time  when, as it shall stand there
std::string to_json_line(const AccessEntry& entry, const std::string& time);

}  // namespace runnel::serve
