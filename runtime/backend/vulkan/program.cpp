// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/vulkan/program.h"

#include <algorithm>
#include <bit>

#include "runtime/backend/vulkan/packed_matrix.h"
#include "runtime/base/try.h"

namespace runnel::vulkan {
namespace {

using quant::BlockType;

struct Dispatch {
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
};

struct ProductOutput {
  std::uint32_t kind = kOutputStore;
  Range rows;
  std::uint32_t stride = 0;
  std::uint32_t column = 0;
};

std::uint32_t bits(Activation a) {
  switch (a) {
    case Activation::identity:
      return kIdentity;
    case Activation::swish:
      return kSwish;
    case Activation::relu:
      return kRelu;
  }
  return kIdentity;
}

/// The elementwise part of a feature map; t2r is a product of its own, done before.
std::uint32_t bits(FeatureMap m) {
  switch (m) {
    case FeatureMap::swish:
      return kSwish;
    case FeatureMap::relu:
      return kRelu;
    default:
      return kIdentity;
  }
  return kIdentity;
}

std::uint32_t ceil_div(std::uint64_t a, std::uint64_t b) {
  return static_cast<std::uint32_t>((a + b - 1) / b);
}

class Builder {
 public:
  Builder(ResidentModel& model, const PassBuffers& buffers, bool few_tokens, const PassShape& shape)
      : m_(model), b_(buffers), few_tokens_(few_tokens), shape_(shape) {}

  Status add(const RecordedOp& op) {
    using Kind = RecordedOp::Kind;
    const bool body = shape_.logit_rows == 0;
    if (body != (op.kind != Kind::logits)) return {};
    switch (op.kind) {
      case Kind::embed:
        return embed();
      case Kind::slot_projections:
        return slot_projections(layer(op));
      case Kind::slot_attention:
        return slot_attention(layer(op), op.layer);
      case Kind::gated_recurrence:
        return gated_recurrence(layer(op), op.layer);
      case Kind::output_projection:
        return output_projection(layer(op));
      case Kind::gated_mlp:
        return gated_mlp(layer(op));
      case Kind::logits:
        return logits();
    }
    return {};
  }

  std::vector<Dispatch> dispatches;

 private:
  const DeviceLayer& layer(const RecordedOp& op) const {
    return m_.weights->layers[static_cast<std::size_t>(op.layer)];
  }

  template <class Args>
  Status dispatch(const std::string& shader, const std::vector<std::uint32_t>& constants,
                  const std::array<Range, kBindings>& bindings, const Args& args,
                  std::array<std::uint32_t, 3> groups, bool after_all = true) {
    static_assert(sizeof(Args) <= kPushBytes && sizeof(Args) % 4 == 0);
    Dispatch d{
        .bindings = bindings, .push_bytes = sizeof(Args), .groups = groups, .after_all = after_all};
    RUNNEL_TRY(d.pipeline, m_.pipelines->get(shader, constants));
    std::memcpy(d.push.data(), &args, sizeof(Args));
    for (const Range& range : d.bindings) {
      if (range.bytes > m_.device->capabilities().storage_range) {
        return fail(ErrorCode::unsupported, m_.device->id(), ": ", shader, ": a binding of ",
                    range.bytes, " bytes, expected at most ",
                    m_.device->capabilities().storage_range);
      }
    }
    dispatches.push_back(d);
    return {};
  }

  static std::string typed(const char* shader, BlockType type) {
    return std::string(shader) + "." + std::string(quant::block_traits(type)->name);
  }

  Status embed() {
    const DeviceMatrix& table = m_.weights->embeddings;
    const std::uint32_t units = units_of(table.cols);
    bool first = true;
    for (const DeviceMatrix::Part& part : table.parts) {
      const EmbedArgs args{.w = part.rows, .x_stride = b_.x_stride};
      RUNNEL_CHECK_OK(dispatch(typed("embed", table.type), {units},
                               {part.range, b_.x, b_.whole_pass()}, args,
                               {ceil_div(units, kThreads), shape_.tokens, 1}, first));
      first = false;  // parts write different rows
    }
    return {};
  }

