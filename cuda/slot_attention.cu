// SPDX-License-Identifier: Apache-2.0
// The slot recurrence, token by token in f32:
//   memory slots      K~ <- diag(a) K~ + (1-a) k^T,  V~ <- diag(a) V~ + (1-a) v^T,  a = exp(log alpha)
//   positional slots  token t overwrites slot t (sink) or sinks + (t - sinks) mod window with R(t) k, v
//   o = softmax(scale * K~ q + biases) V~    one softmax over all slots; rotary for positional slots
//
// Work split: a cluster of C blocks a (segment, kv head); a block owns K/C columns of K~ (pairs i,
// i + K/2, so that the rotation stays inside) and V/C columns of V~, and keeps both in registers
// over all tokens of the segment. Partial logits are exchanged through distributed shared memory:
// one cluster barrier per token. Bound: the state read and written once, S (K + V) * 8 bytes per head
// and pass; at one token the latency of the chain load -> dot -> exchange -> softmax -> read.
#include <cooperative_groups.h>

#include "cuda/device/launch.cuh"
#include "cuda/device/math.cuh"
#include "cuda/device/ops/slot_split.cuh"
#include "cuda/slot_step.h"

namespace runnel::cuda {
namespace {

template <int kVec>
struct Vector {
  float v[kVec];
};

template <int kVec>
__device__ __forceinline__ Vector<kVec> load_vector(const float* p) {
  Vector<kVec> r;
  if constexpr (kVec == 4) {
    const float4 q = *reinterpret_cast<const float4*>(p);
    r.v[0] = q.x, r.v[1] = q.y, r.v[2] = q.z, r.v[3] = q.w;
  } else {
    r.v[0] = *p;
  }
  return r;
}

template <int kVec>
__device__ __forceinline__ void store_vector(float* p, const Vector<kVec>& r) {
  if constexpr (kVec == 4) {
    *reinterpret_cast<float4*>(p) = make_float4(r.v[0], r.v[1], r.v[2], r.v[3]);
  } else {
    *p = r.v[0];
  }
}

__device__ __forceinline__ unsigned cluster_rank() {
#if __CUDA_ARCH__ >= 900
  unsigned r;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
  return r;
#else
  return 0;
#endif
}

/// The two halves of a barrier of the cluster that orders no writes: a release would be a fence of the whole device.
__device__ __forceinline__ void cluster_arrive(int cluster) {
#if __CUDA_ARCH__ >= 900
  if (cluster > 1) asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#endif
}
__device__ __forceinline__ void cluster_wait(int cluster) {
#if __CUDA_ARCH__ >= 900
  if (cluster > 1) asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
#endif
}

__device__ __forceinline__ void cluster_sync(int cluster) {
#if __CUDA_ARCH__ >= 900
  if (cluster > 1) {
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
    return;
  }
#endif
  __syncthreads();
}

/// Stores to the same address of block `rank` of the cluster.
__device__ __forceinline__ void store_remote(float* local, int rank, float v) {
#if __CUDA_ARCH__ >= 900
  unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(local)), remote;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address), "r"(rank));
  asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(remote), "f"(v) : "memory");
#else
  *local = v;
#endif
}

/// What a block works on.
struct Block {
  int tid, lane, warp, rank, head, group;
  int positional, slots;
  int pairs;         // of this block's columns; an odd K has one block, where columns are 0 … K-1
  int query_floats;  // of all queries
  int value_first;   // column
  bool rotated;
};

/// Its places in shared memory.
struct Places {
  float* queries;  // [variant][group][columns]: plain, by t, by sink distance
  float *key, *key_rotated, *value, *decay, *write, *sums, *probability, *reduce;
  float* rotation;  // cos, sin of t; cos, sin of min(t, sink_distance): 4 floats a pair
};

/// Item i of a thread: slot first + i / groups * step, columns (i % groups * lanes + lane) * kVec.
struct Lanes {
  int key_slot, key_lane, key_step;
  int value_slot, value_lane, value_step;
};

