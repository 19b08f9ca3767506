// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "app/chat/reader/list_numbers.h"
#include "app/chat/reader/package.h"
#include "app/chat/reader/page_writer.h"
#include "app/chat/reader/word_text.h"
#include "app/chat/reader/xml.h"

namespace runnel::reader {
namespace {

using pugi::xml_node;

constexpr int kMostLevels = static_cast<int>(kListLevels);

ListLevel::Numeral numeralOf(std::string_view format) {
  using Numeral = ListLevel::Numeral;
  if (format.empty()) return Numeral::None;
  switch (format.front()) {
    case 'a':
      return Numeral::SmallLetter;
    case 'A':
      return Numeral::CapitalLetter;
    case 'i':
      return Numeral::SmallRoman;
    case 'I':
      return Numeral::CapitalRoman;
    default:
      return Numeral::Decimal;
  }
}

/// How the lists look that are named in a part.
using ListStyles = std::map<std::string, ListLevels>;

void readListStyles(const xml_node& root, ListStyles& styles) {
  for (const std::string_view group : {"styles", "automatic-styles"}) {
    for (const xml_node& style : child(root, group).children()) {
      if (localName(style) != "list-style") continue;
      ListLevels& levels = styles[std::string(attribute(style, "name"))];
      levels = {};  // an automatic one of another part may have its name
      for (const xml_node& node : style.children()) {
        const int at = number(attribute(node, "level"), 0, kMostLevels + 1);
        if (at == 0 || at > kMostLevels || localName(node) != "list-level-style-number") continue;
        ListLevel& level = levels[static_cast<std::size_t>(at - 1)];
        level.numeral = numeralOf(attribute(node, "num-format"));
        level.start = number(attribute(node, "start-value"), 1, kMostItems);
        constexpr std::size_t kLongest = 30;
        level.label = attribute(node, "num-prefix").substr(0, kLongest);
        const int first = at + 1 - std::max(number(attribute(node, "display-levels"), 1, at), 1);
        for (int i = first; i <= at; ++i)
          level.label += (i > first ? ".%" : "%") + std::to_string(i);
        level.label += attribute(node, "num-suffix").substr(0, kLongest);
      }
    }
  }
}

class Odt {
 public:
  Odt(const ListStyles& styles, std::string& out) : m_styles(styles), m_out(out), m_page(out) {}

  bool walk(const xml_node& node, int depth) {
    if (depth > kDeepest) return false;
    for (const xml_node& inner : node.children()) {
      if (!enter(inner, depth + 1)) return false;
    }
    return true;
  }

  void writeNotes() {
    for (std::size_t i = 0; i < m_notes.size(); ++i)
      m_out += '[' + std::to_string(i + 1) + "] " + m_notes[i] + '\n';
  }

 private:
  /// The list that is open, and its item.
  struct Open {
    int depth = 0;  // lists that lie in each other; 0: none
    const ListLevels* levels = nullptr;
    ListCounter* counter = nullptr;  // of the outmost
    bool marked = false;             // the item has what stands before it
    std::size_t level() const { return static_cast<std::size_t>(std::max(depth, 1) - 1); }
  };

  bool enter(const xml_node& node, int depth) {
    if (node.type() == pugi::node_pcdata || node.type() == pugi::node_cdata) {
      if (m_paragraphs > 0) words(node.value());
      return true;
    }
    const std::string_view name = localName(node);
    if (name == "p") return paragraph(node, depth, 0);
    if (name == "h") {
      constexpr int kMost = 9;
      return paragraph(node, depth, number(attribute(node, "outline-level"), 1, kMost));
    }
    if (name == "list") return list(node, depth);
    if (name == "list-item" || name == "list-header") {
      const Open around = m_list;
      m_list.marked = name == "list-header";
      const std::string_view start = attribute(node, "start-value");
      if (!start.empty() && m_list.counter != nullptr)
        m_list.counter->restart(m_list.level(), number(start, 1, kMostItems));
      const bool all = walk(node, depth);
      m_list = around;
      return all;
    }
    if (name == "s") {
      constexpr int kMost = 16;
      m_writer->text(
          std::string(static_cast<std::size_t>(number(attribute(node, "c"), 1, kMost)), ' '));
      return true;
    }
    if (name == "tab") return m_writer->tab(), true;
    if (name == "line-break") return m_writer->lineBreak(), true;
    if (name == "note") return note(node, depth);
    if (name == "table") {
      const bool all = walk(node, depth);
      m_writer->endTable();
      return all;
    }
    if (name == "table-row") {
      m_writer->beginRow();
      const bool all = walk(node, depth);
      m_writer->endRow();
      return all;
    }
    if (name == "table-cell") {
      m_writer->beginCell();
      const bool all = walk(node, depth);
      m_writer->endCell();
      return all;
    }
    // What was deleted, remarks, and what is no text.
    for (const std::string_view left : {"tracked-changes", "annotation", "forms", "sequence-decls",
                                        "variable-decls", "binary-data"}) {
      if (name == left) return true;
    }
    return walk(node, depth);
  }

