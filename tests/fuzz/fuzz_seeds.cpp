// SPDX-License-Identifier: Apache-2.0
// Writes the first inputs of each fuzzer into DIRECTORY/<fuzzer>/: small valid files.
//   fuzz_seeds DIRECTORY
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "runtime/base/byte_reader.h"
#include "runtime/io/gguf.h"
#include "runtime/io/snapshot_file.h"
#include "runtime/model/config_keys.h"
#include "runtime/model/model_file.h"
#include "runtime/model/weight_table.h"
#include "runtime/text/world_vocabulary.h"
#include "tests/io/sample_files.h"

namespace {

namespace fs = std::filesystem;

bool write(const fs::path& directory, std::string_view name, std::string_view bytes) {
  std::error_code ignored;
  fs::create_directories(directory, ignored);
  std::ofstream out(directory / name, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return out.good();
}

bool write_gguf(const fs::path& directory) {
  runnel::test::RawGguf aligned(2, 1);
  aligned.key("general.alignment", 4).put(64U);
  aligned.tensor("q", {256, 1, 1, 1}, 12, 0).tensor("h", {2}, 1, 192);
  bool written = write(directory, "sample", runnel::test::sample_gguf()) &&
                 write(directory, "aligned", aligned.with_data(196, 64));
  for (const runnel::quant::BlockTraits& t : runnel::quant::formats()) {
    if (!t.in_files) continue;
    const auto values = static_cast<std::uint64_t>(t.block_values);
    runnel::test::RawGguf one(1, 0);
    one.tensor("w", {values, 2}, static_cast<std::uint32_t>(t.type), 0);
    written = written &&
              write(directory, t.name, one.with_data(2 * static_cast<std::size_t>(t.block_bytes)));
  }
  return written;
}

/// A model of zeros with a linear weight of each format: one layer of slots, D 256.
bool write_models(const fs::path& directory) {
  using runnel::quant::BlockType;
  bool written = true;
  std::error_code ignored;
  fs::create_directories(directory, ignored);
  for (const runnel::quant::BlockTraits& t : runnel::quant::formats()) {
    if (!runnel::quant::is_weight(t) || t.kind != runnel::quant::ValueKind::block) continue;
    runnel::ModelConfig c;
    c.name = "zeros";
    c.vocab_size = 4;
    c.hidden_size = 256;
    runnel::LayerSpec layer;
    layer.num_heads = layer.num_kv_heads = 1;
    layer.head_k_dim = layer.head_v_dim = 32;
    layer.intermediate_size = 32;
    layer.slots().num_memory_slots = 4;
    layer.slots().scale = 1.0F;
    c.repeat(layer, 1);
    runnel::GgufWriter writer;
    for (auto& [key, value] : runnel::config_keys(c)) writer.set(key, value);
    const auto add = [&writer](const std::string& name, BlockType type,
                               const std::vector<std::int64_t>& shape) {
      const std::int64_t rows = shape.size() > 1 ? shape[0] : 1, cols = shape.back();
      const std::size_t bytes =
          static_cast<std::size_t>(rows) * runnel::quant::row_bytes(type, cols);
      writer.add_tensor(name, type, shape, [bytes]() -> runnel::Result<std::vector<std::byte>> {
        return std::vector<std::byte>(bytes);
      });
    };
    add(std::string(runnel::kEmbeddingsName), t.type, {c.vocab_size, c.hidden_size});
    for (const runnel::LayerTensor& w : runnel::layer_tensors(c.layers[0], c.hidden_size)) {
      if (w.presence != runnel::Presence::required) continue;
      const bool divides = w.shape.back() % t.block_values == 0;
      const BlockType type = w.role == runnel::WeightRole::matrix
                                 ? (divides ? t.type : BlockType::q8_0)
                             : w.role == runnel::WeightRole::vector ? BlockType::f32
                                                                    : BlockType::f16;
      add(runnel::layer_prefix(0) + std::string(w.suffix), type, w.shape);
    }
    add(std::string(runnel::kFinalNormName), BlockType::f32, {c.hidden_size});
    if (!writer.write(directory / t.name)) written = false;
    const auto file = runnel::GgufFile::open(directory / t.name);
    const runnel::Result<runnel::ModelFile> model =
        file ? runnel::ModelFile::from_gguf(*file) : file.error();
    if (!model) {
      std::fprintf(stderr, "%s: %s\n", t.name.data(), model.error().message.c_str());
      written = false;
    }
  }
  return written;
}

/// Two blocks of each format, all bits different.
bool write_blocks(const fs::path& directory) {
  bool written = true;
  char index = 0;
  for (const runnel::quant::BlockTraits& t : runnel::quant::formats()) {
    std::string bytes(1, index++);
    for (int i = 0; i < 2 * t.block_bytes; ++i) bytes.push_back(static_cast<char>(37 * i + 11));
    written = written && write(directory, t.name, bytes);
  }
  return written;
}

bool write_safetensors(const fs::path& directory) {
  return write(directory, "sample", runnel::test::sample_safetensors()) &&
         write(
             directory, "index",
             R"({"metadata":{"total_size":36},"weight_map":{"w":"a.safetensors","b":"b.safetensors"}})");
}

bool write_snapshots(const fs::path& directory) {
  const auto put = [&](std::string_view name, const runnel::SnapshotData& data,
                       runnel::SnapshotEncoding encoding = {}) {
    return write(directory, name, runnel::as_text(runnel::snapshot_to_bytes(data, encoding)));
  };
  using Kind = runnel::StateEncoding;
  runnel::SnapshotData large = runnel::test::sample_snapshot();
  large.position = 2;
  large.recent_tokens = {1, 2};
  large.context = {.messages = {{"user", "Hello"}}, .tokens = {1, 2}};
  large.state.resize(200);
  for (std::size_t i = 0; i < large.state.size(); ++i)
    large.state[i] = 1.0F / static_cast<float>(i + 1);
  large.initial_state = large.state;
  return put("sample", runnel::test::sample_snapshot()) && put("empty", {}) &&
         put("context", large) && put("f16", large, {.state = Kind::f16, .compress = false}) &&
         put("int8", large, {.state = Kind::int8, .compress = false}) &&
         put("f32-zstd", large, {.state = Kind::f32, .compress = true}) &&
         put("f16-zstd", large, {.state = Kind::f16, .compress = true}) &&
         put("int8-zstd", large, {.state = Kind::int8, .compress = true});
}

/// The bytes that `writer` writes, through a file.
std::string bytes_of(const runnel::GgufWriter& writer, const fs::path& file) {
  std::error_code ignored;
  fs::create_directories(file.parent_path(), ignored);
  if (!writer.write(file)) return {};
  std::ifstream in(file, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), {}};
  fs::remove(file, ignored);
  return bytes;
}

std::string tokenizer_input(const std::string& gguf, const std::string& text) {
  std::string bytes(8, '\0');
  bytes[0] = static_cast<char>(text.size() & 0xFF);
  bytes[1] = static_cast<char>(text.size() >> 8);
  return bytes + gguf + text;
}

/// A small World vocabulary, and lists of one.
bool write_world(const fs::path& directory) {
  runnel::GgufWriter writer;
  const auto set = runnel::world_to_gguf(
      {std::string(1, '\0'), "a", "b", "ab", "\n\n", "\xE3\x80\x82\n", "\x80"}, 10,
      [&](std::string key, runnel::GgufValue value) { writer.set(std::move(key), value); });
  const std::string gguf = set ? bytes_of(writer, directory / "file") : "";
  return write(directory, "world", tokenizer_input(gguf, "abba\n\n\xE3\x80\x82\n<s>")) &&
         write(directory, "world-list",
               tokenizer_input(gguf, "1 '\\x00' 1\n2 b'\\x80' 1\n3 '\\u3000' 3\n"));
}

/// A small byte-level BPE, and texts that its fuzzer also tries as templates and JSON.
bool write_tokenizers(const fs::path& directory) {
  runnel::GgufWriter writer;
  using Strings = std::vector<std::string>;
  writer.set("tokenizer.ggml.model", std::string("gpt2"));
  writer.set("tokenizer.ggml.pre", std::string("smollm"));
  writer.set("tokenizer.ggml.tokens",
             runnel::GgufArray(Strings{"<|im_start|>", "<|im_end|>", "a", "b", "\xC4\xA0", "ab",
                                       "\xC4\xA0"
                                       "a"}));
  writer.set("tokenizer.ggml.token_type",
             runnel::GgufArray(std::vector<std::int32_t>{3, 3, 1, 1, 1, 1, 4}));
  writer.set("tokenizer.ggml.merges", runnel::GgufArray(Strings{"a b"}));
  writer.set("tokenizer.ggml.eos_token_id", std::uint32_t{1});
  const std::string gguf = bytes_of(writer, directory / "file");
  const auto input = [&](const std::string& text) { return tokenizer_input(gguf, text); };
  return write(directory, "text", input("ab a<|im_end|> 12 na\xC3\xAFve")) &&
         write(directory, "template",
               input("{% for message in messages %}{{'<|im_start|>' + message['role']}}{% endfor "
                     "%}")) &&
         write(directory, "json",
               input(R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[["a","b"]]},)"
                     R"("decoder":{"type":"ByteLevel"},"pre_tokenizer":{"type":"ByteLevel",)"
                     R"("add_prefix_space":false},"added_tokens":[{"id":0,"content":"a"}]})"));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: fuzz_seeds DIRECTORY\n");
    return 2;
  }
  const fs::path directory = argv[1];
  const bool written =
      write_gguf(directory / "fuzz_gguf") && write_blocks(directory / "fuzz_blocks") &&
      write_models(directory / "fuzz_model_file") &&
      write_safetensors(directory / "fuzz_safetensors") &&
      write_snapshots(directory / "fuzz_snapshot") &&
      write_tokenizers(directory / "fuzz_tokenizer") && write_world(directory / "fuzz_tokenizer");
  if (!written) std::fprintf(stderr, "%s: cannot be written\n", argv[1]);
  return written ? 0 : 1;
}
