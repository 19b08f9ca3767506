// SPDX-License-Identifier: Apache-2.0
// Numbers of the SPIR-V specification and of its two extensions for cooperative matrices, as far as they are used here.
#pragma once

#include <cstddef>
#include <cstdint>

namespace runnel::vulkan::spirv {

/// Words before the first instruction, and which of them is the bound of all ids.
inline constexpr std::size_t kHeader = 5, kBound = 3;

/// An instruction's first word is its length in words << 16 | Op.
enum Op : std::uint32_t {
  kExtension = 10,
  kCapability = 17,
  kTypeBool = 20,
  kTypeInt = 21,
  kTypeFloat = 22,
  kTypeVector = 23,
  kTypeArray = 28,
  kTypePointer = 32,
  kConstantTrue = 41,
  kConstantFalse = 42,
  kConstant = 43,
  kSpecConstantTrue = 48,
  kSpecConstantFalse = 49,
  kSpecConstant = 50,
  kSpecConstantOp = 52,
  kFunction = 54,
  kVariable = 59,
  kDecorate = 71,
  kIAdd = 128,
  kISub = 130,
  kIMul = 132,
  kUDiv = 134,
  kUMod = 137,
  kLogicalOr = 166,
  kLogicalAnd = 167,
  kLogicalNot = 168,
  kSelect = 169,
  kIEqual = 170,
  kINotEqual = 171,
  kUGreaterThan = 172,
  kUGreaterThanEqual = 174,
  kULessThan = 176,
  kULessThanEqual = 178,
  kShiftRightLogical = 194,
  kBitwiseOr = 197,
  kTypeCooperativeMatrixKHR = 4456,
  kCooperativeMatrixLoadKHR = 4457,
  kCooperativeMatrixStoreKHR = 4458,
  kCooperativeMatrixMulAddKHR = 4459,
  kCooperativeMatrixLengthKHR = 4460,
  kTypeCooperativeMatrixNV = 5358,
  kCooperativeMatrixLoadNV = 5359,
  kCooperativeMatrixStoreNV = 5360,
  kCooperativeMatrixMulAddNV = 5361,
  kCooperativeMatrixLengthNV = 5362,
};

inline constexpr std::uint32_t kCapabilityCooperativeMatrixNV = 5357,
                               kCapabilityCooperativeMatrixKHR = 6022;
inline constexpr std::uint32_t kDecorationSpecId = 1, kStorageClassWorkgroup = 4;
inline constexpr std::uint32_t kMatrixA = 0, kMatrixB = 1,
                               kMatrixAccumulator = 2;           // uses of a KHR matrix
inline constexpr std::uint32_t kRowMajor = 0, kColumnMajor = 1;  // its layouts

}  // namespace runnel::vulkan::spirv