/// Angles are computed in double: the position grows without bound.
template <int kThreads>
__device__ __forceinline__ void fill_rotation(const SlotMixer& m, int rank, int pairs,
                                              float* rotation, std::uint64_t t) {
  for (int i = int(threadIdx.x); i < pairs; i += kThreads) {
    const double f = m.turns[rank * pairs + i];
    const std::uint64_t near =
        t < std::uint64_t(m.sink_distance) ? t : std::uint64_t(m.sink_distance);
    const double a = double(t) * f, b = double(near) * f;
    sincospif(2.0F * float(a - floor(a)), &rotation[4 * i + 1], &rotation[4 * i]);
    sincospif(2.0F * float(b - floor(b)), &rotation[4 * i + 3], &rotation[4 * i + 2]);
  }
}

/// Decays of a token's memory slots, and what they write.
template <int kThreads>
__device__ __forceinline__ void make_gates(const SlotMixer& m, const Block& block,
                                           const Places& places, const float* f, std::uint64_t t) {
  for (int i = block.tid; i < m.memory; i += kThreads) {
    const float bias =
        m.f_bias != nullptr && !m.prepared ? m.f_bias[block.head * m.memory + i] : 0.0F;
    float g;
    if (m.running) {
      float x = f[i] + bias;
      if (m.clamp_min != 0.0F || m.clamp_max != 0.0F) x = fminf(fmaxf(x, m.clamp_min), m.clamp_max);
      g = t == 0 ? kNothing : log_kept(places.sums[i], x);
      places.sums[i] = t == 0 ? x : log_add(places.sums[i], x);
    } else {
      g = m.prepared ? f[i] : log_decay(f[i] + bias, m.gate_normalizer, m.gate_log_min);
    }
    places.decay[i] = expf(g);
    places.write[i] = -expm1f(g);
  }
}

/// A token's key and queries: activated, and rotated where slots are positional.
template <int kThreads, class KeyColumn>
__device__ __forceinline__ void map_inputs(const SlotMixer& m, const Split& s, const Block& block,
                                           const Places& places, const KeyColumn& key_column,
                                           const float* q, const float* k) {
  const Act qk = m.prepared ? Act::identity : m.qk_act;
  if (block.rotated) {
    // Row 0 is the key, rows 1 … group the queries; a thread makes both members of a pair.
    for (int i = block.tid; i < (block.group + 1) * block.pairs; i += kThreads) {
      const int r = i / block.pairs, p = i % block.pairs;
      const float* from = r == 0 ? k : q + std::size_t(r - 1) * m.k_dim;
      const float a = activate(qk, from[block.rank * block.pairs + p]);
      const float b = activate(qk, from[m.k_dim / 2 + block.rank * block.pairs + p]);
      const float4 c = reinterpret_cast<const float4*>(places.rotation)[p];
      const float ra = a * c.x - b * c.y, rb = b * c.x + a * c.y;
      if (m.rotary) {
        float* to = r == 0 ? places.key : places.queries + (r - 1) * s.key_columns;
        to[p] = ra, to[block.pairs + p] = rb;
      } else if (r == 0) {
        places.key[p] = a, places.key[block.pairs + p] = b;
        places.key_rotated[p] = ra, places.key_rotated[block.pairs + p] = rb;
      } else {
        float* to = places.queries + (r - 1) * s.key_columns;
        to[p] = a, to[block.pairs + p] = b;
        to[block.query_floats + p] = ra, to[block.query_floats + block.pairs + p] = rb;
        to[2 * block.query_floats + p] = a * c.z - b * c.w;
        to[2 * block.query_floats + block.pairs + p] = b * c.z + a * c.w;
      }
    }
  } else {
    for (int i = block.tid; i < (block.group + 1) * s.key_columns; i += kThreads) {
      const int r = i / s.key_columns, c = i % s.key_columns;
      if (r == 0) {
        places.key[c] = activate(qk, k[key_column(c)]);
      } else {
        places.queries[(r - 1) * s.key_columns + c] =
            activate(qk, q[std::size_t(r - 1) * m.k_dim + key_column(c)]);
      }
    }
  }
}

/// The positional slot that token t overwrites, -1: none.
__device__ __forceinline__ int target_slot(const SlotMixer& m, std::uint64_t t) {
  return t < std::uint64_t(m.sinks) ? int(t)
         : m.window > 0 ? m.sinks + int((t - std::uint64_t(m.sinks)) % std::uint64_t(m.window))
                        : -1;
}

