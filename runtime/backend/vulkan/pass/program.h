// SPDX-License-Identifier: Apache-2.0
// A pass as a list of dispatches for one shape, and the command buffer made of it.
#pragma once

#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "runtime/backend/vulkan/memory/resident_model.h"

namespace runnel::vulkan {

/// The ops of a pass in order, as recorded through the seam.
struct RecordedOp {
  enum class Kind {
    embed,
    embedding_norm,
    projections,
    shifted_projections,
    slot_attention,
    gated_recurrence,
    output_projection,
    gated_mlp,
    squared_relu_mlp,
    logits
  };
  Kind kind;
  LayerSpec layer;  // of an op of a layer
  NormSpec norm;    // of logits and behind the embedding
};

/// For products on matrix units: rows of f16 in units of 8, padded with zeros to 32 columns.
struct TileBuffers {
  bool allowed = false;          // for matrices that tiles_take
  bool mlp = false;              // all matrices of all SwiGLUs
  Range inputs;                  // [T, max(D, HQ*V)]
  Range hidden;                  // [T, I]
  std::array<Range, 2> weights;  // unpacked: projections or gate and up; output or down
};

/// Rows and tokens of a workgroup of matmul_tiles.
inline constexpr std::uint32_t kTileRows = 128;

/// Units of a row of f16.
std::uint32_t tile_units(std::int64_t columns);

/// Whether matrix units can make products of it: f16 operands would cost f32 weights three digits.
bool tiles_take(const DeviceMatrix& w);

/// Passes of a chain of steps that are queued and not read yet, at most, plus one.
inline constexpr std::uint32_t kStepPlaces = 4;

/// What tokens are to layers of one kind: the words of layer_tokens.glsl.
struct TokenKind {
  std::uint64_t sinks = 0;
  std::uint64_t window = 0;
  bool recurrence = false;
  std::uint32_t at = kPassHeader;  // word of the pass buffer

  static TokenKind of(const LayerSpec& l);
  bool like(const TokenKind& other) const {
    return sinks == other.sinks && window == other.window && recurrence == other.recurrence;
  }
};

/// Buffers of one plan. Activations are rows of floats, as wide as the widest layer needs, padded to units of 8.
struct PlanBuffers {
  Buffer scratch;
  Buffer pass;         // see PassLayout
  Buffer pass_host;    // what the host writes: of a run, then of the places of queued steps
  Buffer logits;       // [rows, vocab]
  Buffer logits_host;  // copied at the end of each run, and after them the step's report
  Buffer act;          // of decode_step; without bytes: not used by this plan
  Range x;             // [T, D]              the residual stream
  Range inputs;        // [T, max(D, HQ*V)]   prepared inputs of products
  Range projected;     // [T, q | k | v | f]
  // [T, HQ, splits, 2 + V]; of a recurrence [T, HQ, columns]; rows as narrow as the layer's
  Range slots;
  Range features;  // [T, …] of a recurrence, see RecurrenceColumns
  Range hidden;    // [T, I]
  Range chunks;    // [chunks, H, M*(K+V)] memories, then [chunks, H, M] decays
  // For slots on matrix units; no bytes where slots go without them.
  Range slot_operands;              // [T, q | k | v | …] f16 and windows, see slots.glsl
  Range slot_memories;              // [chunks, H, M*(K+V)] f16
  Range shifted;                    // [inputs, T, max(D, rank)] of shifted ops
  Range first_v;                    // [T, H*V] values that a layer keeps for later ones
  std::uint64_t shifted_bytes = 0;  // from one input to the next
  std::uint32_t first_v_stride = 0;
  std::uint32_t x_stride = 0;
  std::uint32_t inputs_stride = 0;
  std::uint32_t projected_stride = 0;
  std::uint32_t hidden_stride = 0;
  std::uint32_t features_stride = 0;
  std::uint32_t chunk_decays = 0;  // where the decays lie, in floats
  std::uint32_t slot_window = 0;   // where the windows lie, in units of 8 f16
  std::uint32_t most_chunks = 0;   // 0: slots go token by token
  TileBuffers tiles;
  PassLayout layout{};
  std::uint32_t rotation_words = 0;      // of a token
  std::vector<TokenKind> token_kinds;    // the first behind the header
  std::vector<std::uint32_t> tokens_at;  // of each layer, into the pass buffer
  std::uint64_t host_stride = 0;         // bytes from one place of pass_host to the next

