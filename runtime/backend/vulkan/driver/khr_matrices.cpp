// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/vulkan/driver/khr_matrices.h"

#include <cstring>
#include <map>
#include <optional>
#include <string_view>

#include "runtime/backend/vulkan/driver/spirv.h"
#include "shaders/include/contract/interface.h"

namespace runnel::vulkan {
namespace {

using namespace spirv;

constexpr std::string_view kNv = "SPV_NV_cooperative_matrix", kKhr = "SPV_KHR_cooperative_matrix";

using Words = std::vector<std::uint32_t>;

class Translation {
 public:
  explicit Translation(std::span<const std::uint32_t> words) : in_(words) {}

  Words run() {
    out_.assign(in_.begin(), in_.begin() + kHeader);
    for (std::size_t at = kHeader; at < in_.size();) {
      const std::uint32_t count = in_[at] >> 16;
      if (count == 0 || at + count > in_.size() || !take(in_[at] & 0xFFFF, in_.subspan(at, count)))
        return {};
      at += count;
    }
    return out_;
  }

 private:
  void put(std::uint32_t op, const Words& operands) {
    out_.push_back(static_cast<std::uint32_t>(operands.size() + 1) << 16 | op);
    out_.insert(out_.end(), operands.begin(), operands.end());
  }

  /// The constants 0, 1 and 2, made before the first matrix type.
  bool make_numbers() {
    if (number_ != 0) return true;
    if (uint_ == 0) return false;
    number_ = out_[kBound];
    out_[kBound] += 3;
    for (std::uint32_t n = 0; n < 3; ++n) put(kConstant, {uint_, number_ + n, n});
    return true;
  }

  /// The constant with the layout that a truth means.
  std::optional<std::uint32_t> layout(std::uint32_t column_major) const {
    const auto found = truths_.find(column_major);
    if (found == truths_.end()) return std::nullopt;
    return number_ + (found->second ? kColumnMajor : kRowMajor);
  }

  bool take_type(std::span<const std::uint32_t> w) {
    if (w.size() != 6 || !make_numbers()) return false;
    std::uint32_t use = float_bits_[w[2]] == 32 ? kMatrixAccumulator : kMatrixA;
    if (const auto id = spec_ids_.find(w[4]); id != spec_ids_.end())
      use = id->second == kRightTile ? kMatrixB : kMatrixAccumulator;
    put(kTypeCooperativeMatrixKHR, {w[1], w[2], w[3], w[4], w[5], number_ + use});
    return true;
  }

  bool take(std::uint32_t op, std::span<const std::uint32_t> w) {
    Words operands(w.begin() + 1, w.end());
    switch (op) {
      case kExtension: {
        const char* name = reinterpret_cast<const char*>(operands.data());
        if (name != kNv) break;
        Words khr(kKhr.size() / 4 + 1);
        std::memcpy(khr.data(), kKhr.data(), kKhr.size());
        put(op, khr);
        return true;
      }
      case kCapability:
        if (operands[0] == kCapabilityCooperativeMatrixNV)
          operands[0] = kCapabilityCooperativeMatrixKHR;
        put(op, operands);
        return true;
      case kTypeInt:
        if (operands[1] == 32 && operands[2] == 0) uint_ = operands[0];
        break;
      case kTypeFloat:
        float_bits_[operands[0]] = operands[1];
        break;
      case kConstantTrue:
      case kConstantFalse:
        truths_[operands[1]] = op == kConstantTrue;
        break;
      case kDecorate:
        if (operands.size() == 3 && operands[1] == kDecorationSpecId &&
            (operands[2] == kRightTile || operands[2] == kNarrowTile))
          spec_ids_[operands[0]] = operands[2];
        break;
      case kTypeCooperativeMatrixNV:
        return take_type(w);
      case kCooperativeMatrixLoadNV:
      case kCooperativeMatrixStoreNV: {
        // …, stride, whether columns follow each other, … → layout, stride, …
        const std::size_t stride = op == kCooperativeMatrixLoadNV ? 3 : 2;
        const auto order = layout(operands[stride + 1]);
        if (!order) return false;
        operands[stride + 1] = operands[stride];
        operands[stride] = *order;
        put(op == kCooperativeMatrixLoadNV ? kCooperativeMatrixLoadKHR : kCooperativeMatrixStoreKHR,
            operands);
        return true;
      }
      case kCooperativeMatrixMulAddNV:
        put(kCooperativeMatrixMulAddKHR, operands);
        return true;
      case kCooperativeMatrixLengthNV:
        put(kCooperativeMatrixLengthKHR, operands);
        return true;
      default:
        break;
    }
    out_.insert(out_.end(), w.begin(), w.end());
    return true;
  }

  std::span<const std::uint32_t> in_;
  Words out_;
  std::uint32_t uint_ = 0;    // type
  std::uint32_t number_ = 0;  // the constant 0; 1 and 2 follow
  std::map<std::uint32_t, std::uint32_t> float_bits_, spec_ids_;
  std::map<std::uint32_t, bool> truths_;
};

}  // namespace

std::vector<std::uint32_t> with_khr_matrices(std::span<const std::uint32_t> words) {
  if (words.size() < kHeader) return {};
  return Translation(words).run();
}

}  // namespace runnel::vulkan
