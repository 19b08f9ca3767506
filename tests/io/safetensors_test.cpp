// SPDX-License-Identifier: Apache-2.0
// Safetensors checkpoints: tensors by name over one file or several, converted exactly.
#include "runtime/io/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "runtime/base/byte_reader.h"
#include "tests/io/sample_files.h"
#include "tests/support/temporary_directory.h"

namespace runnel {
namespace {

using test::RawBytes;
using test::TemporaryDirectory;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string one_tensor(std::string_view name, std::string_view dtype, std::size_t count,
                       const std::string& bytes) {
  const std::string header = "{\"" + std::string(name) + "\":{\"dtype\":\"" + std::string(dtype) +
                             "\",\"shape\":[" + std::to_string(count) + "],\"data_offsets\":[0," +
                             std::to_string(bytes.size()) + "]}}";
  return RawBytes().put(std::uint64_t(header.size())).raw(header).raw(bytes).text();
}

template <class T>
std::vector<float> converted(std::string_view dtype, std::initializer_list<T> values) {
  RawBytes bytes;
  for (const T value : values) bytes.put(value);
  const std::string file = one_tensor("x", dtype, values.size(), bytes.text());
  const auto checkpoint = SafetensorsCheckpoint::parse(as_bytes(file));
  if (!checkpoint) return {};
  const auto out = to_f32(*checkpoint->find("x"));
  return out ? *out : std::vector<float>{};
}

TEST(Safetensors, FindsTensorsWithTheirShapes) {
  const std::string file = test::sample_safetensors();
  const auto checkpoint = SafetensorsCheckpoint::parse(as_bytes(file));
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_THAT(checkpoint->names(), ElementsAre("b", "s", "w"));
  const SafetensorsTensor* w = checkpoint->find("w");
  ASSERT_NE(w, nullptr);
  EXPECT_EQ(w->type, SafetensorsType::f32);
  EXPECT_THAT(w->shape, ElementsAre(2, 3));
  EXPECT_EQ(w->elements(), 6);
  EXPECT_EQ(w->bytes.size(), 24U);
  EXPECT_TRUE(checkpoint->find("s")->shape.empty());
  EXPECT_EQ(checkpoint->find("s")->elements(), 1);
  EXPECT_EQ(checkpoint->find("none"), nullptr);
}

TEST(Safetensors, ConvertsEveryTypeToFloat) {
  EXPECT_THAT(converted<float>("F32", {1.5F, -0.25F}), ElementsAre(1.5F, -0.25F));
  EXPECT_THAT(converted<double>("F64", {1e-3, 1e300}), ElementsAre(1e-3F, INFINITY));
  EXPECT_THAT(converted<std::uint16_t>("F16", {0x3c00, 0xc000, 0x0001}),
              ElementsAre(1.0F, -2.0F, 0x1p-24F));
  EXPECT_THAT(converted<std::uint16_t>("BF16", {0x3f80, 0xc000}), ElementsAre(1.0F, -2.0F));
  EXPECT_THAT(converted<std::int8_t>("I8", {-128, 127}), ElementsAre(-128.0F, 127.0F));
  EXPECT_THAT(converted<std::uint8_t>("U8", {255}), ElementsAre(255.0F));
  EXPECT_THAT(converted<std::uint8_t>("BOOL", {1, 0}), ElementsAre(1.0F, 0.0F));
  EXPECT_THAT(converted<std::int16_t>("I16", {-300}), ElementsAre(-300.0F));
  EXPECT_THAT(converted<std::uint16_t>("U16", {60000}), ElementsAre(60000.0F));
  EXPECT_THAT(converted<std::int32_t>("I32", {-70000}), ElementsAre(-70000.0F));
  EXPECT_THAT(converted<std::uint32_t>("U32", {70000}), ElementsAre(70000.0F));
  EXPECT_THAT(converted<std::int64_t>("I64", {-(1LL << 40)}), ElementsAre(-0x1p40F));
  EXPECT_THAT(converted<std::uint64_t>("U64", {1ULL << 63}), ElementsAre(0x1p63F));
}

TEST(Safetensors, HoldsTensorsWithoutElements) {
  const std::string file =
      test::raw_safetensors(R"({"e":{"dtype":"F32","shape":[0,4],"data_offsets":[0,0]}})", 0);
  const auto checkpoint = SafetensorsCheckpoint::parse(as_bytes(file));
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_TRUE(to_f32(*checkpoint->find("e"))->empty());
}

TEST(SafetensorsCheckpoint, OpensAFileOrADirectoryWithOne) {
  const TemporaryDirectory directory;
  const auto file = directory.file("model.safetensors", test::sample_safetensors());
  for (const auto& path : {file, directory.path()}) {
    const auto checkpoint = SafetensorsCheckpoint::open(path);
    ASSERT_TRUE(checkpoint) << checkpoint.error().message;
    EXPECT_EQ(checkpoint->names().size(), 3U);
  }
}

TEST(SafetensorsCheckpoint, JoinsTheShardsOfAnIndex) {
  const TemporaryDirectory directory;
  directory.file("model-00001-of-00002.safetensors", one_tensor("a", "U8", 2, "\1\2"));
  directory.file("model-00002-of-00002.safetensors", one_tensor("b", "U8", 1, "\3"));
  directory.file("model.safetensors.index.json",
                 R"({"metadata":{"total_size":3,"more":[{"x":null}]},"weight_map":{
                     "a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"}})");
  auto checkpoint = SafetensorsCheckpoint::open(directory.path());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  const SafetensorsCheckpoint moved = *std::move(checkpoint);
  EXPECT_THAT(moved.names(), ElementsAre("a", "b"));
  EXPECT_THAT(*to_f32(*moved.find("a")), ElementsAre(1.0F, 2.0F));
  EXPECT_THAT(*to_f32(*moved.find("b")), ElementsAre(3.0F));
}

