// SPDX-License-Identifier: Apache-2.0
// What the commands of formulas stand for.
#pragma once

#include <QString>

namespace runnel::chat {

/// How an atom of a formula keeps its distance.
enum class AtomKind { Ordinary, Large, Binary, Relation, Open, Close, Punctuation };

struct FormulaSymbol {
  QString text;
  AtomKind kind = AtomKind::Ordinary;
  bool italic = false;
  bool limits = false;  // of a large operator: above and below in display
};

/// The symbol that `\name` stands for; its text is empty if it is none.
FormulaSymbol formulaSymbol(const QString& name);
/// "sin", "lim": the names that are set upright.
bool isFormulaFunction(const QString& name, bool* limits);
/// A letter of `\mathbb`, `\mathcal` or `\mathfrak`; empty if the alphabet has none.
QString formulaAlphabet(const QString& alphabet, QChar letter);

}  // namespace runnel::chat
