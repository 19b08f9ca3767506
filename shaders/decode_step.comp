#version 460
// SPDX-License-Identifier: Apache-2.0
// All layers of one token of one session in one dispatch: workgroups stay and hand each other activations through the
// device's memory. Only where as many workgroups as are started certainly run at the same time (decode_step.h).
//
// Exchange: every activation has a place of its own in each layer, and the lowest bit of its float says whether it is
// this token's (TAG alternates from token to token). Who sees the bit has the value: no barrier across workgroups, no
// order between places. Who waits too long gives up for good and reports it; nothing hangs.
//
// Six exchanges a layer:
//   q k v f = W RMSNorm(x)          rows over all subgroups of all workgroups
//   logits of PARTS shares of the slots of a kv head, keys advanced      H * PARTS workgroups
//   softmax over all slots, PARTS shares of the value columns, advanced  the same workgroups
//   x += W_o act(o);   h = swiglu(W RMSNorm(x));   x += W_down h
// Each product loads its first weights before it waits for its input. All sums are f32 in a fixed order.
// Grid: (workgroups). Bound: latency of six exchanges a layer; bytes of W for a large model.
#define RUNNEL_OWN_WORKGROUP
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_memory_scope_semantics : enable
#include "common.glsl"
#include "weights.glsl"
#define PASS_BINDING 4
#include "pass.glsl"

layout(local_size_x_id = 2) in;
layout(set = 0, binding = 1) volatile coherent buffer Act { uint v[]; } act;
layout(set = 0, binding = 1) volatile coherent buffer Act4 { uvec4 v[]; } act4;
layout(set = 0, binding = 2) readonly buffer Vectors { float v[]; } vectors;
layout(set = 0, binding = 3) readonly buffer Table { uint v[]; } table;  // StepLayer of each layer
layout(set = 0, binding = 5) buffer State { float v[]; } state;  // a bank: [layers, places, layer_floats]
layout(set = 0, binding = 5) buffer State4 { vec4 v[]; } state4;
layout(set = 0, binding = 6) buffer Stream { float v[]; } stream;  // x [D], in and out
layout(push_constant) uniform Push { StepArgs a; };

layout(constant_id = 2) const uint THREADS = 512;
layout(constant_id = 3) const uint D = 32;
layout(constant_id = 4) const uint INNER = 32;
layout(constant_id = 5) const uint K = 4;
layout(constant_id = 6) const uint V = 4;
layout(constant_id = 7) const uint MEMORY = 1;
layout(constant_id = 8) const uint SINKS = 0;
layout(constant_id = 9) const uint WINDOW = 0;
layout(constant_id = 10) const uint G = 1;
layout(constant_id = 11) const uint H = 1;
layout(constant_id = 12) const uint PARTS = 1;
layout(constant_id = 13) const uint WIDEST = 32;  // of the inputs of products
layout(constant_id = 14) const uint KEY_ACTIVATION = kIdentity;
layout(constant_id = 15) const uint VALUE_ACTIVATION = kIdentity;
layout(constant_id = 16) const uint OUT_ACTIVATION = kIdentity;
layout(constant_id = 17) const uint OUT_NORM = 0;
layout(constant_id = 18) const uint CHUNK = 2;  // loads of a row under way in a lane

layout(constant_id = 19) const uint IN_TURNS = 0;  // a software driver runs a workgroup's subgroups barrier by barrier

const uint kLanes = kSubgroup;
const uint kWarps = THREADS / kLanes;
const uint kSlots = SINKS + WINDOW + MEMORY;
const uint kPositional = SINKS + WINDOW;
const bool kRotary = kPositional > 0;
const uint kProjected = G * H * K + H * K + H * V + H * MEMORY;  // columns q k v f
const uint kOut = G * H * V;

// Places of a layer's activations, in words; each a multiple of 4.
const uint kAtProjected = 0;
const uint kAtLogits = (kProjected + 3) / 4 * 4;  // [HQ, S]
const uint kAtOut = kAtLogits + (G * H * kSlots + 3) / 4 * 4;
const uint kAtMiddle = kAtOut + kOut;  // x after the slots
const uint kAtHidden = kAtMiddle + D;
const uint kAtX = kAtHidden + INNER;
const uint kLayerPlaces = kAtX + D;

