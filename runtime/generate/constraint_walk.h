// SPDX-License-Identifier: Apache-2.0
// A generation's way through its constraint: which tokens may come next, and which must.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runnel/chat.h"
#include "runnel/constraint.h"
#include "runnel/result.h"
#include "runtime/constraint/grammar_engine.h"
#include "runtime/generate/thought_splitter.h"
#include "runtime/io/snapshot_data.h"
#include "runtime/sampling/dry.h"
#include "runtime/sampling/token_mask.h"

namespace runnel {

/// One thread at a time. A mask is computed once for each place.
class ConstraintWalk {
 public:
  /// @param form    with `thinks` a thought before the text is free, but for its end
  /// @param piece   texts of tokens
  /// @param taken   bytes that an earlier generation has come by
  /// @return mismatch if `taken` does not fit the constraint
  static Result<ConstraintWalk> begin(std::shared_ptr<const Constraint> constraint,
                                      const AnswerForm& form, const PieceOf& piece,
                                      std::string_view taken);

  /// The tokens that may come next. Empty: the text is whole, and nothing can follow.
  /// @return internal if no token of the vocabulary can go on with it
  Result<const TokenMask*> mask();

  /// The token was taken.
  void took(TokenId token, std::string_view piece);

  /// How far it has come, for the next generation; none if the text is over.
  std::optional<ConstraintState> state() const;

 private:
  explicit ConstraintWalk(std::shared_ptr<const Constraint> constraint, bool thinks);

  void look_at_tokens(const PieceOf& piece);
  Status mask_before_answer();
  void mask_thought();

  std::shared_ptr<const Constraint> constraint_;
  std::unique_ptr<GrammarMatcher> matcher_;
  std::string taken_;
  bool over_ = false, lost_ = false;
  TokenMask mask_;
  bool masked_ = false;  // mask_ is of this place

  // For a text that may have a thought before it.
  ThoughtSplitter splitter_;
  bool lead_ = false;             // white space comes before an answer
  bool may_open_ = false;         // the text itself begins otherwise than a thought
  std::size_t spaces_ = 0;        // tokens of white space before the answer
  TokenMask free_;                // tokens of a thought
  std::vector<TokenId> blank_;    // tokens of white space
  std::vector<TokenId> leading_;  // tokens that begin with white space and go on
  std::vector<std::pair<TokenId, std::string>> closing_;  // tokens that have more behind a ">"
  std::vector<std::pair<TokenId, std::string>> opening_;  // tokens that may belong to <think>
};

}  // namespace runnel
