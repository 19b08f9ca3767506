// SPDX-License-Identifier: Apache-2.0
// A model: weights, tokenizer and configuration, loaded once and immutable.
//
// Example, in main():
//   auto model = runnel::Model::load("models/runnel-gsa-135m-instruct.gguf", {.device = "auto", .threads = 2});
//   if (!model) {
//     std::cerr << model.error().message << '\n';
//     return 1;
//   }
//   std::cout << (*model)->info().name << " on " << (*model)->info().device << '\n';
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runnel/chat.h"
#include "runnel/device.h"
#include "runnel/export.h"
#include "runnel/result.h"
#include "runnel/sampling.h"
#include "runnel/types.h"

namespace runnel {

class Access;
struct ToolFormat;

/// How to load a model.
struct ModelOptions {
  /// A DeviceInfo::id, a backend name ("cuda" means "cuda:0"), or "auto" for the best device
  /// present. With "auto" the model continues on the CPU if the device has too little memory or fails later: sessions
  /// are then lost (ErrorCode::device) until they are reset or restored.
  std::string device = "auto";
  /// Threads that compute on the CPU, the caller's included; 0: one per core this process may use. Range [0, 1024].
  int threads = 0;
  /// Most bytes that weights, scratch and one session may take on the device; 0: no limit.
  std::uint64_t memory_limit = 0;
  /// Called on the loading thread with the fraction done, in [0, 1]; returning false stops the load (cancelled).
  std::function<bool(float fraction)> progress;
  /// Directory for compiled device code (Vulkan pipelines), which makes the next start faster; created if it is
  /// missing; empty: nothing is kept. Its files are used only if they are complete and of the same driver; that they
  /// cannot be read or written is never an error.
  std::filesystem::path cache_directory;
  /// The program that computes one token of one session, by its name on the device's ladder ("ops" is on every one);
  /// empty: the best that fits the model. A name that the device lacks is not_found, one that does not fit the model
  /// unsupported, with the reason.
  std::string step_program;
  /// Window slots of every layer, fewer than the file has: the newest tokens that the model sees word for word. The
  /// state of a session shrinks to sum over layers of kv heads * (sinks + window_slots + memory slots) * (K + V)
  /// numbers; sinks, memory slots and weights stay. Range [0, ModelInfo::file_window_slots], outside of it
  /// invalid_argument; unsupported for a model without window slots; empty: all of them. A model with another window
  /// has another fingerprint: snapshots go back only into the window that they were taken with.
  std::optional<std::int64_t> window_slots;
  /// How chats are laid out instead of as the model's file says: "chatml", "plain", "rwkv" or the name of a file with a
  /// Jinja template. Empty: as the model's file says.
  std::string chat_template = {};
};

/// Facts about a loaded model.
struct ModelInfo {
  std::string name;
  std::string architecture;  ///< "gsa"
  std::string device;        ///< DeviceInfo::id it was loaded on
  /// How one token of one session is computed, and why not by the programs above it on the device's ladder:
  /// "ops; not cluster: heads of 80, expected a power of two".
  std::string step_program;
  std::int32_t vocab_size = 0;
  std::int32_t hidden_size = 0;    ///< numbers of an embedding
  std::int64_t parameters = 0;     ///< elements of all distinct tensors
  std::uint64_t weight_bytes = 0;  ///< memory taken by the weights on the device
  /// A line about weight_bytes where they are at least 1.2 times the bytes of the file, because formats without kernels
  /// are repacked, exactly, into wider ones; else empty.
  std::string memory_note;
  std::uint64_t state_bytes = 0;       ///< memory taken by one session's state, whatever its length
  std::int32_t window_slots = 0;       ///< window slots of the layer that has most, as loaded
  std::int32_t file_window_slots = 0;  ///< the same in the file; 0: the model has none
  /// hash of configuration, tensor table, tokenizer and a sample of the weights; and of window_slots where they are
  /// fewer than the file's
  std::uint64_t fingerprint = 0;
};

/// An immutable model. All methods are const and thread-safe; shared by its Sessions.
class RUNNEL_API Model {
 public:
  /// Reads and checks a GGUF file and puts its weights on a device.
  /// @return not_found or io (the file), malformed or unsupported (its contents), out_of_memory or device (the
  ///         device), cancelled (progress returned false). The message names tensor or key, value and expectation.
  static Result<std::shared_ptr<const Model>> load(const std::filesystem::path& file,
                                                   ModelOptions options = {});

  /// The same of a model file in memory, which is needed only until this returns: weights are packed for the device in
  /// memory of the library's own (a device that would read the file itself gets a copy).
  /// @param bytes  the whole file; unsupported for a part of a split model
  static Result<std::shared_ptr<const Model>> load_bytes(std::span<const std::byte> bytes,
                                                         ModelOptions options = {});

