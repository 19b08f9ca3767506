// SPDX-License-Identifier: Apache-2.0
// Any bytes as an office file, as what stands in a docx file and as what stands in an odt file; the first byte chooses.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "app/chat/reader/tidy.h"
#include "app/chat/reader/word_text.h"
#include "tests/chat/reader/sample_office.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  runnel::reader::Limits limits;
  limits.unpackedBytes = std::size_t{1} << 20;
  std::string text;
  const std::string file = data[0] % 3 == 0   ? rest
                           : data[0] % 3 == 1 ? runnel::test::docxOf(rest)
                                              : runnel::test::odtOf(rest);
  static_cast<void>(runnel::reader::officeText(file, limits, text));
  static_cast<void>(runnel::reader::tidy(text, true));
  const std::string tidied = runnel::reader::tidy(text, false);
  if (runnel::reader::tidy(tidied, false) != tidied) std::abort();
  return 0;
}
