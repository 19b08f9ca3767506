// SPDX-License-Identifier: Apache-2.0
#include <cctype>
#include <map>
#include <string>

#include "app/chat/reader/package.h"
#include "app/chat/reader/page_writer.h"
#include "app/chat/reader/word_text.h"
#include "app/chat/reader/xml.h"

namespace runnel::reader {
namespace {

using pugi::xml_node;

constexpr int kMostLevels = 9;  // of lists, and of headings

struct Style {
  int heading = 0;
  bool listed = false;
  std::string base;
};

class Docx {
 public:
  Docx(Package& package, std::string& out) : m_package(package), m_out(out), m_page(out) {}

  Outcome read() {
    Part main;
    if (Outcome got = open(mainPart(), main); !got.ok()) return got;
    const xml_node root = main.document.document_element();
    if (localName(root) != "document") {
      return {Why::NotSupported, "is an office file, but no text document: its main part is a " +
                                     std::string(localName(root))};
    }
    if (Outcome got = readStyles(); !got.ok()) return got;
    if (!walk(root, 0)) return tooDeep();
    return writeNotes();
  }

 private:
  struct Part {
    std::string bytes;  // which the document points into
    pugi::xml_document document;
  };

  static Outcome tooDeep() {
    return {Why::Damaged,
            "its elements lie deeper than " + std::to_string(kDeepest) + " in each other"};
  }

  Outcome open(const std::string& name, Part& part) {
    if (Outcome got = m_package.read(name, part.bytes); !got.ok()) {
      return got.why == Why::NoText ? Outcome{Why::Damaged, "is no Word document: it " + got.reason}
                                    : got;
    }
    return parse(part.bytes, name, part.document);
  }

  std::string mainPart() {
    Part relations;
    if (!m_package.has("_rels/.rels") || !open("_rels/.rels", relations).ok())
      return m_folder + "document.xml";
    for (const xml_node& relation : relations.document.document_element().children()) {
      if (!attribute(relation, "Type").ends_with("/officeDocument")) continue;
      std::string target(attribute(relation, "Target"));
      target.erase(0, target.find_first_not_of('/'));
      m_folder = target.substr(0, target.rfind('/') + 1);
      return target;
    }
    return m_folder + "document.xml";
  }

  Outcome readStyles() {
    const std::string name = m_folder + "styles.xml";
    if (!m_package.has(name)) return {};
    Part styles;
    if (Outcome got = open(name, styles); !got.ok()) return got;
    for (const xml_node& node : styles.document.document_element().children()) {
      if (localName(node) != "style") continue;
      Style style;
      style.base = attribute(child(node, "basedOn"), "val");
      // The name is English in every language, the id need not be.
      std::string title(attribute(child(node, "name"), "val"));
      for (char& c : title) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      const xml_node looks = child(node, "pPr");
      if (title.starts_with("heading ")) style.heading = number(title.substr(8), 0, kMostLevels);
      if (title == "title") style.heading = 1;
      if (style.heading == 0) style.heading = outline(looks);
      style.listed = child(looks, "numPr");
      m_styles.emplace(attribute(node, "styleId"), style);
    }
    return {};
  }

  static int outline(const xml_node& looks) {
    const int level =
        number(attribute(child(looks, "outlineLvl"), "val"), kMostLevels, kMostLevels);
    return level < kMostLevels ? level + 1 : 0;  // 9 is the text itself
  }

  Style styleOf(const xml_node& looks) const {
    Style found;
    std::string id(attribute(child(looks, "pStyle"), "val"));
    constexpr int kMostBases = 10;
    for (int i = 0; i < kMostBases && !id.empty(); ++i) {
      const auto at = m_styles.find(id);
      if (at == m_styles.end()) break;
      if (found.heading == 0) found.heading = at->second.heading;
      found.listed = found.listed || at->second.listed;
      id = at->second.base;
    }
    if (found.heading == 0) found.heading = outline(looks);
    return found;
  }

