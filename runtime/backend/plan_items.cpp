// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/plan_items.h"

#include "runtime/base/try.h"

namespace runnel {
namespace {

std::size_t wanted_floats(const PlanItem& item, int vocab_size) {
  switch (item.wanted) {
    case LogitsWanted::none:
      return 0;
    case LogitsWanted::last:
      return static_cast<std::size_t>(vocab_size);
    case LogitsWanted::all:
      return item.tokens.size() * static_cast<std::size_t>(vocab_size);
  }
  return 0;
}

}  // namespace

std::size_t total_tokens(std::span<const PlanItem> items) {
  std::size_t n = 0;
  for (const PlanItem& item : items) n += item.tokens.size();
  return n;
}

Status check_items(std::span<const PlanItem> items, int max_tokens, int vocab_size) {
  if (items.empty())
    return fail(ErrorCode::invalid_argument, "pass: has no items, expected at least one");
  const std::size_t total = total_tokens(items);
  if (total > static_cast<std::size_t>(max_tokens)) {
    return fail(ErrorCode::invalid_argument, "pass: has ", total, " tokens, expected at most ",
                max_tokens);
  }
  for (std::size_t i = 0; i < items.size(); ++i) {
    const PlanItem& item = items[i];
    if (item.state == nullptr)
      return fail(ErrorCode::invalid_argument, "item ", i, ": has no state");
    for (std::size_t j = 0; j < i; ++j) {
      if (items[j].state == item.state) {
        return fail(ErrorCode::invalid_argument, "item ", i, ": its state is item ", j,
                    "'s too, expected each state once");
      }
    }
    if (item.tokens.empty())
      return fail(ErrorCode::invalid_argument, "item ", i, ": has no tokens");
    for (TokenId token : item.tokens) {
      if (token < 0 || token >= vocab_size) {
        return fail(ErrorCode::invalid_argument, "item ", i, ": token ", token,
                    ", expected an id in [0, ", vocab_size, ")");
      }
    }
    const std::size_t want = wanted_floats(item, vocab_size);
    if (item.logits.size() != want) {
      return fail(ErrorCode::invalid_argument, "item ", i, ": logits hold ", item.logits.size(),
                  " floats, expected ", want);
    }
  }
  return {};
}

}  // namespace runnel
