// SPDX-License-Identifier: Apache-2.0
// Each function below checks one part of tokenizer.json.
#include "runtime/text/tokenizer_json.h"

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "runtime/base/text.h"
#include "runtime/base/try.h"
#include "runtime/text/pre_tokenizer.h"

namespace runnel {

namespace {

using nlohmann::json;

std::string shortened(const json& value) {
  return printable(value.dump(-1, ' ', false, json::error_handler_t::replace), 160);
}

Error unsupported(std::string_view part, const json& value) {
  return fail(ErrorCode::unsupported, "tokenizer.json: ", part, " ", shortened(value),
              " is not run by this library");
}
Error malformed(std::string_view part, std::string_view why) {
  return fail(ErrorCode::malformed, "tokenizer.json: ", part, ": ", why);
}

/// The member `key`, or null if absent.
const json& member(const json& object, const char* key) {
  static const json kNull;
  const auto at = object.find(key);
  return at == object.end() ? kNull : *at;
}

std::string_view type_of(const json& part) {
  if (!part.is_object()) return {};
  const json& type = member(part, "type");
  return type.is_string() ? std::string_view(type.get_ref<const std::string&>())
                          : std::string_view();
}

bool is_true(const json& object, const char* key, bool absent) {
  const json& value = member(object, key);
  return value.is_boolean() ? value.get<bool>() : absent;
}

/// Whether `object` has no members but these: a member not known could change what it does.
bool has_only(const json& object, std::initializer_list<std::string_view> keys) {
  for (const auto& item : object.items()) {
    bool known = false;
    for (const std::string_view key : keys) known = known || item.key() == key;
    if (!known) return false;
  }
  return true;
}

bool is_byte_level(const json& part, bool cuts) {
  return type_of(part) == "ByteLevel" && !is_true(part, "add_prefix_space", true) &&
         is_true(part, "use_regex", true) == cuts &&
         has_only(part, {"type", "add_prefix_space", "trim_offsets", "use_regex"});
}
bool is_digits_apart(const json& part) {
  return type_of(part) == "Digits" && is_true(part, "individual_digits", false) &&
         has_only(part, {"type", "individual_digits"});
}

bool is_qwen2_split(const json& part) {
  const json& pattern = member(part, "pattern");
  return type_of(part) == "Split" && member(part, "behavior") == "Isolated" &&
         !is_true(part, "invert", false) && pattern.is_object() &&
         member(pattern, "Regex") == PreTokenizer::qwen2_expression() &&
         has_only(part, {"type", "pattern", "behavior", "invert"});
}

Result<std::string> read_pre_tokenizer(const json& part) {
  if (is_byte_level(part, true)) return std::string("gpt-2");
  if (type_of(part) == "Sequence") {
    const json& steps = member(part, "pretokenizers");
    if (steps.is_array() && steps.size() == 1 && is_byte_level(steps[0], true))
      return std::string("gpt-2");
    if (steps.is_array() && steps.size() == 2 && is_digits_apart(steps[0]) &&
        is_byte_level(steps[1], true))
      return std::string("smollm");
    if (steps.is_array() && steps.size() == 2 && is_qwen2_split(steps[0]) &&
        is_byte_level(steps[1], false))
      return std::string("qwen2");
  }
  return unsupported("pre_tokenizer", part);
}

/// The normaliser must be the one that the pre-tokenizer's name stands for.
Status check_normalizer(const json& part, std::string_view pre_tokenizer) {
  const json& steps = type_of(part) == "Sequence" ? member(part, "normalizers") : part;
  const bool none = part.is_null() || (steps.is_array() && steps.empty());
  const json& only = steps.is_array() && steps.size() == 1 ? steps[0] : part;
  const bool nfc = type_of(only) == "NFC" && has_only(only, {"type"});
  if (pre_tokenizer == "qwen2" ? nfc : none) return {};
  return unsupported("normalizer", part);
}

/// The token that a TemplateProcessing puts before a single text, or -1.
Result<TokenId> read_template(const json& part) {
  const json& single = member(part, "single");
  const auto is_text = [](const json& step) {
    const json& sequence = member(step, "Sequence");
    return sequence.is_object() && member(sequence, "id") == "A";
  };
  if (!single.is_array()) return unsupported("post_processor", part);
  for (const json& step : single) {
    if (!step.is_object()) return unsupported("post_processor", part);
  }
  if (single.size() == 1 && is_text(single[0])) return TokenId{-1};
  if (single.size() != 2 || !is_text(single[1])) return unsupported("post_processor", part);
  const json& special = member(single[0], "SpecialToken");
  const json& name = special.is_object() ? member(special, "id") : special;
  const json& table = member(part, "special_tokens");
  if (!name.is_string() || !table.is_object()) return unsupported("post_processor", part);
  const json& entry = member(table, name.get_ref<const std::string&>().c_str());
  const json& ids = entry.is_object() ? member(entry, "ids") : entry;
  if (!ids.is_array() || ids.size() != 1 || !ids[0].is_number_unsigned() ||
      ids[0].get<std::uint64_t>() >= TokenTable::kMaxEntries)
    return unsupported("post_processor", part);
  return ids[0].get<TokenId>();
}

Result<TokenId> read_post_processor(const json& part) {
  // ByteLevel only moves offsets here; they are not kept.
  if (part.is_null() || type_of(part) == "ByteLevel") return TokenId{-1};
  if (type_of(part) == "TemplateProcessing") return read_template(part);
  if (type_of(part) == "Sequence") {
    TokenId begin = -1;
    const json& steps = member(part, "processors");
    if (!steps.is_array()) return unsupported("post_processor", part);
    for (const json& step : steps) {
      if (type_of(step) == "ByteLevel") continue;
      if (type_of(step) != "TemplateProcessing" || begin >= 0)
        return unsupported("post_processor", part);
      RUNNEL_TRY(begin, read_template(step));
    }
    return begin;
  }
  return unsupported("post_processor", part);
}

Status check_model(const json& model) {
  if (!model.is_object()) return malformed("model", "expected an object");
  if (type_of(model) != "BPE") return unsupported("model of type", member(model, "type"));
  const auto is_unset = [&](const char* key) {
    const json& value = member(model, key);
    return value.is_null() || value == false || value == 0 ||
           (value.is_string() && value.get_ref<const std::string&>().empty());
  };
  for (const char* key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix",
                          "byte_fallback", "ignore_merges"}) {
    if (!is_unset(key)) return unsupported(std::string("model.") + key, member(model, key));
  }
  if (!has_only(model,
                {"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
                 "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"})) {
    json names = json::array();
    for (const auto& item : model.items()) names.push_back(item.key());
    return unsupported("model with members", names);
  }
  return {};
}

Status read_vocabulary(const json& vocabulary, TokenizerJson& out) {
  if (!vocabulary.is_object()) return malformed("model.vocab", "expected an object");
  if (vocabulary.empty()) return malformed("model.vocab", "is empty");
  if (vocabulary.size() > TokenTable::kMaxEntries)
    return malformed("model.vocab", "has more entries than any vocabulary");
  out.tokens.assign(vocabulary.size(), {});
  out.kinds.assign(vocabulary.size(), TokenKind::normal);
  std::vector<bool> filled(vocabulary.size(), false);
  for (const auto& item : vocabulary.items()) {
    const json& id = item.value();
    // Ids are dense, so a text that is there twice shows as an id out of range or taken.
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= vocabulary.size())
      return fail(ErrorCode::malformed, "tokenizer.json: model.vocab: ", in_quotes(item.key()),
                  " has id ", shortened(id), ", expected 0 to ", vocabulary.size() - 1);
    const auto i = id.get<std::size_t>();
    if (filled[i])
      return fail(ErrorCode::malformed, "tokenizer.json: model.vocab: id ", i, " is there twice");
    filled[i] = true;
    out.tokens[i] = item.key();
  }
  return {};
}