  /// Whether a product of one token prepares its input itself.
  bool fuses(const ProductInput& in) const {
    const std::uint64_t needed = std::uint64_t{units_of(in.columns)} * kUnit * 4 + 4 * kThreads;
    return (few_tokens_ || shape_.logit_rows > 0) && rows() == 1 && in.kind != kInputPlain &&
           needed <= m_.device->capabilities().shared_bytes;
  }

  /// Rows that products of this program compute at most.
  std::uint32_t rows() const { return shape_.logit_rows > 0 ? shape_.logit_rows : shape_.tokens; }
  std::uint32_t count_at() const { return shape_.logit_rows > 0 ? kPassRows : kPassTokens; }

  std::vector<std::uint32_t> input_constants(const ProductInput& in) const {
    const bool slots = in.kind == kInputSlots;
    return {in.kind,
            in.columns,
            in.activation,
            in.normalise ? 1U : 0U,
            slots ? static_cast<std::uint32_t>(m_.config.head_v_dim) : 1U,
            slots ? m_.slots.splits : 1U};
  }

  /// Returns the input that products read: itself where they prepare it, else prepared rows.
  Result<ProductInput> prepare(const ProductInput& in) {
    if (in.kind == kInputPlain || fuses(in)) return in;
    const RowsArgs args{.in_ = in.args, .out_stride = b_.inputs_stride, .count_at = count_at()};
    std::vector<std::uint32_t> constants{1};  // id 1 belongs to weights
    const std::vector<std::uint32_t> input = input_constants(in);
    constants.insert(constants.end(), input.begin(), input.end());
    RUNNEL_CHECK_OK(dispatch("rows", constants,
                             {in.rows, m_.weights->vectors(), b_.inputs, b_.whole_pass()}, args,
                             {rows(), 1, 1}));
    return ProductInput{
        .kind = kInputPlain,
        .rows = b_.inputs,
        .args = {.stride = b_.inputs_stride, .norm_weight = kNone, .eps = 0.0F, .rows_at = kNone},
        .columns = in.columns};
  }

  /// @param beside  writes something that the dispatch before does not touch, and needs the same
  Status product(const DeviceMatrix& w, const ProductInput& in, const ProductOutput& out,
                 bool beside = false) {
    bool after_all = !beside;
    for (const DeviceMatrix::Part& part : w.parts) {
      const MatvecArgs args{.w = part.rows,
                            .in_ = in.args,
                            .out_stride = out.stride,
                            .out_column = out.column,
                            .count_at = count_at()};
      const std::array<Range, kBindings> bindings{part.range, in.rows, m_.weights->vectors(),
                                                  out.rows, b_.whole_pass()};
      const std::uint32_t units = units_of(w.cols);
      std::vector<std::uint32_t> constants{units};
      const std::vector<std::uint32_t> input = input_constants(in);
      constants.insert(constants.end(), input.begin(), input.end());
      if (few_tokens_ || shape_.logit_rows > 0) {
        const std::uint32_t tokens = std::min(std::bit_ceil(rows()), 8U);
        const std::uint32_t row_team = team_for(units);
        const bool pairs = out.kind == kOutputSwigluPairs;
        const std::uint32_t team_rows = part.rows.rows >= 16384           ? 4U
                                        : part.rows.rows >= 2048 || pairs ? 2U
                                                                          : 1U;
        constants.insert(constants.end(), {row_team, team_rows, tokens, out.kind});
        RUNNEL_CHECK_OK(dispatch(typed("matvec", w.type), constants, bindings, args,
                                 {ceil_div(part.rows.rows, kThreads / row_team * team_rows),
                                  ceil_div(rows(), tokens), 1},
                                 after_all));
      } else {
        constants.insert(constants.end(), {1, 1, 1, out.kind});
        const bool tiles = m_.device->capabilities().cooperative_matrix && w.type != BlockType::f32;
        RUNNEL_CHECK_OK(
            dispatch(typed(tiles ? "matmul_tiles" : "matmul", w.type), constants, bindings, args,
                     {ceil_div(part.rows.rows, 64), ceil_div(rows(), 64), 1}, after_all));
      }
      after_all = false;  // parts write different columns
    }
    return {};
  }