TEST(SafetensorsCheckpoint, SaysWhatADirectoryLacks) {
  const TemporaryDirectory directory;
  const auto checkpoint = SafetensorsCheckpoint::open(directory.path());
  EXPECT_EQ(checkpoint.error().code, ErrorCode::not_found);
  EXPECT_THAT(checkpoint.error().message,
              HasSubstr("neither model.safetensors.index.json nor model.safetensors"));
}

TEST(SafetensorsCheckpoint, RefusesWrongIndexes) {
  const auto message_of = [](std::string_view index) {
    const TemporaryDirectory directory;
    directory.file("s.safetensors", one_tensor("a", "U8", 1, "\1"));
    directory.file("model.safetensors.index.json", index);
    const auto checkpoint = SafetensorsCheckpoint::open(directory.path());
    return checkpoint ? std::string("no error") : checkpoint.error().message;
  };
  EXPECT_EQ(message_of(R"({"weight_map":{"a":"s.safetensors"}})"), "no error");
  for (const char* shard :
       {"../s.safetensors", "/etc/x.safetensors", "..", "", "d/s.safetensors", ".safetensors",
        "d\\\\s.safetensors", "s.bin", "s.safetensors\\u0000.safetensors"}) {
    EXPECT_THAT(message_of("{\"weight_map\":{\"a\":\"" + std::string(shard) + "\"}}"),
                HasSubstr("expected the plain name of a .safetensors file"))
        << shard;
  }
  EXPECT_THAT(message_of(R"({"weight_map":{"b":"s.safetensors"}})"),
              HasSubstr("'b' is not in 's.safetensors'"));
  EXPECT_THAT(message_of(R"({"weight_map":{"a":"t.safetensors"}})"),
              HasSubstr("t.safetensors: cannot open"));
  EXPECT_THAT(message_of(R"({"weight_map":{"a":"s.safetensors","a":"s.safetensors"}})"),
              HasSubstr("'a' twice"));
  EXPECT_THAT(message_of(R"({"weight_map":{"a":5}})"), HasSubstr("'a' is no string"));
  EXPECT_THAT(message_of(R"({"weight_map":{"a":{}}})"), HasSubstr("'a' is no string"));
  EXPECT_THAT(message_of(R"({"weight_map":5})"), HasSubstr("'weight_map' is no object"));
  EXPECT_THAT(message_of(R"({"weight_map":{},"weight_map":{}})"), HasSubstr("'weight_map' twice"));
  EXPECT_THAT(message_of("{}"), HasSubstr("lacks weight_map"));
  EXPECT_THAT(message_of("[]"), HasSubstr("is no object"));
  EXPECT_THAT(message_of(R"({"weight_map":{"a":)"), HasSubstr("no valid JSON at byte"));
  EXPECT_THAT(message_of("{\"x\":" + std::string(100000, '[')), HasSubstr("nested deeper than 32"));
}

}  // namespace
}  // namespace runnel
