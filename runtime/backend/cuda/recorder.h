// SPDX-License-Identifier: Apache-2.0
// Records the ops of a pass as closures that launch kernels on a plan's buffers.
#pragma once

#include <functional>
#include <vector>

#include "cuda/head_norm.h"
#include "cuda/prefill.h"
#include "cuda/removal.h"
#include "runtime/backend/cuda/resident_model.h"
#include "runtime/backend/pass_probe.h"

namespace runnel::cuda {

/// Device buffers of a plan for N tokens, as large as the largest layer needs. Shapes as in launch.h; C = input_columns.
struct PlanBuffers {
  DeviceArray<std::int32_t> tokens;   // [N]
  DeviceArray<Segment> segments;      // [N]
  DeviceArray<float> x;               // [N, D]
  DeviceArray<float> inputs;          // [N, C]
  DeviceArray<float> raw;             // [N, C], with convolutions
  DeviceArray<float> normed;          // [N, D], with LayerNorms or shifted ops
  DeviceArray<float> o;               // [N, HQ*V]
  DeviceArray<float> gate_up;         // [N, 2 I], or [N, I] of a squared ReLU
  DeviceArray<float> h;               // [N, I]
  DeviceArray<std::int32_t> h_words;  // [N, I/4]
  DeviceArray<int2> h_meta;           // [N, I/32]
  DeviceArray<float> logits;          // [kLogitRows, vocab]
  // Passes of many tokens only:
  DeviceArray<std::uint16_t> operand;   // [N, max(D, HQ*V, I)] bf16, or
  DeviceArray<float> operand_f32;       //   the same in f32
  DeviceArray<std::uint16_t> unpacked;  // a matrix as bf16
  // Recurrences only, shapes as in cuda/recurrence.h:
  DeviceArray<float> features_q, features_k, slot_keys, decays, slot_logits, maxima, before;
  DeviceArray<int> arrived;
  DeviceArray<std::uint16_t> map_rows, map_weights;  // see split_map
  DeviceArray<float> map_products;
  DeviceArray<float> y;  // [N, HQ*V] normed and gated
  // Removals and shifted ops only, see cuda/removal.h:
  DeviceArray<float> removal_c, removal_b, bonus;
  DeviceArray<float> removal_taken, removal_kept;  // passes of many tokens, see RemovalChunks
  DeviceArray<float> shifted;                      // [inputs, N, max(D, rank)]
  DeviceArray<float> first_v;                      // [N, H*V]
  DeviceArray<std::uint16_t> slot_pool;            // see Recorder::chunk_operands
};
inline constexpr int kLogitRows = 32;

/// Where a row of the inputs of a recurrence has what; see projection_groups.
RecurrenceColumns recurrence_columns(const LayerSpec& layer);

/// Columns of a row of a mixer's inputs, with padding.
int input_columns(const LayerSpec& layer);

/// Rows of a buffer between ops.
struct ProbedRows {
  float* first = nullptr;
  std::size_t stride = 0;  // bytes
};

/// One pass as the closures see it.
struct Pass {
  Launch launch;
  int tokens = 0;
  int num_segments = 0;
  bool many = false;  // matrix products instead of matrix-vector products
  /// With `many`: rows of x before this one are not read after the last layer, so what only makes
  /// them is left out there.
  int first_wanted = 0;
  // of x and o that an op of `tokens` rows works on; not 0 in the last layer alone
  int first_row = 0;

  /// For a kernel of few blocks that walk the tokens, what it reads and what reads it. With many tokens none starts
  /// early: blocks that wait would hold places, so that the walk's share multiprocessors while others stand idle.
  Launch apart() const {
    Launch l = launch;
    l.chain = l.chain && !many;
    return l;
  }
};

class Recorder final : public Ops {
 public:
  using Step = std::function<Status(const Pass&)>;

  static Result<std::unique_ptr<Recorder>> create(std::shared_ptr<ResidentModel> model,
                                                  int max_tokens);

