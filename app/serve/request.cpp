// SPDX-License-Identifier: Apache-2.0
#include "app/serve/request.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>

#include "runtime/base/number.h"
#include "runtime/text/json_file.h"

namespace runnel::serve {
namespace {

constexpr std::size_t kMostMessages = 4096;
constexpr std::size_t kMostStops = 16;
constexpr std::size_t kMostStopBytes = 256;
constexpr std::size_t kMostModelBytes = 60;
constexpr std::size_t kMostPrompts = 64;
constexpr std::size_t kMostBreakers = 16;
constexpr std::size_t kMostBreakerBytes = 64;
constexpr std::int64_t kMostAnswers = 16;
constexpr std::size_t kMostBiases = 1024;
constexpr std::size_t kMostBiasBytes = 256;

// A text, or a list of {"type": "text", "text": …} as newer clients send it.
std::optional<std::string> read_content(const nlohmann::json& content, bool assistant,
                                        Fields& fields) {
  if (content.is_string()) return content.get<std::string>();
  if (content.is_null() && assistant) return std::string();
  std::string all;
  if (content.is_array()) {
    for (const nlohmann::json& part : content) {
      const std::string type = part.is_object() && part.contains("type") && part["type"].is_string()
                                   ? part["type"].get<std::string>()
                                   : "";
      if (type != "text" || !part.contains("text") || !part["text"].is_string()) {
        fields.refuse("messages: a content part of type \"" + type.substr(0, 40) +
                          "\" is not supported by this server, expected \"text\"",
                      "messages", "unsupported_field");
        return {};
      }
      all += part["text"].get<std::string>();
    }
    return all;
  }
  fields.refuse("messages: a content is neither a text nor a list of text parts", "messages");
  return {};
}

void read_messages(Fields& fields, std::vector<ChatMessage>& messages) {
  const nlohmann::json* list = fields.value("messages");
  if (list == nullptr || !list->is_array() || list->empty() || list->size() > kMostMessages) {
    fields.refuse(
        "messages: expected a list of 1 to " + std::to_string(kMostMessages) + " messages",
        "messages");
    return;
  }
  for (const nlohmann::json& entry : *list) {
    const bool calls = entry.is_object() && entry.contains("tool_calls");
    if (!entry.is_object() || !entry.contains("role") || !entry["role"].is_string() ||
        (!entry.contains("content") && !calls)) {
      fields.refuse("messages: expected objects with role and content", "messages");
      return;
    }
    std::string role = entry["role"].get<std::string>();
    if (role == "developer") role = "system";
    if (role != "system" && role != "user" && role != "assistant" && role != "tool") {
      fields.refuse(
          "messages: the role " + role.substr(0, 40) +
              " is not supported by this server, expected system, user, assistant or tool",
          "messages", "unsupported_field");
      return;
    }
    for (const auto& [name, value] : entry.items()) {
      if (name == "role" || name == "content" || name == "refusal" || name == "name" ||
          name == "reasoning_content" || value.is_null())  // thoughts are not read again
        continue;
      if (name == "annotations" && value.is_array() && value.empty()) continue;
      if (name == "tool_calls" && role == "assistant") continue;
      if (name == "tool_call_id" && role == "tool") continue;
      fields.refuse(
          "messages: the field " + name.substr(0, 40) + " is not supported by this server",
          "messages", "unsupported_field");
      return;
    }
    static const nlohmann::json kNull;
    const nlohmann::json& said = entry.contains("content") ? entry["content"] : kNull;
    std::optional<std::string> content = read_content(said, role == "assistant", fields);
    if (!content) return;
    messages.push_back({std::move(role), std::move(*content)});
    read_calls(entry, messages.back(), fields);
  }
  if (messages.back().role == "assistant") {
    fields.refuse("messages: the last one is the assistant's, expected one to answer", "messages");
  }
}

// Token ids, or nothing if the list holds anything else.
std::optional<std::vector<TokenId>> read_tokens(const nlohmann::json& list) {
  std::vector<TokenId> tokens;
  for (const nlohmann::json& id : list) {
    if (!id.is_number_unsigned()) return {};
    const auto token = id.get<std::uint64_t>();
    if (token > std::numeric_limits<TokenId>::max()) return {};
    tokens.push_back(static_cast<TokenId>(token));
  }
  return tokens;
}

// What only one prompt can have, and that there is something to answer.
void check_prompts(Fields& fields, const Request& request) {
  const bool one = request.prompts.size() == 1;
  if (!one && !request.conversation.empty()) {
    return fields.refuse("prompt is a list of " + std::to_string(request.prompts.size()) +
                             ", expected one for a conversation",
                         "prompt");
  }
  if (one && !request.conversation.empty()) return;
  for (const Prompt& prompt : request.prompts) {
    if (std::visit([](const auto& p) { return p.empty(); }, prompt)) {
      return fields.refuse(
          "prompt: is empty, expected a text or tokens (or a conversation to continue)", "prompt");
    }
  }
}

// DRY, by the names of llama.cpp's server.
void read_dry(Fields& fields, SamplingOptions& s) {
  if (const auto v = fields.number("dry_multiplier", 0, 100))
    s.dry_multiplier = static_cast<float>(*v);
  if (const auto v = fields.number("dry_base", 1, 100)) s.dry_base = static_cast<float>(*v);
  if (const auto v = fields.integer("dry_allowed_length", 1, 1'000'000))
    s.dry_allowed_length = static_cast<std::int32_t>(*v);
  constexpr std::int32_t kFarthest = SamplingOptions::kMaxPenaltyWindow;
  if (const auto v = fields.integer("dry_penalty_last_n", -1, kFarthest))
    s.dry_range = *v == -1 ? kFarthest : static_cast<std::int32_t>(*v);
  if (fields.value("dry_sequence_breakers") == nullptr) return;
  s.dry_breakers = fields.texts("dry_sequence_breakers", kMostBreakers);
  for (const std::string& breaker : s.dry_breakers) {
    if (!breaker.empty() && breaker.size() <= kMostBreakerBytes) continue;
    return fields.refuse("dry_sequence_breakers: a text has " + std::to_string(breaker.size()) +
                             " bytes, expected 1 to " + std::to_string(kMostBreakerBytes),
                         "dry_sequence_breakers");
  }
}

// The other samplers and their order, by the names of llama.cpp's server where it has them.
void read_chain(Fields& fields, SamplingOptions& s) {
  const auto number = [&fields](const char* name, double least, double most, float& to) {
    if (const auto v = fields.number(name, least, most)) to = static_cast<float>(*v);
  };
  number("top_n_sigma", -1, 1000, s.top_n_sigma);
  number("typical_p", 1e-6, 1, s.typical_p);
  number("xtc_probability", 0, 1, s.xtc_probability);
  number("xtc_threshold", 0, 1, s.xtc_threshold);
  number("dynatemp_range", 0, 100, s.dynatemp_range);
  number("dynatemp_exponent", 0, 100, s.dynatemp_exponent);
  number("mirostat_tau", 0, 100, s.mirostat_tau);
  number("mirostat_eta", 0, 1, s.mirostat_eta);
  if (s.top_n_sigma < 0.0F && s.top_n_sigma != -1.0F)
    return fields.refuse("top_n_sigma: expected a number above 0, or 0 or -1 (off)", "top_n_sigma");
  if (const auto v = fields.integer("mirostat", 0, 2)) {
    if (*v == 1) return fields.refuse("mirostat is 1, expected 0 (off) or 2", "mirostat");
    s.mirostat = static_cast<std::int32_t>(*v);
  }
  if (const auto v = fields.integer("no_repeat_ngram_size", 0, SamplingOptions::kMaxPenaltyWindow))
    s.no_repeat_ngram = static_cast<std::int32_t>(*v);
  if (fields.value("banned_strings") != nullptr) {
    s.banned_texts = fields.texts("banned_strings", SamplingOptions::kMostBannedTexts);
    for (const std::string& text : s.banned_texts) {
      if (!text.empty() && text.size() <= SamplingOptions::kMostBannedBytes) continue;
      return fields.refuse("banned_strings: a text has " + std::to_string(text.size()) +
                               " bytes, expected 1 to " +
                               std::to_string(SamplingOptions::kMostBannedBytes),
                           "banned_strings");
    }
  }
  if (fields.value("samplers") == nullptr) return;
  std::string names;  // a list, or one text with ; between them
  for (const std::string& name : fields.texts("samplers", 64)) names += name + ";";
  if (fields.error()) return;
  Result<std::vector<ChainSampler>> order = parse_sampler_order(names);
  if (!order) return fields.refuse("samplers: " + order.error().message, "samplers");
  s.order = *std::move(order);
}

void read_sampling(Fields& fields, SamplingOptions& s) {
  if (const auto v = fields.number("temperature", 0, 2)) s.temperature = static_cast<float>(*v);
  if (const auto v = fields.number("top_p", 1e-6, 1)) s.top_p = static_cast<float>(*v);
  if (const auto v = fields.integer("top_k", 0, 1'000'000)) s.top_k = static_cast<std::int32_t>(*v);
  if (const auto v = fields.number("min_p", 0, 0.999)) s.min_p = static_cast<float>(*v);
  if (const auto v = fields.number("repetition_penalty", 0.01, 100))
    s.repetition_penalty = static_cast<float>(*v);
  if (const auto v = fields.number("presence_penalty", -2, 2))
    s.presence_penalty = static_cast<float>(*v);
  if (const auto v = fields.number("frequency_penalty", -2, 2))
    s.frequency_penalty = static_cast<float>(*v);
  read_dry(fields, s);
  if (const auto v = fields.integer("seed", std::numeric_limits<std::int64_t>::min(),
                                    std::numeric_limits<std::int64_t>::max())) {
    s.seed = static_cast<std::uint64_t>(*v);
  } else {
    std::random_device entropy;
    s.seed = (static_cast<std::uint64_t>(entropy()) << 32) | entropy();
  }
  read_chain(fields, s);
}

// One bias: a number or false, which forbids. OpenAI: -100 bans a token.
std::optional<float> read_bias(const nlohmann::json& value) {
  constexpr double kFloatMost = 1e6;
  if (value == false) return -std::numeric_limits<float>::infinity();
  if (!value.is_number() || !(std::abs(value.get<double>()) <= kFloatMost)) return {};
  const double amount = value.get<double>();
  return amount <= -100 ? -std::numeric_limits<float>::infinity() : static_cast<float>(amount);
}

// The token that a key names, or none if it is a text.
std::optional<TokenId> read_id(const std::string& key) {
  const bool digits =
      !key.empty() && key.size() < 9 &&
      std::all_of(key.begin(), key.end(), [](char c) { return c >= '0' && c <= '9'; });
  return digits ? std::optional(std::stoi(key)) : std::nullopt;
}

// OpenAI's object of ids, or of texts as llama.cpp's server takes them; or its list of [id or text, bias].
void read_biases(Fields& fields, Request& request) {
  constexpr const char* kExpected =
      "logit_bias: expected token ids or texts with numbers such as {\"42\": -100} or "
      "[[42, -100], [\" text\", false]]";
  const nlohmann::json* given = fields.value("logit_bias");
  if (given == nullptr) return;
  if ((!given->is_object() && !given->is_array()) || given->size() > kMostBiases)
    return fields.refuse("logit_bias: expected an object of at most " +
                             std::to_string(kMostBiases) + " token ids or texts",
                         "logit_bias");
  const auto take = [&](std::optional<TokenId> id, const std::string& text,
                        const nlohmann::json& value) {
    const std::optional<float> bias = read_bias(value);
    const bool sized = id || (!text.empty() && text.size() <= kMostBiasBytes);
    if (!bias || !sized) return fields.refuse(kExpected, "logit_bias");
    if (id) {
      request.generation.sampling.logit_bias[*id] = *bias;
    } else {
      request.text_bias.emplace_back(text, *bias);
    }
  };
  if (given->is_object()) {
    for (const auto& [key, value] : given->items()) take(read_id(key), key, value);
    return;
  }
  for (const nlohmann::json& pair : *given) {
    if (!pair.is_array() || pair.size() != 2) return fields.refuse(kExpected, "logit_bias");
    const nlohmann::json& key = pair[0];
    if (key.is_string()) {
      take({}, key.get<std::string>(), pair[1]);
    } else if (key.is_number_unsigned() && key.get<std::uint64_t>() < 1'000'000'000) {
      take(key.get<TokenId>(), {}, pair[1]);
    } else {
      return fields.refuse(kExpected, "logit_bias");
    }
  }
}

void read_stops(Fields& fields, std::vector<std::string>& stops) {
  for (std::string& stop : fields.texts("stop", kMostStops)) {
    if (stop.empty() || stop.size() > kMostStopBytes) {
      fields.refuse("stop: a text has " + std::to_string(stop.size()) + " bytes, expected 1 to " +
                        std::to_string(kMostStopBytes),
                    "stop");
      return;
    }
    stops.push_back(std::move(stop));
  }
}

// By OpenAI's name and by those of vLLM and others.
void read_thinking(Fields& fields, Request& request) {
  const auto choose = [&](bool on, const char* field) {
    request.thinking = on ? Thinking::on : Thinking::off;
    request.thinking_field = field;
  };
  if (const auto effort = fields.text("reasoning_effort")) {
    const bool off = *effort == "none" || *effort == "minimal";
    if (!off && *effort != "low" && *effort != "medium" && *effort != "high") {
      return fields.refuse("reasoning_effort is " + effort->substr(0, 40) +
                               ", expected none, minimal, low, medium or high",
                           "reasoning_effort");
    }
    choose(!off, "reasoning_effort");
  }
  if (const auto v = fields.boolean("enable_thinking")) choose(*v, "enable_thinking");
  const nlohmann::json* arguments = fields.value("chat_template_kwargs");
  if (arguments == nullptr) return;
  if (!arguments->is_object())
    return fields.refuse("chat_template_kwargs: expected an object", "chat_template_kwargs");
  Fields inner(*arguments);
  if (const auto v = inner.boolean("enable_thinking")) choose(*v, "chat_template_kwargs");
  inner.finish();
  if (inner.error())
    fields.refuse("chat_template_kwargs: " + inner.error()->message, "chat_template_kwargs");
}

// An id, or {"id": ID, "expect": GENERATION, "position": TOKENS}.
void read_conversation(Fields& fields, Request& request) {
  const nlohmann::json* given = fields.value("conversation");
  if (given == nullptr) return;
  if (given->is_string()) {
    request.conversation = given->get<std::string>();
  } else if (given->is_object()) {
    Fields inner(*given);
    request.conversation = inner.text("id").value_or("");
    if (const auto v = inner.integer("expect", 0, std::numeric_limits<std::int64_t>::max()))
      request.expect.generation = static_cast<std::uint64_t>(*v);
    if (const auto v = inner.integer("position", 0, std::numeric_limits<std::int64_t>::max()))
      request.expect.position = static_cast<std::uint64_t>(*v);
    inner.finish();
    if (inner.error())
      return fields.refuse("conversation: " + inner.error()->message, "conversation");
  }
  if (!is_conversation_id(request.conversation))
    fields.refuse(std::string("conversation: expected ") + kConversationIdRule, "conversation");
}

// What tools are at odds with, and results of calls that nobody made.
void check_tool_fields(Fields& fields, const Request& request) {
  if (request.tools.may_call() && request.constraint) {
    return fields.refuse("tools and " + request.constraint->field +
                             " say both what the answer must be, expected one of them, or "
                             "\"tool_choice\": \"none\"",
                         request.constraint->field);
  }
  if (!request.conversation.empty()) return;  // it may have read the call
  std::set<std::string_view> made;
  for (const ChatMessage& message : request.messages) {
    for (const ToolCall& call : message.tool_calls) made.insert(call.id);
    if (message.role != "tool" || made.contains(message.tool_call_id)) continue;
    return fields.refuse("messages: the tool_call_id \"" + message.tool_call_id.substr(0, 40) +
                             "\" is that of no call before it",
                         "messages");
  }
}

// How many answers, and the probabilities of their tokens.
void read_answers(Fields& fields, Request& request) {
  GenerationOptions& generation = request.generation;
  if (const auto v = fields.integer("n", 1, kMostAnswers))
    request.answers = static_cast<std::size_t>(*v);
  request.best_of = request.answers;
  if (request.chat) {
    request.shows_logprobs = fields.boolean("logprobs").value_or(false);
    const auto top = fields.integer("top_logprobs", 0, GenerationOptions::kMostLogprobs);
    if (top && *top > 0 && !request.shows_logprobs)
      return fields.refuse("top_logprobs needs \"logprobs\": true", "top_logprobs");
    if (request.shows_logprobs) generation.logprobs = static_cast<std::int32_t>(top.value_or(0));
  } else {
    const nlohmann::json* given = fields.value("logprobs");
    if (given == nullptr || *given != false) {
      const auto top = fields.integer("logprobs", 0, GenerationOptions::kMostLogprobs);
      request.shows_logprobs = top.has_value();
      if (top) generation.logprobs = static_cast<std::int32_t>(*top);
    }
    request.echo = fields.boolean("echo").value_or(false);
    if (const auto v = fields.integer("best_of", 1, kMostAnswers))
      request.best_of = static_cast<std::size_t>(*v);
    if (request.best_of < request.answers)
      return fields.refuse("best_of is " + std::to_string(request.best_of) +
                               ", expected at least n, which is " + std::to_string(request.answers),
                           "best_of");
    if (request.best_of > request.answers) {
      if (request.stream)
        return fields.refuse("best_of: the best is known at the end only, so there is no stream",
                             "best_of");
      generation.logprobs = std::max(generation.logprobs, 0);
    }
  }
  if (const auto v = fields.boolean("post_sampling_probs"); v && *v) {
    if (!request.shows_logprobs)
      return fields.refuse("post_sampling_probs needs logprobs", "post_sampling_probs");
    generation.logprobs_of_draw = true;
  }
  if (request.conversation.empty() || (request.best_of == 1 && !request.echo)) return;
  fields.refuse("a conversation goes on with one answer: n, best_of and echo are not for it",
                request.echo ? "echo" : "n");
}

// What OpenAI's interface has and this server does not do, with the value that asks for nothing.
void refuse_unsupported(Fields& fields, bool chat) {
  for (const char* name :
       {"user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key"}) {
    fields.ignore(name);
  }
  if (chat) {
    fields.only("modalities", nlohmann::json::array({"text"}));
  } else {
    fields.only("suffix", "");
  }
}

}  // namespace

bool is_conversation_id(std::string_view id) {
  return !id.empty() && id.size() <= 64 && id[0] != '.' &&
         std::all_of(id.begin(), id.end(), [](char c) {
           return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
                  c == '.' || c == '_' || c == '-';
         });
}

std::optional<HttpError> Request::match(std::string_view if_match) {
  if (if_match.empty()) return {};
  const bool quoted = if_match.size() > 2 && if_match.front() == '"' && if_match.back() == '"';
  const std::string_view digits = quoted ? if_match.substr(1, if_match.size() - 2) : "";
  const auto expected = number_in<std::uint64_t>(digits);
  if (!expected) {
    return HttpError{400, "If-Match is not one ETag of this server, such as \"17\"", "",
                     "bad_request"};
  }
  if (conversation.empty())
    return HttpError{400, "If-Match needs a conversation", "conversation", "invalid_value"};
  expect.generation = expected;
  return {};
}

void read_prompts(Fields& fields, const char* name, std::vector<Prompt>& prompts) {
  const nlohmann::json* given = fields.value(name);
  bool wrong = false;
  if (given != nullptr && given->is_string()) {
    prompts.emplace_back(given->get<std::string>());
  } else if (given != nullptr && given->is_array() && !given->empty()) {
    if (given->front().is_number()) {
      std::optional<std::vector<TokenId>> tokens = read_tokens(*given);
      wrong = !tokens;
      if (tokens) prompts.emplace_back(*std::move(tokens));
    } else if (given->size() > kMostPrompts) {
      return fields.refuse(std::string(name) + " is a list of " + std::to_string(given->size()) +
                               ", at most " + std::to_string(kMostPrompts) +
                               " are answered in one request",
                           name);
    } else {
      for (const nlohmann::json& one : *given) {
        std::optional<std::vector<TokenId>> tokens;
        if (one.is_array()) tokens = read_tokens(one);
        if (one.is_string()) {
          prompts.emplace_back(one.get<std::string>());
        } else if (tokens) {
          prompts.emplace_back(*std::move(tokens));
        }
      }
      wrong = prompts.size() != given->size();
    }
  } else {
    wrong = given != nullptr && !given->is_array();
  }
  if (wrong) {
    return fields.refuse(
        std::string(name) +
            ": expected a text, a list of texts, a list of token ids or a list of such lists",
        name);
  }
  if (prompts.empty()) prompts.emplace_back();
}

std::optional<HttpError> read_model(Fields& fields, const RequestLimits& limits,
                                    std::string& model) {
  model = fields.text("model").value_or("").substr(0, kMostModelBytes);
  if (limits.any_model || model.empty() || model == limits.model || model == "default") return {};
  return HttpError{404, "there is no model " + model + " here, only " + limits.model, "model",
                   "model_not_found"};
}

std::variant<nlohmann::json, HttpError> read_object(std::string_view body) {
  Result<nlohmann::json> object = parse_json(body, "the body", {.unique_keys = true});
  if (!object) return HttpError{400, object.error().message, "", "invalid_json"};
  if (!object->is_object())
    return HttpError{400, "the body is not a JSON object", "", "invalid_json"};
  return *std::move(object);
}

std::variant<Request, HttpError> read_request(std::string_view body, bool chat,
                                              const RequestLimits& limits) {
  std::variant<nlohmann::json, HttpError> object = read_object(body);
  if (const auto* error = std::get_if<HttpError>(&object)) return *error;
  Fields fields(std::get<nlohmann::json>(object));
  Request request;
  request.chat = chat;
  request.generation = limits.defaults;

  if (auto error = read_model(fields, limits, request.model)) return *error;
  if (chat) {
    read_messages(fields, request.messages);
    read_thinking(fields, request);
  } else {
    read_prompts(fields, "prompt", request.prompts);
  }
  read_sampling(fields, request.generation.sampling);
  read_biases(fields, request);
  read_stops(fields, request.generation.stop);
  for (const char* name : {"max_tokens", "max_completion_tokens"}) {
    if (name == std::string_view("max_completion_tokens") && !chat) continue;
    // Nothing but the prompt's probabilities may be asked for.
    const bool none = !chat && fields.boolean("echo").value_or(false);
    const auto v = fields.integer(name, none ? 0 : 1, std::numeric_limits<std::int64_t>::max());
    if (!v) continue;
    request.generation.max_tokens = static_cast<std::uint64_t>(*v);
    if (request.generation.max_tokens <= limits.most_tokens) continue;
    request.generation.max_tokens = limits.most_tokens;
    request.warnings.push_back(std::string(name) + " is " + std::to_string(*v) + ", at most " +
                               std::to_string(limits.most_tokens) +
                               " are generated for one request");
  }
  if (const auto v = fields.boolean("ignore_end")) request.generation.ignore_end = *v;
  if (const auto v = fields.boolean("stream")) request.stream = *v;
  if (const nlohmann::json* options = fields.value("stream_options"); options != nullptr) {
    if (!options->is_object()) {
      fields.refuse("stream_options: expected an object", "stream_options");
    } else {
      Fields inner(*options);
      if (const auto v = inner.boolean("include_usage")) request.include_usage = *v;
      inner.ignore("include_obfuscation");
      inner.finish();
      if (inner.error()) return *inner.error();
    }
  }
  read_conversation(fields, request);
  read_answers(fields, request);
  if (!chat) check_prompts(fields, request);
  request.constraint = read_constraint(fields, body);
  if (chat) {
    request.tools = read_asked_tools(fields, body);
    check_tool_fields(fields, request);
  }
  refuse_unsupported(fields, chat);
  fields.finish();
  if (fields.error()) return *fields.error();
  return request;
}

std::variant<EmbeddingRequest, HttpError> read_embedding_request(std::string_view body,
                                                                 std::int64_t width,
                                                                 const RequestLimits& limits) {
  std::variant<nlohmann::json, HttpError> object = read_object(body);
  if (const auto* error = std::get_if<HttpError>(&object)) return *error;
  Fields fields(std::get<nlohmann::json>(object));
  EmbeddingRequest asked;
  if (auto error = read_model(fields, limits, asked.model)) return *error;
  read_prompts(fields, "input", asked.texts);
  const std::string format = fields.text("encoding_format").value_or("float");
  asked.packed = format == "base64";
  if (!asked.packed && format != "float") {
    fields.refuse("encoding_format is " + format.substr(0, 40) + ", expected float or base64",
                  "encoding_format");
  }
  if (const nlohmann::json* given = fields.value("dimensions");
      given != nullptr && *given != width) {
    fields.refuse("dimensions is " + dump(*given).substr(0, 40) + ", expected " +
                      std::to_string(width) + ", which this model has",
                  "dimensions");
  }
  const std::string pooling = fields.text("pooling").value_or("mean");
  if (pooling == "last") {
    asked.options.pooling = Pooling::last;
  } else if (pooling != "mean") {
    fields.refuse("pooling is " + pooling.substr(0, 40) + ", expected mean or last", "pooling");
  }
  if (const auto v = fields.boolean("normalize")) asked.options.normalise = *v;
  fields.ignore("user");
  fields.finish();
  if (fields.error()) return *fields.error();
  return asked;
}

}  // namespace runnel::serve
