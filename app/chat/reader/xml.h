// SPDX-License-Identifier: Apache-2.0
// What docx and odt have in common as XML.
#pragma once

#include <pugixml.hpp>
#include <string>
#include <string_view>

#include "app/chat/reader/outcome.h"

namespace runnel::reader {

/// Elements lie this deep in each other at most; a text that people wrote needs a tenth of it.
constexpr int kDeepest = 256;

/// Names without prefix: which one stands for a namespace is up to the file.
inline std::string_view localName(const char* name) {
  const std::string_view whole(name);
  const std::size_t colon = whole.find(':');
  return colon == std::string_view::npos ? whole : whole.substr(colon + 1);
}
inline std::string_view localName(const pugi::xml_node& node) { return localName(node.name()); }

inline std::string_view attribute(const pugi::xml_node& node, std::string_view name) {
  for (const pugi::xml_attribute& a : node.attributes()) {
    if (localName(a.name()) == name) return a.value();
  }
  return {};
}

inline pugi::xml_node child(const pugi::xml_node& node, std::string_view name) {
  for (const pugi::xml_node& inner : node.children()) {
    if (localName(inner) == name) return inner;
  }
  return {};
}

/// A number up to `most`; `otherwise` if it is none.
int number(std::string_view digits, int otherwise, int most);

/// Parses `bytes` in place: they must outlive the document and are changed. No entity but XML's own is replaced and
/// nothing else is read.
Outcome parse(std::string& bytes, const std::string& part, pugi::xml_document& document);

}  // namespace runnel::reader
