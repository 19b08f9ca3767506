// SPDX-License-Identifier: Apache-2.0
// nlohmann's parser with limits.
#include "runtime/text/json_file.h"

#include "runtime/base/file_map.h"
#include "runtime/base/try.h"

namespace runnel {

namespace {

constexpr std::size_t kMaxBytes = std::size_t{256}
                                  << 20;  // the largest tokenizer.json known has 35 MB
constexpr int kMaxDepth = 64;

/// Whether objects and arrays are nested deeper than kMaxDepth, in valid JSON.
bool too_deep(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kMaxDepth) return true;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return false;
}

}  // namespace

Result<nlohmann::json> parse_json(std::string_view text, std::string_view name) {
  if (text.size() > kMaxBytes)
    return fail(ErrorCode::unsupported, name, ": has ", text.size(), " bytes, at most ", kMaxBytes,
                " are read");
  if (too_deep(text))
    return fail(ErrorCode::unsupported, name, ": is nested deeper than ", kMaxDepth, " levels");
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception& error) {
    return fail(ErrorCode::malformed, name, ": ", error.what());
  }
}

Result<nlohmann::json> read_json_file(const std::filesystem::path& path) {
  RUNNEL_TRY(const FileMap map, FileMap::open(path));
  const auto bytes = map.bytes();
  return parse_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()},
                    path.filename().string());
}

}  // namespace runnel
