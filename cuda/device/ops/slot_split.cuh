// SPDX-License-Identifier: Apache-2.0
// How the blocks of a cluster divide a slot mixer's head, and what of it lies in shared memory.
#pragma once

#include "cuda/launch.h"

namespace runnel::cuda {

/// How a block divides its columns over lanes; the same on host and device.
struct Split {
  int cluster = 1;  // blocks of a kv head
  int threads = 256;
  int key_columns = 0, value_columns = 0;  // of a block
  int key_lanes = 1, value_lanes = 1;      // lanes that share one slot
  int key_groups = 1, value_groups = 1;    // vectors of a lane in one slot
  int key_items = 1, value_items = 1;      // vectors a thread keeps
  bool vector = false;
  int items() const { return key_items > value_items ? key_items : value_items; }
};

inline int lanes_for(int vectors) {
  int lanes = 1;
  while (lanes < 32 && vectors % (2 * lanes) == 0) lanes *= 2;
  return lanes;
}

inline Split split_for(const Launch& l, const SlotMixer& m) {
  const int slots = m.sinks + m.window + m.memory;
  Split s;
  // Behind a layer of another kind a state may begin anywhere.
  const bool aligned = ((m.layer_offset | m.head_floats) & 3) == 0;
  for (int c = l.cluster_limit; aligned && c > 1; c /= 2) {
    if (m.k_dim % (8 * c) == 0 && m.v_dim % (4 * c) == 0) {
      s.cluster = c;
      break;
    }
  }
  s.vector = aligned && m.k_dim % 8 == 0 && m.v_dim % 4 == 0;
  const int width = s.vector ? 4 : 1;
  s.key_columns = m.k_dim / s.cluster;
  s.value_columns = m.v_dim / s.cluster;
  s.key_lanes = lanes_for(s.key_columns / width);
  s.value_lanes = lanes_for(s.value_columns / width);
  s.key_groups = s.key_columns / width / s.key_lanes;
  s.value_groups = s.value_columns / width / s.value_lanes;
  for (s.threads = 256;; s.threads = 512) {
    const auto items = [&](int lanes, int groups) {
      const int at_once = s.threads / lanes;
      return (slots + at_once - 1) / at_once * groups;
    };
    s.key_items = items(s.key_lanes, s.key_groups);
    s.value_items = items(s.value_lanes, s.value_groups);
    if (s.items() <= 4 || s.threads == 512) break;
  }
  return s;
}

/// Floats of dynamic shared memory, and where each array begins.
struct SharedLayout {
  int queries, key, key_rotated, value, decay, write, sums, partial, probability, reduce, rotation;
  int total;
  __host__ __device__ SharedLayout(const SlotMixer& m, const Split& s) {
    const int group = m.heads / m.kv_heads, slots = m.sinks + m.window + m.memory;
    const bool positional = m.sinks + m.window > 0;
    int at = 0;
    const auto take = [&at](int n) {
      const int here = at;
      at += (n + 3) / 4 * 4;
      return here;
    };
    queries = take((positional ? 3 : 1) * group * s.key_columns);
    key = take(s.key_columns);
    key_rotated = take(s.key_columns);
    value = take(s.value_columns);
    decay = take(m.memory);
    write = take(m.memory);
    sums = take(m.running ? m.memory : 0);
    partial = take(2 * s.cluster * group * slots);
    probability = take(group * slots);
    reduce = take(s.threads / 32 * group * s.value_columns);
    rotation = take(4 * (s.key_columns / 2 + 1));
    total = at;
  }
};

}  // namespace runnel::cuda
