// SPDX-License-Identifier: Apache-2.0
// Small valid files of every format, and tools to damage them.
#pragma once

#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/io/snapshot_data.h"

namespace runnel::test {

/// Bytes put together by hand, little-endian.
class RawBytes {
 public:
  template <class T>
  requires std::is_arithmetic_v<T> RawBytes& put(T value) {
    text_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  RawBytes& raw(std::string_view bytes) {
    text_ += bytes;
    return *this;
  }
  RawBytes& pad(std::size_t alignment) {
    text_.resize((text_.size() + alignment - 1) / alignment * alignment, '\0');
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

/// `bytes` with `value` written over what is at `at`.
template <class T>
std::string patched(std::string bytes, std::size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
  return bytes;
}

/// GGUF by hand, so that it can be wrong: every number is what the test says.
class RawGguf : public RawBytes {
 public:
  RawGguf(std::uint64_t tensors, std::uint64_t pairs, std::uint32_t version = 3) {
    raw("GGUF").put(version).put(tensors).put(pairs);
  }
  RawGguf& text_value(std::string_view text) {
    put(std::uint64_t(text.size())).raw(text);
    return *this;
  }
  /// key and type; the value follows
  RawGguf& key(std::string_view name, std::uint32_t type) {
    text_value(name).put(type);
    return *this;
  }
  /// sizes fastest first, as in the file
  RawGguf& tensor(std::string_view name, std::initializer_list<std::uint64_t> sizes,
                  std::uint32_t type, std::uint64_t offset) {
    text_value(name).put(std::uint32_t(sizes.size()));
    for (const std::uint64_t size : sizes) put(size);
    put(type).put(offset);
    return *this;
  }
  /// aligns and appends zeros as tensor data
  std::string with_data(std::size_t bytes, std::size_t alignment = 32) {
    pad(alignment).raw(std::string(bytes, '\0'));
    return text();
  }
};

/// A valid GGUF file of a few hundred bytes with every kind of value and two tensors.
inline std::string sample_gguf() {
  RawGguf f(2, 6);
  f.key("general.architecture", 8).text_value("gsa");
  f.key("n", 4).put(std::uint32_t(7));
  f.key("big", 10).put(std::uint64_t(1) << 40);
  f.key("flag", 7).put(std::uint8_t(1));
  f.key("floats", 9).put(std::uint32_t(6)).put(std::uint64_t(2)).put(1.0F).put(2.0F);
  f.key("words", 9).put(std::uint32_t(8)).put(std::uint64_t(2));
  f.text_value("one").text_value("");
  f.tensor("a", {3, 2}, 0, 0).tensor("b", {32}, 8, 32);
  return f.with_data(32 + 34);
}

/// A safetensors file of header text and data.
inline std::string raw_safetensors(std::string_view header, std::size_t data_bytes) {
  return RawBytes()
      .put(std::uint64_t(header.size()))
      .raw(header)
      .raw(std::string(data_bytes, '\1'))
      .text();
}

inline std::string sample_safetensors() {
  return raw_safetensors(
      R"({"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
      R"("b":{"dtype":"BF16","shape":[2],"data_offsets":[24,28]},)"
      R"("s":{"dtype":"I64","shape":[],"data_offsets":[28,36]}}   )",
      36);
}

inline SnapshotData sample_snapshot() {
  SnapshotData data;
  data.model_fingerprint = 0x1234567890abcdefULL;
  data.backend = "reference";
  data.position = 5'000'000'000ULL;
  data.history_hash = 42;
  data.state = {1.0F, -2.5F, 3e-30F};
  data.logits = {0.25F, -7.0F, 1.0F, 0.0F};
  data.recent_tokens = {3, 1, 2};
  data.utf8_carry = "\xe6\xbc";
  data.stop_carry = "<|im";
  data.has_sampler = true;
  data.sampler = {.seed = std::numeric_limits<std::uint64_t>::max(),
                  .temperature = 0.7F,
                  .top_k = 40,
                  .top_p = 0.95F,
                  .min_p = 0.05F,
                  .repetition_penalty = 1.1F,
                  .presence_penalty = 0.1F,
                  .frequency_penalty = 0.2F,
                  .penalty_window = 64,
                  .logit_bias = {{1, -1.0F}, {3, 2.0F}}};
  return data;
}

}  // namespace runnel::test