  /// The same of a file that is open for reading, or of a part of it, such as an asset in an archive. The descriptor's
  /// position is neither used nor changed, and it may be closed when this returns.
  /// @param offset  where the model file begins
  /// @param length  its bytes; 0: up to the end of the file
  /// @return also io for what is no regular file (a pipe, a socket, a directory); invalid_argument for bytes outside of
  ///         the file; unsupported for a part of a split model
  static Result<std::shared_ptr<const Model>> load_descriptor(int descriptor, std::uint64_t offset,
                                                              std::uint64_t length,
                                                              ModelOptions options = {});

  ~Model();
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  const ModelInfo& info() const;

  /// Whether the file carried a tokenizer. Without one only token ids can be fed.
  bool has_tokenizer() const;

  /// Text → ids. With `parse_special` the texts of special tokens ("<|im_end|>") become those
  /// tokens; without it they are ordinary text, which is what a user's message must be.
  /// @return unsupported without a tokenizer; malformed if `text` is not UTF-8 (RWKV's World tokenizer takes any bytes).
  Result<std::vector<TokenId>> encode(std::string_view text, bool parse_special = false) const;

  /// Ids → bytes (special tokens give nothing unless `show_special`). The bytes may end inside a UTF-8 character.
  /// @return unsupported without a tokenizer; invalid_argument for an id outside the vocabulary.
  Result<std::string> decode(std::span<const TokenId> tokens, bool show_special = false) const;

  /// Whether generation ends at this token (end of text, end of message).
  bool is_end(TokenId token) const;

  /// The tokens at which it ends, ascending; none without a tokenizer.
  std::vector<TokenId> end_tokens() const;

  /// What `token` is. Rows of the embedding that the tokenizer has no entry for are `unused`.
  /// @return unsupported without a tokenizer; invalid_argument for an id outside the vocabulary.
  Result<TokenInfo> token(TokenId token) const;

  /// The token that begins a document for this model, or -1 if it has none.
  TokenId begin_token() const;

  /// The model's chat format as its file says; see chat.h.
  const ChatFormat& chat_format() const;

  /// How to draw from this model: what its file recommends (`general.sampling.*`), Runnel's own defaults if it says
  /// nothing. Nothing uses it by itself: GenerationOptions are greedy.
  const SamplingOptions& sampling() const;

  /// Tokens of `messages` in the model's chat format, ready to prefill. A `continuation` other than `start` is for
  /// messages that follow an earlier answer: nothing is put before them, and the end-of-message of that answer is
  /// added first if needed.
  /// @param add_generation_prompt  append what makes the model answer as the assistant; generate() then reads the
  ///   opening of answer_form() itself.
  /// @param unread  Session::unread_text() of the session that the tokens are for: they begin with it.
  /// @param tools   that the model may call, the same in all of a conversation; see tools.h
  /// @return invalid_argument for a role that there is not, a call that is none, or what the template refuses;
  ///         malformed for text that is not UTF-8; unsupported without a tokenizer or a chat format, and for tools and
  ///         their results where tool_format() is none.
  Result<std::vector<TokenId>> encode_chat(std::span<const ChatMessage> messages,
                                           bool add_generation_prompt = true,
                                           ChatContinuation continuation = ChatContinuation::start,
                                           std::string_view unread = {},
                                           std::span<const Tool> tools = {}) const;

  /// How answers begin and end in the model's chat format, for GenerationOptions::answer.
  /// @return unsupported for thoughts to be switched on in a format that has none, or off by a template that cannot.
  Result<AnswerForm> answer_form(Thinking thinking = Thinking::as_trained) const;

  /// What a session that has read the first messages of a conversation must read next to answer all of it. A format may
  /// lay out an earlier turn anew once others follow (it drops what was thought aloud, moves the system prompt): then
  /// `kept` of the result is below `read`, and the session must first go back to where it stood after that many.
  /// @param messages  the whole conversation; answers as they were generated
  /// @param read      how many of them the session has read or said; the last one that it said counts whole
  /// @param closed    the session's last token ended its answer
  /// @param unread    Session::unread_text()
  /// @return as encode_chat(); invalid_argument if `read` is more than there are.
  Result<ChatReading> read_chat(std::span<const ChatMessage> messages, std::size_t read,
                                bool closed, std::string_view unread = {},
                                std::span<const Tool> tools = {}) const;

  /// The text of `messages` in the model's chat format, markers and all: for people to look at.
  Result<std::string> chat_text(std::span<const ChatMessage> messages,
                                bool add_generation_prompt = true,
                                std::span<const Tool> tools = {}) const;

  /// How the model writes calls of tools, by its chat format; see tools.h.
  ToolFormat tool_format() const;

 private:
  friend class Access;
  struct Impl;
  explicit Model(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace runnel
