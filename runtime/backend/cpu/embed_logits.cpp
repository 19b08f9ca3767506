// SPDX-License-Identifier: Apache-2.0
// x[t] = table[id[t]]                             one row out of the tiles, which the head multiplies with if tied
// logits[t] = W_head RMSNorm(x[t]; final_norm)    for the tokens that are wanted
#include "runtime/backend/cpu/pass.h"

namespace runnel::cpu {

void embed(Pass& pass) {
  const auto d = static_cast<std::size_t>(pass.model->config().hidden_size);
  pass.pool().for_each(pass.tokens, [&](int t, int) {
    unpack_row(pass.model->embeddings(), pass.ids[static_cast<std::size_t>(t)],
               {pass.x + static_cast<std::size_t>(t) * d, d});
  });
}

void embedding_norm(Pass& pass) {
  const CpuModel& model = *pass.model;
  const int d = model.config().hidden_size;
  pass.pool().for_each(pass.tokens, [&](int t, int thread) {
    float* scratch = pass.scratch + static_cast<std::size_t>(thread) * pass.scratch_floats;
    float* x = pass.x + std::ptrdiff_t{t} * d;
    norm_row(pass.kernels(), *model.config().embedding_norm, model.embedding_norm(), x, d, scratch);
    std::copy_n(scratch, d, x);
  });
}

void logits(Pass& pass) {
  if (pass.wanted.empty()) return;
  const CpuModel& model = *pass.model;
  const PackedMatrix& head = model.head();
  const int d = pass.model->config().hidden_size;
  const int tokens = static_cast<int>(pass.wanted.size());
  pack_rows(pass, tokens, d, pass.input.only_for(head), [&](int t, float* scratch) {
    const float* x = pass.x + std::ptrdiff_t{pass.wanted[static_cast<std::size_t>(t)]} * d;
    norm_row(pass.kernels(), model.config().final_norm, model.final_norm(), x, d, scratch);
    return scratch;
  });
  const Product product{.matrix = &head,
                        .out = nullptr,
                        .stride = 0,
                        .accumulate = false,
                        .rows = pass.wanted_out.data()};
  run_products(pass, {&product, 1}, pass.input, tokens);
}

}  // namespace runnel::cpu
