// SPDX-License-Identifier: Apache-2.0
// x += W_o (norm(act(o)) * swish(gate));  norm over all HQ*V channels, over each head's V, or none
#include <algorithm>

#include "runtime/backend/cpu/pass.h"

namespace runnel::cpu {
namespace {

constexpr float kNormalizerEps = 1e-10F;

}  // namespace

void output_projection(Pass& pass, int layer) {
  const PackedLayer& w = pass.model->layer(layer);
  const ModelConfig& c = pass.config();
  const int channels = pass.layout().channels;
  const int n = c.num_heads * c.head_v_dim;
  pack_rows(pass, pass.tokens, n, w.o.quantised(), !w.o.quantised(), pass.input,
            [&](int t, float* scratch) {
              const float* o = pass.o + std::ptrdiff_t{t} * c.num_heads * channels;
              for (int h = 0; h < c.num_heads; ++h) {
                float* own = scratch + h * c.head_v_dim;
                std::copy_n(o + h * channels, c.head_v_dim, own);
                if (c.normalizer) {
                  const float divisor = o[h * channels + c.head_v_dim] + kNormalizerEps;
                  for (int i = 0; i < c.head_v_dim; ++i) own[i] /= divisor;
                }
              }
              if (c.output_activation == Activation::swish) pass.kernels().silu(scratch, n);
              if (c.output_activation == Activation::relu) {
                for (int i = 0; i < n; ++i) scratch[i] = std::max(scratch[i], 0.0F);
              }
              const int width = c.output_norm_heads ? c.head_v_dim : n;
              for (int i = 0; c.output_norm && i < n; i += width) {
                pass.kernels().rms_norm(scratch + i, width, c.g_norm_eps,
                                        w.g_norm.empty() ? nullptr : w.g_norm.data(), scratch + i);
              }
              if (!c.output_gate) return scratch;
              float* gate = pass.gate + std::ptrdiff_t{t} * n;
              pass.kernels().swiglu(gate, scratch, n);
              return gate;
            });
  const Product product{.matrix = &w.o, .out = pass.x, .stride = c.hidden_size, .accumulate = true};
  run_products(pass, {&product, 1}, pass.input, pass.tokens);
}

}  // namespace runnel::cpu