  /// Lanes of a row: enough that a step of all of them is at most one row, at most a subgroup
  /// of 32.
  static std::uint32_t team_for(std::uint32_t units) {
    return std::clamp(std::bit_floor(units), 4U, 32U);
  }

  ProductInput normed(const Range& rows, std::uint32_t stride, std::uint32_t norm) const {
    return {.kind = kInputNorm,
            .rows = rows,
            .args = {.stride = stride,
                     .norm_weight = norm,
                     .eps = m_.config.norm_eps,
                     .rows_at = shape_.logit_rows > 0 ? b_.layout.rows : kNone},
            .columns = static_cast<std::uint32_t>(m_.config.hidden_size),
            .normalise = true};
  }

  Status slot_projections(const DeviceLayer& w) {
    RUNNEL_TRY(const ProductInput in, prepare(normed(b_.x, b_.x_stride, w.attn_norm)));
    bool beside = false;
    for (const DeviceProjection& p : w.projections) {
      RUNNEL_CHECK_OK(product(p.matrix, in,
                              {.kind = kOutputStore,
                               .rows = b_.projected,
                               .stride = b_.projected_stride,
                               .column = p.out_column},
                              beside));
      beside = true;
    }
    return {};
  }

  /// On q, k (or f) and v, in place.
  Status short_convolutions(const DeviceLayer& w, int layer) {
    const ModelConfig& c = m_.config;
    const auto layer_floats = static_cast<std::uint32_t>(m_.layout.layer_floats());
    if (c.conv_size > 0) {
      const std::uint32_t channels = m_.q_columns() + m_.k_columns() + m_.v_columns();
      bool first = true;
      for (const std::uint32_t bank : shape_.banks) {
        const ConvArgs args{.stride = b_.projected_stride,
                            .channels = channels,
                            .taps = static_cast<std::uint32_t>(c.conv_size),
                            .weights = w.conv,
                            .tail = static_cast<std::uint32_t>(m_.layout.q_conv_offset(0)),
                            .layer_floats = layer_floats,
                            .bank = bank,
                            .items_at = b_.layout.items,
                            .silu = c.conv_silu ? 1U : 0U};
        RUNNEL_CHECK_OK(dispatch(
            "short_conv", {args.taps},
            {b_.projected, m_.states->layer(bank, layer), m_.weights->vectors(), b_.whole_pass()},
            args, {ceil_div(channels, kThreads), shape_.items, 1}, first));
        first = false;
      }
    }
    return {};
  }

