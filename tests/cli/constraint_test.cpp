// SPDX-License-Identifier: Apache-2.0
// runnel run and chat with an answer of a schema, an expression, a choice or a grammar.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/cli/program.h"

namespace runnel::test {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

std::string file(const std::string& name, const std::string& text) {
  const std::string path = (scratch() / name).string();
  std::ofstream(path) << text;
  return path;
}

Outcome run(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {"run", chat_model(), "-t", "1", "-p", "Once", "-n", "60"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run_program(arguments);
}

TEST(Constraint, ShapesWhatRunWrites) {
  EXPECT_THAT(run({"--regex", "[0-9]{3}-[xy]"}).out, MatchesRegex("[0-9]{3}-[xy]\n?"));
  EXPECT_THAT(run({"--choice", "left", "--choice", "right"}).out,
              AnyOf(HasSubstr("left"), HasSubstr("right")));
  EXPECT_THAT(run({"--grammar", file("g.gbnf", "root ::= \"ab\"+ \"c\"")}).out,
              MatchesRegex("(ab)+c?\n?"));
  const std::string schema =
      file("s.json",
           R"({"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]})");
  EXPECT_THAT(run({"--json-schema", schema}).out,
              AnyOf(HasSubstr("{\"a\": true}"), HasSubstr("{\"a\": false}")));
}

TEST(Constraint, ShapesWhatChatAnswers) {
  const Outcome o = run_program(
      {"chat", chat_model(), "-t", "1", "--choice", "aye", "--choice", "nay"}, "Hello\n");
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.out, AnyOf(HasSubstr("aye"), HasSubstr("nay")));
}

TEST(Constraint, BenchMeasuresItBesideFreeDecode) {
  const std::string schema =
      file("n.json",
           R"({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})");
  const Outcome o = run_program({"bench", chat_model(), "-p", "0", "-n", "24", "-r", "1", "-t", "1",
                                 "--json-schema", schema});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.out, AllOf(HasSubstr("\nsampled "), HasSubstr("\nconstrained ")));
}

TEST(Constraint, AMistakeIsNamedWithItsOption) {
  const Outcome wrong = run({"--regex", "(a"});
  EXPECT_NE(wrong.code, 0);
  EXPECT_THAT(wrong.err, HasSubstr("--regex"));
  const Outcome missing = run({"--json-schema", (scratch() / "none.json").string()});
  EXPECT_NE(missing.code, 0);
  EXPECT_THAT(missing.err, HasSubstr("none.json"));
  const Outcome two = run({"--regex", "a", "--choice", "b"});
  EXPECT_NE(two.code, 0);
  EXPECT_THAT(two.err, HasSubstr("--regex"));
}

}  // namespace
}  // namespace runnel::test
