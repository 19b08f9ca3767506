// SPDX-License-Identifier: Apache-2.0
// nlohmann's parser with limits.
#include "runtime/text/json_file.h"

#include <set>
#include <string>
#include <vector>

#include "runtime/base/file_map.h"
#include "runtime/base/text.h"
#include "runtime/base/try.h"

namespace runnel {

namespace {

constexpr std::size_t kShownBytes = 160;  // of the parser's message, which repeats what it read

/// Whether objects and arrays are nested deeper than `most`, in valid JSON.
bool too_deep(std::string_view text, int most) {
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
      if (++depth > most) return true;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return false;
}

/// Watches the parser for a key that an object has already.
class KeyWatch {
 public:
  bool operator()(nlohmann::json::parse_event_t event, const nlohmann::json& parsed) {
    using Event = nlohmann::json::parse_event_t;
    if (event == Event::object_start) {
      open_.emplace_back();
    } else if (event == Event::object_end) {
      open_.pop_back();
    } else if (event == Event::key && twice_.empty()) {
      const std::string& key = parsed.get_ref<const std::string&>();
      if (!open_.back().insert(key).second) twice_ = in_quotes(key);
    }
    return true;
  }
  const std::string& twice() const { return twice_; }

 private:
  std::vector<std::set<std::string>> open_;  // the keys of every object that is not over
  std::string twice_;
};

}  // namespace

Result<nlohmann::json> parse_json(std::string_view text, std::string_view name, JsonLimits limits) {
  if (text.size() > limits.bytes)
    return fail(ErrorCode::unsupported, name, ": has ", text.size(), " bytes, at most ",
                limits.bytes, " are read");
  if (too_deep(text, limits.depth))
    return fail(ErrorCode::unsupported, name, ": is nested deeper than ", limits.depth, " levels");
  try {
    if (!limits.unique_keys) return nlohmann::json::parse(text);
    KeyWatch watch;
    nlohmann::json value = nlohmann::json::parse(
        text, [&watch](int, nlohmann::json::parse_event_t event, const nlohmann::json& parsed) {
          return watch(event, parsed);
        });
    if (!watch.twice().empty())
      return fail(ErrorCode::malformed, name, ": has the key ", watch.twice(), " twice");
    return value;
  } catch (const nlohmann::json::exception& error) {
    return fail(ErrorCode::malformed, name, ": ", printable(error.what(), kShownBytes));
  }
}

Result<nlohmann::json> read_json_file(const std::filesystem::path& path, JsonLimits limits) {
  RUNNEL_TRY(const FileMap map, FileMap::open(path));
  const auto bytes = map.bytes();
  return parse_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()},
                    path.filename().string(), limits);
}

}  // namespace runnel