  Status slot_attention(const DeviceLayer& w, int layer) {
    const ModelConfig& c = m_.config;
    const auto layer_floats = static_cast<std::uint32_t>(m_.layout.layer_floats());
    RUNNEL_CHECK_OK(short_convolutions(w, layer));
    if (c.feature_map == FeatureMap::t2r) {
      const MapArgs args{.stride = b_.projected_stride, .matrix = w.feature_map};
      RUNNEL_CHECK_OK(
          dispatch("feature_map", {static_cast<std::uint32_t>(c.head_k_dim)},
                   {b_.projected, m_.weights->vectors(), b_.whole_pass()}, args,
                   {static_cast<std::uint32_t>(c.num_heads + c.num_kv_heads), shape_.tokens, 1}));
    }
    const std::vector<std::uint32_t> constants{static_cast<std::uint32_t>(c.head_k_dim),
                                               static_cast<std::uint32_t>(c.head_v_dim),
                                               static_cast<std::uint32_t>(c.num_memory_slots),
                                               static_cast<std::uint32_t>(c.num_sink_slots),
                                               static_cast<std::uint32_t>(c.num_window_slots),
                                               static_cast<std::uint32_t>(c.queries_per_kv_head()),
                                               static_cast<std::uint32_t>(c.num_kv_heads),
                                               m_.slots.splits,
                                               m_.slots.share,
                                               m_.slots.team,
                                               bits(c.feature_map),
                                               bits(c.value_activation)};
    bool first = true;
    for (const std::uint32_t bank : shape_.banks) {
      const SlotArgs args{.pass = b_.layout,
                          .stride = b_.projected_stride,
                          .layer_floats = layer_floats,
                          .bank = bank,
                          .gate_bias = w.f_bias,
                          .read_bias = w.read_bias,
                          .head_read_bias = w.head_read_bias,
                          .scale = c.scale,
                          .gate_normalizer = c.gate_normalizer,
                          .gate_log_min = c.gate_log_min};
      RUNNEL_CHECK_OK(dispatch(
          "slot_attention", constants,
          {b_.projected, m_.states->layer(bank, layer), b_.slots, m_.weights->vectors(),
           b_.whole_pass()},
          args, {m_.slots.splits, static_cast<std::uint32_t>(c.num_kv_heads), shape_.items},
          first));
      first = false;
    }
    return {};
  }

  Status gated_recurrence(const DeviceLayer& w, int layer) {
    const ModelConfig& c = m_.config;
    const RecurrenceColumns at = RecurrenceColumns::of(c);
    const auto u = [](std::size_t n) { return static_cast<std::uint32_t>(n); };
    RUNNEL_CHECK_OK(short_convolutions(w, layer));
    RecurrenceArgs args{.stride = b_.projected_stride,
                        .at_q = at.q,
                        .at_k = at.k,
                        .at_v = at.v,
                        .at_f = at.f,
                        .at_low = at.low,
                        .at_r = at.r,
                        .feature_stride = b_.features_stride,
                        .queries = at.queries,
                        .keys = at.keys,
                        .slot_keys = at.slot_keys,
                        .decays = at.decays,
                        .slot_logits = at.slot_logits,
                        .rotations = b_.layout.rotations,
                        .items_at = b_.layout.items,
                        .layer_floats = u(m_.layout.layer_floats()),
                        .head_floats = u(m_.layout.head_floats()),
                        .values = u(m_.layout.keys_floats()),
                        .extra = u(m_.layout.keys_floats() + m_.layout.values_floats()),
                        .bank = 0,
                        .f_up = w.f_up,
                        .f_bias = w.f_bias,
                        .r_bias = w.r_bias,
                        .lower_bound = w.lower_bound,
                        .maps = w.maps,
                        .scale = c.scale,
                        .tau = c.gate_normalizer,
                        .floor_ = c.gate_log_min,
                        .clamp_min = c.gate_logit_min,
                        .clamp_max = c.gate_logit_max};
    const auto heads = static_cast<std::uint32_t>(c.num_heads),
               kv_heads = static_cast<std::uint32_t>(c.num_kv_heads),
               slots = static_cast<std::uint32_t>(c.num_memory_slots);
    const Range vectors = m_.weights->vectors(), pass = b_.whole_pass();
    const std::uint32_t decays = c.decay == Decay::none ? 0 : kv_heads;
    RUNNEL_CHECK_OK(dispatch("gated_recurrence.inputs", recurrence_constants(1, 0),
                             {b_.projected, b_.features, vectors, pass}, args,
                             {heads + kv_heads + decays, shape_.tokens, 1}));
    const auto banks = [&](const char* shader, const std::vector<std::uint32_t>& constants,
                           std::array<std::uint32_t, 3> groups) -> Status {
      bool first = true;
      for (const std::uint32_t bank : shape_.banks) {
        args.bank = bank;
        RUNNEL_CHECK_OK(
            dispatch(shader, constants,
                     {b_.projected, b_.features, b_.slots, pass, m_.states->layer(bank, layer)},
                     args, groups, first));
        first = false;
      }
      return {};
    };
    if (c.decay == Decay::running_sum || c.feature_map == FeatureMap::exponential) {
      RUNNEL_CHECK_OK(
          banks("gated_recurrence.scan", recurrence_constants(1, 0), {kv_heads, shape_.items, 1}));
    }
    constexpr std::uint32_t kColumns = 16, kGroups = kThreads / kColumns;
    if (slots > 0) {
      const std::uint32_t share = ceil_div(static_cast<std::uint32_t>(c.head_k_dim), kGroups);
      RUNNEL_CHECK_OK(banks("gated_recurrence.core", recurrence_constants(share, 1),
                            {ceil_div(slots, kColumns), kv_heads, shape_.items}));
      RUNNEL_CHECK_OK(dispatch("gated_recurrence.softmax", recurrence_constants(1, 0),
                               {b_.projected, b_.features, vectors, pass}, args,
                               {heads, shape_.tokens, 1}));
    }
    const std::uint32_t rows = slots > 0 ? slots : static_cast<std::uint32_t>(c.feature_dim());
    const auto columns = static_cast<std::uint32_t>(c.value_columns());
    return banks("gated_recurrence.core", recurrence_constants(ceil_div(rows, kGroups), 0),
                 {ceil_div(columns, kColumns), kv_heads, shape_.items});
  }

