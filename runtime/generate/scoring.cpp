// SPDX-License-Identifier: Apache-2.0
// Choices are read by forks of the session, as many together as a decode pass takes sessions.
#include "runnel/scoring.h"

#include <algorithm>
#include <new>
#include <utility>

#include "runtime/base/try.h"
#include "runtime/model/session_impl.h"
#include "runtime/sampling/logprobs.h"

namespace runnel {
namespace {

constexpr std::size_t kTogether = 16;    // forks, each with a state
constexpr std::size_t kPassTokens = 64;  // whose logits are held at once

/// A choice that is being read.
struct Reader {
  std::span<const TokenId> tokens;  // all but the last are fed
  Session session;
  ChoiceScore* score = nullptr;
  std::size_t fed = 0;

  std::size_t left() const { return tokens.size() - 1 - fed; }
};

/// One pass over those that have something left.
Status read_on(std::span<Reader> readers, std::vector<float>& logits, std::stop_token stop) {
  const SessionImpl& first = impl_of(readers[0].session);
  Engine& engine = first.engine();
  const auto vocab = static_cast<std::size_t>(engine.config().vocab_size);
  const std::size_t most = std::min(kPassTokens, static_cast<std::size_t>(engine.max_tokens()));
  const std::size_t each = std::max<std::size_t>(1, most / readers.size());
  std::vector<PlanItem> items;
  std::size_t row = 0;
  for (Reader& reader : readers) {
    const std::size_t n = std::min(each, reader.left());
    items.push_back(impl_of(reader.session)
                        .begin_pass(reader.tokens.subspan(reader.fed, n),
                                    std::span(logits).subspan(row * vocab, n * vocab)));
    row += n;
  }
  Status ran = engine.run(items, std::move(stop), first.generation());
  for (std::size_t i = 0; i < readers.size(); ++i) {
    Reader& reader = readers[i];
    impl_of(reader.session).end_pass(ran, items[i].tokens, false);
    if (!ran) continue;
    for (std::size_t t = 0; t < items[i].tokens.size(); ++t, ++reader.fed) {
      const std::span<const float> at = items[i].logits.subspan(t * vocab, vocab);
      reader.score->logprobs.push_back(
          token_logprobs(at, reader.tokens[reader.fed + 1], 0).chosen.logprob);
    }
  }
  return ran;
}

}  // namespace

Result<std::vector<ChoiceScore>> score_choices(const Session& session,
                                               std::span<const std::vector<TokenId>> choices,
                                               std::stop_token stop) try {
  RUNNEL_TRY(const std::span<const float> now, session.logits());
  if (now.empty()) {
    return fail(ErrorCode::invalid_argument,
                "score: the session is empty, expected at least one token before the choices");
  }
  for (const std::vector<TokenId>& choice : choices)
    RUNNEL_CHECK_OK(impl_of(session).check(choice));
  std::vector<ChoiceScore> scores(choices.size());
  std::vector<std::size_t> long_ones;  // a single token needs no pass
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (choices[i].empty()) continue;
    scores[i].logprobs.push_back(token_logprobs(now, choices[i][0], 0).chosen.logprob);
    if (choices[i].size() > 1) long_ones.push_back(i);
  }
  // Those of about one length are read together, so that passes are full.
  std::stable_sort(long_ones.begin(), long_ones.end(), [&](std::size_t a, std::size_t b) {
    return choices[a].size() > choices[b].size();
  });
  std::vector<float> logits(long_ones.empty() ? 0 : kPassTokens * now.size());
  for (std::size_t begin = 0; begin < long_ones.size(); begin += kTogether) {
    std::vector<Reader> readers;
    for (std::size_t i = begin; i < std::min(begin + kTogether, long_ones.size()); ++i) {
      RUNNEL_TRY(Session fork, session.fork());
      readers.push_back({choices[long_ones[i]], std::move(fork), &scores[long_ones[i]]});
    }
    while (!readers.empty()) {
      RUNNEL_CHECK_OK(read_on(readers, logits, stop));
      std::erase_if(readers, [](const Reader& reader) { return reader.left() == 0; });
    }
  }
  return scores;
} catch (const std::bad_alloc&) {
  return fail(ErrorCode::out_of_memory, "score: not enough memory for ", choices.size(),
              " choices");
}

}  // namespace runnel
