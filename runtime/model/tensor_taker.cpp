// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/tensor_taker.h"

#include "runtime/base/text.h"
#include "runtime/base/try.h"
#include "runtime/model/weight_table.h"

namespace runnel {
namespace {

using quant::BlockType;

Result<BlockType> float_type(std::string_view name, SafetensorsType type) {
  switch (type) {
    case SafetensorsType::f32:
      return BlockType::f32;
    case SafetensorsType::f16:
      return BlockType::f16;
    case SafetensorsType::bf16:
      return BlockType::bf16;
    default:
      return fail(ErrorCode::unsupported, "tensor ", printable(name), " is ", to_string(type),
                  ", expected F32, F16 or BF16");
  }
}

}  // namespace

Result<std::vector<std::int64_t>> TensorTaker::shape(const std::string& name) const {
  const SafetensorsTensor* tensor = checkpoint_.find(name);
  if (tensor == nullptr) return fail(ErrorCode::malformed, "tensor ", name, " is missing");
  return tensor->shape;
}

Result<WeightView> TensorTaker::take(const std::string& name,
                                     const std::vector<std::int64_t>& shape) {
  const SafetensorsTensor* tensor = checkpoint_.find(name);
  if (tensor == nullptr) {
    return fail(ErrorCode::malformed, "tensor ", name, " is missing, expected shape ",
                shape_text(shape));
  }
  if (tensor->shape != shape) {
    return fail(ErrorCode::malformed, "tensor ", name, " has shape ", shape_text(tensor->shape),
                ", expected ", shape_text(shape));
  }
  WeightView view;
  RUNNEL_TRY(view.type, float_type(name, tensor->type));
  view.name = name;
  view.cols = shape.back();
  view.rows = shape.size() == 1 ? 1 : shape.front();
  view.data = tensor->bytes;
  taken_.insert(name);
  return view;
}

Status TensorTaker::expect_all_taken() const {
  std::string left;
  int count = 0;
  for (const std::string_view name : checkpoint_.names()) {
    if (taken_.contains(name)) continue;
    constexpr int kNamed = 3;
    if (++count <= kNamed) left += (count > 1 ? ", " : "") + printable(name);
  }
  if (count == 0) return {};
  return fail(ErrorCode::unsupported, "the checkpoint has ", count,
              " tensors that this configuration has no place for: ", left, count > 3 ? ", …" : "");
}

}  // namespace runnel
