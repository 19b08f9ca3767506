// SPDX-License-Identifier: Apache-2.0
#include "runtime/store/quotations.h"

namespace runnel {

using nlohmann::json;

json json_of(std::span<const Quotation> quotations, const RenameMessage& rename) {
  json list = json::array();
  for (const Quotation& quotation : quotations)
    list.push_back({{"message", rename(quotation.message)}, {"text", quotation.text}});
  return list;
}

std::vector<Quotation> quotations_from(const json& list) {
  std::vector<Quotation> quotations;
  if (!list.is_array()) return quotations;
  for (const json& entry : list) {
    if (!entry.is_object()) continue;
    const auto message = entry.find("message");
    const auto text = entry.find("text");
    if (message == entry.end() || !message->is_number_integer() || text == entry.end() ||
        !text->is_string())
      continue;
    quotations.push_back({message->get<MessageId>(), text->get<std::string>()});
  }
  return quotations;
}

std::string text_of(std::span<const Quotation> quotations, const RenameMessage& rename) {
  if (quotations.empty()) return {};
  return json_of(quotations, rename).dump(-1, ' ', false, json::error_handler_t::replace);
}

std::vector<Quotation> quotations_from_text(std::string_view text) {
  if (text.empty()) return {};
  return quotations_from(json::parse(text, nullptr, false));
}

}  // namespace runnel
