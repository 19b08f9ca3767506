// SPDX-License-Identifier: Apache-2.0
// What the commands and characters of formulas stand for; of formula.cpp alone.
#pragma once

#include <QHash>
#include <QString>

namespace runnel::chat {

/// How an atom of a formula keeps its distance.
enum class AtomKind { Ordinary, Large, Binary, Relation, Open, Close, Punctuation };
/// How a symbol is set: upright as words are, leaning as variables, larger than its line.
enum class SymbolLook { Upright, Italic, Enlarged };

struct FormulaSymbol {
  QString text;
  AtomKind kind = AtomKind::Ordinary;
  SymbolLook look = SymbolLook::Upright;
  bool limits = false;  // scripts stand above and below in display
};

/// What `\name`, or a character that is no letter or digit, stands for; its text is empty if it is none of these.
inline FormulaSymbol formulaSymbol(const QString& written) {
  enum Written { Pairs, Names, Characters };
  struct Group {
    const char*
        words;  // "name character name character …", names set as they are, pairs of characters
    AtomKind kind;
    SymbolLook look = SymbolLook::Upright;
    bool limits = false;
    Written written = Pairs;
  };
  using enum AtomKind;
  using enum SymbolLook;
  static constexpr Group groups[] = {
      {"alpha α beta β gamma γ delta δ epsilon ϵ varepsilon ε zeta ζ eta η theta θ vartheta ϑ "
       "iota ι kappa κ lambda λ mu μ nu ν xi ξ omicron ο pi π varpi ϖ rho ρ varrho ϱ sigma σ "
       "varsigma ς tau τ upsilon υ phi ϕ varphi φ chi χ psi ψ omega ω",
       Ordinary, Italic},
      {"Gamma Γ Delta Δ Theta Θ Lambda Λ Xi Ξ Pi Π Sigma Σ Upsilon Υ Phi Φ Psi Ψ Omega Ω infty ∞ "
       "partial ∂ nabla ∇ emptyset ∅ varnothing ∅ forall ∀ exists ∃ nexists ∄ neg ¬ lnot ¬ hbar ℏ "
       "ell ℓ Re ℜ Im ℑ wp ℘ aleph ℵ angle ∠ triangle △ square □ Box □ degree ° prime ′ ldots … "
       "dots … cdots ⋯ vdots ⋮ ddots ⋱ top ⊤ bot ⊥ imath ı jmath ȷ % % # # & & $ $ _ _ checkmark "
       "✓ dagger † star ⋆ therefore ∴ because ∵ backslash \\ surd √ | ‖ Vert ‖ vert |",
       Ordinary},
      {"pm ± mp ∓ times × div ÷ cdot ⋅ ast ∗ circ ∘ bullet ∙ oplus ⊕ ominus ⊖ otimes ⊗ odot ⊙ cap "
       "∩ cup ∪ sqcap ⊓ sqcup ⊔ wedge ∧ land ∧ vee ∨ lor ∨ setminus ∖ uplus ⊎ amalg ⨿",
       Binary},
      {"leq ≤ le ≤ geq ≥ ge ≥ neq ≠ ne ≠ equiv ≡ approx ≈ sim ∼ simeq ≃ cong ≅ propto ∝ ll ≪ gg ≫ "
       "in ∈ notin ∉ ni ∋ subset ⊂ supset ⊃ subseteq ⊆ supseteq ⊇ mid ∣ parallel ∥ perp ⊥ to → "
       "rightarrow → leftarrow ← gets ← leftrightarrow ↔ Rightarrow ⇒ Leftarrow ⇐ Leftrightarrow "
       "⇔ iff ⇔ implies ⇒ mapsto ↦ uparrow ↑ downarrow ↓ longrightarrow ⟶ longleftarrow ⟵ "
       "Longrightarrow ⟹ hookrightarrow ↪ rightharpoonup ⇀ models ⊨ vdash ⊢ prec ≺ succ ≻ preceq "
       "⪯ succeq ⪰ doteq ≐ asymp ≍ leqslant ⩽ geqslant ⩾ lesssim ≲ gtrsim ≳ coloneqq ≔ triangleq ≜",
       Relation},
      {"sum ∑ prod ∏ coprod ∐ bigcup ⋃ bigcap ⋂ bigoplus ⨁ bigotimes ⨂ bigvee ⋁ bigwedge ⋀", Large,
       Enlarged, true},
      {"int ∫ iint ∬ iiint ∭ oint ∮", Large, Enlarged},
      {"{ { langle ⟨ lfloor ⌊ lceil ⌈ lbrace { lbrack [ lvert | lVert ‖", Open},
      {"} } rangle ⟩ rfloor ⌋ rceil ⌉ rbrace } rbrack ] rvert | rVert ‖", Close},
      {"colon :", Punctuation},
      {"sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh coth log ln lg exp arg deg "
       "dim hom ker",
       Large, Upright, false, Names},
      {"lim max min sup inf limsup liminf det gcd Pr", Large, Upright, true, Names},
      {"- − * ∗ + +", Binary, Upright, false, Characters},
      {"= = < < > > : : ≤ ≤ ≥ ≥ ≠ ≠ ≈ ≈ ∈ ∈ → → ⇒ ⇒ ⇔ ⇔", Relation, Upright, false, Characters},
      {"( ( [ [", Open, Upright, false, Characters},
      {") ) ] ] ! ! ? ?", Close, Upright, false, Characters},
      {", , ; ;", Punctuation, Upright, false, Characters},
  };
  static const QHash<QString, FormulaSymbol> table = [] {
    QHash<QString, FormulaSymbol> made;
    for (const auto& [words, kind, look, limits, as] : groups) {
      const QStringList list = QString::fromUtf8(words).split(u' ');
      const qsizetype step = as == Names ? 1 : 2;
      for (qsizetype i = 0; i + step <= list.size(); i += step) {
        const QString name = as == Characters ? list.at(i) : u'\\' + list.at(i);
        made.insert(name, {list.at(i + step - 1), kind, look, limits});
      }
    }
    return made;
  }();
  return table.value(written);
}

/// A letter of `\mathbb`, `\mathcal` or `\mathfrak`; empty if the alphabet has none.
inline QString formulaAlphabet(const QString& alphabet, QChar letter) {
  // The place of its A, and letters that had a place before the others got theirs.
  static const QHash<QString, std::pair<char32_t, QString>> alphabets = {
      {QStringLiteral("mathbb"), {0x1D538, QStringLiteral("CℂHℍNℕPℙQℚRℝZℤ")}},
      {QStringLiteral("mathcal"), {0x1D49C, QStringLiteral("BℬEℰFℱHℋIℐLℒMℳRℛeℯgℊoℴ")}},
      {QStringLiteral("mathfrak"), {0x1D504, QStringLiteral("CℭHℌIℑRℜZℨ")}}};
  const auto [first, older] = alphabets.value(alphabet);
  const char32_t c = letter.unicode();
  const qsizetype old = c < 128 ? older.indexOf(letter) : -1;
  if (old >= 0) return older.mid(old + 1, 1);
  const char32_t code = c >= U'A' && c <= U'Z'   ? first + (c - U'A')
                        : c >= U'a' && c <= U'z' ? first + 26 + (c - U'a')
                        : c >= U'0' && c <= U'9' && alphabet == QStringLiteral("mathbb")
                            ? 0x1D7D8 + (c - U'0')
                            : 0;
  return code == 0 ? QString() : QString::fromUcs4(&code, 1);
}

}  // namespace runnel::chat
