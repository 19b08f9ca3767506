// SPDX-License-Identifier: Apache-2.0
// runnel run: what comes out on standard output, and snapshots between runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/program.h"
#include "tests/support/chat_model.h"

namespace runnel::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> continue_text(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {"run", chat_model(), "-t", "1"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

std::string output(const std::vector<std::string>& arguments, const std::string& input = "") {
  const Outcome o = run_program(arguments, input);
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.err, IsEmpty());
  return o.out;
}

/// The chat model with another scale, so of another fingerprint.
std::string other_chat_model() {
  const auto file = scratch() / "other.gguf";
  write_chat_model(file, [](GgufWriter& writer) { writer.set("gsa.scale", 0.5F); });
  return file.string();
}

TEST(Run, PrintsTheContinuationAndNothingElse) {
  const std::string text = output(continue_text({"-p", "Once", "-n", "12"}));
  EXPECT_THAT(text, testing::Not(HasSubstr("Once")));
  EXPECT_EQ(output(continue_text({"-p", "Once", "-n", "0"})), "");
  EXPECT_EQ(output(continue_text({"-p", "Once", "-n", "12"})), text);
}

TEST(Run, ReadsThePromptFromStandardInput) {
  EXPECT_EQ(output(continue_text({"-p", "-", "-n", "12"}), "Once"),
            output(continue_text({"-p", "Once", "-n", "12"})));
}

TEST(Run, TheSeedDecidesTheText) {
  const auto with_seed = [](const std::string& seed) {
    return output(
        continue_text({"-p", "Once", "-n", "30", "--temp", "1.5", "--seed", seed, "--ignore-end"}));
  };
  EXPECT_EQ(with_seed("1"), with_seed("1"));
  EXPECT_NE(with_seed("1"), with_seed("2"));
}

TEST(Run, TokenIdsInTokenIdsOut) {
  const std::string ids = output({"run", bare_model(), "--tokens", "1,2,3", "-n", "5"});
  EXPECT_EQ(std::count(ids.begin(), ids.end(), ','), 4);
  EXPECT_EQ(ids.back(), '\n');
  // The tokenizer of the other file has no say in the weights: the same ids.
  EXPECT_EQ(output({"run", chat_model(), "--tokens", "1 2 3", "-n", "5", "--ignore-end"}), ids);
}

TEST(Run, SavedAndLoadedGoesOnAsIfNeverStopped) {
  const std::string snapshot = (scratch() / "run.snap").string();
  for (const std::vector<std::string>& sampling :
       {std::vector<std::string>{},
        {"--temp", "1.2", "--seed", "5", "--top-p", "0.9", "--repeat-penalty", "1.3"},
        {"--repeat-penalty", "3", "--presence-penalty", "2"},
        {"--dry-multiplier", "4", "--dry-allowed-length", "1", "--dry-breaker", "e"},
        {"--temp", "1", "--mirostat", "2", "--mirostat-ent", "3", "--mirostat-lr", "0.5"},
        {"--temp",
         "1",
         "--xtc-probability",
         "0.5",
         "--xtc-threshold",
         "0.01",
         "--top-nsigma",
         "2",
         "--typical",
         "0.9",
         "--dynatemp-range",
         "0.5",
         "--dynatemp-exp",
         "2",
         "--samplers",
         "top_nsigma;typical;xtc;temp",
         "--no-repeat-ngram",
         "2",
         "--ban-text",
         "e",
         "--logit-bias",
         "\"a\"=1"}}) {
    std::vector<std::string> whole = continue_text({"-p", "The river", "-n", "40", "--ignore-end"});
    whole.insert(whole.end(), sampling.begin(), sampling.end());
    const std::string expected = output(whole);
    for (const char* first : {"1", "13", "39"}) {
      std::vector<std::string> begin =
          continue_text({"-p", "The river", "-n", first, "--ignore-end", "--save", snapshot});
      begin.insert(begin.end(), sampling.begin(), sampling.end());
      std::string text = output(begin);
      // No prompt, and no sampling options: the snapshot has them.
      text += output(continue_text(
          {"--load", snapshot, "-n", std::to_string(40 - std::stoi(first)), "--ignore-end"}));
      EXPECT_EQ(text, expected) << first;
    }
  }
}

TEST(Run, BannedTextsNeverCome) {
  const std::vector<std::string> plain = {"-p", "The river", "-n", "80",          "--temp",
                                          "1",  "--seed",    "3",  "--ignore-end"};
  const std::string text = output(continue_text(plain));
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  std::size_t at = 0;  // of two letters, whatever tokens they are made of
  while (at + 2 < text.size() && !(letter(text[at]) && letter(text[at + 1]))) ++at;
  const std::string some = text.substr(at, 2);
  ASSERT_TRUE(some.size() == 2 && letter(some[0]) && letter(some[1])) << text;
  std::vector<std::string> banned = plain;
  banned.insert(banned.end(), {"--ban-text", some});
  EXPECT_EQ(output(continue_text(banned)).find(some), std::string::npos);
}

TEST(Run, TakesBiasesAsLlamaCppWritesThem) {
  const auto forced = [](const char* bias) {
    return output({"run", bare_model(), "--tokens", "1,2,3", "-n", "3", "--ignore-end",
                   "--logit-bias", bias});
  };
  EXPECT_EQ(forced("7=900"), "7,7,7\n");
  EXPECT_EQ(forced("7+900"), "7,7,7\n");
  const std::string greedy = forced("7=0");
  const std::string first = greedy.substr(0, greedy.find(','));
  EXPECT_NE(forced((first + "-900").c_str()).substr(0, first.size() + 1), first + ",");
  for (const char* wrong : {"7", "7=", "7--1", "x=1", "\"x\"", "\"\"=1"}) {
    const Outcome o =
        run_program({"run", bare_model(), "--tokens", "1", "-n", "1", "--logit-bias", wrong});
    EXPECT_EQ(o.code, 1) << wrong;
    EXPECT_THAT(o.err, HasSubstr("--logit-bias is \"" + std::string(wrong))) << wrong;
  }
}

TEST(Run, RefusesSamplersThatAreNone) {
  const auto said = [](const std::vector<std::string>& options) {
    std::vector<std::string> all = {"run", bare_model(), "--tokens", "1", "-n", "1"};
    all.insert(all.end(), options.begin(), options.end());
    const Outcome o = run_program(all);
    EXPECT_NE(o.code, 0);
    return o.err;
  };
  EXPECT_THAT(said({"--samplers", "top_k;top_q"}), HasSubstr("--samplers: the order of samplers"));
  EXPECT_THAT(said({"--samplers", "top_k;top_k"}), HasSubstr("top_k twice"));
  EXPECT_THAT(said({"--mirostat", "1"}), HasSubstr("mirostat is 1, expected 0 (off) or 2"));
  EXPECT_THAT(said({"--typical", "0"}), HasSubstr("typical_p is 0"));
  EXPECT_THAT(said({"--ban-text", "x"}), HasSubstr("banned texts need a tokenizer"));
  EXPECT_THAT(said({"--logit-bias", "99999999=1"}), HasSubstr("logit_bias names token 99999999"));
}

TEST(Run, OptionsGivenWithALoadedSnapshotWin) {
  const std::string snapshot = (scratch() / "options.snap").string();
  const std::string greedy = output(continue_text({"-p", "The river", "-n", "20", "--ignore-end"}));
  std::string text =
      output(continue_text({"-p", "The river", "-n", "5", "--ignore-end", "--save", snapshot}));
  const std::string drawn = output(continue_text(
      {"--load", snapshot, "-n", "15", "--ignore-end", "--temp", "3", "--seed", "2"}));
  EXPECT_NE(text + drawn, greedy);
}

TEST(Run, APromptAfterALoadedSnapshotIsReadAfterIt) {
  const std::string snapshot = (scratch() / "prompt.snap").string();
  output(continue_text({"-p", "The ri", "-n", "0", "--save", snapshot}));
  EXPECT_EQ(output(continue_text({"--load", snapshot, "-p", "ver", "-n", "20"})),
            output(continue_text({"-p", "The river", "-n", "20"})));
}

TEST(Run, ASnapshotOfAnotherModelIsRefused) {
  const std::string snapshot = (scratch() / "other.snap").string();
  output(continue_text({"-p", "x", "-n", "1", "--save", snapshot}));
  for (const char* command : {"run", "chat"}) {
    const std::string model = command == std::string("run") ? bare_model() : other_chat_model();
    const Outcome o = run_program({command, model, "--load", snapshot});
    EXPECT_EQ(o.code, 1);
    EXPECT_THAT(o.err, testing::StartsWith("runnel: " + snapshot + ": snapshot: belongs to"));
  }
}

TEST(Run, ASnapshotGoesBackIntoItsWindowAlone) {
  const std::string snapshot = (scratch() / "window.snap").string();
  const std::string whole =
      output(continue_text({"-p", "The river", "-n", "30", "--ignore-end", "--window", "3"}));
  EXPECT_NE(whole, output(continue_text({"-p", "The river", "-n", "30", "--ignore-end"})));
  std::string text = output(continue_text(
      {"-p", "The river", "-n", "10", "--ignore-end", "--window", "3", "--save", snapshot}));
  text += output(continue_text({"--load", snapshot, "-n", "20", "--ignore-end", "--window", "3"}));
  EXPECT_EQ(text, whole);
  EXPECT_THAT(output({"snapshot", "inspect", snapshot}), HasSubstr("window of 3"));
  const Outcome o = run_program(continue_text({"--load", snapshot, "-n", "1"}));
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, HasSubstr("window of 3 slots, this model was loaded with one of 6"));
}

