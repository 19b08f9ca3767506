// SPDX-License-Identifier: Apache-2.0
// A message's Markdown as blocks: prose, code, tables. While text arrives only the last block
// changes, so a long answer costs no more to show than a short one.
#pragma once

#include <QtQml/qqmlregistration.h>

#include <QAbstractListModel>

namespace runnel::chat {

struct MarkdownBlock {
  enum Kind { Prose, Code, Table, Formula };
  Kind kind = Prose;
  QString text;       // Markdown made safe to show, code as it is, a formula with its delimiters
  QString language;   // of code
  QStringList cells;  // of a table, row by row
  int columns = 0;
  QStringList alignments = {};  // of a table, by column: "left", "center", "right", or empty
  /// Prose only: the formulas in it, with their delimiters, one for each QChar::ObjectReplacementCharacter of its text.
  QStringList formulas = {};
  int quotation = 0;  // of prose: how deep it is quoted
  bool operator==(const MarkdownBlock&) const = default;
};

/// Splits Markdown. HTML and images in prose become plain text: nothing in an answer may load anything.
QVector<MarkdownBlock> splitMarkdown(const QString& text);

/// The inline formula that begins at `at` of `text`: `\(…\)`, `\[…\]`, `$…$` or `$$…$$`. A dollar begins one only
/// before something that is no space, and ends one only after such and not before a digit: "$5 or $6" has none.
/// @return its length with its delimiters; 0: none begins here
qsizetype formulaAt(QStringView text, qsizetype at);
/// Without its delimiters.
QStringView formulaInside(QStringView formula);

class MarkdownBlocks : public QAbstractListModel {
  Q_OBJECT
  QML_ELEMENT
  Q_PROPERTY(QString text READ text WRITE setText NOTIFY textChanged)

 public:
  enum Role {
    KindRole = Qt::UserRole + 1,
    TextRole,
    LanguageRole,
    CellsRole,
    ColumnsRole,
    AlignmentsRole,
    FormulasRole,
    QuotationRole
  };
  Q_ENUM(Role)
  enum Kind {
    Prose = MarkdownBlock::Prose,
    Code = MarkdownBlock::Code,
    Table = MarkdownBlock::Table,
    Formula = MarkdownBlock::Formula
  };
  Q_ENUM(Kind)

  using QAbstractListModel::QAbstractListModel;

  int rowCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QHash<int, QByteArray> roleNames() const override;

  QString text() const { return m_text; }
  void setText(const QString& text);

 Q_SIGNALS:
  void textChanged();

 private:
  QString m_text;
  QVector<MarkdownBlock> m_blocks;
};

}  // namespace runnel::chat
