// SPDX-License-Identifier: Apache-2.0
// Turns the ops of a pass into dispatches for one shape. The methods lie in pass_builder.cpp
// (embedding, MLP, logits), products.cpp, slot_passes.cpp, recurrence_passes.cpp
// and removal_passes.cpp.
#pragma once

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "runtime/backend/vulkan/pass/program.h"
#include "runtime/backend/vulkan/shader_constants.h"
#include "runtime/base/integers.h"
#include "runtime/base/try.h"

namespace runnel::vulkan {

/// Shared memory that slot_read and slot_read_broad stay within.
inline constexpr std::uint32_t kChunkSharedBytes = 31U << 10;

/// Whether slots of this model can go chunk by chunk on this device.
bool chunks_take(const Device& device, const ModelConfig& config);
/// Whether the products of slots that go chunk by chunk can be made of whole tiles; not with f32
/// weights, whose models would lose three digits.
bool slots_take_tiles(const ResidentModel& m);

struct Dispatch {
  std::string shader;
  VkPipeline pipeline = VK_NULL_HANDLE;
  std::array<Range, kBindings> bindings{};  // without a buffer: not used by the shader
  std::array<std::byte, kPushBytes> push{};
  std::uint32_t push_bytes = 0;
  std::array<std::uint32_t, 3> groups{1, 1, 1};
  bool after_all = true;  // reads what earlier dispatches wrote
};

/// Where the input of a product comes from.
struct ProductInput {
  std::uint32_t kind = kInputPlain;
  Range rows;
  InputArgs args{};
  std::uint32_t columns = 0;
  std::uint32_t activation = kIdentity;
  bool normalise = false;
  std::uint32_t value_dim = 1, splits = 1;  // kInputSlots
};

struct ProductOutput {
  std::uint32_t kind = kOutputStore;
  Range rows;
  std::uint32_t stride = 0;  // floats; of f16 rows units of 8
  std::uint32_t column = 0;
};

inline std::uint32_t ceil_div(std::uint64_t a, std::uint64_t b) {
  return static_cast<std::uint32_t>(divide_up(a, b));
}

/// The layer of an op: what was recorded, and what this device has of it.
struct PassLayer {
  const LayerSpec& spec;
  const DeviceLayer& weights;
  const SlotSplit& split;
  LayerState state;  // offsets within the layer

  int index() const { return spec.index; }
};

class PassBuilder {
 public:
  PassBuilder(ResidentModel& model, const PlanBuffers& buffers, bool few_tokens,
              const PassShape& shape)
      : m_(model), b_(buffers), few_tokens_(few_tokens), shape_(shape) {}

  Status add(const RecordedOp& op);
  /// The whole body of one token.
  Status add(const StepDispatch& step);

  std::vector<Dispatch> dispatches;

 private:
  PassLayer layer(const RecordedOp& op) const {
    const auto i = static_cast<std::size_t>(op.layer.index);
    return {op.layer, m_.weights->layers[i], m_.splits[i], LayerState::of(op.layer)};
  }

  template <class Args>
  Status dispatch(const std::string& shader, const std::vector<std::uint32_t>& constants,
                  const std::array<Range, kBindings>& bindings, const Args& args,
                  std::array<std::uint32_t, 3> groups, bool after_all = true) {
    static_assert(sizeof(Args) <= kPushBytes && sizeof(Args) % 4 == 0);
    Dispatch d{.shader = shader,
               .bindings = bindings,
               .push_bytes = sizeof(Args),
               .groups = groups,
               .after_all = after_all};
    std::memcpy(d.push.data(), &args, sizeof(Args));
    return add_dispatch(std::move(d), constants);
  }
  Status add_dispatch(Dispatch d, const std::vector<std::uint32_t>& constants);

  /// add(bank, its states of a layer, after_all) for each bank of the pass: each touches its own
  /// items, so only the first waits for what was before.
  template <class Add>
  Status for_banks(int layer, const Add& add, bool after_all = true) {
    for (const std::uint32_t bank : shape_.banks) {
      RUNNEL_CHECK_OK(add(bank, m_.states->layer(bank, layer), after_all));
      after_all = false;
    }
    return {};
  }

