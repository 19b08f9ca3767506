// SPDX-License-Identifier: Apache-2.0
// What the commands and characters of formulas stand for; of formula.cpp alone.
#pragma once

#include <QHash>
#include <QString>
#include <string_view>

namespace runnel::chat {

/// What an atom of a formula is, and so how it keeps its distance; spaces and accents only say what to make.
enum class AtomKind { Ordinary, Large, Binary, Relation, Open, Close, Punctuation, Space, Accent };
/// How a symbol is set: upright as words are, leaning as variables, larger than its line.
enum class SymbolLook { Upright, Italic, Enlarged };

struct FormulaSymbol {
  QString text;  // of a space: its width in ems
  AtomKind kind = AtomKind::Ordinary;
  SymbolLook look = SymbolLook::Upright;
  bool limits = false;  // scripts stand above and below in display
};

/// What `\name`, or a character that is no letter or digit, stands for; its text is empty if it is none of these.
inline FormulaSymbol formulaSymbol(const QString& written) {
  // "name text name text …", names set as they are, pairs of a character and a text
  enum Written { Pairs, Names, Characters };
  struct Group {
    const char* words;
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
      {", 0.17 : 0.22 ; 0.28 ! -0.17 quad 1 qquad 2", Space},
      {"hat ˆ widehat ˆ tilde ˜ widetilde ˜ dot ˙ ddot ¨ vec → bar ¯", Accent},
      {"- − * ∗ + +", Binary, Upright, false, Characters},
      {"= = < < > > : : ≤ ≤ ≥ ≥ ≠ ≠ ≈ ≈ ∈ ∈ → → ⇒ ⇒ ⇔ ⇔", Relation, Upright, false, Characters},
      {"( ( [ [", Open, Upright, false, Characters},
      {") ) ] ] ! ! ? ?", Close, Upright, false, Characters},
      {", , ; ;", Punctuation, Upright, false, Characters},
      {"~ 0.28", Space, Upright, false, Characters},
  };
  static const QHash<QString, FormulaSymbol> table = [] {
    QHash<QString, FormulaSymbol> made = {{QStringLiteral("\\ "), {QStringLiteral("0.28"), Space}}};
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
  static const QString plain =
      QStringLiteral("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789");
  static const QHash<QString, std::u32string_view> alphabets = {
      {QStringLiteral("mathbb"), U"𝔸𝔹ℂ𝔻𝔼𝔽𝔾ℍ𝕀𝕁𝕂𝕃𝕄ℕ𝕆ℙℚℝ𝕊𝕋𝕌𝕍𝕎𝕏𝕐ℤ𝕒𝕓𝕔𝕕𝕖𝕗𝕘𝕙𝕚𝕛𝕜𝕝𝕞𝕟𝕠𝕡𝕢𝕣𝕤𝕥𝕦𝕧𝕨𝕩𝕪𝕫𝟘𝟙𝟚𝟛𝟜𝟝𝟞𝟟𝟠𝟡"},
      {QStringLiteral("mathcal"), U"𝒜ℬ𝒞𝒟ℰℱ𝒢ℋℐ𝒥𝒦ℒℳ𝒩𝒪𝒫𝒬ℛ𝒮𝒯𝒰𝒱𝒲𝒳𝒴𝒵𝒶𝒷𝒸𝒹ℯ𝒻ℊ𝒽𝒾𝒿𝓀𝓁𝓂𝓃ℴ𝓅𝓆𝓇𝓈𝓉𝓊𝓋𝓌𝓍𝓎𝓏"},
      {QStringLiteral("mathfrak"), U"𝔄𝔅ℭ𝔇𝔈𝔉𝔊ℌℑ𝔍𝔎𝔏𝔐𝔑𝔒𝔓𝔔ℜ𝔖𝔗𝔘𝔙𝔚𝔛𝔜ℨ𝔞𝔟𝔠𝔡𝔢𝔣𝔤𝔥𝔦𝔧𝔨𝔩𝔪𝔫𝔬𝔭𝔮𝔯𝔰𝔱𝔲𝔳𝔴𝔵𝔶𝔷"}};
  const std::u32string_view letters = alphabets.value(alphabet);
  const qsizetype at = plain.indexOf(letter);
  return at < 0 || at >= std::ssize(letters) ? QString() : QString::fromUcs4(&letters[at], 1);
}

}  // namespace runnel::chat
