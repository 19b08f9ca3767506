// SPDX-License-Identifier: Apache-2.0
// tokenizer_to_gguf(): from the tokenizer files of a checkpoint to the keys that Tokenizer::from_gguf() reads.
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/base/file_map.h"
#include "runtime/base/text.h"
#include "runtime/base/try.h"
#include "runtime/text/byte_alphabet.h"
#include "runtime/text/byte_bpe.h"
#include "runtime/text/chat_template.h"
#include "runtime/text/json_file.h"
#include "runtime/text/sentencepiece_proto.h"
#include "runtime/text/token_table.h"
#include "runtime/text/tokenizer_json.h"
#include "runtime/text/world_chat.h"
#include "runtime/text/world_vocabulary.h"

namespace runnel {

namespace {

using nlohmann::json;
namespace fs = std::filesystem;

bool has_file(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

/// Keys to be written once everything has been checked.
struct Keys {
  std::vector<std::pair<std::string, GgufValue>> values;
  std::vector<std::string> warnings;
  void set(std::string key, GgufValue value) {
    values.emplace_back(std::move(key), std::move(value));
  }
};

/// What tokenizer_config.json and config.json say; all optional.
struct Settings {
  std::string begin, end, unknown, padding;  // texts; empty: not named
  std::optional<bool> add_begin;
  bool add_end = false;
  bool add_prefix_space = false;
  std::string chat_template;
  TokenId begin_id = -1;
  std::vector<TokenId> end_ids;
};

const json* find(const json& object, const char* key) {
  const auto at = object.find(key);
  return at == object.end() || at->is_null() ? nullptr : &*at;
}

/// A special token is given as a text or as an object with a content.
Result<std::string> token_text(const json& config, const char* key) {
  const json* value = find(config, key);
  if (value != nullptr && value->is_object()) value = find(*value, "content");
  if (value == nullptr) return std::string();
  if (!value->is_string())
    return fail(ErrorCode::malformed, "tokenizer_config.json: ", key, ": expected a text");
  return value->get<std::string>();
}

Result<std::optional<bool>> flag(const json& config, const char* key) {
  const json* value = find(config, key);
  if (value == nullptr) return std::optional<bool>();
  if (!value->is_boolean())
    return fail(ErrorCode::malformed, "tokenizer_config.json: ", key, ": expected true or false");
  return std::optional<bool>(value->get<bool>());
}

/// One template, or a list of named ones of which "default" is the chat.
Result<std::string> chat_template_of(const json& config) {
  const json* value = find(config, "chat_template");
  if (value == nullptr) return std::string();
  if (value->is_string()) return value->get<std::string>();
  if (value->is_array()) {
    for (const json& entry : *value) {
      if (!entry.is_object()) break;
      const json* name = find(entry, "name");
      const json* text = find(entry, "template");
      if (name != nullptr && *name == "default" && text != nullptr && text->is_string())
        return text->get<std::string>();
    }
  }
  return fail(ErrorCode::malformed,
              "tokenizer_config.json: chat_template: expected a text or a list with a 'default'");
}

Result<Settings> read_settings(const fs::path& directory) {
  Settings s;
  if (const fs::path path = directory / "tokenizer_config.json"; has_file(path)) {
    RUNNEL_TRY(const json config, read_json_file(path));
    if (!config.is_object())
      return fail(ErrorCode::malformed, "tokenizer_config.json: expected an object");
    RUNNEL_TRY(s.begin, token_text(config, "bos_token"));
    RUNNEL_TRY(s.end, token_text(config, "eos_token"));
    RUNNEL_TRY(s.unknown, token_text(config, "unk_token"));
    RUNNEL_TRY(s.padding, token_text(config, "pad_token"));
    RUNNEL_TRY(s.add_begin, flag(config, "add_bos_token"));
    RUNNEL_TRY(const std::optional<bool> add_end, flag(config, "add_eos_token"));
    RUNNEL_TRY(const std::optional<bool> prefix, flag(config, "add_prefix_space"));
    s.add_end = add_end.value_or(false);
    s.add_prefix_space = prefix.value_or(false);
    RUNNEL_TRY(s.chat_template, chat_template_of(config));
  }
  if (const fs::path path = directory / "chat_template.jinja"; has_file(path)) {
    RUNNEL_TRY(const FileMap map, FileMap::open(path));
    s.chat_template.assign(reinterpret_cast<const char*>(map.bytes().data()), map.bytes().size());
  }
  if (const fs::path path = directory / "config.json"; has_file(path)) {
    RUNNEL_TRY(const json config, read_json_file(path));
    const auto id_of = [](const json& value) {
      return value.is_number_unsigned() && value.get<std::uint64_t>() < TokenTable::kMaxEntries
                 ? value.get<TokenId>()
                 : TokenId{-1};
    };
    if (config.is_object()) {
      if (const json* id = find(config, "bos_token_id")) s.begin_id = id_of(*id);
      if (const json* id = find(config, "eos_token_id")) {
        const json list = id->is_array() ? *id : json::array({*id});
        for (const json& entry : list) {
          if (id_of(entry) >= 0) s.end_ids.push_back(id_of(entry));
        }
      }
    }
  }
  return s;
}

/// Writes the ids of begin, end, unknown and padding tokens.
template <class IdOf>
Status set_roles(const Settings& s, std::size_t entries, TokenId default_begin, TokenId default_end,
                 bool add_begin, const IdOf& id_of, Keys& keys) {
  const auto named = [&](const std::string& text, const char* key) -> Result<TokenId> {
    if (text.empty()) return TokenId{-1};
    const TokenId id = id_of(text);
    if (id < 0)
      return fail(ErrorCode::malformed, "tokenizer_config.json: ", key, ": ", in_quotes(text),
                  " is not in the vocabulary");
    return id;
  };
  const auto put = [&](const char* key, TokenId id) {
    if (id >= 0 && static_cast<std::size_t>(id) < entries)
      keys.set(std::string("tokenizer.ggml.") + key, static_cast<std::uint32_t>(id));
  };
  RUNNEL_TRY(TokenId begin, named(s.begin, "bos_token"));
  RUNNEL_TRY(const TokenId end, named(s.end, "eos_token"));
  RUNNEL_TRY(const TokenId unknown, named(s.unknown, "unk_token"));
  RUNNEL_TRY(const TokenId padding, named(s.padding, "pad_token"));
  if (begin < 0) begin = default_begin >= 0 ? default_begin : s.begin_id;
  std::vector<TokenId> ends;
  const auto add_end = [&](TokenId id) {
    if (id >= 0 && std::find(ends.begin(), ends.end(), id) == ends.end()) ends.push_back(id);
  };
  add_end(end);
  if (ends.empty()) add_end(default_end);
  for (const TokenId id : s.end_ids) add_end(id);
  put("bos_token_id", begin);
  constexpr std::array<const char*, 3> kEndKeys = {"eos_token_id", "eot_token_id", "eom_token_id"};
  for (std::size_t i = 0; i < std::min(ends.size(), kEndKeys.size()); ++i)
    put(kEndKeys[i], ends[i]);
  put("unknown_token_id", unknown);
  put("padding_token_id", padding);
  keys.set("tokenizer.ggml.add_bos_token", add_begin && begin >= 0);
  return {};
}

Status check_size(std::size_t entries, std::int32_t vocab_size, const char* file) {
  if (vocab_size > 0 && entries <= static_cast<std::size_t>(vocab_size)) return {};
  return fail(ErrorCode::mismatch, file, ": has ", entries,
              " entries, expected at most the embedding's ", vocab_size, " rows");
}

Status convert_bpe(const fs::path& path, std::int32_t vocab_size, const Settings& settings,
                   Keys& keys) {
  RUNNEL_TRY(const json root, read_json_file(path));
  RUNNEL_TRY(TokenizerJson bpe, read_tokenizer_json(root));
  RUNNEL_CHECK_OK(check_size(bpe.tokens.size(), vocab_size, "tokenizer.json"));
  if (settings.add_prefix_space)
    return fail(ErrorCode::unsupported,
                "tokenizer_config.json: add_prefix_space true is not run by this library");
  for (const char* part : {"truncation", "padding"}) {
    if (find(root, part) != nullptr)
      keys.warnings.push_back(std::string("tokenizer.json: ") + part + " is left out");
  }
  // Loading the keys before they are written finds errors in them.
  TokenRoles roles;
  RUNNEL_TRY(const std::shared_ptr<const ByteBpe> built,
             ByteBpe::create(bpe.pre_tokenizer, bpe.tokens, bpe.kinds, bpe.merges, roles));
  if (root.at("model").contains("unk_token") && !root.at("model").at("unk_token").is_null() &&
      !built->spells_all_bytes())
    return fail(ErrorCode::unsupported,
                "tokenizer.json: model.unk_token with bytes that have no token is not run");

  const StringIndex index = StringIndex::of(bpe.tokens);
  const bool add_begin = settings.add_begin.value_or(bpe.begin >= 0);
  RUNNEL_CHECK_OK(set_roles(
      settings, bpe.tokens.size(), bpe.begin, -1, add_begin,
      [&](const std::string& text) { return index.find(text); }, keys));
  std::vector<std::int32_t> types;
  types.reserve(bpe.kinds.size());
  for (const TokenKind kind : bpe.kinds) types.push_back(static_cast<std::int32_t>(kind));
  keys.set("tokenizer.ggml.model", std::string("gpt2"));
  keys.set("tokenizer.ggml.pre", bpe.pre_tokenizer);
  keys.set("tokenizer.ggml.tokens", GgufArray(std::move(bpe.tokens)));
  keys.set("tokenizer.ggml.token_type", GgufArray(std::move(types)));
  keys.set("tokenizer.ggml.merges", GgufArray(std::move(bpe.merges)));
  return {};
}

/// The tokenizer.json beside a tokenizer.model may add tokens that the model does not have.
Status check_no_more_tokens(const fs::path& path, const SentencepieceModel& model) {
  if (!has_file(path)) return {};
  RUNNEL_TRY(const json root, read_json_file(path));
  RUNNEL_TRY(const std::vector<AddedToken> added, read_added_tokens(root));
  for (const AddedToken& token : added) {
    const auto id = static_cast<std::size_t>(token.id);
    if (id >= model.pieces.size() || model.pieces[id].text != token.text)
      return fail(ErrorCode::unsupported, "tokenizer.json: added token ", token.id, " ",
                  in_quotes(token.text), " is not in tokenizer.model");
  }
  return {};
}

Status convert_sentencepiece(const fs::path& directory, std::int32_t vocab_size,
                             const Settings& settings, Keys& keys) {
  RUNNEL_TRY(const FileMap map, FileMap::open(directory / "tokenizer.model"));
  const auto* data = reinterpret_cast<const std::uint8_t*>(map.bytes().data());
  RUNNEL_TRY(const SentencepieceModel model,
             SentencepieceModel::parse(
                 {reinterpret_cast<const char*>(map.bytes().data()), map.bytes().size()}));
  RUNNEL_CHECK_OK(check_size(model.pieces.size(), vocab_size, "tokenizer.model"));
  RUNNEL_CHECK_OK(check_no_more_tokens(directory / "tokenizer.json", model));

  std::vector<std::string> tokens;
  std::vector<float> scores;
  std::vector<std::int32_t> types;
  for (const SentencepieceModel::Piece& piece : model.pieces) {
    tokens.push_back(piece.text);
    scores.push_back(piece.score);
    types.push_back(static_cast<std::int32_t>(piece.kind));
  }
  const StringIndex index = StringIndex::of(tokens);
  RUNNEL_CHECK_OK(set_roles(
      settings, tokens.size(), model.begin_id, model.end_id, settings.add_begin.value_or(true),
      [&](const std::string& text) { return index.find(text); }, keys));
  keys.set("tokenizer.ggml.model", std::string("llama"));
  keys.set("tokenizer.ggml.tokens", GgufArray(std::move(tokens)));
  keys.set("tokenizer.ggml.scores", GgufArray(std::move(scores)));
  keys.set("tokenizer.ggml.token_type", GgufArray(std::move(types)));
  keys.set("gsa.tokenizer.sentencepiece",
           GgufArray(std::vector<std::uint8_t>(data, data + map.bytes().size())));
  return {};
}

constexpr const char* kWorldFile = "rwkv_vocab_v20230424.txt";

Status convert_world(const fs::path& path, std::int32_t vocab_size, Keys& keys) {
  RUNNEL_TRY(const std::vector<std::string> tokens, read_world_vocabulary(path));
  RUNNEL_CHECK_OK(check_size(tokens.size() + 1, vocab_size, kWorldFile));
  return world_to_gguf(tokens, vocab_size, [&](std::string key, GgufValue value) {
    keys.set(std::move(key), std::move(value));
  });
}

/// Whether the vocabulary of these keys has a token of this text that can mark turns: Tokenizer::special_id() of it.
bool has_special(const Keys& keys, std::string_view text) {
  const auto value = [&](const char* name) -> const GgufValue& {
    return std::ranges::find(keys.values, name, [](const auto& key) { return key.first; })->second;
  };
  const auto& tokens =
      std::get<std::vector<std::string>>(std::get<GgufArray>(value("tokenizer.ggml.tokens")));
  const auto& types =
      std::get<std::vector<std::int32_t>>(std::get<GgufArray>(value("tokenizer.ggml.token_type")));
  // A sentencepiece model is read with the kinds that it has itself.
  const bool as_it_is = std::get<std::string>(value("tokenizer.ggml.model")) == "llama";
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] != text) continue;
    const auto kind = static_cast<TokenKind>(types[i]);
    if ((as_it_is ? kind : kind_in_chats(text, kind)) == TokenKind::control) return true;
  }
  return false;
}

