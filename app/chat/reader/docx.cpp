// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cctype>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "app/chat/reader/list_numbers.h"
#include "app/chat/reader/package.h"
#include "app/chat/reader/page_writer.h"
#include "app/chat/reader/word_text.h"
#include "app/chat/reader/xml.h"

namespace runnel::reader {
namespace {

using pugi::xml_node;

constexpr int kMostLevels = static_cast<int>(kListLevels);  // headings have as many

struct Style {
  int heading = 0;
  bool listed = false;
  std::string list;  // its number
  int level = 0;     // in the list, from 0
  std::string base;
};

/// A list of the document. Several may look like one and are then counted on.
struct List {
  std::string looks;                                   // whose number
  std::array<std::optional<int>, kMostLevels> starts;  // of its first item of a level
};

/// How lists look.
struct Looks {
  ListLevels levels;
  std::string style;  // that stands for them, by its list
  ListCounter counter;
};

ListLevel::Numeral numeralOf(std::string_view format) {
  using Numeral = ListLevel::Numeral;
  if (format == "bullet" || format == "none") return Numeral::None;
  if (format == "lowerLetter") return Numeral::SmallLetter;
  if (format == "upperLetter") return Numeral::CapitalLetter;
  if (format == "lowerRoman") return Numeral::SmallRoman;
  if (format == "upperRoman") return Numeral::CapitalRoman;
  return Numeral::Decimal;
}

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
    if (Outcome got = readLists(); !got.ok()) return got;
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
      const xml_node list = child(looks, "numPr");
      style.listed = list;
      style.list = attribute(child(list, "numId"), "val");
      style.level = levelOf(list, 0);
      m_styles.emplace(attribute(node, "styleId"), style);
    }
    return {};
  }

  static int levelOf(const xml_node& list, int otherwise) {
    return number(attribute(child(list, "ilvl"), "val"), otherwise, kMostLevels - 1);
  }

  Outcome readLists() {
    const std::string name = m_folder + "numbering.xml";
    if (!m_package.has(name)) return {};
    Part part;
    if (Outcome got = open(name, part); !got.ok()) return got;
    for (const xml_node& node : part.document.document_element().children()) {
      if (localName(node) == "abstractNum") {
        Looks& looks = m_looks[std::string(attribute(node, "abstractNumId"))];
        looks.style = attribute(child(node, "numStyleLink"), "val");
        for (const xml_node& level : node.children()) {
          if (localName(level) == "lvl") readLevel(level, looks.levels);
        }
      } else if (localName(node) == "num") {
        List& list = m_lists[std::string(attribute(node, "numId"))];
        list.looks = attribute(child(node, "abstractNumId"), "val");
        for (const xml_node& own : node.children()) {
          const xml_node start = child(own, "startOverride");
          if (localName(own) != "lvlOverride" || !start) continue;
          const int at = number(attribute(own, "ilvl"), 0, kMostLevels - 1);
          list.starts[static_cast<std::size_t>(at)] =
              number(attribute(start, "val"), 1, kMostItems);
        }
      }
    }
    return {};
  }

  static void readLevel(const xml_node& node, ListLevels& levels) {
    const int at = number(attribute(node, "ilvl"), 0, kMostLevels - 1);
    ListLevel& level = levels[static_cast<std::size_t>(at)];
    const std::string_view label = attribute(child(node, "lvlText"), "val");
    level.numeral = numeralOf(attribute(child(node, "numFmt"), "val"));
    level.start = number(attribute(child(node, "start"), "val"), 1, kMostItems);
    constexpr std::size_t kLongest = 60;
    level.label = label.size() > kLongest ? '%' + std::to_string(at + 1) + '.' : std::string(label);
  }

  /// Counts an item. @return what stands before it
  std::string mark(const std::string& id, int level) {
    auto list = m_lists.find(id);
    if (list == m_lists.end()) return "-";
    auto looks = m_looks.find(list->second.looks);
    if (looks != m_looks.end() && !looks->second.style.empty()) {
      const auto style = m_styles.find(looks->second.style);
      const auto other = style == m_styles.end() ? m_lists.end() : m_lists.find(style->second.list);
      if (other != m_lists.end()) looks = m_looks.find(other->second.looks);
    }
    if (looks == m_looks.end()) return "-";
    const auto at = static_cast<std::size_t>(level);
    if (const auto start = std::exchange(list->second.starts[at], std::nullopt))
      looks->second.counter.restart(at, *start);
    return looks->second.counter.next(looks->second.levels, at);
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
      if (!found.listed) found.level = at->second.level;
      if (found.list.empty()) found.list = at->second.list;
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
    std::string id(attribute(child(list, "numId"), "val"));
    if (id.empty()) id = style.list;
    int item = 0;
    std::string before;
    if (id != "0" && (list || style.listed)) {
      item = levelOf(list, style.level) + 1;
      before = mark(id, item - 1);
    }
    if (style.heading > 0) item = 0;  // it was counted, but its marks are those of a heading
    m_writer->beginParagraph(style.heading, item, before);
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
  std::map<std::string, List> m_lists;
  std::map<std::string, Looks> m_looks;  // of lists
  std::map<std::string, int> m_notes;    // by kind and id
  bool m_inNotes = false;
};

}  // namespace

Outcome docxText(Package& package, std::string& out) { return Docx(package, out).read(); }

}  // namespace runnel::reader
