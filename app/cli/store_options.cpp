// SPDX-License-Identifier: Apache-2.0
#include "app/cli/store_options.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <system_error>
#include <thread>
#include <tuple>
#include <vector>

#include "app/cli/terminal.h"
#include "runtime/base/atomic_file.h"
#include "runtime/base/number.h"
#include "runtime/base/text.h"
#include "runtime/base/try.h"
#include "runtime/io/gguf_parts.h"
#include "runtime/model/weight_table.h"

namespace runnel::cli {
namespace {

using quant::BlockType;

std::string type_name(BlockType type) { return std::string(quant::format_of(type).name); }

std::uint64_t elements(const StoredTensor& t) {
  std::uint64_t n = 1;
  for (const std::int64_t d : t.shape) n *= static_cast<std::uint64_t>(d);
  return n;
}

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(text.size(), width), ' ');
  return text;
}

std::string error_text(double relative_rms) {
  if (relative_rms == 0.0) return "0";
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.2e", relative_rms);
  return buffer;
}

/// One line for each way in which rows were too short for their blocks.
std::string fallback_lines(const std::vector<StoredTensor>& tensors) {
  std::map<std::tuple<BlockType, BlockType, std::int64_t>, int> counts;
  for (const StoredTensor& t : tensors) {
    if (t.to != t.wanted) ++counts[{t.wanted, t.to, t.shape.back()}];
  }
  std::string out;
  for (const auto& [key, count] : counts) {
    const auto& [wanted, to, cols] = key;
    out += std::to_string(count) + (count == 1 ? " tensor has" : " tensors have") + " rows of " +
           std::to_string(cols) + ", no multiple of " +
           std::to_string(quant::format_of(wanted).block_values) + ": stored as " + type_name(to) +
           " instead of " + type_name(wanted) + "\n";
  }
  return out;
}

constexpr std::size_t kTypeWidth = 9;  // the longest names have six letters

std::string table(const std::vector<StoredTensor>& tensors) {
  std::size_t name_width = 6;
  for (const StoredTensor& t : tensors) name_width = std::max(name_width, t.name.size());
  std::string out = padded("tensor", name_width) + "  " + padded("shape", 14) +
                    padded("was", kTypeWidth) + padded("is", kTypeWidth) + padded("size", 11) +
                    "relative RMS error\n";
  for (const StoredTensor& t : tensors) {
    out += padded(t.name, name_width) + "  " + padded(shape_text(t.shape), 14) +
           padded(type_name(t.from), kTypeWidth) + padded(type_name(t.to), kTypeWidth) +
           padded(format_bytes(t.bytes), 11) + error_text(t.relative_rms) + "\n";
  }
  return out;
}

/// "90M" → 90,000,000, as gguf-split reads it.
Result<std::uint64_t> split_size(const std::string& text) {
  constexpr std::uint64_t kMega = 1'000'000;
  const std::uint64_t unit = text.ends_with('M') ? kMega : text.ends_with('G') ? 1000 * kMega : 0;
  const auto number = number_in<std::uint64_t>(std::string_view(text).substr(0, text.size() - 1));
  if (unit > 0 && number && *number >= 1 && *number <= kMega) return *number * unit;
  return fail(ErrorCode::invalid_argument, "--split-max-size ", text,
              ": expected a whole number and M or G, as in 500M");
}

/// The files that are there of those `path` stands for where it is split: parts of any number of parts.
std::vector<std::filesystem::path> parts_of(const std::filesystem::path& path) {
  const std::filesystem::path stem = gguf::stem_of(path);
  std::vector<std::filesystem::path> parts;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory_of(stem), error)) {
    const std::optional<gguf::PartName> name = gguf::part_name(entry.path());
    if (name && name->stem.filename() == stem.filename()) parts.push_back(entry.path());
  }
  return parts;
}

/// The files that are read for a model file or a checkpoint. Of a directory all but model files, which may have been
/// made of it before.
std::vector<std::filesystem::path> files_read(const std::filesystem::path& in) {
  std::error_code error;
  std::vector<std::filesystem::path> files;
  if (std::filesystem::is_directory(in, error)) {
    for (const auto& entry : std::filesystem::directory_iterator(in, error)) {
      if (entry.path().extension() != ".gguf") files.push_back(entry.path());
    }
    return files;
  }
  files.push_back(in);
  if (const std::optional<gguf::PartName> name = gguf::part_name(in)) {
    const auto count = std::min(name->count, static_cast<std::int64_t>(gguf::kMostParts));
    for (std::int64_t i = 1; i <= count; ++i)
      files.push_back(gguf::part_path(name->stem, i, name->count));
  }
  return files;
}

}  // namespace

namespace {

std::vector<std::string> written_types() {
  std::vector<std::string> names;
  for (const quant::BlockTraits& t : quant::formats()) {
    if (quant::is_written(t)) names.emplace_back(t.name);
  }
  return names;
}

/// "q8_0 for q4_0, q4_1, q6_k for q4_k": the formats whose tables have another type.
std::string table_types() {
  std::string text;
  for (const quant::BlockTraits& to : quant::formats()) {
    std::string from;
    for (const quant::BlockTraits& t : quant::formats()) {
      if (quant::is_written(t) && t.for_tables == to.type && t.type != to.type)
        from += (from.empty() ? "" : ", ") + std::string(t.name);
    }
    if (!from.empty()) text += std::string(to.name) + " for " + from + "; ";
  }
  return text;
}

/// "q4_k becomes q4_0, q6_k becomes q8_0": what happens to rows that are no multiple of the large blocks.
std::string odd_row_types() {
  std::string text;
  for (const quant::BlockTraits& t : quant::formats()) {
    if (!quant::is_written(t) || t.block_values != quant::kSuperBlock) continue;
    text +=
        (text.empty() ? "" : ", ") + std::string(t.name) + " becomes " + type_name(t.for_odd_rows);
  }
  return text;
}

}  // namespace

