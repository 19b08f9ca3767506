// SPDX-License-Identifier: Apache-2.0
// From tokenizer files of a checkpoint to keys of a model file, or to an error that names the part.
#include <gtest/gtest.h>

#include <functional>

#include "runtime/text/chat_template.h"
#include "runtime/text/pre_tokenizer.h"
#include "runtime/text/sentencepiece_proto.h"
#include "tests/text/tokenizer_fixture.h"

namespace runnel {
namespace {

using Ids = std::vector<TokenId>;
using nlohmann::json;
using test::TemporaryDirectory;

/// A tokenizer.json with two letters, a space and two special tokens.
json small_json() {
  return {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens",
       {{{"id", 0}, {"content", "<|im_start|>"}, {"special", true}},
        {{"id", 1}, {"content", "<|im_end|>"}, {"special", true}}}},
      {"normalizer", nullptr},
      {"pre_tokenizer",
       {{"type", "Sequence"},
        {"pretokenizers",
         {{{"type", "Digits"}, {"individual_digits", true}},
          {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}}}}},
      {"post_processor", nullptr},
      {"decoder", {{"type", "ByteLevel"}}},
      {"model",
       {{"type", "BPE"},
        {"dropout", nullptr},
        {"unk_token", nullptr},
        {"ignore_merges", false},
        {"vocab",
         {{"<|im_start|>", 0}, {"<|im_end|>", 1}, {"a", 2}, {"b", 3}, {"Ġ", 4}, {"ab", 5}}},
        {"merges", json::array({json::array({"a", "b"})})}}},
  };
}

json small_config() {
  return {{"eos_token", "<|im_end|>"},
          {"bos_token", {{"content", "<|im_start|>"}}},
          {"add_bos_token", false}};
}

Result<TokenizerConversion> convert(const TemporaryDirectory& directory, GgufWriter& writer,
                                    std::int32_t rows = 64) {
  return tokenizer_to_gguf(directory.path(), rows, writer);
}

std::shared_ptr<const GgufFile> written(const TemporaryDirectory& directory,
                                        const GgufWriter& writer) {
  const std::filesystem::path path = directory.path() / "out.gguf";
  EXPECT_TRUE(writer.write(path).has_value());
  return GgufFile::open(path).value_or(nullptr);
}

TEST(TokenizerConvert, TheDefaultModelsFilesGiveItsEncodings) {
  const TemporaryDirectory directory;
  test::Vocabulary vocabulary("default_model");
  vocabulary.add_specials();
  vocabulary.add_text(test::bytes_of_default_model());
  json root = small_json();
  root["added_tokens"] = json::array();
  root["model"]["vocab"] = json::object();
  root["model"]["merges"] = vocabulary.merges;
  for (std::size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    root["model"]["vocab"][vocabulary.tokens[i]] = i;
    if (i < vocabulary.specials.size())
      root["added_tokens"].push_back(
          {{"id", i}, {"content", vocabulary.tokens[i]}, {"special", true}});
  }
  directory.file("tokenizer.json", root.dump());
  directory.file("tokenizer_config.json", test::read_data("default_model/tokenizer_config.json"));
  GgufWriter writer;
  const auto done = convert(directory, writer, test::kDefaultRows);
  ASSERT_TRUE(done.has_value()) << done.error().message;
  EXPECT_GE(done->keys, 10);
  EXPECT_TRUE(done->warnings.empty());

  const auto file = written(directory, writer);
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(file->get_string("tokenizer.ggml.pre").value_or(""), "smollm");
  EXPECT_EQ(file->get_string("tokenizer.chat_template").value_or(""),
            test::read_json("default_model/tokenizer_config.json")["chat_template"]);
  const auto format = chat_format_from_gguf(*file);
  ASSERT_TRUE(format.has_value());
  EXPECT_EQ(format->style, ChatStyle::chatml);
  const auto tokenizer = Tokenizer::from_gguf(*file, test::kDefaultRows);
  ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().message;
  EXPECT_TRUE((*tokenizer)->is_end(2));
  EXPECT_EQ((*tokenizer)->begin_token(), -1);
  for (const auto& c : test::read_json("default_model/tokenizer.json"))
    EXPECT_EQ(test::encode(**tokenizer, c["text"].get<std::string>(), true), c["ids"].get<Ids>());
}

/// Changes small_json() to Qwen2's steps: form C, its expression, bytes.
void make_qwen2(json& root) {
  root["normalizer"] = {{"type", "NFC"}};
  root["pre_tokenizer"]["pretokenizers"] = {
      {{"type", "Split"},
       {"pattern", {{"Regex", std::string(PreTokenizer::qwen2_expression())}}},
       {"behavior", "Isolated"},
       {"invert", false}},
      {{"type", "ByteLevel"},
       {"add_prefix_space", false},
       {"trim_offsets", false},
       {"use_regex", false}}};
}

TEST(TokenizerConvert, TheHalfBillionModelsFilesGiveItsEncodings) {
  const TemporaryDirectory directory;
  test::Vocabulary vocabulary("default_model_05b");
  vocabulary.add_text(test::bytes_in_order());
  const std::size_t specials = vocabulary.tokens.size();
  vocabulary.add_specials();
  json root = small_json();
  make_qwen2(root);
  root["added_tokens"] = json::array();
  root["model"]["vocab"] = json::object();
  root["model"]["merges"] = vocabulary.merges;
  for (std::size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    const std::string& text = vocabulary.tokens[i];
    root["model"]["vocab"][text] = i;
    if (i >= specials)
      root["added_tokens"].push_back(
          {{"id", i}, {"content", text}, {"special", text.find("tool_call") == std::string::npos}});
  }
  directory.file("tokenizer.json", root.dump());
  directory.file("tokenizer_config.json",
                 test::read_data("default_model_05b/tokenizer_config.json"));
  GgufWriter writer;
  const auto done = convert(directory, writer, test::kQwen2Rows);
  ASSERT_TRUE(done.has_value()) << done.error().message;
  EXPECT_TRUE(done->warnings.empty());
  const auto file = written(directory, writer);
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(file->get_string("tokenizer.ggml.model").value_or(""), "gpt2");
  EXPECT_EQ(file->get_string("tokenizer.ggml.pre").value_or(""), "qwen2");
  EXPECT_EQ(file->get_int("tokenizer.ggml.eos_token_id").value_or(0), 65527);
  const auto tokenizer = Tokenizer::from_gguf(*file, test::kQwen2Rows);
  ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().message;
  EXPECT_TRUE((*tokenizer)->is_end(65525));
  const nlohmann::json cases = test::read_json("default_model_05b/tokenizer.json");
  for (const auto& c : cases)
    EXPECT_EQ(test::encode(**tokenizer, c["text"].get<std::string>(), true), c["ids"].get<Ids>());
}

#ifdef RUNNEL_SENTENCEPIECE
TEST(TokenizerConvert, SentencepieceKeepsItsEncodings) {
  const TemporaryDirectory directory;
  directory.file("tokenizer.model", test::read_data("sentencepiece/tokenizer.model"));
  GgufWriter writer;
  const auto done = convert(directory, writer, 4096);
  ASSERT_TRUE(done.has_value()) << done.error().message;
  const auto file = written(directory, writer);
  ASSERT_NE(file, nullptr);
  const auto tokenizer = Tokenizer::from_gguf(*file, 4096);
  ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().message;
  EXPECT_EQ((*tokenizer)->begin_token(), 1);
  EXPECT_TRUE((*tokenizer)->is_end(2));
  for (const auto& c : test::read_json("sentencepiece/vectors.json"))
    EXPECT_EQ(test::encode(**tokenizer, c["text"].get<std::string>()), c["ids"].get<Ids>());
}
#endif

TEST(TokenizerConvert, TokensThatTokenizerModelHasNotAreRefused) {
  const TemporaryDirectory directory;
  directory.file("tokenizer.model", test::read_data("sentencepiece/tokenizer.model"));
  directory.file("tokenizer.json",
                 R"({"added_tokens": [{"id": 4000, "content": "<|x|>", "special": true}]})");
  GgufWriter writer;
  const auto done = convert(directory, writer, 4096);
  ASSERT_FALSE(done.has_value());
  EXPECT_EQ(done.error().code, ErrorCode::unsupported);
  EXPECT_NE(done.error().message.find("<|x|>"), std::string::npos);
}

TEST(TokenizerConvert, ADirectoryWithoutTokenizerSetsNothing) {
  const TemporaryDirectory directory;
  GgufWriter writer;
  const auto done = convert(directory, writer);
  ASSERT_TRUE(done.has_value());
  EXPECT_EQ(done->keys, 0);
}

TEST(TokenizerConvert, ATemplateThatCannotRunWarnsAndLeavesTheFileWithoutChat) {
  const TemporaryDirectory directory;
  json config = small_config();
  config["chat_template"] = "{% include 'other' %}";
  directory.file("tokenizer.json", small_json().dump());
  directory.file("tokenizer_config.json", config.dump());
  GgufWriter writer;
  const auto done = convert(directory, writer);
  ASSERT_TRUE(done.has_value()) << done.error().message;
  ASSERT_EQ(done->warnings.size(), 1U);
  EXPECT_NE(done->warnings[0].find("include"), std::string::npos) << done->warnings[0];
  const auto file = written(directory, writer);
  ASSERT_NE(file, nullptr);
  const auto format = chat_format_from_gguf(*file);
  ASSERT_TRUE(format.has_value());
  EXPECT_EQ(format->style, ChatStyle::none);
}

TEST(TokenizerConvert, AGivenStyleWins) {
  const TemporaryDirectory directory;
  json config = small_config();
  config["chat_template"] = "{{ x }}";
  directory.file("tokenizer.json", small_json().dump());
  directory.file("tokenizer_config.json", config.dump());
  GgufWriter writer;
  const auto done = tokenizer_to_gguf(directory.path(), 64, writer,
                                      ChatFormat{ChatStyle::chatml, "Be brief.", {}, {}});
  ASSERT_TRUE(done.has_value()) << done.error().message;
  EXPECT_TRUE(done->warnings.empty());
  const auto format = chat_format_from_gguf(*written(directory, writer));
  ASSERT_TRUE(format.has_value());
  EXPECT_EQ(format->style, ChatStyle::chatml);
  EXPECT_EQ(format->default_system_prompt, "Be brief.");
}

TEST(TokenizerConvert, AStyleThatTheVocabularyCannotServeIsRefused) {
  const TemporaryDirectory directory;
  json root = small_json();
  root["added_tokens"][0]["content"] = "<|other|>";
  const auto vocabulary = root["model"]["vocab"];
  root["model"]["vocab"].erase("<|im_start|>");
  root["model"]["vocab"]["<|other|>"] = vocabulary["<|im_start|>"];
  directory.file("tokenizer.json", root.dump());
  for (const ChatStyle style : {ChatStyle::chatml, ChatStyle::plain, ChatStyle::rwkv}) {
    GgufWriter writer;
    const auto done =
        tokenizer_to_gguf(directory.path(), 64, writer, ChatFormat{style, "Be brief.", {}, {}});
    ASSERT_EQ(done.has_value(), style != ChatStyle::chatml) << to_string(style);
    if (done) continue;
    EXPECT_EQ(done.error().code, ErrorCode::unsupported);
    EXPECT_EQ(done.error().message,
              "chat style chatml: the vocabulary has no special token <|im_start|>");
  }
}

// The markers as tokens of `kind` of a sentencepiece model.
std::string sentencepiece_with_markers(TokenKind kind) {
  auto model = *SentencepieceModel::parse(test::read_data("sentencepiece/tokenizer.model"));
  for (const char* marker : {"<|im_start|>", "<|im_end|>"})
    model.pieces.push_back({.text = marker, .kind = kind});
  return model.serialize();
}

TEST(TokenizerConvert, AStyleWhoseMarkersAreTextIsRefused) {
  for (const TokenKind kind : {TokenKind::control, TokenKind::user_defined, TokenKind::normal}) {
    const TemporaryDirectory directory;
    directory.file("tokenizer.model", sentencepiece_with_markers(kind));
    GgufWriter writer;
    const auto done = tokenizer_to_gguf(directory.path(), 5000, writer,
                                        ChatFormat{ChatStyle::chatml, "Be brief.", {}, {}});
    ASSERT_EQ(done.has_value(), kind == TokenKind::control) << static_cast<int>(kind);
    if (done) {
      const auto loaded = Tokenizer::from_gguf(*written(directory, writer), 5000);
      ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
      EXPECT_GE((*loaded)->special_id("<|im_start|>"), 0);
    } else {
      EXPECT_EQ(done.error().message,
                "chat style chatml: the vocabulary has no special token <|im_start|>");
    }
  }
}

TEST(TokenizerConvert, MarkersThatLoadingMakesSpecialServeAStyle) {
  const TemporaryDirectory directory;
  json root = small_json();
  root["added_tokens"] = json::array({root["added_tokens"][1]});
  root["added_tokens"][0]["special"] = false;
  directory.file("tokenizer.json", root.dump());
  GgufWriter writer;
  const auto done = tokenizer_to_gguf(directory.path(), 64, writer,
                                      ChatFormat{ChatStyle::chatml, "Be brief.", {}, {}});
  ASSERT_TRUE(done.has_value()) << done.error().message;
  const auto loaded = Tokenizer::from_gguf(*written(directory, writer), 64);
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
  for (const char* marker : {"<|im_start|>", "<|im_end|>"})
    EXPECT_GE((*loaded)->special_id(marker), 0) << marker;
}

TEST(TokenizerConvert, ATemplateProcessorNamesTheBeginToken) {
  const TemporaryDirectory directory;
  json root = small_json();
  root["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single",
       {{{"SpecialToken", {{"id", "<|im_start|>"}, {"type_id", 0}}}},
        {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
      {"special_tokens", {{"<|im_start|>", {{"id", "<|im_start|>"}, {"ids", json::array({0})}}}}}};
  directory.file("tokenizer.json", root.dump());
  GgufWriter writer;
  const auto done = convert(directory, writer);
  ASSERT_TRUE(done.has_value()) << done.error().message;
  const auto tokenizer = Tokenizer::from_gguf(*written(directory, writer), 64);
  ASSERT_TRUE(tokenizer.has_value());
  EXPECT_EQ((*tokenizer)->begin_token(), 0);
}

struct Refused {
  const char* name;
  void (*spoil)(json& root, json& config);
  ErrorCode code;
  const char* says;
};
class RefusedTokenizer : public testing::TestWithParam<Refused> {};

TEST_P(RefusedTokenizer, IsNamed) {
  json root = small_json();
  json config = small_config();
  GetParam().spoil(root, config);
  const TemporaryDirectory directory;
  directory.file("tokenizer.json", root.dump(-1, ' ', false, json::error_handler_t::ignore));
  directory.file("tokenizer_config.json", config.dump());
  GgufWriter writer;
  const auto done = convert(directory, writer, 8);
  ASSERT_FALSE(done.has_value());
  EXPECT_EQ(done.error().code, GetParam().code) << done.error().message;
  EXPECT_NE(done.error().message.find(GetParam().says), std::string::npos) << done.error().message;
}

using J = json;
constexpr auto kNot = ErrorCode::unsupported;
constexpr auto kBad = ErrorCode::malformed;
INSTANTIATE_TEST_SUITE_P(
    TokenizerConvert, RefusedTokenizer,
    testing::Values(
        Refused{"Normalizer",
                [](J& r, J&) {
                  r["normalizer"] = {{"type", "NFC"}};
                },
                kNot, "NFC"},
        Refused{
            "NormalizerSequence",
            [](J& r, J&) {
              r["normalizer"] = {{"type", "Sequence"}, {"normalizers", {{{"type", "Lowercase"}}}}};
            },
            kNot, "Lowercase"},
        Refused{"PartOfControlBytes",
                [](J& r, J&) {
                  r["normalizer"] = {{"type", "\x7f\u009b31m"}};
                },
                kNot, "\\x7f\\xc2\\x9b31m"},
        Refused{"VocabularyOfControlBytes",
                [](J& r, J&) { r["model"]["vocab"]["\x1b[31m"] = 1000; }, kBad,
                "'\\x1b[31m' has id"},
        Refused{"AddedTokenOfControlBytes",
                [](J& r, J&) {
                  r["added_tokens"].push_back({{"id", 1000}, {"content", "\x1b[31m"}});
                },
                kBad, "'\\x1b[31m'"},
        Refused{"BeginTokenOfControlBytes", [](J&, J& c) { c["bos_token"] = "\x1b[31m"; }, kBad,
                "'\\x1b[31m' is not in"},
        Refused{"Qwen2WithoutFormC",
                [](J& r, J&) {
                  make_qwen2(r);
                  r["normalizer"] = nullptr;
                },
                kNot, "normalizer"},
        Refused{"Qwen2WithAnotherExpression",
                [](J& r, J&) {
                  make_qwen2(r);
                  r["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "\\s+";
                },
                kNot, "pre_tokenizer"},
        Refused{"Qwen2ThatCutsTwice",
                [](J& r, J&) {
                  make_qwen2(r);
                  r["pre_tokenizer"]["pretokenizers"][1]["use_regex"] = true;
                },
                kNot, "pre_tokenizer"},
        Refused{"Qwen2Inverted",
                [](J& r, J&) {
                  make_qwen2(r);
                  r["pre_tokenizer"]["pretokenizers"][0]["invert"] = true;
                },
                kNot, "invert"},
        Refused{"NoPreTokenizer", [](J& r, J&) { r["pre_tokenizer"] = nullptr; }, kNot,
                "pre_tokenizer"},
        Refused{"Split",
                [](J& r, J&) {
                  r["pre_tokenizer"]["pretokenizers"][0] = {{"type", "Split"}, {"pattern", "x"}};
                },
                kNot, "Split"},
        Refused{
            "DigitsInGroups",
            [](J& r, J&) { r["pre_tokenizer"]["pretokenizers"][0]["individual_digits"] = false; },
            kNot, "individual_digits"},
        Refused{"PrefixSpace",
                [](J& r, J&) { r["pre_tokenizer"]["pretokenizers"][1]["add_prefix_space"] = true; },
                kNot, "add_prefix_space"},
        Refused{"NoRegex",
                [](J& r, J&) { r["pre_tokenizer"]["pretokenizers"][1]["use_regex"] = false; }, kNot,
                "use_regex"},
        Refused{"PrefixSpaceInConfig", [](J&, J& c) { c["add_prefix_space"] = true; }, kNot,
                "add_prefix_space"},
        Refused{"PostProcessor",
                [](J& r, J&) {
                  r["post_processor"] = {{"type", "BertProcessing"}};
                },
                kNot, "BertProcessing"},
        Refused{"EndTokenByTemplate",
                [](J& r, J&) {
                  r["post_processor"] = {{"type", "TemplateProcessing"},
                                         {"single",
                                          {{{"Sequence", {{"id", "A"}}}},
                                           {{"SpecialToken", {{"id", "<|im_end|>"}}}}}}};
                },
                kNot, "post_processor"},
        Refused{"Decoder",
                [](J& r, J&) {
                  r["decoder"] = {{"type", "Metaspace"}};
                },
                kNot, "Metaspace"},
        Refused{"Model", [](J& r, J&) { r["model"]["type"] = "Unigram"; }, kNot, "Unigram"},
        Refused{"NoModel", [](J& r, J&) { r.erase("model"); }, kBad, "model"},
        Refused{"Dropout", [](J& r, J&) { r["model"]["dropout"] = 0.1; }, kNot, "dropout"},
        Refused{"ByteFallback", [](J& r, J&) { r["model"]["byte_fallback"] = true; }, kNot,
                "byte_fallback"},
        Refused{"IgnoreMerges", [](J& r, J&) { r["model"]["ignore_merges"] = true; }, kNot,
                "ignore_merges"},
        Refused{"Suffix", [](J& r, J&) { r["model"]["end_of_word_suffix"] = "</w>"; }, kNot,
                "end_of_word_suffix"},
        Refused{"UnknownToken", [](J& r, J&) { r["model"]["unk_token"] = "a"; }, kNot, "unk_token"},
        Refused{"UnknownMember", [](J& r, J&) { r["model"]["magic"] = 1; }, kNot, "magic"},
        Refused{"HoleInIds", [](J& r, J&) { r["model"]["vocab"]["b"] = 9; }, kBad, "'b'"},
        Refused{"IdTwice", [](J& r, J&) { r["model"]["vocab"]["b"] = 2; }, kBad, "twice"},
        Refused{"NegativeId", [](J& r, J&) { r["model"]["vocab"]["b"] = -1; }, kBad, "'b'"},
        Refused{"EmptyVocabulary", [](J& r, J&) { r["model"]["vocab"] = J::object(); }, kBad,
                "empty"},
        Refused{"VocabularyNoObject", [](J& r, J&) { r["model"]["vocab"] = 3; }, kBad, "vocab"},
        Refused{"MergesNoArray", [](J& r, J&) { r["model"]["merges"] = "a b"; }, kBad, "merges"},
        Refused{"MergeOfThree",
                [](J& r, J&) {
                  r["model"]["merges"][0] = J::array({"a", "b", "c"});
                },
                kBad, "merges"},
        Refused{"MergeOfUnknown", [](J& r, J&) { r["model"]["merges"][0] = "a q"; }, kBad, "q"},
        Refused{"AddedElsewhere", [](J& r, J&) { r["added_tokens"][0]["content"] = "x"; }, kBad,
                "another"},
        Refused{"AddedPastAHole", [](J& r, J&) { r["added_tokens"][0]["id"] = 7; }, kBad, "7"},
        Refused{"AddedHuge", [](J& r, J&) { r["added_tokens"][0]["id"] = 1ULL << 40; }, kBad,
                "added_tokens"},
        Refused{"AddedStrips", [](J& r, J&) { r["added_tokens"][0]["lstrip"] = true; }, kNot,
                "lstrip"},
        Refused{"MoreThanRows",
                [](J& r, J&) {
                  for (int i = 0; i < 3; ++i) r["model"]["vocab"]["x" + std::to_string(i)] = 6 + i;
                },
                ErrorCode::mismatch, "8"},
        Refused{"EndTokenUnknown", [](J&, J& c) { c["eos_token"] = "</s>"; }, kBad, "</s>"},
        Refused{"EndTokenNoText", [](J&, J& c) { c["eos_token"] = 3; }, kBad, "eos_token"},
        Refused{"AddsEnd", [](J&, J& c) { c["add_eos_token"] = true; }, kNot, "add_eos_token"},
        Refused{"TemplateNoText", [](J&, J& c) { c["chat_template"] = 3; }, kBad, "chat_template"},
        Refused{"NoObject", [](J& r, J&) { r = J::array(); }, kBad, "object"}),
    [](const auto& param) { return param.param.name; });

TEST(TokenizerConvert, BrokenJsonIsAnErrorThatNamesTheFile) {
  const std::pair<std::string, ErrorCode> cases[] = {
      {"", kBad},
      {"{", kBad},
      {"{\"model\": \"\xFF\"}", kBad},
      {std::string(100, '['), kNot},
      {std::string(1000000, '['), kNot},
      {"{\"a\":" + std::string(1000000, '{'), kNot},
  };
  for (const auto& [text, code] : cases) {
    const TemporaryDirectory directory;
    directory.file("tokenizer.json", text);
    GgufWriter writer;
    const auto done = convert(directory, writer);
    ASSERT_FALSE(done.has_value());
    EXPECT_EQ(done.error().code, code) << done.error().message;
    EXPECT_NE(done.error().message.find("tokenizer.json"), std::string::npos);
  }
}

TEST(TokenizerConvert, AnOlderKindOfVocabularyIsRefusedByName) {
  const TemporaryDirectory directory;
  directory.file("vocab.json", "{}");
  GgufWriter writer;
  const auto done = convert(directory, writer);
  ASSERT_FALSE(done.has_value());
  EXPECT_NE(done.error().message.find("vocab.json"), std::string::npos);
}

}  // namespace
}  // namespace runnel