  /// @param share  rows of a thread;  keys  1: the pass over the slots' keys
  std::vector<std::uint32_t> recurrence_constants(std::uint32_t share, std::uint32_t keys) const {
    const ModelConfig& c = m_.config;
    const auto u = [](std::int32_t n) { return static_cast<std::uint32_t>(n); };
    const auto flag = [](bool set, std::uint32_t bit) { return set ? bit : 0U; };
    const std::uint32_t flags =
        flag(c.decay_on_values, kFlagOnValues) | flag(c.complement_keys, kFlagComplement) |
        flag(c.rotary, kFlagRotary) | flag(c.feature_norm_q, kFlagNormQ) |
        flag(c.feature_norm_k, kFlagNormK) | flag(c.normalizer, kFlagNormalizer) |
        flag(c.output_norm, kFlagNorm) | flag(c.output_norm_heads, kFlagNormHeads) |
        flag(c.output_gate, kFlagGate);
    return {u(c.head_k_dim),
            u(c.feature_dim()),
            u(c.head_v_dim),
            u(c.value_columns()),
            u(c.num_memory_slots),
            u(c.num_heads),
            u(c.num_kv_heads),
            u(c.gate_dim()),
            RecurrenceColumns::of(c).decay_lanes,
            static_cast<std::uint32_t>(c.decay),
            static_cast<std::uint32_t>(c.feature_map),
            flags,
            u(c.gate_rank),
            share,
            keys};
  }

  Status recurrence_output(const DeviceLayer& w) {
    const ModelConfig& c = m_.config;
    const RecurrenceOutputArgs args{.stride = b_.projected_stride,
                                    .at_gate = RecurrenceColumns::of(c).gate,
                                    .weight = w.g_norm,
                                    .eps = c.g_norm_eps,
                                    .out_stride = b_.inputs_stride};
    RUNNEL_CHECK_OK(
        dispatch("gated_recurrence.output", recurrence_constants(1, 0),
                 {b_.projected, b_.inputs, m_.weights->vectors(), b_.whole_pass(), b_.slots}, args,
                 {shape_.tokens, 1, 1}));
    const ProductInput in{
        .kind = kInputPlain,
        .rows = b_.inputs,
        .args = {.stride = b_.inputs_stride, .norm_weight = kNone, .eps = 0.0F, .rows_at = kNone},
        .columns = m_.o_columns()};
    return product(w.o_proj, in, {.kind = kOutputAdd, .rows = b_.x, .stride = b_.x_stride});
  }

