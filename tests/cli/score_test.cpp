// SPDX-License-Identifier: Apache-2.0
// runnel score: ranked choices, JSON lines.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "runnel/scoring.h"
#include "tests/cli/program.h"

namespace runnel::test {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

std::vector<Json> lines_of(const std::string& out) {
  std::vector<Json> lines;
  std::istringstream in(out);
  for (std::string line; std::getline(in, line);) lines.push_back(Json::parse(line));
  return lines;
}

Outcome score(const std::string& input, std::vector<std::string> more = {}) {
  std::vector<std::string> arguments = {"score", chat_model(), "-t", "1"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run_program(arguments, input);
}

TEST(Score, RanksChoicesByTheirLogLikelihood) {
  const Outcome o = score(
      "{\"id\": [7], \"prompt\": \"Once\", \"choices\": [\" upon\", \" a\", \" time ago\"]}\n\n"
      "{\"prompt\": \"Once\", \"choices\": [\"x\"]}\n");
  ASSERT_EQ(o.code, 0) << o.err;
  const std::vector<Json> lines = lines_of(o.out);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0]["id"], Json::array({7}));
  EXPECT_FALSE(lines[1].contains("id"));

  const auto model = *Model::load(chat_model(), {.device = "auto", .threads = 1});
  Session session = *Session::create(model);
  ASSERT_TRUE(session.prefill(*model->encode("Once")));
  std::vector<std::vector<TokenId>> choices;
  for (const char* text : {" upon", " a", " time ago"}) choices.push_back(*model->encode(text));
  const auto expected = *score_choices(session, choices);
  std::size_t best = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    const Json& choice = lines[0]["choices"][i];
    EXPECT_DOUBLE_EQ(choice["logprob"], expected[i].total());
    EXPECT_DOUBLE_EQ(choice["mean_logprob"], expected[i].mean());
    EXPECT_EQ(choice["tokens"], choices[i].size());
    if (expected[i].total() > expected[best].total()) best = i;
  }
  EXPECT_EQ(lines[0]["ranking"][0], best);
  EXPECT_EQ(lines[0]["best"], lines[0]["choices"][best]["text"]);
}

TEST(Score, ByMeanForgivesLength) {
  const std::string question = "{\"prompt\": \"Once\", \"choices\": [\"abcdefghijkl\", \"z\"]}";
  const Json by_sum = lines_of(score(question).out).at(0);
  const Json by_mean = lines_of(score(question, {"--by", "mean"}).out).at(0);
  EXPECT_EQ(by_sum["choices"], by_mean["choices"]);
  EXPECT_EQ(by_sum["best"], "z");
  const Json& first = by_mean["choices"][by_mean["ranking"][0].get<std::size_t>()];
  const Json& second = by_mean["choices"][by_mean["ranking"][1].get<std::size_t>()];
  EXPECT_GE(first["mean_logprob"], second["mean_logprob"]);
}

TEST(Score, TakesOneQuestionFromTheCommandLineAndFiles) {
  const std::string file = (scratch() / "questions.jsonl").string();
  std::ofstream(file) << "{\"prompt\": \"Once\", \"choices\": [\"a\", \"b\"]}\n";
  const Outcome from_file = score("", {"--input", file});
  ASSERT_EQ(from_file.code, 0) << from_file.err;
  EXPECT_EQ(score("", {"-p", "Once", "--choice", "a", "--choice", "b"}).out, from_file.out);
}

TEST(Score, SaysWhatIsWrongWithALine) {
  struct Mistake {
    const char* line;
    const char* message;
  };
  const Mistake mistakes[] = {
      {"nonsense", "line 2"},
      {"[]", "expected {\"prompt\""},
      {"{\"prompt\": \"a\"}", "expected {\"prompt\""},
      {"{\"prompt\": \"a\", \"choices\": []}", "expected {\"prompt\""},
      {"{\"prompt\": \"a\", \"choices\": [1]}", "expected {\"prompt\""},
      {"{\"prompt\": \"a\", \"choices\": [\"\"]}", "a choice is empty"},
      {"{\"prompt\": \"a\", \"choices\": [\"b\"], \"chioces\": 1}", "chioces"},
  };
  for (const Mistake& m : mistakes) {
    const Outcome o =
        score("{\"prompt\": \"a\", \"choices\": [\"b\"]}\n" + std::string(m.line) + "\n");
    EXPECT_EQ(o.code, 1) << m.line;
    EXPECT_THAT(o.err, HasSubstr(m.message)) << m.line;
    EXPECT_THAT(o.err, HasSubstr("line 2"));
    EXPECT_EQ(lines_of(o.out).size(), 1U) << "what was right before it is answered";
  }
  EXPECT_THAT(score("", {"--input", "/nowhere/a.jsonl"}).err, HasSubstr("/nowhere/a.jsonl"));
  EXPECT_THAT(run_program({"score", bare_model()}).err, HasSubstr("tokenizer"));
}

}  // namespace
}  // namespace runnel::test
