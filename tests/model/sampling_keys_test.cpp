// SPDX-License-Identifier: Apache-2.0
// What a model file recommends for drawing from it.
#include "runtime/model/sampling_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/loaded_model.h"
#include "tests/support/temporary_directory.h"

namespace runnel {
namespace {

using test::TemporaryDirectory;
using ::testing::HasSubstr;

Result<SamplingOptions> read(const std::function<void(GgufWriter&)>& set) {
  const TemporaryDirectory directory;
  GgufWriter writer;
  writer.set("general.architecture", std::string("gsa"));
  set(writer);
  EXPECT_TRUE(writer.write(directory / "keys.gguf"));
  const auto file = GgufFile::open(directory / "keys.gguf");
  EXPECT_TRUE(file) << file.error().message;
  return sampling_from_gguf(**file);
}

TEST(SamplingKeys, AFileWithoutThemHasTheDefaults) {
  const auto options = read([](GgufWriter&) {});
  ASSERT_TRUE(options) << options.error().message;
  EXPECT_EQ(*options, default_sampling());
  EXPECT_TRUE(validate(default_sampling()));
}

TEST(SamplingKeys, EveryOptionIsRead) {
  const auto options = read([](GgufWriter& w) {
    for (const char* assignment :
         {"temp=0.25", "top_k=40", "top_p=0.5", "min_p=0.125", "penalty_repeat=1.5",
          "penalty_present=0.75", "penalty_freq=-0.5", "penalty_last_n=64", "dry_multiplier=0.875",
          "dry_base=2", "xtc_probability=0.5", "xtc_threshold=0.25", "mirostat=2", "mirostat_tau=3",
          "mirostat_eta=0.5", "dry_allowed_length=3", "dry_penalty_last_n=-1",
          R"(dry_sequence_breakers=["\n"])"}) {
      const Status set = set_sampling_key(assignment, w);
      EXPECT_TRUE(set) << assignment;
    }
  });
  ASSERT_TRUE(options) << options.error().message;
  SamplingOptions expected;
  expected.temperature = 0.25F;
  expected.top_k = 40;
  expected.top_p = 0.5F;
  expected.min_p = 0.125F;
  expected.repetition_penalty = 1.5F;
  expected.presence_penalty = 0.75F;
  expected.frequency_penalty = -0.5F;
  expected.penalty_window = 64;
  expected.dry_multiplier = 0.875F;
  expected.dry_base = 2.0F;
  expected.xtc_probability = 0.5F;
  expected.xtc_threshold = 0.25F;
  expected.mirostat = 2;
  expected.mirostat_tau = 3.0F;
  expected.mirostat_eta = 0.5F;
  expected.dry_allowed_length = 3;
  expected.dry_range = 1024;
  expected.dry_breakers = {"\n"};
  EXPECT_EQ(*options, expected);
}

TEST(SamplingKeys, WhatAFileDoesNotNameIsOff) {
  const auto options =
      read([](GgufWriter& w) { EXPECT_TRUE(set_sampling_key("dry_multiplier=0.8", w)); });
  ASSERT_TRUE(options) << options.error().message;
  SamplingOptions expected;
  expected.temperature = default_sampling().temperature;
  expected.dry_multiplier = 0.8F;
  EXPECT_EQ(*options, expected);
}

TEST(SamplingKeys, BadValuesAreMalformedByName) {
  const auto refused = [](const char* key, GgufValue value, const char* says) {
    const auto options = read([&](GgufWriter& w) { w.set(key, std::move(value)); });
    ASSERT_FALSE(options) << key;
    EXPECT_EQ(options.error().code, ErrorCode::malformed);
    EXPECT_THAT(options.error().message, HasSubstr(says));
  };
  refused("general.sampling.temp", -1.0F, "temperature is -1");
  refused("general.sampling.temp", std::string("hot"), "general.sampling.temp");
  refused("general.sampling.top_p", 1e300, "general.sampling.top_p");
  refused("general.sampling.top_k", std::int64_t{1} << 40, "general.sampling.top_k");
  refused("general.sampling.penalty_last_n", std::int32_t{-2}, "penalty_window is -2");
  refused("general.sampling.dry_sequence_breakers", std::vector<std::string>{""}, "dry_breakers");
  refused("general.sampling.dry_sequence_breakers", 1.0F, "dry_sequence_breakers");
}

TEST(SamplingKeys, AssignmentsThatAreNoneAreRefused) {
  GgufWriter writer;
  for (const char* text : {"", "temp", "temp=", "temp=x", "temp=0.5x", "=1", "heat=1", "top_k=1.5",
                           "dry_sequence_breakers=x", "dry_sequence_breakers=[1]"}) {
    const Status status = set_sampling_key(text, writer);
    ASSERT_FALSE(status) << text;
    EXPECT_EQ(status.error().code, ErrorCode::invalid_argument);
    EXPECT_THAT(status.error().message, HasSubstr("NAME=VALUE"));
  }
}

TEST(SamplingKeys, AModelHasThem) {
  const TemporaryDirectory directory;
  test::write_gguf(test::make_random_model(test::small_config(), {}, 1), directory / "m.gguf",
                   [](GgufWriter& w) { EXPECT_TRUE(set_sampling_key("min_p=0.25", w)); });
  const auto model = Model::load(directory / "m.gguf");
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ((*model)->sampling().min_p, 0.25F);
}

}  // namespace
}  // namespace runnel
