// SPDX-License-Identifier: Apache-2.0
// The CPU backend against the reference, on every instruction set that this CPU has: products of
// every weight type, every op, whole models, any number of threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "quant/quantise.h"
#include "runtime/backend/cpu/cpu_backend.h"
#include "runtime/backend/reference/reference_backend.h"
#include "runtime/base/try.h"
#include "runtime/model/forward.h"
#include "tests/support/compare.h"
#include "tests/support/random.h"
#include "tests/support/random_model.h"
#include "tests/support/slow.h"

namespace runnel::test {
namespace {

using cpu::Isa;
using quant::BlockType;
using reference::Activations;

constexpr double kFloatTolerance = 1e-5;    // the same function in f32, other order of additions
constexpr double kProductTolerance = 1e-5;  // one quantised product of the same rounded activations
constexpr double kRoundedTolerance = 1e-3;  // one op: a code may fall to the other side of a half
constexpr double kActivationTolerance = 1e-2;  // one op against float activations
constexpr double kFamilyTolerance = 1e-2;      // two layers of quantised weights, as above
constexpr double kFarTolerance = 1e-5;         // rotations by angles beyond 2^33

constexpr BlockType kAllTypes[] = {BlockType::f32,  BlockType::f16,  BlockType::bf16,
                                   BlockType::q8_0, BlockType::q4_0, BlockType::q4_k,
                                   BlockType::q6_k};

std::unique_ptr<Backend> cpu_backend(Isa isa, int threads) {
  auto made = cpu::make_backend(threads, isa);
  if (!made) throw std::runtime_error(made.error().message);
  return std::move(*made);
}

/// Rows of whole super blocks, so that every type is used as asked; three heads to a kv head.
ModelConfig wide_config() {
  ModelConfig c = small_config();
  c.hidden_size = 256;
  set(c, &LayerSpec::intermediate_size, 512);
  set(c, &LayerSpec::num_heads, 6);
  set(c, &LayerSpec::num_kv_heads, 2);
  set(c, &LayerSpec::head_k_dim, 128);
  set(c, &LayerSpec::head_v_dim, 128);
  set_layers(c, 1);
  c.vocab_size = 200;  // not a multiple of 16
  return c;
}

using Ops_of = Status (*)(Ops&, const ModelConfig&, const Weights&);

Status whole_product(Ops& ops, const ModelConfig& c, const Weights& w) {
  RUNNEL_CHECK_OK(ops.embed(w.embeddings));
  return ops.logits(c.final_norm, w.final_norm, w.head);
}
Status only_mixer(Ops& ops, const ModelConfig& c, const Weights& w) {
  const LayerSpec& layer = c.layers[0];
  RUNNEL_CHECK_OK(ops.embed(w.embeddings));
  RUNNEL_CHECK_OK(ops.slot_projections(layer, w.layers[0].slots()));
  RUNNEL_CHECK_OK(ops.slot_attention(layer, w.layers[0].slots()));
  RUNNEL_CHECK_OK(ops.output_projection(layer, w.layers[0].output));
  return ops.logits(c.final_norm, w.final_norm, w.head);
}
Status only_mlp(Ops& ops, const ModelConfig& c, const Weights& w) {
  RUNNEL_CHECK_OK(ops.embed(w.embeddings));
  RUNNEL_CHECK_OK(ops.gated_mlp(c.layers[0], w.layers[0].channel_mix));
  return ops.logits(c.final_norm, w.final_norm, w.head);
}
Status everything(Ops& ops, const ModelConfig& c, const Weights& w) { return forward(ops, c, w); }

LoadedModel load_ops(Backend& backend, const RandomModel& source, Ops_of record) {
  LoadedModel loaded = load_on(backend, source);
  auto plan = loaded.model->record(
      256, [&](Ops& ops) { return record(ops, source.config, *source.weights); });
  if (!plan) throw std::runtime_error(plan.error().message);
  loaded.plan = std::move(*plan);
  return loaded;
}

std::vector<float> logits_of(Backend& backend, const RandomModel& source, Ops_of record,
                             std::span<const TokenId> tokens, std::size_t piece = 0) {
  const LoadedModel loaded = load_ops(backend, source, record);
  auto state = loaded.state();
  return loaded.run(*state, tokens, piece);
}

std::string type_name(BlockType type) { return std::string(quant::block_traits(type)->name); }

class CpuParity : public testing::TestWithParam<Isa> {
 protected:
  std::unique_ptr<Backend> cpu_ = cpu_backend(GetParam(), 2);
  std::unique_ptr<Backend> exact_ = reference::make_backend(Activations::exact);
  std::unique_ptr<Backend> rounded_ = reference::make_backend(Activations::rounded);
  Random random_{3};
};

TEST_P(CpuParity, ProductOfEveryTypeIsTheReferencesOverTheSameCodes) {
  // 39 tokens: packs of 16, 4 and 1 on every instruction set.
  const std::vector<TokenId> tokens = random_.tokens(39, 200);
  for (BlockType type : kAllTypes) {
    const RandomModel model = make_random_model(wide_config(), {.table = type}, 5);
    const std::vector<float> expected = logits_of(*rounded_, model, whole_product, tokens);
    for (std::size_t piece : {0UL, 1UL, 7UL}) {
      EXPECT_LE(max_relative_error(logits_of(*cpu_, model, whole_product, tokens, piece), expected),
                kProductTolerance)
          << type_name(type) << ", pieces of " << piece;
    }
  }
}

TEST_P(CpuParity, TiedTableIsGatheredAndMultiplied) {
  const std::vector<TokenId> tokens = random_.tokens(10, 200);
  for (BlockType type : kAllTypes) {
    const RandomModel model = make_random_model(wide_config(), {.table = type, .tied = true}, 5);
    EXPECT_LE(max_relative_error(logits_of(*cpu_, model, whole_product, tokens),
                                 logits_of(*rounded_, model, whole_product, tokens)),
              kProductTolerance)
        << type_name(type);
  }
}

TEST_P(CpuParity, EveryOpIsTheReferences) {
  const std::vector<TokenId> tokens = random_.tokens(41, 200);
  for (BlockType type : kAllTypes) {
    const RandomModel model = make_random_model(wide_config(), {.linear = type}, 5);
    const bool quantised = quant::is_block_type(type);
    for (Ops_of ops : {only_mixer, only_mlp}) {
      const std::vector<float> actual = logits_of(*cpu_, model, ops, tokens);
      EXPECT_LE(rms_relative_error(actual, logits_of(*rounded_, model, ops, tokens)),
                quantised ? kRoundedTolerance : kFloatTolerance)
          << type_name(type);
      EXPECT_LE(rms_relative_error(actual, logits_of(*exact_, model, ops, tokens)),
                quantised ? kActivationTolerance : kFloatTolerance)
          << type_name(type);
    }
  }
}

TEST_P(CpuParity, WholeModelsOfEveryKindAreTheReferences) {
  std::vector<std::pair<std::string, RandomModel>> models;
  const auto add = [&](const char* name, const ModelConfig& c, RandomParts parts = {}) {
    models.emplace_back(name, make_random_model(c, parts, 9));
  };
  ModelConfig c = small_config();
  add("plain", c);
  set(c, &LayerSpec::num_heads,
      10);  // five queries a kv head: more than one pass over the state serves
  add("five queries", c);
  c = small_config();
  set(c, &MixerSpec::num_memory_slots, 37);
  set(c, &LayerSpec::head_k_dim, 10);
  set(c, &LayerSpec::head_v_dim, 23);
  c.hidden_size = 51;
  set(c, &LayerSpec::intermediate_size, 77);
  add("odd sizes", c, {.small = BlockType::f16});
  c = small_config();
  set(c, &LayerSpec::conv_size, 4);
  add("conv", c);
  set(c, &MixerSpec::feature_map, FeatureMap::t2r);
  add("conv and t2r", c);
  set(c, &MixerSpec::feature_map, FeatureMap::relu);
  set(c, &SlotSpec::value_activation, Activation::relu);
  set(c, &LayerSpec::output_activation, Activation::relu);
  add("relu", c, {.g_norm_weight = false});
  c = small_positional_config();
  add("positional", c,
      {.small = BlockType::bf16, .tied = true, .gate_bias = true, .read_biases = true});
  set(c, &SlotSpec::num_sink_slots, 20);  // more than a register of lanes
  set(c, &SlotSpec::num_window_slots, 70);
  add("many sinks", c);
  set(c, &SlotSpec::num_sink_slots, 0);
  set(c, &SlotSpec::sink_distance, 0);
  add("window", c);
  set(c, &SlotSpec::num_window_slots, 0);
  set(c, &SlotSpec::num_sink_slots, 3);
  add("sinks and memory", c);
  for (const auto& [name, model] : models) {
    const std::vector<TokenId> tokens = random_.tokens(130, model.config.vocab_size);
    const std::vector<float> expected = logits_of(*exact_, model, everything, tokens);
    for (std::size_t piece : {0UL, 1UL, 33UL}) {
      EXPECT_LE(max_relative_error(logits_of(*cpu_, model, everything, tokens, piece), expected),
                kFloatTolerance)
          << name << ", pieces of " << piece;
    }
  }
}

TEST_P(CpuParity, ThreadsAndSplitsChangeNoBit) {
  ModelConfig c = wide_config();
  set_layers(c, 2);
  set(c, &SlotSpec::num_sink_slots, 2);
  set(c, &SlotSpec::num_window_slots, 9);
  set(c, &SlotSpec::sink_distance, 8);
  for (BlockType type : {BlockType::f16, BlockType::q4_0, BlockType::q4_k, BlockType::q6_k}) {
    const RandomModel model = make_random_model(c, {.linear = type, .table = BlockType::q8_0}, 5);
    const std::vector<TokenId> tokens = random_.tokens(45, c.vocab_size);
    const std::vector<float> expected = logits_of(*cpu_, model, everything, tokens);
    for (int threads : {1, 3, 4}) {
      const auto other = cpu_backend(GetParam(), threads);
      const LoadedModel loaded = load_on(*other, model);
      for (std::size_t piece : {0UL, 1UL, 6UL, 31UL}) {
        if (piece != 0 && threads == 3) continue;
        auto state = loaded.state();
        EXPECT_EQ(loaded.run(*state, tokens, piece), expected)
            << type_name(type) << ", " << threads << " threads, pieces of " << piece;
      }
    }
  }
}

TEST_P(CpuParity, TheFamilyIsTheReferencesAndNoSplitChangesABit) {
  for (const std::string& name : family_names()) {
    ModelConfig c = family_config(name);
    if (name == "gla") set(c, &LayerSpec::num_heads, 10);       // five queries a kv head
    if (name == "linear") set(c, &LayerSpec::num_kv_heads, 4);  // one
    for (BlockType type : {BlockType::f32, BlockType::q8_0}) {
      const bool exact = type == BlockType::f32;
      const RandomModel model = make_random_model(
          c, {.linear = type, .small = exact ? BlockType::f32 : BlockType::f16}, 9);
      const std::vector<TokenId> tokens = random_.tokens(53, c.vocab_size);
      const LoadedModel theirs = load_on(exact ? *exact_ : *rounded_, model),
                        ours = load_on(*cpu_, model);
      auto state = theirs.state();
      const std::vector<float> expected = theirs.run(*state, tokens);
      state = ours.state();
      const std::vector<float> whole = ours.run(*state, tokens);
      EXPECT_LE(rms_relative_error(whole, expected), exact ? kFloatTolerance : kFamilyTolerance)
          << name;
      for (std::size_t piece : {1UL, 6UL}) {
        state = ours.state();
        EXPECT_EQ(ours.run(*state, tokens, piece), whole) << name << ", pieces of " << piece;
      }
    }
  }
}

TEST_P(CpuParity, RotationsAreRightAtAnyPosition) {
  const ModelConfig c = small_positional_config();
  const RandomModel model = make_random_model(c, {}, 5);
  const std::vector<TokenId> tokens = random_.tokens(20, c.vocab_size);
  const LoadedModel ours = load_on(*cpu_, model), theirs = load_on(*exact_, model);
  auto a = ours.state(), b = theirs.state();
  const std::vector<float> state = random_.normals(StateLayout::of(c).total_floats());
  for (std::uint64_t position : {0ULL, 1ULL, 5ULL, (1ULL << 31) - 3, (1ULL << 33) + 5}) {
    ASSERT_TRUE(a->import_from(state, position).has_value());
    ASSERT_TRUE(b->import_from(state, position).has_value());
    EXPECT_LE(max_relative_error(ours.run(*a, tokens), theirs.run(*b, tokens)), kFarTolerance)
        << "position " << position;
    EXPECT_LE(max_relative_error(ours.canonical(*a), theirs.canonical(*b)), kFarTolerance);
  }
}

std::string isa_case(const testing::TestParamInfo<Isa>& info) {
  return std::string(cpu::isa_name(info.param));
}

std::vector<Isa> isas_to_test() {
  std::vector<Isa> isas = cpu::supported_isas();
  if (kOneInstructionSet) isas = {isas.back()};
  return isas;
}

INSTANTIATE_TEST_SUITE_P(Isas, CpuParity, testing::ValuesIn(isas_to_test()), isa_case);

TEST(CpuBackend, RefusesAnInstructionSetThatTheCpuLacks) {
  for (Isa isa : {Isa::generic, Isa::avx2, Isa::avx_vnni, Isa::avx512, Isa::avx512_vnni, Isa::neon,
                  Isa::neon_dotprod, Isa::neon_i8mm}) {
    const std::vector<Isa> known = cpu::supported_isas();
    const bool here = std::find(known.begin(), known.end(), isa) != known.end();
    EXPECT_EQ(cpu::make_backend(1, isa).has_value(), here) << cpu::isa_name(isa);
  }
}

}  // namespace
}  // namespace runnel::test