Status read_merges(const json& merges, TokenizerJson& out) {
  if (!merges.is_array()) return malformed("model.merges", "expected an array");
  out.merges.reserve(merges.size());
  for (const json& merge : merges) {
    if (merge.is_string()) {
      out.merges.push_back(merge.get<std::string>());
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
               merge[1].is_string()) {
      const auto& left = merge[0].get_ref<const std::string&>();
      const auto& right = merge[1].get_ref<const std::string&>();
      if (left.find(' ') != std::string::npos || right.find(' ') != std::string::npos)
        return unsupported("a merge of texts with spaces", merge);
      std::string merged = left;
      merged.append(" ").append(right);
      out.merges.push_back(std::move(merged));
    } else {
      return fail(ErrorCode::malformed, "tokenizer.json: model.merges[", out.merges.size(),
                  "]: expected \"a b\" or [\"a\", \"b\"], found ", shortened(merge));
    }
  }
  return {};
}

Status apply_added_tokens(const std::vector<AddedToken>& added, TokenizerJson& out) {
  for (const AddedToken& token : added) {
    const auto id = static_cast<std::size_t>(token.id);
    const auto describe = [&](std::string_view why) {
      return fail(ErrorCode::malformed, "tokenizer.json: added token ", token.id, " ",
                  in_quotes(token.text), ": ", why);
    };
    if (id > out.tokens.size()) return describe("leaves ids before it without a token");
    if (id == out.tokens.size()) {
      out.tokens.push_back(token.text);
      out.kinds.push_back(TokenKind::normal);
    }
    if (out.tokens[id] != token.text) return describe("the vocabulary has another token there");
    out.kinds[id] = token.special ? TokenKind::control : TokenKind::user_defined;
  }
  return {};
}

}  // namespace

