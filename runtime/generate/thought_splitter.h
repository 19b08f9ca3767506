// SPDX-License-Identifier: Apache-2.0
// Tells the thought at the beginning of an answer, <think> … </think>, from the answer.
#pragma once

#include <string>
#include <string_view>

namespace runnel {

/// Takes the text of an answer in pieces. What it gives does not depend on where they are cut.
class ThoughtSplitter {
 public:
  /// @param thinks  false: all of the text is answer, as it comes.
  explicit ThoughtSplitter(bool thinks) : part_(thinks ? Part::start : Part::all) {}

  /// The text goes on from this one, AnswerForm::opening: "<think>", or "<think> … </think>". The ">" that its last tag
  /// may lack may come or not.
  void open(std::string_view opening);

  /// Text that is now known to be one or the other. White space before and after a thought and before the answer is
  /// left out.
  struct Text {
    std::string thought;
    std::string answer;
  };
  Text push(std::string_view piece);

  /// The text ended: what was held back.
  Text finish();

  /// Whether there was a thought, be it empty.
  bool has_thought() const { return has_thought_; }

  /// Where the text has come to: before anything, in the thought, behind it, in the answer.
  enum class Place { start, thought, gap, answer };
  Place place() const { return part_ == Part::all ? Place::answer : static_cast<Place>(part_); }
  /// What is not known yet to be one or the other: the beginning of a tag, and white space before one that ends.
  std::string_view held() const { return held_; }
  /// The last tag of open() lacks its ">".
  bool tag_is_open() const { return tag_open_; }

 private:
  enum class Part { start, thought, gap, answer, all };

  void take_thought(Text& out);

  Part part_;
  std::string held_;  // not known yet
  bool has_thought_ = false;
  bool thought_begun_ = false;  // some of it was given
  bool tag_open_ = false;       // a ">" at the beginning ends it
};

}  // namespace runnel