TEST(Run, AWindowThatTheModelLacksIsAnError) {
  for (const char* window : {"-1", "7", "1000000000000"}) {
    const Outcome o = run_program(continue_text({"-p", "x", "-n", "1", "--window", window}));
    EXPECT_NE(o.code, 0);
    EXPECT_THAT(o.err, HasSubstr("window_slots: " + std::string(window) + ", expected 0 to 6"));
    EXPECT_THAT(o.out, IsEmpty());
  }
  EXPECT_NE(run_program(continue_text({"-p", "x", "--window", "many"})).code, 0);
}

TEST(Run, AnUnwritableSnapshotIsAnErrorAfterTheText) {
  const Outcome o = run_program(continue_text({"-p", "x", "-n", "3", "--save", "/nowhere/a.snap"}));
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, HasSubstr("/nowhere"));
}

TEST(Run, StatsGoToStandardError) {
  const Outcome o =
      run_program(continue_text({"-p", "Once", "-n", "4", "--stats", "--ignore-end"}));
  EXPECT_EQ(o.code, 0);
  EXPECT_THAT(o.err, HasSubstr("generated   4 tokens"));
  EXPECT_THAT(o.out, testing::Not(HasSubstr("tokens")));
}

TEST(Run, LogprobsOfEveryTokenGoToStandardError) {
  const Outcome plain = run_program(continue_text({"-p", "Once", "-n", "5", "--ignore-end"}));
  const Outcome o =
      run_program(continue_text({"-p", "Once", "-n", "5", "--ignore-end", "--logprobs", "2"}));
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(o.out, plain.out);
  EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 5);
  EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '|'), 5);
  const Outcome drawn = run_program(continue_text(
      {"-p", "Once", "-n", "5", "--ignore-end", "--logprobs", "0", "--logprobs-of-draw"}));
  EXPECT_THAT(drawn.err, HasSubstr("0.0000")) << "greedy is certain";
}

