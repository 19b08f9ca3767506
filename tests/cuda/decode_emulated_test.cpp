// SPDX-License-Identifier: Apache-2.0
// The decode kernel, thread by thread on the host, against the reference backend: needs no GPU.
#include "tests/cuda/simt.h"
// After the emulator, whose functions it calls.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <numeric>
#include <optional>

#include "cuda/device/cluster/layers.cuh"
#include "cuda/device/sample/blocks.cuh"
#include "cuda/device/step/fixed_head.cuh"
#include "cuda/device/step/grid.cuh"
#include "cuda/device/step/grid_even.cuh"
#include "runtime/backend/cuda/sample_setup.h"
#include "runtime/backend/cuda/step/cluster_program.h"
#include "runtime/backend/cuda/step/grid_program.h"
#include "runtime/backend/reference/reference_backend.h"
#include "runtime/model/forward.h"
#include "runtime/sampling/sampler.h"
#include "tests/support/compare.h"
#include "tests/support/host_draws.h"
#include "tests/support/random.h"
#include "tests/support/random_model.h"
#include "tests/support/shapes.h"

namespace runnel::test {
namespace {

using quant::BlockType;

constexpr int kShared = 227 * 1024;  // of a block
// As wide as those of the list, since warps share columns; all else as small as can be.
constexpr cuda::EvenShape kEven[] = {
    {.wide = 2048, .inner = 1536, .head = 512, .blocks = 16, .rows = 400},
    // down has 17 steps: the last warp has half of its columns
    {.wide = 896,
     .inner = 4352,
     .head = 64,
     .group = 7,
     .blocks = 112,
     .rows = 96,
     .splits = 3,
     .share = 128},
    {.wide = 768,
     .inner = 1024,
     .head = 128,
     .group = 6,
     .blocks = 48,
     .rows = 64,
     .splits = 6,
     .share = 64},
};

struct Emulated {
  cuda::DeviceWeights weights;
  cuda::GridProgram program;
  cuda::ClusterProgram layers;  // for the layers, if they run in a cluster
  bool in_cluster;
  bool fixed_columns = false;  // the kernel for inputs of 256 and 768 values
  bool fixed_head = false;     // inputs of 576 values
  std::vector<float> exchange, state, logits;
  std::uint32_t timed_out = 0;
  // What a kernel of fixed shapes draws by, if it is asked; and what it then leaves.
  std::optional<cuda::Sample> draw;
  bool moved = false;
  std::vector<std::uint64_t> choices;
  std::uint32_t counted = 0;
  std::int32_t chosen = -1;
  std::uint64_t drawn = 0;
  std::uint64_t position = 0;
  std::uint32_t use = 0;

  Emulated(const RandomModel& model, int blocks, const cuda::DecodeTuning& tuning, bool cluster)
      : in_cluster(cluster) {
    const int cluster_blocks =
        tuning.cluster_blocks > 0 ? tuning.cluster_blocks : cuda::kClusterBlocks;
    auto made =
        cuda::DeviceWeights::create(model.config, *model.weights, {}, cuda::WeightPlace::host);
    if (!made) throw std::runtime_error(made.error().message);
    weights = std::move(*made);
    const StepModel step = record_step_model(forward_of(model.config, *model.weights));
    program = cuda::make_grid_program(step, weights, {blocks, kShared, in_cluster, kEven}, tuning);
    if (!program.why_not.empty()) throw std::runtime_error(program.why_not);
    if (in_cluster) {
      layers = cuda::make_cluster_program(step, weights, {kShared, cluster_blocks});
      if (!layers.why_not.empty()) throw std::runtime_error(layers.why_not);
    }
    exchange.assign(2 * static_cast<std::size_t>(program.decode.at.total) +
                        static_cast<std::size_t>(model.config.hidden_size) + 4,
                    0.0F);
    state.assign(StateLayout::of(model.config).total_floats(), 0.0F);
    logits.resize(static_cast<std::size_t>(model.config.vocab_size));
  }

