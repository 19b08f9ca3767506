// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/tuned_state.h"

#include <cmath>
#include <fstream>
#include <utility>
#include <vector>

#include "runnel/session.h"
#include "runtime/base/text.h"
#include "runtime/base/try.h"
#include "runtime/io/snapshot_data.h"
#include "runtime/io/torch_checkpoint.h"
#include "runtime/model/model_impl.h"
#include "runtime/model/weight_table.h"

namespace runnel {
namespace {

std::string state_name(std::size_t layer) {
  return "blocks." + std::to_string(layer) + ".att.time_state";
}

/// Writes one layer's part: S [H, V, K] → [H, K, V].
Status put_layer(const std::string& name, const SafetensorsTensor& tensor, const LayerState& layer,
                 std::vector<float>& state) {
  const std::vector<std::int64_t> wanted = {layer.kv_heads, layer.head_v_dim, layer.slots};
  if (tensor.shape != wanted)
    return fail(ErrorCode::mismatch, "tensor ", name, " has shape ", shape_text(tensor.shape),
                ", expected ", shape_text(wanted));
  RUNNEL_TRY(const std::vector<float> values, to_f32(tensor));
  const auto rows = static_cast<std::size_t>(layer.slots);
  const auto cols = static_cast<std::size_t>(layer.head_v_dim);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i]))
      return fail(ErrorCode::malformed, "tensor ", name, "[", i, "] is not finite");
    const std::size_t head = i / (rows * cols);
    const std::size_t value = i / rows % cols;
    const std::size_t key = i % rows;
    state[layer.values_offset(static_cast<int>(head)) + key * cols + value] = values[i];
  }
  return {};
}

}  // namespace

bool is_torch_file(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  char magic[2] = {};
  return in.read(magic, sizeof magic) && magic[0] == 'P' && magic[1] == 'K';
}

Result<Snapshot> tuned_state(const std::map<std::string, SafetensorsTensor, std::less<>>& tensors,
                             const std::shared_ptr<const Model>& model) {
  const Engine& engine = engine_of(*model);
  const std::vector<LayerSpec>& layers = engine.config().layers;
  RUNNEL_TRY(const Session empty, Session::create(model));
  RUNNEL_TRY(const Snapshot start, empty.snapshot());
  auto data = std::make_shared<SnapshotData>(data_of(start));
  const StateLayout layout = engine.layout();
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const LayerState& layer = layout.layers[i];
    if (layers[i].kind() != Mixer::recurrence || layer.head_k_dim != 0 || layer.head_extra != 0)
      return fail(ErrorCode::unsupported, "tuned states are for RWKV: layer ", i,
                  " of this model has no state [keys, values] alone");
    const auto found = tensors.find(state_name(i));
    if (found == tensors.end())
      return fail(ErrorCode::malformed, "tensor ", state_name(i), " is missing");
    RUNNEL_CHECK_OK(put_layer(found->first, found->second, layer, data->state));
  }
  for (const auto& [name, tensor] : tensors) {
    if (!name.ends_with(".att.time_state"))
      return fail(ErrorCode::unsupported, "tensor ", printable(name),
                  " is no tuned state: expected blocks.i.att.time_state alone");
  }
  if (tensors.size() != layers.size())
    return fail(ErrorCode::mismatch, "the file has states of ", tensors.size(),
                " layers, this model has ", layers.size());
  return make_snapshot(std::move(data));
}

Result<Snapshot> load_tuned_state(const std::filesystem::path& file,
                                  const std::shared_ptr<const Model>& model) {
  RUNNEL_TRY(const TorchCheckpoint checkpoint, TorchCheckpoint::open(file));
  Result<Snapshot> state = tuned_state(checkpoint.tensors(), model);
  if (!state) return with_context(std::move(state).error(), printable(file.native()) + ": ");
  return state;
}

}  // namespace runnel
