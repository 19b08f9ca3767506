// SPDX-License-Identifier: Apache-2.0
// GBNF as users of llama.cpp know it: each part of its notation, and what is not understood is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/constraint/byte_model.h"

namespace runnel::test {
namespace {

using ::testing::HasSubstr;

struct Case {
  const char* name;
  std::string text;
  std::vector<std::string> fit, none;
};

class Gbnf : public ByteModelTest, public ::testing::WithParamInterface<Case> {};

TEST_P(Gbnf, TakesWhatItDescribesAlone) {
  const Case& one = GetParam();
  const auto grammar = Constraint::gbnf(*model_, one.text);
  ASSERT_TRUE(grammar) << grammar.error().message;
  for (const std::string& text : one.fit) EXPECT_TRUE((*grammar)->accepts(text)) << text;
  for (const std::string& text : one.none) EXPECT_FALSE((*grammar)->accepts(text)) << text;
}

INSTANTIATE_TEST_SUITE_P(
    , Gbnf,
    ::testing::Values(
        Case{"names",
             "root ::= camelCase UPPER-CASE rule_1 dashed-name\ncamelCase ::= \"a\"\n"
             "UPPER-CASE ::= \"b\"\nrule_1 ::= \"c\"\ndashed-name ::= \"d\"\n",
             {"abcd"},
             {"", "abc", "abcde"}},
        Case{"rules_in_any_order", "b ::= \"x\"\nroot ::= b b\n", {"xx"}, {"x"}},
        Case{"counts",
             "root ::= \"a\"{2} \"b\"{1,} \"c\"{1,3} \"d\"{0,2} \"e\"? \"f\"* \"g\"+",
             {"aabcg", "aabbbbcccddefffgg"},
             {"abcg", "aacg", "aabccccg", "aabcdddg", "aabceeg", "aabc"}},
        Case{"counted_groups",
             "root ::= (\"a\" | \"bc\"){2,3}",
             {"abc", "bcbcbc", "aaa"},
             {"a", "aaaa"}},
        Case{"alternatives_on_lines_of_their_own",
             "root ::= \"a\" |\n  \"b\" | # a remark\n  other\nother ::=\n  \"c\"\n",
             {"a", "b", "c"},
             {"", "ab"}},
        Case{"parentheses_over_lines",
             "# first a remark\nroot ::= (\n    # within\n    \"1. \" move \"\\n\"\n\n    ([1-9] "
             "[0-9]? "
             "\". \" move \"\\n\")+\n)\n\nmove ::= ([NBR]? [a-h] [1-8]) [+#]?\n",
             {"1. e4\n2. Nf3+\n", "1. a1\n12. h8#\n"},
             {"1. e4\n", "1. e9\n2. a1\n"}},
        Case{"nothing_as_an_alternative",
             "root ::= \"a\" ws \"b\"\nws ::= | \" \" | \"\\n\" [ \\t]{0,20}\n",
             {"ab", "a b", "a\nb", "a\n \t b"},
             {"a  b"}},
        Case{"nothing_within_parentheses",
             "root ::= \"a\" ( | \"b\") (\"c\" | ) (\"d\" || \"e\") () (\"|\" |)",
             {"a", "abcd|", "ace"},
             {"b", "ade"}},
        Case{"an_empty_text", "root ::= \"a\" (\"\" | \"b\")", {"a", "ab"}, {"b"}},
        Case{"negated_classes", "root ::= [^\\n\"]+ \"\\n\"", {"a b\xC3\xA4\n"}, {"\n", "a\"\n"}},
        Case{"any_character",
             "root ::= . . \"!\"",
             {"ab!",
              "\xC3\xA4"
              "b!",
              "a\xF0\x9F\x98\x80!"},
             {"a!", "abc!"}},
        Case{"marks_in_classes",
             "root ::= [-+] [a\\]\\[-] [*/^]",
             {"-]^", "+[*", "--/"},
             {"a]^", "-b*"}},
        Case{"escapes",
             "root ::= \"\\\"\\\\\\t\\r\\n\" \"\\x41\\u00e4\\U0001F600\" [\\x42-\\x44] "
             "[\\u00e0-\\u00e5]",
             {"\"\\\t\r\nA\xC3\xA4\xF0\x9F\x98\x80"
              "C\xC3\xA2"},
             {"\"\\\t\r\nA\xC3\xA4\xF0\x9F\x98\x80"
              "E\xC3\xA2"}},
        Case{"characters_of_unicode", "root ::= [ぁ-ゟ]+ \"。\"", {"ひらがな。"}, {"カ。", "。"}},
        Case{"recursion",
             "root ::= sum\nsum ::= item (\"+\" item)*\nitem ::= [0-9]+ | \"(\" sum \")\"\n",
             {"1", "1+(2+(33))", "((4))"},
             {"(1", "1+", "()"}},
        Case{"json",
             "root ::= object\n"
             "value ::= object | array | text | number | (\"true\" | \"false\" | \"null\") ws\n"
             "object ::=\n  \"{\" ws (\n    text \":\" ws value\n    (\",\" ws text \":\" ws "
             "value)*\n  )? \"}\" ws\n"
             "array ::=\n  \"[\" ws (\n    value\n    (\",\" ws value)*\n  )? \"]\" ws\n"
             "text ::=\n  \"\\\"\" (\n    [^\"\\\\\\x7F\\x00-\\x1F] |\n"
             "    \"\\\\\" ([\"\\\\/bfnrt] | \"u\" [0-9a-fA-F]{4}) # escapes\n  )* \"\\\"\" ws\n"
             "number ::= (\"-\"? ([0-9] | [1-9] [0-9]{0,15})) (\".\" [0-9]+)? ([eE] [-+]? "
             "[0-9]{1,15})? ws\n"
             "ws ::= | \" \" | \"\\n\" [ \\t]{0,20}\n",
             {"{}", "{\"a\": [1, -2.5e3, \"x\\n\\u00e4\"],\n  \"b\": {\"c\": null}}"},
             {"[]", "{\"a\"}", "{\"a\": \"\n\"}", "{\"a\": 01}"}}),
    [](const auto& test) { return std::string(test.param.name); });

TEST_F(ByteModelTest, TokensOfAGrammarAreRefused) {
  for (const char* text : {"root ::= <think> \"a\"", "root ::= <[65]>", "root ::= !<[65]>"}) {
    const auto made = Constraint::gbnf(*model_, text);
    ASSERT_FALSE(made) << text;
    EXPECT_EQ(made.error().code, ErrorCode::invalid_argument);
    EXPECT_THAT(made.error().message, HasSubstr("grammar: "));
  }
}

}  // namespace
}  // namespace runnel::test
