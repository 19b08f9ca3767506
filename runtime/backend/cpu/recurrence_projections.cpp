// SPDX-License-Identifier: Apache-2.0
// x^ = RMSNorm(x; norm)
// q, k, v, f, r, output gate = W x^;  f = W2 (W1 x^) if its rank is low
// convolutions on q, k (or f), v
#include "runtime/backend/cpu/pass.h"

namespace runnel::cpu {

void recurrence_projections(Pass& pass) {
  const DeviceLayer& w = *pass.layer;
  const RecurrenceSpec& spec = pass.spec().recurrence();
  const bool low_rank = spec.gate_rank > 0;
  multiply_normed(pass, {{&w.q, pass.q},
                         {&w.k, pass.k},
                         {&w.v, pass.v},
                         {low_rank ? &w.f_down : &w.f, low_rank ? pass.low : pass.f},
                         {&w.r, pass.r},
                         {&w.out_gate, pass.gate}});
  add_biases(pass);
  if (low_rank) {
    const Product up{.matrix = &w.f, .out = pass.f, .stride = w.f.rows, .accumulate = false};
    pack_rows(pass, pass.tokens, spec.gate_rank, pass.input.only_for(w.f),
              [&](int t, float*) { return pass.low + std::ptrdiff_t{t} * spec.gate_rank; });
    run_products(pass, {&up, 1}, pass.input, pass.tokens);
  }
  if (pass.spec().conv_size > 0) short_convolutions(pass, spec.complement_keys ? pass.f : pass.k);
}

}  // namespace runnel::cpu
