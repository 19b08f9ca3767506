// SPDX-License-Identifier: Apache-2.0
// Models in the C API.
#include "runnel/model.h"

#include <cstddef>
#include <string>
#include <vector>

#include "runtime/c/support.h"

using namespace runnel;
using namespace runnel::c;

namespace {

constexpr runnel_model_options kDefaults{.size = sizeof(runnel_model_options),
                                         .device = nullptr,
                                         .threads = 0,
                                         .memory_limit = 0,
                                         .on_progress = nullptr,
                                         .user = nullptr,
                                         .window_slots = RUNNEL_FILE_WINDOW,
                                         .flags = 0,
                                         .cache_directory = nullptr,
                                         .step_program = nullptr,
                                         .chat_template = nullptr};
constexpr std::size_t kLeastOptions = offsetof(runnel_model_options, window_slots);
constexpr std::size_t kLeastInfo = offsetof(runnel_model_info, window_slots);

// Loads by `load` (a function of C++ options) what the caller's options ask for.
template <class Load>
Status load_model(const runnel_model_options* options, runnel_model** model, const Load& load) {
  RUNNEL_CHECK_OK(check_not_null(model, "model"));
  RUNNEL_TRY(const runnel_model_options o,
             known_struct(options, kDefaults, kLeastOptions, "runnel_model_options"));
  if (o.flags != 0) {
    return fail(ErrorCode::unsupported, "runnel_model_options.flags is ", o.flags,
                ", expected 0: a newer version of the library may know it");
  }
  ModelOptions wanted;
  if (o.device != nullptr) wanted.device = o.device;
  wanted.threads = o.threads;
  wanted.memory_limit = o.memory_limit;
  if (o.window_slots != RUNNEL_FILE_WINDOW) wanted.window_slots = o.window_slots;
  if (o.cache_directory != nullptr) wanted.cache_directory = o.cache_directory;
  if (o.step_program != nullptr) wanted.step_program = o.step_program;
  if (o.chat_template != nullptr) wanted.chat_template = o.chat_template;
  if (o.on_progress != nullptr) {
    wanted.progress = [o](float fraction) { return o.on_progress(fraction, o.user); };
  }
  RUNNEL_TRY(std::shared_ptr<const Model> loaded, load(std::move(wanted)));
  SamplingTexts texts(loaded->sampling());
  *model = new runnel_model{std::move(loaded), std::move(texts)};
  return {};
}

}  // namespace

void runnel_model_options_init(runnel_model_options* options, size_t size) {
  init_struct(options, size, kDefaults);
}

void runnel_model_info_init(runnel_model_info* info, size_t size) {
  init_struct(info, size, runnel_model_info{});
}

runnel_status runnel_model_load(const char* file, const runnel_model_options* options,
                                runnel_model** model, runnel_error* error) {
  return guarded(error, [&]() -> Status {
    RUNNEL_CHECK_OK(check_not_null(file, "file"));
    return load_model(options, model,
                      [&](ModelOptions wanted) { return Model::load(file, std::move(wanted)); });
  });
}

runnel_status runnel_model_load_bytes(const void* bytes, size_t count,
                                      const runnel_model_options* options, runnel_model** model,
                                      runnel_error* error) {
  return guarded(error, [&]() -> Status {
    RUNNEL_TRY(const std::span<const std::byte> given,
               span_of(static_cast<const std::byte*>(bytes), count, "bytes"));
    return load_model(options, model, [&](ModelOptions wanted) {
      return Model::load_bytes(given, std::move(wanted));
    });
  });
}

runnel_status runnel_model_load_descriptor(int descriptor, uint64_t offset, uint64_t length,
                                           const runnel_model_options* options,
                                           runnel_model** model, runnel_error* error) {
  return guarded(error, [&]() -> Status {
    return load_model(options, model, [&](ModelOptions wanted) {
      return Model::load_descriptor(descriptor, offset, length, std::move(wanted));
    });
  });
}

void runnel_model_free(runnel_model* model) { delete model; }

