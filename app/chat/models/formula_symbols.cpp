// SPDX-License-Identifier: Apache-2.0
#include "app/chat/models/formula_symbols.h"

#include <QHash>
#include <QSet>

namespace runnel::chat {
namespace {

using Table = QHash<QString, FormulaSymbol>;

// "name character name character …"
void fill(Table& table, const char* words, AtomKind kind, bool italic = false,
          bool limits = false) {
  const QStringList list = QString::fromUtf8(words).split(u' ', Qt::SkipEmptyParts);
  for (qsizetype i = 0; i + 1 < list.size(); i += 2)
    table.insert(list.at(i), {list.at(i + 1), kind, italic, limits});
}

Table makeTable() {
  Table t;
  fill(t,
       "alpha α beta β gamma γ delta δ epsilon ϵ varepsilon ε zeta ζ eta η theta θ vartheta ϑ "
       "iota ι kappa κ lambda λ mu μ nu ν xi ξ omicron ο pi π varpi ϖ rho ρ varrho ϱ sigma σ "
       "varsigma ς tau τ upsilon υ phi ϕ varphi φ chi χ psi ψ omega ω",
       AtomKind::Ordinary, true);
  fill(t,
       "Gamma Γ Delta Δ Theta Θ Lambda Λ Xi Ξ Pi Π Sigma Σ Upsilon Υ Phi Φ Psi Ψ Omega Ω "
       "infty ∞ partial ∂ nabla ∇ emptyset ∅ varnothing ∅ forall ∀ exists ∃ nexists ∄ neg ¬ "
       "lnot ¬ hbar ℏ ell ℓ Re ℜ Im ℑ wp ℘ aleph ℵ angle ∠ triangle △ square □ Box □ degree ° "
       "prime ′ ldots … dots … cdots ⋯ vdots ⋮ ddots ⋱ top ⊤ bot ⊥ imath ı jmath ȷ % % # # & & "
       "$ $ _ _ checkmark ✓ dagger † star ⋆ therefore ∴ because ∵ backslash \\ surd √",
       AtomKind::Ordinary);
  fill(t,
       "pm ± mp ∓ times × div ÷ cdot ⋅ ast ∗ circ ∘ bullet ∙ oplus ⊕ ominus ⊖ otimes ⊗ odot ⊙ "
       "cap ∩ cup ∪ sqcap ⊓ sqcup ⊔ wedge ∧ land ∧ vee ∨ lor ∨ setminus ∖ uplus ⊎ amalg ⨿",
       AtomKind::Binary);
  fill(t,
       "leq ≤ le ≤ geq ≥ ge ≥ neq ≠ ne ≠ equiv ≡ approx ≈ sim ∼ simeq ≃ cong ≅ propto ∝ ll ≪ gg ≫ "
       "in ∈ notin ∉ ni ∋ subset ⊂ supset ⊃ subseteq ⊆ supseteq ⊇ mid ∣ parallel ∥ perp ⊥ "
       "to → rightarrow → leftarrow ← gets ← leftrightarrow ↔ Rightarrow ⇒ Leftarrow ⇐ "
       "Leftrightarrow ⇔ iff ⇔ implies ⇒ mapsto ↦ uparrow ↑ downarrow ↓ longrightarrow ⟶ "
       "longleftarrow ⟵ Longrightarrow ⟹ hookrightarrow ↪ rightharpoonup ⇀ models ⊨ vdash ⊢ "
       "prec ≺ succ ≻ preceq ⪯ succeq ⪰ doteq ≐ asymp ≍ leqslant ⩽ geqslant ⩾ lesssim ≲ "
       "gtrsim ≳ coloneqq ≔ triangleq ≜",
       AtomKind::Relation);
  fill(t, "sum ∑ prod ∏ coprod ∐ bigcup ⋃ bigcap ⋂ bigoplus ⨁ bigotimes ⨂ bigvee ⋁ bigwedge ⋀",
       AtomKind::Large, false, true);
  fill(t, "int ∫ iint ∬ iiint ∭ oint ∮", AtomKind::Large);
  fill(t, "{ { langle ⟨ lfloor ⌊ lceil ⌈ lbrace { lbrack [ lvert | lVert ‖", AtomKind::Open);
  fill(t, "} } rangle ⟩ rfloor ⌋ rceil ⌉ rbrace } rbrack ] rvert | rVert ‖", AtomKind::Close);
  fill(t, "| ‖ Vert ‖ vert |", AtomKind::Ordinary);
  fill(t, "colon :", AtomKind::Punctuation);
  return t;
}

}  // namespace

FormulaSymbol formulaSymbol(const QString& name) {
  static const Table table = makeTable();
  return table.value(name);
}

bool isFormulaFunction(const QString& name, bool* limits) {
  static const QString words = QStringLiteral(
      " sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh coth log ln lg exp arg deg dim "
      "hom ker ");
  static const QString withLimits =
      QStringLiteral(" lim max min sup inf limsup liminf det gcd Pr ");
  const QString word = u' ' + name + u' ';
  *limits = withLimits.contains(word);
  return *limits || words.contains(word);
}

QString formulaAlphabet(const QString& alphabet, QChar letter) {
  const bool upper = letter >= u'A' && letter <= u'Z';
  const bool lower = letter >= u'a' && letter <= u'z';
  const bool digit = letter >= u'0' && letter <= u'9';
  if (!upper && !lower && !digit) return {};
  // Letters that had a place before the others got theirs.
  static const QHash<QString, QString> older = {
      {QStringLiteral("mathbb"), QStringLiteral("CℂHℍNℕPℙQℚRℝZℤ")},
      {QStringLiteral("mathcal"), QStringLiteral("BℬEℰFℱHℋIℐLℒMℳRℛeℯgℊoℴ")},
      {QStringLiteral("mathfrak"), QStringLiteral("CℭHℌIℑRℜZℨ")}};
  const QString old = older.value(alphabet);
  const qsizetype at = old.indexOf(letter);
  if (at >= 0) return old.mid(at + 1, 1);
  if (digit && alphabet != QStringLiteral("mathbb")) return {};
  const char32_t first = alphabet == QStringLiteral("mathbb")    ? 0x1D538
                         : alphabet == QStringLiteral("mathcal") ? 0x1D49C
                                                                 : 0x1D504;
  const char32_t code = digit   ? 0x1D7D8 + static_cast<char32_t>(letter.unicode() - u'0')
                        : upper ? first + static_cast<char32_t>(letter.unicode() - u'A')
                                : first + 26 + static_cast<char32_t>(letter.unicode() - u'a');
  return QString::fromUcs4(&code, 1);
}

}  // namespace runnel::chat
