// SPDX-License-Identifier: Apache-2.0
// Split models: written as parts, opened by any of them as if they were one file, and refused by name when they are
// not of one model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "runtime/io/gguf.h"
#include "runtime/io/gguf_parts.h"
#include "tests/io/sample_files.h"
#include "tests/support/temporary_directory.h"

namespace runnel {
namespace {

using quant::BlockType;
using test::RawGguf;
using test::read_text;
using test::TemporaryDirectory;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::uint64_t kReserve = GgufWriter::kSplitReserve;
constexpr std::int64_t kTensorBytes = 1'000'000;
constexpr std::uint64_t kPartBytes = kReserve + 2'500'000;  // two tensors in the first part

/// Tensors "t0" … of a megabyte each, all bytes of one the same.
GgufWriter model_of(int tensors, std::size_t text_bytes = 10) {
  GgufWriter writer;
  writer.set("general.architecture", "gsa");
  writer.set("text", std::string(text_bytes, 'x'));
  for (int i = 0; i < tensors; ++i) {
    writer.add_tensor("t" + std::to_string(i), BlockType::i8, {kTensorBytes},
                      [i]() -> Result<std::vector<std::byte>> {
                        return std::vector<std::byte>(std::size_t{kTensorBytes}, std::byte(i));
                      });
  }
  return writer;
}

std::filesystem::path part(const TemporaryDirectory& directory, int number, int count) {
  return gguf::part_path(directory.path() / "m", number, count);
}

/// Keys and tensors as bytes, to compare files.
std::map<std::string, std::string> contents(const GgufFile& file) {
  std::map<std::string, std::string> out;
  for (const GgufTensor& t : file.tensors()) {
    out[t.name] = {reinterpret_cast<const char*>(t.data.data()), t.data.size()};
  }
  for (const auto& [key, value] : file.metadata()) out["key " + key] = gguf_type_name(value);
  return out;
}

TEST(GgufSplit, EveryPartOpensWhatOneFileHolds) {
  const TemporaryDirectory directory;
  const GgufWriter writer = model_of(11);
  ASSERT_TRUE(writer.write(directory.path() / "one.gguf"));
  const auto parts = writer.write_split(directory.path() / "m.gguf", kPartBytes);
  ASSERT_TRUE(parts) << parts.error().message;
  EXPECT_THAT(*parts, ElementsAre(1, 1, 2, 2, 2, 2, 2, 2, 3, 3, 3));
  const auto one = GgufFile::open(directory.path() / "one.gguf");
  ASSERT_TRUE(one);
  EXPECT_EQ((*one)->num_parts(), 1U);
  for (int i = 1; i <= 3; ++i) {
    const auto file = GgufFile::open(part(directory, i, 3));
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ((*file)->num_parts(), 3U);
    EXPECT_EQ(contents(**file), contents(**one));
    ASSERT_NE((*file)->find_tensor("t10"), nullptr);
    EXPECT_EQ((*file)->find_tensor("t10")->data[0], std::byte{10});
    EXPECT_EQ((*file)->find("split.count"), nullptr);
  }
}

TEST(GgufSplit, PartsAreWithinTheSizeAndAlwaysTheSame) {
  const TemporaryDirectory directory;
  ASSERT_TRUE(model_of(11).write_split(directory.path() / "m.gguf", kPartBytes));
  ASSERT_TRUE(model_of(11).write_split(directory.path() / "n.gguf", kPartBytes));
  for (int i = 1; i <= 3; ++i) {
    const std::string bytes = read_text(part(directory, i, 3));
    EXPECT_LE(bytes.size(), kPartBytes);
    EXPECT_EQ(bytes, read_text(gguf::part_path(directory.path() / "n", i, 3)));
  }
}

TEST(GgufSplit, OtherKeysChangeTheFirstPartOnly) {
  const TemporaryDirectory directory;
  ASSERT_TRUE(model_of(11).write_split(directory.path() / "m.gguf", kPartBytes));
  ASSERT_TRUE(model_of(11, kReserve - 1000).write_split(directory.path() / "n.gguf", kPartBytes));
  for (int i = 1; i <= 3; ++i) {
    const std::string other = read_text(gguf::part_path(directory.path() / "n", i, 3));
    EXPECT_LE(other.size(), kPartBytes);
    EXPECT_EQ(read_text(part(directory, i, 3)) == other, i != 1) << i;
  }
}

TEST(GgufSplit, KeysOfThePartsAreThoseOfGgufSplit) {
  const TemporaryDirectory directory;
  ASSERT_TRUE(model_of(11).write_split(directory.path() / "m.gguf", kPartBytes));
  for (std::uint16_t i = 0; i < 3; ++i) {
    // Eight bytes more, so that the copy can start at a multiple of eight.
    const std::string bytes = read_text(part(directory, i + 1, 3));
    std::vector<std::uint64_t> aligned(bytes.size() / 8 + 1);
    std::memcpy(aligned.data(), bytes.data(), bytes.size());
    const auto file = GgufFile::parse(std::as_bytes(std::span(aligned)).first(bytes.size()));
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ((*file)->metadata().size(), i == 0 ? 5U : 3U);
    EXPECT_EQ(*(*file)->find("split.no"), GgufValue(i));
    EXPECT_EQ(*(*file)->find("split.count"), GgufValue(std::uint16_t{3}));
    EXPECT_EQ(*(*file)->find("split.tensors.count"), GgufValue(std::int32_t{11}));
  }
}

TEST(GgufSplit, TensorsOfSeveralDimensionsKeepTheirShape) {
  const TemporaryDirectory directory;
  GgufWriter writer = model_of(5);
  writer.add_tensor("w", BlockType::f32, {2, 3}, []() -> Result<std::vector<std::byte>> {
    return std::vector<std::byte>(24, std::byte{1});
  });
  ASSERT_TRUE(writer.write_split(directory.path() / "m.gguf", kPartBytes));
  const auto file = GgufFile::open(part(directory, 1, 2));
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_THAT((*file)->find_tensor("w")->shape, ElementsAre(2, 3));
}

TEST(GgufSplit, AnAlignmentIsInEveryPart) {
  const TemporaryDirectory directory;
  GgufWriter writer = model_of(5);
  writer.set("general.alignment", std::uint32_t{4096});
  ASSERT_TRUE(writer.write_split(directory.path() / "m.gguf", kPartBytes));
  const auto file = GgufFile::open(part(directory, 2, 2));
  ASSERT_TRUE(file) << file.error().message;
  for (const GgufTensor& tensor : (*file)->tensors()) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data.data()) % 4096, 0U) << tensor.name;
  }
}