#ifdef RUNNEL_BLOCKS
#define RAW RawBlock
#define LOAD_AT(PART, INDEX) load_block(PART, INDEX)
#define UNIT_OF(RAW_, U) unit_of(RAW_, U)
const uint kUnits = 4;  // of a load
#else
#define RAW Raw
#define LOAD_AT(PART, INDEX) load_raw(PART, 0, INDEX)
#define UNIT_OF(RAW_, U) RAW_
const uint kUnits = 1;
#endif
const uint kWidth = 8 * kUnits;
const uint kVectors = (WIDEST / 4 + THREADS - 1) / THREADS;  // of a product's input in a thread

// The input of a product, so that lanes side by side meet on no bank (matvec.comp).
shared vec4 prepared[WIDEST / 4 + WIDEST / 32 + 1];
uint place(uint i) { return kUnits == 4 ? i + i / 8 : i % 2 * (WIDEST / 8) + i / 2; }
shared float residual[D];
shared float warp_values[kWarps];

const uint kVariants = kRotary ? 3 : 1;
shared float queries[kVariants * G * K];
shared float keys[(kRotary ? 2 : 1) * K];
shared float alpha[MEMORY];
shared float gate[MEMORY];
shared float p[G * kSlots];
const uint kColumns = V / PARTS;  // of a part
shared float values[kColumns];
const uint kRowGroups = THREADS / kColumns;  // of threads over the slots
const uint kPartials = kColumns < kLanes ? kWarps : kRowGroups;
shared float partial[kPartials * G * kColumns];

uint tag = 0;
int patience = 0;

bool is_here(uint v) { return ((v ^ tag) & 1) == 0 || patience < 0; }
float wait_for(uint at) {
  uint v = act.v[at];
  while (!is_here(v)) {
    --patience;
    v = act.v[at];
  }
  return uintBitsToFloat(v);
}
vec4 wait_for4(uint at4) {
  uvec4 v = act4.v[at4];
  while ((((v.x ^ tag) | (v.y ^ tag) | (v.z ^ tag) | (v.w ^ tag)) & 1) != 0 && patience >= 0) {
    --patience;
    v = act4.v[at4];
  }
  return uintBitsToFloat(v);
}
void publish(uint at, float v) { act.v[at] = (floatBitsToUint(v) & 0xFFFFFFFEu) | tag; }

float lanes_sum(float v) {
  [[unroll]] for (uint i = kLanes / 2; i > 0; i /= 2) v += subgroupShuffleXor(v, i);
  return v;
}
float lanes_max(float v) {
  [[unroll]] for (uint i = kLanes / 2; i > 0; i /= 2) v = max(v, subgroupShuffleXor(v, i));
  return v;
}

/// Puts `columns` floats (a multiple of 4) at word `from` into `prepared`, weighted by a norm's weights where it has
/// any; or this token's x where `from` is kNone. Returns what sums are multiplied with.
float prepare(uint from, uint columns, uint activation, bool normalise, uint weights_at, float eps, bool keep) {
  vec4 input_[kVectors], weight[kVectors];
  [[unroll]] for (uint i = 0; i < kVectors; ++i) {
    const uint c = 4 * (THREAD + i * THREADS);
    weight[i] = vec4(1.0);
    if (weights_at != kNone && c < columns)
      weight[i] = vec4(vectors.v[weights_at + c], vectors.v[weights_at + c + 1], vectors.v[weights_at + c + 2],
                       vectors.v[weights_at + c + 3]);
  }
  if (IN_TURNS != 0) barrier();  // before any wait for what this workgroup writes
  [[unroll]] for (uint i = 0; i < kVectors; ++i) {
    const uint c = 4 * (THREAD + i * THREADS);
    input_[i] = vec4(0.0);
    if (c >= columns) continue;
    input_[i] = from == kNone ? vec4(stream.v[c], stream.v[c + 1], stream.v[c + 2], stream.v[c + 3])
                              : wait_for4((from + c) / 4);
  }
  barrier();  // nobody reads the last input any more
  precise float squares = 0.0;
  [[unroll]] for (uint i = 0; i < kVectors; ++i) {
    const uint c = 4 * (THREAD + i * THREADS);
    if (c >= columns) continue;
    vec4 v = input_[i];
    if (activation != kIdentity) {
      [[unroll]] for (uint e = 0; e < 4; ++e) v[e] = activate(activation, v[e]);
    }
    [[unroll]] for (uint e = 0; e < 4; ++e) squares = fma(v[e], v[e], squares);
    if (keep) {
      [[unroll]] for (uint e = 0; e < 4; ++e) residual[c + e] = v[e];
    }
    prepared[place(c / 4)] = v * weight[i];
  }
  if (!normalise) {
    barrier();
    return 1.0;
  }
  squares = lanes_sum(squares);
  if (THREAD % kLanes == 0) warp_values[THREAD / kLanes] = squares;
  barrier();
  precise float sum = 0.0;
  for (uint i = 0; i < kWarps; ++i) sum += warp_values[i];
  return 1.0 / sqrt(sum / float(columns) + eps);
}

