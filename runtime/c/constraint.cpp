// SPDX-License-Identifier: Apache-2.0
// Constraints in the C API.
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runnel/generation.h"
#include "runtime/c/support.h"

using namespace runnel;
using namespace runnel::c;

runnel_status runnel_constraint_create(const runnel_model* model, int32_t kind, const char* text,
                                       size_t bytes, bool strict, runnel_constraint** constraint,
                                       runnel_error* error) {
  return guarded(error, [&]() -> Status {
    RUNNEL_CHECK_OK(check_not_null(model, "model"));
    RUNNEL_CHECK_OK(check_not_null(constraint, "constraint"));
    RUNNEL_TRY(const std::string_view source, text_of(text, bytes, "text"));
    if (kind < RUNNEL_CONSTRAINT_JSON_SCHEMA || kind > RUNNEL_CONSTRAINT_GBNF) {
      return fail(ErrorCode::invalid_argument, "kind is ", kind, ", expected ",
                  int{RUNNEL_CONSTRAINT_JSON_SCHEMA}, " to ", int{RUNNEL_CONSTRAINT_GBNF});
    }
    RUNNEL_TRY(std::shared_ptr<const Constraint> made,
               Constraint::compile(*model->model, {.kind = static_cast<ConstraintKind>(kind),
                                                   .text = std::string(source),
                                                   .strict = strict}));
    *constraint = new runnel_constraint{std::move(made)};
    return {};
  });
}

void runnel_constraint_free(runnel_constraint* constraint) { delete constraint; }

runnel_status runnel_constraint_forced(const runnel_constraint* constraint,
                                       const runnel_token* taken, size_t taken_count,
                                       runnel_token* tokens, size_t capacity, size_t* count,
                                       runnel_error* error) {
  return guarded(error, [&]() -> Status {
    RUNNEL_CHECK_OK(check_not_null(constraint, "constraint"));
    RUNNEL_CHECK_OK(check_not_null(count, "count"));
    if (capacity > 0) RUNNEL_CHECK_OK(check_not_null(tokens, "tokens"));
    RUNNEL_TRY(const std::span<const runnel_token> before, span_of(taken, taken_count, "taken"));
    RUNNEL_TRY(const std::vector<TokenId> certain,
               constraint->constraint->forced(before, capacity));
    std::copy(certain.begin(), certain.end(), tokens);
    *count = certain.size();
    return {};
  });
}

runnel_status runnel_session_last_constraint(const runnel_session* session,
                                             runnel_constraint** constraint, runnel_error* error) {
  return guarded(error, [&]() -> Status {
    RUNNEL_CHECK_OK(check_not_null(session, "session"));
    RUNNEL_CHECK_OK(check_not_null(constraint, "constraint"));
    RUNNEL_TRY(std::shared_ptr<const Constraint> last, last_constraint(session->session));
    *constraint = last == nullptr ? nullptr : new runnel_constraint{std::move(last)};
    return {};
  });
}
