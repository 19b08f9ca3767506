// SPDX-License-Identifier: Apache-2.0
// GGUF files: what is written is what is read, in the layout that other tools expect.
#include "runtime/io/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "runtime/base/byte_reader.h"
#include "tests/support/temporary_directory.h"

namespace runnel {
namespace {

using quant::BlockType;
using test::read_text;
using test::TemporaryDirectory;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

GgufWriter::Producer bytes_of(std::size_t count, int first) {
  return [=]() -> Result<std::vector<std::byte>> {
    std::vector<std::byte> bytes(count);
    for (std::size_t i = 0; i < count; ++i)
      bytes[i] = static_cast<std::byte>(first + static_cast<int>(i));
    return bytes;
  };
}

GgufWriter every_type() {
  GgufWriter writer;
  writer.set("general.architecture", "gsa");
  writer.set("u8", std::uint8_t(200));
  writer.set("i8", std::int8_t(-100));
  writer.set("u16", std::uint16_t(60000));
  writer.set("i16", std::int16_t(-30000));
  writer.set("u32", std::uint32_t(4000000000));
  writer.set("i32", std::int32_t(-2000000000));
  writer.set("f32", 0.5F);
  writer.set("yes", true);
  writer.set("text", std::string("a\0b", 3));
  writer.set("u64", std::numeric_limits<std::uint64_t>::max());
  writer.set("i64", std::numeric_limits<std::int64_t>::min());
  writer.set("f64", 1e300);
  writer.set("strings", std::vector<std::string>{"", "one", "two"});
  writer.set("floats", std::vector<float>{1.0F, -2.0F});
  writer.set("flags", std::vector<bool>{true, false, true});
  writer.set("bytes", std::vector<std::uint8_t>{});
  writer.set("longs", std::vector<std::int64_t>{-5});
  writer.add_tensor("a", BlockType::f32, {2, 3}, bytes_of(24, 1));
  writer.add_tensor("b", BlockType::q8_0, {1, 2, 32}, bytes_of(68, 50));
  writer.add_tensor("c", BlockType::i8, {5}, bytes_of(5, 9));
  return writer;
}

std::shared_ptr<const GgufFile> round_trip(const GgufWriter& writer) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "model.gguf";
  const Status written = writer.write(path);
  EXPECT_TRUE(written) << (written ? "" : written.error().message);
  auto file = GgufFile::open(path);  // the mapping outlives the directory
  EXPECT_TRUE(file) << (file ? "" : file.error().message);
  return file ? *file : nullptr;
}

TEST(Gguf, ReadsBackEveryTypeOfValue) {
  const auto file = round_trip(every_type());
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(file->metadata().size(), 18U);
  EXPECT_EQ(*file->get_string("general.architecture"), "gsa");
  EXPECT_EQ(*file->get_int("u8"), 200);
  EXPECT_EQ(*file->get_int("i8"), -100);
  EXPECT_EQ(*file->get_int("u16"), 60000);
  EXPECT_EQ(*file->get_int("i16"), -30000);
  EXPECT_EQ(*file->get_int("u32"), 4000000000);
  EXPECT_EQ(*file->get_int("i32"), -2000000000);
  EXPECT_EQ(*file->get_float("f32"), 0.5);
  EXPECT_EQ(*file->get_bool("yes"), true);
  EXPECT_EQ(*file->get_string("text"), std::string("a\0b", 3));
  EXPECT_EQ(*file->get_int("i64"), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(*file->get_float("f64"), 1e300);
  EXPECT_THAT(**file->get_array<std::string>("strings"), ElementsAre("", "one", "two"));
  EXPECT_THAT(**file->get_array<float>("floats"), ElementsAre(1.0F, -2.0F));
  EXPECT_THAT(**file->get_array<bool>("flags"), ElementsAre(true, false, true));
  EXPECT_TRUE((*file->get_array<std::uint8_t>("bytes"))->empty());
  EXPECT_THAT(**file->get_array<std::int64_t>("longs"), ElementsAre(-5));
}

TEST(Gguf, ReadsBackTensorsSlowestDimensionFirst) {
  const auto file = round_trip(every_type());
  ASSERT_NE(file, nullptr);
  ASSERT_EQ(file->tensors().size(), 3U);
  const GgufTensor* b = file->find_tensor("b");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->type, BlockType::q8_0);
  EXPECT_THAT(b->shape, ElementsAre(1, 2, 32));
  ASSERT_EQ(b->data.size(), 68U);
  EXPECT_EQ(b->data[0], std::byte{50});
  EXPECT_EQ(file->find_tensor("c")->data.size(), 5U);
  EXPECT_EQ(file->find_tensor("d"), nullptr);
}

TEST(Gguf, AlignsTensorsAsAsked) {
  GgufWriter writer;
  writer.set("general.alignment", std::uint32_t(256));
  writer.add_tensor("a", BlockType::f32, {1}, bytes_of(4, 1));
  writer.add_tensor("b", BlockType::f32, {1}, bytes_of(4, 2));
  const auto file = round_trip(writer);
  ASSERT_NE(file, nullptr);
  for (const GgufTensor& tensor : file->tensors()) {
    // Mappings start at pages.
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data.data()) % 256, 0U) << tensor.name;
  }
}

