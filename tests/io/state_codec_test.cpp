// SPDX-License-Identifier: Apache-2.0
// States kept smaller: what is exact stays exact, what is rounded stays near, hostile bytes cost nothing.
#include "runtime/io/state_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "runtime/io/snapshot_file.h"
#include "tests/support/compare.h"
#include "tests/support/random.h"

namespace runnel {
namespace {

using ::testing::HasSubstr;

constexpr double kHalfTolerance = 6e-4;  // a mantissa of 11 bits, of the largest value
constexpr double kInt8Tolerance = 5e-3;  // half a step of 1/127

constexpr SnapshotEncoding kAll[] = {{StateEncoding::f32, false},  {StateEncoding::f32, true},
                                     {StateEncoding::f16, false},  {StateEncoding::f16, true},
                                     {StateEncoding::int8, false}, {StateEncoding::int8, true}};

std::vector<float> sample_state(std::size_t floats = 5003) {
  test::Random random(7);
  return random.normals(floats, 2.0F);
}

TEST(StateCodec, KeepsEveryBitOfF32) {
  std::vector<float> state = sample_state();
  state[3] = -0.0F;
  state[4] = std::nanf("3");
  state[5] = std::numeric_limits<float>::denorm_min();
  for (const bool compress : {false, true}) {
    const auto back = decode_state(encode_state(state, {StateEncoding::f32, compress}));
    ASSERT_TRUE(back) << back.error().message;
    ASSERT_EQ(back->size(), state.size());
    EXPECT_EQ(std::memcmp(back->data(), state.data(), state.size() * sizeof(float)), 0);
  }
}

TEST(StateCodec, RoundsF16AndInt8WithinTheirSteps) {
  const std::vector<float> state = sample_state();
  for (const bool compress : {false, true}) {
    const auto half = decode_state(encode_state(state, {StateEncoding::f16, compress}));
    const auto eighth = decode_state(encode_state(state, {StateEncoding::int8, compress}));
    ASSERT_TRUE(half && eighth);
    EXPECT_LT(test::max_relative_error(*half, state), kHalfTolerance);
    EXPECT_LT(test::max_relative_error(*eighth, state), kInt8Tolerance);
  }
}

TEST(StateCodec, IsSmallerAsPromised) {
  const std::vector<float> state = sample_state(64 * 1000);
  const auto bytes = [&](StateEncoding kind, bool compress) {
    return encode_state(state, {kind, compress}).size();
  };
  EXPECT_EQ(bytes(StateEncoding::f32, false), 16 + 64 * 1000 * 4U);
  EXPECT_EQ(bytes(StateEncoding::f16, false), 16 + 64 * 1000 * 2U);
  EXPECT_EQ(bytes(StateEncoding::int8, false), 16 + 68 * 1000U);
  for (const SnapshotEncoding& encoding : kAll) {
    if (!encoding.compress) continue;
    EXPECT_LT(bytes(encoding.state, true), bytes(encoding.state, false));
  }
}

TEST(StateCodec, FallsBackToF32WhereRoundingWouldLoseAValue) {
  for (const float value : {NAN, INFINITY, 1e38F}) {
    std::vector<float> state = sample_state(100);
    state[17] = value;
    for (const StateEncoding kind : {StateEncoding::f16, StateEncoding::int8}) {
      const std::vector<std::byte> bytes = encode_state(state, {kind, false});
      EXPECT_EQ(state_encoding(bytes)->state, StateEncoding::f32);
      EXPECT_EQ(std::memcmp(decode_state(bytes)->data(), state.data(), 400), 0);
    }
  }
}

TEST(StateCodec, ReadsBackEmptyAllZeroAndTinyStates) {
  for (const std::size_t floats : {std::size_t(0), std::size_t(1), std::size_t(1) << 20}) {
    const std::vector<float> state(floats, floats == 1 ? 1e-40F : 0.0F);
    for (const SnapshotEncoding& encoding : kAll) {
      const auto back = decode_state(encode_state(state, encoding));
      ASSERT_TRUE(back) << back.error().message;
      EXPECT_EQ(back->size(), floats);
      EXPECT_LE(test::max_relative_error(*back, state), floats == 1 ? 1.0 : 0.0);
    }
  }
}

TEST(StateCodec, RefusesWhatDoesNotFit) {
  const std::vector<std::byte> good = encode_state(sample_state(640), {StateEncoding::f32, true});
  const auto with = [&](std::size_t at, std::uint8_t value) {
    std::vector<std::byte> bytes = good;
    bytes[at] = std::byte{value};
    return decode_state(bytes);
  };
  EXPECT_EQ(with(0, 3).error().code, ErrorCode::unsupported);
  EXPECT_EQ(with(4, 2).error().code, ErrorCode::unsupported);
  EXPECT_THAT(with(14, 1).error().message, HasSubstr("claims"));  // 2^48 floats
  EXPECT_THAT(with(8, 0x81).error().message, HasSubstr("unpack"));
  EXPECT_EQ(with(20, 0xff).error().code, ErrorCode::malformed);
  for (std::size_t size = 0; size < good.size(); size += 37) {
    EXPECT_FALSE(decode_state(std::span(good).first(size)));
  }
}

TEST(SnapshotFile, KeepsEncodedStatesAndContexts) {
  SnapshotData data;
  data.position = 3;
  data.state = sample_state(64 * 200);
  data.recent_tokens = {1, 2, 3};
  data.context = {.messages = {{"system", "Be brief."}, {"user", ""}}, .tokens = {1, 2, 3}};
  for (const SnapshotEncoding& encoding : kAll) {
    const std::vector<std::byte> bytes = snapshot_to_bytes(data, encoding);
    const auto read = snapshot_from_bytes(bytes);
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->context, data.context);
    EXPECT_LT(test::max_relative_error(read->state, data.state), kInt8Tolerance);
    const auto outline = outline_snapshot(bytes);
    ASSERT_TRUE(outline);
    EXPECT_EQ(outline->encoding, encoding);
    EXPECT_EQ(outline->minor, 1);
    for (const SnapshotSection& section : outline->sections) EXPECT_TRUE(section.intact);
  }
}

TEST(SnapshotFile, KeepsTheInitialStateExactHoweverTheStateIsEncoded) {
  SnapshotData data;
  data.state = sample_state(64 * 20);
  data.initial_state = sample_state(64 * 20);
  data.initial_state[7] = 3.0F;
  for (const SnapshotEncoding& encoding : kAll) {
    const auto read = snapshot_from_bytes(snapshot_to_bytes(data, encoding));
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->initial_state, data.initial_state);
  }
}

TEST(SnapshotFile, RefusesAnInitialStateOfAnotherSizeThanTheState) {
  SnapshotData data;
  data.state = sample_state(10);
  data.initial_state = sample_state(9);
  const auto read = snapshot_from_bytes(snapshot_to_bytes(data));
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().message,
            "section 13 (initial state): has 9 numbers, expected 10 as the state");
}

TEST(SnapshotFile, RefusesAContextOfAnotherLengthThanTheState) {
  SnapshotData data;
  data.position = 3;
  data.context.tokens = {1, 2};
  const auto read = snapshot_from_bytes(snapshot_to_bytes(data));
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().message, HasSubstr("context"));
}

}  // namespace
}  // namespace runnel
