// SPDX-License-Identifier: Apache-2.0
// Safetensors files made to mislead: each is refused with a message that names what is wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/byte_reader.h"
#include "runtime/io/safetensors.h"
#include "tests/io/sample_files.h"

namespace runnel {
namespace {

using test::patched;
using test::raw_safetensors;
using test::sample_safetensors;
using ::testing::HasSubstr;

struct Case {
  const char* what;
  std::string bytes;
  const char* message;
  ErrorCode code = ErrorCode::malformed;
};

// One tensor 'w' described by `fields`, over 8 bytes of data.
std::string one(const std::string& fields, std::size_t data = 8) {
  return raw_safetensors("{\"w\":{" + fields + "}}", data);
}

std::string header(std::string_view text) { return raw_safetensors(text, 8); }

std::vector<Case> cases() {
  const std::string good = R"("dtype":"F32","shape":[2],"data_offsets":[0,8])";
  const std::string w = "{\"w\":{" + good + "}";
  return {
      {"empty file", "", "has 0 bytes, expected at least the 8"},
      {"seven bytes", "1234567", "has 7 bytes, expected at least the 8"},
      {"header longer than the file", patched(sample_safetensors(), 0, std::uint64_t(5000)),
       "header length is 5000, but"},
      {"header length 2^64 - 1", patched(sample_safetensors(), 0, ~std::uint64_t(0)),
       "header length is 18446744073709551615, expected at most 100000000"},
      {"header length 0", patched(sample_safetensors(), 0, std::uint64_t(0)),
       "header: is no valid JSON"},
      {"header cut short", header("{\"w\":"), "header: is no valid JSON at byte"},
      {"text after the object", header("{} {}"), "header: is no valid JSON"},
      {"no UTF-8", header("{\"\xff\":{}}"), "header: is no valid JSON"},
      {"array as header", header("[]"), "header: is an array, expected an object"},
      {"number as header", header("5"), "header: is a number, expected an object"},
      {"string as header", header("\"x\""), "header: is a string, expected an object"},
      {"nesting", header(std::string(100000, '[')), "header: is an array"},
      {"nested objects", header("{\"w\":{\"shape\":{\"a\":{}}}}"), "'shape' is an object"},
      {"tensor is null", header(R"({"w":null})"), "member 'w' is null, expected an object"},
      {"tensor is a number", header(R"({"w":1})"), "member 'w' is a number, expected an object"},
      {"tensor is an array", header(R"({"w":[]})"), "member 'w' is an array, expected an object"},
      {"metadata is a string", header(R"({"__metadata__":"x"})"),
       "member '__metadata__' is a string"},
      {"metadata holds a number", header(R"({"__metadata__":{"a":1}})"),
       "'__metadata__' holds a number"},
      {"metadata is nested", header(R"({"__metadata__":{"a":{}}})"),
       "'__metadata__' holds an object"},
      {"metadata twice", header(R"({"__metadata__":{},"__metadata__":{}})"),
       "'__metadata__' twice"},
      {"tensor twice", header(w + ",\"w\":{" + good + "}}"), "names tensor 'w' twice"},
      {"no dtype", one(R"("shape":[2],"data_offsets":[0,8])"), "tensor 'w': lacks dtype"},
      {"no shape", one(R"("dtype":"F32","data_offsets":[0,8])"), "tensor 'w': lacks shape"},
      {"no data_offsets", one(R"("dtype":"F32","shape":[2])"), "tensor 'w': lacks data_offsets"},
      {"dtype twice", one(good + R"(,"dtype":"F32")"), "tensor 'w': has dtype twice"},
      {"shape twice", one(good + R"(,"shape":[2])"), "tensor 'w': has shape twice"},
      {"offsets twice", one(good + R"(,"data_offsets":[0,8])"),
       "tensor 'w': has data_offsets twice"},
      {"member of no meaning", one(good + R"(,"stride":[1])"),
       "tensor 'w': 'stride' is an array, expected dtype"},
      {"dtype is a number", one(R"("dtype":1,"shape":[2],"data_offsets":[0,8])"),
       "'dtype' is a number"},
      {"8-bit float", one(R"("dtype":"F8_E4M3","shape":[8],"data_offsets":[0,8])"),
       "dtype is 'F8_E4M3', expected", ErrorCode::unsupported},
      {"shape holds a fraction", one(R"("dtype":"F32","shape":[2.5],"data_offsets":[0,8])"),
       "shape holds the number 2.5, expected whole"},
      {"shape holds a negative", one(R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])"),
       "shape holds the number -2"},
      {"shape holds 2^63",
       one(R"("dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,8])"),
       "dimension of 9223372036854775808"},
      {"shape holds 2^64",
       one(R"("dtype":"F32","shape":[18446744073709551616],"data_offsets":[0,8])"),
       "shape holds the number 18446744073709551616"},
      {"shape holds an array", one(R"("dtype":"F32","shape":[[2]],"data_offsets":[0,8])"),
       "shape holds an array"},
      {"shape of nine dimensions",
       one(R"("dtype":"F32","shape":[1,1,1,1,1,1,1,1,2],"data_offsets":[0,8])"),
       "has more than 8 dimensions"},
      {"shape overflows",
       one(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8])"),
       "make more than 2^63"},
      {"shape overflows to the right size",
       one(R"("dtype":"F32","shape":[4611686018427387906],"data_offsets":[0,8])"),
       "span 8 bytes, but shape and dtype F32 make more than 2^63"},
      {"one offset", one(R"("dtype":"F32","shape":[2],"data_offsets":[0])"),
       "has 1 data_offsets, expected 2"},
      {"three offsets", one(R"("dtype":"F32","shape":[2],"data_offsets":[0,8,8])"),
       "has more than 2 data_offsets"},
      {"offsets the wrong way round", one(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])"),
       "data_offsets are 8 to 0, expected a range"},
      {"offsets outside", one(R"("dtype":"F32","shape":[3],"data_offsets":[0,12])"),
       "inside the 8 bytes"},
      {"offset holds a negative", one(R"("dtype":"F32","shape":[2],"data_offsets":[-8,0])"),
       "data_offsets hold the number -8"},
      {"offset holds a string", one(R"("dtype":"F32","shape":[2],"data_offsets":["0",8])"),
       "tensor 'w': "},
      {"size disagrees", one(R"("dtype":"F64","shape":[2],"data_offsets":[0,8])"),
       "span 8 bytes, but shape and dtype F64 make 16"},
      {"gap at the front", one(R"("dtype":"F32","shape":[1],"data_offsets":[4,8])"),
       "begin at 4, expected 0, where the tensor before it ends"},
      {"gap at the end", one(good, 12), "data section has 12 bytes, but the tensors cover 8"},
      {"overlap", header(w + R"(,"v":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})"),
       "tensor 'v': data_offsets begin at 4, expected 8"},
      {"data cut short", sample_safetensors().substr(0, sample_safetensors().size() - 1),
       "inside the 35 bytes"},
      {"control characters in a name", header("{\"\\u001b[2J\":5}"),
       "member '\\x1b[2J' is a number"},
  };
}

TEST(HostileSafetensors, IsRefusedWithAMessageThatNamesTheProblem) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.what);
    const auto checkpoint = SafetensorsCheckpoint::parse(as_bytes(c.bytes));
    ASSERT_FALSE(checkpoint);
    EXPECT_EQ(checkpoint.error().code, c.code);
    EXPECT_THAT(checkpoint.error().message, HasSubstr(c.message));
    EXPECT_LT(checkpoint.error().message.size(), 500U);
  }
}

}  // namespace
}  // namespace runnel
