// SPDX-License-Identifier: Apache-2.0
// The models in models/ and the vectors of their float32 forms in tests/data.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "quant/quantise.h"
#include "runnel/model.h"
#include "runnel/session.h"
#include "runtime/backend/cpu/cpu_backend.h"
#include "runtime/model/engine.h"
#include "runtime/model/model_loader.h"
#include "runtime/model/session_impl.h"

namespace runnel::test {

using Json = nlohmann::json;

/// A model and what its vectors cover.
struct GoldenModel {
  const char* name;         // of its vectors' folder in tests/data, and of the test
  const char* file;         // in models/
  const char* variable;     // environment: another path of the file
  std::vector<int> layers;  // whose slots are in activations.safetensors
  std::size_t state_floats;
  std::size_t clear_choices;  // of the greedy replies, by more than 0.4
  std::size_t float_choices;  // compared in f32: those clear by more than 0.02, or fewer for speed
  std::size_t nll_tokens;     // of each text, 0 for all: 1,024 has a mean of its own in the vectors

  std::filesystem::path data(const std::string& what) const {
    return std::filesystem::path(RUNNEL_TEST_DATA) / name / what;
  }
  Json json(const std::string& what) const { return Json::parse(std::ifstream(data(what))); }
  std::string text(const std::string& what) const {
    std::ifstream in(data(what), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::filesystem::path path() const {
    const char* other = std::getenv(variable);
    return other != nullptr ? std::filesystem::path(other)
                            : std::filesystem::path(RUNNEL_MODELS) / file;
  }
  /// Why the model cannot be tested here: a file of it is not in this checkout. Empty if it can.
  std::string absent() const {
    const auto opened = GgufFile::open(path());
    if (opened || opened.error().code != ErrorCode::not_found) return "";
    return "the model is NOT tested: " + opened.error().message;
  }
};

inline void PrintTo(const GoldenModel& model, std::ostream* out) { *out << model.name; }

inline const GoldenModel kSmallModel = {.name = "default_model",
                                        .file = "runnel-gsa-135m-instruct.gguf",
                                        .variable = "RUNNEL_TEST_MODEL_135M",
                                        .layers = {0, 14, 29},
                                        .state_floats = 1'474'560,
                                        .clear_choices = 40,
                                        .float_choices = 300,
                                        .nll_tokens = 0};
inline const GoldenModel kDefaultModel = {
    .name = "default_model_05b",
    .file = "runnel-gsa-0.5b-coder-instruct-00001-of-00003.gguf",
    .variable = "RUNNEL_TEST_MODEL_05B",
    .layers = {0, 11, 23},
    .state_floats = 2'359'296,
    .clear_choices = 90,
    .float_choices = 100,
    .nll_tokens = 1024};

inline std::shared_ptr<const Model> unwrap(Result<std::shared_ptr<const Model>> model) {
  if (!model) throw std::runtime_error(model.error().message);
  return *std::move(model);
}

inline std::shared_ptr<const Model> load(const GoldenModel& golden, const std::string& device) {
  return unwrap(Model::load(golden.path(), {.device = device}));
}

/// On the CPU with the kernels of one instruction set.
inline std::shared_ptr<const Model> load(const GoldenModel& golden, cpu::Isa isa) {
  return unwrap(ModelLoader::load(
      golden.path(), {},
      [isa](ModelFile file, const LoadProgress& progress) -> Result<std::unique_ptr<Engine>> {
        auto backend = cpu::make_backend(0, isa);
        if (!backend) return backend.error();
        return Engine::create(std::move(file), *std::move(backend), progress);
      }));
}

/// A model whose weights were all made f32 in memory, which computes in f32 throughout.
class FloatModel {
 public:
  explicit FloatModel(const GoldenModel& golden) {
    model_ = unwrap(ModelLoader::load(
        golden.path(), {},
        [this](ModelFile file, const LoadProgress& progress) -> Result<std::unique_ptr<Engine>> {
          widen(file.weights);
          auto backend = cpu::make_backend(0, std::nullopt);
          if (!backend) return backend.error();
          return Engine::create(std::move(file), *std::move(backend), progress);
        }));
  }
  const std::shared_ptr<const Model>& get() const { return model_; }

 private:
  void widen(Weights& weights) {
    weights.release = nullptr;
    const bool tied = weights.tied();
    widen(weights.embeddings);
    for (LayerWeights& layer : weights.layers) {
      for_each_view(layer, [this](WeightView& view) { widen(view); });
    }
    if (tied) {
      weights.head = weights.embeddings;
    } else {
      widen(weights.head);
    }
  }
  void widen(WeightView& view) {
    if (!view.present() || view.type == quant::BlockType::f32) return;
    std::vector<float>& values =
        storage_.emplace_back(static_cast<std::size_t>(view.rows * view.cols));
    const Status done = quant::dequantize_rows(view.type, view.data, view.cols, values, 2);
    if (!done) throw std::runtime_error(done.error().message);
    view.type = quant::BlockType::f32;
    view.data = std::as_bytes(std::span(values));
  }

  std::vector<std::vector<float>> storage_;  // outlives the model
  std::shared_ptr<const Model> model_;
};

inline Session new_session(const std::shared_ptr<const Model>& model) {
  auto session = Session::create(model);
  if (!session) throw std::runtime_error(session.error().message);
  return *std::move(session);
}

inline std::vector<TokenId> tokens_of(const GoldenModel& golden, const Model& model,
                                      const Json& text) {
  auto tokens = model.encode(golden.text(text.at("file").get<std::string>()), true);
  if (!tokens) throw std::runtime_error(tokens.error().message);
  return *std::move(tokens);
}

/// Negative log-likelihoods in nats of tokens 1 … n-1 of one stream from an empty state.
inline std::vector<double> negative_log_likelihoods(const std::shared_ptr<const Model>& model,
                                                    std::span<const TokenId> tokens) {
  const std::size_t vocab = static_cast<std::size_t>(model->info().vocab_size);
  constexpr std::size_t kPiece = 256;
  Session session = new_session(model);
  std::vector<double> nll;
  for (std::size_t at = 0; at < tokens.size(); at += kPiece) {
    const std::size_t n = std::min(kPiece, tokens.size() - at);
    const auto logits = session.score(tokens.subspan(at, n));
    if (!logits) throw std::runtime_error(logits.error().message);
    for (std::size_t i = 0; i < n && at + i + 1 < tokens.size(); ++i) {
      const std::span<const float> row = std::span(*logits).subspan(i * vocab, vocab);
      const double largest = *std::max_element(row.begin(), row.end());
      double sum = 0.0;
      for (float v : row) sum += std::exp(static_cast<double>(v) - largest);
      nll.push_back(largest + std::log(sum) -
                    static_cast<double>(row[static_cast<std::size_t>(tokens[at + i + 1])]));
    }
  }
  return nll;
}

inline double mean(std::span<const double> values) {
  double sum = 0.0;
  for (double v : values) sum += v;
  return sum / static_cast<double>(values.size());
}

}  // namespace runnel::test