Result<std::vector<AddedToken>> read_added_tokens(const json& root) {
  std::vector<AddedToken> out;
  if (!root.is_object()) return malformed("the file", "expected an object");
  const json& added = member(root, "added_tokens");
  if (added.is_null()) return out;
  if (!added.is_array()) return malformed("added_tokens", "expected an array");
  for (const json& token : added) {
    const json& text = token.is_object() ? member(token, "content") : token;
    const json& id = token.is_object() ? member(token, "id") : token;
    if (!token.is_object() || !text.is_string() || !id.is_number_unsigned() ||
        id.get<std::uint64_t>() >= TokenTable::kMaxEntries)
      return fail(ErrorCode::malformed, "tokenizer.json: added_tokens[", out.size(),
                  "]: expected an id and a content, found ", shortened(token));
    for (const char* key : {"single_word", "lstrip", "rstrip"}) {
      if (is_true(token, key, false))
        return unsupported(std::string("an added token with ") + key, token);
    }
    out.push_back({text.get<std::string>(), id.get<TokenId>(), is_true(token, "special", false)});
  }
  std::sort(out.begin(), out.end(),
            [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
  return out;
}

Result<TokenizerJson> read_tokenizer_json(const json& root) {
  if (!root.is_object()) return malformed("the file", "expected an object");
  TokenizerJson out;
  const json& model = member(root, "model");
  RUNNEL_CHECK_OK(check_model(model));
  RUNNEL_TRY(out.pre_tokenizer, read_pre_tokenizer(member(root, "pre_tokenizer")));
  RUNNEL_CHECK_OK(check_normalizer(member(root, "normalizer"), out.pre_tokenizer));
  RUNNEL_TRY(out.begin, read_post_processor(member(root, "post_processor")));
  if (type_of(member(root, "decoder")) != "ByteLevel")
    return unsupported("decoder", member(root, "decoder"));
  RUNNEL_CHECK_OK(read_vocabulary(member(model, "vocab"), out));
  RUNNEL_CHECK_OK(read_merges(member(model, "merges"), out));
  RUNNEL_TRY(const std::vector<AddedToken> added, read_added_tokens(root));
  RUNNEL_CHECK_OK(apply_added_tokens(added, out));
  if (out.begin >= static_cast<TokenId>(out.tokens.size()))
    return malformed("post_processor", "its token is not in the vocabulary");
  return out;
}

}  // namespace runnel