TEST(GgufSplit, WhatFitsIntoOnePartIsOnePart) {
  const TemporaryDirectory directory;
  ASSERT_TRUE(model_of(1).write_split(directory.path() / "m.gguf", kPartBytes));
  const auto file = GgufFile::open(part(directory, 1, 1));
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ((*file)->find("split.count"), nullptr);
  // Nothing has to be found beside it, so its name is free.
  std::filesystem::rename(part(directory, 1, 1), directory.path() / "other.gguf");
  EXPECT_TRUE(GgufFile::open(directory.path() / "other.gguf"));
}

TEST(GgufSplit, WhatDoesNotFitIsRefusedAndNothingIsWritten) {
  const TemporaryDirectory directory;
  const auto tensor = model_of(3).write_split(directory.path() / "m.gguf", kTensorBytes);
  ASSERT_FALSE(tensor);
  EXPECT_EQ(tensor.error().code, ErrorCode::invalid_argument);
  EXPECT_THAT(tensor.error().message, HasSubstr("tensor 't0' has 1000000 bytes"));
  const auto keys = model_of(1, 5000).write_split(directory.path() / "m.gguf", 4000);
  ASSERT_FALSE(keys);
  EXPECT_THAT(keys.error().message, HasSubstr("the keys take"));
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

TEST(GgufSplit, ACancelledWriteLeavesNoPart) {
  const TemporaryDirectory directory;
  const auto done = model_of(11).write_split(directory.path() / "m.gguf", kPartBytes,
                                             [](float fraction) { return fraction < 0.8F; });
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::cancelled);
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

TEST(GgufSplit, NamesAreReadAsTheyAreWritten) {
  const auto name = gguf::part_name("a/b-00002-of-00013.gguf");
  ASSERT_TRUE(name);
  EXPECT_EQ(name->stem, "a/b");
  EXPECT_EQ(name->number, 2);
  EXPECT_EQ(name->count, 13);
  EXPECT_EQ(gguf::part_path("a/b", 2, 13), "a/b-00002-of-00013.gguf");
  for (const char* other :
       {"b.gguf", "b-2-of-3.gguf", "b-00002-of-00003.bin", "b-0000x-of-00003.gguf",
        "b-00002_of-00003.gguf", "-00002-of-00003.gguf", ""}) {
    EXPECT_FALSE(gguf::part_name(other)) << other;
  }
}

/// A part by hand with one tensor; its keys are what the test says.
struct PartFile {
  std::uint16_t number = 0;
  std::uint16_t count = 2;
  std::int32_t tensors = 2;
  std::string tensor = "a";
  const char* more = nullptr;  // another key

  std::string bytes() const {
    RawGguf f(1, more == nullptr ? 3 : 4);
    f.key("split.no", 2).put(number);
    f.key("split.count", 2).put(count);
    f.key("split.tensors.count", 5).put(tensors);
    if (more != nullptr) f.key(more, 0).put(std::uint8_t{1});
    f.tensor(tensor, {8}, 24, 0);
    return f.with_data(8);
  }
};

class ForeignParts : public ::testing::Test {
 protected:
  /// What opening either of two parts says.
  void expect(const PartFile& first, const PartFile& second, const std::string& message,
              ErrorCode code = ErrorCode::malformed) {
    const TemporaryDirectory directory;
    directory.file("m-00001-of-00002.gguf", first.bytes());
    directory.file("m-00002-of-00002.gguf", second.bytes());
    for (int i : {1, 2}) {
      const auto file = GgufFile::open(part(directory, i, 2));
      ASSERT_FALSE(file) << message;
      EXPECT_EQ(file.error().code, code);
      EXPECT_THAT(file.error().message, HasSubstr(message));
      EXPECT_THAT(file.error().message, HasSubstr("-of-00002.gguf"));
    }
  }
  PartFile first_, second_{.number = 1, .tensor = "b"};
};

TEST_F(ForeignParts, WholePairOpens) {
  const TemporaryDirectory directory;
  directory.file("m-00001-of-00002.gguf", first_.bytes());
  directory.file("m-00002-of-00002.gguf", second_.bytes());
  EXPECT_TRUE(GgufFile::open(part(directory, 2, 2)));
}

TEST_F(ForeignParts, AMissingPartIsNamed) {
  const TemporaryDirectory directory;
  directory.file("m-00002-of-00002.gguf", second_.bytes());
  const auto file = GgufFile::open(part(directory, 2, 2));
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, ErrorCode::not_found);
  EXPECT_THAT(file.error().message, HasSubstr("part 1 of 2: "));
  EXPECT_THAT(file.error().message, HasSubstr("m-00001-of-00002.gguf"));
}

