// SPDX-License-Identifier: Apache-2.0
// x += W_o ((norm(act(o)) + bonus v) * act(gate));  norm over all HQ*V channels, over each head's V, or none
#include <algorithm>

#include "runtime/backend/cpu/pass.h"

namespace runnel::cpu {
namespace {

constexpr float kNormalizerEps = 1e-10F;

/// A LayerNorm of each head's channels, in place.
void group_norm(const Pass& pass, float* row, int n) {
  const LayerSpec& c = pass.spec();
  const int dim = c.head_v_dim;
  for (int i = 0; i < n; i += dim) {
    pass.kernels().layer_norm(row + i, dim, c.output_norm_eps, pass.layer->g_norm.data() + i,
                              pass.layer->g_norm_bias.data() + i, row + i);
  }
}

/// The output norm of one row [HQ*V], in place.
void norm_output(const Pass& pass, float* row, int n) {
  const LayerSpec& c = pass.spec();
  const std::vector<float>& weight = pass.layer->g_norm;
  int width = n;
  switch (c.output_norm) {
    case OutputNorm::none:
      return;
    case OutputNorm::channels:
      break;
    case OutputNorm::heads:
      width = c.head_v_dim;
      break;
    case OutputNorm::groups:
      group_norm(pass, row, n);
      return;
  }
  for (int i = 0; i < n; i += width) {
    pass.kernels().rms_norm(row + i, width, c.output_norm_eps,
                            weight.empty() ? nullptr : weight.data(), row + i);
  }
}

}  // namespace

void output_projection(Pass& pass) {
  const DeviceLayer& w = *pass.layer;
  const LayerSpec& c = pass.spec();
  const int channels = pass.layout().channels, n = c.o_channels();
  const bool normalizer = c.value_columns() > c.head_v_dim;
  const bool bonus = c.kind() == Mixer::recurrence && c.recurrence().bonus;
  pack_rows(pass, pass.tokens, n, pass.input.only_for(w.o), [&](int t, float* scratch) {
    const float* o = pass.o + std::ptrdiff_t{t} * c.num_heads * channels;
    for (int h = 0; h < c.num_heads; ++h) {
      float* own = scratch + h * c.head_v_dim;
      std::copy_n(o + h * channels, c.head_v_dim, own);
      if (normalizer) {
        const float divisor = o[h * channels + c.head_v_dim] + kNormalizerEps;
        for (int i = 0; i < c.head_v_dim; ++i) own[i] /= divisor;
      }
    }
    activate(pass.kernels(), c.output_activation, scratch, n);
    norm_output(pass, scratch, n);
    if (bonus) {
      const float* v = pass.v + std::ptrdiff_t{t} * n;
      for (int h = 0; h < c.num_heads; ++h) {
        const float by = pass.bonus[t * c.num_heads + h];
        for (int i = h * c.head_v_dim; i < (h + 1) * c.head_v_dim; ++i) scratch[i] += by * v[i];
      }
    }
    if (!c.output_gate) return scratch;
    float* gate = pass.gate + std::ptrdiff_t{t} * n;
    if (c.gate_activation == Activation::swish) {
      pass.kernels().swiglu(gate, scratch, n);
    } else {
      activate(pass.kernels(), c.gate_activation, gate, n);
      for (int i = 0; i < n; ++i) gate[i] *= scratch[i];
    }
    return gate;
  });
  const Product product{.matrix = &w.o, .out = pass.x, .stride = w.o.rows, .accumulate = true};
  run_products(pass, {&product, 1}, pass.input, pass.tokens);
}

}  // namespace runnel::cpu
