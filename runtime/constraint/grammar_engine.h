// SPDX-License-Identifier: Apache-2.0
// The seam to what compiles constraints and follows a text through them. The core knows no grammar: a program that links
// librunnel_grammar (runtime/grammar/) has one, another one has not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runnel/constraint.h"
#include "runnel/export.h"
#include "runnel/result.h"
#include "runnel/types.h"

namespace runnel {

/// The tokens of a model as bytes.
struct GrammarVocabulary {
  // [vocab]; empty: a special token or padding, which is never allowed
  std::vector<std::string> pieces;
  std::vector<TokenId> ends;  // end of text, end of message: allowed where a text is whole
};

/// A text on its way through a grammar. One thread at a time.
class GrammarMatcher {
 public:
  virtual ~GrammarMatcher() = default;

  /// The tokens that may come next: bits of `words` [(vocab + 31) / 32], as TokenMask has them. Bits past the vocabulary
  /// are undefined.
  virtual Status mask(std::span<std::uint32_t> words) = 0;

  /// Goes on by a token; false, with nothing changed, if it may not come.
  virtual bool accept(TokenId token) = 0;

  /// Goes on by bytes, which may end inside a character; the same.
  virtual bool accept_bytes(std::string_view bytes) = 0;

  /// Whether the text may end here.
  virtual bool complete() const = 0;

  virtual Result<std::unique_ptr<GrammarMatcher>> clone() const = 0;
};

/// Immutable; any number of threads.
class CompiledGrammar {
 public:
  virtual ~CompiledGrammar() = default;
  virtual Result<std::unique_ptr<GrammarMatcher>> begin() const = 0;
  virtual std::size_t bytes() const = 0;
};

/// For one vocabulary. Any number of threads.
class GrammarCompiler {
 public:
  virtual ~GrammarCompiler() = default;
  /// @param source  its sizes were checked
  /// @return invalid_argument or out_of_memory, as Constraint::compile() has it
  virtual Result<std::shared_ptr<const CompiledGrammar>> compile(
      const ConstraintSource& source) const = 0;
};

class GrammarEngine {
 public:
  virtual ~GrammarEngine() = default;
  virtual Result<std::shared_ptr<const GrammarCompiler>> compiler(
      const GrammarVocabulary& vocabulary) const = 0;
};

}  // namespace runnel

/// librunnel_grammar has it; null in a program that does not link that.
extern "C" RUNNEL_API __attribute__((weak)) const runnel::GrammarEngine* runnel_grammar_engine();
