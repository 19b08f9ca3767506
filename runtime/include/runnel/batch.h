// SPDX-License-Identifier: Apache-2.0
// A generation one token at a time, and many sessions in one pass over the weights: what an iterator needs, and a server.
//
// Example, in a function that returns a Result:
//   auto other = session.fork();
//   if (!other) return other.error();
//   auto one = runnel::SessionGeneration::create(session, {.max_tokens = 20});
//   auto two = runnel::SessionGeneration::create(*other, {.sampling = {.temperature = 1.0F}, .max_tokens = 20});
//   if (!one || !two) return !one ? one.error() : two.error();
//   runnel::SessionBatch batch(session.shared_model());
//   while (!one->over() && !two->over()) {
//     auto a = one->choose();
//     auto b = two->choose();
//     if (!a || !b || !*a || !*b) break;    // an error, or the end of one
//     const runnel::SessionFeed feeds[] = {{&session, {&**a, 1}, true}, {&*other, {&**b, 1}, true}};
//     for (const runnel::FeedResult& fed : batch.run(feeds)) {
//       if (!fed.status) return fed.status.error();
//     }
//     one->took(**a);
//     two->took(**b);
//     std::cout << one->text() << " | " << two->text() << '\n';
//   }
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string_view>

#include "runnel/export.h"
#include "runnel/generation.h"
#include "runnel/model.h"
#include "runnel/result.h"
#include "runnel/session.h"
#include "runnel/types.h"

namespace runnel {

class Access;

/// generate() in steps: choose() a token, let the session consume it, by itself or in a SessionBatch, then say that it
/// took() it; or step(), which does all three. Leaving a generation at any time leaves the session after the last token
/// it consumed. Move-only, used by one thread at a time. The session must outlive it and stay where it is; between
/// steps it is used by nothing else.
class RUNNEL_API SessionGeneration {
 public:
  /// Reads GenerationOptions::answer's opening, nothing else.
  /// @return as generate()
  static Result<SessionGeneration> create(Session& session, GenerationOptions options,
                                          TextCallback on_text = {});

  SessionGeneration(SessionGeneration&&) noexcept;
  SessionGeneration& operator=(SessionGeneration&&) noexcept;
  ~SessionGeneration();

  /// The next token, or none if the generation is over. Called again before took(), it draws again, the same.
  /// @param stop_requested  ends it: FinishReason::cancelled
  /// @return invalid_argument if the session is empty, device if its device failed
  Result<std::optional<TokenId>> choose(bool stop_requested = false);

  /// The session has consumed `token`, which choose() gave: shows its text.
  void took(TokenId token);

  /// choose(), and if there is a token, the session consumes it and took() shows it.
  Result<std::optional<TokenId>> step(const std::stop_token& stop = {});

  /// What the last took() or step() gave to the text callback; valid until the next call.
  std::string_view text() const;

  bool over() const;

  /// The result, as generate() would give it, and the session as generate() would leave it: with
  /// GenerationOptions::answer that may read much of the answer again. FinishReason::callback if the generation was not
  /// over: the caller ended it. Nothing may be called after it.
  Result<GenerationResult> finish();

 private:
  friend class Access;
  struct Impl;
  explicit SessionGeneration(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// One session's part of a batch.
struct SessionFeed {
  Session* session = nullptr;  ///< of the batch's model, each once
  std::span<const TokenId> tokens;
  /// SessionGeneration chose them. What a generation holds back of its text is forgotten by tokens of any other origin.
  bool generated = false;
};

/// What became of it.
struct FeedResult {
  Status status;               ///< this feed's alone, as Session::prefill() gives it
  std::uint64_t consumed = 0;  ///< tokens that the session has taken
  bool cancelled = false;      ///< a stop was requested before the last one
};

/// Feeds many sessions of one model together: each pass over the weights serves all of them. Used by one thread at a
/// time; its sessions are in use meanwhile.
class RUNNEL_API SessionBatch {
 public:
  explicit SessionBatch(std::shared_ptr<const Model> model);
  SessionBatch(SessionBatch&&) noexcept;
  SessionBatch& operator=(SessionBatch&&) noexcept;
  ~SessionBatch();

  /// Every session stands after its tokens, with their logits: on the CPU bit for bit as after a prefill() of its own, on
  /// GPUs within the tolerances of the programs that compute one token and several. Tokens beyond what one pass takes are
  /// fed in further ones. A call allocates nothing once it has seen as many feeds.
  ///
  /// A feed that cannot be fed fails by itself, and names itself; the others go on: invalid_argument for no session, a
  /// session that an earlier feed has, or a bad token; mismatch for another model's session; device if the driver failed,
  /// which may fail several.
  /// @param stop  asked between passes; those that are not through say how far they came
  /// @return [feeds], valid until the next call
  std::span<const FeedResult> run(std::span<const SessionFeed> feeds,
                                  const std::stop_token& stop = {});

 private:
  friend class Access;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace runnel
