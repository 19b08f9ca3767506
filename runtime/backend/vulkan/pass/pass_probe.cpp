// SPDX-License-Identifier: Apache-2.0
// What tests see of a plan's buffers: whole rows are copied to the host, and what is canonical of them lies between
// padding, or in the splits of slot_attention.
#include "runtime/backend/pass_probe.h"

#include <algorithm>
#include <cmath>

#include "runtime/backend/vulkan/plan.h"
#include "runtime/base/try.h"

namespace runnel::vulkan {

/// A buffer's rows as they lie on the device.
struct VulkanPlan::ProbedRows {
  Range rows;               // of the tokens
  std::size_t stride = 0;   // floats of a row
  std::size_t column = 0;   // where the canonical ones begin
  std::size_t columns = 0;  // of a canonical row
  /// For slots token by token: [HQ, splits, 2 + V]; 0: values as they are.
  std::size_t heads = 0, splits = 0;
};

namespace {

enum class Direction { to_host, to_device };

/// Copies a range of a device buffer to or from the start of a host buffer, and waits.
Status copy(Device& device, const Range& range, const Buffer& host, Direction direction) {
  const DeviceFunctions& f = device.functions();
  RUNNEL_TRY(const OwnedCommandPool pool, device.create_command_pool());
  RUNNEL_TRY(const VkCommandBuffer commands, device.allocate_commands(pool));
  const VkCommandBufferBeginInfo begin{.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                       .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
  RUNNEL_VK_CHECK(f.vkBeginCommandBuffer(commands, &begin), device.named("vkBeginCommandBuffer"));
  full_barrier(f, commands);
  if (direction == Direction::to_host) {
    const VkBufferCopy region{.srcOffset = range.offset, .size = range.bytes};
    f.vkCmdCopyBuffer(commands, range.buffer, host.get(), 1, &region);
    full_barrier(f, commands, true);
  } else {
    const VkBufferCopy region{.dstOffset = range.offset, .size = range.bytes};
    f.vkCmdCopyBuffer(commands, host.get(), range.buffer, 1, &region);
  }
  RUNNEL_VK_CHECK(f.vkEndCommandBuffer(commands), device.named("vkEndCommandBuffer"));
  return device.run(std::span(&commands, 1));
}

/// Where a buffer begins in a row of projections.
std::uint32_t projected_column(PassBuffer buffer, const LayerSpec& l) {
  const auto u = [](std::int32_t n) { return static_cast<std::uint32_t>(n); };
  RecurrenceColumns at;
  switch (l.kind()) {
    case Mixer::slots:
      at.k = u(l.q_channels());
      at.v = at.k + u(l.k_channels());
      at.f = at.v + u(l.v_channels());
      break;
    case Mixer::recurrence:
      at = RecurrenceColumns::of(l);
      break;
  }
  switch (buffer) {
    case PassBuffer::q:
      return at.q;
    case PassBuffer::k:
      return at.k;
    case PassBuffer::v:
      return at.v;
    case PassBuffer::f:
      return at.f;
    case PassBuffer::r:
      return at.r;
    case PassBuffer::gate:
      return at.gate;
    case PassBuffer::x:
    case PassBuffer::o:
    case PassBuffer::first_v:
      break;
  }
  return 0;
}

/// One head of one token: o = sum_s e^(max_s - max) o_s / sum_s e^(max_s - max) sum_s.
/// @param parts  [splits, 2 + V]: (max, sum) before the values
void join(const float* parts, std::size_t splits, std::size_t dim, float* out) {
  double largest = parts[0], sum = 0.0;
  std::vector<double> values(dim);
  for (std::size_t s = 1; s < splits; ++s)
    largest = std::max(largest, static_cast<double>(parts[s * (2 + dim)]));
  for (std::size_t s = 0; s < splits; ++s, parts += 2 + dim) {
    const double share = std::exp(static_cast<double>(parts[0]) - largest);
    sum += share * static_cast<double>(parts[1]);
    for (std::size_t i = 0; i < dim; ++i) values[i] += share * static_cast<double>(parts[2 + i]);
  }
  for (std::size_t i = 0; i < dim; ++i) out[i] = static_cast<float>(values[i] / sum);
}

/// Splits of one head that join() to `values`: all alike.
void split(const float* values, std::size_t splits, std::size_t dim, float* parts) {
  for (std::size_t s = 0; s < splits; ++s, parts += 2 + dim) {
    parts[0] = 0.0F;
    parts[1] = 1.0F;
    std::copy_n(values, dim, parts + 2);
  }
}

}  // namespace

Result<VulkanPlan::ProbedRows> VulkanPlan::rows_of(PassBuffer buffer, const LayerSpec& layer,
                                                   std::size_t floats) const {
  RUNNEL_CHECK_OK(check_rows(buffer, layer, model_->config.hidden_size, floats, max_tokens_));
  ProbedRows p;
  p.columns = static_cast<std::size_t>(columns_of(buffer, layer, model_->config.hidden_size));
  const std::size_t tokens = floats / p.columns;
  if (buffer == PassBuffer::x) {
    p.rows = buffers_.x;
    p.stride = buffers_.x_stride;
  } else if (buffer == PassBuffer::first_v) {
    p.rows = buffers_.first_v;
    p.stride = buffers_.first_v_stride;
  } else if (buffer != PassBuffer::o) {
    p.rows = buffers_.projected;
    p.stride = buffers_.projected_stride;
    p.column = projected_column(buffer, layer);
  } else {
    p.rows = buffers_.slots;
    p.heads = static_cast<std::size_t>(layer.num_heads);
    switch (layer.kind()) {
      case Mixer::slots: {
        const SlotSplit& own = model_->splits[static_cast<std::size_t>(layer.index)];
        p.stride = slots_stride(layer, own);
        p.splits = chunks_of(tokens) > 0 ? 0 : own.splits;
        break;
      }
      case Mixer::recurrence:
        p.stride = p.heads * static_cast<std::size_t>(layer.value_columns());
        break;
    }
  }
  p.rows.bytes = tokens * p.stride * sizeof(float);
  return p;
}

Status VulkanPlan::write(PassBuffer buffer, const LayerSpec& layer, std::span<const float> rows) {
  const std::lock_guard lock(mutex_);
  RUNNEL_TRY(const ProbedRows p, rows_of(buffer, layer, rows.size()));
  RUNNEL_TRY(const Buffer host,
             model_->device->create_buffer(p.rows.bytes, MemoryKind::output, "probed rows"));
  RUNNEL_CHECK_OK(copy(*model_->device, p.rows, host, Direction::to_host));
  auto* own = reinterpret_cast<float*>(host.mapped);
  const auto dim = static_cast<std::size_t>(layer.head_v_dim);
  for (std::size_t at = 0; at < rows.size(); at += p.columns, own += p.stride) {
    const float* row = rows.data() + at;
    if (p.splits == 0) std::copy_n(row, p.columns, own + p.column);
    for (std::size_t h = 0; p.splits > 0 && h < p.heads; ++h)
      split(row + h * dim, p.splits, dim, own + h * p.splits * (2 + dim));
  }
  return copy(*model_->device, p.rows, host, Direction::to_device);
}

Status VulkanPlan::read(PassBuffer buffer, const LayerSpec& layer, std::span<float> rows) {
  const std::lock_guard lock(mutex_);
  RUNNEL_TRY(const ProbedRows p, rows_of(buffer, layer, rows.size()));
  RUNNEL_TRY(const Buffer host,
             model_->device->create_buffer(p.rows.bytes, MemoryKind::output, "probed rows"));
  RUNNEL_CHECK_OK(copy(*model_->device, p.rows, host, Direction::to_host));
  const auto* own = reinterpret_cast<const float*>(host.mapped);
  const auto dim = static_cast<std::size_t>(layer.head_v_dim);
  for (std::size_t at = 0; at < rows.size(); at += p.columns, own += p.stride) {
    float* row = rows.data() + at;
    if (p.splits == 0) std::copy_n(own + p.column, p.columns, row);
    for (std::size_t h = 0; p.splits > 0 && h < p.heads; ++h)
      join(own + h * p.splits * (2 + dim), p.splits, dim, row + h * dim);
  }
  return {};
}

}  // namespace runnel::vulkan
