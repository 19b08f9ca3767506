// SPDX-License-Identifier: Apache-2.0
// Model files made for tests: from checkpoints in tests/data, and small ones with parts changed.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runnel/result.h"
#include "runtime/io/gguf.h"
#include "runtime/model/config.h"
#include "runtime/model/model_file.h"
#include "runtime/model/model_writer.h"

namespace runnel::test {

/// Names of the checkpoints in tests/data/golden.
inline constexpr const char* kTinyCheckpoints[] = {"tiny_base", "tiny_base_legacy",   "tiny_conv",
                                                   "tiny_gqa",  "tiny_noaffine_relu", "tiny_t2r",
                                                   "tiny_tied"};

/// tests/data/golden/NAME
std::filesystem::path tiny_checkpoint(const std::string& name);

/// Converts a checkpoint without its tokenizer.
Result<std::vector<StoredTensor>> convert_tensors(const std::filesystem::path& directory,
                                                  const std::filesystem::path& out,
                                                  const StoreOptions& options);

/// Opens a file as a model.
Result<ModelFile> open_model(const std::filesystem::path& path);

/// The parts of a GGUF file, to change and write again.
struct FileParts {
  struct Tensor {
    quant::BlockType type = quant::BlockType::f32;
    std::vector<std::int64_t> shape;
    std::vector<std::byte> data;  // empty: zeros
  };
  std::map<std::string, GgufValue> keys;
  std::map<std::string, Tensor> tensors;

  Status write(const std::filesystem::path& path) const;
};

/// A valid model of zeros with every optional part: conv, t2r map, sinks, window, biases, g_norm,
/// its own head. 2 layers, D 32, 4 query and 2 kv heads of 8, 4 memory slots, FFN 64, vocab 16.
FileParts full_model_parts();

}  // namespace runnel::test
