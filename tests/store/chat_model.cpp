// SPDX-License-Identifier: Apache-2.0
#include "tests/store/chat_model.h"

#include <stdexcept>
#include <vector>

#include "runtime/text/byte_alphabet.h"
#include "tests/support/loaded_model.h"
#include "tests/support/temporary_directory.h"

namespace runnel::test {
namespace {

void add_tokenizer(GgufWriter& writer) {
  const ByteAlphabet alphabet;
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) {
    std::string text;
    alphabet.spell(static_cast<std::uint8_t>(byte), text);
    tokens.push_back(std::move(text));
  }
  tokens.insert(tokens.end(), {"<|im_start|>", "<|im_end|>"});
  writer.set("tokenizer.ggml.model", std::string("gpt2"));
  writer.set("tokenizer.ggml.tokens", GgufArray(tokens));
  writer.set("tokenizer.ggml.merges", GgufArray(std::vector<std::string>()));
  writer.set("tokenizer.ggml.eos_token_id", std::uint32_t(257));
  writer.set("gsa.chat.style", std::string("chatml"));
  writer.set("gsa.chat.default_system_prompt", std::string("Be kind."));
}

}  // namespace

std::shared_ptr<const Model> chat_model(std::uint64_t seed, std::optional<std::int64_t> window) {
  ModelConfig config = small_positional_config();
  config.vocab_size = 258;
  const RandomModel source = make_random_model(config, {.read_biases = true}, seed);
  const TemporaryDirectory folder;
  write_gguf(source, folder.path() / "chat.gguf", add_tokenizer);
  auto model = Model::load(folder.path() / "chat.gguf",
                           {.device = "reference", .threads = 1, .window_slots = window});
  if (!model) throw std::runtime_error(model.error().message);
  return *model;
}

ConversationStore open_store(const std::filesystem::path& folder, std::uint64_t budget) {
  auto store = ConversationStore::open({.file = folder / "chats.db", .budget_bytes = budget});
  if (!store) throw std::runtime_error(store.error().message);
  return *store;
}

GenerationOptions short_answer(std::uint64_t seed) {
  return {.sampling = {.temperature = 1.0F, .top_p = 0.95F, .seed = seed},
          .max_tokens = 12,
          .ignore_end = true};
}

std::vector<NewBoundary> boundaries(int count) {
  auto session = Session::create(chat_model());
  std::vector<NewBoundary> made;
  for (int i = 0; i < count; ++i) {
    const TokenId token = i % 250;
    if (!session || !session->prefill(std::span(&token, 1))) throw std::runtime_error("prefill");
    const Snapshot snapshot = *session->snapshot();
    made.push_back({.model = session->model().info().fingerprint,
                    .tokens = {token},
                    .position = session->position(),
                    .history = static_cast<std::uint64_t>(i),
                    .snapshot = *snapshot.to_bytes()});
  }
  return made;
}

Result<MessageId> add_message(ConversationStore& store, ConversationId id, MessageId parent,
                              const NewBoundary& boundary, std::string& warning) {
  const std::string text = "message at " + std::to_string(boundary.position);
  return impl_of(store).add_message(
      {.conversation = id, .parent = parent, .role = "user", .text = text}, boundary, warning);
}

std::string everything_under(const std::filesystem::path& folder) {
  std::string all;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    all += entry.path().string() + "\n";
    if (entry.is_regular_file()) all += read_text(entry.path());
  }
  return all;
}

}  // namespace runnel::test
