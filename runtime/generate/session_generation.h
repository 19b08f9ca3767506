// SPDX-License-Identifier: Apache-2.0
// What a SessionGeneration holds, for programs that leave an answer's settling to another thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "runnel/batch.h"
#include "runtime/base/access.h"
#include "runtime/generate/answer_settler.h"
#include "runtime/generate/generation_loop.h"

namespace runnel {

/// It stays where it is: its loop refers to its options and its callback.
struct SessionGeneration::Impl {
  Impl(Session& of, GenerationOptions chosen, TextCallback show)
      : session(&of), options(std::move(chosen)), on_text(std::move(show)) {}

  /// The result of a generation whose answer is not settled yet.
  GenerationResult end();

  /// Leaves `where`, which stands where the generation ended, after the transcript's last whole token.
  Status settle(Session& where, GenerationResult& result);

  Session* session;
  GenerationOptions options;
  TextCallback on_text;  // the caller's
  TextCallback collect;  // to `shown`, then to the caller's
  std::string shown;
  bool shown_is_old = false;  // a token was taken since
  std::optional<AnswerSettler> settler;
  std::optional<TokenLoop> loop;
  AnswerRecord record;
};

using GenerationImpl = Access::Inside<SessionGeneration>::Impl;

/// What is left to do for a session that goes on; empty without GenerationOptions::answer. It may read much of the answer
/// again, so it is for a thread that has the time. Gives `result` what it keeps.
using Settling = std::function<Status(Session&, GenerationResult& result)>;

/// SessionGeneration::finish() without the settling, which goes to `left`.
GenerationResult finish_unsettled(SessionGeneration& generation, Settling& left);

}  // namespace runnel