TEST(Gguf, HoldsAVocabularyWithoutTensors) {
  GgufWriter writer;
  writer.set("k", 1);
  const auto file = round_trip(writer);
  ASSERT_NE(file, nullptr);
  EXPECT_TRUE(file->tensors().empty());
}

TEST(Gguf, ReadsVersionTwo) {
  const TemporaryDirectory directory;
  ASSERT_TRUE(every_type().write(directory.path() / "v3"));
  std::string bytes = read_text(directory.path() / "v3");
  bytes[4] = 2;
  EXPECT_TRUE(GgufFile::open(directory.file("v2", bytes)));
}

TEST(Gguf, LookUpsTellAbsentFromWrongType) {
  const auto file = round_trip(every_type());
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(file->get_int("none").error().code, ErrorCode::not_found);
  EXPECT_EQ(*file->get_int("none", 7), 7);
  EXPECT_EQ(*file->get_float("none", 0.5), 0.5);
  EXPECT_EQ(*file->get_bool("none", true), true);
  EXPECT_EQ(*file->get_string("none", "x"), "x");
  EXPECT_EQ(*file->get_array<float>("none"), nullptr);
  EXPECT_EQ(file->get_int("text", 7).error().message,
            "key 'text' is of type string, expected an integer");
  EXPECT_EQ(file->get_int("yes").error().code, ErrorCode::malformed);
  EXPECT_EQ(file->get_int("u64").error().message,
            "key 'u64' is 18446744073709551615, expected less than 2^63");
  EXPECT_EQ(file->get_float("u8").error().code, ErrorCode::malformed);
  EXPECT_EQ(file->get_bool("u8").error().code, ErrorCode::malformed);
  EXPECT_EQ(file->get_string("strings").error().message,
            "key 'strings' is of type array of string, expected string");
  EXPECT_EQ(file->get_array<float>("strings").error().message,
            "key 'strings' is of type array of string, expected array of f32");
}

TEST(GgufWriter, GivesTheSameBytesForTheSameInput) {
  const TemporaryDirectory directory;
  ASSERT_TRUE(every_type().write(directory.path() / "1"));
  ASSERT_TRUE(every_type().write(directory.path() / "2"));
  EXPECT_EQ(read_text(directory.path() / "1"), read_text(directory.path() / "2"));
}

TEST(GgufWriter, SettingAKeyAgainReplacesItsValue) {
  GgufWriter writer;
  writer.set("k", 1);
  writer.set("k", 2);
  EXPECT_EQ(*round_trip(writer)->get_int("k"), 2);
}

TEST(GgufWriter, ReportsProgressUpToOne) {
  const TemporaryDirectory directory;
  std::vector<float> fractions;
  ASSERT_TRUE(every_type().write(directory.path() / "f", [&](float fraction) {
    fractions.push_back(fraction);
    return true;
  }));
  ASSERT_EQ(fractions.size(), 3U);
  EXPECT_LT(fractions[0], fractions[1]);
  EXPECT_EQ(fractions[2], 1.0F);
}

