// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/vulkan/pass/program.h"

#include <algorithm>

#include "runtime/backend/vulkan/pass/pass_builder.h"

namespace runnel::vulkan {

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

void copy_parameters(const DeviceFunctions& f, VkCommandBuffer commands, const PlanBuffers& buffers,
                     const PassShape& shape, std::uint32_t place) {
  const std::uint64_t first = place * buffers.host_stride;
  std::vector<VkBufferCopy> regions;
  const auto add = [&](std::uint64_t word, std::uint64_t words) {
    if (words > 0)
      regions.push_back({.srcOffset = first + 4 * word, .dstOffset = 4 * word, .size = 4 * words});
  };
  const PassLayout& at = buffers.layout;
  add(0, kPassHeader + std::uint64_t{shape.tokens} * kTokenWords);
  add(at.items, std::uint64_t{shape.all_items} * kItemWords);
  add(at.rows, at.chunks - at.rows + std::uint64_t{shape.chunks} * kChunkWords);
  add(at.rotations, std::uint64_t{buffers.rotation_words} * shape.tokens);
  for (std::size_t i = 1; i < buffers.token_kinds.size(); ++i)
    add(buffers.token_kinds[i].at, std::uint64_t{shape.tokens} * kTokenWords);
  f.vkCmdCopyBuffer(commands, buffers.pass_host.get(), buffers.pass.get(),
                    static_cast<std::uint32_t>(regions.size()), regions.data());
}

TokenKind TokenKind::of(const LayerSpec& l) {
  switch (l.kind()) {
    case Mixer::slots:
      return {.sinks = static_cast<std::uint64_t>(l.slots().num_sink_slots),
              .window = static_cast<std::uint64_t>(l.slots().num_window_slots)};
    case Mixer::recurrence:
      return {.recurrence = true};
  }
  return {};
}

std::uint32_t tile_units(std::int64_t columns) {
  return ceil_div(static_cast<std::uint64_t>(columns), 32) * 4;
}

bool tiles_take(const DeviceMatrix& w) {
  return w.type != quant::BlockType::f32 && w.rows % 16 == 0;
}

bool in_one_dispatch(const PlanBuffers& buffers, const PassShape& shape) {
  return buffers.act.bytes > 0 && shape.tokens == 1 && shape.items == 1 && shape.all_items == 1 &&
         shape.logit_rows == 0;
}

bool reads_host(const ResidentModel& model, const PlanBuffers& buffers, const PassShape& shape) {
  return in_one_dispatch(buffers, shape) && model.step.dispatch->head.has_value();
}

void record_dispatch(const DeviceFunctions& f, VkCommandBuffer commands, VkPipelineLayout layout,
                     const Dispatch& d, VkDescriptorSet set) {
  f.vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, layout, 0, 1, &set, 0,
                            nullptr);
  f.vkCmdPushConstants(commands, layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, d.push_bytes,
                       d.push.data());
  f.vkCmdDispatch(commands, d.groups[0], d.groups[1], d.groups[2]);
}

void copy_logits(const DeviceFunctions& f, VkCommandBuffer commands, const ResidentModel& model,
                 const PlanBuffers& buffers, std::uint32_t rows) {
  const VkBufferCopy all{.size = std::uint64_t{rows} * sizeof(float) *
                                 static_cast<std::uint64_t>(model.config.vocab_size)};
  f.vkCmdCopyBuffer(commands, buffers.logits.get(), buffers.logits_host.get(), 1, &all);
  if (buffers.act.bytes > 0) {
    const VkBufferCopy report{.srcOffset = 4ULL * model.step.dispatch->timed_out_at(),
                              .dstOffset = buffers.logits.bytes,
                              .size = 4};
    f.vkCmdCopyBuffer(commands, buffers.act.get(), buffers.logits_host.get(), 1, &report);
  }
  full_barrier(f, commands, true);
}

Result<Program> build_program(ResidentModel& model, const PlanBuffers& buffers,
                              const std::vector<RecordedOp>& ops, bool few_tokens,
                              const PassShape& shape, const OwnedCommandPool& pool) {
  PassBuilder builder(model, buffers, few_tokens, shape);
  if (in_one_dispatch(buffers, shape)) {
    RUNNEL_CHECK_OK(builder.add(*model.step.dispatch));
  } else {
    for (const RecordedOp& op : ops) RUNNEL_CHECK_OK(builder.add(op));
  }
  const Device& device = *model.device;
  const DeviceFunctions& f = device.functions();
  Program program;
  program.dispatches = builder.dispatches.size();
  std::vector<VkDescriptorSet> sets;
  if (!builder.dispatches.empty()) {
    RUNNEL_TRY(sets, make_sets(model, builder.dispatches, program.descriptors));
  }
  RUNNEL_TRY(program.commands, device.allocate_commands(pool));
  VkCommandBufferBeginInfo begin{.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  if (shape.step) begin.flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT;
  RUNNEL_VK_CHECK(f.vkBeginCommandBuffer(program.commands, &begin),
                  device.named("vkBeginCommandBuffer"));
  const VkPipelineLayout layout = model.pipelines->layout();
  full_barrier(f, program.commands);
  if (shape.logit_rows == 0 && !shape.step && !reads_host(model, buffers, shape)) {
    copy_parameters(f, program.commands, buffers, shape, 0);
    full_barrier(f, program.commands);
  }
  if (model.profile != nullptr) {
    std::vector<std::string> names;
    names.reserve(builder.dispatches.size());
    for (const Dispatch& d : builder.dispatches) names.push_back(d.shader);
    RUNNEL_TRY(program.timestamps, create_timestamps(device, std::move(names)));
  }
  const auto mark = [&](std::size_t query) {
    if (!program.timestamps) return;
    f.vkCmdWriteTimestamp(program.commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                          program.timestamps->pool.get(), static_cast<std::uint32_t>(query));
  };
  if (program.timestamps) {
    f.vkCmdResetQueryPool(program.commands, program.timestamps->pool.get(), 0,
                          static_cast<std::uint32_t>(builder.dispatches.size() + 1));
  }
  mark(0);
  VkPipeline bound = VK_NULL_HANDLE;
  for (std::size_t i = 0; i < builder.dispatches.size(); ++i) {
    const Dispatch& d = builder.dispatches[i];
    if (d.after_all && i > 0) dispatch_barrier(f, program.commands);
    if (d.pipeline != bound)
      f.vkCmdBindPipeline(program.commands, VK_PIPELINE_BIND_POINT_COMPUTE, d.pipeline);
    bound = d.pipeline;
    record_dispatch(f, program.commands, layout, d, sets[i]);
    mark(i + 1);
  }
  if (shape.logit_rows > 0 && !shape.step) {
    full_barrier(f, program.commands);
    copy_logits(f, program.commands, model, buffers, shape.logit_rows);
  }
  if (shape.makes_logits && shape.step) full_barrier(f, program.commands, true);
  RUNNEL_VK_CHECK(f.vkEndCommandBuffer(program.commands), device.named("vkEndCommandBuffer"));
  return program;
}

}  // namespace runnel::vulkan
