// SPDX-License-Identifier: Apache-2.0
// A session: one conversation's state on a model. Constant size, whatever the length.
//
// Example, in a function that returns a Result:
//   auto session = runnel::Session::create(model);
//   if (!session) return session.error();
//   auto prompt = model->encode("Once upon a time");
//   if (!prompt) return prompt.error();
//   if (auto read = session->prefill(*prompt); !read) return read.error();
//   auto here = session->snapshot();
//   if (!here) return here.error();
//   auto story = runnel::generate(*session, {.max_tokens = 100});
//   if (!story) return story.error();
//   if (auto back = session->restore(*here); !back) return back.error();    // as it was after the prompt
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string_view>
#include <vector>

#include "runnel/export.h"
#include "runnel/model.h"
#include "runnel/result.h"
#include "runnel/snapshot.h"
#include "runnel/types.h"

namespace runnel {

class Access;

/// What a prefill did: how far it came.
struct PrefillResult {
  std::uint64_t consumed = 0;  ///< tokens of this call that the state has consumed
  bool cancelled = false;      ///< a stop was requested before the last one
};

/// Reports tokens consumed so far and in total, between chunks, on the calling thread.
using PrefillProgress = std::function<void(std::uint64_t done, std::uint64_t total)>;

/// How an embedding is made of the hidden states of a text's tokens.
enum class Pooling {
  mean,  ///< their mean
  last,  ///< that of the last token, which alone has read all of the text
};

struct EmbeddingOptions {
  Pooling pooling = Pooling::mean;
  bool normalise = true;  ///< to length 1; a vector of zeros stays one

  bool operator==(const EmbeddingOptions&) const = default;
};

/// One conversation. Move-only; used by one thread at a time. Different Sessions of one Model may run at once.
class RUNNEL_API Session {
 public:
  /// @return out_of_memory or device if the state cannot be made.
  static Result<Session> create(std::shared_ptr<const Model> model);

  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  const Model& model() const;
  const std::shared_ptr<const Model>& shared_model() const;

  /// Feeds `tokens` in chunks and leaves the session after the last of them, with their logits.
  /// @param tokens  ids in [0, vocab); empty is allowed and does nothing.
  /// @return invalid_argument for a bad id (nothing consumed), device if the driver failed. A requested stop is no
  ///         error: the session stands after the last completed chunk and the result says how many tokens that is.
  Result<PrefillResult> prefill(std::span<const TokenId> tokens, std::stop_token stop = {},
                                const PrefillProgress& progress = {});

  /// Feeds `tokens` and returns the logits after each, [tokens, vocab] row-major. For scoring.
  Result<std::vector<float>> score(std::span<const TokenId> tokens);

  /// What the model makes of `tokens`, read after what this session has read: their hidden states (the final norm of the
  /// last layer, what the head would see), pooled. The session itself stays where it is; what all texts begin with
  /// ("query: ") need be read only once.
  /// @param tokens  ids in [0, vocab), at least one
  /// @return [ModelInfo::hidden_size]; invalid_argument for no token or a bad id, cancelled, out_of_memory, device.
  Result<std::vector<float>> embedding(std::span<const TokenId> tokens,
                                       const EmbeddingOptions& options = {},
                                       std::stop_token stop = {}) const;

  /// Logits after the last token, [vocab]; empty before the first token. Valid until the next non-const call.
  /// @return device if a generation under way draws on the device and cannot bring them.
  Result<std::span<const float>> logits() const;

  /// Tokens consumed since the session was empty.
  std::uint64_t position() const;

  /// The last tokens consumed, read or generated, oldest first, at most kHistoryWindow. Penalties look back on those that
  /// were generated since the last prompt.
  std::span<const TokenId> recent_tokens() const;
  static constexpr std::size_t kHistoryWindow = 1024;

  /// Text of the last answer that was shown but not consumed, because a reading of the transcript would read it in one
  /// token with what follows; see GenerationOptions::answer. Mostly empty; Model::encode_chat() takes it. Valid until the
  /// next non-const call.
  std::string_view unread_text() const;

  /// Back to empty.
  Status reset();

  /// An immutable copy of everything this session remembers.
  Result<Snapshot> snapshot() const;

  /// Becomes what `snapshot` was taken from. On any error the session is unchanged.
  /// @return mismatch if the snapshot belongs to another model or window.
  Status restore(const Snapshot& snapshot);

  /// An independent session with the same memory.
  Result<Session> fork() const;

 private:
  friend class Access;
  class Impl;
  explicit Session(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace runnel
