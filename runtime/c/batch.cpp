// SPDX-License-Identifier: Apache-2.0
// Generations in steps and batches in the C API.
#include "runnel/batch.h"

#include <utility>
#include <vector>

#include "runtime/c/generation_options.h"
#include "runtime/c/support.h"

using namespace runnel;
using namespace runnel::c;

struct runnel_generation {
  SessionGeneration generation;
  std::stop_token stop;
  bool finished = false;
};

struct runnel_batch {
  SessionBatch batch;
  std::vector<SessionFeed> feeds;
};

namespace {

Status check_running(const runnel_generation* generation) {
  RUNNEL_CHECK_OK(check_not_null(generation, "generation"));
  if (!generation->finished) return {};
  return fail(ErrorCode::invalid_argument, "generation: is finished, expected one that goes on");
}

void put_token(const std::optional<TokenId>& from, runnel_token* token, bool* over) {
  *over = !from;
  if (from) *token = *from;
}

}  // namespace

runnel_status runnel_generation_create(runnel_session* session,
                                       const runnel_generation_options* options,
                                       runnel_generation** generation, runnel_error* error) {
  return guarded(error, [&]() -> Status {
    RUNNEL_CHECK_OK(check_not_null(session, "session"));
    RUNNEL_CHECK_OK(check_not_null(generation, "generation"));
    RUNNEL_TRY(const runnel_generation_options o, known_options(options));
    RUNNEL_TRY(GenerationOptions wanted, to_options(o, session->session.model()));
    RUNNEL_TRY(SessionGeneration made,
               SessionGeneration::create(session->session, std::move(wanted), text_callback(o)));
    *generation = new runnel_generation{std::move(made), stop_of(o.stop)};
    return {};
  });
}

void runnel_generation_free(runnel_generation* generation) { delete generation; }

runnel_status runnel_generation_choose(runnel_generation* generation, runnel_token* token,
                                       bool* over, runnel_error* error) {
  return guarded(error, [&]() -> Status {
    RUNNEL_CHECK_OK(check_running(generation));
    RUNNEL_CHECK_OK(check_not_null(token, "token"));
    RUNNEL_CHECK_OK(check_not_null(over, "over"));
    RUNNEL_TRY(const std::optional<TokenId> chosen,
               generation->generation.choose(generation->stop.stop_requested()));
    put_token(chosen, token, over);
    return {};
  });
}

runnel_status runnel_generation_took(runnel_generation* generation, runnel_token token,
                                     runnel_error* error) {
  return guarded(error, [&]() -> Status {
    RUNNEL_CHECK_OK(check_running(generation));
    generation->generation.took(token);
    return {};
  });
}

runnel_status runnel_generation_step(runnel_generation* generation, runnel_token* token, bool* over,
                                     runnel_error* error) {
  return guarded(error, [&]() -> Status {
    RUNNEL_CHECK_OK(check_running(generation));
    RUNNEL_CHECK_OK(check_not_null(token, "token"));
    RUNNEL_CHECK_OK(check_not_null(over, "over"));
    RUNNEL_TRY(const std::optional<TokenId> taken, generation->generation.step(generation->stop));
    put_token(taken, token, over);
    return {};
  });
}

const char* runnel_generation_text(const runnel_generation* generation, size_t* bytes) {
  const std::string_view text =
      generation != nullptr ? generation->generation.text() : std::string_view();
  if (bytes != nullptr) *bytes = text.size();
  return text.data();
}

runnel_status runnel_generation_finish(runnel_generation* generation,
                                       runnel_generation_result* result, runnel_error* error) {
  return guarded(error, [&]() -> Status {
    RUNNEL_CHECK_OK(check_running(generation));
    RUNNEL_TRY(const runnel_generation_result out, known_result(result));
    generation->finished = true;
    RUNNEL_TRY(const GenerationResult done, generation->generation.finish());
    put_result(done, out, result);
    return {};
  });
}

runnel_status runnel_batch_create(const runnel_model* model, runnel_batch** batch,
                                  runnel_error* error) {
  return guarded(error, [&]() -> Status {
    RUNNEL_CHECK_OK(check_not_null(model, "model"));
    RUNNEL_CHECK_OK(check_not_null(batch, "batch"));
    *batch = new runnel_batch{SessionBatch(model->model), {}};
    return {};
  });
}

void runnel_batch_free(runnel_batch* batch) { delete batch; }

runnel_status runnel_batch_run(runnel_batch* batch, const runnel_feed* feeds, size_t feed_count,
                               const runnel_stop* stop, runnel_feed_result* results,
                               runnel_error* error) {
  return guarded(error, [&]() -> Status {
    RUNNEL_CHECK_OK(check_not_null(batch, "batch"));
    RUNNEL_TRY(const std::span<const runnel_feed> given, span_of(feeds, feed_count, "feeds"));
    if (!given.empty()) RUNNEL_CHECK_OK(check_not_null(results, "results"));
    batch->feeds.clear();
    for (const runnel_feed& feed : given) {
      RUNNEL_TRY(const std::span<const TokenId> ids,
                 span_of(feed.tokens, feed.token_count, "a feed's tokens"));
      batch->feeds.push_back({.session = feed.session != nullptr ? &feed.session->session : nullptr,
                              .tokens = ids,
                              .generated = feed.generated});
    }
    const std::span<const FeedResult> done = batch->batch.run(batch->feeds, stop_of(stop));
    for (std::size_t i = 0; i < done.size(); ++i) {
      results[i] = {.error = {.status = RUNNEL_OK, .message = ""},
                    .consumed = done[i].consumed,
                    .stopped = done[i].cancelled};
      if (done[i].status) continue;
      const Error& failed = done[i].status.error();
      report(static_cast<runnel_status>(failed.code), failed.message, &results[i].error);
    }
    return {};
  });
}