/// K~ takes in the token: memory slots its key, slot `target` the rotated one.
template <int kItems, int kVec>
__device__ __forceinline__ void update_keys(const Split& s, const Block& block,
                                            const Places& places, const Lanes& lanes,
                                            Vector<kVec> (&keys)[kItems], int target) {
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    const int slot = lanes.key_slot + i / s.key_groups * lanes.key_step;
    const int column = (i % s.key_groups * s.key_lanes + lanes.key_lane) * kVec;
    if (i < s.key_items && slot < block.slots) {
      if (slot >= block.positional) {
        const float a = places.decay[slot - block.positional],
                    w = places.write[slot - block.positional];
#pragma unroll
        for (int c = 0; c < kVec; ++c)
          keys[i].v[c] = fmaf(keys[i].v[c], a, w * places.key[column + c]);
      } else if (slot == target) {
#pragma unroll
        for (int c = 0; c < kVec; ++c) keys[i].v[c] = places.key_rotated[column + c];
      }
    }
  }
}

/// This block's part of all logits, to all blocks of the cluster.
template <int kItems, int kVec>
__device__ __forceinline__ void send_logits(const SlotMixer& m, const Split& s, const Block& block,
                                            const Places& places, const Lanes& lanes,
                                            const Vector<kVec> (&keys)[kItems], float* partial) {
  for (int g = 0; g < block.group; ++g) {
    float acc = 0.0F;
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      if (i >= s.key_items) continue;
      const int slot = lanes.key_slot + i / s.key_groups * lanes.key_step;
      const int column = (i % s.key_groups * s.key_lanes + lanes.key_lane) * kVec;
      if (slot < block.slots) {
        const int variant = slot >= block.positional ? 0 : slot >= m.sinks ? 1 : 2;
        const float* query =
            places.queries + variant * block.query_floats + g * s.key_columns + column;
#pragma unroll
        for (int c = 0; c < kVec; ++c) acc = fmaf(keys[i].v[c], query[c], acc);
      }
      if ((i + 1) % s.key_groups == 0) {  // the slot is complete
        for (int o = s.key_lanes >> 1; o > 0; o >>= 1) acc += __shfl_xor_sync(~0U, acc, o);
        if (slot < block.slots) {
          float* mine = partial + block.rank * block.group * block.slots + g * block.slots + slot;
          // The lanes of the slot share the stores to all blocks.
          for (int other = lanes.key_lane; other < s.cluster; other += s.key_lanes)
            store_remote(mine, other, acc);
        }
        acc = 0.0F;
      }
    }
  }
}

/// V~ likewise.
template <int kItems, int kVec>
__device__ __forceinline__ void update_values(const Split& s, const Block& block,
                                              const Places& places, const Lanes& lanes,
                                              Vector<kVec> (&values)[kItems], int target) {
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    const int slot = lanes.value_slot + i / s.value_groups * lanes.value_step;
    const int column = (i % s.value_groups * s.value_lanes + lanes.value_lane) * kVec;
    if (i < s.value_items && slot < block.slots) {
      if (slot >= block.positional) {
        const float a = places.decay[slot - block.positional],
                    w = places.write[slot - block.positional];
#pragma unroll
        for (int c = 0; c < kVec; ++c)
          values[i].v[c] = fmaf(values[i].v[c], a, w * places.value[column + c]);
      } else if (slot == target) {
#pragma unroll
        for (int c = 0; c < kVec; ++c) values[i].v[c] = places.value[column + c];
      }
    }
  }
}