  Range whole_pass() const { return {pass.get(), 0, pass.bytes}; }
  Range host_pass(std::uint32_t place) const {
    return {pass_host.get(), place * host_stride, pass.bytes};
  }
  Range whole_logits() const { return {logits.get(), 0, logits.bytes}; }
};

/// What a command buffer is recorded for. A run uses the smallest shape that holds it.
struct PassShape {
  std::uint32_t tokens = 0;
  std::uint32_t items = 0;  // that go token by token
  std::uint32_t all_items = 0;
  std::uint32_t chunks = 0;
  std::uint32_t logit_rows = 0;      // of the logits command buffer; 0: this is the body
  std::vector<std::uint32_t> banks;  // of the states
  /// In a chain of steps: parameters that are copied are so by commands of their own, logits stay
  /// on the device, and several runs may be queued.
  bool step = false;
  bool embedded = false;      // the step before left this one's embedding
  bool makes_logits = false;  // in the one dispatch, and draws
  std::uint32_t place = 0;    // of pass_host that it reads itself
  /// Logits of a token whose body was one dispatch.
  bool after_one_dispatch = false;

  auto operator<=>(const PassShape&) const = default;
};

/// Recorded commands with what they need to stay alive.
struct Program {
  OwnedDescriptorPool descriptors;
  VkCommandBuffer commands = VK_NULL_HANDLE;
  std::size_t dispatches = 0;
  std::optional<Timestamps> timestamps;
};

/// Whether the body of a shape is the model's step program.
bool in_one_dispatch(const PlanBuffers& buffers, const PassShape& shape);

/// Whether all that follows the parameters reads them where the host wrote them: few dispatches do,
/// and a copy is a phase of its own.
bool reads_host(const ResidentModel& model, const PlanBuffers& buffers, const PassShape& shape);

struct Dispatch;  // pass_builder.h

/// One descriptor set per distinct list of bindings; returns that of each dispatch.
Result<std::vector<VkDescriptorSet>> make_sets(ResidentModel& model,
                                               const std::vector<Dispatch>& dispatches,
                                               OwnedDescriptorPool& pool);

/// A dispatch whose pipeline is bound.
void record_dispatch(const DeviceFunctions& f, VkCommandBuffer commands, VkPipelineLayout layout,
                     const Dispatch& d, VkDescriptorSet set);

/// Copies what the shape's dispatches read of the parameters from a place of pass_host: many
/// shaders that read the host's memory themselves would each wait for the bus. A barrier must follow.
void copy_parameters(const DeviceFunctions& f, VkCommandBuffer commands, const PlanBuffers& buffers,
                     const PassShape& shape, std::uint32_t place);

/// After what makes them: rows of logits, and the step's report where there is one, to the host.
void copy_logits(const DeviceFunctions& f, VkCommandBuffer commands, const ResidentModel& model,
                 const PlanBuffers& buffers, std::uint32_t rows);

/// Builds and records the program of a shape.
/// @param few_tokens  products read weights once per few tokens (matvec) instead of in tiles
///                    (matmul); a property of the plan, so that a token's bits do not depend on how
///                    many others share its pass
Result<Program> build_program(ResidentModel& model, const PlanBuffers& buffers,
                              const std::vector<RecordedOp>& ops, bool few_tokens,
                              const PassShape& shape, const OwnedCommandPool& pool);

}  // namespace runnel::vulkan
