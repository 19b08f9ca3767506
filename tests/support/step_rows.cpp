// SPDX-License-Identifier: Apache-2.0
#include "tests/support/step_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "runtime/model/forward.h"
#include "tests/support/compare.h"
#include "tests/support/random.h"
#include "tests/support/shapes.h"

namespace runnel::test {
namespace {

using quant::BlockType;

/// Positional slots, products of Q4_0, gates of their own type.
RandomModel positional(const ModelConfig& config, BlockType gates, std::uint64_t seed) {
  return make_random_model(config,
                           {.linear = BlockType::q4_0,
                            .table = BlockType::q8_0,
                            .small = gates,
                            .tied = true,
                            .gate_bias = true,
                            .read_biases = true},
                           seed);
}

ModelConfig with_heads(std::int32_t width, std::int32_t inner, std::int32_t heads,
                       std::int32_t kv_heads) {
  ModelConfig c = small_positional_config();
  set_widths(c, width, inner);
  set_heads(c, heads, kv_heads, 64);
  return c;
}

ModelConfig default_mixer(std::int32_t inner) {
  ModelConfig c = small_positional_config();
  set_widths(c, 576, inner);
  set_default_mixer(c);
  return c;
}

/// A layer of the shape of 1.3B.
ModelConfig wide_config() {
  ModelConfig c = small_config();
  set_layers(c, 1);
  set_widths(c, 2048, 5632);
  set_heads(c, 4, 4, 512);
  set_memory(c, 64);
  return c;
}

/// A layer of the shape of 0.5B, or of 1.5B.
ModelConfig biased_config(std::int32_t width, std::int32_t inner, std::int32_t heads,
                          std::int32_t head) {
  ModelConfig c = small_positional_config();
  set_layers(c, 1);
  set_widths(c, width, inner);
  set_heads(c, heads, 2, head);
  set(c, &LayerSpec::qkv_bias, true);
  set_positional(c, 4, 252, 256);
  set_memory(c, 128);
  return c;
}

ModelConfig biased() {
  ModelConfig c = with_heads(128, 160, 14, 2);
  set(c, &LayerSpec::qkv_bias, true);
  set_positional(c, 4, 252, 256);
  set_memory(c, 128);
  return c;
}

/// As `--window 61` and `--window 0` make of a model.
ModelConfig odd_window() {
  ModelConfig c = biased();
  set_positional(c, 4, 61, 256);
  return c;
}

ModelConfig sinks_alone() {
  ModelConfig c = with_heads(256, 416, 6, 6);
  set_positional(c, 2, 0, 8);
  return c;
}

/// Positions on both sides of the sinks' and the window's ends.
constexpr std::size_t kTokens = 9;

std::vector<float> run_two(const LoadedModel& on, RecurrentState& a, RecurrentState& b,
                           std::span<const TokenId> tokens) {
  const auto vocab = static_cast<std::size_t>(on.source.config.vocab_size);
  std::vector<float> logits(2 * vocab, NAN);
  std::vector<PlanItem> items;
  for (RecurrentState* state : {&a, &b}) {
    const std::size_t i = items.size();
    items.push_back({.state = state,
                     .tokens = tokens.subspan(i, 1),
                     .wanted = LogitsWanted::last,
                     .logits = std::span(logits).subspan(i * vocab, vocab)});
  }
  const Status ran = on.plan->run(items, {});
  EXPECT_TRUE(ran.has_value()) << ran.error().message;
  return logits;
}

}  // namespace

ModelConfig shifted_config(int hidden_size, int intermediate_size, int layers) {
  ModelConfig config = family_config("rwkv7");
  config.hidden_size = hidden_size;
  config.vocab_size = 300;
  set_layers(config, layers);
  for (LayerSpec& layer : config.layers) {
    layer.head_k_dim = layer.head_v_dim = 64;
    layer.num_heads = layer.num_kv_heads = hidden_size / layer.head_k_dim;
    layer.mixer_shift = layer.channel_shift = hidden_size;
    layer.intermediate_size = intermediate_size;
    RecurrenceSpec& r = layer.recurrence();
    r.first_values = layer.index == 0;
    r.gate_rank = 32, r.rate_rank = 64, r.output_gate_rank = 96;
    r.value_rank = layer.index == 0 ? 0 : 32;
  }
  return config;
}

ModelConfig without_norms(ModelConfig config) {
  for (LayerSpec& layer : config.layers) {
    layer.norm.kind = layer.channel_norm.kind = Norm::rms;
    layer.output_norm = OutputNorm::none, layer.output_gate = false;
    layer.recurrence().output_gate_rank = 0, layer.recurrence().bonus = false;
  }
  config.final_norm = config.layers[0].norm;
  config.embedding_norm.reset();
  return config;
}

const std::vector<StepRowModel>& step_row_models() {
  static const std::vector<StepRowModel> models = {
      {"narrow", [] { return positional(with_heads(256, 416, 6, 6), BlockType::bf16, 101); }},
      {"narrow, groups", [] { return positional(with_heads(320, 416, 6, 2), BlockType::f16, 102); },
       true},
      {"even",
       [] {
         return make_random_model(
             with_heads(256, 256, 4, 2),
             {.linear = BlockType::q4_k, .small = BlockType::q4_k, .read_biases = true}, 103);
       }},
      {"even, biases",
       [] {
         ModelConfig c = with_heads(256, 256, 4, 2);
         set(c, &LayerSpec::qkv_bias, true);
         return make_random_model(c, {.linear = BlockType::q4_0, .small = BlockType::f16}, 119);
       }},
      {"five bits",
       [] {
         return make_random_model(
             with_heads(256, 256, 4, 2),
             {.linear = BlockType::q5_0, .table = BlockType::q8_0, .small = BlockType::f16}, 116);
       }},
      {"five bits, super blocks",
       [] {
         ModelConfig c = with_heads(256, 256, 4, 2);
         set_layers(c, 1);  // CUDA rounds the scales of K types to 16 bits, the reference does not
         return make_random_model(
             c, {.linear = BlockType::q5_k, .table = BlockType::q6_k, .small = BlockType::f16},
             117);
       }},
      {"the wide layout",
       [] {
         return make_random_model(
             with_heads(256, 256, 4, 2),
             {.linear = BlockType::q5_1, .table = BlockType::q5_1, .small = BlockType::f16}, 118);
       }},
      {"16 bits",
       [] {
         return make_random_model(
             with_heads(256, 256, 4, 2),
             {.linear = BlockType::bf16, .small = BlockType::bf16, .read_biases = true}, 104);
       },
       true},
      {"biases, 384 slots", [] { return positional(biased(), BlockType::f16, 105); }},
      {"odd window", [] { return positional(odd_window(), BlockType::f16, 114); }},
      {"sinks alone", [] { return positional(sinks_alone(), BlockType::f16, 115); }},
      {"135M", [] { return positional(default_mixer(1536), BlockType::f16, 106); }, true},
      {"default mixer", [] { return positional(default_mixer(192), BlockType::f16, 107); }},
      {"wide",
       [] {
         return make_random_model(
             wide_config(),
             {.linear = BlockType::q4_0, .table = BlockType::q8_0, .small = BlockType::f16}, 108);
       },
       true},
      {"0.5B", [] { return positional(biased_config(896, 4864, 14, 64), BlockType::f16, 112); },
       true},
      {"1.5B", [] { return positional(biased_config(1536, 8960, 12, 128), BlockType::f16, 113); },
       true},
      {"shifted, 16 bits",
       [] {
         return make_random_model(shifted_config(256, 1536),
                                  {.linear = BlockType::bf16, .table = BlockType::bf16}, 116);
       }},
      {"shifted, 4 bits",
       [] {
         return make_random_model(shifted_config(256, 1536),
                                  {.linear = BlockType::q4_0, .table = BlockType::q8_0}, 117);
       }},
      {"shifted, 4 bits, ranks of 16",
       [] {
         return make_random_model(
             shifted_config(256, 1536),
             {.linear = BlockType::q4_0, .table = BlockType::q8_0, .small = BlockType::f16}, 118);
       }},
      {"shifted, super blocks",
       [] {
         return make_random_model(
             shifted_config(256, 768, 1),  // as above
             {.linear = BlockType::q4_k, .table = BlockType::q6_k, .small = BlockType::bf16}, 119);
       }},
      {"shifted, RMSNorms alone, one layer",
       [] {
         return make_random_model(
             without_norms(shifted_config(256, 768, 1)),
             {.linear = BlockType::q4_0, .table = BlockType::q8_0, .small = BlockType::f16}, 120);
       }},
      {"32 bits", [] { return make_random_model(small_config(), {}, 109); }},
  };
  return models;
}

bool has_blocks(const RandomModel& model) {
  return quant::is_block_type(model.weights->layers.front().output.o_proj.type);
}

bool check_step_row(Backend& backend, const std::string& row, const StepRowModel& model,
                    StepRowRules (*rules)(const std::string&, const RandomModel&)) {
  const RandomModel source = model.make();
  LoadedModel on{.source = source,
                 .recorded = std::make_shared<const ModelConfig>(source.config),
                 .model = nullptr,
                 .plan = nullptr};
  const Recording pass = forward_of(*on.recorded, *source.weights);
  auto taken = backend.load({.config = source.config,
                             .weights = *source.weights,
                             .keep_alive = source.storage,
                             .pass = pass,
                             .step_program = row});
  if (!taken) {
    EXPECT_EQ(taken.error().code, ErrorCode::unsupported) << taken.error().message;
    return false;
  }
  SCOPED_TRACE(row + ", " + model.name);
  on.model = std::move(*taken);
  auto plan = on.model->record(4, pass);
  if (!plan) throw std::runtime_error(plan.error().message);
  on.plan = std::move(*plan);
  EXPECT_EQ(on.model->step_program().name, row);
  const StepRowRules rule = rules(row, source);
  const auto reference = reference::make_backend(rule.activations);
  const LoadedModel host = load_on(*reference, source, 4);
  const std::int32_t vocab = source.config.vocab_size;
  Random random(111);

  // Alone.
  auto state = on.state(), expected = host.state();
  for (std::size_t i = 0; i < kTokens; ++i) {
    const std::vector<TokenId> token = random.tokens(1, vocab);
    EXPECT_LE(rms_relative_error(on.run(*state, token), host.run(*expected, token)), rule.tolerance)
        << "alone, token " << i;
  }
  EXPECT_LE(rms_relative_error(on.canonical(*state), host.canonical(*expected)), rule.tolerance)
      << "alone";

  // Two sessions of one pass, of which the other has just begun; then each goes on by itself.
  auto other = on.state(), other_expected = host.state();
  for (int round = 0; round < 2; ++round) {
    const std::vector<TokenId> tokens = random.tokens(2, vocab);
    EXPECT_LE(rms_relative_error(run_two(on, *state, *other, tokens),
                                 run_two(host, *expected, *other_expected, tokens)),
              rule.tolerance)
        << "two sessions, round " << round;
    for (const auto& [own, theirs] :
         {std::pair{state.get(), expected.get()}, std::pair{other.get(), other_expected.get()}}) {
      const std::vector<TokenId> token = random.tokens(1, vocab);
      EXPECT_LE(rms_relative_error(on.run(*own, token), host.run(*theirs, token)), rule.tolerance)
          << "behind two sessions, round " << round;
      EXPECT_LE(rms_relative_error(on.canonical(*own), host.canonical(*theirs)), rule.tolerance)
          << "behind two sessions, round " << round;
    }
  }

  // After a restore: bit for bit as if it had never stopped.
  auto restored = on.state();
  EXPECT_TRUE(restored->import_from(on.canonical(*state), state->position()).has_value());
  for (int i = 0; i < 3; ++i) {
    const std::vector<TokenId> token = random.tokens(1, vocab);
    EXPECT_EQ(on.run(*restored, token), on.run(*state, token)) << "restored, token " << i;
    EXPECT_EQ(on.canonical(*restored), on.canonical(*state)) << "restored, token " << i;
  }
  return true;
}

}  // namespace runnel::test