/// The softmax over all slots, of the sums of all blocks' parts; a warp a query.
template <int kThreads>
__device__ __forceinline__ void make_probabilities(const SlotMixer& m, const Split& s,
                                                   const Block& block, const Places& places,
                                                   const float* partial, std::uint64_t t) {
  for (int g = block.warp; g < block.group; g += kThreads / 32) {
    const float head_bias =
        m.head_read_bias != nullptr ? m.head_read_bias[block.head * block.group + g] : 0.0F;
    float peak = -INFINITY;
    for (int slot = block.lane; slot < block.slots; slot += 32) {
      float logit = 0.0F;
      for (int c = 0; c < s.cluster; ++c)
        logit += partial[(c * block.group + g) * block.slots + slot];
      logit *= m.scale;
      if (slot >= block.positional) {
        logit += head_bias;
        if (m.read_bias != nullptr)
          logit += m.read_bias[block.head * m.memory + slot - block.positional];
      } else if (std::uint64_t(slot) > t) {
        logit = -INFINITY;  // not written yet
      }
      places.probability[g * block.slots + slot] = logit;
      peak = fmaxf(peak, logit);
    }
    peak = warp_max(peak);
    float sum = 0.0F;
    for (int slot = block.lane; slot < block.slots; slot += 32) {
      const float p = __expf(places.probability[g * block.slots + slot] - peak);
      places.probability[g * block.slots + slot] = p;
      sum += p;
    }
    sum = warp_sum(sum);
    const float inverse = 1.0F / sum;
    for (int slot = block.lane; slot < block.slots; slot += 32)
      places.probability[g * block.slots + slot] *= inverse;
  }
}

/// Each warp's part of the read of query g.
template <int kItems, int kVec>
__device__ __forceinline__ void read_values(const Split& s, const Block& block,
                                            const Places& places, const Lanes& lanes,
                                            const Vector<kVec> (&values)[kItems], int g) {
  for (int j = 0; j < s.value_groups; ++j) {
    Vector<kVec> acc;
#pragma unroll
    for (int c = 0; c < kVec; ++c) acc.v[c] = 0.0F;
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const int slot = lanes.value_slot + i / s.value_groups * lanes.value_step;
      if (i < s.value_items && i % s.value_groups == j && slot < block.slots) {
        const float p = places.probability[g * block.slots + slot];
#pragma unroll
        for (int c = 0; c < kVec; ++c) acc.v[c] = fmaf(p, values[i].v[c], acc.v[c]);
      }
    }
    for (int o = s.value_lanes; o < 32; o <<= 1) {
#pragma unroll
      for (int c = 0; c < kVec; ++c) acc.v[c] += __shfl_xor_sync(~0U, acc.v[c], o);
    }
    if (block.lane < s.value_lanes) {
      float* to = places.reduce + (block.warp * block.group + g) * s.value_columns +
                  (j * s.value_lanes + lanes.value_lane) * kVec;
#pragma unroll
      for (int c = 0; c < kVec; ++c) to[c] = acc.v[c];
    }
  }
}

/// Adds up the warps' parts.
template <int kThreads>
__device__ __forceinline__ void put_outputs(const SlotMixer& m, const Split& s, const Block& block,
                                            const Places& places, const Segment& segment, int n) {
  for (int i = block.tid; i < block.group * s.value_columns; i += kThreads) {
    const int g = i / s.value_columns, c = i % s.value_columns;
    float sum = 0.0F;
    for (int w = 0; w < kThreads / 32; ++w)
      sum += places.reduce[(w * block.group + g) * s.value_columns + c];
    m.out[std::size_t(segment.first + n) * (m.heads * m.v_dim) +
          std::size_t(block.head * block.group + g) * m.v_dim + block.value_first + c] = sum;
  }
}

template <int kItems, int kVec, class KeyColumn>
__device__ __forceinline__ void store_keys(const SlotMixer& m, const Split& s, const Block& block,
                                           const Lanes& lanes, const Vector<kVec> (&keys)[kItems],
                                           const KeyColumn& key_column, float* keys_out) {
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    const int slot = lanes.key_slot + i / s.key_groups * lanes.key_step;
    const int column = (i % s.key_groups * s.key_lanes + lanes.key_lane) * kVec;
    if (i < s.key_items && slot < block.slots) {
      store_vector<kVec>(keys_out + std::size_t(slot) * m.k_dim + key_column(column), keys[i]);
    }
  }
}

template <int kItems, int kVec>
__device__ __forceinline__ void store_values(const SlotMixer& m, const Split& s, const Block& block,
                                             const Lanes& lanes,
                                             const Vector<kVec> (&values)[kItems],
                                             float* values_out) {
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    const int slot = lanes.value_slot + i / s.value_groups * lanes.value_step;
    const int column = (i % s.value_groups * s.value_lanes + lanes.value_lane) * kVec;
    if (i < s.value_items && slot < block.slots) {
      store_vector<kVec>(values_out + std::size_t(slot) * m.v_dim + block.value_first + column,
                         values[i]);
    }
  }
}