  Status embed(const WeightView& table) override;
  Status embedding_norm(const NormSpec& norm, const NormWeights& weights) override;
  Status shifted_projections(const LayerSpec& layer, const RecurrenceWeights& weights) override;
  Status slot_projections(const LayerSpec& layer, const SlotWeights& weights) override;
  Status slot_attention(const LayerSpec& layer, const SlotWeights& weights) override;
  Status recurrence_projections(const LayerSpec& layer, const RecurrenceWeights& weights) override;
  Status gated_recurrence(const LayerSpec& layer, const RecurrenceWeights& weights) override;
  Status output_projection(const LayerSpec& layer, const OutputWeights& weights) override;
  Status gated_mlp(const LayerSpec& layer, const ChannelMixWeights& weights) override;
  Status squared_relu_mlp(const LayerSpec& layer, const ChannelMixWeights& weights) override;
  Status logits(const NormSpec& norm, const NormWeights& norm_weights,
                const WeightView& head) override;

  /// Every op but the head.
  Status run(const Pass& pass) const;
  /// Logits of rows [first, first + count) of x into the logit buffer; count <= kLogitRows.
  Status run_head(const Launch& launch, int first, int count) const;

  /// Whether the pass has a head. Without one all rows of x are wanted.
  bool has_head() const { return has_head_; }

  const PlanBuffers& buffers() const { return b_; }
  /// Where the rows of a buffer lie that the layer has.
  ProbedRows probed(PassBuffer buffer, const LayerSpec& layer) const;

 private:
  explicit Recorder(std::shared_ptr<ResidentModel> model) : m_(std::move(model)) {}
  // recorder_buffers.cpp
  Status allocate(int max_tokens);
  Status allocate_inputs(std::uint64_t& bytes);
  Status allocate_channel_mix(std::uint64_t& bytes);
  Status allocate_recurrences(std::uint64_t& bytes);
  Status allocate_maps(std::uint64_t& bytes);
  Status allocate_many(std::uint64_t& bytes);

  /// unsupported, if this device cannot compute the layer's mixer.
  Status check_mixer(const LayerSpec& layer) const;
  /// The layer's weights on the device.
  const DeviceLayer& weights_of(const LayerSpec& layer) const {
    return m_->weights.layers[static_cast<std::size_t>(layer.index)];
  }
  std::size_t hidden() const { return static_cast<std::size_t>(m_->config.hidden_size); }

  // recurrence.cpp
  Recurrence recurrence(const LayerSpec& layer) const;
  /// Features by matrices of heads, for many tokens.
  Status map_products(const Pass& pass, const Recurrence& a) const;
  // removal.cpp
  /// norm(x) of every row into `out`, f32; x itself may be it.
  Status norm_into(const Pass& pass, const NormSpec& norm, const DeviceNorm& weights,
                   float* out) const;
  /// What shift() makes inputs of.
  struct Shift {
    NormSpec norm;
    const DeviceNorm* weights = nullptr;
    const float* lerp = nullptr;
    int inputs = 0;
    std::size_t offset = 0;  // of the last row in a state
  };
  /// Rows between norm(x) of a token and of the one before, one for each input; advances the states.
  Status shift(const Pass& pass, const Shift& s) const;
  float* shifted_input(std::size_t input) const;
  /// Whether shift_rounded() makes the operand of a product with m, given where a state keeps the last row.
  bool shifts_rounded(const Pass& pass, const Matrix& m, std::size_t offset) const;
  /// The same as shift(), as operands of matrix products: bf16, each input input_values after the one before.
  Status shift_rounded(const Pass& pass, const Shift& s, std::uint16_t* out,
                       std::size_t input_values) const;
  /// Whether all products of shifted projections take such operands.
  bool rounds_projections(const Pass& pass, const LayerSpec& layer) const;
  Status project_rounded(const Pass& pass, const LayerSpec& layer) const;
  Status mix_first_values(const Pass& pass, const LayerSpec& layer) const;
  /// Columns from `column` of the mixer's inputs <- W x of dense rows of n.
  Status product_of_rows(const Pass& pass, const float* x, const Matrix& m, int n, int column,
                         int stride) const;
  Status project_shifted(const Pass& pass, const LayerSpec& layer) const;
  RemovalLayer removal_layer(const LayerSpec& layer) const;
  Status removal(const LayerSpec& layer);
  Status bonus_output_projection(const LayerSpec& layer);
  Status allocate_removals(std::uint64_t& bytes);

  /// With norms of heads, an output gate or a normalizer: what slots do not have.
  Status gated_output_projection(const LayerSpec& layer);

