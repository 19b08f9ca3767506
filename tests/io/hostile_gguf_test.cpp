// SPDX-License-Identifier: Apache-2.0
// GGUF files made to mislead: each is refused with a message that names what is wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/formats.h"
#include "runtime/base/byte_reader.h"
#include "runtime/io/gguf.h"
#include "tests/io/sample_files.h"
#include "tests/support/temporary_directory.h"

namespace runnel {
namespace {

using test::patched;
using test::RawGguf;
using test::sample_gguf;
using ::testing::HasSubstr;

constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();

struct Case {
  const char* what;
  std::string bytes;
  const char* message;
  ErrorCode code = ErrorCode::malformed;
};

std::string one_tensor(std::initializer_list<std::uint64_t> sizes, std::uint32_t type,
                       std::uint64_t offset = 0, std::size_t data = 4096) {
  return RawGguf(1, 0).tensor("w", sizes, type, offset).with_data(data);
}

template <class T>
std::string with_alignment(std::uint32_t type, T alignment) {
  RawGguf f(1, 1);
  f.key("general.alignment", type).put(alignment);
  return f.tensor("w", {4}, 0, 0).with_data(64);
}

std::string one_pair(std::uint32_t type, const std::string& value) {
  RawGguf f(0, 1);
  f.key("k", type).raw(value);
  return f.text();
}

std::string array(std::uint32_t type, std::uint64_t count,
                  const std::string& elements = std::string(64, '\0')) {
  return one_pair(9, test::RawBytes().put(type).put(count).raw(elements).text());
}

std::string twice_the_key() {
  RawGguf f(0, 2);
  f.key("k", 0).put(std::uint8_t(1)).raw("");
  f.key("k", 0).put(std::uint8_t(2));
  return f.text();
}

std::vector<Case> cases() {
  using Raw = test::RawBytes;
  const auto number = [](auto value) { return Raw().put(value).text(); };
  RawGguf two_apart(2, 0);
  two_apart.tensor("w", {8}, 0, 0).tensor("w", {8}, 0, 32);
  RawGguf overlapping(2, 0);
  overlapping.tensor("first", {16}, 0, 0).tensor("second", {16}, 0, 32);
  RawGguf same_place(2, 0);
  same_place.tensor("first", {8}, 0, 32).tensor("second", {8}, 0, 32);
  RawGguf second_outside(2, 0);
  second_outside.tensor("first", {8}, 0, 0).tensor("second", {8}, 0, 32);
  RawGguf empty_key(0, 1);
  empty_key.key("", 4).put(std::uint64_t(0));
  RawGguf empty_name(1, 0);
  empty_name.tensor("", {8, 1}, 0, 0);
  RawGguf long_key(0, 1);
  long_key.key(std::string(65536, 'k'), 4).put(1);
  RawGguf escape(0, 1);
  escape.key("\x1b[2Jk", 99).put(1);
  const auto unsupported = ErrorCode::unsupported;

  return {
      {"empty file", "", "first bytes are not \"GGUF\""},
      {"other file", "PK\3\4 and so on, long enough", "first bytes are not \"GGUF\""},
      {"only the magic", "GGUF", "inside the version"},
      {"version 1", patched(sample_gguf(), 4, 1U), "version is 1, expected 3", unsupported},
      {"version 4", patched(sample_gguf(), 4, 4U), "version is 4, expected 3", unsupported},
      {"version 0", patched(sample_gguf(), 4, 0U), "version is 0, expected 3", unsupported},
      {"big-endian", patched(sample_gguf(), 4, 0x03000000U), "big-endian", unsupported},
      {"no counts", RawGguf(0, 0).text().substr(0, 12), "inside the tensor count"},
      {"half of the counts", RawGguf(0, 0).text().substr(0, 20), "inside the metadata count"},
      {"more tensors than bytes", patched(sample_gguf(), 8, kMost),
       "tensor count is 18446744073709551615, but"},
      {"more pairs than bytes", patched(sample_gguf(), 16, kMost),
       "metadata count is 18446744073709551615, but"},
      {"tensor count times size overflows", patched(sample_gguf(), 8, kMost / 33 + 1),
       "tensor count is"},
      {"one pair too many", patched(sample_gguf(), 16, std::uint64_t(7)),
       "tensor name at byte 225 has 562949953421312 bytes"},
      {"key longer than the file",
       RawGguf(0, 1).put(std::uint64_t(60000)).raw("k23456789012345").text(),
       "has 60000 bytes, but 15 are left"},
      {"key length 2^64 - 1", RawGguf(0, 1).put(kMost).raw("k23456789012345").text(),
       "expected at most 65535"},
      {"key of 64 KiB", long_key.text(), "has 65536 bytes, expected at most 65535"},
      {"empty key", empty_key.text(), "metadata key at byte 24 is empty"},
      {"key twice", twice_the_key(), "key 'k': appears twice"},
      {"control characters in a key", escape.text(), "key '\\x1b[2Jk': value type is 99"},
      {"value type 13", one_pair(13, number(1ULL)), "key 'k': value type is 13, expected 0 to 12"},
      {"value cut short", one_pair(10, "12345"),
       "key 'k': file ends at byte 42 inside the value (8 bytes at 37)"},
      {"bool of 2", one_pair(7, std::string(1, '\2')), "key 'k': bool is 2, expected 0 or 1"},
      {"string longer than the file", one_pair(8, number(1000ULL) + "abc"),
       "has 1000 bytes, but 3 are left"},
      {"string length 2^64 - 1", one_pair(8, number(kMost) + "abc"),
       "has 18446744073709551615 bytes, but 3"},
      {"array of arrays", array(9, 1), "key 'k': is an array of arrays", unsupported},
      {"array element type 77", array(77, 1), "key 'k': array element type is 77"},
      {"array longer than the file", array(4, 17),
       "key 'k': array has 17 elements, but 64 bytes are left"},
      {"array size overflows", array(12, (kMost >> 3) + 2),
       "key 'k': array has 2305843009213693953 elements"},
      {"array of 2^64 - 1 bytes", array(0, kMost),
       "key 'k': array has 18446744073709551615 elements"},
      {"string array with more strings than bytes", array(8, 9),
       "key 'k': array has 9 elements, but 64"},
      {"string array whose string is long", array(8, 1, number(99ULL) + "x"),
       "array element at byte 49 has 99 bytes"},
      {"bool array with a 3", array(7, 2, "\1\3"), "key 'k': bool array element 1 is 3"},
      {"array without length", one_pair(9, number(4U)), "inside the array length"},
      {"alignment 0", with_alignment(4, 0U), "general.alignment is 0, expected a power of two"},
      {"alignment 3", with_alignment(4, 3U), "general.alignment is 3, expected a power of two"},
      {"alignment 1", with_alignment(4, 1U),
       "general.alignment is 1, expected a power of two in [8"},
      {"alignment 2^31", with_alignment(4, 1U << 31), "general.alignment is 2147483648, expected"},
      {"alignment of another type", with_alignment(10, std::uint64_t(32)),
       "general.alignment is of type u64, expected u32"},
      {"empty tensor name", empty_name.with_data(32), "tensor name at byte 24 is empty"},
      {"tensor name twice", two_apart.with_data(64), "tensor 'w': appears twice"},
      {"no dimensions", RawGguf(1, 0).tensor("w", {}, 0, 0).with_data(64),
       "tensor 'w': has 0 dimensions, expected 1 to 4"},
      {"5 dimensions", one_tensor({1, 1, 1, 1, 1}, 0), "tensor 'w': has 5 dimensions"},
      {"2^32 - 1 dimensions", patched(one_tensor({1}, 0), 33, 0xffffffffU),
       "has 4294967295 dimensions"},
      {"dimension 0", one_tensor({4, 0}, 0), "tensor 'w': dimension 1 is 0"},
      {"dimension 2^63", one_tensor({1ULL << 63}, 0),
       "tensor 'w': dimension 0 is 9223372036854775808"},
      {"elements overflow to zero", one_tensor({1ULL << 32, 1ULL << 32}, 0),
       "tensor 'w': has more than 2^63 elements"},
      {"bytes overflow", one_tensor({1ULL << 61, 2}, 0), "tensor 'w': has more than 2^63 bytes"},
      {"part of a Q8_0 block", one_tensor({33}, 8),
       "rows of 33 values, expected a multiple of 32, the block of q8_0"},
      {"part of a Q4_K block", one_tensor({128, 2}, 12),
       "rows of 128 values, expected a multiple of 256"},
      {"type this library does not run", one_tensor({256}, 18),
       "tensor 'w': has type 18 (iq3_xxs), expected f32, f16, bf16, q8_0, q4_0, q4_1, q5_0, q5_1, "
       "q2_k, q3_k, q4_k, q5_k, q6_k, iq4_nl or iq4_xs",
       unsupported},
      {"the layout of memory only", one_tensor({256}, 0x10000), "has type 65536 (unknown)",
       unsupported},
      {"type from nowhere", one_tensor({256}, 1000000), "has type 1000000 (unknown)", unsupported},
      {"offset off the grid", one_tensor({4}, 0, 33),
       "tensor 'w': offset is 33, expected a multiple of 32"},
      {"offset outside the file", one_tensor({4}, 0, 1ULL << 40),
       "tensor 'w': its bytes 1099511627776 to"},
      {"offset plus size overflows", one_tensor({16}, 0, kMost - 31),
       "tensor 'w': offset is 18446744073709551584"},
      {"data cut short", one_tensor({16}, 0, 0, 63), "lie outside the file, which has 63 there"},
      {"data section missing", RawGguf(1, 0).tensor("w", {4}, 0, 0).text(),
       "outside the file, which has 0 there"},
      {"second tensor outside", second_outside.with_data(63),
       "tensor 'second': its bytes 32 to 64"},
      {"overlap", overlapping.with_data(96), "tensors 'first' and 'second' overlap at byte 32"},
      {"two at one place", same_place.with_data(64), "overlap at byte 32"},
      {"table cut short", one_tensor({4}, 0).substr(0, 48),
       "tensor count is 1, but the 24 bytes left hold at most 0"},
  };
}

TEST(HostileGguf, IsRefusedWithAMessageThatNamesTheProblem) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.what);
    // Aligned.
    const std::vector<std::byte> bytes(as_bytes(c.bytes).begin(), as_bytes(c.bytes).end());
    const auto file = GgufFile::parse(bytes);
    ASSERT_FALSE(file);
    EXPECT_EQ(file.error().code, c.code);
    EXPECT_THAT(file.error().message, HasSubstr(c.message));
    EXPECT_LT(file.error().message.size(), 400U);
  }
}

