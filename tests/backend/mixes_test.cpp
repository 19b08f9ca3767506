// SPDX-License-Identifier: Apache-2.0
// Files of several formats, as llama.cpp writes them: every one opens, for every architecture, and gives the logits of the
// same weights as f32.
#include "tests/support/mixes.h"

#include <gtest/gtest.h>

#include "runtime/backend/reference/reference_backend.h"
#include "runtime/model/file_names.h"
#include "tests/support/compare.h"
#include "tests/support/loaded_model.h"
#include "tests/support/model_files.h"
#include "tests/support/random.h"
#include "tests/support/shapes.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/test_devices.h"

namespace runnel::test {
namespace {

using reference::Activations;

constexpr double kReferenceTolerance = 1e-5;  // of the largest logit
constexpr double kRoundedTolerance = 2e-2;    // RMS: as of Q4_K, see parity_test.cpp
constexpr std::size_t kTokens = 6;

struct Shape {
  std::string name;
  ModelConfig config;
};

/// Every architecture in rows that are no multiple of 256, and two of them in rows that are.
std::vector<Shape> shapes() {
  std::vector<Shape> all{{"slots", small_config()},
                         {"positional", small_positional_config()},
                         {"several kinds", mixed_config()}};
  for (const std::string& name : family_names()) all.push_back({name, family_config(name)});
  ModelConfig c = small_positional_config();
  set_widths(c, 256, 512);
  set_heads(c, 8, 2, 32);
  all.push_back({"wide slots", c});
  c = family_config("gla");
  set_widths(c, 256, 512);
  all.push_back({"wide gla", c});
  return all;
}

/// The model through a file.
RandomModel reopened(const RandomModel& model) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory.path() / "model.gguf";
  write_gguf(model, path);
  auto file = open_model(path);  // the mapping outlives the directory
  if (!file) throw std::runtime_error(file.error().message);
  return {.config = file->config,
          .weights = std::make_shared<Weights>(file->weights),
          .storage = file->file};
}

std::vector<float> logits_of(Backend& backend, const RandomModel& model, std::size_t piece) {
  const LoadedModel on = load_on(backend, model, static_cast<int>(kTokens));
  const auto state = on.state();
  return on.run(*state, Random(7).tokens(kTokens, model.config.vocab_size), piece);
}

class Mixes : public testing::TestWithParam<Mix> {};

TEST_P(Mixes, OpenForEveryArchitectureAndComputeWhatFloatsDo) {
  const auto exact = reference::make_backend(Activations::exact);
  const auto rounded = reference::make_backend(Activations::rounded);
  const TestDevice device = test_devices().front();
  const auto cpu = open(device);
  ASSERT_TRUE(device.is("cpu"));
  bool tied = false;
  for (const Shape& shape : shapes()) {
    SCOPED_TRACE(shape.name);
    tied = !tied;
    const bool may_tie = !has_llama_names(shape.config.architecture);
    const RandomModel made = make_mixed_model(shape.config, GetParam(), tied && may_tie, 31);
    const RandomModel model = reopened(made);
    const std::vector<float> floats = logits_of(*exact, as_floats(made), 0);
    EXPECT_LE(max_relative_error(logits_of(*exact, model, 0), floats), kReferenceTolerance);
    const std::vector<float> expected = logits_of(*rounded, model, 0);
    for (const std::size_t piece : {std::size_t{0}, std::size_t{1}})
      EXPECT_LE(rms_relative_error(logits_of(*cpu, model, piece), expected), kRoundedTolerance);
  }
}

INSTANTIATE_TEST_SUITE_P(Llama, Mixes, testing::ValuesIn(llama_mixes()),
                         [](const auto& mix) { return std::string(mix.param.name); });

}  // namespace
}  // namespace runnel::test