  /// False: too deep.
  bool walk(const xml_node& node, int depth) {
    if (depth > kDeepest) return false;
    for (const xml_node& inner : node.children()) {
      if (!enter(inner, depth + 1)) return false;
    }
    return true;
  }

  bool enter(const xml_node& node, int depth) {
    const std::string_view name = localName(node);
    if (name == "p") return paragraph(node, depth);
    if (name == "t") {
      for (const xml_node& words : node.children()) m_writer->text(words.value());
      return true;
    }
    if (name == "tab") return m_writer->tab(), true;
    if (name == "br" || name == "cr") return m_writer->lineBreak(), true;
    if (name == "noBreakHyphen") return m_writer->text("-"), true;
    if (name == "footnoteReference" || name == "endnoteReference") return note(node, name), true;
    if (name == "tbl") {
      const bool all = walk(node, depth);
      m_writer->endTable();
      return all;
    }
    if (name == "tr") {
      m_writer->beginRow();
      const bool all = walk(node, depth);
      m_writer->endRow();
      return all;
    }
    if (name == "tc") {
      m_writer->beginCell();
      const bool all = walk(node, depth);
      m_writer->endCell();
      return all;
    }
    if (name == "AlternateContent") {  // the same thing twice, for new and old programs
      const xml_node choice = child(node, "Choice");
      return walk(choice ? choice : child(node, "Fallback"), depth);
    }
    // How it looks, and what was deleted.
    for (const std::string_view left : {"pPr", "rPr", "tblPr", "trPr", "tcPr", "sectPr", "sdtPr",
                                        "del", "moveFrom", "instrText"}) {
      if (name == left) return true;
    }
    return walk(node, depth);
  }

  bool paragraph(const xml_node& node, int depth) {
    const xml_node looks = child(node, "pPr");
    const Style style = styleOf(looks);
    const xml_node list = child(looks, "numPr");
    const bool none = attribute(child(list, "numId"), "val") == "0";
    int item = 0;
    if (style.heading == 0 && !none && (list || style.listed))
      item = number(attribute(child(list, "ilvl"), "val"), 0, kMostLevels - 1) + 1;
    m_writer->beginParagraph(style.heading, item);
    const bool all = walk(node, depth);
    m_writer->endParagraph(item);
    return all;
  }

  void note(const xml_node& reference, std::string_view kind) {
    if (m_inNotes) return;
    std::string key(kind.substr(0, kind.find("Reference")));
    (key += ' ') += attribute(reference, "id");
    const auto [at, fresh] = m_notes.emplace(key, static_cast<int>(m_notes.size()) + 1);
    m_writer->text('[' + std::to_string(at->second) + ']');
  }

  Outcome writeNotes() {
    m_inNotes = true;
    std::map<int, std::string> texts;
    for (const std::string kind : {"footnote", "endnote"}) {
      const std::string name = m_folder + kind + "s.xml";
      if (m_notes.empty() || !m_package.has(name)) continue;
      Part part;
      if (Outcome got = open(name, part); !got.ok()) return got;
      for (const xml_node& node : part.document.document_element().children()) {
        const auto at = m_notes.find(kind + ' ' + std::string(attribute(node, "id")));
        if (localName(node) != kind || at == m_notes.end()) continue;
        std::string words;
        PageWriter line(words);
        m_writer = &line;
        m_writer->beginCell();  // one line
        if (!walk(node, 0)) return tooDeep();
        m_writer->endCell();
        texts[at->second] = words;
      }
    }
    for (const auto& [place, words] : texts)
      m_out += '[' + std::to_string(place) + "] " + words + '\n';
    return {};
  }

  Package& m_package;
  std::string& m_out;
  PageWriter m_page;
  PageWriter* m_writer = &m_page;  // or of a note
  std::string m_folder = "word/";
  std::map<std::string, Style> m_styles;
  std::map<std::string, int> m_notes;  // by kind and id
  bool m_inNotes = false;
};

}  // namespace

Outcome docxText(Package& package, std::string& out) { return Docx(package, out).read(); }

}  // namespace runnel::reader
