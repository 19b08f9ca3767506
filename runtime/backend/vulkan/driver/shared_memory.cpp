// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/vulkan/driver/shared_memory.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "runtime/backend/vulkan/driver/shader_registry.h"
#include "runtime/backend/vulkan/driver/spirv.h"
#include "runtime/base/integers.h"

namespace runnel::vulkan {
namespace {

using namespace spirv;

constexpr std::uint64_t kAlignment = 16;

using Value = std::optional<std::uint32_t>;

class Module {
 public:
  Module(std::span<const std::uint32_t> words, std::uint32_t subgroup,
         std::span<const std::uint32_t> constants)
      : of_id_(words[kBound]),
        spec_id_(words[kBound]),
        known_(words[kBound]),
        subgroup_(subgroup),
        constants_(constants) {
    // Types, constants and workgroup variables stand before all functions.
    for (std::size_t at = kHeader; at < words.size() && (words[at] & 0xFFFF) != kFunction;) {
      const std::size_t count = std::max(words[at] >> 16, 1U);
      take(words.subspan(at, std::min(count, words.size() - at)));
      at += count;
    }
  }

  std::optional<std::uint64_t> workgroup_bytes() {
    std::uint64_t all = 0;
    for (const std::uint32_t pointer : pointers_) {
      const auto bytes = bytes_of(of_id_[pointer][3]);
      if (!bytes) return std::nullopt;
      all += round_up(*bytes, kAlignment);
    }
    return all;
  }

 private:
  using Instruction = std::span<const std::uint32_t>;

  /// Keeps what has an id that others name.
  void take(Instruction i) {
    switch (i[0] & 0xFFFF) {
      case kDecorate:
        if (i[2] == kDecorationSpecId) spec_id_[i[1]] = i[3];
        break;
      case kTypeBool:
      case kTypeInt:
      case kTypeFloat:
      case kTypeVector:
      case kTypeArray:
      case kTypePointer:
        of_id_[i[1]] = i;
        break;
      case kVariable:
        if (i[3] == kStorageClassWorkgroup) pointers_.push_back(i[1]);
        break;
      case kConstantTrue:
      case kConstantFalse:
      case kConstant:
      case kSpecConstantTrue:
      case kSpecConstantFalse:
      case kSpecConstant:
      case kSpecConstantOp:
        of_id_[i[2]] = i;
        break;
      default:
        break;
    }
  }

  std::optional<std::uint64_t> bytes_of(std::uint32_t type) {
    const Instruction i = of_id_[type];
    if (i.empty()) return std::nullopt;
    switch (i[0] & 0xFFFF) {
      case kTypeBool:
        return 4;
      case kTypeInt:
      case kTypeFloat:
        return i[2] / 8;
      case kTypeVector: {
        const auto each = bytes_of(i[2]);
        if (!each) return std::nullopt;
        return *each * (i[3] == 3 ? 4 : i[3]);
      }
      case kTypeArray: {
        const auto each = bytes_of(i[2]);
        const Value length = value_of(i[3]);
        if (!each || !length) return std::nullopt;
        return *each * *length;
      }
      default:
        return std::nullopt;
    }
  }

  /// Each is computed once, however often others name it.
  Value value_of(std::uint32_t id) {
    if (!known_[id]) known_[id] = evaluated(id);
    return known_[id];
  }

  Value evaluated(std::uint32_t id) {
    const Instruction i = of_id_[id];
    if (i.empty()) return std::nullopt;
    const std::uint32_t op = i[0] & 0xFFFF;
    switch (op) {
      case kSpecConstantTrue:
      case kSpecConstantFalse:
        return given(id).value_or(op == kSpecConstantTrue ? 1 : 0);
      case kSpecConstant:
        return given(id).value_or(i[3]);
      case kConstantTrue:
        return 1;
      case kConstantFalse:
        return 0;
      case kConstant:
        return i[3];
      case kSpecConstantOp:
        return computed(i);
      default:
        return std::nullopt;
    }
  }

  Value given(std::uint32_t id) const {
    const auto spec = spec_id_[id];
    if (!spec) return std::nullopt;
    if (*spec == 0) return subgroup_;
    if (*spec > constants_.size()) return std::nullopt;
    return constants_[*spec - 1];
  }

  Value computed(Instruction i) {
    const Value a = value_of(i[4]);
    if (!a) return std::nullopt;
    if (i[3] == kLogicalNot) return *a == 0 ? 1 : 0;
    if (i[3] == kSelect) return value_of(*a != 0 ? i[5] : i[6]);
    if (i.size() != 6) return std::nullopt;
    const Value b = value_of(i[5]);
    return b ? binary(i[3], *a, *b) : std::nullopt;
  }

  static Value binary(std::uint32_t op, std::uint32_t a, std::uint32_t b) {
    switch (op) {
      case kIAdd:
        return a + b;
      case kISub:
        return a - b;
      case kIMul:
        return a * b;
      // Where a branch of a selection divides by 0, it is not the one that is taken.
      case kUDiv:
        return b == 0 ? 0 : a / b;
      case kUMod:
        return b == 0 ? 0 : a % b;
      case kIEqual:
        return a == b ? 1 : 0;
      case kINotEqual:
        return a != b ? 1 : 0;
      case kLogicalOr:
      case kBitwiseOr:
        return a | b;
      case kLogicalAnd:
        return a & b;
      case kUGreaterThan:
        return a > b ? 1 : 0;
      case kUGreaterThanEqual:
        return a >= b ? 1 : 0;
      case kULessThan:
        return a < b ? 1 : 0;
      case kULessThanEqual:
        return a <= b ? 1 : 0;
      case kShiftRightLogical:
        return b < 32 ? a >> b : 0;
      default:
        return std::nullopt;
    }
  }

  std::vector<Instruction> of_id_;
  std::vector<Value> spec_id_, known_;
  std::vector<std::uint32_t> pointers_;  // types of the variables
  std::uint32_t subgroup_;
  std::span<const std::uint32_t> constants_;
};

}  // namespace

std::uint64_t declared_shared_bytes(std::span<const std::uint32_t> words, std::uint32_t subgroup,
                                    std::span<const std::uint32_t> constants) {
  return Module(words, subgroup, constants).workgroup_bytes().value_or(UINT64_MAX);
}

std::uint64_t declared_shared_bytes(std::string_view shader, std::uint32_t subgroup,
                                    std::span<const std::uint32_t> constants) {
  const FoundShader found = find_shader(shader, subgroup);
  if (found.words.empty()) return 0;
  return declared_shared_bytes(found.words, found.sized ? subgroup : 1, constants);
}

}  // namespace runnel::vulkan