TEST(Run, SeveralAnswersAreThoseOfTheSeedsThatFollow) {
  const std::vector<std::string> sampled = {"-p", "Once", "-n", "9", "--temp", "1.5", "--seed"};
  const auto with = [&](const std::string& seed, const std::vector<std::string>& more = {}) {
    std::vector<std::string> all = sampled;
    all.push_back(seed);
    all.insert(all.end(), more.begin(), more.end());
    return output(continue_text(all));
  };
  EXPECT_EQ(with("4", {"--answers", "3"}),
            "[1]\n" + with("4") + "\n[2]\n" + with("5") + "\n[3]\n" + with("6") + "\n");
  const std::string best = with("4", {"--best-of", "3"});
  EXPECT_THAT((std::vector<std::string>{with("4") + "\n", with("5") + "\n", with("6") + "\n"}),
              testing::Contains(best));
}

TEST(Run, RefusesNumbersOfAnswersThatCannotBe) {
  EXPECT_EQ(run_program(continue_text({"-p", "x", "--answers", "17"})).code, 2);
  EXPECT_EQ(run_program(continue_text({"-p", "x", "--logprobs", "21"})).code, 2);
  const Outcome fewer = run_program(continue_text({"-p", "x", "--answers", "3", "--best-of", "2"}));
  EXPECT_EQ(fewer.code, 2);
  EXPECT_THAT(fewer.err, HasSubstr("--best-of is 2"));
  EXPECT_EQ(run_program(continue_text({"-p", "x", "--answers", "2", "--save", "a.snap"})).code, 2);
  EXPECT_EQ(run_program(continue_text({"-p", "x", "--best-of", "2", "--stats"})).code, 2);
}

}  // namespace
}  // namespace runnel::test