  // recorder_prefill.cpp: passes of many tokens through the kernels of prefill.h.
  ChunkOperands chunk_operands(const LayerSpec& layer) const;
  std::size_t slot_pool_values(const LayerSpec& layer, ChunkOperands* o) const;
  bool takes_wide(const Pass& pass, const Matrix& m) const;
  /// Whether passes of many tokens go chunk by chunk. With biases on q, k and v only where the keys' can be taken out
  /// of what is rounded to bf16 (SlotMixer::k_bias), since they may be 200.
  bool chunkwise(const LayerSpec& layer, const SlotMixer& mixer) const;
  /// Whether the slots take their operands as the projections of this layer leave them.
  bool fuses_slots(const Pass& pass, const LayerSpec& layer) const;
  Status project_slots(const Pass& pass, const LayerSpec& layer) const;
  Status many_slots(const Pass& pass, const LayerSpec& layer, const SlotMixer& m) const;
  Status output_rows(const Pass& pass, const LayerSpec& layer) const;
  /// Whether the broad chunkwise kernels take this layer's slots.
  bool broad_slots(const Pass& pass, const LayerSpec& layer) const;
  /// Whether the slots add the biases of q, k and v themselves.
  bool defers_biases(const Pass& pass, const LayerSpec& layer) const;
  /// Whether the slots leave what output_rows takes: bf16.
  bool reads_bf16(const Pass& pass, const LayerSpec& layer) const;
  bool fuses_swiglu(const Pass& pass, const LayerSpec& layer) const;
  Status fused_swiglu(const Pass& pass, const LayerSpec& layer) const;
  Result<const void*> as_bf16(const Pass& pass, const Matrix& m) const;

  // recorder_mlp.cpp
  Status swiglu(const Pass& pass, const LayerSpec& layer) const;
  Status many_swiglu(const Pass& pass, const LayerSpec& layer) const;
  Status squared_relu(const Pass& pass, const LayerSpec& layer) const;
  bool rounds_squared_relu(const Pass& pass, const LayerSpec& layer) const;
  Status rounded_squared_relu(const Pass& pass, const LayerSpec& layer) const;

  SlotMixer mixer(const LayerSpec& layer, bool prepared) const;
  /// What a product takes in.
  struct Linear {
    const float* x = nullptr;
    int n = 0;
    Act act = Act::identity;
    const float* norm_weight = nullptr;
    bool normalise = false;
    float eps = 0.0F;
    HeadNorm heads;  // of few tokens
  };
  /// Rows of the residual stream through a norm: an RMSNorm becomes a part of the product, a LayerNorm is computed now.
  Result<Linear> normed(const Pass& pass, const float* x, const NormSpec& norm,
                        const DeviceNorm& weights) const;
  /// The operand of a product of many tokens.
  Rows rows_of(const Linear& in, void* out) const;
  /// out[t, column + r] (+)= W f(x): by matvec or as a matrix product, as the pass wants.
  Status linear(const Pass& pass, const Linear& in, std::span<const DeviceProjection> to,
                float* out, int out_stride, bool add) const;
  /// Adds the biases of q, k and v to the mixer's inputs, from this column on.
  Status add_biases(const Pass& pass, const LayerSpec& layer, int column) const;
  /// The pass as the ops behind the last layer's mixer see it: rows that are wanted.
  Pass behind_mixer(const Pass& pass, const LayerSpec& layer) const;
  /// C [T, rows of m] (+)= A mᵀ, as `to` says; A is bf16, or f32 as m is.
  /// @param to  store_f32, add_f32 or store_bf16
  Status multiply(const Pass& pass, const Matrix& m, const void* a, int lda, void* c, int ldc,
                  WideOutput to) const;
  /// The product of bf16 matrices by the fastest kernel that takes it.
  Status multiply_bf16(const Pass& pass, const Matmul& p, bool wide) const;

  std::shared_ptr<ResidentModel> m_;
  PlanBuffers b_;
  StateLayout layout_;
  std::vector<Step> steps_;
  NormSpec final_norm_;
  bool has_head_ = false;
  int max_tokens_ = 0;
  std::size_t shifted_floats_ = 0;   // from one shifted input to the next
  std::size_t arrived_a_layer_ = 0;  // of PlanBuffers::arrived
};

}  // namespace runnel::cuda
