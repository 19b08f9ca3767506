// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/base64.h"

#include <gtest/gtest.h>

namespace runnel {
namespace {

std::string encoded(std::string_view text) { return to_base64(std::as_bytes(std::span(text))); }

std::string decoded(std::string_view text) {
  const auto bytes = from_base64(text);
  if (!bytes) return "refused";
  return {reinterpret_cast<const char*>(bytes->data()), bytes->size()};
}

TEST(Base64, GivesTheVectorsOfTheStandard) {
  const std::pair<const char*, const char*> kVectors[] = {{"", ""},
                                                          {"f", "Zg=="},
                                                          {"fo", "Zm8="},
                                                          {"foo", "Zm9v"},
                                                          {"foob", "Zm9vYg=="},
                                                          {"fooba", "Zm9vYmE="},
                                                          {"foobar", "Zm9vYmFy"},
                                                          {"\xfb\xff", "+/8="}};
  for (const auto& [text, code] : kVectors) {
    EXPECT_EQ(encoded(text), code);
    EXPECT_EQ(decoded(code), text);
  }
}

TEST(Base64, RefusesEverythingElse) {
  for (const char* wrong :
       {"Zg", "Zg=", "Zg===", "Z===", "====", "Zg==Zg==", "Zh==", "Zm9=", "Zm 9v", "Zm-_", "=Zm9"})
    EXPECT_EQ(decoded(wrong), "refused") << wrong;
}

}  // namespace
}  // namespace runnel
