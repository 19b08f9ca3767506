// SPDX-License-Identifier: Apache-2.0
// The parts of a zip file, as docx and odt are, unpacked one by one up to a limit.
#pragma once

#include <string>
#include <string_view>

#include "app/chat/reader/outcome.h"

struct zip;

namespace runnel::reader {

class Package {
 public:
  /// `bytes` must outlive it. At most `unpackedBytes` are unpacked of all parts together.
  Package(std::string_view bytes, std::size_t unpackedBytes);
  ~Package();
  Package(const Package&) = delete;
  Package& operator=(const Package&) = delete;

  /// Damaged if it is no zip file.
  const Outcome& opened() const { return m_opened; }
  bool has(const std::string& part) const;
  /// NoText if there is no such part; Encrypted, Damaged, TooLarge, however little its header says.
  Outcome read(const std::string& part, std::string& out);

 private:
  zip* m_zip = nullptr;
  Outcome m_opened;
  std::size_t m_most;
  std::size_t m_left;
};

}  // namespace runnel::reader
