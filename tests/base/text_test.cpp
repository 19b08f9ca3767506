// SPDX-License-Identifier: Apache-2.0
// Text for messages: nothing that a terminal or a log would act on.
#include "runtime/base/text.h"

#include <gtest/gtest.h>

namespace runnel {
namespace {

TEST(Printable, KeepsPlainAndUtf8Text) {
  EXPECT_EQ(printable("models/Größe 漢字 🙂.gguf"), "models/Größe 漢字 🙂.gguf");
}

TEST(Printable, EscapesControlCharacters) {
  EXPECT_EQ(printable(std::string_view("a\x1b[31m\n\0", 8)), "a\\x1b[31m\\x0a\\x00");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\xc2\\x9b31m");  // the one-character form of ESC [
}

TEST(Printable, EscapesWhatIsNoUtf8) {
  EXPECT_EQ(printable("\xff"), "\\xff");
  EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf");                    // overlong
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");           // surrogate
  EXPECT_EQ(printable("\xe6\xbc"), "\\xe6\\xbc");                    // cut short
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // past U+10FFFF
}

TEST(Printable, CutsLongText) { EXPECT_EQ(printable("abcdef", 3), "abc..."); }

TEST(InQuotes, CutsLongNames) { EXPECT_LT(in_quotes(std::string(100000, 'n')).size(), 80U); }

TEST(Hexadecimal, HasNoZerosBeforeIt) {
  EXPECT_EQ(hexadecimal(0), "0");
  EXPECT_EQ(hexadecimal(0xfeed01), "feed01");
  EXPECT_EQ(hexadecimal(~0ULL), "ffffffffffffffff");
}

}  // namespace
}  // namespace runnel
