// SPDX-License-Identifier: Apache-2.0
// Device buffers for tests and benchmarks of the kernels of prefill.h.
#pragma once

#include <cstring>
#include <vector>

#include "cuda/prefill.h"
#include "runtime/backend/cuda/handles.h"

namespace runnel::test {

/// Device memory filled with 0xFF bytes: NaN in every float type.
template <class T>
class OnDevice {
 public:
  explicit OnDevice(std::size_t count) : count_(count) {
    ok_ = cudaMalloc(&data_, count * sizeof(T) + 256) == cudaSuccess &&
          cudaMemset(data_, 0xFF, count * sizeof(T) + 256) == cudaSuccess &&
          cudaDeviceSynchronize() == cudaSuccess;
  }
  explicit OnDevice(const std::vector<T>& values) : OnDevice(values.size()) {
    ok_ = ok_ &&
          cudaMemcpy(data_, values.data(), values.size() * sizeof(T),
                     cudaMemcpyHostToDevice) == cudaSuccess &&
          cudaDeviceSynchronize() == cudaSuccess;  // other streams do not wait for this one
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  ~OnDevice() { static_cast<void>(cudaFree(data_)); }

  T* get() const { return static_cast<T*>(data_); }
  bool ok() const { return ok_; }
  std::vector<T> host() const {
    std::vector<T> values(count_);
    if (cudaMemcpy(values.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost) !=
        cudaSuccess) {
      values.clear();
    }
    return values;
  }

 private:
  void* data_ = nullptr;
  std::size_t count_ = 0;
  bool ok_ = false;
};

inline std::uint16_t bf16_of(float v) {
  std::uint32_t w = 0;
  std::memcpy(&w, &v, 4);
  return static_cast<std::uint16_t>((w + 0x7FFFU + ((w >> 16) & 1U)) >> 16);
}
inline float of_bf16(std::uint16_t h) {
  const std::uint32_t w = static_cast<std::uint32_t>(h) << 16;
  float v = 0.0F;
  std::memcpy(&v, &w, 4);
  return v;
}

/// A slot mixer's shape.
struct MixerShape {
  const char* name;
  int heads, kv_heads, k_dim, v_dim, memory, sinks, window;
  float k_bias = 0.0F;  // of the slowest pair of channels of every key
  bool broad() const { return k_bias != 0.0F || memory > 64 || window > 64; }
};

inline cuda::SlotMixer mixer_of(const MixerShape& s) {
  cuda::SlotMixer m{};
  m.heads = s.heads, m.kv_heads = s.kv_heads, m.k_dim = s.k_dim, m.v_dim = s.v_dim;
  m.memory = s.memory, m.sinks = s.sinks, m.window = s.window;
  m.sink_distance = s.sinks > 0 ? 64 : 0;
  m.scale = 1.0F;
  m.gate_normalizer = 1.0F;
  m.prepared = true;
  m.gate_log_min = s.broad() ? -1.2F : 0.0F;  // the broad kernels want a floor
  m.head_floats = static_cast<std::size_t>(s.sinks + s.window + s.memory) *
                  static_cast<std::size_t>(s.k_dim + s.v_dim);
  m.input_stride = (s.heads + s.kv_heads) * s.k_dim + s.kv_heads * (s.v_dim + s.memory);
  return m;
}

/// Operands and scratch for `tokens` tokens in one poisoned pool.
class ChunkPool {
 public:
  ChunkPool(const MixerShape& s, int tokens) : pool_(layout(s, tokens, nullptr)) {
    layout(s, tokens, &operands_);
  }
  const cuda::ChunkOperands& operands() const { return operands_; }
  bool ok() const { return pool_.ok(); }

 private:
  std::size_t layout(const MixerShape& s, int tokens, cuda::ChunkOperands* o) {
    const auto u = [](int v) { return static_cast<std::size_t>(v); };
    std::size_t used = 0;
    const auto take = [&](auto** to, std::size_t count) {
      if (o != nullptr) {
        *to = reinterpret_cast<std::remove_reference_t<decltype(*to)>>(pool_.get() + used);
      }
      used += (count * sizeof(**to) + 255) / 256 * 256;
    };
    cuda::ChunkOperands mine;
    cuda::ChunkOperands& to = o != nullptr ? *o : mine;
    const std::size_t n = u(tokens), chunks = (n + 63) / 64,
                      tiles = chunks * u(s.kv_heads) * ((u(s.memory) + 63) / 64),
                      before = s.broad() ? cuda::kBroadWindow : 64, q = u(s.heads * s.k_dim),
                      k = u(s.kv_heads * s.k_dim), v = u(s.kv_heads * s.v_dim);
    take(&to.q, n * q);
    take(&to.q_turned, n * q);
    take(&to.q_near, n * q);
    take(&to.k, n * k);
    take(&to.k_turned, (n + before) * k);
    take(&to.v, (n + before) * v);
    take(&to.k_sink, 16 * k);
    take(&to.v_sink, 16 * v);
    if (s.broad()) {
      take(&to.k_turned_low, (n + before) * k);
      take(&to.k_sink_low, 16 * k);
      take(&to.keys_low, tiles * 64 * u(s.k_dim));
      take(&to.rotation, (n + 1) * u(s.k_dim / 2));
      const std::size_t parts =
          u(cuda::kMostSpans) * u(s.kv_heads) * ((u(s.memory) + 63) / 64) * 64;
      take(&to.ends, parts * u((s.k_dim + 31) / 32 * 32 + (s.v_dim + 31) / 32 * 32));
      take(&to.span_decay, parts);
    } else {
      take(&to.gates, n * u(s.kv_heads * s.memory));
      to.gate_stride = s.kv_heads * s.memory;
    }
    take(&to.decay, tiles * 64);
    take(&to.centre, tiles * 64);
    take(&to.rise, tiles * 4096);
    take(&to.write, tiles * 4096);
    take(&to.carry, tiles * 4096);
    take(&to.strong, tiles);
    take(&to.keys, tiles * 64 * u(s.k_dim));
    take(&to.values, tiles * 64 * u(s.v_dim));
    return used;
  }

  OnDevice<unsigned char> pool_;
  cuda::ChunkOperands operands_;
};

}  // namespace runnel::test
