// SPDX-License-Identifier: Apache-2.0
// Snapshot files that are damaged or made to mislead: each is refused with the name of the section that is wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/byte_reader.h"
#include "runtime/io/snapshot_file.h"
#include "tests/io/sample_files.h"

namespace runnel {
namespace {

using test::patched;
using test::sample_snapshot;
using ::testing::HasSubstr;

constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();

struct Case {
  const char* what;
  std::string bytes;
  const char* message;
  ErrorCode code = ErrorCode::malformed;
};

std::string sample() {
  const std::vector<std::byte> bytes = snapshot_to_bytes(sample_snapshot());
  return std::string(as_text(bytes));
}

// Where the fields of table entry `index` lie; the sections have ids 1 … 6 in this order.
constexpr std::size_t entry(std::size_t index) { return 40 + 32 * index; }
constexpr std::size_t kOffset = 8;
constexpr std::size_t kSize = 16;

// Where the contents of section `index` lie.
std::size_t contents(std::size_t index) {
  std::uint64_t offset = 0;
  std::memcpy(&offset, sample().data() + entry(index) + kOffset, sizeof offset);
  return static_cast<std::size_t>(offset);
}

template <class T>
std::string flipped(std::size_t at, T mask) {
  std::string bytes = sample();
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return patched(std::move(bytes), at, static_cast<T>(value ^ mask));
}

void expect_refusals(const std::vector<Case>& cases, Checksums checksums) {
  for (const Case& c : cases) {
    SCOPED_TRACE(c.what);
    const auto data = snapshot_from_bytes(as_bytes(c.bytes), checksums);
    ASSERT_FALSE(data);
    EXPECT_EQ(data.error().code, c.code);
    EXPECT_THAT(data.error().message, HasSubstr(c.message));
  }
}

TEST(DamagedSnapshot, IsRefusedWithTheSectionThatIsDamaged) {
  const std::uint8_t bit = 4;
  expect_refusals(
      {
          {"bit of the identity", flipped(contents(0), bit), "section 1 (identity): is damaged"},
          {"bit of the state", flipped(contents(1) + 11, bit), "section 2 (state): is damaged"},
          {"bit of the logits", flipped(contents(2) + 3, bit), "section 3 (logits): is damaged"},
          {"bit of the recent tokens", flipped(contents(3), bit),
           "section 4 (recent tokens): is damaged"},
          {"bit of the carry", flipped(contents(4) + 5, bit), "section 5 (carry): is damaged"},
          {"bit of the sampler", flipped(contents(5), bit), "section 6 (sampler): is damaged"},
          {"bit of a section's checksum", flipped(entry(1) + 24, bit),
           "section 2 (state): is damaged"},
          {"bit of the minor version", flipped(10, bit), "header: is damaged"},
          {"bit of the file's checksum", flipped(32, bit), "header: is damaged"},
          {"bit of the space between sections", flipped(contents(1) + 12, bit),
           "header: is damaged"},
          {"bit of a section's flags", flipped(entry(1) + 4, bit), "header: is damaged"},
      },
      Checksums::verify);
}

TEST(HostileSnapshot, IsRefusedEvenWithRightChecksums) {
  const std::string good = sample();
  const auto minor = [&](std::size_t at, auto value) { return patched(good, at, value); };
  std::string no_carry = minor(entry(4), 77U);
  no_carry = patched(no_carry, entry(4) + 4, 1U);  // unknown, but optional: so the carry is missing
  expect_refusals(
      {
          {"empty file", "", "header: the first bytes are not those of a snapshot"},
          {"other file", std::string(400, 'x'),
           "header: the first bytes are not those of a snapshot"},
          {"line ends rewritten", "\x89RNL\n\x1a\n" + good.substr(8),
           "header: the first bytes are not"},
          {"only the magic", good.substr(0, 8), "header: file has 8 bytes, expected at least 40"},
          {"cut in the header", good.substr(0, 39),
           "header: file has 39 bytes, expected at least 40"},
          {"cut in the table", good.substr(0, 100), "header: file has 100 bytes, expected"},
          {"cut in the data", good.substr(0, good.size() - 1), "it is cut short"},
          {"something appended", good + "x", "something was appended"},
          {"major version 0", minor(8, std::uint16_t(0)), "header: version is 0.0, expected 1.x",
           ErrorCode::unsupported},
          {"major version 2", minor(8, std::uint16_t(2)), "header: version is 2.0, expected 1.x",
           ErrorCode::unsupported},
          {"big-endian", minor(12, 0x04030201U), "header: byte order mark is 67305985"},
          {"reserved field in use", minor(28, 1U), "header: reserved field is 1, expected 0"},
          {"section count 65", minor(24, 65U), "header: section count is 65, expected at most"},
          {"section count 2^32 - 1", minor(24, ~0U), "header: section count is 4294967295"},
          {"section count 0", minor(24, 0U), "section 1 (identity): is missing"},
          {"section missing", no_carry, "section 5 (carry): is missing"},
          {"section twice", minor(entry(2), 2U), "section 2 (state): appears twice"},
          {"unknown section", minor(entry(4), 77U), "section 77: is not known",
           ErrorCode::unsupported},
          {"section id 0", minor(entry(4), 0U), "section 0: is not known", ErrorCode::unsupported},
          {"offset off the grid", minor(entry(1) + kOffset, std::uint64_t(contents(1) + 4)),
           "section 2 (state): offset is 324, expected a multiple of 64"},
          {"offset in the header", minor(entry(0) + kOffset, std::uint64_t(0)),
           "section 1 (identity): offset is 0"},
          {"offset outside", minor(entry(1) + kOffset, std::uint64_t(1) << 40),
           "section 2 (state): offset is 1099511627776"},
          {"offset 2^64 - 64", minor(entry(1) + kOffset, kMost - 63),
           "section 2 (state): offset is 184467440737"},
          {"overlap", minor(entry(2) + kOffset, std::uint64_t(contents(1))),
           "section 3 (logits): offset is 320, expected 332"},
          {"size outside", minor(entry(1) + kSize, std::uint64_t(1) << 50),
           "section 2 (state): has 1125899906842624 bytes at 320, but"},
          {"size 2^64 - 1", minor(entry(1) + kSize, kMost),
           "section 2 (state): has 18446744073709551615 bytes"},
          {"size overlaps the next", minor(entry(1) + kSize, std::uint64_t(65)),
           "section 3 (logits): offset is 384"},
          {"part of a float", minor(entry(1) + kSize, std::uint64_t(11)),
           "section 2 (state): has 11 bytes, expected a multiple of 4"},
          {"part of a logit", minor(entry(2) + kSize, std::uint64_t(13)),
           "section 3 (logits): has 13 bytes"},
          {"part of a token", minor(entry(3) + kSize, std::uint64_t(9)),
           "section 4 (recent tokens): has 9 bytes"},
          {"identity cut short", minor(entry(0) + kSize, std::uint64_t(20)),
           "section 1 (identity): has 20 bytes, expected at least 24"},
          {"backend name outside", minor(contents(0) + 24, 4000000000U),
           "section 1 (identity): has 37 bytes, expected at least 4000000028"},
          {"identity too long", minor(entry(0) + kSize, std::uint64_t(40)),
           "section 1 (identity): has 40 bytes, expected 37"},
          {"UTF-8 carry outside", minor(contents(4), ~0U),
           "section 5 (carry): has 14 bytes, expected at least"},
          {"carry too long", minor(contents(4), 1U), "section 5 (carry): "},
          {"bias count outside", minor(contents(5) + 40, ~0U),
           "section 6 (sampler): logit bias count is 4294967295, but 16 bytes are left"},
          {"bias count too small", minor(contents(5) + 40, 1U),
           "section 6 (sampler): has 60 bytes, expected 52"},
          {"sampler cut short", minor(entry(5) + kSize, std::uint64_t(30)),
           "section 6 (sampler): has 30 bytes"},
          {"more recent tokens than consumed", minor(contents(0) + 8, std::uint64_t(2)),
           "section 4 (recent tokens): has 3 tokens, expected at most the 2 consumed"},
      },
      Checksums::ignore);
}

}  // namespace
}  // namespace runnel
