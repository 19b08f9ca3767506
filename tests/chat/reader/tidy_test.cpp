// SPDX-License-Identifier: Apache-2.0
#include "app/chat/reader/tidy.h"

#include <gtest/gtest.h>

#include <string>

namespace runnel::reader {
namespace {

TEST(ReaderTidy, PutsDividedWordsTogether) {
  EXPECT_EQ(tidy("an exam-\r\nple", true), "an example\n");
  EXPECT_EQ(tidy("Größen-\nänderung", true), "Größenänderung\n");
  EXPECT_EQ(tidy("exam\xEF\xBF\xBEple", true), "example\n");  // as PDFium says it
}

TEST(ReaderTidy, KeepsOtherHyphens) {
  EXPECT_EQ(tidy("Nord-\nSüd", true), "Nord-\nSüd\n");
  EXPECT_EQ(tidy("Nord\xEF\xBF\xBESüd", true), "Nord-Süd\n");
  EXPECT_EQ(tidy("from 1-\nto", true), "from 1-\nto\n");
  EXPECT_EQ(tidy("dash -\nand", true), "dash -\nand\n");
  EXPECT_EQ(tidy("exam-\n\nple", true), "exam-\n\nple\n");
  EXPECT_EQ(tidy("exam-\nple", false), "exam-\nple\n");
}

TEST(ReaderTidy, KeepsOneEmptyLineAndNoSpacesBeforeAnEnd) {
  EXPECT_EQ(tidy("\n\n a  b \t\n \n\n\n  c\f\x0B d\n\n", false), " a  b\n\n  c\n\n d\n");
  EXPECT_EQ(tidy(" \n\t\r\n", false), "");
  EXPECT_EQ(tidy("", true), "");
}

TEST(ReaderTidy, IsAlwaysUtf8) {
  EXPECT_EQ(tidy("a\x80z \xC3( \xED\xA0\x80 \xF0\x9F\x98\x80 \xE2\x82", false),
            "a\xEF\xBF\xBDz \xEF\xBF\xBD( \xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD \xF0\x9F\x98\x80 "
            "\xEF\xBF\xBD\xEF\xBF\xBD\n");
  EXPECT_EQ(tidy(std::string("a\0b\x1B[31mc\xC2\xAD", 11), false), "ab[31mc\n");
}

}  // namespace
}  // namespace runnel::reader