TEST(GgufWriter, LeavesTheOldFileWhenCancelled) {
  const TemporaryDirectory directory;
  const auto path = directory.file("f", "old");
  const Status status = every_type().write(path, [](float) { return false; });
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::cancelled);
  EXPECT_EQ(read_text(path), "old");
  EXPECT_THAT(directory.names(), ElementsAre("f"));
}

TEST(GgufWriter, PassesOnAProducersError) {
  const TemporaryDirectory directory;
  GgufWriter writer;
  writer.add_tensor("w", BlockType::f32, {1}, []() -> Result<std::vector<std::byte>> {
    return Error{ErrorCode::io, "disk gone"};
  });
  const Status status = writer.write(directory.path() / "f");
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "tensor 'w': disk gone");
  EXPECT_TRUE(directory.names().empty());
}

TEST(GgufWriter, RefusesWhatNoReaderWouldTake) {
  const TemporaryDirectory directory;
  const auto message_of = [&](auto&& fill) {
    GgufWriter writer;
    fill(writer);
    const Status status = writer.write(directory.path() / "f");
    EXPECT_EQ(status ? ErrorCode::internal : status.error().code, ErrorCode::invalid_argument);
    return status ? std::string("no error") : status.error().message;
  };
  const auto tensor = [](std::string name, BlockType type, std::vector<std::int64_t> shape,
                         std::size_t bytes) {
    return [=](GgufWriter& w) { w.add_tensor(name, type, shape, bytes_of(bytes, 0)); };
  };
  EXPECT_THAT(message_of(tensor("w", BlockType::f32, {2}, 4)),
              HasSubstr("gave 4 bytes, expected 8"));
  EXPECT_THAT(message_of(tensor("w", BlockType::f32, {}, 4)), HasSubstr("has 0 dimensions"));
  EXPECT_THAT(message_of(tensor("w", BlockType::f32, {1, 1, 1, 1, 1}, 4)),
              HasSubstr("has 5 dimensions"));
  EXPECT_THAT(message_of(tensor("w", BlockType::f32, {-1}, 4)), HasSubstr("dimension of -1"));
  EXPECT_THAT(message_of(tensor("w", BlockType::q4_0, {1, 33}, 4)), HasSubstr("multiple of 32"));
  EXPECT_THAT(message_of(tensor("w", BlockType::f32, {1LL << 40, 1LL << 40}, 4)),
              HasSubstr("2^63 elements"));
  EXPECT_THAT(message_of(tensor("w", BlockType::i8, {(1LL << 62) + 32}, 4)),
              HasSubstr("2^62 bytes"));
  EXPECT_THAT(message_of(tensor("w", static_cast<BlockType>(16), {256}, 4)),
              HasSubstr("type 16 (iq2_xxs)"));
  EXPECT_THAT(message_of(tensor("", BlockType::f32, {1}, 4)),
              HasSubstr("has 0 bytes, expected 1 to 63"));
  EXPECT_THAT(message_of(tensor(std::string(64, 'n'), BlockType::f32, {1}, 4)),
              HasSubstr("has 64 bytes"));
  EXPECT_THAT(message_of([&](GgufWriter& w) {
                tensor("w", BlockType::f32, {1}, 4)(w);
                tensor("w", BlockType::f32, {1}, 4)(w);
              }),
              HasSubstr("added twice"));
  EXPECT_THAT(message_of([](GgufWriter& w) { w.set("", 1); }), HasSubstr("has 0 bytes"));
  EXPECT_THAT(message_of([](GgufWriter& w) { w.set("general.alignment", 32); }),
              HasSubstr("is of type i32"));
  EXPECT_THAT(message_of([](GgufWriter& w) { w.set("general.alignment", std::uint32_t(24)); }),
              HasSubstr("is 24, expected a power of two"));
  EXPECT_TRUE(directory.names().empty());
}

}  // namespace
}  // namespace runnel
