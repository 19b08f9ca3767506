// SPDX-License-Identifier: Apache-2.0
// The words of what was said, as they are compared: without case, accents and endings. English and German; words of other
// languages are compared as they are, scripts without spaces by pairs of characters.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace runnel {

/// One word, folded: lower case, no accents. Numbers stay whole ("12.50").
struct ChatWord {
  std::string folded;
  bool capital = false;  // it was written with a capital and does not begin a sentence
};

std::vector<ChatWord> words_of(std::string_view text);

/// Whether a folded word says nothing by itself: articles, pronouns, auxiliaries, question words.
bool is_small_word(std::string_view folded);
/// I, my, we, ours …: who speaks.
bool is_first_person(std::string_view folded);
/// You, your …: who is spoken to.
bool is_second_person(std::string_view folded);
/// Earlier, mentioned, told, document …: a question with it is about what was said.
bool refers_back(std::string_view folded);
/// "Write …", "How do I …", "Kannst du …": something new is asked for, not what was said.
bool asks_for_work(std::span<const ChatWord> question);

/// A folded word without its ending: "names" and "name", "moved" and "moving"; of the commonest irregular English verbs
/// the infinitive's: "bought" and "buy". Short ones and numbers stay.
std::string stem_of(std::string_view folded);

}  // namespace runnel
