// SPDX-License-Identifier: Apache-2.0
// The slot recurrence of a few tokens for memory slots alone, shaped for the latency of one token:
//   h <- diag(a) h + (1-a) k^T,  hv <- diag(a) hv + (1-a) v^T,  o = softmax(scale * h q + bias) hv
//
// A cluster of blocks a (segment, kv head); a block owns kSlots slots and a thread kColumns columns
// of each, in registers over all tokens. So a slot's score needs its own block alone, and blocks
// meet once per token: each sends its exponentials' sum, their peak and what it has read of the
// values to the blocks that own the outputs (asynchronous stores that the receiver's barrier
// counts). Gates are off the way as well, since (a h + w k) q = a (h q) + w (k q): a warp of its
// own finds them while the others take h q, and states are updated while the reads travel. Bound:
// latency, of which a kernel that does nothing has a fifth.
#include "cuda/device/async.cuh"
#include "cuda/device/launch.cuh"
#include "cuda/device/math.cuh"
#include "cuda/device/ops/cluster.cuh"
#include "cuda/slot_step.h"

namespace runnel::cuda {
namespace {

constexpr int kSlots = 8;          // of a block
constexpr int kColumns = 2;        // of a thread
constexpr int kMostBlocks = 8;     // of a cluster
constexpr int kMostGroup = 8;      // query heads of a kv head
constexpr int kMostThreads = 512;  // that hold states
constexpr int kWarpsOfQuery = 8;

#if __CUDA_ARCH__ >= 900  // the host launches the kernel nowhere else

/// A block's share of a kv head.
struct StepShare {
  int rank, head, group, blocks;
  int outputs;       // of a block
  int first;         // slot
  unsigned message;  // bytes to each block a token
  int q_all, k_all, v_all;
  Segment segment;
};

/// What warps of a block, and its blocks, tell each other; sets of two take turns.
struct StepShared {
  std::uint64_t (&arrived)[2];
  float (&decay)[2][kSlots], (&write)[2][kSlots];
  float2 (&peaks)[2][kMostBlocks][kMostGroup];
  float* reads;
};

/// The inputs of token n.
__device__ __forceinline__ const float* row_of(const SlotMixer& m, const Segment& segment, int n) {
  return m.inputs + std::size_t(segment.first + n) * m.input_stride;
}

/// Maps q and k: this warp's part of h q of every slot and of k q, to the others.
__device__ __forceinline__ void put_scores(float (&scores)[kSlots + 1],
                                           const float (&keys)[kSlots][kColumns], Act act,
                                           float (&q)[kColumns], float (&k)[kColumns], int lane) {
  float score[kSlots] = {}, of_token = 0.0F;
#pragma unroll
  for (int c = 0; c < kColumns; ++c) {
    q[c] = activate(act, q[c]), k[c] = activate(act, k[c]);
    of_token = fmaf(k[c], q[c], of_token);
#pragma unroll
    for (int j = 0; j < kSlots; ++j) score[j] = fmaf(keys[j][c], q[c], score[j]);
  }
  const float part = sum_apart(score, lane);
  of_token = warp_sum(of_token);
  if (lane < kSlots) scores[lane] = part;
  if (lane == 0) scores[kSlots] = of_token;
}

/// h q of slot `own`, and k q: every warp finishes all scores of its query for itself.
__device__ __forceinline__ float2 take_scores(const float (&scores)[kMostThreads / 32][kSlots + 1],
                                              int first_warp, int of_query, int own, int lane) {
  float x = 0.0F, y = 0.0F;
#pragma unroll
  for (int i = 0; i < kWarpsOfQuery * kSlots / 32; ++i) {
    const int w = lane / kSlots + i * (32 / kSlots);
    if (w * 32 < of_query) {
      x += scores[first_warp + w][own];
      y += scores[first_warp + w][kSlots];
    }
  }
#pragma unroll
  for (int o = kSlots; o < 32; o *= 2) {
    x += __shfl_xor_sync(~0U, x, o);
    y += __shfl_xor_sync(~0U, y, o);
  }
  return make_float2(x, y);
}

/// What a block's slots give to a query: their exponentials' peak and sum, and what they read.
struct BlockRead {
  float peak, sum, read[kColumns];
};

/// The values are those before the token, of decay a and write w; v: the token's.
__device__ __forceinline__ BlockRead read_slots(const float (&values)[kSlots][kColumns],
                                                const float (&v)[kColumns], float logit, float a,
                                                float w, bool scored) {
  float peak = logit;
#pragma unroll
  for (int o = kSlots / 2; o > 0; o /= 2) peak = fmaxf(peak, __shfl_xor_sync(~0U, peak, o));
  const float p = scored ? __expf(logit - peak) : 0.0F;
  BlockRead r{.peak = peak, .sum = p, .read = {}};
  const float kept = p * a;
#pragma unroll
  for (int j = 0; j < kSlots; ++j) {
    const float share = __shfl_sync(~0U, kept, j);
#pragma unroll
    for (int c = 0; c < kColumns; ++c) r.read[c] = fmaf(share, values[j][c], r.read[c]);
  }
  float written = p * w;
#pragma unroll
  for (int o = kSlots / 2; o > 0; o /= 2) {
    r.sum += __shfl_xor_sync(~0U, r.sum, o);
    written += __shfl_xor_sync(~0U, written, o);
  }
#pragma unroll
  for (int c = 0; c < kColumns; ++c) r.read[c] = fmaf(written, v[c], r.read[c]);
  return r;
}

__device__ __forceinline__ void update_states(
    float (&keys)[kSlots][kColumns], float (&values)[kSlots][kColumns], const float (&k)[kColumns],
    const float (&v)[kColumns], const float (&decay)[kSlots], const float (&write)[kSlots]) {
#pragma unroll
  for (int j = 0; j < kSlots; ++j) {
    const float d = decay[j], s = write[j];
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      keys[j][c] = fmaf(keys[j][c], d, s * k[c]);
      values[j][c] = fmaf(values[j][c], d, s * v[c]);
    }
  }
}

/// All that the warp without states does: gates before the scores are there, outputs after all threads have read.
__device__ __forceinline__ void gates_and_outputs(const SlotMixer& m, const StepShare& s,
                                                  const StepShared& shared, int lane) {
  const int slot = s.first + lane;
  const bool mine = lane < kSlots && slot < m.memory;
  const float bias =
      mine && m.f_bias != nullptr && !m.prepared ? m.f_bias[s.head * m.memory + slot] : 0.0F;
  chain_wait();
  chain_trigger();
  for (int n = 0; n < s.segment.count; ++n) {
    const int turn = n & 1;
    if (lane < kSlots) {
      const float f =
          mine ? row_of(m, s.segment, n)[s.q_all + s.k_all + s.v_all + s.head * m.memory + slot] +
                     bias
               : 0.0F;
      const float g = m.prepared ? f : log_decay(f, m.gate_normalizer, m.gate_log_min);
      shared.decay[turn][lane] = expf(g);
      shared.write[turn][lane] = -expm1f(g);
    }
    __syncthreads();
    if (n == 0) cluster_wait();
    while (!barrier_passed(&shared.arrived[turn], unsigned(n >> 1) & 1U)) {
    }
    if (lane == 0) barrier_expect(&shared.arrived[turn], s.message);
    for (int i = lane * 2; i < s.outputs; i += 64) {
      const int at = s.rank * s.outputs + i, query = at / m.v_dim;
      float2 peak[kMostBlocks], read[kMostBlocks];
      float top = -INFINITY;
#pragma unroll
      for (int b = 0; b < kMostBlocks; ++b) {
        if (b >= s.blocks) continue;
        peak[b] = shared.peaks[turn][b][query];
        read[b] =
            *reinterpret_cast<const float2*>(shared.reads + (turn * s.blocks + b) * s.outputs + i);
        top = fmaxf(top, peak[b].x);
      }
      float x = 0.0F, y = 0.0F, sum = 0.0F;
#pragma unroll
      for (int b = 0; b < kMostBlocks; ++b) {
        if (b >= s.blocks) continue;
        const float share = __expf(peak[b].x - top);
        sum = fmaf(share, peak[b].y, sum);
        x = fmaf(share, read[b].x, x);
        y = fmaf(share, read[b].y, y);
      }
      const float inverse = 1.0F / sum;
      *reinterpret_cast<float2*>(m.out + std::size_t(s.segment.first + n) * (m.heads * m.v_dim) +
                                 std::size_t(s.head) * s.group * m.v_dim + at) =
          make_float2(x * inverse, y * inverse);
    }
  }
}

#endif

__global__ void __launch_bounds__(kMostThreads + 32)
    slot_step_kernel(const __grid_constant__ SlotMixer m, const Segment* segments, int blocks) {
#if __CUDA_ARCH__ >= 900
  __shared__ std::uint64_t arrived[2];
  __shared__ float scores[2][kMostThreads / 32][kSlots + 1];  // of a warp's columns; then k q
  __shared__ __align__(16) float decay[2][kSlots], write[2][kSlots];
  __shared__ __align__(16) float2 peaks[2][kMostBlocks][kMostGroup];  // and sums
  extern __shared__ __align__(16) float reads[];                      // [2][blocks][outputs]
  const int tid = int(threadIdx.x), lane = tid & 31, warp = tid >> 5,
            warps = int(blockDim.x) / 32 - 1;
  const int rank = int(cluster_rank()), head = int(blockIdx.x) / blocks;
  const int group = m.heads / m.kv_heads, outputs = group * m.v_dim / blocks;  // of a block
  const unsigned message = unsigned(group * (m.v_dim + 2 * blocks) * 4);       // to each block
  if (tid == 0) {
    for (auto& b : arrived) barrier_init(&b, 1);
    barrier_publish();
    for (auto& b : arrived) barrier_expect(&b, message);
  }
  __syncwarp();
  cluster_here();

  // Written by earlier launches than this chain.
  const Segment segment = segments[blockIdx.y];
  const int first = rank * kSlots;
  const std::size_t keys_at = m.layer_offset + std::size_t(head) * m.head_floats,
                    values_at = keys_at + std::size_t(m.memory) * m.k_dim;
  const int q_all = m.heads * m.k_dim, k_all = m.kv_heads * m.k_dim, v_all = m.kv_heads * m.v_dim;

  if (warp == warps) {
    gates_and_outputs(
        m, {rank, head, group, blocks, outputs, first, message, q_all, k_all, v_all, segment},
        {arrived, decay, write, peaks, reads}, lane);
    return;
  }

  const int of_query = m.k_dim / kColumns;  // threads
  const int query = tid / of_query, column = tid % of_query * kColumns;
  float keys[kSlots][kColumns] = {}, values[kSlots][kColumns] = {};
#pragma unroll
  for (int j = 0; j < kSlots; ++j) {
    if (first + j < m.memory)
      load(keys[j], segment.state_in + keys_at + std::size_t(first + j) * m.k_dim + column);
  }
#pragma unroll
  for (int j = 0; j < kSlots; ++j) {
    if (first + j < m.memory)
      load(values[j], segment.state_in + values_at + std::size_t(first + j) * m.v_dim + column);
  }
  const int own = lane % kSlots;  // the slot whose score this lane finishes
  const bool scored = first + own < m.memory;
  float bias = 0.0F;
  if (scored && m.head_read_bias != nullptr) bias = m.head_read_bias[head * group + query];
  if (scored && m.read_bias != nullptr) bias += m.read_bias[head * m.memory + first + own];
  // Where this thread's reads go: the block that owns the outputs, and its barrier.
  const int output = query * m.v_dim + column, owner = output / outputs;
  const unsigned to =
      in_block(shared_offset(reads + rank * outputs + output - owner * outputs), owner);
  const unsigned to_arrived = in_block(shared_offset(&arrived[0]), owner);
  const int first_warp = query * (of_query / 32);
  const Act qk_act = m.prepared ? Act::identity : m.qk_act,
            v_act = m.prepared ? Act::identity : m.v_act;
  chain_wait();
  // Not before: blocks that wait on a multiprocessor slow this kernel down by 4 %, and two
  // microseconds are enough for what they do before they wait.
  chain_trigger();

  for (int n = 0; n < segment.count; ++n) {
    const int turn = n & 1;
    const float* row = row_of(m, segment, n);
    float q[kColumns], k[kColumns], v[kColumns];
    load(q, row + std::size_t(head * group + query) * m.k_dim + column);
    load(k, row + q_all + std::size_t(head) * m.k_dim + column);
    load(v, row + q_all + k_all + std::size_t(head) * m.v_dim + column);
    put_scores(scores[turn][warp], keys, qk_act, q, k, lane);
#pragma unroll
    for (int c = 0; c < kColumns; ++c) v[c] = activate(v_act, v[c]);
    __syncthreads();

    const float2 sums = take_scores(scores[turn], first_warp, of_query, own, lane);
    const float a = decay[turn][own], w = write[turn][own];
    const float logit = scored ? fmaf(m.scale, fmaf(a, sums.x, w * sums.y), bias) : -INFINITY;
    const BlockRead r = read_slots(values, v, logit, a, w, scored);
    if (n == 0) cluster_wait();  // every block of the cluster runs
    send(to + unsigned(turn * blocks * outputs * 4), r.read[0], r.read[1],
         to_arrived + unsigned(turn) * 8U);
    if (warp == first_warp && lane < blocks) {
      send(in_block(shared_offset(&peaks[turn][rank][query]), lane), r.peak, r.sum,
           in_block(shared_offset(&arrived[turn]), lane));
    }
    // The states, while the reads travel.
    update_states(keys, values, k, v, decay[turn], write[turn]);
  }
  // Threads of other queries hold the same: they share the work, once all have loaded.
  if (group > 1) sync_some(warps * 32);
#pragma unroll
  for (int j = 0; j < kSlots; ++j) {
    if (first + j >= m.memory || j % group != query) continue;
    store(segment.state_out + keys_at + std::size_t(first + j) * m.k_dim + column, keys[j]);
    store(segment.state_out + values_at + std::size_t(first + j) * m.v_dim + column, values[j]);
  }
#endif
}

/// Blocks a kv head, 0 where the shape does not divide.
int blocks_of(const Launch& l, const SlotMixer& m) {
  if (l.cluster_limit < kMostBlocks || m.sinks + m.window > 0 || m.k_dim != m.v_dim) return 0;
  const int group = m.heads / m.kv_heads;
  int blocks = 2;  // one alone has no cluster to store in
  while (blocks * kSlots < m.memory) blocks *= 2;
  const bool even = reinterpret_cast<std::uintptr_t>(m.inputs) % 8 == 0 &&
                    m.input_stride % 2 == 0 && m.layer_offset % 2 == 0 && m.head_floats % 2 == 0;
  const bool fits = even && blocks <= kMostBlocks && group <= kMostGroup &&
                    m.k_dim % (32 * kColumns) == 0 && m.k_dim <= 32 * kColumns * kWarpsOfQuery &&
                    group * m.k_dim / kColumns <= kMostThreads &&
                    group * m.v_dim % (blocks * kColumns) == 0;
  return fits ? blocks : 0;
}

}  // namespace

bool slot_step_fits(const Launch& l, const SlotMixer& m) { return blocks_of(l, m) > 0; }

cudaError_t slot_step(const Launch& l, const SlotMixer& m, const Segment* segments,
                      int num_segments) {
  const int blocks = blocks_of(l, m), group = m.heads / m.kv_heads;
  if (blocks == 0) return cudaErrorInvalidConfiguration;
  const std::size_t shared = sizeof(float) * 2 * std::size_t(group * m.v_dim);
  return launch(l, slot_step_kernel, dim3(unsigned(blocks * m.kv_heads), unsigned(num_segments)),
                group * m.k_dim / kColumns + 32, shared, blocks, m, segments, blocks);
}

}  // namespace runnel::cuda
