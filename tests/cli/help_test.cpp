// SPDX-License-Identifier: Apache-2.0
// What the program says about itself, and about mistakes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/program.h"

namespace runnel::test {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr int kFailed = 1;
constexpr int kUsage = 2;

TEST(Help, ListsTheCommands) {
  const Outcome o = run_program({"--help"});
  EXPECT_EQ(o.code, 0);
  EXPECT_THAT(o.err, IsEmpty());
  for (const char* command :
       {"chat", "run", "inspect", "bench", "perplexity", "snapshot", "devices"}) {
    EXPECT_THAT(o.out, HasSubstr(std::string("\n  ") + command));
  }
}

class CommandHelp : public ::testing::TestWithParam<const char*> {};

TEST_P(CommandHelp, ExplainsOptionsAndGivesAnExample) {
  const Outcome o = run_program({GetParam(), "--help"});
  EXPECT_EQ(o.code, 0);
  EXPECT_THAT(o.err, IsEmpty());
  EXPECT_THAT(o.out, HasSubstr("Usage: "));
  EXPECT_THAT(o.out, AnyOf(HasSubstr("Example"), HasSubstr("--device")));
}

INSTANTIATE_TEST_SUITE_P(All, CommandHelp,
                         ::testing::Values("chat", "run", "inspect", "bench", "perplexity",
                                           "devices", "score", "snapshot"));

TEST(Usage, NoCommandIsAUsageError) {
  const Outcome o = run_program({});
  EXPECT_EQ(o.code, kUsage);
  EXPECT_THAT(o.out, IsEmpty());
  EXPECT_THAT(o.err, HasSubstr("--help"));
}

TEST(Usage, UnknownOptionsAndCommandsAreUsageErrors) {
  EXPECT_THAT(run_program({"sing"}).err, HasSubstr("no command sing"));
  EXPECT_EQ(run_program({"sing"}).code, kUsage);
  const Outcome o = run_program({"run", "model.gguf", "-p", "x", "--sing"});
  EXPECT_EQ(o.code, kUsage);
  EXPECT_THAT(o.err, HasSubstr("--sing"));
}

TEST(Usage, RunNeedsSomethingToContinue) {
  const Outcome o = run_program({"run", "model.gguf"});
  EXPECT_EQ(o.code, kUsage);
  EXPECT_THAT(o.err, HasSubstr("-p"));
}

struct Mistake {
  std::vector<std::string> arguments;
  const char* said;
};

/// The mistake as a shell would show it: names of tests must not hold addresses.
void PrintTo(const Mistake& mistake, std::ostream* out) {
  for (const std::string& argument : mistake.arguments) *out << argument << ' ';
}

class UserError : public ::testing::TestWithParam<Mistake> {};

TEST_P(UserError, IsOneLineOnStandardErrorThatNamesTheCause) {
  std::vector<std::string> arguments = GetParam().arguments;
  for (std::string& argument : arguments) {
    if (argument == "MODEL") argument = chat_model();
    if (argument == "BARE") argument = bare_model();
    if (argument == "SOURCE") argument = __FILE__;
  }
  const Outcome o = run_program(arguments);
  EXPECT_EQ(o.code, kFailed) << o.err;
  EXPECT_THAT(o.out, IsEmpty());
  EXPECT_THAT(o.err, StartsWith("runnel: "));
  EXPECT_THAT(o.err, HasSubstr(GetParam().said));
  EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
}

INSTANTIATE_TEST_SUITE_P(
    All, UserError,
    ::testing::Values(Mistake{{"run", "/nowhere/model.gguf", "-p", "x"}, "/nowhere/model.gguf"},
                      Mistake{{"inspect", "/nowhere/model.gguf"}, "/nowhere/model.gguf"},
                      Mistake{{"inspect", "SOURCE"}, "help_test.cpp"},
                      Mistake{{"run", "SOURCE", "-p", "x"}, "help_test.cpp"},
                      Mistake{{"run", "MODEL", "-p", ""}, "prompt is empty"},
                      Mistake{{"run", "MODEL", "-p", "\xFF"}, "UTF-8"},
                      Mistake{{"run", "BARE", "-p", "x"}, "--tokens"},
                      Mistake{{"chat", "BARE"}, "tokenizer"},
                      Mistake{{"run", "BARE", "--tokens", "1,x"}, "\"x\""},
                      Mistake{{"run", "BARE", "--tokens", "1,264"}, "264"},
                      Mistake{{"run", "MODEL", "-p", "x", "--temp", "-1"}, "temperature"},
                      Mistake{{"run", "MODEL", "-p", "x", "--logit-bias", "7"}, "ID=VALUE"},
                      Mistake{{"run", "MODEL", "-p", "x", "--logit-bias", "999=1"}, "999"},
                      Mistake{{"run", "MODEL", "-p", "x", "--stop", ""}, "stop string"},
                      Mistake{{"run", "MODEL", "-p", "x", "--device", "abacus"}, "abacus"},
                      Mistake{{"run", "MODEL", "--load", "/nowhere/a.snap"}, "/nowhere/a.snap"},
                      Mistake{{"run", "MODEL", "--load", "SOURCE"}, "help_test.cpp"},
                      Mistake{{"perplexity", "MODEL", "--text", "/nowhere/a.txt"},
                              "/nowhere/a.txt"},
                      Mistake{{"perplexity", "MODEL", "--text", "/dev/null"}, "0 tokens"},
                      Mistake{{"snapshot", "inspect", "SOURCE"}, "help_test.cpp"}));

}  // namespace
}  // namespace runnel::test
