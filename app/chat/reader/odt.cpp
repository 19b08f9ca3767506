// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "app/chat/reader/package.h"
#include "app/chat/reader/page_writer.h"
#include "app/chat/reader/word_text.h"
#include "app/chat/reader/xml.h"

namespace runnel::reader {
namespace {

using pugi::xml_node;

class Odt {
 public:
  explicit Odt(std::string& out) : m_out(out), m_page(out) {}

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
    if (name == "list") {
      ++m_lists;
      const bool all = walk(node, depth);
      --m_lists;
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

  bool paragraph(const xml_node& node, int depth, int heading) {
    const int item = heading == 0 ? m_lists : 0;
    m_writer->beginParagraph(heading, item);
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
    const int lists = std::exchange(m_lists, 0);
    m_inNote = true;
    line.beginCell();  // one line
    const bool all = walk(child(node, "note-body"), depth);
    line.endCell();
    m_inNote = false;
    m_lists = lists;
    m_writer = page;
    m_notes.back() = text;
    return all;
  }

  std::string& m_out;
  PageWriter m_page;
  PageWriter* m_writer = &m_page;  // or of a note
  std::vector<std::string> m_notes;
  int m_lists = 0;  // that are open
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
  Odt odt(out);
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
