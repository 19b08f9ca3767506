// SPDX-License-Identifier: Apache-2.0
// A checkpoint of RWKV-7 in one file as its author publishes it (BlinkDL: emb.weight, blocks.0.att.x_r …), .pth or
// .safetensors → a GGUF of architecture rwkv7, with the names and keys of llama.cpp's converter.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "runnel/result.h"
#include "runtime/io/gguf.h"
#include "runtime/io/safetensors.h"
#include "runtime/model/hf_checkpoint.h"

namespace runnel {

/// Tensors by their names in the file.
using NamedTensors = std::map<std::string, SafetensorsTensor, std::less<>>;

/// What the shapes say.
struct BlinkdlShape {
  std::int64_t vocab_size = 0;   // V
  std::int64_t hidden_size = 0;  // D
  std::int64_t layers = 0;
  std::int64_t head_size = 0;          // N; heads are D / N
  std::int64_t intermediate_size = 0;  // F
  std::int64_t decay_rank = 0;         // of w1 [D, r] and w2 [r, D]; the others likewise
  std::int64_t rate_rank = 0;          // a
  std::int64_t value_rank = 0;  // v, of the layers after the first; 0 in a model of one layer
  std::int64_t gate_rank = 0;   // g
};

/// @return unsupported for another version of RWKV and for a tuned state alone, malformed for a missing tensor or a
///         shape that fits nothing.
Result<BlinkdlShape> blinkdl_shape(const NamedTensors& tensors);

/// All tensors under llama.cpp's names. W_1 and W_2 of low rank are transposed, the six mixes are one tensor
/// [6, 1, 1, D] in the order r, w, k, v, a, g; layer 0 gets copies of a0, a1, a2 as v0, v1, v2, which are never read.
/// @return malformed, naming a missing tensor or one of another shape; unsupported, naming tensors that RWKV-7 does not
///         have (as those of its variants a and b) or an element type that is no 16- or 32-bit float.
Result<MappedTensors> map_blinkdl_tensors(const BlinkdlShape& shape, const NamedTensors& tensors);

/// Converts the file `source` to the model file `path`. A table of at least 65,530 rows gets the World vocabulary, a
/// smaller one no tokenizer.
/// @return as the functions above, TorchCheckpoint::open, SafetensorsCheckpoint::open and write_model.
Result<ConvertReport> convert_blinkdl(const std::filesystem::path& source,
                                      const std::filesystem::path& path,
                                      const ConvertOptions& options);

}  // namespace runnel
