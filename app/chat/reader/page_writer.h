// SPDX-License-Identifier: Apache-2.0
// Paragraphs, items, rows and notes as plain text.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace runnel::reader {

/// A table lies in a cell, a text box in a paragraph: what is inside of a cell is one line of it.
class PageWriter {
 public:
  explicit PageWriter(std::string& out) : m_out(out) {}

  /// `mark` stands before an item, which is `item` levels deep; empty: the item goes on with another paragraph.
  void beginParagraph(int heading, int item, std::string_view mark = {}) {
    if (m_cells.empty()) {
      endLine();
      if (item == 0 && m_listed) m_out += '\n';
      m_listed = item > 0;
      if (heading > 0) m_out.append(static_cast<std::size_t>(std::min(heading, 6)), '#') += ' ';
      if (item > 0) {
        m_out.append(static_cast<std::size_t>(item - (mark.empty() ? 0 : 1)) * 2, ' ') += mark;
        if (!mark.empty()) m_out += ' ';
      }
      m_bare = m_out.size();
    } else if (!m_cells.back().empty() && m_cells.back().back() != ' ') {
      m_cells.back() += ' ';
    }
  }
  void endParagraph(int item) {
    if (!m_cells.empty()) return;
    if (m_out.size() == m_bare) {  // nothing but its mark
      m_out.resize(m_out.find_last_of('\n') + 1);
    } else {
      m_out += item > 0 ? "\n" : "\n\n";
    }
  }
  void text(std::string_view words) { target() += words; }
  /// Whether a space here would stand at a beginning or after another one.
  bool afterSpace() {
    const std::string& words = target();
    return words.empty() || words.back() == ' ' || words.back() == '\n';
  }
  void lineBreak() { text(m_cells.empty() ? "\n" : " "); }
  void tab() { text(m_cells.empty() ? "\t" : " "); }

  void beginRow() {
    if (m_cells.empty()) {
      endLine();
      if (std::exchange(m_listed, false)) m_out += '\n';
    }
    m_rows.push_back(m_done.size());
  }
  void beginCell() { m_cells.emplace_back(); }
  void endCell() {
    std::string words = std::move(m_cells.back());
    m_cells.pop_back();
    if (m_rows.empty()) {
      text(words);  // of no row
    } else {
      m_done.push_back(std::move(words));
    }
  }
  void endRow() {
    const std::size_t first = m_rows.back();
    m_rows.pop_back();
    std::string line = "|";
    bool said = false;
    for (std::size_t i = first; i < m_done.size(); ++i) {
      said = said || m_done[i].find_first_not_of(' ') != std::string::npos;
      line += ' ' + m_done[i] + " |";
    }
    m_done.resize(first);
    if (!said) return;
    text(line);
    if (m_cells.empty()) m_out += '\n';
  }
  void endTable() {
    if (m_cells.empty()) m_out += '\n';
  }

 private:
  std::string& target() { return m_cells.empty() ? m_out : m_cells.back(); }
  void endLine() {
    if (!m_out.empty() && m_out.back() != '\n') m_out += '\n';
  }

  std::string& m_out;
  std::size_t m_bare = 0;            // the end of the output before the words of a paragraph
  bool m_listed = false;             // the paragraph before was an item
  std::vector<std::string> m_cells;  // that are open, the inmost last
  std::vector<std::string> m_done;   // ended ones of the rows that are open
  std::vector<std::size_t> m_rows;   // that are open: how many cells were done before
};

}  // namespace runnel::reader
