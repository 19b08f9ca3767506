#version 460
// SPDX-License-Identifier: Apache-2.0
// decode_step for a model whose rows divide evenly over the workgroups: the same exchange and slots, other products.
//
// A product is split by columns: a subgroup has a slice of them, of all rows of its workgroup or, with others, of tiles in
// turns. It takes those columns by itself; a lane then has its columns in registers and an item of each row. The last
// slice may lack columns.
// One barrier per stage, behind which one thread per row adds the slices' sums: of a subgroup without columns, where
// those are enough.
// A layer is straight code with registers of their own for each stage: what comes next is loaded behind a stage's
// products, that of the output behind the slots; together with gate and up's where few workgroups have slots. Nothing is
// under way where the loop over layers begins again, for registers that are would be copied there, and a copy waits for
// the load.
// Grid: (GROUPS). Bound: latency of five exchanges per layer; bytes of W for a large model.
#define RUNNEL_OWN_WORKGROUP
#define RUNNEL_ADDRESSES
#define RUNNEL_BIASES
#define RUNNEL_TAKES_APART
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_memory_scope_semantics : enable
#extension GL_KHR_shader_subgroup_vote : require
#extension GL_KHR_shader_subgroup_ballot : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#include "contract/common.glsl"
#include "contract/weights.glsl"
#define PASS_BINDING 4
#include "contract/pass.glsl"

#include "step/model.glsl"
layout(constant_id = 18) const uint HELD = 8;    // items of a lane of a stage under way
layout(constant_id = 26) const uint BIASES = 0;  // 1: q, k and v have some
layout(set = 0, binding = 2) volatile readonly buffer VectorsHere { float v[]; } vectors_here;
layout(set = 0, binding = 2) volatile readonly buffer VectorsHere4 { vec4 v[]; } vectors_here4;

// Then loads are ordered for the way through the slots, else for waiting for its end (README.md, "The order of loads").
const bool kMostHaveSlots = 2 * H * PARTS > GROUPS;

#include "step/exchange.glsl"
#include "step/items.glsl"
#include "step/even_columns.glsl"
#include "step/even_gates.glsl"
#include "step/slots.glsl"

#define OF0(X) X##0
#define OF1(X) X##1
#define OF2(X) X##2
#define OF3(X) X##3

