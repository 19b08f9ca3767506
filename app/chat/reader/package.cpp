// SPDX-License-Identifier: Apache-2.0
#include "app/chat/reader/package.h"

#include <zip.h>

#include <memory>
#include <vector>

namespace runnel::reader {
namespace {

std::string wordsOf(zip_error_t& error) {
  std::string words = zip_error_strerror(&error);
  zip_error_fini(&error);
  return words;
}

struct CloseFile {
  void operator()(zip_file_t* file) const { zip_fclose(file); }
};

}  // namespace

Package::Package(std::string_view bytes, std::size_t unpackedBytes)
    : m_most(unpackedBytes), m_left(unpackedBytes) {
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* source = zip_source_buffer_create(bytes.data(), bytes.size(), 0, &error);
  if (source != nullptr) m_zip = zip_open_from_source(source, ZIP_RDONLY, &error);
  if (m_zip == nullptr) {
    if (source != nullptr) zip_source_free(source);
    m_opened = {Why::Damaged, "is no whole zip file: " + wordsOf(error)};
  }
}

Package::~Package() {
  if (m_zip != nullptr) zip_discard(m_zip);
}

bool Package::has(const std::string& part) const {
  return zip_name_locate(m_zip, part.c_str(), ZIP_FL_ENC_RAW) >= 0;
}

Outcome Package::read(const std::string& part, std::string& out) {
  out.clear();
  zip_stat_t about;
  if (zip_stat(m_zip, part.c_str(), ZIP_FL_ENC_RAW, &about) != 0)
    return {Why::NoText, "has no part " + part};
  if ((about.valid & ZIP_STAT_ENCRYPTION_METHOD) != 0 && about.encryption_method != ZIP_EM_NONE)
    return {Why::Encrypted, part + " is encrypted"};
  const std::unique_ptr<zip_file_t, CloseFile> file(zip_fopen_index(m_zip, about.index, 0));
  if (file == nullptr) return {Why::Damaged, part + ": " + zip_strerror(m_zip)};
  constexpr std::size_t kPiece = std::size_t{64} << 10;
  std::vector<char> piece(kPiece);
  while (true) {
    const zip_int64_t got = zip_fread(file.get(), piece.data(), piece.size());
    if (got < 0) return {Why::Damaged, part + ": " + zip_file_strerror(file.get())};
    if (got == 0) return {};
    const auto count = static_cast<std::size_t>(got);
    if (count > m_left) {
      return {Why::TooLarge, part + " unpacks to more than " + std::to_string(m_most >> 20) +
                                 " MB with what was read before"};
    }
    m_left -= count;
    out.append(piece.data(), count);
  }
}

}  // namespace runnel::reader