Status convert_chat(const Settings& settings, const std::optional<ChatFormat>& style, bool world,
                    Keys& keys) {
  if (settings.chat_template.empty() && !style && world) {
    keys.set("tokenizer.chat_template", std::string("rwkv-world"));
    return {};
  }
  if (!settings.chat_template.empty()) keys.set("tokenizer.chat_template", settings.chat_template);
  ChatFormat format;
  if (style) {
    format = *style;
    RUNNEL_CHECK_OK(
        check_markers(format, [&](std::string_view text) { return has_special(keys, text); }));
  } else if (settings.chat_template.empty()) {
    return {};  // a file without a template is read as plain
  } else {
    if (is_world_chat(world ? "rwkv" : "", settings.chat_template)) return {};
    format =
        simplified(world ? chat_format_of(settings.chat_template)
                         : chat_format_of(settings.chat_template, settings.begin, settings.end));
    if (format.style == ChatStyle::none)
      keys.warnings.push_back("no chat: " + format.reason + "; name a chat style to have one");
    if (format.style != ChatStyle::chatml) return {};  // the file's template says it all
  }
  chat_format_to_gguf(format, [&](std::string key, std::string value) {
    keys.set(std::move(key), GgufValue(std::move(value)));
  });
  return {};
}

}  // namespace

