// SPDX-License-Identifier: Apache-2.0
// A generation on a session, one token at a time, and feeding several sessions in one pass: what a server with many
// clients needs.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runnel/generation.h"
#include "runnel/result.h"
#include "runnel/session.h"
#include "runtime/backend/backend.h"
#include "runtime/generate/answer_settler.h"
#include "runtime/generate/generation_loop.h"

namespace runnel {

/// generate() in steps. The session, the options and the callback must outlive it.
///
///   RUNNEL_TRY(std::optional<TokenId> token, generation.choose(stop.stop_requested()));
///   if (token) { … SessionBatch::run with it …; generation.took(*token); }
class SessionGeneration {
 public:
  static Result<SessionGeneration> create(Session& session, const GenerationOptions& options,
                                          const TextCallback& on_text);

  /// The next token, or none if the generation is over.
  Result<std::optional<TokenId>> choose(bool stop_requested);

  /// The session has consumed `token`: shows its text.
  void took(TokenId token);

  bool over() const { return loop_.over(); }

  /// The result. The session keeps what the next generation begins with.
  GenerationResult finish();

  /// After finish(), what is left to do for a session that goes on; nothing without GenerationOptions::answer. It may
  /// read much of the answer again, so it is for a thread that has the time. Gives `result` what it keeps.
  std::function<Status(Session&, GenerationResult& result)> take_settling();

 private:
  SessionGeneration(Session& session, const GenerationOptions& options, TokenLoop loop,
                    AnswerSettler settler)
      : session_(&session),
        options_(&options),
        loop_(std::move(loop)),
        settler_(std::move(settler)) {}

  Session* session_;
  const GenerationOptions* options_;
  TokenLoop loop_;
  AnswerSettler settler_;
};

/// One session's part of a pass.
struct SessionFeed {
  Session* session = nullptr;  // each once
  std::span<const TokenId> tokens;
  bool decodes = false;  // the token was generated: what generation holds back stays held back
};

/// Feeds several sessions of one model in one pass, so that its weights are read once for all.
class SessionBatch {
 public:
  /// Each session stands after its tokens, with their logits.
  /// @param feeds  at most max_tokens() tokens in all
  /// @return invalid_argument for a bad token, with nothing fed; device if the driver failed: the sessions are then
  ///         lost until they are reset or restored.
  Status run(std::span<const SessionFeed> feeds);

 private:
  std::vector<PlanItem> items_;
};

}  // namespace runnel
