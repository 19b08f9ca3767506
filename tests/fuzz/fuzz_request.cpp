// SPDX-License-Identifier: Apache-2.0
// Any bytes as what a client sends: the HTTP layer, the checks of its origin, and the JSON of bodies.
//   input: 1 byte that says where the bytes after it are cut, the bytes
// Requests must be the same whether their bytes come at once or in pieces.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "app/serve/access.h"
#include "app/serve/net/request_reader.h"
#include "app/serve/request.h"

namespace {

using runnel::serve::HttpRequest;
using runnel::serve::RequestReader;

constexpr std::size_t kBodyBytes = 4096;
constexpr std::size_t kMostAnswer = 1024;  // whatever was asked, a refusal is short

void require(bool condition) {
  if (!condition) std::abort();
}

struct Seen {
  std::vector<HttpRequest> requests;
  int wrong = 0;  // status of what ended it
};

// All requests in `bytes`, given in pieces of `piece`.
Seen read_all(std::string_view bytes, std::size_t piece) {
  Seen seen;
  RequestReader reader(kBodyBytes);
  while (!bytes.empty()) {
    reader.append(bytes.substr(0, piece));
    bytes.remove_prefix(std::min(piece, bytes.size()));
    for (bool more = false; !more;) {
      switch (reader.next()) {
        case RequestReader::Event::more:
          more = true;
          break;
        case RequestReader::Event::head:
          break;
        case RequestReader::Event::whole:
          seen.requests.push_back(reader.request());
          break;
        case RequestReader::Event::wrong:
          seen.wrong = reader.problem().status;
          require(seen.wrong >= 400 && reader.problem().message.size() < kMostAnswer);
          return seen;
      }
    }
  }
  return seen;
}

void use(const HttpRequest& request) {
  require(request.body.size() <= kBodyBytes);
  (void)runnel::serve::check_access(request, {.hosts = {"box.local"}});
  (void)runnel::serve::check_access(request, {.api_key = "secret"});
  for (const bool chat : {false, true}) {
    auto read = runnel::serve::read_request(request.body, chat, {.model = "tiny"});
    if (const auto* error = std::get_if<runnel::serve::HttpError>(&read)) {
      require(runnel::serve::to_json(*error).size() < kMostAnswer);
    } else {
      (void)std::get<runnel::serve::Request>(read).match(request.header("If-Match"));
    }
  }
  const auto embedding = runnel::serve::read_embedding_request(request.body, 64, {.model = "tiny"});
  if (const auto* error = std::get_if<runnel::serve::HttpError>(&embedding))
    require(runnel::serve::to_json(*error).size() < kMostAnswer);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Seen whole = read_all(bytes, bytes.size() + 1);
  const Seen cut = read_all(bytes, std::size_t{1} + data[0]);
  require(whole.requests.size() == cut.requests.size() && (whole.wrong == 0) == (cut.wrong == 0));
  for (std::size_t i = 0; i < whole.requests.size(); ++i) {
    const HttpRequest &a = whole.requests[i], &b = cut.requests[i];
    require(a.method == b.method && a.path == b.path && a.body == b.body && a.headers == b.headers);
    use(a);
  }
  // A body alone reaches the reader of fields more often.
  if (size <= kBodyBytes) use({.body = std::string(bytes)});
  return 0;
}