Result<TokenizerConversion> tokenizer_to_gguf(const fs::path& directory, std::int32_t vocab_size,
                                              GgufWriter& writer,
                                              const std::optional<ChatFormat>& style) {
  const bool has_model = has_file(directory / "tokenizer.model");
  const bool has_json = has_file(directory / "tokenizer.json");
  const bool has_world = has_file(directory / kWorldFile);
  if (!has_model && !has_json && !has_world) {
    for (const char* name : {"vocab.json", "merges.txt", "vocab.txt", "tekken.json"}) {
      if (has_file(directory / name))
        return fail(ErrorCode::unsupported, name,
                    ": a tokenizer is read from tokenizer.json or tokenizer.model, which the "
                    "directory has not");
    }
    return TokenizerConversion{};
  }
  RUNNEL_TRY(const Settings settings, read_settings(directory));
  if (settings.add_end)
    return fail(ErrorCode::unsupported,
                "tokenizer_config.json: add_eos_token true is not run by this library");
  Keys keys;
  if (has_world) {
    RUNNEL_CHECK_OK(convert_world(directory / kWorldFile, vocab_size, keys));
  } else if (has_model) {
    RUNNEL_CHECK_OK(convert_sentencepiece(directory, vocab_size, settings, keys));
  } else {
    RUNNEL_CHECK_OK(convert_bpe(directory / "tokenizer.json", vocab_size, settings, keys));
  }
  RUNNEL_CHECK_OK(convert_chat(settings, style, has_world, keys));
  TokenizerConversion done;
  done.keys = static_cast<int>(keys.values.size());
  done.warnings = std::move(keys.warnings);
  for (auto& [key, value] : keys.values) writer.set(std::move(key), std::move(value));
  return done;
}

}  // namespace runnel