template <int kItems, int kVec, int kThreads>
__global__ void __launch_bounds__(kThreads)
    slot_recurrent_kernel(const __grid_constant__ SlotMixer m, const __grid_constant__ Split s,
                          const Segment* segments) {
  extern __shared__ __align__(16) float shared[];
  chain_trigger();
  // A block's shared memory may be written only once that block runs; see the wait below.
  cluster_arrive(s.cluster);
  const SharedLayout at(m, s);
  const int tid = int(threadIdx.x), lane = tid & 31, warp = tid >> 5;
  const int rank = s.cluster > 1 ? int(cluster_rank()) : 0;
  const int head = int(blockIdx.x) / s.cluster;
  const int group = m.heads / m.kv_heads, positional = m.sinks + m.window,
            slots = positional + m.memory;
  const int pairs = s.key_columns / 2;
  const auto key_column = [&](int c) {
    return c < pairs ? rank * pairs + c : m.k_dim / 2 + rank * pairs + (c - pairs);
  };
  const int value_first = rank * s.value_columns;

  // The segment table and the state were written by earlier launches than this chain: no need to wait for it.
  const Segment segment = segments[blockIdx.y];
  const std::size_t offset = m.layer_offset + std::size_t(head) * m.head_floats;
  const float* keys_in = segment.state_in + offset;
  const float* values_in = keys_in + std::size_t(slots) * m.k_dim;
  float* keys_out = segment.state_out + offset;
  float* values_out = keys_out + std::size_t(slots) * m.k_dim;

  const int key_slot = tid / s.key_lanes, key_lane = tid % s.key_lanes,
            key_step = kThreads / s.key_lanes;
  const int value_slot = tid / s.value_lanes, value_lane = tid % s.value_lanes,
            value_step = kThreads / s.value_lanes;
  Vector<kVec> keys[kItems], values[kItems];
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    const int slot = key_slot + i / s.key_groups * key_step;
    const int column = (i % s.key_groups * s.key_lanes + key_lane) * kVec;
    if (i < s.key_items && slot < slots) {
      keys[i] = load_vector<kVec>(keys_in + std::size_t(slot) * m.k_dim + key_column(column));
    }
  }
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    const int slot = value_slot + i / s.value_groups * value_step;
    const int column = (i % s.value_groups * s.value_lanes + value_lane) * kVec;
    if (i < s.value_items && slot < slots) {
      values[i] = load_vector<kVec>(values_in + std::size_t(slot) * m.v_dim + value_first + column);
    }
  }
  float* rotation = shared + at.rotation;
  const bool rotated = positional > 0 || m.rotary;
  if (rotated) fill_rotation<kThreads>(m, rank, pairs, rotation, segment.position);
  float* sums = shared + at.sums;
  if (m.running) {
    for (int i = tid; i < m.memory; i += kThreads) sums[i] = segment.state_in[offset + m.sums + i];
  }
  chain_wait();

  float* queries = shared + at.queries;
  float* key = shared + at.key;
  float* key_rotated = shared + at.key_rotated;
  float* value = shared + at.value;
  float* decay = shared + at.decay;
  float* write = shared + at.write;
  float* probability = shared + at.probability;
  float* reduce = shared + at.reduce;
  const int query_floats = group * s.key_columns;
  // For functions; with these names here as well the compiler makes other instructions.
  const Block block{tid,        lane,  warp,  rank,         head,        group,
                    positional, slots, pairs, query_floats, value_first, rotated};
  const Places places{queries, key,  key_rotated, value,  decay,
                      write,   sums, probability, reduce, rotation};
  const Lanes lanes{key_slot, key_lane, key_step, value_slot, value_lane, value_step};

  for (int n = 0; n < segment.count; ++n) {
    const std::uint64_t t = segment.position + std::uint64_t(n);
    const float* row = m.inputs + std::size_t(segment.first + n) * m.input_stride;
    const float* q = row + std::size_t(head) * group * m.k_dim;
    const float* k = row + std::size_t(m.heads) * m.k_dim + std::size_t(head) * m.k_dim;
    const float* v =
        row + std::size_t(m.heads + m.kv_heads) * m.k_dim + std::size_t(head) * m.v_dim;
    const float* f = row + std::size_t(m.heads + m.kv_heads) * m.k_dim +
                     std::size_t(m.kv_heads) * m.v_dim + std::size_t(head) * m.memory;
    if (n > 0 && rotated) {
      fill_rotation<kThreads>(m, rank, pairs, rotation, t);
      __syncthreads();
    } else if (rotated) {
      __syncthreads();
    }
    map_inputs<kThreads>(m, s, block, places, key_column, q, k);
    for (int i = tid; i < s.value_columns; i += kThreads)
      value[i] = activate(m.prepared ? Act::identity : m.v_act, v[value_first + i]);
    make_gates<kThreads>(m, block, places, f, t);
    __syncthreads();

    const int target = target_slot(m, t);
    float* partial = shared + at.partial + (n & 1) * s.cluster * group * slots;
    update_keys(s, block, places, lanes, keys, target);
    if (n == 0) cluster_wait(s.cluster);  // every block of the cluster has begun
    send_logits(m, s, block, places, lanes, keys, partial);
    // V~ does not depend on the softmax: update it while partial logits travel.
    update_values(s, block, places, lanes, values, target);
    cluster_sync(s.cluster);

    make_probabilities<kThreads>(m, s, block, places, partial, t);
    __syncthreads();

    for (int g = 0; g < group; ++g) read_values(s, block, places, lanes, values, g);
    __syncthreads();
    put_outputs<kThreads>(m, s, block, places, segment, n);
  }

  if (m.running && rank == 0) {  // the cluster has read it: a token is past a barrier of it
    for (int i = tid; i < m.memory; i += kThreads) segment.state_out[offset + m.sums + i] = sums[i];
  }
  store_keys(m, s, block, lanes, keys, key_column, keys_out);
  store_values(m, s, block, lanes, values, values_out);
}