runnel_status runnel_model_get_info(const runnel_model* model, runnel_model_info* info,
                                    runnel_error* error) {
  return guarded(error, [&]() -> Status {
    RUNNEL_CHECK_OK(check_not_null(model, "model"));
    RUNNEL_CHECK_OK(check_not_null(info, "info"));
    RUNNEL_TRY(runnel_model_info value,
               known_struct(info, runnel_model_info{}, kLeastInfo, "runnel_model_info"));
    const ModelInfo& facts = model->model->info();
    copy_text(facts.name, value.name);
    copy_text(facts.device, value.device);
    value.vocab_size = facts.vocab_size;
    value.parameters = facts.parameters;
    value.weight_bytes = facts.weight_bytes;
    value.state_bytes = facts.state_bytes;
    value.fingerprint = facts.fingerprint;
    value.has_tokenizer = model->model->has_tokenizer();
    value.begin_token = model->model->begin_token();
    value.window_slots = facts.window_slots;
    value.file_window_slots = facts.file_window_slots;
    value.hidden_size = facts.hidden_size;
    copy_text(facts.architecture, value.architecture);
    const ChatFormat& chat = model->model->chat_format();
    value.chat_style = static_cast<int32_t>(chat.style);
    value.chat_reason = chat.reason.c_str();
    value.default_system = chat.default_system_prompt.c_str();
    value.step_program = facts.step_program.c_str();
    value.memory_note = facts.memory_note.c_str();
    fill_struct(info, value);
    return {};
  });
}

// NOLINTNEXTLINE(readability-function-size): in C a text, a buffer and an error are many parameters
runnel_status runnel_model_encode(const runnel_model* model, const char* text, size_t bytes,
                                  bool parse_special, runnel_token* tokens, size_t capacity,
                                  size_t* count, runnel_error* error) {
  using Tokens = std::vector<TokenId>;
  return give<Tokens>(tokens, capacity, count, error, [&]() -> Result<Tokens> {
    RUNNEL_CHECK_OK(check_not_null(model, "model"));
    RUNNEL_TRY(const std::string_view words, text_of(text, bytes, "text"));
    return model->model->encode(words, parse_special);
  });
}

// NOLINTNEXTLINE(readability-function-size): in C a text, a buffer and an error are many parameters
runnel_status runnel_model_decode(const runnel_model* model, const runnel_token* tokens,
                                  size_t token_count, bool show_special, char* text,
                                  size_t capacity, size_t* count, runnel_error* error) {
  return give<std::string>(text, capacity, count, error, [&]() -> Result<std::string> {
    RUNNEL_CHECK_OK(check_not_null(model, "model"));
    RUNNEL_TRY(const std::span<const TokenId> ids, span_of(tokens, token_count, "tokens"));
    return model->model->decode(ids, show_special);
  });
}

bool runnel_model_is_end(const runnel_model* model, runnel_token token) {
  return model != nullptr && model->model->is_end(token);
}

runnel_status runnel_model_end_tokens(const runnel_model* model, runnel_token* tokens,
                                      size_t capacity, size_t* count, runnel_error* error) {
  using Tokens = std::vector<TokenId>;
  return give<Tokens>(tokens, capacity, count, error, [&]() -> Result<Tokens> {
    RUNNEL_CHECK_OK(check_not_null(model, "model"));
    return model->model->end_tokens();
  });
}

void runnel_token_info_init(runnel_token_info* info, size_t size) {
  init_struct(info, size, runnel_token_info{});
}

runnel_status runnel_model_get_token(const runnel_model* model, runnel_token token,
                                     runnel_token_info* info, runnel_error* error) {
  return guarded(error, [&]() -> Status {
    RUNNEL_CHECK_OK(check_not_null(model, "model"));
    RUNNEL_CHECK_OK(check_not_null(info, "info"));
    RUNNEL_TRY(
        runnel_token_info value,
        known_struct(info, runnel_token_info{}, sizeof(runnel_token_info), "runnel_token_info"));
    RUNNEL_TRY(const TokenInfo known, model->model->token(token));
    value.kind = static_cast<int32_t>(known.kind);
    value.is_end = known.is_end;
    value.bytes = known.bytes.data();
    value.byte_count = known.bytes.size();
    fill_struct(info, value);
    return {};
  });
}