  /// False: stuck.
  bool step(TokenId token, unsigned seed) {
    std::fill(logits.begin(), logits.end(), NAN);
    cuda::Segment segment{.state_in = state.data(),
                          .state_out = state.data(),
                          .position = position,
                          .first = 0,
                          .count = 1};
    cuda::Decode d = program.decode;
    d.layers = program.layers.data();
    d.token = &token;
    d.segment = &segment;
    d.logits = logits.data();
    d.exchange = exchange.data();
    while (reinterpret_cast<std::uintptr_t>(d.exchange) % 16 != 0) ++d.exchange;
    d.use = use;
    d.final_bit = (position & 1U) == 0 ? 1U : 0U;
    d.timed_out = &timed_out;
    d.poll_limit = 1U << 30;
    if (draw) {
      choices.assign(static_cast<std::size_t>(d.grid), ~0ULL);
      draw->next = {.token = &chosen, .segment = &segment, .drawn = &drawn, .ticket = 7};
      d.choice = {.best = choices.data(), .counted = &counted};
      if (draws_largest(*draw)) d.choice.next = draw->next;
    }
    if (in_cluster && !run_layers(d, seed)) return false;
    if (fixed_head) {
      const cuda::HeadStep head{.data = weights.head.data,
                                .scales = weights.head.scales,
                                .norm = weights.final_norm.weight,
                                .x = d.exchange + d.in_at[4],
                                .logits = d.logits,
                                .timed_out = d.timed_out,
                                .bit = d.final_bit,
                                .poll_limit = d.poll_limit,
                                .tiles = weights.head.tiles(),
                                .grid = d.grid,
                                .norm_eps = d.norm_eps};
      simt::Grid grid(d.grid, cuda::kHeadThreads, sizeof(cuda::HeadShared), seed,
                      [&head] { cuda::head_thread(head); });
      ++position;
      return grid.run();
    }
    simt::Grid grid(
        d.grid, cuda::kDecodeAllThreads, static_cast<std::size_t>(d.shared.total), seed,
        [this, &d] {
          constexpr unsigned kPlainOnly = ~cuda::kTypeBit<BlockType::f32>;
          if (d.even != 0) {
            even_thread(d);
          } else if (fixed_columns) {
            cuda::decode_thread(d,
                                [](int cta) { cuda::consume<kPlainOnly, 0, 256, 768, 32>(cta); });
          } else if (d.biased != 0) {
            cuda::decode_thread(d, [](int cta) { cuda::consume<~0U, 4, 0, 0, 0, true>(cta); });
          } else if (d.warp_slots != 0) {
            cuda::decode_thread(d, [](int cta) { cuda::consume<~0U, 0, 0, 0, 0>(cta); });
          } else {
            cuda::decode_thread(d, [](int cta) { cuda::consume<~0U, 4, 0, 0, 0>(cta); });
          }
        });
    bool through = grid.run();
    if (draw && !draws_largest(*draw)) through = draw_from_choices(d, seed) && through;
    use += static_cast<std::uint32_t>(d.num_layers);
    ++position;
    moved = segment.position == position;
    return through;
  }

  /// What follows the kernel.
  bool draw_from_choices(const cuda::Decode& d, unsigned seed) {
    const std::vector<float> before = logits;
    draw->logits = logits.data();
    const cuda::BlockChoices from = cuda::kept_choices(program, choices.data());
    simt::Grid grid(
        1, cuda::kSampleBlocksThreads, sizeof(cuda::SampleBlocksShared), seed,
        [this, &from] { cuda::SampleBlocks(*draw, from, cuda::kSampleBlocksThreads).run(); });
    const bool through = grid.run();
    EXPECT_EQ(std::memcmp(before.data(), logits.data(), d.vocab * sizeof(float)), 0)
        << "the logits are not what they were";
    return through;
  }