  Range parameters() const;  // of embed and step programs
  Status embed();
  Status projections(const PassLayer& l);
  Status add_biases(const PassLayer& l);
  Status short_convolutions(const PassLayer& l);
  Status slot_attention(const PassLayer& l);
  Status slots_token_by_token(const PassLayer& l, bool after_all);
  Status slots_by_chunks(const PassLayer& l);
  Status slots_on_tiles(const std::vector<std::uint32_t>& constants, ChunkArgs args,
                        const PassLayer& l);
  Status embedding_norm(const NormSpec& norm);
  /// What shift() makes inputs of.
  struct Shift {
    NormSpec norm;
    DeviceNorm weights;
    std::uint32_t lerp = kNone;  // [inputs, D]
    std::uint32_t inputs = 0;
    std::size_t tail = 0;  // of the last row in the layer's state
  };
  /// Rows between norm(x) of a token and of the one before, one for each input; advances the state.
  Status shift(const PassLayer& l, const Shift& s);
  ProductInput shifted_input(std::size_t input, std::uint32_t columns) const;
  Status shifted_projections(const PassLayer& l);
  Status mix_values(const PassLayer& l);
  Status removal(const PassLayer& l);
  Status gated_recurrence(const PassLayer& l);
  Status recurrence_output(const PassLayer& l);
  Status output_projection(const PassLayer& l);
  Status slot_output(const PassLayer& l);
  Status gated_mlp(const PassLayer& l);
  Status squared_relu_mlp(const PassLayer& l);
  Status logits(const NormSpec& norm);
  Status head_of_step(const StepHead& head);

  /// Rows that products of this program compute at most.
  std::uint32_t rows() const { return shape_.logit_rows > 0 ? shape_.logit_rows : shape_.tokens; }
  std::uint32_t count_at() const { return shape_.logit_rows > 0 ? kPassRows : kPassTokens; }
  /// norm(x): a product's own where it is an RMSNorm, else rows that a dispatch prepares here.
  Result<ProductInput> normed(const NormSpec& norm, const DeviceNorm& weights);
  ProductInput plain(const Range& rows, std::uint32_t stride, std::uint32_t columns) const;
  bool fuses(const ProductInput& in) const;
  std::vector<std::uint32_t> input_constants(const ProductInput& in) const;
  /// Returns the input that products read: itself where they prepare it, else prepared rows.
  Result<ProductInput> prepare(const ProductInput& in, bool after_all = true);
  /// @param overlaps  writes what the dispatch before does not touch, and needs the same input
  Status product(const DeviceMatrix& w, const ProductInput& in, const ProductOutput& out,
                 bool overlaps = false);

  /// The way of many tokens on matrix units: rows of f16, weights of f16, tiles.
  bool on_tiles(const DeviceMatrix& w) const { return b_.tiles.allowed && tiles_take(w); }
  Status prepare_tiles(const ProductInput& in, bool after_all = true);
  /// @param matrices  one below the other;  @param area  of unpacked weights, 0 or 1
  Status unpack(std::span<const DeviceMatrix* const> matrices, std::size_t area,
                bool swiglu = false, bool after_all = false);
  Status product_on_tiles(std::span<const DeviceMatrix* const> matrices, std::size_t area,
                          const Range& input, const ProductOutput& out);

  static std::vector<std::uint32_t> recurrence_constants(const LayerSpec& l, std::uint32_t share,
                                                         std::uint32_t keys);

  ResidentModel& m_;
  const PlanBuffers& b_;
  bool few_tokens_;
  const PassShape& shape_;
  /// The last dispatch was a barrier after slot_read: what reads its outputs needs none.
  bool slots_read_ = false;
  /// Those of the layer whose mixer is being added, see PlanBuffers.
  std::uint32_t tokens_at_ = kPassHeader;
};

}  // namespace runnel::vulkan
