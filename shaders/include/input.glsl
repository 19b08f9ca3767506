// SPDX-License-Identifier: Apache-2.0
// The input of a matrix product from the rows of a buffer: as it is, normalised, or put together from the splits of
// slot_attention. matvec does this in every workgroup, rows once for many tokens: the same code, the same bits.
// Bindings: INPUT_BINDING the rows, VECTORS_BINDING the norm weights.

layout(set = 0, binding = INPUT_BINDING) readonly buffer Input { float v[]; } source;
layout(set = 0, binding = VECTORS_BINDING) readonly buffer Vectors { float v[]; } vectors;

layout(constant_id = 2) const uint INPUT = kInputPlain;
layout(constant_id = 3) const uint COLUMNS = 1;     // values of a row
layout(constant_id = 4) const uint ACTIVATION = kIdentity;  // kInputSlots only
layout(constant_id = 5) const bool NORMALISE = true;
layout(constant_id = 6) const uint VALUE_DIM = 1;  // kInputSlots: V
layout(constant_id = 7) const uint SPLITS = 1;     // kInputSlots

/// Value c of a row before the norm.  Splits: [T, HQ, SPLITS, 2 + V] with (max, sum) before the values:
/// o = sum_s e^(max_s - max) o_s / sum_s e^(max_s - max) sum_s
float input_value(const InputArgs a, uint row, uint c) {
  if (INPUT != kInputSlots) return source.v[row * a.stride + c];
  const uint first = row * a.stride + c / VALUE_DIM * SPLITS * (2 + VALUE_DIM);
  float largest = source.v[first];
  for (uint s = 1; s < SPLITS; ++s) largest = max(largest, source.v[first + s * (2 + VALUE_DIM)]);
  float weights_sum = 0.0;
  float values_sum = 0.0;
  for (uint s = 0; s < SPLITS; ++s) {
    const uint at = first + s * (2 + VALUE_DIM);
    const float factor = exact_exp(source.v[at] - largest);
    weights_sum = fma(factor, source.v[at + 1], weights_sum);
    values_sum = fma(factor, source.v[at + 2 + c % VALUE_DIM], values_sum);
  }
  return activate(ACTIVATION, values_sum / weights_sum);
}

/// Calls PUT(c, value) for this thread's columns, then scales them in place. All threads must call.
#define PREPARE_INPUT(ARGS, ROW, PUT, GET)                                                  \
  {                                                                                         \
    precise float squares = 0.0;                                                            \
    for (uint c = THREAD; c < COLUMNS; c += kThreads) {                                     \
      const float v = input_value(ARGS, ROW, c);                                            \
      squares = fma(v, v, squares);                                                         \
      PUT(c, v);                                                                            \
    }                                                                                       \
    if (NORMALISE) {                                                                        \
      const float mean = team_sum(squares, kThreads) / float(COLUMNS);                      \
      const float factor = 1.0 / sqrt(mean + ARGS.eps);                                     \
      for (uint c = THREAD; c < COLUMNS; c += kThreads) {                                   \
        float v = GET(c) * factor;                                                          \
        if (ARGS.norm_weight != kNone) v *= vectors.v[ARGS.norm_weight + c];                \
        PUT(c, v);                                                                          \
      }                                                                                     \
    }                                                                                       \
  }