  Status output_projection(const DeviceLayer& w) {
    if (m_.config.mixer == Mixer::recurrence) return recurrence_output(w);
    RUNNEL_TRY(const ProductInput in, prepare({.kind = kInputSlots,
                                               .rows = b_.slots,
                                               .args = {.stride = b_.slots_stride,
                                                        .norm_weight = w.g_norm,
                                                        .eps = m_.config.g_norm_eps,
                                                        .rows_at = kNone},
                                               .columns = m_.o_columns(),
                                               .activation = bits(m_.config.output_activation),
                                               .normalise = m_.config.output_norm}));
    return product(w.o_proj, in, {.kind = kOutputAdd, .rows = b_.x, .stride = b_.x_stride});
  }

  Status gated_mlp(const DeviceLayer& w) {
    RUNNEL_TRY(const ProductInput in, prepare(normed(b_.x, b_.x_stride, w.mlp_norm)));
    ProductOutput hidden{.kind = kOutputSwigluPairs, .rows = b_.hidden, .stride = b_.hidden_stride};
    if (w.gate_up.size() == 1) {
      RUNNEL_CHECK_OK(product(w.gate_up[0], in, hidden));
    } else {
      hidden.kind = kOutputStore;
      RUNNEL_CHECK_OK(product(w.gate_up[0], in, hidden));
      hidden.kind = kOutputSwigluWith;
      RUNNEL_CHECK_OK(product(w.gate_up[1], in, hidden));
    }
    const ProductInput inner{
        .kind = kInputPlain,
        .rows = b_.hidden,
        .args = {.stride = b_.hidden_stride, .norm_weight = kNone, .eps = 0.0F, .rows_at = kNone},
        .columns = static_cast<std::uint32_t>(m_.config.intermediate_size)};
    return product(w.down_proj, inner, {.kind = kOutputAdd, .rows = b_.x, .stride = b_.x_stride});
  }

  Status logits() {
    RUNNEL_TRY(const ProductInput in, prepare(normed(b_.x, b_.x_stride, m_.weights->final_norm)));
    return product(m_.weights->head, in,
                   {.kind = kOutputStore,
                    .rows = b_.whole_logits(),
                    .stride = static_cast<std::uint32_t>(m_.config.vocab_size)});
  }

