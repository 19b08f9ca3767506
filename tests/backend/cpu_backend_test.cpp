// SPDX-License-Identifier: Apache-2.0
// What the CPU backend alone promises, on every instruction set that this CPU has: no bit depends on the number of
// threads or on how tokens are divided.
#include "runtime/backend/cpu/cpu_backend.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/support/random.h"
#include "tests/support/random_model.h"
#include "tests/support/slow.h"

namespace runnel::test {
namespace {

using cpu::Isa;
using quant::BlockType;

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

std::vector<float> logits_of(Backend& backend, const RandomModel& source,
                             std::span<const TokenId> tokens, std::size_t piece = 0) {
  const LoadedModel loaded = load_on(backend, source);
  auto state = loaded.state();
  return loaded.run(*state, tokens, piece);
}

class CpuBackend : public testing::TestWithParam<Isa> {
 protected:
  std::unique_ptr<Backend> cpu_ = cpu_backend(GetParam(), 2);
  Random random_{3};
};

TEST_P(CpuBackend, ThreadsAndSplitsChangeNoBit) {
  ModelConfig c = wide_config();
  set_layers(c, 2);
  set(c, &SlotSpec::num_sink_slots, 2);
  set(c, &SlotSpec::num_window_slots, 9);
  set(c, &SlotSpec::sink_distance, 8);
  for (BlockType type : {BlockType::f16, BlockType::q4_0, BlockType::q4_k, BlockType::q6_k}) {
    const RandomModel model = make_random_model(c, {.linear = type, .table = BlockType::q8_0}, 5);
    const std::vector<TokenId> tokens = random_.tokens(45, c.vocab_size);
    const std::vector<float> expected = logits_of(*cpu_, model, tokens);
    for (int threads : {1, 3, 4}) {
      const auto other = cpu_backend(GetParam(), threads);
      const LoadedModel loaded = load_on(*other, model);
      for (std::size_t piece : {0UL, 1UL, 6UL, 31UL}) {
        if (piece != 0 && threads == 3) continue;
        auto state = loaded.state();
        EXPECT_EQ(loaded.run(*state, tokens, piece), expected)
            << quant::format_of(type).name << ", " << threads << " threads, pieces of " << piece;
      }
    }
  }
}

TEST_P(CpuBackend, SplitsOfTheFamilyChangeNoBit) {
  for (const std::string& name : family_names()) {
    ModelConfig c = family_config(name);
    if (name == "gla") set(c, &LayerSpec::num_heads, 10);       // five queries a kv head
    if (name == "linear") set(c, &LayerSpec::num_kv_heads, 4);  // one
    for (BlockType type : {BlockType::f32, BlockType::q8_0}) {
      const BlockType small = type == BlockType::f32 ? BlockType::f32 : BlockType::f16;
      const RandomModel model = make_random_model(c, {.linear = type, .small = small}, 9);
      const std::vector<TokenId> tokens = random_.tokens(53, c.vocab_size);
      const std::vector<float> whole = logits_of(*cpu_, model, tokens);
      for (std::size_t piece : {1UL, 6UL})
        EXPECT_EQ(logits_of(*cpu_, model, tokens, piece), whole) << name << ", pieces of " << piece;
    }
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

INSTANTIATE_TEST_SUITE_P(Isas, CpuBackend, testing::ValuesIn(isas_to_test()), isa_case);

TEST(CpuBackends, BlocksOfManyTokensChangeNoBit) {
  // Rows so wide that down's product takes a second block of tokens; gate and up of which one alone takes several packs
  // together.
  constexpr std::size_t kTokens = 250;
  ModelConfig c = wide_config();
  set(c, &LayerSpec::intermediate_size, 4096);
  RandomModel model = make_random_model(c, {.linear = BlockType::q4_k}, 6);
  const RandomModel other = make_random_model(c, {.linear = BlockType::f16}, 7);
  auto mixed = std::make_shared<Weights>(*model.weights);
  mixed->layers.front().channel_mix.up_proj = other.weights->layers.front().channel_mix.up_proj;
  model.weights = mixed;
  const std::vector<TokenId> tokens = Random(3).tokens(kTokens, c.vocab_size);
  const auto cpu = cpu_backend(cpu::supported_isas().back(), 2);
  EXPECT_EQ(logits_of(*cpu, model, tokens), logits_of(*cpu, model, tokens, 15));
}

TEST(CpuBackends, ColumnsOfFewWideHeadsChangeNoBit) {
  ModelConfig c = family_config("gated_deltanet");
  set(c, &LayerSpec::head_v_dim, 144);
  const RandomModel model = make_random_model(c, {.linear = BlockType::q8_0}, 11);
  const std::vector<TokenId> tokens = Random(5).tokens(37, c.vocab_size);
  const auto one = cpu_backend(cpu::supported_isas().back(), 1);
  const auto many = cpu_backend(cpu::supported_isas().back(), 16);
  EXPECT_EQ(logits_of(*many, model, tokens), logits_of(*one, model, tokens));
}

TEST(CpuBackends, RefusesAnInstructionSetThatTheCpuLacks) {
  for (Isa isa :
       {Isa::generic, Isa::avx2, Isa::avx_vnni, Isa::avx512, Isa::avx512_vnni, Isa::avx512_zen4,
        Isa::avx512_amx, Isa::neon, Isa::neon_dotprod, Isa::neon_i8mm}) {
    const std::vector<Isa> known = cpu::supported_isas();
    const bool here = std::find(known.begin(), known.end(), isa) != known.end();
    EXPECT_EQ(cpu::make_backend(1, isa).has_value(), here) << cpu::isa_name(isa);
  }
}

}  // namespace
}  // namespace runnel::test