std::string storage_help() {
  return "TYPE is the type of the linear weights. The others follow:\n"
         "  embedding, output head   " +
         table_types() +
         "else TYPE\n"
         "  gates of every channel   the same (hgrn2, regla)\n"
         "  other gates (f_proj)     f32 for f32, bf16 for bf16, else f16\n"
         "  norms, biases, convs     f32 always\n"
         "In rows that are no multiple of 256 " +
         odd_row_types() + ".";
}

CLI::Option* add_store_options(CLI::App& parser, StoreChoice& choice) {
  CLI::Option* type = parser.add_option("--type", choice.type, "Type of the linear weights")
                          ->type_name("TYPE")
                          ->check(CLI::IsMember(written_types()));
  parser
      .add_option("--tensor", choice.tensors,
                  "Another type for tensors whose name the pattern is found in, as in "
                  "'o_proj=q8_0'; may be repeated, the last match counts")
      ->type_name("REGEX=TYPE")
      ->take_all()
      ->allow_extra_args(false);
  parser
      .add_option("--split-max-size", choice.split,
                  "Write parts of at most this size, as in 500M or 2G (of 1000): "
                  "OUT-00001-of-00003.gguf and so on")
      ->type_name("N(M|G)");
  parser.add_option("-t,--threads", choice.threads, "Threads; 0: one per core")
      ->type_name("N")
      ->check(CLI::Range(0, 256))
      ->capture_default_str();
  parser.add_flag("--report", choice.report,
                  "List every tensor: type, size, relative error of the stored values");
  parser.add_flag("-f,--force", choice.force, "Replace OUT if it exists");
  return type;
}

Result<StoreOptions> store_options(const StoreChoice& choice) {
  StoreOptions options;
  if (!choice.split.empty()) {
    RUNNEL_TRY(options.split_bytes, split_size(choice.split));
  }
  if (!choice.type.empty()) options.type = *quant::block_type_from_name(choice.type);
  for (const std::string& text : choice.tensors) {
    const std::size_t at = text.rfind('=');
    const std::optional<BlockType> type =
        at == std::string::npos ? std::nullopt : quant::block_type_from_name(text.substr(at + 1));
    if (!type || at == 0) {
      return fail(ErrorCode::invalid_argument, "--tensor ", text,
                  ": expected REGEX=TYPE, as in o_proj=q8_0");
    }
    options.overrides.push_back({text.substr(0, at), *type});
  }
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  options.threads = choice.threads > 0 ? choice.threads : std::clamp(cores, 1, 256);
  options.measure_error = choice.report;
  return options;
}

std::optional<std::string> input_replaced(const std::string& in, const std::string& out,
                                          const StoreChoice& choice) {
  const std::vector<std::filesystem::path> written =
      choice.split.empty() ? std::vector<std::filesystem::path>{out} : parts_of(out);
  for (const std::filesystem::path& read : files_read(in)) {
    for (const std::filesystem::path& one : written) {
      std::error_code error;  // of what is not there
      if (!std::filesystem::equivalent(read, one, error)) continue;
      return "OUT would replace " + printable(read.native()) +
             ", which is read: expected another file";
    }
  }
  return std::nullopt;
}

Status check_overwrite(const std::string& path, const StoreChoice& choice) {
  if (choice.force) return {};
  std::error_code error;
  std::optional<std::string> there;
  if (!choice.split.empty()) {
    const std::vector<std::filesystem::path> parts = parts_of(path);
    if (!parts.empty()) there = parts.front().string();
  } else if (std::filesystem::exists(path, error)) {
    there = path;
  }
  if (!there) return {};
  return fail(ErrorCode::invalid_argument, *there, " exists; --force replaces it");
}

void print_stored(const std::string& path, const std::vector<StoredTensor>& tensors,
                  const StoreChoice& choice) {
  std::string out;
  if (choice.report) out += table(tensors);
  out += fallback_lines(tensors);
  std::uint64_t parameters = 0;
  std::uint64_t bytes = 0;
  std::map<std::string, std::uint64_t> of_type;
  for (const StoredTensor& t : tensors) {
    parameters += elements(t);
    bytes += t.bytes;
    of_type[type_name(t.to)] += t.bytes;
  }
  std::string types;
  for (const auto& [name, size] : of_type) {
    types += (types.empty() ? "" : ", ") + name + " " + format_bytes(size);
  }
  const double bits = 8.0 * static_cast<double>(bytes) / static_cast<double>(parameters);
  const int parts = tensors.back().part;
  if (parts > 0) {
    out += gguf::part_path(gguf::stem_of(path), 1, parts).string() +
           (parts > 1 ? " and the parts that follow: " : ": ");
  } else {
    out += path + ": ";
  }
  out += format_count(parameters) + " parameters in " + format_bytes(bytes) + " (" + types + "), " +
         format_number(bits, 2) + " bits each\n";
  write_out(out);
}

}  // namespace runnel::cli