  /// One that is in no other goes on with the numbers of an earlier one if it says so.
  bool list(const xml_node& node, int depth) {
    const Open around = m_list;
    const std::string style(attribute(node, "style-name"));
    if (const auto levels = m_styles.find(style); levels != m_styles.end())
      m_list.levels = &levels->second;
    if (m_list.depth++ == 0) {
      ListCounter*& last = m_lastOf[style];
      const auto before = m_byId.find(std::string(attribute(node, "continue-list")));
      const bool goesOn = attribute(node, "continue-numbering") == "true";
      m_list.counter = before != m_byId.end()      ? before->second
                       : goesOn && last != nullptr ? last
                                                   : &m_counted.emplace_back();
      last = m_list.counter;
      if (const std::string id(attribute(node, "id")); !id.empty()) m_byId[id] = last;
    }
    const bool all = walk(node, depth);
    m_list = around;
    return all;
  }

  bool paragraph(const xml_node& node, int depth, int heading) {
    const int item = heading == 0 ? m_list.depth : 0;
    std::string mark;
    if (m_list.depth > 0 && !std::exchange(m_list.marked, true))
      mark = m_list.levels == nullptr ? "-" : m_list.counter->next(*m_list.levels, m_list.level());
    m_writer->beginParagraph(heading, item, mark);
    ++m_paragraphs;
    const bool all = walk(node, depth);
    --m_paragraphs;
    m_writer->endParagraph(item);
    return all;
  }

  /// Spaces and line ends of the file are one space; others have elements.
  void words(std::string_view text) {
    constexpr std::string_view kSpaces = " \t\r\n";
    while (!text.empty()) {
      const std::size_t space = text.find_first_of(kSpaces);
      m_writer->text(text.substr(0, space));
      if (space == std::string_view::npos) return;
      if (!m_writer->afterSpace()) m_writer->text(" ");
      text.remove_prefix(std::min(text.find_first_not_of(kSpaces, space), text.size()));
    }
  }

  bool note(const xml_node& node, int depth) {
    if (m_inNote) return true;
    m_notes.emplace_back();
    m_writer->text('[' + std::to_string(m_notes.size()) + ']');
    std::string text;
    PageWriter line(text);
    PageWriter* const page = std::exchange(m_writer, &line);
    const Open list = std::exchange(m_list, {});
    m_inNote = true;
    line.beginCell();  // one line
    const bool all = walk(child(node, "note-body"), depth);
    line.endCell();
    m_inNote = false;
    m_list = list;
    m_writer = page;
    m_notes.back() = text;
    return all;
  }

  const ListStyles& m_styles;
  std::string& m_out;
  PageWriter m_page;
  PageWriter* m_writer = &m_page;  // or of a note
  std::vector<std::string> m_notes;
  Open m_list;
  std::deque<ListCounter> m_counted;
  std::map<std::string, ListCounter*> m_lastOf;  // a style
  std::map<std::string, ListCounter*> m_byId;
  int m_paragraphs = 0;
  bool m_inNote = false;
};

/// Whether the list of parts says that they are encrypted. It is itself never.
Outcome checkManifest(Package& package) {
  const std::string name = "META-INF/manifest.xml";
  if (!package.has(name)) return {};
  std::string bytes;
  if (Outcome got = package.read(name, bytes); !got.ok()) return got;
  pugi::xml_document document;
  if (Outcome got = parse(bytes, name, document); !got.ok()) return got;
  for (const xml_node& entry : document.document_element().children()) {
    if (child(entry, "encryption-data"))
      return {Why::Encrypted, std::string(attribute(entry, "full-path")) + " is encrypted"};
  }
  return {};
}

/// Those that people choose by name, which have a part of their own.
Outcome readNamedStyles(Package& package, ListStyles& styles) {
  const std::string name = "styles.xml";
  if (!package.has(name)) return {};
  std::string bytes;
  if (Outcome got = package.read(name, bytes); !got.ok()) return got;
  pugi::xml_document document;
  if (Outcome got = parse(bytes, name, document); !got.ok()) return got;
  readListStyles(document.document_element(), styles);
  return {};
}

}  // namespace

Outcome odtText(Package& package, std::string& out) {
  std::string kind;
  if (package.has("mimetype")) {
    if (Outcome got = package.read("mimetype", kind); !got.ok()) return got;
    if (!kind.starts_with("application/vnd.oasis.opendocument.text"))
      return {Why::NotSupported,
              "is an office file, but no text document: its kind is " + kind.substr(0, 80)};
  }
  if (Outcome got = checkManifest(package); !got.ok()) return got;
  const std::string name = "content.xml";
  std::string bytes;
  if (Outcome got = package.read(name, bytes); !got.ok()) return got;
  pugi::xml_document document;
  if (Outcome got = parse(bytes, name, document); !got.ok()) return got;
  const xml_node text = child(child(document.document_element(), "body"), "text");
  if (!text)
    return {Why::NotSupported, "is an office file, but no text document: it has no office:text"};
  ListStyles styles;
  if (Outcome got = readNamedStyles(package, styles); !got.ok()) return got;
  readListStyles(document.document_element(), styles);
  Odt odt(styles, out);
  if (!odt.walk(text, 0)) {
    return {Why::Damaged,
            "its elements lie deeper than " + std::to_string(kDeepest) + " in each other"};
  }
  odt.writeNotes();
  return {};
}

Outcome officeText(std::string_view bytes, const Limits& limits, std::string& out) {
  Package package(bytes, limits.unpackedBytes);
  if (!package.opened().ok()) return package.opened();
  if (package.has("[Content_Types].xml")) return docxText(package, out);
  if (package.has("content.xml") || package.has("META-INF/manifest.xml"))
    return odtText(package, out);
  return {Why::NotSupported, "is a zip file, but neither docx nor odt"};
}

}  // namespace runnel::reader
