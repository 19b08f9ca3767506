// SPDX-License-Identifier: Apache-2.0
// Split models through the program: made by quantize, opened by any part in every command.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/program.h"

namespace runnel::test {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

/// The chat model in two parts, in a folder of this test's own.
class Split : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = scratch() / ("split-" + std::string(info->name()));
    std::filesystem::create_directories(folder_);
    const Outcome o =
        run_program({"quantize", chat_model(), out(), "--type", "f32", "--split-max-size", "1M"});
    ASSERT_EQ(o.code, 0) << o.err;
    EXPECT_THAT(o.out, HasSubstr("m-00001-of-00002.gguf and the parts that follow"));
  }
  std::string out() const { return (folder_ / "m.gguf").string(); }
  std::string part(int number) const {
    return (folder_ / ("m-0000" + std::to_string(number) + "-of-00002.gguf")).string();
  }
  std::filesystem::path folder_;
};

TEST_F(Split, EveryPartIsTheModel) {
  const auto fingerprint = [](const std::string& file) {
    const Outcome o = run_program({"inspect", file, "--json"});
    EXPECT_EQ(o.code, 0) << o.err;
    return Json::parse(o.out, nullptr, false)["fingerprint"];
  };
  const std::string whole = (folder_ / "whole.gguf").string();
  ASSERT_EQ(run_program({"quantize", chat_model(), whole, "--type", "f32"}).code, 0);
  EXPECT_EQ(fingerprint(part(1)), fingerprint(whole));
  EXPECT_EQ(fingerprint(part(2)), fingerprint(whole));
  const auto said = [](const std::string& file) {
    return run_program({"run", file, "-p", "Once", "-n", "8", "--seed", "3", "-t", "1"}).out;
  };
  EXPECT_FALSE(said(whole).empty());
  EXPECT_EQ(said(part(1)), said(whole));
  EXPECT_EQ(said(part(2)), said(whole));
}

TEST_F(Split, PartsAreJoinedByQuantize) {
  const std::string joined = (folder_ / "joined.gguf").string();
  const std::string whole = (folder_ / "whole.gguf").string();
  const std::string again = (folder_ / "again.gguf").string();
  ASSERT_EQ(run_program({"quantize", part(2), joined, "--type", "f32"}).code, 0);
  ASSERT_EQ(run_program({"quantize", chat_model(), whole, "--type", "f32"}).code, 0);
  ASSERT_EQ(run_program({"quantize", whole, again, "--type", "f32"}).code, 0);
  const auto bytes = [](const std::string& file) {
    std::ifstream in(file, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  EXPECT_TRUE(bytes(joined) == bytes(again));
}

TEST_F(Split, InspectSaysTheNumberOfParts) {
  EXPECT_THAT(run_program({"inspect", part(1)}).out, HasSubstr("in 2 files"));
  const Outcome o = run_program({"inspect", part(1), "--json"});
  EXPECT_EQ(Json::parse(o.out, nullptr, false)["files"], 2);
}

TEST_F(Split, AMissingPartIsNamed) {
  std::filesystem::remove(part(1));
  for (const char* command : {"inspect", "bench"}) {
    const Outcome o = run_program({command, part(2)});
    EXPECT_EQ(o.code, 1);
    EXPECT_THAT(o.err, HasSubstr("part 1 of 2: "));
    EXPECT_THAT(o.err, HasSubstr("m-00001-of-00002.gguf"));
  }
}

TEST_F(Split, PartsThatAreThereAreReplacedWithForceOnly) {
  const std::vector<std::string> again = {"quantize", chat_model(),       out(), "--type",
                                          "q8_0",     "--split-max-size", "1M"};
  const Outcome o = run_program(again);
  EXPECT_NE(o.code, 0);
  EXPECT_THAT(o.err, HasSubstr("-of-00002.gguf exists; --force replaces it"));
  std::vector<std::string> forced = again;
  forced.emplace_back("--force");
  EXPECT_EQ(run_program(forced).code, 0);
}

TEST_F(Split, ASizeThatIsNoneIsRefused) {
  for (const char* size : {"90", "M", "-1M", "1.5G", "0M", "90m", "1000001M", "9 M"}) {
    const Outcome o = run_program({"quantize", chat_model(), (folder_ / "n.gguf").string(),
                                   "--type", "f32", "--split-max-size", size});
    EXPECT_NE(o.code, 0) << size;
    EXPECT_THAT(o.err, HasSubstr("--split-max-size")) << size;
  }
}

}  // namespace
}  // namespace runnel::test
