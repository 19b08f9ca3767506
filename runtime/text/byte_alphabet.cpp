// SPDX-License-Identifier: Apache-2.0
// The mapping of GPT-2's bytes_to_unicode().
#include "runtime/text/byte_alphabet.h"

#include "runtime/text/utf8.h"

namespace runnel {

ByteAlphabet::ByteAlphabet() {
  bytes_.fill(-1);
  std::uint16_t next = 256;
  for (std::uint16_t byte = 0; byte < 256; ++byte) {
    const bool printable =
        (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    const std::uint16_t code_point = printable ? byte : next++;
    code_points_[byte] = code_point;
    bytes_[code_point] = static_cast<std::int16_t>(byte);
  }
}

void ByteAlphabet::spell(std::uint8_t byte, std::string& out) const {
  append_utf8(out, code_points_[byte]);
}

bool ByteAlphabet::read(std::string_view spelled, std::string& out) const {
  const std::size_t before = out.size();
  while (!spelled.empty()) {
    const Utf8Step step = utf8_step(spelled);
    if (step.kind != Utf8Step::Kind::character || step.code_point >= bytes_.size() ||
        bytes_[step.code_point] < 0) {
      out.resize(before);
      return false;
    }
    out.push_back(static_cast<char>(bytes_[step.code_point]));
    spelled.remove_prefix(step.length);
  }
  return true;
}

}  // namespace runnel
