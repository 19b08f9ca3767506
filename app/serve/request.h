// SPDX-License-Identifier: Apache-2.0
// The bodies of /v1/chat/completions, /v1/completions and /v1/embeddings, read and checked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "app/serve/json_fields.h"
#include "app/serve/request_constraint.h"
#include "app/serve/request_tools.h"
#include "runnel/chat.h"
#include "runnel/generation.h"

namespace runnel::serve {

/// A text, or the tokens of one. Empty: goes on from a kept state.
using Prompt = std::variant<std::string, std::vector<TokenId>>;

/// What a client asks for.
struct Request {
  bool chat = false;                  // else a completion
  std::vector<ChatMessage> messages;  // of a chat
  std::vector<Prompt> prompts;        // of a completion: at least one, each has its own answer
  GenerationOptions generation;
  Thinking thinking = Thinking::as_trained;
  std::string thinking_field;   // that said so
  std::size_t answers = 1;      // to each prompt
  std::size_t best_of = 1;      // of so many, the likeliest
  bool shows_logprobs = false;  // generation.logprobs are for the client
  bool echo = false;            // the prompt comes first in the answer, with its log-probabilities
  std::vector<std::pair<std::string, float>> text_bias;  // of logits, before the texts are split
  std::optional<AskedConstraint> constraint;             // what the answers must be
  AskedTools tools;                                      // that a chat's answers may call
  bool stream = false;
  bool include_usage = false;         // a last chunk of the stream with the token counts
  std::string conversation;           // id of the kept state to continue, or empty
  Expectation expect;                 // where it must stand
  std::string model;                  // as given, or empty
  std::vector<std::string> warnings;  // what was asked for and is done otherwise

  /// Takes an If-Match header, empty for none, as the expected generation. @return 400 if it is none of our ETags.
  std::optional<HttpError> match(std::string_view if_match);
};

/// What a request may ask for, and what it gets if it does not say.
struct RequestLimits {
  GenerationOptions defaults;
  std::uint64_t most_tokens = 4096;  // generated for one request
  std::string model;                 // the one name that requests may give
  bool any_model = false;            // they may give any other too

  /// The model's name in the answer to a request that gave `asked`.
  std::string name_of(const std::string& asked) const {
    return any_model && !asked.empty() ? asked : model;
  }
};

/// @return the request, or what is wrong with it.
std::variant<Request, HttpError> read_request(std::string_view body, bool chat,
                                              const RequestLimits& limits);

/// What a client asks for that wants embeddings.
struct EmbeddingRequest {
  std::string model;          // as given, or empty
  std::vector<Prompt> texts;  // at least one
  EmbeddingOptions options;
  bool packed = false;  // base64
};

/// @param width  the numbers of the model's embeddings
std::variant<EmbeddingRequest, HttpError> read_embedding_request(std::string_view body,
                                                                 std::int64_t width,
                                                                 const RequestLimits& limits);

/// The field `model`. @return 404 unless it is absent or the one that is served
std::optional<HttpError> read_model(Fields& fields, const RequestLimits& limits,
                                    std::string& model);

/// The field `name`: a text, a list of texts, a list of token ids, or a list of such lists. One that is absent or an
/// empty list is one empty prompt.
void read_prompts(Fields& fields, const char* name, std::vector<Prompt>& prompts);

/// The JSON object of a body.
std::variant<nlohmann::json, HttpError> read_object(std::string_view body);

/// Whether a conversation id is one: 1 to 64 of A-Z a-z 0-9 . _ - that do not begin with a dot, so
/// that it can name a file.
bool is_conversation_id(std::string_view id);
constexpr const char* kConversationIdRule =
    "1 to 64 of the characters A-Z a-z 0-9 . _ -, not beginning with a dot";

}  // namespace runnel::serve
