// SPDX-License-Identifier: Apache-2.0
// Which program computes one token, and why not another: for invented devices, without a driver.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>

#include "runtime/backend/vulkan/step/programs.h"
#include "runtime/backend/vulkan/step/step_shape.h"
#include "runtime/model/forward.h"

namespace runnel::vulkan {
namespace {

using quant::BlockType;

/// A model of views without bytes behind them.
struct Shape {
  ModelConfig config;
  BlockType linear = BlockType::q4_0, gates = BlockType::f16, table = BlockType::q8_0;
  Weights weights = {};

  StepModel recorded() {
    const std::int64_t d = config.hidden_size;
    const auto view = [](BlockType type, std::int64_t rows, std::int64_t cols) {
      return WeightView{.name = {}, .type = type, .rows = rows, .cols = cols, .data = {}};
    };
    weights.layers.clear();
    weights.embeddings = weights.head = view(table, config.vocab_size, d);
    for (const LayerSpec& l : config.layers) {
      SlotWeights mixer;
      mixer.q_proj = view(linear, l.q_channels(), d);
      mixer.k_proj = view(linear, l.k_channels(), d);
      mixer.v_proj = view(linear, l.v_channels(), d);
      mixer.f_proj = view(gates, l.gate_channels(), d);
      LayerWeights& w = weights.layers.emplace_back();
      w.mixer = mixer;
      w.output.o_proj = view(linear, d, l.o_channels());
      w.channel_mix.gate_proj = w.channel_mix.up_proj = view(linear, l.intermediate_size, d);
      w.channel_mix.down_proj = view(linear, d, l.intermediate_size);
    }
    return record_step_model(forward_of(config, weights));
  }
};

LayerSpec slot_layer(std::int32_t heads, std::int32_t kv_heads, std::int32_t dim,
                     const SlotSpec& slots) {
  LayerSpec l;
  l.num_heads = heads;
  l.num_kv_heads = kv_heads;
  l.head_k_dim = l.head_v_dim = dim;
  l.mixer = slots;
  return l;
}

/// Identity maps, as the models with positional slots have.
SlotSpec positional(std::int32_t sinks, std::int32_t window, std::int32_t memory) {
  SlotSpec s;
  s.num_sink_slots = sinks;
  s.num_window_slots = window;
  s.num_memory_slots = memory;
  s.sink_distance = sinks + window;
  s.feature_map = FeatureMap::identity;
  s.value_activation = Activation::identity;
  return s;
}

Shape default_model() {
  Shape m;
  m.config.vocab_size = 49152;
  m.config.hidden_size = 576;
  LayerSpec l = slot_layer(9, 3, 64, positional(4, 60, 64));
  l.intermediate_size = 1536;
  l.output_activation = Activation::identity;
  l.output_norm = OutputNorm::none;
  m.config.repeat(l, 30);
  return m;
}

Shape model_1380m(BlockType type) {
  Shape m{.config = {}, .linear = type, .gates = type, .table = type};
  m.config.vocab_size = 32000;
  m.config.hidden_size = 2048;
  SlotSpec slots;
  slots.num_memory_slots = 64;
  LayerSpec l = slot_layer(4, 4, 512, slots);
  l.intermediate_size = 5632;
  m.config.repeat(l, 24);
  return m;
}

/// 0.5B: biases, seven queries of a kv head, 384 slots.
Shape model_500m() {
  Shape m{
      .config = {}, .linear = BlockType::q4_0, .gates = BlockType::f16, .table = BlockType::q4_0};
  m.config.vocab_size = 65536;
  m.config.hidden_size = 896;
  LayerSpec l = slot_layer(14, 2, 64, positional(4, 252, 128));
  l.qkv_bias = true;
  l.intermediate_size = 4864;
  l.output_activation = Activation::identity;
  l.output_norm = OutputNorm::none;
  m.config.repeat(l, 24);
  return m;
}

StepDevice data_centre_gpu() {
  return {.subgroup = 32,
          .group_threads = 1024,
          .group_subgroups = 32,
          .resident_groups = 132,
          .shared_bytes = 48 << 10,
          .storage_range = 0xFFFFFFFF,
          .allocation_bytes = 0xFFE00000,
          .storage_alignment = 16,
          .integer_dot = true,
          .addresses = true};
}

/// Whose driver promises nothing of workgroups; `groups`: if one did.
StepDevice integrated_gpu(std::uint32_t subgroup, std::uint32_t groups) {
  StepDevice d = data_centre_gpu();
  d.subgroup = subgroup;
  d.resident_groups = groups;
  d.shared_bytes = 32 << 10;
  d.storage_range = 128U << 20;
  d.allocation_bytes = 4ULL << 30;
  return d;
}

StepDevice software_driver() {
  StepDevice d = data_centre_gpu();
  d.subgroup = 8;
  d.resident_groups = 1;
  d.shared_bytes = 32 << 10;
  d.storage_range = 128U << 20;
  d.software = true;
  return d;
}

[[maybe_unused]] std::string chosen(const StepModel& model, const StepDevice& device) {
  const auto choice = choose_step(model, device, "test");
  return choice ? choice->row->name : choice.error().message;
}

/// Why a row was not chosen.
[[maybe_unused]] std::string reason(const StepModel& model, const StepDevice& device,
                                    const std::string& row) {
  const auto choice = choose_step(model, device, "test");
  if (!choice) return choice.error().message;
  for (const StepProgram::Refused& r : choice->refused) {
    if (r.name == row) return r.reason;
  }
  return "";
}

void print(const char* what, const StepModel& m, const StepDevice& d) {
  const auto c = choose_step(m, d, "test");
  printf("%s: %s", what, c->row->name);
  for (auto& r : c->refused) printf("; not %s: %s", r.name.c_str(), r.reason.c_str());
  auto s = StepShape::of(m, d), e = StepShape::even(m, d);
  printf(" | step %u of %u, even %u\n", s.groups, s.threads, e.groups);
}
TEST(StepPrograms, Print) {
  auto a = default_model();
  auto b = model_1380m(BlockType::q4_0);
  auto b2 = model_1380m(BlockType::bf16);
  auto c = model_500m();
  auto c2 = model_500m();
  for (auto& l : c2.config.layers) l.qkv_bias = false;
  auto e = default_model();
  for (auto& l : e.config.layers) l.head_k_dim = l.head_v_dim = 80;
  for (auto& [n, d] : std::map<std::string, StepDevice>{{"h200", data_centre_gpu()},
                                                        {"i16", integrated_gpu(16, 0)},
                                                        {"i32x16", integrated_gpu(32, 16)},
                                                        {"i16x16", integrated_gpu(16, 16)},
                                                        {"soft", software_driver()}}) {
    printf("== %s\n", n.c_str());
    print("135m", a.recorded(), d);
    print("1.38 q4_0", b.recorded(), d);
    print("1.38 bf16", b2.recorded(), d);
    print("0.5", c.recorded(), d);
    print("0.5 nobias", c2.recorded(), d);
    print("80", e.recorded(), d);
  }
}

}  // namespace
}  // namespace runnel::vulkan
