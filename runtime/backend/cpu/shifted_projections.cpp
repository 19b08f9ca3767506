// SPDX-License-Identifier: Apache-2.0
// h = norm(x);  x_j = h + lerp_j (h of the token before - h);  q, k, v = W x_j
// f, r, output gate = W2 act(W1 x_j) with act tanh, nothing, sigmoid
// v <- v + (v of the layer that keeps its own - v) sigmoid(W2 (W1 x_v) + bias)
//
// All first products are one parallel loop, all second ones another. Bound as all products: the bytes of W.
#include <algorithm>
#include <cstring>

#include "runtime/backend/cpu/pass.h"

namespace runnel::cpu {
namespace {

// Inputs in the order of the lerps' rows.
enum Input : std::size_t { kQuery, kDecay, kKey, kValue, kRate, kGate };

enum class Between { nothing, tanh, sigmoid };

/// A product by way of a low rank.
struct LowRank {
  const PackedMatrix* down;
  const PackedMatrix* up;
  float* out;
  Input input;
  Between between;
  float* low;  // [T, rank]
};

void apply(const Kernels& kernels, Between between, float* x, int n) {
  switch (between) {
    case Between::nothing:
      return;
    case Between::tanh:
      for (int i = 0; i < n; ++i) x[i] *= 2.0F;  // tanh(x) = 2 sigmoid(2x) - 1
      kernels.sigmoid(x, nullptr, n, x);
      for (int i = 0; i < n; ++i) x[i] = 2.0F * x[i] - 1.0F;
      return;
    case Between::sigmoid:
      kernels.sigmoid(x, nullptr, n, x);
      return;
  }
}

/// Packs the inputs of the first products.
void pack_inputs(Pass& pass) {
  const DeviceLayer& w = *pass.layer;
  const int d = pass.spec().mixer_shift, inputs = pass.spec().shifted_inputs();
  const std::size_t offset = pass.layout().mixer_shift_offset();
  const PackedMatrix* const of_input[kMostShifts] = {&w.q, &w.f_down, &w.k,
                                                     &w.v, &w.r_down, &w.out_gate_down};
  norm_tokens(pass, pass.spec().norm, w.norm);
  const TokenTiles tiles(pass.kernels(), 0, pass.tokens);
  pass.pool().for_each(tiles.size() * inputs, [&](int i, int thread) {
    const TokenTile tile = tiles[i / inputs];
    const auto input = static_cast<std::size_t>(i % inputs);
    float* scratch = pass.scratch + static_cast<std::size_t>(thread) * pass.scratch_floats;
    bool groups = of_input[input]->quantised(), floats = !groups;
    if (input == kValue && w.v_down.present()) (w.v_down.quantised() ? groups : floats) = true;
    for (int t = tile.first; t < tile.first + tile.width; ++t) {
      pass.kernels().lerp(pass.normed + std::ptrdiff_t{t} * d, normed_before(pass, t, offset),
                          w.lerp.data() + input * static_cast<std::size_t>(d), d, scratch);
      pack_row(pass.kernels(), scratch, d, tile, t, pass.shifted[input].only(groups, floats));
    }
  });
  keep_normed(pass, offset);
}

Product product_of(Pass& pass, const PackedMatrix& m, float* out, Input input) {
  return {.matrix = &m,
          .out = out,
          .stride = m.rows,
          .accumulate = false,
          .input = &pass.shifted[input]};
}

void mix_values(Pass& pass) {
  const DeviceLayer& w = *pass.layer;
  const std::ptrdiff_t n = pass.spec().v_channels();
  pass.pool().for_each(pass.tokens, [&](int t, int) {
    float* mix = pass.v_mix + t * n;
    float* v = pass.v + t * n;
    const float* first = pass.first_v + t * n;
    pass.kernels().sigmoid(mix, w.v_mix_bias.data(), static_cast<int>(n), mix);
    for (std::ptrdiff_t i = 0; i < n; ++i) v[i] += (first[i] - v[i]) * mix[i];
  });
}

}  // namespace

void norm_tokens(Pass& pass, const NormSpec& spec, const DeviceNorm& norm) {
  const int d = pass.model->config().hidden_size;
  pass.pool().for_each(pass.tokens, [&](int t, int) {
    const std::ptrdiff_t row = std::ptrdiff_t{t} * d;
    norm_row(pass.kernels(), spec, norm, pass.x + row, d, pass.normed + row);
  });
}

const float* normed_before(const Pass& pass, int t, std::size_t offset) {
  const PassItem& item =
      pass.items[static_cast<std::size_t>(pass.item_of[static_cast<std::size_t>(t)])];
  if (t == item.first) return item.state->data() + offset;
  return pass.normed + std::ptrdiff_t{t - 1} * pass.model->config().hidden_size;
}

void keep_normed(Pass& pass, std::size_t offset) {
  const auto d = static_cast<std::size_t>(pass.model->config().hidden_size);
  for (const PassItem& item : pass.items) {
    const auto last = static_cast<std::size_t>(item.first + item.count - 1);
    std::memcpy(item.state->data() + offset, pass.normed + last * d, d * sizeof(float));
  }
}

void shifted_projections(Pass& pass) {
  const DeviceLayer& w = *pass.layer;
  const RecurrenceSpec& spec = pass.spec().recurrence();
  pack_inputs(pass);
  LowRank all[] = {{&w.f_down, &w.f, pass.f, kDecay, Between::tanh, nullptr},
                   {&w.r_down, &w.r, pass.r, kRate, Between::nothing, nullptr},
                   {&w.out_gate_down, &w.out_gate, pass.gate, kGate, Between::sigmoid, nullptr},
                   {&w.v_down, &w.v_mix, pass.v_mix, kValue, Between::nothing, nullptr}};
  Product products[7];
  std::size_t n = 0;
  products[n++] = product_of(pass, w.q, pass.q, kQuery);
  products[n++] = product_of(pass, w.k, pass.k, kKey);
  products[n++] = product_of(pass, w.v, pass.v, kValue);
  std::vector<LowRank> present;
  float* low = pass.low;
  for (LowRank& l : all) {
    if (!l.down->present()) continue;
    l.low = low;
    low += std::ptrdiff_t{pass.tokens} * l.down->rows;
    products[n++] = product_of(pass, *l.down, l.low, l.input);
    present.push_back(l);
  }
  run_products(pass, {products, n}, {}, pass.tokens);

  const TokenTiles tiles(pass.kernels(), 0, pass.tokens);
  const int ranks = static_cast<int>(present.size());
  pass.pool().for_each(tiles.size() * ranks, [&](int i, int) {
    const TokenTile tile = tiles[i / ranks];
    const LowRank& l = present[static_cast<std::size_t>(i % ranks)];
    for (int t = tile.first; t < tile.first + tile.width; ++t) {
      float* row = l.low + std::ptrdiff_t{t} * l.down->rows;
      apply(pass.kernels(), l.between, row, l.down->rows);
      pack_row(pass.kernels(), row, l.up->cols, tile, t, pass.shifted[l.input].only_for(*l.up));
    }
  });
  n = 0;
  for (const LowRank& l : present) products[n++] = product_of(pass, *l.up, l.out, l.input);
  run_products(pass, {products, n}, {}, pass.tokens);

  if (spec.first_values) {
    const auto floats =
        static_cast<std::size_t>(pass.tokens) * static_cast<std::size_t>(pass.spec().v_channels());
    std::memcpy(pass.first_v, pass.v, floats * sizeof(float));
  }
  if (spec.value_rank > 0) mix_values(pass);
}

}  // namespace runnel::cpu
