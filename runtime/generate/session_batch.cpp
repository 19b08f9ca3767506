// SPDX-License-Identifier: Apache-2.0
// Many sessions in one pass. Each is fed in the pieces that a prefill of its own would have, so that it computes the same;
// pieces of several share a pass as far as they fit.
#include <algorithm>
#include <limits>
#include <new>
#include <utility>
#include <vector>

#include "runnel/batch.h"
#include "runtime/base/text.h"
#include "runtime/base/try.h"
#include "runtime/model/session_impl.h"

namespace runnel {
namespace {

Error named(std::size_t feed, const Error& error) {
  return with_context(error, "feed " + std::to_string(feed) + ": ");
}

}  // namespace

struct SessionBatch::Impl {
  explicit Impl(std::shared_ptr<const Model> of) : model(std::move(of)) {}

  /// Whether feed number `i` can be fed beside those before it.
  Status check(std::span<const SessionFeed> feeds, std::size_t i) const {
    const SessionFeed& feed = feeds[i];
    if (feed.session == nullptr)
      return fail(ErrorCode::invalid_argument, "feed ", i, ": has no session");
    if (feed.session->shared_model() != model) {
      return fail(ErrorCode::mismatch, "feed ", i, ": its session is of the model ",
                  in_quotes(feed.session->model().info().name), " with fingerprint ",
                  hexadecimal(feed.session->model().info().fingerprint),
                  ", expected one of the batch's own model");
    }
    for (std::size_t other = 0; other < i; ++other) {
      if (feeds[other].session == feed.session) {
        return fail(ErrorCode::invalid_argument, "feed ", i, ": its session is that of feed ",
                    other, ", expected each once");
      }
    }
    const Status usable = impl_of(*feed.session).check(feed.tokens);
    return usable ? usable : Status(named(i, usable.error()));
  }

  /// One pass with the next pieces of those that have some left. False: none has.
  bool pass(std::span<const SessionFeed> feeds) {
    items.clear();
    fed.clear();
    Engine& engine = engine_of(*model);
    const auto chunk = static_cast<std::size_t>(engine.max_tokens());
    std::size_t room = chunk;
    for (std::size_t i = 0; i < feeds.size() && room > 0; ++i) {
      if (!results[i].status) continue;
      const auto done = static_cast<std::size_t>(results[i].consumed);
      const std::size_t size = std::min(chunk, feeds[i].tokens.size() - done);
      if (size == 0 || size > room) continue;
      room -= size;
      fed.push_back(i);
      items.push_back(impl_of(*feeds[i].session).begin_pass(feeds[i].tokens.subspan(done, size)));
    }
    if (fed.empty()) return false;
    const Status ran =
        engine.run(items, {}, impl_of(std::as_const(*feeds[fed[0]].session)).generation());
    for (std::size_t n = 0; n < fed.size(); ++n) {
      const std::size_t i = fed[n];
      impl_of(*feeds[i].session).end_pass(ran, items[n].tokens, feeds[i].generated);
      if (ran) {
        results[i].consumed += items[n].tokens.size();
      } else {
        results[i].status = named(i, ran.error());
      }
    }
    return true;
  }

  std::shared_ptr<const Model> model;
  std::vector<FeedResult> results;  // [feeds]
  std::vector<PlanItem> items;      // of the pass
  std::vector<std::size_t> fed;     // of each item: its feed
};

SessionBatch::SessionBatch(std::shared_ptr<const Model> model)
    : impl_(std::make_unique<Impl>(std::move(model))) {}
SessionBatch::SessionBatch(SessionBatch&&) noexcept = default;
SessionBatch& SessionBatch::operator=(SessionBatch&&) noexcept = default;
SessionBatch::~SessionBatch() = default;

std::span<const FeedResult> SessionBatch::run(std::span<const SessionFeed> feeds,
                                              const std::stop_token& stop) {
  std::vector<FeedResult>& results = impl_->results;
  results.assign(feeds.size(), FeedResult{});
  try {
    for (std::size_t i = 0; i < feeds.size(); ++i) results[i].status = impl_->check(feeds, i);
    while (!stop.stop_requested() && impl_->pass(feeds)) {
    }
  } catch (const std::bad_alloc&) {
    for (std::size_t i = 0; i < feeds.size(); ++i) {
      if (results[i].consumed < feeds[i].tokens.size() && results[i].status)
        results[i].status = Error{ErrorCode::out_of_memory, "a pass: not enough memory"};
    }
  }
  for (std::size_t i = 0; i < feeds.size(); ++i) {
    FeedResult& result = results[i];
    result.cancelled = result.status && result.consumed < feeds[i].tokens.size();
  }
  return results;
}

}  // namespace runnel
