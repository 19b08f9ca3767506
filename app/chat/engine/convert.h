// SPDX-License-Identifier: Apache-2.0
// From the library's values to the window's.
#pragma once

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "app/chat/engine/chat_types.h"
#include "runnel/store.h"
#include "runtime/base/text.h"

namespace runnel::chat {

inline QString text(const std::string& utf8) { return QString::fromStdString(utf8); }

/// The library's errors are sentences; the system's own words in them say why it refused.
inline Refusal refusalOf(const std::string& message) {
  const auto says = [&message](int number) {
    return message.find(std::generic_category().message(number)) != std::string::npos;
  };
  if (says(ENOSPC) || says(EDQUOT) || message.find("disk is full") != std::string::npos)
    return Refusal::Full;
  if (says(EACCES) || says(EROFS) || says(EPERM) ||
      message.find("for reading only") != std::string::npos)
    return Refusal::Forbidden;
  return Refusal::Unknown;
}

inline Problem problem(const Error& error, About about = About::Nothing, const QString& file = {}) {
  return {error.code, text(error.message), about, file, refusalOf(error.message)};
}

/// The same for what was done with `file` in the library `library`, which may be what failed.
inline Problem problemIn(const std::filesystem::path& library, const Error& error, About about,
                         const QString& file = {}) {
  return error.message.starts_with(printable(library.native()))
             ? problem(error, About::Library, text(library.string()))
             : problem(error, about, file);
}

inline Message message(const MessageInfo& info) {
  QVector<Quoted> quoted;
  for (const Quotation& quotation : info.quotations)
    quoted.push_back({quotation.message, text(quotation.text)});
  return {.id = info.id,
          .parent = info.parent,
          .role = text(info.role),
          .text = text(info.text),
          .name = text(info.name),
          .created = info.created,
          .complete = info.complete,
          .pinned = info.pinned,
          .cut = info.cut == CutReason::stopped  ? Cut::Stopped
                 : info.cut == CutReason::length ? Cut::Length
                                                 : Cut::None,
          .instant = info.has_snapshot,
          .thought = text(info.thought),
          .thoughtMs = info.thought_ms,
          .quoted = quoted};
}

}  // namespace runnel::chat