Error error_of(const std::string& text) {
  const std::vector<std::byte> bytes(as_bytes(text).begin(), as_bytes(text).end());
  const auto file = GgufFile::parse(bytes);
  return file ? Error{} : file.error();
}

TEST(HostileGguf, TypesThatAreNotReadAreNamed) {
  const std::pair<std::uint32_t, const char*> types[] = {
      {4, "removed"}, {5, "removed"},  {9, "q8_1"},     {15, "q8_k"},    {16, "iq2_xxs"},
      {17, "iq2_xs"}, {18, "iq3_xxs"}, {19, "iq1_s"},   {21, "iq3_s"},   {22, "iq2_s"},
      {29, "iq1_m"},  {31, "removed"}, {32, "removed"}, {33, "removed"}, {34, "tq1_0"},
      {35, "tq2_0"},  {39, "mxfp4"},   {40, "unknown"}};
  for (const auto& [type, name] : types) {
    const Error error = error_of(one_tensor({256}, type));
    EXPECT_EQ(error.code, ErrorCode::unsupported) << type;
    EXPECT_THAT(error.message, HasSubstr("tensor 'w': has type " + std::to_string(type) + " (" +
                                         name + "), expected f32"));
  }
}

TEST(HostileGguf, PartsOfBlocksAndTensorsCutShortAreRefusedInEveryFormat) {
  for (const quant::BlockTraits& t : quant::formats()) {
    if (!t.in_files || t.block_values == 1) continue;
    SCOPED_TRACE(std::string(t.name));
    const auto type = static_cast<std::uint32_t>(t.type);
    const auto block = static_cast<std::uint64_t>(t.block_values);
    const auto bytes = static_cast<std::size_t>(t.block_bytes);
    for (const std::uint64_t cols : {block - 1, block + 1, block / 2}) {
      EXPECT_THAT(error_of(one_tensor({cols, 2}, type)).message,
                  HasSubstr("expected a multiple of " + std::to_string(block) + ", the block of " +
                            std::string(t.name)));
    }
    EXPECT_THAT(error_of(one_tensor({block, 3}, type, 0, 3 * bytes - 1)).message,
                HasSubstr("lie outside the file"));
    EXPECT_EQ(error_of(one_tensor({block, 3}, type, 0, 3 * bytes)).message, "");
  }
}

TEST(HostileGguf, IsNamedByItsPathWhenOpened) {
  const test::TemporaryDirectory directory;
  const auto file = GgufFile::open(directory.file("bad\n.gguf", "GGUF"));
  ASSERT_FALSE(file);
  EXPECT_THAT(file.error().message, HasSubstr("bad\\x0a.gguf: file ends at byte 4"));
}

TEST(HostileGguf, MustStartAtAMultipleOfEightInMemory) {
  const std::vector<std::byte> bytes(100);
  EXPECT_EQ(GgufFile::parse(std::span(bytes).subspan(1)).error().code, ErrorCode::invalid_argument);
}

TEST(HostileGguf, LeavesTheSampleItselfReadable) {
  const std::string text = sample_gguf();
  const std::vector<std::byte> bytes(as_bytes(text).begin(), as_bytes(text).end());
  EXPECT_TRUE(GgufFile::parse(bytes));
}

}  // namespace
}  // namespace runnel
