// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/vulkan/driver/khr_matrices.h"

#include <cstring>
#include <map>
#include <optional>
#include <string_view>

#include "shaders/include/contract/interface.h"

namespace runnel::vulkan {
namespace {

// From the SPIR-V specification and its two extensions.
constexpr std::uint32_t kOpExtension = 10, kOpCapability = 17, kOpTypeInt = 21, kOpTypeFloat = 22,
                        kOpConstantTrue = 41, kOpConstantFalse = 42, kOpDecorate = 71,
                        kOpTypeNv = 5358, kOpLoadNv = 5359, kOpStoreNv = 5360, kOpMulAddNv = 5361,
                        kOpLengthNv = 5362, kOpTypeKhr = 4456, kOpLoadKhr = 4457,
                        kOpStoreKhr = 4458, kOpMulAddKhr = 4459, kOpLengthKhr = 4460;
constexpr std::uint32_t kCapabilityNv = 5357, kCapabilityKhr = 6022, kSpecId = 1;
constexpr std::uint32_t kUseA = 0, kUseB = 1, kUseSums = 2;
constexpr std::uint32_t kRowMajor = 0, kColumnMajor = 1;
constexpr std::size_t kHeader = 5, kBound = 3;
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
    constexpr std::uint32_t kOpConstant = 43;
    number_ = out_[kBound];
    out_[kBound] += 3;
    for (std::uint32_t n = 0; n < 3; ++n) put(kOpConstant, {uint_, number_ + n, n});
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
    std::uint32_t use = float_bits_[w[2]] == 32 ? kUseSums : kUseA;
    if (const auto id = spec_ids_.find(w[4]); id != spec_ids_.end())
      use = id->second == kRightTile ? kUseB : kUseSums;
    put(kOpTypeKhr, {w[1], w[2], w[3], w[4], w[5], number_ + use});
    return true;
  }

  bool take(std::uint32_t op, std::span<const std::uint32_t> w) {
    Words operands(w.begin() + 1, w.end());
    switch (op) {
      case kOpExtension: {
        const char* name = reinterpret_cast<const char*>(operands.data());
        if (name != kNv) break;
        Words khr(kKhr.size() / 4 + 1);
        std::memcpy(khr.data(), kKhr.data(), kKhr.size());
        put(op, khr);
        return true;
      }
      case kOpCapability:
        if (operands[0] == kCapabilityNv) operands[0] = kCapabilityKhr;
        put(op, operands);
        return true;
      case kOpTypeInt:
        if (operands[1] == 32 && operands[2] == 0) uint_ = operands[0];
        break;
      case kOpTypeFloat:
        float_bits_[operands[0]] = operands[1];
        break;
      case kOpConstantTrue:
      case kOpConstantFalse:
        truths_[operands[1]] = op == kOpConstantTrue;
        break;
      case kOpDecorate:
        if (operands.size() == 3 && operands[1] == kSpecId &&
            (operands[2] == kRightTile || operands[2] == kNarrowTile))
          spec_ids_[operands[0]] = operands[2];
        break;
      case kOpTypeNv:
        return take_type(w);
      case kOpLoadNv:
      case kOpStoreNv: {  // …, stride, whether columns follow each other, … → layout, stride, …
        const std::size_t stride = op == kOpLoadNv ? 3 : 2;
        const auto order = layout(operands[stride + 1]);
        if (!order) return false;
        operands[stride + 1] = operands[stride];
        operands[stride] = *order;
        put(op == kOpLoadNv ? kOpLoadKhr : kOpStoreKhr, operands);
        return true;
      }
      case kOpMulAddNv:
        put(kOpMulAddKhr, operands);
        return true;
      case kOpLengthNv:
        put(kOpLengthKhr, operands);
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
