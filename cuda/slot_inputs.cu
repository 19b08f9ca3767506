// SPDX-License-Identifier: Apache-2.0
// What lies between the projections and the slots where it is more than an activation: causal
// depthwise convolutions with their tails, feature maps, gates. Elementwise; one thread per channel
// and token. Bound: the [T, channels] f32 buffer.
#include "cuda/device/launch.cuh"
#include "cuda/device/math.cuh"

namespace runnel::cuda {
namespace {

/// The segment that holds row t; there are few.
__device__ int find_segment(const Segment* segments, int count, int t) {
  int i = 0;
  while (i + 1 < count && t >= segments[i + 1].first) ++i;
  return i;
}

/// Channel c of q, k, v: its convolution weights and tail.
struct Channel {
  const float* weights;
  std::size_t tail;  // floats into the state
};

__device__ Channel find_channel(const SlotInputs& a, int c) {
  const int q = a.mixer.heads * a.mixer.k_dim, k = a.mixer.kv_heads * a.mixer.k_dim;
  const float* w = c < q       ? a.q_conv + std::size_t(c) * a.conv
                   : c < q + k ? a.k_conv + std::size_t(c - q) * a.conv
                               : a.v_conv + std::size_t(c - q - k) * a.conv;
  return {w, a.conv_offset + std::size_t(c) * a.conv};
}

/// raw [T, stride] -> inputs: conv, silu, then feature map or activation; gates.
__global__ void map_kernel(const __grid_constant__ SlotInputs a, const Segment* segments,
                           int num_segments, int tokens) {
  chain_trigger();
  chain_wait();
  const SlotMixer& m = a.mixer;
  const int qk = (m.heads + m.kv_heads) * m.k_dim, qkv = qk + m.kv_heads * m.v_dim,
            all = qkv + m.kv_heads * m.memory;
  const int c = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (c >= all) return;
  const float* raw = a.conv > 0 ? a.raw : m.inputs;
  auto* out = const_cast<float*>(m.inputs);
  for (int t = int(blockIdx.y); t < tokens; t += int(gridDim.y)) {
    const std::size_t at = std::size_t(t) * m.input_stride + c;
    float v = raw[at];
    if (c >= qkv) {
      const float bias = m.f_bias != nullptr ? m.f_bias[c - qkv] : 0.0F;
      out[at] = log_decay(v + bias, m.gate_normalizer, m.gate_log_min);
      continue;
    }
    if (a.conv > 0) {
      const Segment segment = segments[find_segment(segments, num_segments, t)];
      const Channel channel = find_channel(a, c);
      v = 0.0F;
      for (int j = 0; j < a.conv; ++j) {
        const int back = a.conv - 1 - j, local = t - segment.first - back;
        const float x = local >= 0 ? raw[std::size_t(segment.first + local) * m.input_stride + c]
                                   : segment.state_in[channel.tail + std::size_t(a.conv + local)];
        v = fmaf(channel.weights[j], x, v);
      }
      v = swish(v);
    }
    out[at] = c < qk ? activate(m.qk_act, v) : activate(m.v_act, v);
  }
}

/// New tails: the last `conv` raw inputs of each segment.
__global__ void tail_kernel(const __grid_constant__ SlotInputs a, const Segment* segments) {
  chain_trigger();
  chain_wait();
  const SlotMixer& m = a.mixer;
  const int channels = (m.heads + m.kv_heads) * m.k_dim + m.kv_heads * m.v_dim;
  const int c = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (c >= channels) return;
  const Segment segment = segments[blockIdx.y];
  const std::size_t tail = find_channel(a, c).tail;
  for (int j = 0; j < a.conv;
       ++j) {  // ascending: reads run ahead of writes when the state is advanced in place
    const int local = segment.count - a.conv + j;
    segment.state_out[tail + j] =
        local >= 0 ? a.raw[std::size_t(segment.first + local) * m.input_stride + c]
                   : segment.state_in[tail + std::size_t(a.conv + local)];
  }
}

/// q, k of one head and token <- relu(W x).
__global__ void t2r_kernel(const __grid_constant__ SlotInputs a) {
  extern __shared__ float x[];
  chain_trigger();
  chain_wait();
  const SlotMixer& m = a.mixer;
  float* row = const_cast<float*>(m.inputs) + std::size_t(blockIdx.y) * m.input_stride +
               std::size_t(blockIdx.x) * m.k_dim;
  for (int i = int(threadIdx.x); i < m.k_dim; i += int(blockDim.x)) x[i] = row[i];
  __syncthreads();
  for (int r = int(threadIdx.x); r < m.k_dim; r += int(blockDim.x)) {
    float acc = 0.0F;
    for (int i = 0; i < m.k_dim; ++i) acc = fmaf(a.t2r[std::size_t(r) * m.k_dim + i], x[i], acc);
    row[r] = fmaxf(acc, 0.0F);
  }
}

}  // namespace

cudaError_t slot_inputs(const Launch& l, const SlotInputs& a, const Segment* segments,
                        int num_segments, int tokens) {
  const SlotMixer& m = a.mixer;
  const int qkv = (m.heads + m.kv_heads) * m.k_dim + m.kv_heads * m.v_dim,
            all = qkv + m.kv_heads * m.memory;
  if (a.conv > 0) {
    const std::size_t bytes = std::size_t(tokens) * m.input_stride * sizeof(float);
    if (cudaError_t e = cudaMemcpyAsync(a.raw, m.inputs, bytes, cudaMemcpyDeviceToDevice, l.stream);
        e != cudaSuccess) {
      return e;
    }
  }
  Launch first = l;
  if (a.conv > 0) first.chain = false;  // follows a copy, not a kernel
  if (cudaError_t e =
          launch(first, map_kernel,
                 dim3(unsigned((all + 127) / 128), unsigned(tokens < 1024 ? tokens : 1024)), 128, 0,
                 1, a, segments, num_segments, tokens);
      e != cudaSuccess) {
    return e;
  }
  if (a.conv > 0) {
    if (cudaError_t e =
            launch(l, tail_kernel, dim3(unsigned((qkv + 127) / 128), unsigned(num_segments)), 128,
                   0, 1, a, segments);
        e != cudaSuccess) {
      return e;
    }
  }
  if (a.t2r == nullptr) return cudaSuccess;
  return launch(l, t2r_kernel, dim3(unsigned(m.heads + m.kv_heads), unsigned(tokens)), 128,
                sizeof(float) * std::size_t(m.k_dim), 1, a);
}

}  // namespace runnel::cuda
