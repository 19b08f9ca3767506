// SPDX-License-Identifier: Apache-2.0
#include "app/chat/reader/xml.h"

#include <algorithm>
#include <charconv>

namespace runnel::reader {

int number(std::string_view digits, int otherwise, int most) {
  int value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error == std::errc::result_out_of_range) return most;
  return error != std::errc() || value < 0 ? otherwise : std::min(value, most);
}

Outcome parse(std::string& bytes, const std::string& part, pugi::xml_document& document) {
  // Spaces between two words of different looks are text.
  const pugi::xml_parse_result parsed = document.load_buffer_inplace(
      bytes.data(), bytes.size(), pugi::parse_default | pugi::parse_ws_pcdata);
  if (parsed.status == pugi::status_out_of_memory)
    return {Why::Memory, part + " has more elements than fit the memory for it"};
  if (!parsed) {
    return {Why::Damaged, part + " is not well-formed at byte " + std::to_string(parsed.offset) +
                              ": " + parsed.description()};
  }
  return {};
}

}  // namespace runnel::reader