TEST_F(ForeignParts, ADamagedPartIsNamed) {
  const TemporaryDirectory directory;
  directory.file("m-00001-of-00002.gguf", first_.bytes());
  directory.file("m-00002-of-00002.gguf", second_.bytes().substr(0, 60));
  const auto file = GgufFile::open(part(directory, 1, 2));
  ASSERT_FALSE(file);
  EXPECT_THAT(file.error().message, HasSubstr("part 2 of 2: "));
}

TEST_F(ForeignParts, OfAnotherNumberOfTensors) {
  second_.tensors = 3;
  expect(first_, second_, "is a part of another model: split.tensors.count is ");
}

TEST_F(ForeignParts, WithATensorTwice) {
  second_.tensor = "a";
  expect(first_, second_, "tensor 'a' is in an earlier part, too");
}

TEST_F(ForeignParts, WithFewerTensorsThanTheySay) {
  first_.tensors = second_.tensors = 3;
  expect(first_, second_, "the parts have 2 tensors, but split.tensors.count is 3");
}

TEST_F(ForeignParts, WithKeysInALaterPart) {
  second_.more = "gsa.scale";
  expect(first_, second_, "key 'gsa.scale' is in part 2, expected in the first part only");
}

TEST_F(ForeignParts, InAnotherOrder) {
  const TemporaryDirectory directory;
  directory.file("m-00001-of-00002.gguf", second_.bytes());
  directory.file("m-00002-of-00002.gguf", first_.bytes());
  const auto file = GgufFile::open(part(directory, 1, 2));
  ASSERT_FALSE(file);
  EXPECT_THAT(file.error().message, HasSubstr("is part 2 of 2 by its keys, expected a name that"
                                              " ends in -00002-of-00002.gguf"));
}

TEST_F(ForeignParts, OfAnotherCount) {
  const TemporaryDirectory directory;
  directory.file("m-00001-of-00002.gguf", first_.bytes());
  second_.count = 3;
  directory.file("m-00002-of-00002.gguf", second_.bytes());
  const auto file = GgufFile::open(part(directory, 1, 2));
  ASSERT_FALSE(file);
  EXPECT_THAT(file.error().message, HasSubstr("split.count is 3, expected 2"));
}

TEST_F(ForeignParts, UnderAnotherName) {
  const TemporaryDirectory directory;
  const auto file = GgufFile::open(directory.file("m.gguf", first_.bytes()));
  ASSERT_FALSE(file);
  EXPECT_THAT(file.error().message, HasSubstr("m.gguf: is part 1 of 2 by its keys"));
}

TEST_F(ForeignParts, WithNumbersThatCannotBe) {
  const TemporaryDirectory directory;
  struct Case {
    PartFile part;
    const char* message;
  };
  for (const auto& [bad, message] :
       {Case{{.number = 2}, "split.no is 2, expected 0 to 1"},
        Case{{.count = 60000}, "split.count is 60000, expected at most 1000"}}) {
    const auto file = GgufFile::open(directory.file("m-00001-of-00002.gguf", bad.bytes()));
    ASSERT_FALSE(file);
    EXPECT_EQ(file.error().code, ErrorCode::malformed);
    EXPECT_THAT(file.error().message, HasSubstr(message));
  }
}

TEST_F(ForeignParts, ACountOfNoneIsNoPart) {
  const TemporaryDirectory directory;
  first_.count = 0;  // as programs leave it that join parts
  EXPECT_TRUE(GgufFile::open(directory.file("m.gguf", first_.bytes())));
}

}  // namespace
}  // namespace runnel