  ResidentModel& m_;
  const PassBuffers& b_;
  bool few_tokens_;
  const PassShape& shape_;
};

/// One descriptor set per distinct list of bindings.
Result<std::vector<VkDescriptorSet>> make_sets(ResidentModel& model,
                                               const std::vector<Dispatch>& dispatches,
                                               OwnedDescriptorPool& pool) {
  const Device& device = *model.device;
  const DeviceFunctions& f = device.functions();
  std::vector<std::size_t> distinct;  // dispatch that a set is made for
  std::vector<std::size_t> set_of(dispatches.size());
  for (std::size_t i = 0; i < dispatches.size(); ++i) {
    const auto same = std::find_if(distinct.begin(), distinct.end(), [&](std::size_t j) {
      return dispatches[j].bindings == dispatches[i].bindings;
    });
    set_of[i] = static_cast<std::size_t>(same - distinct.begin());
    if (same == distinct.end()) distinct.push_back(i);
  }
  const auto count = static_cast<std::uint32_t>(distinct.size());
  const VkDescriptorPoolSize size{.type = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                  .descriptorCount = count * kBindings};
  const VkDescriptorPoolCreateInfo pool_info{.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
                                             .maxSets = count,
                                             .poolSizeCount = 1,
                                             .pPoolSizes = &size};
  VkDescriptorPool handle = VK_NULL_HANDLE;
  RUNNEL_VK_CHECK(f.vkCreateDescriptorPool(device.handle(), &pool_info, nullptr, &handle),
                  device.named("vkCreateDescriptorPool"));
  pool = OwnedDescriptorPool(device.handle(), f, handle);
  const std::vector<VkDescriptorSetLayout> layouts(count, model.pipelines->set_layout());
  std::vector<VkDescriptorSet> sets(count);
  const VkDescriptorSetAllocateInfo allocate{
      .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
      .descriptorPool = handle,
      .descriptorSetCount = count,
      .pSetLayouts = layouts.data()};
  RUNNEL_VK_CHECK(f.vkAllocateDescriptorSets(device.handle(), &allocate, sets.data()),
                  device.named("vkAllocateDescriptorSets"));
  std::vector<VkDescriptorBufferInfo> infos;
  std::vector<VkWriteDescriptorSet> writes;
  infos.reserve(distinct.size() * kBindings);
  for (std::size_t s = 0; s < distinct.size(); ++s) {
    const Dispatch& d = dispatches[distinct[s]];
    for (std::uint32_t i = 0; i < kBindings; ++i) {
      const Range& r = d.bindings[i];
      if (r.buffer == VK_NULL_HANDLE) continue;
      infos.push_back({.buffer = r.buffer, .offset = r.offset, .range = r.bytes});
      writes.push_back({.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                        .dstSet = sets[s],
                        .dstBinding = i,
                        .descriptorCount = 1,
                        .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                        .pBufferInfo = &infos.back()});
    }
  }
  f.vkUpdateDescriptorSets(device.handle(), static_cast<std::uint32_t>(writes.size()),
                           writes.data(), 0, nullptr);
  std::vector<VkDescriptorSet> of_dispatch;
  for (const std::size_t s : set_of) of_dispatch.push_back(sets[s]);
  return of_dispatch;
}

}  // namespace

Result<Program> build_program(ResidentModel& model, const PassBuffers& buffers,
                              const std::vector<RecordedOp>& ops, bool few_tokens,
                              const PassShape& shape, const OwnedCommandPool& pool) {
  Builder builder(model, buffers, few_tokens, shape);
  for (const RecordedOp& op : ops) RUNNEL_CHECK_OK(builder.add(op));
  const Device& device = *model.device;
  const DeviceFunctions& f = device.functions();
  Program program;
  program.dispatches = builder.dispatches.size();
  std::vector<VkDescriptorSet> sets;
  if (!builder.dispatches.empty()) {
    RUNNEL_TRY(sets, make_sets(model, builder.dispatches, program.descriptors));
  }
  RUNNEL_TRY(program.commands, device.allocate_commands(pool));
  const VkCommandBufferBeginInfo begin{.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  RUNNEL_VK_CHECK(f.vkBeginCommandBuffer(program.commands, &begin),
                  device.named("vkBeginCommandBuffer"));
  const VkPipelineLayout layout = model.pipelines->layout();
  full_barrier(f, program.commands);
  VkPipeline bound = VK_NULL_HANDLE;
  for (std::size_t i = 0; i < builder.dispatches.size(); ++i) {
    const Dispatch& d = builder.dispatches[i];
    if (d.after_all && i > 0) dispatch_barrier(f, program.commands);
    if (d.pipeline != bound)
      f.vkCmdBindPipeline(program.commands, VK_PIPELINE_BIND_POINT_COMPUTE, d.pipeline);
    bound = d.pipeline;
    f.vkCmdBindDescriptorSets(program.commands, VK_PIPELINE_BIND_POINT_COMPUTE, layout, 0, 1,
                              &sets[i], 0, nullptr);
    f.vkCmdPushConstants(program.commands, layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, d.push_bytes,
                         d.push.data());
    f.vkCmdDispatch(program.commands, d.groups[0], d.groups[1], d.groups[2]);
  }
  full_barrier(f, program.commands, true);
  RUNNEL_VK_CHECK(f.vkEndCommandBuffer(program.commands), device.named("vkEndCommandBuffer"));
  return program;
}

}  // namespace runnel::vulkan
