// SPDX-License-Identifier: Apache-2.0
// The input of a matrix product from the rows of a buffer: as it is, normalised, or put together from the splits of
// slot_attention. matvec does this in every workgroup, rows once for many tokens: the same code, the same bits.
// RUNNEL_LONG_ITEMS: of items that went chunk by chunk the outputs lie there joined; include pass.glsl before.
// Bindings: INPUT_BINDING the rows, VECTORS_BINDING the norm weights.

layout(set = 0, binding = INPUT_BINDING) readonly buffer Input { float v[]; } source;
layout(set = 0, binding = INPUT_BINDING) readonly buffer Input4 { vec4 v[]; } source4;
layout(set = 0, binding = VECTORS_BINDING) readonly buffer Vectors { float v[]; } vectors;

layout(constant_id = 2) const uint INPUT = kInputPlain;
layout(constant_id = 3) const uint COLUMNS = 1;     // values of a row
layout(constant_id = 4) const uint ACTIVATION = kIdentity;  // not of kInputPlain
layout(constant_id = 5) const bool NORMALISE = true;
layout(constant_id = 6) const uint VALUE_DIM = 1;  // kInputSlots: V
layout(constant_id = 7) const uint SPLITS = 1;     // kInputSlots

const uint kShares = INPUT == kInputSlots ? COLUMNS / VALUE_DIM * SPLITS : 1;
shared float share_of[kShares];  // [head][split]: what a split's values count

/// Splits: [T, HQ, SPLITS, 2 + V] with (max, sum) before the values:
///   o = sum_s share_s o_s,  share_s = e^(max_s - max) / sum_s e^(max_s - max) sum_s
/// All threads must call before input_value and see a barrier after.
void prepare_shares(const InputArgs a, uint row) {
  if (INPUT != kInputSlots) return;
  for (uint h = THREAD; h < COLUMNS / VALUE_DIM; h += kThreads) {
    const uint first = row * a.stride + h * SPLITS * (2 + VALUE_DIM);
    float largest = source.v[first];
    for (uint s = 1; s < SPLITS; ++s) largest = max(largest, source.v[first + s * (2 + VALUE_DIM)]);
    precise float sum = 0.0;
    for (uint s = 0; s < SPLITS; ++s) {
      const uint at = first + s * (2 + VALUE_DIM);
      const float factor = exact_exp(source.v[at] - largest);
      share_of[h * SPLITS + s] = factor;
      sum = fma(factor, source.v[at + 1], sum);
    }
    for (uint s = 0; s < SPLITS; ++s) share_of[h * SPLITS + s] /= sum;
  }
  barrier();
}

/// Value c of a row before the norm.
float input_value(const InputArgs a, uint row, uint c) {
  if (INPUT != kInputSlots) return activate(ACTIVATION, source.v[row * a.stride + a.column + c]);
#ifdef RUNNEL_LONG_ITEMS
  if ((token_word(row, 3) & kLongItem) != 0) return activate(ACTIVATION, source.v[row * a.stride + c]);  // slot_read
#endif
  const uint head = c / VALUE_DIM;
  const uint first = row * a.stride + head * SPLITS * (2 + VALUE_DIM) + 2 + c % VALUE_DIM;
  precise float sum = 0.0;
  for (uint s = 0; s < SPLITS; ++s)
    sum = fma(share_of[head * SPLITS + s], source.v[first + s * (2 + VALUE_DIM)], sum);
  return activate(ACTIVATION, sum);
}

float norm_weight(const InputArgs a, uint c) {
  return NORMALISE && a.norm_weight != kNone ? vectors.v[a.norm_weight + c] : 1.0;
}

/// Calls PUT(c, value) for this thread's columns, weighted, then scales them in place. Norm weights are loaded with the
/// values: one wait. All threads must call.
#define PREPARE_INPUT(ARGS, ROW, PUT, GET)                                                  \
  {                                                                                         \
    prepare_shares(ARGS, ROW);                                                              \
    precise float squares = 0.0;                                                            \
    if (INPUT != kInputSlots) {                                                             \
      for (uint c = THREAD * 4; c < COLUMNS; c += kThreads * 4) {                           \
        const vec4 four = source4.v[((ROW) * ARGS.stride + ARGS.column + c) / 4];           \
        [[unroll]] for (uint e = 0; e < 4; ++e) {                                           \
          if (c + e >= COLUMNS) continue;                                                   \
          const float v = activate(ACTIVATION, four[e]);                                    \
          squares = fma(v, v, squares);                                                     \
          PUT(c + e, v * norm_weight(ARGS, c + e));                                         \
        }                                                                                   \
      }                                                                                     \
    } else {                                                                                \
      for (uint c = THREAD; c < COLUMNS; c += kThreads) {                                   \
        const float v = input_value(ARGS, ROW, c);                                          \
        squares = fma(v, v, squares);                                                       \
        PUT(c, v * norm_weight(ARGS, c));                                                   \
      }                                                                                     \
    }                                                                                       \
    if (NORMALISE) {                                                                        \
      const float mean = team_sum(squares, kThreads) / float(COLUMNS);                      \
      const float factor = 1.0 / sqrt(mean + ARGS.eps);                                     \
      if (INPUT != kInputSlots) {                                                           \
        for (uint c = THREAD * 4; c < COLUMNS; c += kThreads * 4) {                         \
          [[unroll]] for (uint e = 0; e < 4; ++e) {                                         \
            if (c + e < COLUMNS) PUT(c + e, GET(c + e) * factor);                           \
          }                                                                                 \
        }                                                                                   \
      } else {                                                                              \
        for (uint c = THREAD; c < COLUMNS; c += kThreads) PUT(c, GET(c) * factor);          \
      }                                                                                     \
    }                                                                                       \
  }