// Finds items of stage S of a layer: those of the first tile, and of the last, where rows may be missing. Lanes of a
// subgroup without columns all have the same, and all lanes where there is no such layer.
#define FIND_ITEMS(S, LAYER, EXISTS)                                                                                   \
  {                                                                                                                    \
    const uint way = warp / kSlices##S, slice = warp - way * kSlices##S, entry = kStepMatrices + S * kStepMatrixWords; \
    const uint first = in_table(LAYER, entry) + me * (kRows##S * kRowItems##S);                                        \
    const uint row = way * kSide##S + lane / kTeam##S;                                                                 \
    uint column = slice * kAcross##S + lane % kTeam##S;                                                                \
    if (kMissing##S > 0) column = min(column, kRowItems##S - 1);                                                       \
    const uint last = min((kTurns##S - 1) * (kSide##S * kWays##S) + row, kRows##S - 1);                                \
    bool real = EXISTS;                                                                                                \
    if (kSlices##S * kWays##S < kWarps) real = EXISTS && warp < kSlices##S * kWays##S;                                 \
    at##S = item_at(LAYER, entry, real ? first + row * kRowItems##S + column : first);                                 \
    if (kTurns##S * kSide##S * kWays##S > kRows##S)                                                                    \
      end##S = item_at(LAYER, entry, real ? first + last * kRowItems##S + column : first);                             \
  }
/// Loads item I of a stage.
#define ASK(OF_, I)                                                                                                 \
  if ((OF_(kTurns) * OF_(kSide) * OF_(kWays) > OF_(kRows) ? OF_(kTurns) - 1 : OF_(kTurns)) == (I) / OF_(kFolds)) {  \
    TAKE_ITEM(OF_(items)[I], OF_(end), (I) % OF_(kFolds) * OF_(kTeam))                                              \
  } else {                                                                                                          \
    TAKE_ITEM(OF_(items)[I], OF_(at),                                                                               \
              (I) / OF_(kFolds) * (OF_(kWays) * OF_(kSide) * OF_(kRowItems)) + (I) % OF_(kFolds) * OF_(kTeam))      \
  }
#define ASK_FROM(S, FIRST, COUNT) \
  { [[unroll]] for (uint i = FIRST; i < (COUNT); ++i) ASK(OF##S, i) }

// Values of stage 0, with the gates where they are a matrix of their own.
#define FIND_GATES(LAYER, EXISTS) \
  if (GATES != 0) gates_at = find_gates(LAYER, EXISTS);
#define ASK_FIRST(LAYER)                        \
  {                                             \
    ASK_FROM(0, 0, kAhead0)                     \
    if (GATES != 0) ask_gates(gates_at, gates); \
    if (BIASES != 0) bias = ask_bias(LAYER, 0); \
  }
#define SUM_GATES \
  if (GATES != 0) sum_gates(gates, v, way, slice);

/// Loads of the first head; others are loaded later: more than one only where a part is a whole head.
#define ASK_SLOTS(LAYER)                                           \
  {                                                                \
    if (me < H * PARTS) {                                          \
      ask_slots(head_of(LAYER, me), key, value);                   \
    } else {                                                       \
      [[unroll]] for (uint i = 0; i < 16; ++i) key[i] = vec4(0.0); \
      [[unroll]] for (uint i = 0; i < 8; ++i) value[i] = 0.0;      \
    }                                                              \
  }
#define DO_SLOTS(LAYER)                           \
  for (uint n = 0; n < H * PARTS; n += GROUPS) {  \
    if (n + me >= H * PARTS) continue;            \
    const Head h = head_of(LAYER, n + me);        \
    if (n > 0) {                                  \
      barrier();                                  \
      ask_slots(h, key, value);                   \
    }                                             \
    slots(LAYER, base, h, key, value);            \
    if (PARTS == 1) advance_state(h);             \
  }                                               \
  barrier();  // what is asked for next would be ahead of the outputs

const uint kBiased = (G + 1) * H * K + H * V;  // rows of q, k and v
/// The bias of this thread's row from `n` on, if it has one.
float ask_bias(uint layer, uint n) {
  const uint row = gl_WorkGroupID.x * kRows0 + min(n + showing(), kRows0 - 1);
  return vectors_here.v[in_table(layer, kStepBiases) + min(row, kBiased - 1)];
}

/// `bias`: of this thread's first row.
void publish_projected(uint base, uint layer, float bias) {
  for (uint n = 0; n < kRows0 + kGateRows; n += kShowing) {
    const uint row = n + showing();
    uint at = row, to = gl_WorkGroupID.x * kRows0 + row;
    if (GATES != 0 && row >= kRows0) {
      at = row - kRows0 + (kRoom0 - kGateRoom);
      to = (G + 1) * H * K + H * V + gl_WorkGroupID.x * kGateRows + row - kRows0;
    }
    if (row < kRows0 + kGateRows) {
      float f = sum_even(kSlices0, kRoom0, at) * inversesqrt(all_even_squares(kSlices0, 1, 0) / float(D) + a.eps);
      if (BIASES != 0 && to < kBiased) f += n == 0 ? bias : ask_bias(layer, n);
      if (to < (G + 1) * H * K) {
        f = activate(KEY_ACTIVATION, f);
      } else if (to < kBiased) {
        f = activate(VALUE_ACTIVATION, f);
      }
      publish(base + kAtProjected + to, f);
    }
  }
}

/// Row `row` of gate and up.
float hidden(uint row, float factor) {
  const float gated = sum_even(kSlices2, kRoom2, 2 * row) * factor;
  const float up = sum_even(kSlices2, kRoom2, 2 * row + 1) * factor;
  return swish(gated) * up;
}
void publish_hidden(uint base) {
  for (uint n = 0; n < kHidden; n += kShowing) {
    const uint i = n + showing();
    if (i < kHidden) {
      const float factor = inversesqrt(all_even_squares(kSlices2, 1, 0) / float(D) + a.eps);
      const uint to = base + kAtHidden + gl_WorkGroupID.x * kHidden + i;
      if (kHalves) {
        publish_halves(to, hidden(2 * i, factor), hidden(2 * i + 1, factor));
      } else {
        publish(to, hidden(i, factor));
      }
    }
  }
}

void main() {
  const uint me = gl_WorkGroupID.x, warp = WARP, lane = LANE;
  load_table();
  begin_token();
  if (kApart != 0) token_turn = uintBitsToFloat(pass4.word[a.pass.rotations / 4 + THREAD % (K / 2)]);
  barrier();
  const uint layers = a.phases / 4;
  float residual = 0.0;  // x of the row of D that this thread has
  if (showing() < kRows1) residual = stream.v[me * kRows1 + showing()];

  uint base = 0;
  {
    ItemAt at0, end0;
    Item items0[kItems0];
    GatesAt gates_at;
    uvec2 gates[8];
    float bias = 0.0;
    vec4 key[16];
    float value[8];
    const uint weights_at = in_table(0, kStepAttnNorm);
    FIND_ITEMS(0, 0, true)
    FIND_GATES(0, true)
    ASK_FIRST(0)
#define STAGE 0
#define FROM_STREAM
#define ASK_NEXT ASK_SLOTS(0)
#include "step/even_stage.glsl"
    publish_projected(base, 0, bias);
    DO_SLOTS(0)
  }

  [[dont_unroll]] for (uint layer = 0; layer < layers; ++layer) {
    ItemAt at0, at1, at2, at3, end0, end1, end2, end3;
    Item items0[kItems0], items1[kItems1], items2[kItems2], items3[kItems3];
    GatesAt gates_at;
    uvec2 gates[8];
    float bias = 0.0;
    vec4 key[16];
    float value[8];
    uint weights_at = in_table(layer, kStepGNorm), from4 = (base + kAtOut) / 4;
    FIND_ITEMS(1, layer, true)
    ASK_FROM(1, 0, kAhead1)
    FIND_ITEMS(2, layer, true)
    ASK_FROM(2, 0, kEarly)

    // The output projection.
    if (IN_TURNS != 0) barrier();  // before any wait for what this workgroup writes
#define STAGE 1
#define ASK_NEXT ASK_FROM(2, kEarly, kAhead2)
#include "step/even_stage.glsl"
    if (showing() < kRows1) {
      float factor = 1.0;
      if (OUT_NORM != 0) factor = inversesqrt(all_odd_squares(kSlices1, 1, 0) / float(kOut) + a.g_norm_eps);
      residual = fma(sum_odd(kSlices1, kRoom1, showing()), factor, residual);
      publish(base + kAtMiddle + me * kRows1 + showing(), residual);
    }

    // Gate and up.
    FIND_ITEMS(3, layer, true)
    weights_at = in_table(layer, kStepMlpNorm), from4 = (base + kAtMiddle) / 4;
    if (IN_TURNS != 0) barrier();
#define STAGE 2
#define ASK_NEXT ASK_FROM(3, 0, kAhead3)
#include "step/even_stage.glsl"
    publish_hidden(base);
    // All have the outputs; and down's input is waited for the longest.
    if (PARTS > 1 && me < H * PARTS) advance_state(head_of(layer, me));

    // Down.
    const bool more = layer + 1 < layers;
    const uint next = more ? layer + 1 : layer;
    FIND_ITEMS(0, next, more)
    FIND_GATES(next, more)
    from4 = (base + kAtHidden) / 4;
    if (IN_TURNS != 0) barrier();
#define STAGE 3
#define ASK_NEXT ASK_FIRST(next)
#include "step/even_stage.glsl"
    if (showing() < kRows3) {
      residual += sum_odd(kSlices3, kRoom3, showing());
      publish(base + kAtX + me * kRows3 + showing(), residual);
      if (!more) stream.v[me * kRows3 + showing()] = residual;
    }
    if (!more) break;

    // q k v f and the slots of the next layer.
    weights_at = in_table(next, kStepAttnNorm), from4 = (base + kAtX) / 4;
    if (IN_TURNS != 0) barrier();
#define STAGE 0
#define ASK_NEXT ASK_SLOTS(next)
#include "step/even_stage.glsl"
    base += kLayerPlaces;
    publish_projected(base, next, bias);
    DO_SLOTS(next)
  }
  if (poll_limit < 0) act.v[a.timed_out_at] = 1;
}