float unit_sum(Unit u, vec4 low, vec4 high) {
  precise float s = u.low.x * low.x;
  s = fma(u.low.y, low.y, s);
  s = fma(u.low.z, low.z, s);
  s = fma(u.low.w, low.w, s);
  s = fma(u.high.x, high.x, s);
  s = fma(u.high.y, high.y, s);
  s = fma(u.high.z, high.z, s);
  s = fma(u.high.w, high.w, s);
  return s;
}

/// The columns of the gates where they are of a 16-bit type of their own: rows to the last subgroups.
float plain_row(uint at, uint columns, uint type) {
  precise float sum = 0.0;
  const uint lane = THREAD % kLanes;
  for (uint u = lane; u < columns / 8; u += kLanes) {
    const uvec4 w = weights4.w[at + u];
    vec4 low, high;
    if (type == kStepF16) {
      low = vec4(unpackHalf2x16(w.x), unpackHalf2x16(w.y));
      high = vec4(unpackHalf2x16(w.z), unpackHalf2x16(w.w));
    } else {
      low = uintBitsToFloat(uvec4(w.x << 16, w.x & 0xFFFF0000u, w.y << 16, w.y & 0xFFFF0000u));
      high = uintBitsToFloat(uvec4(w.z << 16, w.z & 0xFFFF0000u, w.w << 16, w.w & 0xFFFF0000u));
    }
    sum += dot(low, prepared[place(2 * u)]) + dot(high, prepared[place(2 * u + 1)]);
  }
  return lanes_sum(sum);
}

uint in_table(uint layer, uint which) { return table.v[layer * kStepLayerWords + which]; }

float slot_logit(uint slot, uint head, uint g, float dot_, uint read_bias, uint head_read_bias) {
  float logit = a.scale * dot_;
  if (slot >= kPositional) {
    if (read_bias != kNone) logit += vectors.v[read_bias + head * MEMORY + slot - kPositional];
    if (head_read_bias != kNone) logit += vectors.v[head_read_bias + head * G + g];
  }
  return logit;
}

const uint kShare = (kSlots + PARTS - 1) / PARTS;  // slots of a part
const uint kKeyRounds = (kShare + kWarps - 1) / kWarps;
const uint kKeyVectors = (K / 4 + kLanes - 1) / kLanes;
const uint kValueRounds = (kSlots + kRowGroups - 1) / kRowGroups;

