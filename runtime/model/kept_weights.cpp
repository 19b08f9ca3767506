// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/kept_weights.h"

#include <algorithm>
#include <cstdio>

namespace runnel {
namespace {

constexpr double kWorthSaying = 1.2;  // times the file

std::string megabytes(std::uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f MB", static_cast<double>(bytes) / 1e6);
  return text;
}

}  // namespace

std::uint64_t kept_bytes(const GgufTensor& tensor) {
  const quant::BlockTraits& from = quant::format_of(tensor.type);
  const quant::BlockTraits& to = quant::format_of(quant::kept_as(tensor.type));
  const auto unit = [](const quant::BlockTraits& t) {
    return static_cast<std::uint64_t>(t.block_values);
  };
  const std::uint64_t values =
      tensor.data.size() / static_cast<std::uint64_t>(from.block_bytes) * unit(from);
  return values / unit(to) * static_cast<std::uint64_t>(to.block_bytes);
}

KeptWeights KeptWeights::of(const GgufFile& file) {
  KeptWeights all;
  for (const GgufTensor& tensor : file.tensors()) {
    all.file_bytes += tensor.data.size();
    all.bytes += kept_bytes(tensor);
  }
  for (const quant::BlockTraits& t : quant::formats()) {
    if (quant::kept_as(t.type) == t.type) continue;
    for (const GgufTensor& tensor : file.tensors()) {
      if (tensor.type != t.type) continue;
      all.repacked.emplace_back(t.type, quant::kept_as(t.type));
      break;
    }
  }
  return all;
}

std::string memory_note(const KeptWeights& weights, std::uint64_t weight_bytes) {
  const double times = static_cast<double>(weight_bytes) /
                       static_cast<double>(std::max<std::uint64_t>(1, weights.file_bytes));
  if (weights.repacked.empty() || times < kWorthSaying) return "";
  char ratio[32];
  std::snprintf(ratio, sizeof ratio, "%.1f", times);
  std::string text = "weights take " + megabytes(weight_bytes) + " in memory, " + ratio +
                     " times the " + megabytes(weights.file_bytes) + " of the file: ";
  for (const auto& [from, to] : weights.repacked) {
    if (&from != &weights.repacked.front().first) text += ", ";
    text += std::string(quant::format_of(from).name) + " is kept as " +
            std::string(quant::format_of(to).name);
  }
  return text;
}

}  // namespace runnel
