// SPDX-License-Identifier: Apache-2.0
// What convert and quantize share: inputs are never replaced, tables are readable, errors name their file once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/cli/program.h"
#include "tests/support/loaded_model.h"
#include "tests/support/mixes.h"
#include "tests/support/model_files.h"
#include "tests/support/random_model.h"

namespace runnel::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// A folder of this test's own.
class Store : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = scratch() / ("store-" + std::string(info->name()));
    fs::create_directories(folder_);
  }
  std::string file(const std::string& name) const { return (folder_ / name).string(); }

  /// The file is as it was, and the mistake was said as one of usage.
  static void expect_kept(const std::vector<std::string>& arguments, const std::string& input) {
    const auto bytes = [&input] {
      std::ifstream in(input, std::ios::binary);
      return std::string(std::istreambuf_iterator<char>(in), {});
    };
    const std::string before = bytes();
    ASSERT_FALSE(before.empty());
    const Outcome o = run_program(arguments);
    EXPECT_EQ(o.code, 2) << o.err;
    EXPECT_THAT(o.err, testing::StartsWith("runnel: OUT would replace "));
    EXPECT_TRUE(bytes() == before) << "the input was changed";
  }

  fs::path folder_;
};

TEST_F(Store, ACheckpointIsNotReplacedByItsModel) {
  const std::string in = file("X.pth");
  fs::copy_file("tests/data/torch/rwkv7.pth", in);
  expect_kept({"convert", in, in, "--force"}, in);
  expect_kept({"convert", in, in}, in);
}

TEST_F(Store, NoFileOfADirectoryIsReplacedByItsModel) {
  fs::copy(tiny_checkpoint("tiny_base"), folder_ / "in", fs::copy_options::recursive);
  expect_kept({"convert", file("in"), file("in/config.json"), "--force"}, file("in/config.json"));
}

TEST_F(Store, AModelBesideItsCheckpointIsReplaced) {
  fs::copy(tiny_checkpoint("tiny_base"), folder_ / "in", fs::copy_options::recursive);
  EXPECT_EQ(run_program({"convert", file("in"), file("in/model.gguf")}).code, 0);
  EXPECT_EQ(run_program({"convert", file("in"), file("in/model.gguf"), "--force"}).code, 0);
}

TEST_F(Store, AModelIsNotReplacedUnderAnyName) {
  const std::string in = file("q.gguf");
  fs::copy_file(chat_model(), in);
  expect_kept({"quantize", in, in, "--type", "q8_0", "--force"}, in);
  expect_kept({"quantize", in, file("../" + folder_.filename().string() + "/q.gguf"), "--type",
               "q8_0", "--force"},
              in);
  fs::create_symlink("q.gguf", folder_ / "soft.gguf");
  expect_kept({"quantize", in, file("soft.gguf"), "--type", "q8_0", "--force"}, in);
  expect_kept({"quantize", file("soft.gguf"), in, "--type", "q8_0", "--force"}, in);
}

TEST_F(Store, PartsAreNotReplacedByPartsOfTheirModel) {
  ASSERT_EQ(run_program({"quantize", chat_model(), file("m.gguf"), "--type", "f32",
                         "--split-max-size", "1M"})
                .code,
            0);
  const std::string first = file("m-00001-of-00002.gguf"), second = file("m-00002-of-00002.gguf");
  expect_kept(
      {"quantize", first, file("m.gguf"), "--type", "q8_0", "--split-max-size", "1M", "--force"},
      first);
  expect_kept({"quantize", first, second, "--type", "q8_0", "--force"}, second);
}

TEST_F(Store, LongNamesOfTypesDoNotRunTogether) {
  write_gguf(make_mixed_model(small_config(), llama_mixes().front(), true, 3), file("mixed.gguf"));
  const Outcome o =
      run_program({"quantize", file("mixed.gguf"), file("out.gguf"), "--type", "q8_0", "--report"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.out, HasSubstr("iq4_nl   q8_0     "));
  EXPECT_THAT(o.out, HasSubstr("was      is       size"));
}

TEST_F(Store, AValueThatIsNoNumberIsSaidOfItsTensorAndFile) {
  FileParts parts = full_model_parts();
  auto& weights = parts.tensors.at("model.layers.0.attn.q_proj.weight");
  weights.data.assign(std::size_t{4} * 32 * 32, std::byte{0xFF});  // a nan each
  ASSERT_TRUE(parts.write(file("nan.gguf")));
  const Outcome o = run_program({"quantize", file("nan.gguf"), file("out.gguf"), "--type", "q8_0"});
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.out, IsEmpty());
  EXPECT_THAT(o.err, testing::StartsWith("runnel: " + file("nan.gguf") +
                                         ": tensor 'model.layers.0.attn.q_proj.weight': value 0 "));
}

}  // namespace
}  // namespace runnel::test