  static void even_thread(const cuda::Decode& d) {
    const auto with = [&d]<BlockType kType>() {
      if (d.shapes[0].type == kType && d.even == 1)
        cuda::decode_thread(d, [](int cta) { cuda::consume_even<kEven[0], kType, ~0U>(cta); });
    };
    constexpr BlockType kType = BlockType::q4_0;
    if (d.even == 2)
      cuda::decode_thread(d, [](int cta) { cuda::consume_even<kEven[1], kType, ~0U>(cta); });
    if (d.even == 3)
      cuda::decode_thread(d, [](int cta) { cuda::consume_even<kEven[2], kType, ~0U>(cta); });
    with.template operator()<BlockType::q4_0>();
    with.template operator()<BlockType::q4_k>();
    with.template operator()<BlockType::q5_0>();
    with.template operator()<BlockType::q5_k>();
    with.template operator()<BlockType::q8_0>();
    with.template operator()<BlockType::wide>();
    with.template operator()<BlockType::bf16>();
  }

  bool run_layers(const cuda::Decode& head, unsigned seed) {
    cuda::ClusterDecode c = layers.cluster;
    c.layers = layers.layers.data();
    c.token = head.token;
    c.segment = head.segment;
    c.last = head.exchange + head.in_at[4];
    c.last_bit = head.final_bit;
    c.timed_out = head.timed_out;
    c.poll_limit = head.poll_limit;
    const auto thread = [&c]<BlockType kType>() {
      if (c.matrices[0].type != kType) return;
      if (c.fixed != 0) {
        cuda::cluster_thread<BlockType::q4_0, BlockType::f16, 4, cuda::DefaultClusterModel>(c);
        return;
      }
      if (c.k_dim == 32) cuda::cluster_thread<kType, BlockType::f16, 3>(c);
      if (c.k_dim == 64) cuda::cluster_thread<kType, BlockType::f16, 4>(c);
      if (c.k_dim == 128) cuda::cluster_thread<kType, BlockType::f16, 5>(c);
    };
    simt::Grid grid(c.blocks, cuda::kClusterThreads, static_cast<std::size_t>(c.shared.total), seed,
                    [&thread] {
                      thread.template operator()<BlockType::q4_0>();
                      thread.template operator()<BlockType::q8_0>();
                    });
    return grid.run();
  }
};

struct Case {
  const char* name;
  ModelConfig config;
  RandomParts parts;
  int grid;
  cuda::DecodeTuning tuning;
  int tokens;
  bool in_cluster = false;  // the layers; the grid is the head's
  bool fixed_columns = false;
  bool even = false;
  bool fixed_head = false;
  int start = 0;  // tokens consumed before the first, by a state of random numbers; even
};

ModelConfig wide(int layers) {
  ModelConfig c = small_config();
  set_layers(c, layers);
  set_widths(c, 256, 512);
  set_heads(c, 8, 2, 32);
  set_memory(c, 16);
  c.vocab_size = 301;
  return c;
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (BlockType t :
       {BlockType::f32, BlockType::f16, BlockType::bf16, BlockType::q8_0, BlockType::q4_0,
        BlockType::q4_k, BlockType::q5_0, BlockType::q5_k, BlockType::q6_k, BlockType::q5_1}) {
    const bool plain = !quant::is_block_type(t);
    all.push_back({quant::format_of(t).name.data(),
                   wide(2),
                   {.linear = t, .table = t, .small = plain ? t : BlockType::f16},
                   5,
                   {.blocks = 4, .splits = 2, .ring_kb = 60},
                   4});
  }
  const RandomParts biased{
      .linear = BlockType::f32, .tied = true, .gate_bias = true, .read_biases = true};
  all.push_back({"positional",
                 small_positional_config(),
                 biased,
                 6,
                 {.blocks = 5, .splits = 2, .copies = 2},
                 14});
  ModelConfig c = small_config();
  // blocks that only take part in the head must not take an early layer for the last
  set_layers(c, 9);
  all.push_back({"many_layers", c, {}, 12, {.blocks = 6, .splits = 1}, 3});
  c = small_positional_config();
  set_layers(c, 3);
  set_positional(c, 0, 5, 0);
  all.push_back({"window_only", c, biased, 4, {.blocks = 4, .splits = 1, .poll = 1}, 7});
  set_positional(c, 3, 0, 5);
  all.push_back({"sinks_only", c, biased, 4, {.blocks = 4, .splits = 1}, 9});
  c = small_positional_config();
  set(c, &LayerSpec::qkv_bias, true);
  all.push_back({"qkv_bias", c, biased, 6, {.blocks = 5, .splits = 2}, 14});
  c = small_config();
  set(c, &LayerSpec::qkv_bias, true);  // never shared by warps
  set_heads(c, 2, 2, 32);
  all.push_back({"qkv_bias_all_memory", c, {}, 5, {.blocks = 4, .splits = 2}, 3});
  c = small_positional_config();  // the mixer of the 0.5B shape; its window is full, its ring turned once
  set(c, &LayerSpec::qkv_bias, true);
  set_heads(c, 7, 1, 64);
  set_positional(c, 4, 252, 256);
  set_memory(c, 128);
  const RandomParts four_bits{.linear = BlockType::q4_0,
                              .table = BlockType::q4_0,
                              .small = BlockType::f16,
                              .tied = true,
                              .gate_bias = true,
                              .read_biases = true};
  all.push_back({"slots_384", c, biased, 10, {.blocks = 9, .splits = 8}, 3});
  all.back().start = 300;
  all.push_back({"slots_384_splits_4", c, four_bits, 10, {.blocks = 9, .splits = 4}, 3});
  all.back().start = 250;
  c = small_positional_config();
  set_memory(c, 0);
  all.push_back({"no_memory", c, {.tied = true}, 8, {.blocks = 8, .splits = 4}, 10});
  c = small_config();
  set_layers(c, 1);
  set_heads(c, 2, 2, 512);
  set_memory(c, 64);
  all.push_back({"heads_of_512", c, {}, 10, {.blocks = 9, .splits = 4}, 2});
  c = wide(3);  // every block has slots, one warp per slot
  set_heads(c, 8, 8, 32);
  set_memory(c, 21);
  all.push_back({"warp_slots", c, biased, 17, {.blocks = 16, .splits = 2, .copies = 4}, 5});
  set_widths(c, 256, 768);
  set_memory(c, 16);
  for (BlockType t : {BlockType::q4_0, BlockType::q8_0, BlockType::q4_k, BlockType::q5_0,
                      BlockType::q5_k, BlockType::q6_k, BlockType::q5_1, BlockType::bf16}) {
    const BlockType small = t == BlockType::bf16 ? t : BlockType::f16;
    set_layers(c, t == BlockType::q4_k || t == BlockType::q5_k
                      ? 1
                      : 3);  // the reference does not round its scales
    all.push_back({"fixed_columns_",
                   c,
                   {.linear = t, .table = t, .small = small, .gate_bias = true},
                   17,
                   {.blocks = 16, .splits = 2, .copies = 2},
                   4,
                   false,
                   true});
  }
  c = small_config();
  set_layers(c, 2);
  set_widths(c, kEven[0].wide, kEven[0].inner);
  set_heads(c, 4, 4, kEven[0].head);
  set_memory(c, 16);
  c.vocab_size = 301;
  const auto even = [&all, &c](const char* name, BlockType t, BlockType gates, BlockType table) {
    const RandomParts parts{.linear = t, .table = table, .small = gates, .gate_bias = true};
    all.push_back({name,
                   c,
                   parts,
                   kEven[0].blocks + 1,
                   {.blocks = kEven[0].blocks, .splits = 4},
                   2,
                   false,
                   false,
                   true});
  };
  even("even_gates_as_all", BlockType::q4_0, BlockType::q4_0, BlockType::q8_0);
  even("even_", BlockType::q4_0, BlockType::f16, BlockType::q8_0);
  even("even_", BlockType::q8_0, BlockType::f16, BlockType::q8_0);
  even("even_", BlockType::q4_1, BlockType::f16, BlockType::q4_1);  // by the products of q4_k
  even("even_", BlockType::q5_0, BlockType::f16, BlockType::q8_0);
  even("even_", BlockType::bf16, BlockType::bf16, BlockType::bf16);
  even("even_", BlockType::q5_1, BlockType::f16, BlockType::q5_1);  // in the wide layout
  even("even_gates_as_all_", BlockType::iq4_xs, BlockType::iq4_xs, BlockType::q6_k);
  set_layers(c, 1);  // as above
  even("even_", BlockType::q4_k, BlockType::f16, BlockType::q6_k);
  even("even_", BlockType::q5_k, BlockType::f16, BlockType::q6_k);
  for (const auto& [name, number, start] : {std::tuple{"even_split", 1, 0},
                                            {"even_split_full", 1, 300},
                                            {"even_split_heads_of_128", 2, 130}}) {
    const cuda::EvenShape& e = kEven[number];
    ModelConfig of = small_positional_config();
    set_layers(of, start == 0 ? 2 : 1);
    set_widths(of, e.wide, e.inner);
    set_heads(of, e.wide / e.head, e.wide / e.head / e.group, e.head);
    set(of, &LayerSpec::qkv_bias, start != 130);
    set_positional(of, 4, 252, 256);
    set_memory(of, 128);
    of.vocab_size = 301;
    all.push_back({name, of, four_bits, e.blocks + 1, {.blocks = e.blocks, .splits = e.splits}, 2});
    all.back().even = true, all.back().start = start;
  }
  c = small_config();
  set_heads(c, 1, 1, 64, 128);
  set_memory(c, 64);
  all.push_back(
      {"warp_slot_head", c, {.linear = BlockType::q8_0}, 14, {.blocks = 12, .splits = 8}, 3});
  all.push_back(
      {"warp_slot_block", c, biased, 3, {.blocks = 2, .splits = 1, .poll = 1, .copies = 2}, 3});
  set_heads(c, 4, 1, 128);
  all.push_back({"heads_of_128", c, {}, 8, {.blocks = 8, .splits = 8}, 2});
  c = small_positional_config();
  set_default_mixer(c);
  set_widths(c, 576, 192);
  all.push_back({"default_model",
                 c,
                 {.linear = BlockType::q4_0,
                  .table = BlockType::q8_0,
                  .small = BlockType::f16,
                  .tied = true,
                  .gate_bias = true,
                  .read_biases = true},
                 14,
                 {.blocks = 12, .splits = 4},
                 3});
  const Case default_model = all.back();
  c = small_positional_config();
  set_heads(c, 2, 1, 32);
  set_widths(c, 64, 64);
  set_positional(c, 1, 2, 3);
  c.vocab_size = 32;
  all.push_back(
      {"few_blocks", c, default_model.parts, 3, {.blocks = 2, .splits = 2, .grid = 3}, 3});
  c = small_config();
  c.vocab_size = 32;
  set_heads(c, 2, 2, 32);
  all.push_back(
      {"few_blocks_thin", c, default_model.parts, 5, {.blocks = 4, .splits = 2, .grid = 5}, 3});
  c = default_model.config;
  all.push_back({"cluster_default_model", c, default_model.parts, 2, {}, 9, true});
  set_widths(c, 576, 1536);
  c.vocab_size = 16 * 50;  // tiles in shared memory and in registers
  all.push_back({"cluster_fixed", c, default_model.parts, 2, {}, 5, true, false, false, true});
  c = default_model.config;
  const auto cluster = [&all](const char* name, const ModelConfig& config, BlockType linear) {
    const RandomParts parts{.linear = linear,
                            .table = BlockType::q8_0,
                            .small = BlockType::f16,
                            .gate_bias = config.layers[0].common().num_memory_slots > 0,
                            .read_biases = config.layers[0].common().num_memory_slots > 0};
    all.push_back({name, config, parts, 2, {}, 4, true});
  };
  cluster("cluster_q8_0", wide(3), BlockType::q8_0);
  set_layers(c, 3);
  set_heads(c, 3, 3, 64);
  set_positional(c, 0, 5, 0);
  set_memory(c, 0);
  cluster("cluster_window_only", c, BlockType::q4_0);
  set_positional(c, 2, 0, 4);
  set_memory(c, 8);
  cluster("cluster_sinks_only", c, BlockType::q4_0);
  c = small_config();
  set_heads(c, 4, 1, 128);
  set_memory(c, 48);
  cluster("cluster_heads_of_128", c, BlockType::q8_0);
  c = small_positional_config();
  for (const auto& [name, blocks] :
       {std::pair{"cluster_of_2", 2}, {"cluster_of_4", 4}, {"cluster_of_16", 16}}) {
    set_heads(c, std::min(blocks - 1, 3), 1, 64);
    cluster(name, c, BlockType::q4_0);
    all.back().tuning.cluster_blocks = blocks;
  }
  return all;
}

/// That the kernel has drawn the largest logit, and made the next step ready.
void expect_largest_chosen(const Emulated& actual) {
  const auto largest = std::max_element(actual.logits.begin(), actual.logits.end());
  EXPECT_EQ(actual.chosen, largest - actual.logits.begin());
  EXPECT_EQ(actual.drawn, std::uint64_t{7} << 32 | static_cast<std::uint32_t>(actual.chosen));
  EXPECT_TRUE(actual.moved);
  EXPECT_EQ(actual.counted, 0U);
}

class DecodeEmulated : public testing::TestWithParam<Case> {};

TEST_P(DecodeEmulated, MatchesTheReference) {
  const Case& each = GetParam();
  const RandomModel model = make_random_model(each.config, each.parts, 91);
  const bool plain = !quant::is_block_type(each.parts.linear);
  const auto reference = reference::make_backend(plain ? reference::Activations::exact
                                                       : reference::Activations::rounded);
  const LoadedModel host = load_on(*reference, model);
  auto expected = host.state();
  Emulated actual(model, each.grid, each.tuning, each.in_cluster);
  actual.fixed_columns = each.fixed_columns, actual.fixed_head = each.fixed_head;
  const cuda::Decode& d = actual.program.decode;
  std::printf(
      "[ layout   ] %s: %d of %d blocks, %d splits, %d items, pieces of %d in %d, %d bytes\n",
      each.name, d.blocks, d.grid, d.splits, d.items, d.piece_bytes, d.ring_bytes, d.shared.total);
  if (!each.in_cluster) {
    ASSERT_EQ(d.blocks, each.tuning.blocks);
    ASSERT_EQ(d.even > 0, each.even) << actual.program.why_not_even;
    ASSERT_EQ(d.splits, each.tuning.splits);
  }
  Random random(92);
  if (each.start > 0) {
    actual.state = random.normals(actual.state.size(), 1.0F);
    actual.position = static_cast<std::uint64_t>(each.start);
    ASSERT_TRUE(expected->import_from(actual.state, actual.position));
  }
  const double tolerance = plain ? 2e-5 : 2e-2;
  for (int i = 0; i < each.tokens; ++i) {
    const std::vector<TokenId> token = random.tokens(1, each.config.vocab_size);
    const std::vector<float> logits = host.run(*expected, token);
    if (each.even && i % 2 == 0) actual.draw.emplace();
    ASSERT_TRUE(actual.step(token[0], static_cast<unsigned>(i))) << "stuck at token " << i;
    ASSERT_EQ(actual.timed_out, 0U);
    if (actual.draw) expect_largest_chosen(actual);
    actual.draw.reset();
    const double error = rms_relative_error(actual.logits, logits);
    const double state = rms_relative_error(actual.state, host.canonical(*expected));
    if (i == each.tokens - 1)
      std::printf("[ parity   ] %-14s token %d: logits %.2e state %.2e\n", each.name, i, error,
                  state);
    ASSERT_LE(error, tolerance) << "token " << i;
    ASSERT_LE(state, tolerance) << "token " << i;
  }
}

TEST(EvenEmulated, WithoutANumberAmongTheLogitsNoTokenIsChosen) {
  const auto all = cases();
  const auto each = std::find_if(all.begin(), all.end(), [](const Case& c) {
    return c.name == std::string("even_split_heads_of_128");
  });
  Emulated one(make_random_model(each->config, each->parts, 94), each->grid, each->tuning, false);
  const std::vector<float> none(static_cast<std::size_t>(each->config.hidden_size), NAN);
  one.program.layers.back().norms[4] = none.data();
  one.draw.emplace();
  ASSERT_TRUE(one.step(1, 0));
  EXPECT_EQ(one.drawn, std::uint64_t{7} << 32 | cuda::kNoToken);
  EXPECT_EQ(one.chosen, 0);
  EXPECT_TRUE(one.moved);
}

/// A draw's memory, which is the host's.
struct DrawMemory {
  cuda::SampleSetup setup;
  std::vector<std::uint32_t> longest, weights;
  std::vector<float> kept;
  cuda::Sample sample;

