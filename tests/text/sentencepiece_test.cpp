// SPDX-License-Identifier: Apache-2.0
// Sentencepiece against reference encodings, and against broken models.
#include <gtest/gtest.h>

#include "runtime/text/sentencepiece_proto.h"
#include "runtime/text/tokenizer.h"
#include "tests/text/tokenizer_fixture.h"

namespace runnel {
namespace {

using Ids = std::vector<TokenId>;
using Random = test::Random;

test::Metadata metadata(const std::string& bytes) {
  test::Metadata m;
  std::vector<std::string> texts;
  if (const auto model = SentencepieceModel::parse(bytes)) {
    for (const auto& piece : model->pieces) texts.push_back(piece.text);
  }
  m.set("tokenizer.ggml.model", std::string("llama"))
      .set("tokenizer.ggml.tokens", GgufArray(std::move(texts)))
      .set("tokenizer.ggml.bos_token_id", std::uint32_t{1})
      .set("tokenizer.ggml.eos_token_id", std::uint32_t{2})
      .set("gsa.tokenizer.sentencepiece",
           GgufArray(std::vector<std::uint8_t>(bytes.begin(), bytes.end())));
  return m;
}

std::shared_ptr<const Tokenizer> load() {
  const auto tokenizer =
      test::load_tokenizer(metadata(test::read_data("sentencepiece/tokenizer.model")), 4000);
  EXPECT_TRUE(tokenizer.has_value()) << tokenizer.error().message;
  return tokenizer ? *tokenizer : nullptr;
}

TEST(Sentencepiece, EqualsAllReferenceVectorsBothWays) {
  const auto tokenizer = load();
  ASSERT_NE(tokenizer, nullptr);
  const nlohmann::json cases = test::read_json("sentencepiece/vectors.json");
  ASSERT_EQ(cases.size(), 137U);
  for (const auto& c : cases) {
    const auto ids = tokenizer->encode(c["text"].get<std::string>(), false);
    ASSERT_TRUE(ids.has_value()) << ids.error().message;
    EXPECT_EQ(*ids, c["ids"].get<Ids>()) << c["text"];
    EXPECT_EQ(tokenizer->decode(c["ids"].get<Ids>()), c["decoded"].get<std::string>());
  }
}

TEST(Sentencepiece, SpecialTokensAreParsedOnlyWhenAsked) {
  const auto tokenizer = load();
  ASSERT_NE(tokenizer, nullptr);
  const Ids special = test::encode(*tokenizer, "<s>a</s>", true);
  EXPECT_EQ(special, (Ids{1, 261, 2}));
  EXPECT_EQ(tokenizer->decode(special, true), "<s>a</s>");
  EXPECT_EQ(tokenizer->decode(special), "a");
  for (const TokenId id : test::encode(*tokenizer, "<s>a</s><unk><0x41>", false)) {
    EXPECT_FALSE(tokenizer->is_special(id));
    EXPECT_NE(id, 0);
  }
}

TEST(Sentencepiece, KnowsItsRoles) {
  const auto tokenizer = load();
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->begin_token(), 1);
  EXPECT_TRUE(tokenizer->is_end(2));
  EXPECT_EQ(tokenizer->special_id("</s>"), 2);
}

TEST(Sentencepiece, SerializeKeepsWhatParseRead) {
  const auto model = SentencepieceModel::parse(test::read_data("sentencepiece/tokenizer.model"));
  ASSERT_TRUE(model.has_value());
  const auto again = SentencepieceModel::parse(model->serialize());
  ASSERT_TRUE(again.has_value()) << again.error().message;
  ASSERT_EQ(again->pieces.size(), model->pieces.size());
  for (std::size_t i = 0; i < model->pieces.size(); ++i) {
    EXPECT_EQ(again->pieces[i].text, model->pieces[i].text);
    EXPECT_EQ(again->pieces[i].score, model->pieces[i].score);
    EXPECT_EQ(again->pieces[i].kind, model->pieces[i].kind);
  }
  EXPECT_EQ(again->padding_id, -1);
  EXPECT_EQ(again->remove_extra_whitespaces, model->remove_extra_whitespaces);
  EXPECT_EQ(again->byte_fallback, model->byte_fallback);
}

TEST(Sentencepiece, InvalidUtf8IsRefusedByOffset) {
  const auto tokenizer = load();
  ASSERT_NE(tokenizer, nullptr);
  const auto ids = tokenizer->encode("ab\xFF", false);
  ASSERT_FALSE(ids.has_value());
  EXPECT_NE(ids.error().message.find("byte 2"), std::string::npos);
}

TEST(Sentencepiece, WithoutItsBytesIsUnsupported) {
  test::Metadata m = metadata(test::read_data("sentencepiece/tokenizer.model"));
  m.erase("gsa.tokenizer.sentencepiece");
  const auto tokenizer = test::load_tokenizer(m, 4000);
  ASSERT_FALSE(tokenizer.has_value());
  EXPECT_EQ(tokenizer.error().code, ErrorCode::unsupported);
}

TEST(Sentencepiece, TokensThatDifferFromTheModelAreRefused) {
  test::Metadata m = metadata(test::read_data("sentencepiece/tokenizer.model"));
  m.array<std::string>("tokenizer.ggml.tokens")[300] = "\x1b[31m";
  const auto tokenizer = test::load_tokenizer(m, 4000);
  ASSERT_FALSE(tokenizer.has_value());
  EXPECT_NE(tokenizer.error().message.find("[300]: is '\\x1b[31m'"), std::string::npos)
      << tokenizer.error().message;
}

TEST(Sentencepiece, EveryTruncationIsAnErrorOrAModel) {
  const std::string bytes = test::read_data("sentencepiece/tokenizer.model");
  for (std::size_t n = 0; n < bytes.size(); n += 1 + n / 64) {
    const auto model = SentencepieceModel::parse(std::string_view(bytes).substr(0, n));
    EXPECT_FALSE(model.has_value()) << n;  // the trainer's part, which asks for BPE, is at the end
  }
}

TEST(Sentencepiece, FlippedBytesNeverBreakTheProcess) {
  const std::string bytes = test::read_data("sentencepiece/tokenizer.model");
  Random random(3);
  int loaded = 0;
  for (int round = 0; round < 60; ++round) {
    std::string spoiled = bytes;
    // Half of the rounds aim at the trainer's and normalizer's parts at the end.
    const std::size_t from = round % 2 == 0 ? 0 : spoiled.size() - 120;
    for (int i = 0; i < 1 + round % 3; ++i)
      spoiled[from + random() % (spoiled.size() - from)] = static_cast<char>(random());
    const auto tokenizer = test::load_tokenizer(metadata(spoiled), 4000);
    if (!tokenizer) continue;
    ++loaded;
    EXPECT_TRUE((*tokenizer)->encode("Hello wörld 12", true).has_value());
  }
  EXPECT_GT(loaded, 0);
}

struct Hostile {
  const char* name;
  void (*spoil)(SentencepieceModel&);
  const char* says;
};
class HostileSentencepiece : public testing::TestWithParam<Hostile> {};

TEST_P(HostileSentencepiece, IsAnErrorThatNamesIt) {
  auto model = SentencepieceModel::parse(test::read_data("sentencepiece/tokenizer.model"));
  ASSERT_TRUE(model.has_value());
  GetParam().spoil(*model);
  const auto again = SentencepieceModel::parse(model->serialize());
  ASSERT_FALSE(again.has_value());
  EXPECT_NE(again.error().message.find(GetParam().says), std::string::npos)
      << again.error().message;
}

using S = SentencepieceModel;
INSTANTIATE_TEST_SUITE_P(
    Sentencepiece, HostileSentencepiece,
    testing::Values(
        Hostile{"NoPieces", [](S& m) { m.pieces.clear(); }, "none"},
        Hostile{"EmptyPiece", [](S& m) { m.pieces[500].text = ""; }, "500"},
        Hostile{"ControlBytesAndZero",
                [](S& m) { m.pieces[500].text = std::string("\x1b[31m\0", 6); },
                "'\\x1b[31m\\x00'"},
        Hostile{"PieceTwice", [](S& m) { m.pieces[500].text = m.pieces[501].text; }, "twice"},
        Hostile{"ZeroByte", [](S& m) { m.pieces[500].text = std::string("a\0b", 3); }, "zero"},
        Hostile{"NotUtf8", [](S& m) { m.pieces[500].text = "\xFF"; }, "UTF-8"},
        Hostile{"TooLong", [](S& m) { m.pieces[500].text = std::string(5000, 'x'); }, "1,024"},
        Hostile{"ScoreNotANumber", [](S& m) { m.pieces[500].score = std::nanf(""); }, "finite"},
        Hostile{"NoUnknown", [](S& m) { m.pieces[0].kind = TokenKind::control; }, "unknown"},
        Hostile{"TwoUnknown", [](S& m) { m.pieces[1].kind = TokenKind::unknown; }, "unknown"},
        Hostile{"ByteMissing", [](S& m) { m.pieces[3].kind = TokenKind::normal; }, "256"},
        Hostile{"ByteMisspelt", [](S& m) { m.pieces[500].kind = TokenKind::byte; }, "<0x00>"},
        Hostile{"BytesWithoutFallback", [](S& m) { m.byte_fallback = false; }, "fallback"},
        Hostile{"ControlOfOneCharacter",
                [](S& m) {
                  m.pieces[500].text = "\xE2\x98\x83";
                  m.pieces[500].kind = TokenKind::control;
                },
                "one character"},
        Hostile{"UserDefinedTooLong",
                [](S& m) {
                  m.pieces[500].text = std::string(65, 'x');
                  m.pieces[500].kind = TokenKind::user_defined;
                },
                "64"}),
    [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace runnel
