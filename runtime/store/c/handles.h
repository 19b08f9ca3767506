// SPDX-License-Identifier: Apache-2.0
// What the C functions of the store share.
#pragma once

#include <span>
#include <string>
#include <utility>

#include "runnel/conversation.h"
#include "runnel/runnel_store.h"
#include "runnel/store.h"
#include "runtime/c/generation_options.h"
#include "runtime/c/support.h"

struct runnel_store {
  runnel::ConversationStore store;
};
struct runnel_conversation {
  runnel::Conversation conversation;
};

namespace runnel::c {

/// Fills a caller's sized struct that has had these members since its first version. Nothing if it is null.
template <class T>
Status give_struct(T* to, T value, std::string_view name) {
  if (to == nullptr) return {};
  RUNNEL_CHECK_OK(known_struct(to, T{}, sizeof(T), name));
  fill_struct(to, value);
  return {};
}

inline runnel_forget_report to_c(const ForgetReport& report) {
  return {.size = sizeof(runnel_forget_report),
          .messages = report.messages,
          .snapshots = report.snapshots,
          .log_emptied = report.log_emptied};
}

/// Whether `report` can be filled: asked before anything is deleted.
inline Status check_report(const runnel_forget_report* report) {
  RUNNEL_CHECK_OK(known_struct(report, runnel_forget_report{}, sizeof(runnel_forget_report),
                               "runnel_forget_report"));
  return {};
}

}  // namespace runnel::c
