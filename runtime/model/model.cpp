// SPDX-License-Identifier: Apache-2.0
// The public Model: owns file, tokenizer and engine.
#include "runnel/model.h"

#include <memory>
#include <new>
#include <utility>

#include "runtime/base/background_task.h"
#include "runtime/base/try.h"
#include "runtime/model/engine.h"
#include "runtime/model/kept_weights.h"
#include "runtime/model/model_impl.h"
#include "runtime/model/model_loader.h"
#include "runtime/model/sampling_keys.h"
#include "runtime/model/window.h"
#include "runtime/text/chat_template.h"
#include "runtime/text/tokenizer.h"

namespace runnel {

namespace {

constexpr float kParsed = 0.05F;  // share of the load that reading headers takes

Error no_tokenizer() {
  return Error{ErrorCode::unsupported, "model: its file has no tokenizer, feed token ids instead"};
}

Status check_token(TokenId token, std::int32_t vocab_size) {
  if (token >= 0 && token < vocab_size) return {};
  return fail(ErrorCode::invalid_argument, "token ", token, ": expected an id in [0, ", vocab_size,
              ")");
}

Status check_limit(std::uint64_t limit, std::uint64_t bytes) {
  if (limit == 0 || bytes <= limit) return {};
  return fail(ErrorCode::out_of_memory, "load: the model takes ", bytes,
              " bytes with one session, memory_limit is ", limit);
}

std::int64_t count_parameters(const GgufFile& file) {
  std::int64_t total = 0;
  for (const GgufTensor& tensor : file.tensors()) {
    std::int64_t n = 1;
    for (std::int64_t d : tensor.shape) n *= d;
    total += n;
  }
  return total;
}

ModelLoader::MakeEngine engine_by(const ModelOptions& options) {
  return [&options](ModelFile model, const LoadProgress& progress) {
    return Engine::create(std::move(model), options.device, options.threads, progress,
                          options.cache_directory, options.step_program);
  };
}

// Whether a model on this device reads its file after the load: the reference backend always does, "auto" does if the
// CPU may have to take over.
bool reads_later(const std::string& device) {
  if (device != "auto") return device.starts_with("reference");
  const std::vector<DeviceInfo> found = devices();
  return found.empty() || found.front().backend != "cpu";
}

}  // namespace

Result<std::shared_ptr<const Model>> Model::load(const std::filesystem::path& file,
                                                 ModelOptions options) {
  return ModelLoader::load(file, options, engine_by(options));
}

Result<std::shared_ptr<const Model>> Model::load_bytes(std::span<const std::byte> bytes,
                                                       ModelOptions options) {
  const bool copies = reads_later(options.device);
  std::weak_ptr<const GgufFile> file;
  const auto open = [&]() -> Result<std::shared_ptr<const GgufFile>> {
    RUNNEL_TRY(std::shared_ptr<const GgufFile> opened, GgufFile::from_bytes(bytes, copies));
    file = opened;
    return opened;
  };
  RUNNEL_TRY(std::shared_ptr<const Model> model,
             ModelLoader::load("bytes in memory", open, options, engine_by(options)));
  if (!copies && !file.expired())
    return fail(ErrorCode::internal, "load: ", options.device, " still reads the caller's bytes");
  return model;
}

Result<std::shared_ptr<const Model>> Model::load_descriptor(int descriptor, std::uint64_t offset,
                                                            std::uint64_t length,
                                                            ModelOptions options) {
  return ModelLoader::load(
      "descriptor " + std::to_string(descriptor),
      [&] { return GgufFile::open(descriptor, offset, length); }, options, engine_by(options));
}

Result<std::shared_ptr<const Model>> ModelLoader::load(const std::string& name,
                                                       const OpenFile& open,
                                                       const ModelOptions& options,
                                                       const MakeEngine& make_engine) try {
  if (options.threads < 0 || options.threads > 1024) {
    return fail(ErrorCode::invalid_argument, "threads: ", options.threads,
                ", expected 0 (automatic) to 1024");
  }
  const auto progress = [&options](float fraction) {
    return !options.progress || options.progress(fraction);
  };
  RUNNEL_TRY(std::shared_ptr<const GgufFile> gguf, open());
  RUNNEL_TRY(ModelFile model_file, ModelFile::from_gguf(gguf));
  RUNNEL_CHECK_OK(choose_window(model_file, options.window_slots));
  auto impl = std::make_unique<Access::Inside<Model>::Impl>();
  // Takes a third of the time until the first token, so it runs while the engine packs the weights.
  BackgroundTask<std::shared_ptr<const Tokenizer>> tokenizer(
      [gguf, vocab_size = model_file.config.vocab_size] {
        return Tokenizer::from_gguf(*gguf, vocab_size);
      });
  if (options.chat_template.empty()) {
    RUNNEL_TRY(impl->chat, chat_format_from_gguf(*gguf));
  } else {
    RUNNEL_TRY(impl->chat, chat_format_named(options.chat_template, *gguf));
  }
  RUNNEL_TRY(impl->sampling, sampling_from_gguf(*gguf));
  impl->info.name = model_file.config.name;
  impl->info.architecture = model_file.config.architecture;
  impl->info.vocab_size = model_file.config.vocab_size;
  impl->info.hidden_size = model_file.config.hidden_size;
  impl->info.parameters = count_parameters(*gguf);
  impl->info.fingerprint = model_file.fingerprint;
  impl->info.window_slots = model_file.window.slots;
  impl->info.file_window_slots = model_file.window.file_slots;
  // What cannot fit is refused before the work: packed weights are never smaller than as types are kept.
  const std::uint64_t state = StateLayout::of(model_file.config).total_floats() * sizeof(float);
  const KeptWeights kept = KeptWeights::of(*gguf);
  const std::uint64_t least =
      options.device.starts_with("reference") ? kept.file_bytes : kept.bytes;
  RUNNEL_CHECK_OK(check_limit(options.memory_limit, least + state));
  gguf.reset();
  if (!progress(kParsed)) return fail(ErrorCode::cancelled, "load: stopped by the caller");
  RUNNEL_TRY(impl->engine, make_engine(std::move(model_file), [&](float fraction) {
               return progress(kParsed + (1.0F - kParsed) * fraction);
             }));
  RUNNEL_TRY(impl->tokenizer, tokenizer.get());
  const MemoryUse used = impl->engine->memory();
  RUNNEL_CHECK_OK(
      check_limit(options.memory_limit, used.weight_bytes + used.state_bytes + used.scratch_bytes));
  impl->info.device = impl->engine->device().id;
  impl->info.step_program = to_string(impl->engine->step_program());
  impl->info.weight_bytes = impl->engine->memory().weight_bytes;
  impl->info.memory_note = memory_note(kept, impl->info.weight_bytes);
  impl->info.state_bytes = impl->engine->memory().state_bytes;
  return std::shared_ptr<const Model>(Access::make_new<Model>(std::move(impl)));
} catch (const std::bad_alloc&) {
  return fail(ErrorCode::out_of_memory, "load: not enough memory for ", name);
}

Model::Model(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Model::~Model() = default;

const ModelInfo& Model::info() const { return impl_->info; }
bool Model::has_tokenizer() const { return impl_->tokenizer != nullptr; }
const ChatFormat& Model::chat_format() const { return impl_->chat; }
const SamplingOptions& Model::sampling() const { return impl_->sampling; }
bool Model::is_end(TokenId token) const {
  return impl_->tokenizer && impl_->tokenizer->is_end(token);
}
std::vector<TokenId> Model::end_tokens() const {
  std::vector<TokenId> ends;
  const TokenId entries = impl_->tokenizer ? impl_->tokenizer->vocab_size() : 0;
  for (TokenId token = 0; token < entries; ++token) {
    if (impl_->tokenizer->is_end(token)) ends.push_back(token);
  }
  return ends;
}
Result<TokenInfo> Model::token(TokenId token) const {
  if (!impl_->tokenizer) return no_tokenizer();
  RUNNEL_CHECK_OK(check_token(token, impl_->info.vocab_size));
  if (token >= impl_->tokenizer->vocab_size())
    return TokenInfo{.kind = TokenKind::unused, .is_end = false, .bytes = {}};
  return TokenInfo{.kind = impl_->tokenizer->kind(token),
                   .is_end = impl_->tokenizer->is_end(token),
                   .bytes = impl_->tokenizer->piece(token, false, true)};
}
TokenId Model::begin_token() const {
  return impl_->tokenizer ? impl_->tokenizer->begin_token() : -1;
}

Result<std::vector<TokenId>> Model::encode(std::string_view text, bool parse_special) const {
  if (!impl_->tokenizer) return no_tokenizer();
  return impl_->tokenizer->encode(text, parse_special);
}

Result<std::string> Model::decode(std::span<const TokenId> tokens, bool show_special) const {
  if (!impl_->tokenizer) return no_tokenizer();
  for (TokenId token : tokens) RUNNEL_CHECK_OK(check_token(token, impl_->info.vocab_size));
  return impl_->tokenizer->decode(tokens, show_special);
}

Result<std::vector<TokenId>> Model::encode_chat(std::span<const ChatMessage> messages,
                                                bool add_generation_prompt,
                                                ChatContinuation continuation,
                                                std::string_view unread,
                                                std::span<const Tool> tools) const {
  if (!impl_->tokenizer) return no_tokenizer();
  return runnel::encode_chat(
      *impl_->tokenizer, impl_->chat, {messages, tools},
      {.generation_prompt = add_generation_prompt, .continuation = continuation, .unread = unread});
}

Result<AnswerForm> Model::answer_form(Thinking thinking) const {
  return runnel::answer_form(impl_->chat, thinking);
}

Result<ChatReading> Model::read_chat(std::span<const ChatMessage> messages, std::size_t read,
                                     bool closed, std::string_view unread,
                                     std::span<const Tool> tools) const {
  if (!impl_->tokenizer) return no_tokenizer();
  return runnel::read_chat(*impl_->tokenizer, impl_->chat, {messages, tools},
                           {.messages = read, .closed = closed, .unread = unread});
}

Result<std::string> Model::chat_text(std::span<const ChatMessage> messages,
                                     bool add_generation_prompt,
                                     std::span<const Tool> tools) const {
  RUNNEL_TRY(const MarkedText text,
             lay_out_chat(impl_->chat, {messages, tools}, add_generation_prompt));
  return bytes_of(text);
}

ToolFormat Model::tool_format() const { return runnel::tool_format(impl_->chat); }

}  // namespace runnel
