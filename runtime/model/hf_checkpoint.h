// SPDX-License-Identifier: Apache-2.0
// A checkpoint directory as Hugging Face lays it out (config.json, safetensors, tokenizer files) →
// a model file. Reads `model_type` gsa, gla, hgrn2, retnet, linear_attn and abc in the layouts of
// 2024 and 2025, regla, delta_net, gated_deltanet, rwkv7 and runnel_gsa.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runnel/chat.h"
#include "runnel/result.h"
#include "runtime/io/safetensors.h"
#include "runtime/model/config.h"
#include "runtime/model/hf_shifted.h"
#include "runtime/model/model_writer.h"

namespace runnel {

/// The contents of config.json as our configuration.
struct HfConfig {
  ModelConfig model;
  bool tied = false;          // the head is the embedding
  bool g_norm_weight = true;  // the output norm has a weight
  bool slot_biases = false;   // f_proj.bias, read_bias and head_read_bias are there (runnel_gsa)
  bool gate_bias = false;     // f_proj.bias is there
  bool tied_maps = false;     // one feature map for queries and keys
  // kv heads of the model for each of the checkpoint: heads that read the same key forget differently
  int repeat_kv = 1;
  // of a model whose sizes come from its tensors: `model` is empty until read_hf_config() has seen them
  std::optional<HfShifted> shifted;
};

/// The checkpoint's tensors under our names; `storage` owns what is not a view of it.
struct MappedTensors {
  std::vector<ModelTensor> tensors;
  std::vector<std::vector<std::byte>> storage;
};

/// The values of model_type that are read, separated by commas.
std::string hf_model_types();

/// @param json  the text of config.json
/// @return malformed, or unsupported naming the option that this library cannot run.
Result<HfConfig> parse_hf_config(std::string_view json);

/// The same, with the sizes that only the tensors' shapes say.
/// @return also malformed for a tensor that is missing, or a shape that config.json contradicts
Result<HfConfig> read_hf_config(std::string_view json, const SafetensorsCheckpoint& checkpoint);

/// The checkpoint's tensors under our names, in the order of the file; the views are valid as long as
/// `checkpoint` and the result.
/// @return malformed, naming a missing tensor or one of the wrong shape; unsupported, naming tensors that have no
///         place or an element type that is no 16- or 32-bit float.
Result<MappedTensors> map_hf_tensors(const HfConfig& config,
                                     const SafetensorsCheckpoint& checkpoint);

struct ConvertOptions {
  std::optional<quant::BlockType> type;  // of linear weights; none: the checkpoint's own, lossless
  StoreOptions store;                    // its `type` is replaced by the one above
  std::optional<ChatFormat> chat;        // none: the directory's template
  std::string name;                      // general.name; empty: the directory's name
  std::string license;                   // general.license; empty: none
  std::vector<std::string> sampling;     // NAME=VALUE, see set_sampling_key()
};

struct ConvertReport {
  HfConfig config;
  quant::BlockType type = quant::BlockType::f32;  // of linear weights
  std::vector<StoredTensor> tensors;
  bool has_tokenizer = false;
  std::vector<std::string> warnings;  // for people: what the tokenizer files could not give
};

/// Converts `directory` to the model file `path`; a file is a checkpoint as in blinkdl_checkpoint.h.
/// @return as the functions above, tokenizer_to_gguf and write_model.
Result<ConvertReport> convert_checkpoint(const std::filesystem::path& directory,
                                         const std::filesystem::path& path,
                                         const ConvertOptions& options);

}  // namespace runnel
