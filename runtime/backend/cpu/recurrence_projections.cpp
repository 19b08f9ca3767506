// SPDX-License-Identifier: Apache-2.0
// x^ = RMSNorm(x; attn_norm);  q, k, v, f, r, output gate = W x^;  f = W2 (W1 x^) if its rank is
// low;  convolutions on q, k (or f), v
#include "runtime/backend/cpu/pass.h"

namespace runnel::cpu {

void recurrence_projections(Pass& pass, int layer) {
  const PackedLayer& w = pass.model->layer(layer);
  const ModelConfig& c = pass.config();
  const int d = c.hidden_size;
  Product products[6];
  std::size_t n = 0;
  bool groups = false, floats = false;
  const auto add = [&](const PackedMatrix& m, float* out) {
    if (!m.present()) return;
    products[n++] = {.matrix = &m, .out = out, .stride = m.rows, .accumulate = false};
    (m.quantised() ? groups : floats) = true;
  };
  add(w.q, pass.q);
  add(w.k, pass.k);
  add(w.v, pass.v);
  if (c.gate_rank > 0) {
    add(w.f_down, pass.low);
  } else {
    add(w.f, pass.f);
  }
  add(w.r, pass.r);
  add(w.out_gate, pass.gate);
  pack_rows(pass, pass.tokens, d, groups, floats, pass.input, [&](int t, float* scratch) {
    pass.kernels().rms_norm(pass.x + std::ptrdiff_t{t} * d, d, c.norm_eps, w.attn_norm.data(),
                            scratch);
    return scratch;
  });
  run_products(pass, {products, n}, pass.input, pass.tokens);
  if (c.gate_rank > 0) {
    const Product up{.matrix = &w.f, .out = pass.f, .stride = w.f.rows, .accumulate = false};
    pack_rows(pass, pass.tokens, c.gate_rank, w.f.quantised(), !w.f.quantised(), pass.input,
              [&](int t, float*) { return pass.low + std::ptrdiff_t{t} * c.gate_rank; });
    run_products(pass, {&up, 1}, pass.input, pass.tokens);
  }
  if (c.conv_size > 0) short_convolutions(pass, layer);
}

}  // namespace runnel::cpu