using Kernel = void (*)(SlotMixer, Split, const Segment*);

Kernel pick(const Split& s) {
  const int items = s.items();
  if (s.vector && s.threads == 256) {
    if (items <= 1) return slot_recurrent_kernel<1, 4, 256>;
    if (items <= 2) return slot_recurrent_kernel<2, 4, 256>;
    return slot_recurrent_kernel<4, 4, 256>;
  }
  if (s.vector) {
    if (items <= 4) return slot_recurrent_kernel<4, 4, 512>;
    if (items <= 8) return slot_recurrent_kernel<8, 4, 512>;
    if (items <= 32) return slot_recurrent_kernel<32, 4, 512>;
    return nullptr;
  }
  if (s.threads == 256) return slot_recurrent_kernel<4, 1, 256>;
  if (items <= 32) return slot_recurrent_kernel<32, 1, 512>;
  return nullptr;
}

cudaError_t start(const Launch& l, const SlotMixer& m, const Segment* segments, int num_segments) {
  const Split s = split_for(l, m);
  const Kernel kernel = pick(s);
  if (kernel == nullptr) return cudaErrorInvalidConfiguration;
  const std::size_t shared = sizeof(float) * std::size_t(SharedLayout(m, s).total);
  if (shared > 48 * 1024) {
    if (cudaError_t e =
            cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                 cudaFuncAttributeMaxDynamicSharedMemorySize, int(shared));
        e != cudaSuccess) {
      return e;
    }
  }
  return launch(l, kernel, dim3(unsigned(s.cluster * m.kv_heads), unsigned(num_segments)),
                s.threads, shared, s.cluster, m, s, segments);
}

}  // namespace

bool slot_recurrent_fits(const Launch& l, const SlotMixer& m) {
  return slot_step_fits(l, m) || pick(split_for(l, m)) != nullptr;
}

cudaError_t slot_recurrent(const Launch& l, const SlotMixer& m, const Segment* segments,
                           int num_segments) {
  if (slot_step_fits(l, m)) return slot_step(l, m, segments, num_segments);
  return start(l, m, segments, num_segments);
}

bool slot_running_fits(const Launch& l, const SlotMixer& m) {
  return pick(split_for(l, m)) != nullptr;
}

cudaError_t slot_running(const Launch& l, const SlotMixer& m, const Segment* segments,
                         int num_segments) {
  return start(l, m, segments, num_segments);
}

}  // namespace runnel::cuda