  DrawMemory(const SamplingOptions& options, std::int32_t vocab, std::span<const TokenId> recent)
      : setup(cuda::make_sample_setup(options, vocab, recent, {.piece = drawn_piece})),
        longest(static_cast<std::size_t>(vocab), 0),
        weights(static_cast<std::size_t>(vocab), kNoWeight),
        kept(setup.dry_recent.size(), NAN),
        sample(setup.sample) {
    sample.dry_losses = setup.dry_losses.data();
    sample.dry_breakers = setup.breakers.data();
    sample.dry_recent = setup.dry_recent.data();
    sample.dry_recent_at = &setup.dry_recent_at;
    sample.dry_lengths = setup.dry_lengths.data();
    sample.dry_longest = longest.data();
    sample.dry_kept = kept.data();
    sample.weights = weights.data();
  }
  bool weighed_all() const { return weights[0] != kNoWeight; }
  static constexpr std::uint32_t kNoWeight = 0xA5A5A5A5U;  // more than any
};

struct DrawCase {
  const char* name;
  SamplingOptions sampling;
  bool differs = false;     // from the same without DRY
  bool weighs_all = false;  // more tokens than the list holds
};

/// Writes the likeliest tokens into the past, each behind a token like the last: DRY makes them less likely.
void say_likely_tokens(const std::vector<float>& logits, std::vector<TokenId>& tokens) {
  constexpr std::size_t kSaid = 6;
  std::vector<TokenId> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::partial_sort(order, order.begin() + kSaid, std::greater{}, [&logits](TokenId token) {
    return logits[static_cast<std::size_t>(token)];
  });
  for (std::size_t i = 0; i < kSaid; ++i) {
    const std::size_t at = tokens.size() - 20 - 90 * i;
    tokens[at] = tokens.back(), tokens[at + 1] = order[i];
  }
}

TEST(EvenEmulated, DrawsTheTokenOfTheHost) {
  const auto all = cases();
  const auto each = std::find_if(all.begin(), all.end(), [](const Case& c) {
    return c.even && c.parts.linear == BlockType::q8_0;
  });
  ModelConfig config = each->config;
  set_layers(config, 1);
  config.vocab_size = 9001;  // a block has more rows than threads that show them
  const RandomModel model = make_random_model(config, each->parts, 95);
  Random random(96);
  const std::vector<TokenId> recent = random.tokens(1400, config.vocab_size);
  SamplingOptions dry;
  dry.dry_multiplier = 100.0F;
  dry.dry_allowed_length = 1;
  SamplingOptions broken = dry;
  broken.dry_breakers = {"x"};
  const auto with = [](SamplingOptions o, float temperature, float min_p) {
    o.temperature = temperature, o.min_p = min_p, o.seed = 5;
    return o;
  };
  const std::vector<DrawCase> draws = {{"greedy", {}},
                                       {"dry", dry, true},
                                       {"min_p", with({}, 0.3F, 0.1F)},
                                       {"min_p_dry", with(dry, 0.3F, 0.1F), true},
                                       {"many_dry", with(broken, 1.0F, 0.1F)},
                                       {"all_dry", with(dry, 30.0F, 0.001F), false, true}};
  for (const DrawCase& draw : draws) {
    SCOPED_TRACE(draw.name);
    Emulated one(model, each->grid, each->tuning, false);
    Emulated other(model, each->grid, each->tuning, false);  // says beforehand what comes
    std::vector<TokenId> tokens = recent;
    one.position = other.position = tokens.size() - 1;
    SamplingOptions plain = draw.sampling;
    plain.dry_multiplier = 0.0F;
    auto sampler = Sampler::create(draw.sampling, config.vocab_size, drawn_piece);
    auto without = Sampler::create(plain, config.vocab_size);
    ASSERT_TRUE(sampler && without);
    bool differs = !draw.differs;
    for (unsigned i = 0; i < 2; ++i) {
      if (draw.sampling.dry_multiplier > 0.0F) {
        ASSERT_TRUE(other.step(tokens.back(), i));
        say_likely_tokens(other.logits, tokens);
      }
      DrawMemory memory(draw.sampling, config.vocab_size, tokens);
      ASSERT_TRUE(cuda::draws_by_blocks(memory.sample));
      one.draw = memory.sample;
      ASSERT_TRUE(one.step(tokens.back(), i)) << "stuck";
      const auto token = sampler->sample(one.logits, tokens, tokens.size());
      ASSERT_TRUE(token);
      differs = differs || *without->sample(one.logits, tokens, tokens.size()) != *token;
      ASSERT_EQ(one.chosen, *token) << "token " << i;
      EXPECT_EQ(one.drawn, std::uint64_t{7} << 32 | static_cast<std::uint32_t>(*token));
      EXPECT_TRUE(one.moved);
      EXPECT_EQ(one.counted, 0U);
      EXPECT_EQ(memory.weighed_all(), draw.weighs_all);
      tokens.push_back(*token);
      const auto next =
          cuda::make_sample_setup(draw.sampling, config.vocab_size, tokens, {.piece = drawn_piece});
      EXPECT_EQ(memory.setup.dry_lengths, next.dry_lengths);
      EXPECT_TRUE(std::ranges::all_of(memory.longest, [](auto length) { return length == 0; }));
    }
    EXPECT_TRUE(differs) << "not a case in which DRY matters";
  }
}

// Whose layers are wider than the ones emulated above, and thirty.
TEST(ClusterEmulated, HasRoomForTheDefaultModel) {
  const auto all = cases();
  const auto narrow = std::find_if(all.begin(), all.end(), [](const Case& each) {
    return each.name == std::string("cluster_default_model");
  });
  ModelConfig config = narrow->config;
  set_widths(config, 576, 1536);
  const Emulated one(make_random_model(config, narrow->parts, 93), narrow->grid, {}, true);
  const int layers = 30 - config.num_layers();
  const int bytes =
      one.layers.cluster.shared.total + layers * static_cast<int>(sizeof(cuda::ClusterLayer));
  std::printf("[ layout   ] 135M: %d of %d bytes\n", bytes, kShared);
  EXPECT_LE(bytes + 128, kShared);
}

INSTANTIATE_TEST_SUITE_P(Cuda, DecodeEmulated, testing::ValuesIn(cases()), [](const auto& each) {
  const auto type = quant::find_format(each.param.parts.linear);
  const bool with_type = std::string(each.param.name).ends_with('_');
  return std::string(each.param.name) + (with_type ? type->name.data() : "");
});

}  // namespace
}  // namespace runnel::test