/// The slots of kv head `head`: this workgroup's share of them, then its share of the value columns.
void slots(uint layer, uint base, uint head, uint part) {
  const uint warp = THREAD / kLanes, lane = THREAD % kLanes;
  const uint k_state =
      layer * a.layer_stride + pass.word[a.pass.items + 2] * a.layer_floats + head * kSlots * (K + V);
  const uint v_state = k_state + kSlots * K;
  const uint column = THREAD % kColumns, group = THREAD / kColumns;
  const uint slot0 = part * kShare;
  const uint share = slot0 < kSlots ? min(kShare, kSlots - slot0) : 0;
  vec4 key[kKeyRounds][kKeyVectors];
  float value[kValueRounds];
  [[unroll]] for (uint i = 0; i < kKeyRounds; ++i) {
    [[unroll]] for (uint e = 0; e < kKeyVectors; ++e) {
      const uint c = lane + e * kLanes, slot = warp + i * kWarps;
      key[i][e] = slot < share && c < K / 4 ? state4.v[(k_state + (slot0 + slot) * K) / 4 + c] : vec4(0.0);
    }
  }
  [[unroll]] for (uint i = 0; i < kValueRounds; ++i) {
    const uint slot = group + i * kRowGroups;
    value[i] = slot < kSlots ? state.v[v_state + slot * V + part * kColumns + column] : 0.0;
  }
  const uint written = token_word(0, 1), used_sinks = token_word(0, 2), used_window = token_word(0, 3);
  const uint f_bias = in_table(layer, kStepFBias), read_bias = in_table(layer, kStepReadBias),
             head_read_bias = in_table(layer, kStepHeadReadBias);

  if (IN_TURNS != 0) barrier();
  const uint q0 = base + kAtProjected + head * G * K, k0 = base + kAtProjected + G * H * K + head * K;
  if (kRotary) {
    const uint half_k = K / 2;
    for (uint i = THREAD; i < (G + 1) * half_k; i += THREADS) {
      const uint g = i / half_k, c = i % half_k;
      const uint rotation = a.pass.rotations + c * 4;
      const float cos_t = uintBitsToFloat(pass.word[rotation]), sin_t = uintBitsToFloat(pass.word[rotation + 1]);
      const float cos_s = uintBitsToFloat(pass.word[rotation + 2]), sin_s = uintBitsToFloat(pass.word[rotation + 3]);
      const uint from = (g < G ? q0 + g * K : k0) + c;
      const float x = activate(KEY_ACTIVATION, wait_for(from));
      const float z = activate(KEY_ACTIVATION, wait_for(from + half_k));
      if (g < G) {
        const uint to = g * K + c;
        queries[to] = x;
        queries[to + half_k] = z;
        queries[G * K + to] = x * cos_t - z * sin_t;
        queries[G * K + to + half_k] = z * cos_t + x * sin_t;
        queries[2 * G * K + to] = x * cos_s - z * sin_s;
        queries[2 * G * K + to + half_k] = z * cos_s + x * sin_s;
      } else {
        keys[c] = x;
        keys[c + half_k] = z;
        keys[K + c] = x * cos_t - z * sin_t;
        keys[K + c + half_k] = z * cos_t + x * sin_t;
      }
    }
  } else {
    for (uint i = THREAD; i < G * K; i += THREADS) queries[i] = activate(KEY_ACTIVATION, wait_for(q0 + i));
    for (uint i = THREAD; i < K; i += THREADS) keys[i] = activate(KEY_ACTIVATION, wait_for(k0 + i));
  }
  const uint v0 = base + kAtProjected + (G + 1) * H * K + head * V + part * kColumns;
  const uint f0 = base + kAtProjected + (G + 1) * H * K + H * V + head * MEMORY;
  // From the last threads on: the first are at work on the keys.
  for (uint i = THREADS - 1 - THREAD; i < MEMORY; i += THREADS) {
    float f = wait_for(f0 + i);
    if (f_bias != kNone) f += vectors.v[f_bias + head * MEMORY + i];
    float log_alpha = log_sigmoid(f) / a.gate_normalizer;
    if (a.gate_log_min < 0.0) log_alpha = max(log_alpha, a.gate_log_min);
    alpha[i] = exact_exp(log_alpha);
    gate[i] = -exact_expm1(log_alpha);
  }
  for (uint i = THREADS - 1 - THREAD; i < kColumns; i += THREADS) values[i] = activate(VALUE_ACTIVATION, wait_for(v0 + i));
  barrier();

  [[unroll]] for (uint i = 0; i < kKeyRounds; ++i) {
    const uint local = warp + i * kWarps;
    if (local >= share) continue;  // all lanes alike
    const uint slot = slot0 + local;
    const bool positional = slot < kPositional;
    const bool changes = positional ? slot == written : true;
    const bool used = positional ? (slot < SINKS ? slot < used_sinks : slot - SINKS < used_window) : true;
    const uint variant = kRotary && positional ? (slot < SINKS ? 2 : 1) : 0;
    const uint m = positional ? 0 : slot - kPositional;
    [[unroll]] for (uint e = 0; e < kKeyVectors; ++e) {
      const uint c = lane + e * kLanes;
      if (c >= K / 4 || !changes) continue;
      [[unroll]] for (uint x = 0; x < 4; ++x) {
        if (positional) {
          if (kRotary) key[i][e][x] = keys[K + 4 * c + x];
        } else {
          key[i][e][x] = fma(alpha[m], key[i][e][x], gate[m] * keys[4 * c + x]);
        }
      }
      state4.v[(k_state + slot * K) / 4 + c] = key[i][e];
    }
    for (uint g = 0; g < G; ++g) {
      precise float sum = 0.0;
      [[unroll]] for (uint e = 0; e < kKeyVectors; ++e) {
        const uint c = lane + e * kLanes;
        if (c >= K / 4) continue;
        [[unroll]] for (uint x = 0; x < 4; ++x) sum = fma(key[i][e][x], queries[(variant * G + g) * K + 4 * c + x], sum);
      }
      sum = lanes_sum(sum);
      if (lane == 0)
        publish(base + kAtLogits + (head * G + g) * kSlots + slot,
                used ? slot_logit(slot, head, g, sum, read_bias, head_read_bias) : -1e30);
    }
  }

  // Values while the logits travel.
  [[unroll]] for (uint i = 0; i < kValueRounds; ++i) {
    const uint slot = group + i * kRowGroups;
    if (slot >= kSlots || group >= kRowGroups) continue;
    const bool positional = slot < kPositional;
    if (positional && slot != written) continue;
    const uint m = positional ? 0 : slot - kPositional;
    value[i] = positional ? values[column] : fma(alpha[m], value[i], gate[m] * values[column]);
    state.v[v_state + slot * V + part * kColumns + column] = value[i];
  }
  if (IN_TURNS != 0) barrier();
  for (uint g = warp; g < G; g += kWarps) {
    float largest = -1e30;
    for (uint s = lane; s < kSlots; s += kLanes) {
      const float logit = wait_for(base + kAtLogits + (head * G + g) * kSlots + s);
      p[g * kSlots + s] = logit;
      largest = max(largest, logit);
    }
    largest = lanes_max(largest);
    precise float sum = 0.0;
    for (uint s = lane; s < kSlots; s += kLanes) {
      const float logit = p[g * kSlots + s];
      const float weight = logit > -1e29 ? exact_exp(logit - largest) : 0.0;
      p[g * kSlots + s] = weight;
      sum += weight;
    }
    sum = lanes_sum(sum);
    for (uint s = lane; s < kSlots; s += kLanes) p[g * kSlots + s] /= sum;
  }
  barrier();
  for (uint g = 0; g < G; ++g) {
    precise float sum = 0.0;
    [[unroll]] for (uint i = 0; i < kValueRounds; ++i) {
      const uint slot = group + i * kRowGroups;
      if (slot < kSlots) sum = fma(p[g * kSlots + slot], value[i], sum);
    }
    if (kColumns < kLanes) {
      [[unroll]] for (uint i = kColumns; i < kLanes; i *= 2) sum += subgroupShuffleXor(sum, i);
      if (lane < kColumns) partial[(warp * G + g) * kColumns + lane] = sum;
    } else {
      partial[(group * G + g) * kColumns + column] = sum;
    }
  }
  barrier();
  for (uint i = THREAD; i < G * kColumns; i += THREADS) {
    precise float sum = 0.0;
    for (uint n = 0; n < kPartials; ++n) sum += partial[n * G * kColumns + i];
    publish(base + kAtOut + (head * G + i / kColumns) * V + part * kColumns + i % kColumns, sum);
  }
}

