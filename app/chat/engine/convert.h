// SPDX-License-Identifier: Apache-2.0
// From the library's values to the window's.
#pragma once

#include "app/chat/engine/chat_types.h"
#include "runnel/store.h"

namespace runnel::chat {

inline QString text(const std::string& utf8) { return QString::fromStdString(utf8); }

inline Problem problem(const Error& error) { return {error.code, text(error.message)}; }

inline Message message(const MessageInfo& info) {
  return {.id = info.id,
          .parent = info.parent,
          .role = text(info.role),
          .text = text(info.text),
          .name = text(info.name),
          .created = info.created,
          .complete = info.complete,
          .pinned = info.pinned};
}

}  // namespace runnel::chat
