// SPDX-License-Identifier: Apache-2.0
// What the kernels of slots chunk by chunk share: sizes, places in rows, memories and states.
//
// A chunk is up to kChunk consecutive tokens of one item. Projections [T, q | k | v | alpha] after slot_inputs: k and v
// activated, alpha = e^(log alpha). Features [T, rotated k | s]: s = 1 - alpha without cancellation.
// Memories [chunks, H, M*K | M*V], then decays [chunks, H, M]: the product of a chunk's alphas.

layout(constant_id = 1) const uint K = 1;
layout(constant_id = 2) const uint V = 1;
layout(constant_id = 3) const uint MEMORY = 1;
layout(constant_id = 4) const uint SINKS = 0;
layout(constant_id = 5) const uint WINDOW = 0;
layout(constant_id = 6) const uint G = 1;  // query heads of a kv head
layout(constant_id = 7) const uint H = 1;
layout(constant_id = 8) const uint KEY_ACTIVATION = kIdentity;  // also of queries
layout(constant_id = 9) const uint VALUE_ACTIVATION = kIdentity;

const uint kPositional = SINKS + WINDOW;
const uint kSlots = kPositional + MEMORY;
const bool kRotary = kPositional > 0;
const uint kHeadMemory = MEMORY * (K + V);  // floats of a chunk and head
// Rows of f16 operands [T, q | k | v | rotated k | q rotated by t | q rotated by min(t, sink distance)], the last three
// with positional slots. Behind the rows, per item at its first chunk's place, what the state holds of the 64 tokens
// before the item and of the sinks: [80, H, K | V].
const uint kTurnedKeys = (G + 1) * H * K + H * V;
const uint kTurnedQueries = kTurnedKeys + H * K;
const uint kNearQueries = kTurnedQueries + G * H * K;
const uint kOperandStride = (kRotary ? kNearQueries + G * H * K : kTurnedKeys) / 8;  // in uvec4
const uint kWindowStride = H * (K + V) / 8;
const uint kWindowTable = kMostChunkWindow + kMostChunkSinks;  // rows

layout(push_constant) uniform Push { ChunkArgs a; };

uint q_at(uint row, uint query) { return row * a.stride + query * K; }
uint k_at(uint row, uint head) { return row * a.stride + (G * H + head) * K; }
uint v_at(uint row, uint head) { return row * a.stride + (G + 1) * H * K + head * V; }
uint alpha_at(uint row, uint head) { return row * a.stride + (G + 1) * H * K + H * V + head * MEMORY; }
uint turned_at(uint row, uint head) { return row * a.feature_stride + head * K; }
uint written_at(uint row, uint head) { return row * a.feature_stride + (kRotary ? H * K : 0) + head * MEMORY; }
uint memory_at(uint chunk, uint head) { return (chunk * H + head) * kHeadMemory; }
uint decay_at(uint chunk, uint head) { return a.decays + (chunk * H + head) * MEMORY; }
/// A head's keys in a state; its values follow kSlots * K floats later.
uint state_at(uint place, uint head) { return place * a.layer_floats + head * kSlots * (K + V); }

struct Item {
  uint row;  // first of the pass
  uint rows;
  uint place;
  uint bank;
  uint first_chunk;
  uint chunks;
};
Item item_of(uint i) {
  const uint at = a.pass.items + i * kItemWords;
  return Item(pass.word[at], pass.word[at + 1], pass.word[at + 2], pass.word[at + 3], pass.word[at + 4],
              pass.word[at + 5]);
}
