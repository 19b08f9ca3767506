// SPDX-License-Identifier: Apache-2.0
// What the host and the shaders must agree on: bindings, push constants (at most 128 bytes), the
// words of the pass buffer, modes. Compiled as C++ and as GLSL.
//
// T tokens of a pass, D hidden, HQ query heads, H kv heads, G = HQ/H, K and V head dims, M memory slots.
#ifndef RUNNEL_SHADERS_INTERFACE_H
#define RUNNEL_SHADERS_INTERFACE_H

#ifdef __cplusplus
#include <cstdint>
namespace runnel::vulkan {
using uint = std::uint32_t;
#define RUNNEL_CONST constexpr uint
#else
#define RUNNEL_CONST const uint
#endif

/// Invocations of every workgroup: what Vulkan 1.2 guarantees.
RUNNEL_CONST kThreads = 128;

/// Columns that one lane decodes at once; rows of weights and activations are padded to it.
RUNNEL_CONST kUnit = 8;

// Elementwise functions.
RUNNEL_CONST kIdentity = 0;
RUNNEL_CONST kSwish = 1;
RUNNEL_CONST kRelu = 2;
RUNNEL_CONST kTanh = 3;
RUNNEL_CONST kSigmoid = 4;

// What a matrix product reads: a row as it is; a row activated and, where asked for, normalised (RMSNorm); or the same
// of the splits of slot_attention, put together.
RUNNEL_CONST kInputPlain = 0;
RUNNEL_CONST kInputNorm = 1;
RUNNEL_CONST kInputSlots = 2;

// What it does with its sums: write them; add them to the residual stream; rows alternate gate and
// up: silu(gate) * up; silu(what is there) * sum; max(sum, 0)^2.
RUNNEL_CONST kOutputStore = 0;
RUNNEL_CONST kOutputAdd = 1;
RUNNEL_CONST kOutputSwigluPairs = 2;
RUNNEL_CONST kOutputSwigluWith = 3;
RUNNEL_CONST kOutputSquaredRelu = 4;

/// Specialisation constants that are never set: rows of tiles that are right operands, or sums as f16 (khr_matrices.h).
RUNNEL_CONST kRightTile = 90;
RUNNEL_CONST kNarrowTile = 91;
#ifdef __cplusplus
/// Specialisation constant: word of the pass buffer with what tokens are to a layer (layer_tokens.glsl).
RUNNEL_CONST kTokensAt = kNarrowTile + 1;
#endif

/// "There is no such vector."
RUNNEL_CONST kNone = 0xFFFFFFFF;

// The pass buffer: this header, then per token kTokenWords, per item kItemWords, the list of rows
// whose logits are wanted, the chunks of long items, per token K/2 rotations of 4 floats; where layers have other sinks
// and windows than the first, per token kTokenWords of each of these kinds of layers.
RUNNEL_CONST kPassTokens = 0;  // tokens of this pass
RUNNEL_CONST kPassItems = 1;   // sessions of this pass
RUNNEL_CONST kPassRows = 2;    // rows whose logits this submission computes
RUNNEL_CONST kPassChunks = 3;  // chunks of this pass
RUNNEL_CONST kPassLong = 4;    // tokens from which on an item goes chunk by chunk
// Bit 0: the other for each token of decode_step. Bit 1, where it makes the logits, too: the other
// for each such token.
RUNNEL_CONST kPassTag = 5;
RUNNEL_CONST kPassDrawn = 6;    // address of what the host reads of the token, two words
RUNNEL_CONST kPassHeader = 16;  // words

// id, positional slot it writes or kNone, sinks in use, window in use
RUNNEL_CONST kTokenWords = 4;
// first row, rows, place of its state in the bank, bank, first chunk, chunks
RUNNEL_CONST kItemWords = 6;
RUNNEL_CONST kChunkWords = 4;          // first row, rows, item, nothing
RUNNEL_CONST kLongItem = 0x80000000U;  // in a token's fourth word: its slots went chunk by chunk

/// Tokens of a chunk, rows of a block that reads it, most window slots and sinks of chunks.
RUNNEL_CONST kChunk = 64;
RUNNEL_CONST kReadRows = 16;
RUNNEL_CONST kMostChunkSlots = 64;
RUNNEL_CONST kMostChunkWindow = 64;
RUNNEL_CONST kMostChunkSinks = 16;
#if defined(__cplusplus) || defined(RUNNEL_BROAD)
/// The same of slot_read_broad, and its largest head.
RUNNEL_CONST kMostBroadSlots = 128;
RUNNEL_CONST kMostBroadWindow = 256;
RUNNEL_CONST kMostBroadHead = 64;
#endif

/// Where the sections of the pass buffer start, in words.
struct PassLayout {
  uint items;
  uint rows;
  uint rotations;
  uint chunks;
};

/// One part of a weight matrix: rows [first_row, first_row + rows). Offsets in words from the bound range.
struct MatrixPart {
  uint first_row;
  uint rows;
  uint scales;
  uint high;
};

struct EmbedArgs {
  MatrixPart w;
  uint x_stride;
};

/// How matvec and rows turn buffer rows into inputs.
struct InputArgs {
  uint stride;       // floats between rows of the input
  uint norm_weight;  // float offset into the vectors, or kNone
  float eps;
  uint rows_at;  // word offset of the list of rows to read, or kNone: row = token
  uint column;   // of a row that its input begins with, a multiple of 4; 0 but for kInputNorm
};

struct MatvecArgs {
  MatrixPart w;
  InputArgs in_;
  uint out_stride;
  uint out_column;  // column of the output that row 0 of the matrix goes to
  uint count_at;    // header word with the number of rows to compute: kPassTokens or kPassRows
};

struct RowsArgs {
  InputArgs in_;
  uint out_stride;
  uint count_at;
};

struct LayerNormArgs {
  InputArgs in_;
  uint bias;  // float offset into the vectors, or kNone
  uint columns;
  uint out_stride;
  uint count_at;
};

struct ElementwiseArgs {
  uint stride;
  uint columns;
  uint bias;  // float offset into the vectors
};

// Gated recurrence: maps, decays and flags.
RUNNEL_CONST kMapIdentity = 0;
RUNNEL_CONST kMapSwish = 1;
RUNNEL_CONST kMapRelu = 2;
RUNNEL_CONST kMapT2r = 3;
RUNNEL_CONST kMapElu = 4;
RUNNEL_CONST kMapProduct = 5;
RUNNEL_CONST kMapHedgehog = 6;
RUNNEL_CONST kMapDpfp = 7;
RUNNEL_CONST kMapExponential = 8;
RUNNEL_CONST kDecayNone = 0;
RUNNEL_CONST kDecayFixed = 1;
RUNNEL_CONST kDecayLogSigmoid = 2;
RUNNEL_CONST kDecayRefined = 3;
RUNNEL_CONST kDecayRunningSum = 4;
RUNNEL_CONST kDecaySoftplus = 5;
RUNNEL_CONST kDecayBounded = 6;
RUNNEL_CONST kFlagOnValues = 1;
RUNNEL_CONST kFlagComplement = 2;
RUNNEL_CONST kFlagRotary = 4;
RUNNEL_CONST kFlagNormQ = 8;
RUNNEL_CONST kFlagNormK = 16;
RUNNEL_CONST kFlagNormalizer = 32;
RUNNEL_CONST kFlagNorm = 64;
RUNNEL_CONST kFlagNormHeads = 128;
RUNNEL_CONST kFlagGate = 256;
RUNNEL_CONST kFlagNormGroups = 512;
RUNNEL_CONST kFlagBonus = 1024;
RUNNEL_CONST kFlagPlainGate = 2048;

// Removal.
RUNNEL_CONST kRemovalDelta = 1;
RUNNEL_CONST kRemovalOwnKey = 2;
RUNNEL_CONST kKeyNormNone = 0;
RUNNEL_CONST kKeyNormLength = 1;
RUNNEL_CONST kKeyNormSum = 2;

// What a layer does with its values.
RUNNEL_CONST kValuesKept = 0;
RUNNEL_CONST kValuesMixed = 1;

/// Offsets in floats. at_…: in a row of the projections; queries to slot_logits: in a row of
/// features; f_up to maps: in the vectors, or kNone.
struct RecurrenceArgs {
  uint stride;  // of projections
  uint at_q, at_k, at_v, at_f, at_low, at_r;
  uint feature_stride;
  uint queries, keys, slot_keys, decays, slot_logits;
  uint rotations;  // words into the pass buffer
  uint items_at;
  uint layer_floats, head_floats, values, extra;  // of a state
  uint bank;
  uint f_up, f_bias, r_bias, lower_bound, maps;
  float scale, tau, floor_, clamp_min, clamp_max;
};

struct RecurrenceOutputArgs {
  uint stride, at_gate;
  uint weight;
  float eps;
  uint out_stride;
  uint bias;  // of groups
  uint at_bonus, at_v;
};

/// A recurrence with a removal. at_… in a row of the projections, queries to removal_b in a row of features, f_bias
/// to bonus in the vectors, or kNone.
struct RemovalArgs {
  uint stride;
  uint at_q, at_k, at_v, at_f, at_r, at_bonus;
  uint feature_stride;
  uint queries, keys, decays, removal_c, removal_b;
  uint items_at;
  uint layer_floats, head_floats, values;  // of a state
  uint bank;
  uint f_bias, r_bias, log_rate, removal_key, key_rate, bonus;
  float scale, removal_scale;
};

/// token_shift. Strides and offsets in floats.
struct ShiftArgs {
  uint stride;   // of rows
  uint columns;  // of a row that are worked on
  uint column;   // the first of them, but for STAGE_MIX
  uint out_stride;
  uint vector;        // lerps [inputs, columns] or the bias of a mix
  uint inputs;        // STAGE_MIX
  uint input_floats;  // from one input's rows to the next's
  uint tail;          // of the last row in a layer's state
  uint layer_floats;
  uint bank;
  uint items_at;
  uint kind;        // STAGE_LOW: of an elementwise function; STAGE_VALUES: kValues…
  uint mix_column;  // STAGE_VALUES
};

struct ConvArgs {
  uint stride;    // floats between rows of the projections
  uint channels;  // HQ*K + H*K + H*V
  uint taps;
  uint weights;  // float offset of [channels, taps]
  uint tail;     // float offset of the tails in a layer's state
  uint layer_floats;
  uint bank;
  uint items_at;
  uint silu;  // 0: none after the convolution
};

struct MapArgs {
  uint stride;
  uint matrix;  // float offset of [K, K]
};

struct SlotArgs {
  PassLayout pass;
  uint stride;        // floats between rows of the projections
  uint layer_floats;  // of one state
  uint bank;
  uint gate_bias;  // float offsets into the vectors, or kNone
  uint read_bias;
  uint head_read_bias;
  float scale;
  float gate_normalizer;
  float gate_log_min;  // 0: none
};

/// Slots chunk by chunk. Strides and offsets in floats.
struct ChunkArgs {
  PassLayout pass;
  uint stride;          // of projections
  uint feature_stride;  // of rows of rotated keys and write gates
  uint layer_floats;    // of one state
  uint bank;
  uint decays;      // in the buffer of chunks, after the memories
  uint window;      // in the buffer of f16 operands, after the rows, in units of 8
  uint out_stride;  // of rows of outputs
  uint gate_bias;   // float offsets into the vectors, or kNone
  uint read_bias;
  uint head_read_bias;
  float scale;
  float gate_normalizer;
  float gate_log_min;  // 0: none
};

/// Rows of a packed part as f16, for matrix units.
struct UnpackArgs {
  MatrixPart w;
  uint row0;    // of the destination, where row 0 of the matrix goes
  uint stride;  // of the destination, in units of 8 f16
  uint order;   // kOrder…
};
RUNNEL_CONST kOrderPlain = 0;
RUNNEL_CONST kOrderPairs = 1;  // gate and up alternate; to 16 rows of gate, 16 of up
RUNNEL_CONST kOrderGate = 2;   // gate alone, to the same places
RUNNEL_CONST kOrderUp = 3;

struct TilesArgs {
  uint rows;        // of the matrix, a multiple of 16
  uint stride;      // of matrix and input rows, in units of 8 f16: a multiple of 4
  uint out_stride;  // f32; with SwiGLU units of 8 f16
  uint out_column;
};

/// All layers of a token in one dispatch. Words of a layer's entry in the table:
RUNNEL_CONST kStepAttnNorm = 0;  // float offsets into the vectors, or kNone
RUNNEL_CONST kStepGNorm = 1;
RUNNEL_CONST kStepMlpNorm = 2;
RUNNEL_CONST kStepFBias = 3;
RUNNEL_CONST kStepReadBias = 4;
RUNNEL_CONST kStepHeadReadBias = 5;
RUNNEL_CONST kStepGates = 6;  // f where it is a matrix of its own, in units of 16 bytes, or kNone
RUNNEL_CONST kStepGateType = 7;
RUNNEL_CONST kStepMatrices = 8;     // projections, output, gate and up by turns, down; of each:
RUNNEL_CONST kStepMatrixWords = 4;  // first load, rows, planes of scales and upper bits
#if defined(__cplusplus) || defined(RUNNEL_BIASES)
// Biases of q, k and v, in the place of the rows of down, which are those of the output.
RUNNEL_CONST kStepBiases = 21;
#endif
RUNNEL_CONST kStepLayerWords = 24;
// The entry behind the last layer's, where narrow_step makes the logits, too:
RUNNEL_CONST kStepFinalNorm = 0;
RUNNEL_CONST kStepHead = 8;    // a matrix like those
RUNNEL_CONST kStepTable = 12;  // of embeddings
RUNNEL_CONST kStepF16 = 0;
RUNNEL_CONST kStepBf16 = 1;
RUNNEL_CONST kStepF32 = 2;

// The same of shift_step. Float offsets into the vectors, or kNone:
RUNNEL_CONST kShiftNorm = 0;  // weight and bias of the norm before the mixer
RUNNEL_CONST kShiftLerp = 2;  // [inputs, D]
RUNNEL_CONST kShiftFBias = 3;
RUNNEL_CONST kShiftRBias = 4;
RUNNEL_CONST kShiftMixBias = 5;
RUNNEL_CONST kShiftRemovalKey = 6;
RUNNEL_CONST kShiftKeyRate = 7;
RUNNEL_CONST kShiftBonus = 8;
RUNNEL_CONST kShiftGroupNorm = 9;     // weight and bias
RUNNEL_CONST kShiftChannelNorm = 11;  // weight and bias
RUNNEL_CONST kShiftChannelLerp = 13;
RUNNEL_CONST kShiftMixes = 14;  // 1: values are mixed with the first layer's
// Matrices, kStepMatrixWords of each, whose second word, elsewhere the rows, is the size of all planes in units of 16
// bytes: q, k, v; what goes down for f, r, the gate and the mix of values; output, up, down.
RUNNEL_CONST kShiftMatrices = 16;
RUNNEL_CONST kShiftDown = 3;
RUNNEL_CONST kShiftOutput = 7;
RUNNEL_CONST kShiftUp = 8;
RUNNEL_CONST kShiftLast = 9;
RUNNEL_CONST kShiftMatrixCount = 10;
RUNNEL_CONST kShiftRaise = 56;  // first loads of what comes up for f, r, the gate and the mix
RUNNEL_CONST kShiftLayerWords = 60;
// The entry behind the last layer's: of each matrix the first workgroup with rows of it, workgroups and rows; then weight
// and bias of the norm behind the embedding.
RUNNEL_CONST kShiftShareWords = 3;
RUNNEL_CONST kShiftEmbeddingNorm = 30;
/// Rows and columns of a state.
RUNNEL_CONST kShiftHead = 64;

struct StepArgs {
  PassLayout pass;
  uint phases;        // four a layer
  uint layer_stride;  // floats of a bank's layer
  uint layer_floats;  // of one state
  uint timed_out_at;  // word of the activations that a workgroup sets when a wait times out
  int poll_limit;     // polls that find nothing, in all, before a time-out
  float scale;
  float gate_normalizer;
  float gate_log_min;  // 0: none
  float eps;
  float g_norm_eps;
  uint weights_low;  // address of the weights, for decode_even
  uint weights_high;
  uint act_low;  // of what workgroups hand each other
  uint act_high;
  uint state_low;  // of the bank
  uint state_high;
  uint logits_low;  // where narrow_step puts them; 0: they are not its
  uint logits_high;
  float embedding_eps;  // of shift_step
};

/// The head of a token whose layers went in one dispatch. Where it draws the token too, offsets
/// count from the beginning of the block that holds head and table, as decode_step's.
struct HeadArgs {
  MatrixPart w;
  uint first;        // load of row 0
  uint norm_weight;  // float offset into the vectors, or kNone
  uint norm_bias;    // the same of a LayerNorm
  float eps;
  uint table_first;  // unit of token 0's embedding
  MatrixPart table;
  uint drawn_at;      // word of what the host reads
  uint timed_out_at;  // word of the activations that a workgroup sets when a wait times out
};

/// What the host reads of a token that the device drew.
RUNNEL_CONST kDrawnToken = 0;   // or kNoToken
RUNNEL_CONST kDrawnNext = 1;    // what the next step begins with: a token in any case
RUNNEL_CONST kDrawnReport = 2;  // not 0: a workgroup gave up
RUNNEL_CONST kDrawnWords = 4;

/// Drawing a token from a row of logits, see greedy, candidates and draw.
struct GreedyArgs {
  uint vocab;
  uint place;  // of what draw reads of a token
};
RUNNEL_CONST kNoToken = 0xFFFFFFFFU;      // no logit is a number above -inf
RUNNEL_CONST kGreedyGroups = 64;          // workgroups, at most kThreads
RUNNEL_CONST kCandidateBins = 4096;       // values of the upper bits of a logit
RUNNEL_CONST kMostCandidates = 1024;      // a row with more in reach is read whole
RUNNEL_CONST kMostCandidateLists = 2048;  // tokens with biases or penalties

// What candidates reads: this header, the tokens to look at, and a bit for each token: may it come?
RUNNEL_CONST kWantedLikeliest = 0;  // candidates wanted
RUNNEL_CONST kWantedListed = 1;     // tokens of the list
RUNNEL_CONST kWantedMasked = 2;     // whether those bits are in force
RUNNEL_CONST kWantedList = 4;
RUNNEL_CONST kWantedMaskAt = kWantedList + kMostCandidateLists;

// What draw reads: options, then kTurnWords for each place, biases (token and f32), losses by DRY (f32, by length),
// the words of the past before kPastBiased as a chain of steps begins, and a bit for each token: is it DRY's breaker?
// Behind these, for each place, a bit for each token: may it come?
RUNNEL_CONST kDrawHeat = 0;         // f32 inverse temperature; 0: the likeliest
RUNNEL_CONST kDrawTopK = 1;         // 0: all
RUNNEL_CONST kDrawTopP = 2;         // as exact_cuts.h has shares; 0: all
RUNNEL_CONST kDrawMinWeight = 3;    // min-p as a weight
RUNNEL_CONST kDrawTopNSigma = 4;    // f32; 0: off
RUNNEL_CONST kDrawXtc = 5;          // its threshold, as exact_cuts.h has shares
RUNNEL_CONST kDrawBiases = 6;       // how many
RUNNEL_CONST kDrawWindow = 7;       // tokens that penalties see; 0: none
RUNNEL_CONST kDrawPenalty = 8;      // f32 what a logit below 0 of a repeated token is multiplied by
RUNNEL_CONST kDrawUnpenalty = 9;    // f32 the same of one above 0
RUNNEL_CONST kDrawPresence = 10;    // f32
RUNNEL_CONST kDrawFrequency = 11;   // f32
RUNNEL_CONST kDrawDryRange = 12;    // tokens that DRY sees; 0: off
RUNNEL_CONST kDrawDryAllowed = 13;  // repetitions shorter than this cost nothing
RUNNEL_CONST kDrawHeader = 16;      // words
RUNNEL_CONST kTurnWord = 0;         // random
RUNNEL_CONST kTurnXtc = 1;          // whether XTC comes into play
RUNNEL_CONST kTurnBegins = 2;       // whether the past is read anew
RUNNEL_CONST kTurnMasked = 3;       // whether the bits of its place are in force
RUNNEL_CONST kTurnWords = 4;
RUNNEL_CONST kMostTurns = 4;  // places
RUNNEL_CONST kMostBiases = 2048;
RUNNEL_CONST kMostLookedBack = 1024;  // tokens that penalties or DRY see

// What draw keeps from token to token: rings of what was generated, with how many tokens were put in (of a full one
// modulo its length, plus it), and DRY's repetitions by distance. Then, from one dispatch to the last, logits as they
// were, by bias, place in the ring and distance, with whether they changed; and a word for each token, zero between
// dispatches.
RUNNEL_CONST kPastRecentAt = 0;
RUNNEL_CONST kPastDryAt = 1;
RUNNEL_CONST kPastRecent = 4;
RUNNEL_CONST kPastDry = kPastRecent + kMostLookedBack;
RUNNEL_CONST kPastLengths = kPastDry + kMostLookedBack;
RUNNEL_CONST kPastBiased = kPastLengths + kMostLookedBack;
RUNNEL_CONST kPastPenalised = kPastBiased + kMostBiases;           // pairs
RUNNEL_CONST kPastLowered = kPastPenalised + 2 * kMostLookedBack;  // pairs
RUNNEL_CONST kPastTokens = kPastLowered + 2 * kMostLookedBack;

RUNNEL_CONST kDrawBiasesAt = kDrawHeader + kMostTurns * kTurnWords;
RUNNEL_CONST kDrawLossesAt = kDrawBiasesAt + 2 * kMostBiases;
RUNNEL_CONST kDrawPastAt = kDrawLossesAt + kMostLookedBack;
RUNNEL_CONST kDrawBreakersAt = kDrawPastAt + kPastBiased;
RUNNEL_CONST kDrawGroups = 64;  // workgroups, at most kThreads

#ifdef __cplusplus
static_assert(sizeof(ChunkArgs) <= 128 && sizeof(MatvecArgs) <= 128 && sizeof(SlotArgs) <= 128 &&
              sizeof(RecurrenceArgs) <= 128);
}  // namespace runnel::vulkan
#endif
#endif
