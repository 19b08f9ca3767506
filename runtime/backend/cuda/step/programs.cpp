// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/cuda/step/programs.h"

#include <algorithm>

#include "runtime/backend/cuda/step/matrix_shapes.h"
#include "runtime/base/try.h"

namespace runnel::cuda {
namespace {

/// What all kernels whose blocks wait for each other need.
std::string refuse_device(const StepDevice& d) {
  if (d.major < 9) {
    return "compute capability " + std::to_string(d.major) + "." + std::to_string(d.minor) +
           ", expected 9.0 or newer";
  }
  return d.cooperative ? "" : "a device without cooperative launches";
}

StepLayout refused(std::string why) {
  StepLayout layout;
  layout.why_not = std::move(why);
  return layout;
}

int at_most(int blocks, int wanted) { return wanted > 0 ? std::min(blocks, wanted) : blocks; }

StepLayout in_cluster(const StepModel& model, const DeviceTensors& tensors,
                      const StepDevice& device, const DecodeTuning& tuning, bool fixed) {
  if (std::string why = refuse_device(device); !why.empty()) return refused(std::move(why));
  const int blocks = tuning.cluster_blocks > 0 ? tuning.cluster_blocks : kClusterBlocks;
  if (device.largest_cluster < blocks) {
    return refused("clusters of at most " + std::to_string(device.largest_cluster) +
                   " blocks, expected " + std::to_string(blocks));
  }
  if (device.multiprocessors <= blocks) {
    return refused(std::to_string(device.multiprocessors) +
                   " multiprocessors, expected more than " + std::to_string(blocks));
  }
  StepLayout layout;
  layout.cluster = make_cluster_program(model, tensors, {device.shared_bytes, blocks, fixed});
  if (!layout.cluster->why_not.empty()) return refused(layout.cluster->why_not);
  if (fixed && layout.cluster->cluster.fixed == 0) return refused("another shape than the 135M's");
  const int left = at_most(device.multiprocessors - blocks, tuning.grid);
  layout.grid = make_grid_program(
      model, tensors,
      {.multiprocessors = left, .shared_bytes = device.shared_bytes, .head_only = true}, tuning);
  if (!layout.grid.why_not.empty()) return refused("the head: " + layout.grid.why_not);
  layout.fixed_head = head_fits(tensors.head, left, device.shared_bytes);
  layout.detail = std::to_string(blocks) + " blocks";
  if (layout.fixed_head) layout.detail += ", fixed " + std::to_string(kHeadColumns);
  return layout;
}

StepLayout cluster_fixed(const StepModel& model, const DeviceTensors& tensors,
                         const StepDevice& device, const DecodeTuning& tuning) {
  return in_cluster(model, tensors, device, tuning, true);
}

StepLayout cluster(const StepModel& model, const DeviceTensors& tensors, const StepDevice& device,
                   const DecodeTuning& tuning) {
  return in_cluster(model, tensors, device, tuning, false);
}

StepLayout in_grid(const StepModel& model, const DeviceTensors& tensors, const StepDevice& device,
                   const DecodeTuning& tuning) {
  if (std::string why = refuse_device(device); !why.empty()) return refused(std::move(why));
  StepLayout layout;
  layout.grid = make_grid_program(model, tensors,
                                  {.multiprocessors = at_most(device.multiprocessors, tuning.grid),
                                   .shared_bytes = device.shared_bytes},
                                  tuning);
  layout.why_not = layout.grid.why_not;
  layout.detail = std::to_string(layout.grid.decode.blocks) + " blocks";
  return layout;
}

StepLayout grid_even(const StepModel& model, const DeviceTensors& tensors, const StepDevice& device,
                     const DecodeTuning& tuning) {
  StepLayout layout = in_grid(model, tensors, device, tuning);
  if (layout.why_not.empty()) layout.why_not = layout.grid.why_not_even;
  return layout;
}

StepLayout grid(const StepModel& model, const DeviceTensors& tensors, const StepDevice& device,
                const DecodeTuning& tuning) {
  DecodeTuning general = tuning;
  general.even = 0;
  return in_grid(model, tensors, device, general);
}

StepLayout shift(const StepModel& model, const DeviceTensors& tensors, const StepDevice& device,
                 const DecodeTuning& tuning) {
  if (std::string why = refuse_device(device); !why.empty()) return refused(std::move(why));
  StepLayout layout;
  layout.shift =
      make_shift_program(model, tensors,
                         {.multiprocessors = at_most(device.multiprocessors, tuning.grid),
                          .shared_bytes = device.shared_bytes});
  layout.why_not = layout.shift->why_not;
  layout.detail = std::to_string(layout.shift->step.grid) + " blocks";
  return layout;
}

constexpr StepRow kRows[] = {
    {"cluster-fixed", 1, cluster_fixed},
    {"cluster", 1, cluster},
    {"grid-even", 1, grid_even},
    {"grid", 1, grid},
    {"shift", 1, shift},
    {"ops", 1, nullptr},
};

}  // namespace

std::span<const StepRow> step_programs() { return kRows; }

const StepRow* step_program(const std::string& name) {
  for (const StepRow& row : kRows) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

std::string StepRow::fits(const StepModel& model, const StepDevice& device) const {
  return lay_out == nullptr ? "" : lay_out(model, shapes_of(model), device, {}).why_not;
}

Result<std::unique_ptr<StepKernel>> StepRow::build(const StepModel& model,
                                                   const DeviceTensors& tensors,
                                                   const StepDevice& device,
                                                   cudaStream_t stream) const {
  if (lay_out == nullptr) return std::unique_ptr<StepKernel>();
  StepLayout layout = lay_out(model, tensors, device, {});
  if (!layout.why_not.empty()) return fail(ErrorCode::unsupported, layout.why_not);
  return StepKernel::create(std::move(layout), tensors, stream);
}

Result<StepChoice> choose_step_program(const StepModel& model, const StepDevice& device,
                                       const std::string& wanted, const BuildStep& build) {
  if (!wanted.empty() && step_program(wanted) == nullptr) {
    std::string names;
    for (const StepRow& row : kRows) names += (names.empty() ? "" : ", ") + std::string(row.name);
    return fail(ErrorCode::not_found, "step program ", wanted, ": cuda has ", names);
  }
  const DeviceTensors shapes = shapes_of(model);
  StepChoice choice;
  for (const StepRow& row : kRows) {
    if (!wanted.empty() && row.name != wanted) continue;
    StepLayout layout;
    if (row.lay_out != nullptr) layout = row.lay_out(model, shapes, device, {});
    std::string why = std::move(layout.why_not);
    if (why.empty() && build) {
      RUNNEL_TRY(why, build(row));
    }
    if (why.empty()) {
      choice.row = &row;
      choice.program.name = row.name;
      choice.program.detail = std::move(layout.detail);
      return choice;
    }
    if (!wanted.empty())
      return fail(ErrorCode::unsupported, "step program ", wanted, ": does not fit: ", why);
    choice.program.refused.push_back({row.name, std::move(why)});
  }
  return fail(ErrorCode::unsupported, "step program: no row fits");
}

}  // namespace runnel::cuda
