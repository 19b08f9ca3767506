// SPDX-License-Identifier: Apache-2.0
// The pipeline cache on disk: written, read, and harmless whatever is in it.
#include <fstream>

#include "tests/support/random.h"
#include "tests/support/random_model.h"
#include "tests/support/temporary_directory.h"
#include "tests/vulkan/vulkan_fixture.h"

namespace runnel::test {
namespace {

class VulkanPipelineCache : public VulkanTest {
 protected:
  std::vector<float> logits_with(const std::filesystem::path& cache) {
    auto device = backend({}, cache);
    const LoadedModel loaded = load_on(*device, make_random_model(small_config(), {}, 3), 16);
    auto state = loaded.state();
    return loaded.run(*state, Random(5).tokens(3, loaded.source.config.vocab_size));
  }

  TemporaryDirectory directory_;
};

TEST_F(VulkanPipelineCache, IsWrittenOnceAndLeftAloneByTheNextStart) {
  const std::filesystem::path path = directory_.path() / "pipelines";
  const std::vector<float> first = logits_with(path);
  ASSERT_TRUE(std::filesystem::exists(path));
  EXPECT_GT(std::filesystem::file_size(path), 72U);
  EXPECT_EQ(logits_with(path), first);
}

TEST_F(VulkanPipelineCache, DamageIsIgnoredAndRepaired) {
  const std::filesystem::path path = directory_.path() / "pipelines";
  const std::vector<float> expected = logits_with(path);
  const std::string good = read_text(path);
  std::string flipped = good;
  flipped.back() = static_cast<char>(flipped.back() ^ 1);
  std::string other_driver = good;
  other_driver[9] = static_cast<char>(other_driver[9] ^ 1);
  for (const std::string& text :
       {std::string(), good.substr(0, 40), flipped, other_driver, std::string(5000, '\xff')}) {
    std::ofstream(path, std::ios::binary) << text;
    EXPECT_EQ(logits_with(path), expected);
    EXPECT_EQ(read_text(path).size(), good.size());
  }
}

TEST_F(VulkanPipelineCache, LiesInTheDirectoryThatTheCallerNames) {
  EXPECT_EQ(vulkan::cache_file({}, 0), std::filesystem::path());
  const std::filesystem::path directory = directory_.path() / "not" / "yet";
  const std::filesystem::path file = vulkan::cache_file(directory, 3);
  EXPECT_EQ(file, directory / "vulkan-3.pipelines");
  EXPECT_TRUE(std::filesystem::is_directory(directory));
}

TEST_F(VulkanPipelineCache, PlaceThatCannotBeWrittenIsNoError) {
  EXPECT_FALSE(logits_with("/nowhere/at/all/pipelines").empty());
}

}  // namespace
}  // namespace runnel::test
