// SPDX-License-Identifier: Apache-2.0
// What was read again before a message, as the database and exports hold it: [{"message": 3, "text": "…"}].
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runnel/store.h"

namespace runnel {

/// The number of a message in another place: in a file, in another library.
using RenameMessage = std::function<MessageId(MessageId)>;
inline MessageId same_message(MessageId id) { return id; }

nlohmann::json json_of(std::span<const Quotation> quotations, const RenameMessage& rename);
/// Leniently: what is no quotation is left out.
std::vector<Quotation> quotations_from(const nlohmann::json& list);

/// The same as text; nothing for no quotations.
std::string text_of(std::span<const Quotation> quotations,
                    const RenameMessage& rename = same_message);
std::vector<Quotation> quotations_from_text(std::string_view text);

}  // namespace runnel
