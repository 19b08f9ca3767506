// SPDX-License-Identifier: Apache-2.0
// x += W_o norm(act(o));  norm over all HQ*V channels, or none
#include <algorithm>

#include "runtime/backend/cpu/pass.h"

namespace runnel::cpu {

void output_projection(Pass& pass, int layer) {
  const PackedLayer& w = pass.model->layer(layer);
  const ModelConfig& c = pass.config();
  const int channels = pass.layout().channels;
  const int n = c.num_heads * c.head_v_dim;
  pack_rows(pass, pass.tokens, n, w.o.quantised(), !w.o.quantised(), pass.input,
            [&](int t, float* scratch) {
              const float* o = pass.o + std::ptrdiff_t{t} * c.num_heads * channels;
              for (int h = 0; h < c.num_heads; ++h) {
                std::copy_n(o + h * channels, c.head_v_dim, scratch + h * c.head_v_dim);
              }
              if (c.output_activation == Activation::swish) pass.kernels().silu(scratch, n);
              if (c.output_activation == Activation::relu) {
                for (int i = 0; i < n; ++i) scratch[i] = std::max(scratch[i], 0.0F);
              }
              if (c.output_norm) {
                pass.kernels().rms_norm(scratch, n, c.g_norm_eps,
                                        w.g_norm.empty() ? nullptr : w.g_norm.data(), scratch);
              }
              return scratch;
            });
  const Product product{.matrix = &w.o, .out = pass.x, .stride = c.hidden_size, .accumulate = true};
  run_products(pass, {&product, 1}, pass.input, pass.tokens);
}

}  // namespace runnel::cpu
