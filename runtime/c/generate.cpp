// SPDX-License-Identifier: Apache-2.0
// Generation in the C API.
#include <algorithm>
#include <utility>
#include <vector>

#include "runnel/generation.h"
#include "runtime/c/generation_options.h"

using namespace runnel;
using namespace runnel::c;

void runnel_generation_options_init(runnel_generation_options* options, size_t size) {
  init_struct(options, size, default_options());
}

void runnel_generation_result_init(runnel_generation_result* result, size_t size) {
  init_struct(result, size, runnel_generation_result{});
}

runnel_status runnel_generate(runnel_session* session, const runnel_generation_options* options,
                              runnel_generation_result* result, runnel_error* error) {
  return guarded(error, [&]() -> Status {
    RUNNEL_CHECK_OK(check_not_null(session, "session"));
    RUNNEL_TRY(const runnel_generation_options o, known_options(options));
    RUNNEL_TRY(const runnel_generation_result out, known_result(result));
    RUNNEL_TRY(const GenerationOptions wanted, to_options(o, session->session.model()));
    RUNNEL_TRY(const GenerationResult done,
               generate(session->session, wanted, text_callback(o), stop_of(o.stop)));
    put_result(done, out, result);
    return {};
  });
}

runnel_status runnel_generate_several(
    const runnel_session* session, size_t n, const runnel_generation_options* options,
    bool (*on_text)(size_t answer, const char* text, size_t bytes, void* user),
    runnel_generation_result* const* results, runnel_error* error) {
  return guarded(error, [&]() -> Status {
    RUNNEL_CHECK_OK(check_not_null(session, "session"));
    RUNNEL_TRY(const runnel_generation_options o, known_options(options));
    RUNNEL_TRY(const GenerationOptions wanted, to_options(o, session->session.model()));
    const auto result_of = [results](std::size_t i) {
      return results != nullptr ? results[i] : nullptr;
    };
    std::vector<runnel_generation_result> outs;
    for (std::size_t i = 0; i < std::min(n, kMostAnswers); ++i) {
      RUNNEL_TRY(const runnel_generation_result out, known_result(result_of(i)));
      outs.push_back(out);
    }
    AnswerCallback show;
    if (on_text != nullptr) {
      show = [on_text, user = o.user](std::size_t answer, std::string_view text) {
        return on_text(answer, text.data(), text.size(), user);
      };
    }
    RUNNEL_TRY(const std::vector<GenerationResult> done,
               generate_several(session->session, n, wanted, show, stop_of(o.stop)));
    for (std::size_t i = 0; i < done.size(); ++i) put_result(done[i], outs[i], result_of(i));
    return {};
  });
}

runnel_status runnel_model_sampling(const runnel_model* model, runnel_generation_options* options,
                                    runnel_error* error) {
  return guarded(error, [&]() -> Status {
    RUNNEL_CHECK_OK(check_not_null(model, "model"));
    RUNNEL_CHECK_OK(check_not_null(options, "options"));
    RUNNEL_TRY(runnel_generation_options o, known_options(options));
    put_sampling(model->model->sampling(), model->texts, o);
    fill_struct(options, o);
    return {};
  });
}

runnel_status runnel_session_last_sampling(const runnel_session* session,
                                           runnel_generation_options* options, bool* known,
                                           runnel_error* error) {
  return guarded(error, [&]() -> Status {
    RUNNEL_CHECK_OK(check_not_null(session, "session"));
    RUNNEL_CHECK_OK(check_not_null(options, "options"));
    RUNNEL_CHECK_OK(check_not_null(known, "known"));
    RUNNEL_TRY(runnel_generation_options o, known_options(options));
    const std::optional<SamplingOptions> last = last_sampling(session->session);
    *known = last.has_value();
    if (!last) return {};
    session->texts = SamplingTexts(*last);
    put_sampling(*last, session->texts, o);
    o.seed = last->seed;
    fill_struct(options, o);
    return {};
  });
}
