// SPDX-License-Identifier: Apache-2.0
// x^ = RMSNorm(x; norm);  q, k, v, f = W x^
// conv: y_t[c] = silu(sum_j w[c, j] x_{t-W+1+j}[c]) on q, k, v
//
// The maps, rotations and gates that follow belong to a head: slot_attention.cpp does them where it uses them.
#include <algorithm>
#include <cstring>

#include "runtime/backend/cpu/pass.h"
#include "runtime/base/integers.h"

namespace runnel::cpu {
namespace {

/// Rows [T, channels] that go through one convolution.
struct Convolution {
  const std::vector<float>* weight;  // [channels, taps]
  float* rows;
  int channels;
};

/// Channels [begin, end) of one item's tokens. tail [channels, taps]: the last inputs, oldest first.
void convolve(const Pass& pass, const PassItem& item, const Convolution& c, float* tail, int begin,
              int end) {
  const int taps = pass.spec().conv_size;
  for (int channel = begin; channel < end; ++channel) {
    float* last = tail + std::ptrdiff_t{channel} * taps;
    const float* w = c.weight->data() + std::ptrdiff_t{channel} * taps;
    for (int t = item.first; t < item.first + item.count; ++t) {
      float& x = c.rows[std::ptrdiff_t{t} * c.channels + channel];
      std::memmove(last, last + 1, static_cast<std::size_t>(taps - 1) * sizeof(float));
      last[taps - 1] = x;
      float sum = 0.0F;
      for (int j = 0; j < taps; ++j) sum += w[j] * last[j];
      x = sum;
    }
  }
  for (int t = item.first; t < item.first + item.count; ++t) {
    if (!pass.spec().conv_silu) break;
    pass.kernels().silu(c.rows + std::ptrdiff_t{t} * c.channels + begin, end - begin);
  }
}

}  // namespace

void short_convolutions(Pass& pass, float* keys) {
  const DeviceLayer& w = *pass.layer;
  const LayerState& s = pass.layout().canonical;
  constexpr int kChannels = 64;  // of an item
  const Convolution parts[] = {{&w.q_conv, pass.q, s.q_channels},
                               {&w.k_conv, keys, s.k_channels},
                               {&w.v_conv, pass.v, s.v_channels}};
  const int all = s.q_channels + s.k_channels + s.v_channels;
  const int steps = divide_up(all, kChannels);
  const int items = static_cast<int>(pass.items.size());
  for (int first = 0; first < items; ++first) {
    const PassItem& item = pass.items[static_cast<std::size_t>(first)];
    pass.pool().for_each(std::min(steps, ThreadPool::kMaxItems), [&](int step, int) {
      float* tail = item.state->data() + pass.layout().conv_offset();
      int begin = step * kChannels, left = kChannels;
      for (const Convolution& p : parts) {
        const int end = std::min(p.channels, begin + left);
        if (begin < end) {
          convolve(pass, item, p, tail, begin, end);
          left -= end - begin;
        }
        begin = std::max(0, begin - p.channels);
        tail += std::ptrdiff_t{p.channels} * s.conv_size;
        if (left == 0) return;
      }
    });
  }
}

void add_biases(Pass& pass) {
  const DeviceLayer& w = *pass.layer;
  struct Part {
    const std::vector<float>& bias;
    float* rows;
  };
  for (const Part& p : {Part{w.q_bias, pass.q}, Part{w.k_bias, pass.k}, Part{w.v_bias, pass.v}}) {
    const auto n = static_cast<std::ptrdiff_t>(p.bias.size());
    for (std::ptrdiff_t t = 0; n > 0 && t < pass.tokens; ++t) {
      float* row = p.rows + t * n;
      for (std::ptrdiff_t i = 0; i < n; ++i) row[i] += p.bias[static_cast<std::size_t>(i)];
    }
  }
}

void slot_projections(Pass& pass) {
  const DeviceLayer& w = *pass.layer;
  multiply_normed(pass, {{&w.q, pass.q}, {&w.k, pass.k}, {&w.v, pass.v}, {&w.f, pass.f}});
  add_biases(pass);
  if (pass.spec().conv_size > 0) short_convolutions(pass, pass.k);
}

}  // namespace runnel::cpu
