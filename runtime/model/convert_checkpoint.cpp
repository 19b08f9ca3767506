// SPDX-License-Identifier: Apache-2.0
// The whole conversion: configuration, tensors, tokenizer, file.
#include <system_error>
#include <utility>

#include "runtime/base/file_map.h"
#include "runtime/base/try.h"
#include "runtime/model/blinkdl_checkpoint.h"
#include "runtime/model/hf_checkpoint.h"
#include "runtime/model/model_file.h"
#include "runtime/model/sampling_keys.h"
#include "runtime/model/weight_table.h"
#include "runtime/text/tokenizer.h"

namespace runnel {
namespace {

constexpr std::size_t kMaxConfigBytes = 16U << 20;

Result<HfConfig> read_config(const std::filesystem::path& directory,
                             const SafetensorsCheckpoint& checkpoint) {
  RUNNEL_TRY(const FileMap file, FileMap::open(directory / "config.json"));
  if (file.bytes().size() > kMaxConfigBytes) {
    return fail(ErrorCode::malformed, "config.json has ", file.bytes().size(),
                " bytes, expected at most ", kMaxConfigBytes);
  }
  return read_hf_config({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()},
                        checkpoint);
}

/// The directory's own name, also for "." and paths that end in a slash.
std::string directory_name(const std::filesystem::path& directory) {
  std::error_code ignored;
  const std::filesystem::path absolute = std::filesystem::weakly_canonical(directory, ignored);
  return absolute.filename().empty() ? absolute.parent_path().filename().string()
                                     : absolute.filename().string();
}

}  // namespace

Result<ConvertReport> convert_checkpoint(const std::filesystem::path& directory,
                                         const std::filesystem::path& path,
                                         const ConvertOptions& options) {
  std::error_code ignored;
  if (std::filesystem::is_regular_file(directory, ignored))
    return convert_blinkdl(directory, path, options);
  ConvertReport report;
  RUNNEL_TRY(const SafetensorsCheckpoint checkpoint, SafetensorsCheckpoint::open(directory));
  RUNNEL_TRY(report.config, read_config(directory, checkpoint));
  ModelConfig& config = report.config.model;
  config.name = options.name.empty() ? directory_name(directory) : options.name;
  RUNNEL_TRY(const MappedTensors mapped, map_hf_tensors(report.config, checkpoint));
  const std::vector<ModelTensor>& tensors = mapped.tensors;

  GgufWriter writer;
  config_to_gguf(config, writer);
  if (!options.license.empty()) writer.set("general.license", options.license);
  for (const std::string& assignment : options.sampling) {
    RUNNEL_CHECK_OK(set_sampling_key(assignment, writer));
  }
  if (!report.config.shifted) writer.set(std::string(kTiedKey), report.config.tied);
  RUNNEL_TRY(TokenizerConversion tokenizer,
             tokenizer_to_gguf(directory, config.vocab_size, writer, options.chat));
  report.has_tokenizer = tokenizer.keys > 0;
  report.warnings = std::move(tokenizer.warnings);
  StoreOptions store = options.store;
  store.type = options.type.value_or(tensors.front().source.type);  // the embedding's
  report.type = store.type;
  RUNNEL_TRY(report.tensors, write_model(tensors, writer, path, store));
  return report;
}

}  // namespace runnel
