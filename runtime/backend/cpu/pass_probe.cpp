// SPDX-License-Identifier: Apache-2.0
// What tests see of a plan's buffers: rows as dense as the canonical ones, but for the padding of o's heads.
#include "runtime/backend/pass_probe.h"

#include <algorithm>

#include "runtime/backend/cpu/cpu_plan.h"
#include "runtime/base/try.h"

namespace runnel::cpu {
namespace {

float* buffer_of(const Pass& pass, PassBuffer buffer) {
  switch (buffer) {
    case PassBuffer::x:
      return pass.x;
    case PassBuffer::q:
      return pass.q;
    case PassBuffer::k:
      return pass.k;
    case PassBuffer::v:
      return pass.v;
    case PassBuffer::f:
      return pass.f;
    case PassBuffer::r:
      return pass.r;
    case PassBuffer::gate:
      return pass.gate;
    case PassBuffer::first_v:
      return pass.first_v;
    case PassBuffer::o:
      break;
  }
  return pass.o;
}

}  // namespace

template <class Floats, class Move>
Status CpuPlan::for_rows(PassBuffer buffer, const LayerSpec& layer, Floats rows, const Move& move) {
  RUNNEL_CHECK_OK(check_rows(buffer, layer, model_.config().hidden_size, rows.size(), max_tokens_));
  float* own = buffer_of(pass_, buffer);
  std::size_t together = rows.size(), stride = rows.size();
  if (buffer == PassBuffer::o) {
    together = static_cast<std::size_t>(layer.head_v_dim);
    stride = static_cast<std::size_t>(model_.layer(layer.index).layout.channels);
  }
  for (std::size_t at = 0; at < rows.size(); at += together, own += stride)
    move(own, rows.data() + at, together);
  return {};
}

Status CpuPlan::write(PassBuffer buffer, const LayerSpec& layer, std::span<const float> rows) {
  return for_rows(buffer, layer, rows, [](float* own, const float* theirs, std::size_t n) {
    std::copy_n(theirs, n, own);
  });
}

Status CpuPlan::read(PassBuffer buffer, const LayerSpec& layer, std::span<float> rows) {
  return for_rows(buffer, layer, rows, [](const float* own, float* theirs, std::size_t n) {
    std::copy_n(own, n, theirs);
  });
}

}  // namespace runnel::cpu
