// SPDX-License-Identifier: Apache-2.0
// RWKV's World vocabulary as lists of tokens and as the keys of a model file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runnel/result.h"
#include "runtime/io/gguf.h"

namespace runnel {

/// The published World vocabulary, which is part of the program: the bytes of the tokens 1 to 65529, the first
/// element being token 1. © the RWKV project, Apache-2.0.
/// @return internal if the program's copy is damaged.
Result<std::vector<std::string>> world_vocabulary();

/// The same from a list as checkpoint directories have it (rwkv_vocab_v20230424.txt): lines of an id, a Python literal
/// of text or of bytes, and a length.
/// @return malformed, naming the line.
Result<std::vector<std::string>> read_world_vocabulary(const std::filesystem::path& path);
Result<std::vector<std::string>> parse_world_vocabulary(std::string_view list);

/// Gives `set` the `tokenizer.*` keys that llama.cpp's converter writes for these tokens: token 0 ends texts, ids past the
/// tokens are unused.
/// @param vocab_size  rows of the embedding.
/// @return mismatch if there are more tokens than rows.
Status world_to_gguf(const std::vector<std::string>& tokens, std::int32_t vocab_size,
                     const std::function<void(std::string, GgufValue)>& set);

}  // namespace runnel
