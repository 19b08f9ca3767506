// SPDX-License-Identifier: Apache-2.0
#include "tests/support/chat_model.h"

#include <cstdint>
#include <iterator>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "runtime/text/byte_alphabet.h"
#include "runtime/text/world_vocabulary.h"
#include "tests/support/loaded_model.h"

namespace runnel::test {
namespace {

constexpr int kBytes = 256;

// One entry for every byte, then the special tokens.
void add_tokenizer(GgufWriter& writer) {
  const ByteAlphabet alphabet;
  std::vector<std::string> tokens;
  for (int byte = 0; byte < kBytes; ++byte) {
    std::string spelled;
    alphabet.spell(static_cast<std::uint8_t>(byte), spelled);
    tokens.push_back(spelled);
  }
  std::vector<std::int32_t> types(tokens.size(), 1);
  for (const char* special : {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}) {
    tokens.emplace_back(special);
    types.push_back(3);
  }
  writer.set("tokenizer.ggml.model", std::string("gpt2"));
  writer.set("tokenizer.ggml.pre", std::string("smollm"));
  writer.set("tokenizer.ggml.tokens", GgufArray(tokens));
  writer.set("tokenizer.ggml.token_type", GgufArray(types));
  writer.set("tokenizer.ggml.merges", GgufArray(std::vector<std::string>{}));
  writer.set("tokenizer.ggml.eos_token_id", std::uint32_t{kBytes + 2});
  writer.set("gsa.chat.style", std::string("chatml"));
  writer.set("gsa.chat.default_system_prompt", std::string("Be brief."));
}

}  // namespace

RandomModel chat_weights(std::uint64_t seed) {
  ModelConfig config = small_positional_config();
  config.name = "tiny";
  config.vocab_size = 264;
  return make_random_model(config, {.gate_bias = true, .read_biases = true}, seed);
}

void write_chat_model(const std::filesystem::path& file,
                      const std::function<void(GgufWriter&)>& add_keys, std::uint64_t seed) {
  write_gguf(chat_weights(seed), file, [&](GgufWriter& writer) {
    add_tokenizer(writer);
    if (add_keys) add_keys(writer);
  });
}

void write_world_chat_model(const std::filesystem::path& file) {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < kBytes; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  tokens.insert(tokens.end(), std::begin(kWorldTokens), std::end(kWorldTokens));
  const RandomModel model = chat_weights();
  write_gguf(model, file, [&](GgufWriter& writer) {
    const Status set = world_to_gguf(
        tokens, model.config.vocab_size,
        [&](std::string key, GgufValue value) { writer.set(std::move(key), std::move(value)); });
    if (!set) throw std::runtime_error(set.error().message);
  });
}

}  // namespace runnel::test
