// SPDX-License-Identifier: Apache-2.0
#include "tests/chat/reader/sample_office.h"

#include <zip.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>

namespace runnel::test {
namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

/// A source of spaces without an end before `left`.
struct Spaces {
  std::size_t left = 0;
};

zip_int64_t give(void* user, void* to, zip_uint64_t most, zip_source_cmd_t command) {
  auto* spaces = static_cast<Spaces*>(user);
  switch (command) {
    case ZIP_SOURCE_OPEN:
    case ZIP_SOURCE_CLOSE:
    case ZIP_SOURCE_FREE:
      return 0;
    case ZIP_SOURCE_READ: {
      const std::size_t count = std::min<std::size_t>(most, spaces->left);
      std::memset(to, ' ', count);
      spaces->left -= count;
      return static_cast<zip_int64_t>(count);
    }
    case ZIP_SOURCE_STAT:
      zip_stat_init(static_cast<zip_stat_t*>(to));
      return sizeof(zip_stat_t);
    case ZIP_SOURCE_SUPPORTS:
      return ZIP_SOURCE_SUPPORTS_READABLE;
    default:
      return 0;
  }
}

/// What `fill` adds, as one string.
template <class Fill>
std::string made(const Fill& fill) {
  zip_source_t* bytes = zip_source_buffer_create(nullptr, 0, 0, nullptr);
  require(bytes != nullptr);
  zip_source_keep(bytes);
  zip_t* archive = zip_open_from_source(bytes, ZIP_TRUNCATE, nullptr);
  require(archive != nullptr);
  fill(archive);
  require(zip_close(archive) == 0);
  require(zip_source_open(bytes) == 0);
  zip_stat_t about;
  require(zip_source_stat(bytes, &about) == 0);
  std::string out(about.size, '\0');
  require(zip_source_read(bytes, out.data(), out.size()) == static_cast<zip_int64_t>(out.size()));
  zip_source_close(bytes);
  zip_source_free(bytes);
  return out;
}

void add(zip_t* archive, const std::string& name, const std::string& content,
         const std::string& password = {}) {
  zip_source_t* source = zip_source_buffer(archive, content.data(), content.size(), 0);
  const zip_int64_t at = zip_file_add(archive, name.c_str(), source, ZIP_FL_ENC_UTF_8);
  require(at >= 0);
  if (!password.empty()) {
    require(zip_file_set_encryption(archive, static_cast<zip_uint64_t>(at), ZIP_EM_AES_256,
                                    password.c_str()) == 0);
  }
}

}  // namespace

std::string zipOf(const Parts& parts, const std::string& password) {
  return made([&](zip_t* archive) {
    for (const auto& [name, content] : parts) add(archive, name, content, password);
  });
}

std::string docxOf(const std::string& body, Parts more) {
  Parts parts = {{"[Content_Types].xml", "<Types/>"},
                 {"word/document.xml", "<?xml version=\"1.0\"?><w:document xmlns:w=\"w\"><w:body>" +
                                           body + "</w:body></w:document>"}};
  std::move(more.begin(), more.end(), std::back_inserter(parts));
  return zipOf(parts);
}

std::string odtOf(const std::string& text, Parts more) {
  Parts parts = {
      {"mimetype", "application/vnd.oasis.opendocument.text"},
      {"content.xml", "<?xml version=\"1.0\"?><office:document-content><office:body><office:text>" +
                          text + "</office:text></office:body></office:document-content>"}};
  std::move(more.begin(), more.end(), std::back_inserter(parts));
  return zipOf(parts);
}

std::string docxBomb(std::size_t bytes) {
  Spaces spaces{bytes};
  return made([&](zip_t* archive) {
    zip_source_t* first = zip_source_buffer(archive, "<Types/>", 8, 0);
    require(zip_file_add(archive, "[Content_Types].xml", first, 0) >= 0);
    zip_source_t* source = zip_source_function(archive, give, &spaces);
    require(zip_file_add(archive, "word/document.xml", source, 0) >= 0);
  });
}

}  // namespace runnel::test
