// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/model_writer.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "quant/quantise.h"
#include "runtime/base/try.h"
#include "runtime/model/model_file.h"
#include "runtime/model/name_pattern.h"

namespace runnel {

void config_to_gguf(const ModelConfig& config, GgufWriter& writer) {
  for (auto& [key, value] : config_keys(config)) writer.set(key, value);
}

namespace {

using quant::BlockType;

std::string_view type_name(BlockType type) { return quant::format_of(type).name; }

/// Square sums of a tensor's error, gathered band by band.
struct ErrorSums {
  double error = 0;
  double power = 0;

  void add(std::span<const float> source, std::span<const float> stored) {
    for (std::size_t i = 0; i < source.size(); ++i) {
      const double difference = double{stored[i]} - double{source[i]};
      error += difference * difference;
      power += double{source[i]} * double{source[i]};
    }
  }
  double relative_rms() const { return power > 0 ? std::sqrt(error / power) : 0; }
};

/// The bytes of `source` stored as `type`. Works in bands of rows, so that the floats of a large
/// tensor are never all in memory.
Result<std::vector<std::byte>> store(const WeightView& source, BlockType type, int threads,
                                     double* relative_rms) {
  const bool quantised = quant::is_block_type(type);
  if (type == source.type && quantised) {
    return std::vector<std::byte>(source.data.begin(), source.data.end());
  }
  constexpr std::int64_t kBandValues = 1 << 22;
  const std::int64_t band = std::clamp<std::int64_t>(kBandValues / source.cols, 1, source.rows);
  const std::size_t in_row = quant::row_bytes(source.type, source.cols);
  const std::size_t out_row = quant::row_bytes(type, source.cols);
  std::vector<std::byte> out(static_cast<std::size_t>(source.rows) * out_row);
  std::vector<float> values(static_cast<std::size_t>(band * source.cols));
  std::vector<float> stored(relative_rms != nullptr ? values.size() : 0);
  ErrorSums sums;
  for (std::int64_t row = 0; row < source.rows; row += band) {
    const std::size_t first = static_cast<std::size_t>(row);
    const std::size_t rows = static_cast<std::size_t>(std::min(band, source.rows - row));
    const std::span<float> x =
        std::span(values).first(rows * static_cast<std::size_t>(source.cols));
    const std::span<std::byte> blocks = std::span(out).subspan(first * out_row, rows * out_row);
    RUNNEL_CHECK_OK(quant::dequantize_rows(
        source.type, source.data.subspan(first * in_row, rows * in_row), source.cols, x, threads));
    RUNNEL_CHECK_OK(quant::quantize_rows(type, x, source.cols, blocks, threads, row));
    if (relative_rms != nullptr) {
      const std::span<float> y = std::span(stored).first(x.size());
      RUNNEL_CHECK_OK(quant::dequantize_rows(type, blocks, source.cols, y, threads));
      sums.add(x, y);
    }
  }
  if (relative_rms != nullptr) *relative_rms = sums.relative_rms();
  return out;
}

/// Decides every tensor's type.
Result<std::vector<StoredTensor>> plan(const std::vector<ModelTensor>& tensors,
                                       const StoreOptions& options) {
  std::vector<NamePattern> patterns;
  for (const TypeOverride& o : options.overrides) {
    RUNNEL_TRY(NamePattern pattern, NamePattern::compile(o.pattern));
    patterns.push_back(std::move(pattern));
  }
  std::vector<bool> matched(patterns.size());
  std::vector<StoredTensor> stored;
  stored.reserve(tensors.size());
  for (const ModelTensor& t : tensors) {
    StoredTensor s;
    s.name = t.source.name;
    s.shape = t.shape;
    s.from = t.source.type;
    s.wanted = storage_type(t.role, options.type);
    for (std::size_t i = 0; i < patterns.size(); ++i) {
      if (!patterns[i].found_in(s.name)) continue;
      matched[i] = true;
      s.wanted = options.overrides[i].type;
    }
    if (!quant::is_written(quant::format_of(s.wanted))) {
      return fail(ErrorCode::invalid_argument, "tensor ", s.name, " cannot be written as ",
                  type_name(s.wanted), ", expected ", quant::format_names(quant::is_written));
    }
    if (!role_allows(t.role, s.wanted)) {
      return fail(ErrorCode::invalid_argument, "tensor ", s.name, " is a ", to_string(t.role),
                  " and cannot be ", type_name(s.wanted), ", expected ", allowed_types(t.role));
    }
    s.to = fitting_type(s.wanted, t.source.cols);
    s.bytes = static_cast<std::uint64_t>(t.source.rows) * quant::row_bytes(s.to, t.source.cols);
    stored.push_back(std::move(s));
  }
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    if (!matched[i]) {
      return fail(ErrorCode::invalid_argument, "pattern ", options.overrides[i].pattern,
                  " matches no tensor");
    }
  }
  return stored;
}

}  // namespace

BlockType storage_type(WeightRole role, BlockType type) {
  switch (role) {
    case WeightRole::vector:
    case WeightRole::small:
      return BlockType::f32;
    case WeightRole::gate:
    case WeightRole::low_rank:
      return type == BlockType::f32 || type == BlockType::bf16 ? type : BlockType::f16;
    case WeightRole::embedding:
    case WeightRole::wide_gate:
      return quant::format_of(type).for_tables;
    case WeightRole::matrix:
      return type;
  }
  return type;
}

BlockType fitting_type(BlockType type, std::int64_t cols) {
  while (cols % quant::format_of(type).block_values != 0)
    type = quant::format_of(type).for_odd_rows;
  return type;
}

Result<std::vector<StoredTensor>> write_model(const std::vector<ModelTensor>& tensors,
                                              GgufWriter& writer, const std::filesystem::path& path,
                                              const StoreOptions& options) {
  RUNNEL_TRY(std::vector<StoredTensor> stored, plan(tensors, options));
  writer.set("general.file_type",
             static_cast<std::uint32_t>(std::max(0, quant::format_of(options.type).file_type)));
  writer.set("general.quantization_version", std::uint32_t{2});
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const WeightView& source = tensors[i].source;
    StoredTensor& record = stored[i];
    const int threads = options.threads;
    double* rms = options.measure_error ? &record.relative_rms : nullptr;
    writer.add_tensor(record.name, record.to, record.shape,
                      [&source, &record, threads, rms]() -> Result<std::vector<std::byte>> {
                        return store(source, record.to, threads, rms);
                      });
  }
  if (options.split_bytes == 0) {
    RUNNEL_CHECK_OK(writer.write(path, options.progress));
    return stored;
  }
  RUNNEL_TRY(const std::vector<int> parts,
             writer.write_split(path, options.split_bytes, options.progress));
  for (std::size_t i = 0; i < parts.size(); ++i) stored[i].part = parts[i];
  return stored;
}

}  // namespace runnel
