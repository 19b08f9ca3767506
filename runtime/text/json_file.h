// SPDX-License-Identifier: Apache-2.0
// The one reader of JSON that comes from outside: bounded in size and depth, with errors that name
// what was read and never repeat more of it than a line.
//
//   RUNNEL_TRY(const nlohmann::json root, read_json_file(directory / "tokenizer.json"));
//   RUNNEL_TRY(const nlohmann::json body, parse_json(text, "the body", {.unique_keys = true}));
#pragma once

#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

#include "runnel/result.h"

namespace runnel {

/// What a JSON text may be like.
struct JsonLimits {
  std::size_t bytes = std::size_t{256} << 20;  // the largest tokenizer.json known has 35 MB
  int depth = 64;                              // of objects and arrays inside each other
  bool unique_keys = false;  // refuse an object that has a key twice: readers disagree which counts
};

/// @return not_found or io (the file), malformed (its JSON, a key that comes twice), unsupported
/// (longer or nested deeper than `limits` say).
Result<nlohmann::json> read_json_file(const std::filesystem::path& path, JsonLimits limits = {});

/// The same for text; `name` is put before messages. What it returns can be dumped, compared and
/// copied: nothing of that goes deeper than `limits.depth`.
Result<nlohmann::json> parse_json(std::string_view text, std::string_view name,
                                  JsonLimits limits = {});

}  // namespace runnel