void main() {
  const uint workgroups = gl_NumWorkGroups.x, me = gl_WorkGroupID.x;
  const uint warp = THREAD / kLanes, lane = THREAD % kLanes;
  tag = pass.word[kPassTag];
  patience = a.patience;

  for (uint layer = 0; layer < a.layers; ++layer) {
    const uint base = layer * kLayerPlaces;
    // One body for all products: code that is met once a layer comes from far.
    for (uint stage = 0; stage < 4; ++stage) {
      if (stage == 1) {
        // More than one only where a part is a whole head.
        for (uint task = me; task < H * PARTS; task += workgroups) {
          if (task != me) barrier();
          slots(layer, base, task / PARTS, task % PARTS);
        }
      }
      const uint entry = kStepMatrices + stage * kStepMatrixWords;
      const MatrixPart w = MatrixPart(0, in_table(layer, entry + 1), in_table(layer, entry + 2), in_table(layer, entry + 3));
      const uint first_load = in_table(layer, entry);
      const uint columns = stage == 1 ? kOut : stage == 3 ? INNER : D;
      const uint loads = columns / kWidth;  // of a row
      const uint chunks = (loads + CHUNK * kLanes - 1) / (CHUNK * kLanes);
      // Pairs of rows of this workgroup, a contiguous run; its subgroups take turns.
      const uint pairs = (w.rows + 1) / 2;
      const uint begin = pairs * me / workgroups, end = pairs * (me + 1) / workgroups;
      const uint own = end - begin > warp ? (end - begin - warp + kWarps - 1) / kWarps : 0;

      RAW next[CHUNK][2];
#define LOAD_CHUNK(N)                                                                                     \
  {                                                                                                       \
    const uint row = 2 * (begin + warp + (N) / chunks * kWarps), skip = (N) % chunks * CHUNK * kLanes;    \
    [[unroll]] for (uint i = 0; i < CHUNK; ++i) {                                                         \
      const uint load = skip + i * kLanes + lane;                                                         \
      if (load < loads) {                                                                                 \
        next[i][0] = LOAD_AT(w, first_load + row * loads + load);                                         \
        next[i][1] = LOAD_AT(w, first_load + min(row + 1, w.rows - 1) * loads + load);                    \
      }                                                                                                   \
    }                                                                                                     \
  }
      if (own > 0) LOAD_CHUNK(0)

      float factor;
      if (stage == 0) {
        factor = prepare(layer == 0 ? kNone : base - kLayerPlaces + kAtX, D, kIdentity, true,
                         in_table(layer, kStepAttnNorm), a.eps, true);
      } else if (stage == 1) {
        factor = prepare(base + kAtOut, kOut, OUT_ACTIVATION, OUT_NORM != 0, in_table(layer, kStepGNorm), a.g_norm_eps,
                         false);
      } else if (stage == 2) {
        factor = prepare(base + kAtMiddle, D, kIdentity, true, in_table(layer, kStepMlpNorm), a.eps, true);
      } else {
        factor = prepare(base + kAtHidden, INNER, kIdentity, false, kNone, 0.0, false);
      }

      precise float sums[2];
      const uint all = own * chunks;
      for (uint n = 0; n < all; ++n) {
        RAW here[CHUNK][2];
        [[unroll]] for (uint i = 0; i < CHUNK; ++i) here[i][0] = next[i][0], here[i][1] = next[i][1];
        if (n + 1 < all) LOAD_CHUNK(n + 1)
        const uint chunk = n % chunks;
        if (chunk == 0) sums[0] = 0.0, sums[1] = 0.0;
        [[unroll]] for (uint i = 0; i < CHUNK; ++i) {
          const uint load = (chunk * CHUNK + i) * kLanes + lane;
          if (load >= loads) continue;
          [[unroll]] for (uint u = 0; u < kUnits; ++u) {
            const uint unit = load * kUnits + u;
            const vec4 low = prepared[place(2 * unit)], high = prepared[place(2 * unit + 1)];
            [[unroll]] for (uint r = 0; r < 2; ++r) {
              const Unit weights_ = decode(UNIT_OF(here[i][r], u));
              sums[r] = fma(weights_.scale, unit_sum(weights_, low, high), sums[r]);
            }
          }
        }
        if (chunk + 1 < chunks) continue;
        const float first = lanes_sum(sums[0]) * factor, second = lanes_sum(sums[1]) * factor;
        const uint pair = begin + warp + n / chunks * kWarps;
        if (stage == 2) {
          if (lane == 0) publish(base + kAtHidden + pair, swish(first) * second);
        } else if (lane < 2 && 2 * pair + lane < w.rows) {
          const uint row = 2 * pair + lane;
          float v = lane == 0 ? first : second;
          if (stage != 0) v += residual[row];
          publish(base + (stage == 0 ? kAtProjected : stage == 1 ? kAtMiddle : kAtX) + row, v);
          if (stage == 3 && layer + 1 == a.layers) stream.v[row] = v;
        }
      }
      if (stage == 0 && in_table(layer, kStepGates) != kNone) {
        const uint at = in_table(layer, kStepGates), type = in_table(layer, kStepGateType);
        for (uint row = me + workgroups * (kWarps - 1 - warp); row < H * MEMORY; row += workgroups * kWarps) {
          const float v = plain_row(at + row * (D / 8), D, type) * factor;
          if (lane == 0) publish(base + kAtProjected + (G + 1) * H * K + H * V + row, v);
        }
      }
    }
  }
  if (patience < 0) act.v[a.stuck_at] = 1;
}
