// SPDX-License-Identifier: Apache-2.0
// Every truncation and every flipped bit of a small file is an answer, never a crash; and no file,
// however it lies, makes a reader take more memory than 16 times its size plus 1 MiB.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "runtime/base/byte_reader.h"
#include "runtime/io/gguf.h"
#include "runtime/io/safetensors.h"
#include "runtime/io/snapshot_file.h"
#include "tests/io/allocation_meter.h"
#include "tests/io/sample_files.h"

namespace runnel {
namespace {

using test::RawBytes;
using test::RawGguf;

using Reader = std::function<bool(std::span<const std::byte>)>;  // whether the file was taken

// Reads every byte that a successful parse hands out, so that sanitizers see a view that leaves the file.
unsigned touch(std::span<const std::byte> bytes) {
  unsigned sum = 0;
  for (const std::byte b : bytes) sum += static_cast<unsigned>(b);
  return sum;
}

bool read_gguf(std::span<const std::byte> bytes) {
  const auto file = GgufFile::parse(bytes);
  if (!file) return false;
  unsigned sum = 0;
  for (const GgufTensor& tensor : (*file)->tensors()) sum += touch(tensor.data);
  return sum < ~0U;
}

bool read_safetensors(std::span<const std::byte> bytes) {
  const auto checkpoint = SafetensorsCheckpoint::parse(bytes);
  if (!checkpoint) return false;
  for (const std::string_view name : checkpoint->names()) {
    if (!to_f32(*checkpoint->find(name))) return false;
  }
  return true;
}

bool read_snapshot_bytes(std::span<const std::byte> bytes) {
  return snapshot_from_bytes(bytes).has_value();
}

bool read_snapshot_unverified(std::span<const std::byte> bytes) {
  return snapshot_from_bytes(bytes, Checksums::ignore).has_value();
}

std::string sample_snapshot_file() {
  return std::string(as_text(snapshot_to_bytes(test::sample_snapshot())));
}

// A copy of exactly this size on the heap: reading past it is an error that sanitizers see.
std::vector<std::byte> exact(std::string_view text) {
  return {as_bytes(text).begin(), as_bytes(text).end()};
}

void read_all_truncations(const std::string& file, const Reader& read) {
  ASSERT_TRUE(read(exact(file)));
  for (std::size_t size = 0; size < file.size(); ++size) {
    EXPECT_FALSE(read(exact(file.substr(0, size)))) << "cut to " << size << " bytes";
  }
}

int read_all_bit_flips(const std::string& file, const Reader& read) {
  int taken = 0;
  for (std::size_t bit = 0; bit < file.size() * 8; ++bit) {
    std::string damaged = file;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    taken += read(exact(damaged)) ? 1 : 0;
  }
  return taken;
}

TEST(Truncation, OfAGgufFileIsAnError) { read_all_truncations(test::sample_gguf(), read_gguf); }

TEST(Truncation, OfASafetensorsFileIsAnError) {
  read_all_truncations(test::sample_safetensors(), read_safetensors);
}

TEST(Truncation, OfASnapshotIsAnError) {
  read_all_truncations(sample_snapshot_file(), read_snapshot_bytes);
  read_all_truncations(sample_snapshot_file(), read_snapshot_unverified);
}

TEST(BitFlip, InAGgufFileNeverCrashes) { read_all_bit_flips(test::sample_gguf(), read_gguf); }

TEST(BitFlip, InASafetensorsFileNeverCrashes) {
  read_all_bit_flips(test::sample_safetensors(), read_safetensors);
}

TEST(BitFlip, InASnapshotIsAlwaysDetected) {
  EXPECT_EQ(read_all_bit_flips(sample_snapshot_file(), read_snapshot_bytes), 0);
}

TEST(BitFlip, InASnapshotNeverCrashesWithoutChecksums) {
  read_all_bit_flips(sample_snapshot_file(), read_snapshot_unverified);
}

// ---- memory ----

constexpr std::uint64_t kAllowance = 1 << 20;
constexpr std::uint64_t kFactor = 16;
constexpr int kMany = 60'000;  // items: megabytes, so that the allowance does not hide the factor

void expect_bounded(const std::string& file, const Reader& read, bool taken) {
  const std::vector<std::byte> bytes = exact(file);
  const std::uint64_t before = test::allocated_bytes();
  EXPECT_EQ(read(bytes), taken);
  EXPECT_LE(test::allocated_bytes() - before, kFactor * bytes.size() + kAllowance);
}

std::string distinct(int i) {  // the shortest distinct names there are
  std::string name;
  do {
    name += static_cast<char>('0' + i % 64);
    i /= 64;
  } while (i > 0);
  return name;
}

TEST(Memory, OfTheMeterIsSeen) {
  const std::uint64_t before = test::allocated_bytes();
  const std::vector<int> thousand(1000);
  EXPECT_GE(test::allocated_bytes() - before, thousand.size() * sizeof(int));
}

TEST(Memory, OfAGgufFileWithManySmallKeysIsBounded) {
  RawGguf f(0, kMany);
  for (int i = 0; i < kMany; ++i) f.key(distinct(i), 0).put(std::uint8_t(0));
  expect_bounded(f.text(), read_gguf, true);
}

TEST(Memory, OfAGgufFileWithManyEmptyStringsIsBounded) {
  RawGguf f(0, 1);
  f.key("k", 9)
      .put(std::uint32_t(8))
      .put(std::uint64_t(kMany))
      .raw(std::string(std::size_t(kMany) * 8, '\0'));
  expect_bounded(f.text(), read_gguf, true);
}

TEST(Memory, OfAGgufFileWithManyEmptyArraysIsBounded) {
  RawGguf f(0, kMany);
  for (int i = 0; i < kMany; ++i) f.key(distinct(i), 9).put(std::uint32_t(8)).put(std::uint64_t(0));
  expect_bounded(f.text(), read_gguf, true);
}

TEST(Memory, OfAGgufFileWithManySmallTensorsIsBounded) {
  RawGguf f(kMany, 0);
  for (int i = 0; i < kMany; ++i) f.tensor(distinct(i), {1}, 24, std::uint64_t(i) * 32);
  expect_bounded(f.with_data(std::size_t(kMany) * 32), read_gguf, true);
}

TEST(Memory, OfAGgufFileThatEndsInItsTensorTableIsBounded) {
  RawGguf f(kMany, 0);
  for (int i = 0; i < kMany; ++i) f.tensor(distinct(i), {1}, 24, std::uint64_t(i) * 32);
  expect_bounded(f.text(), read_gguf, false);
}

TEST(Memory, OfAGgufFileThatPromisesWhatItLacksIsBounded) {
  const std::string padding(std::size_t(kMany) * 8, '\0');
  for (const std::uint64_t count :
       {std::uint64_t(kMany), std::uint64_t(1) << 40, ~std::uint64_t(0)}) {
    for (const std::uint32_t type : {0U, 7U, 8U, 12U}) {
      RawGguf f(0, 1);
      f.key("k", 9).put(type).put(count).raw(padding.substr(0, 1000));
      expect_bounded(f.text(), read_gguf, false);
    }
  }
}

TEST(Memory, OfASafetensorsFileWithManyTensorsIsBounded) {
  std::string header = "{";
  for (int i = 0; i < kMany; ++i) {
    header += (i > 0 ? ",\"n" : "\"n") + std::to_string(i) +
              R"(":{"dtype":"U8","shape":[],"data_offsets":[0,0]})";
  }
  // A scalar has a byte.
  expect_bounded(test::raw_safetensors(header + "}", 0), read_safetensors, false);
  std::string empty = "{";
  for (int i = 0; i < kMany; ++i) {
    empty += (i > 0 ? ",\"n" : "\"n") + std::to_string(i) +
             R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  }
  expect_bounded(test::raw_safetensors(empty + "}", 0), read_safetensors, true);
}

TEST(Memory, OfASafetensorsHeaderThatIsNoneIsBounded) {
  const std::size_t many = kMany;
  std::string names = "{";
  for (int i = 0; i < kMany; ++i) names += "\"" + std::to_string(i) + "\":{},";
  std::string metadata = R"({"__metadata__":{)";
  for (int i = 0; i < kMany; ++i) metadata += "\"" + std::to_string(i) + "\":\"\",";
  for (const std::string& header :
       {std::string(many, '['), std::string(many, '{'), "{\"" + std::string(many, 'x'), names,
        metadata, R"({"w":{"dtype":")" + std::string(many, 'F'),
        R"({"w":{"shape":[)" + std::string(many, '1')}) {
    expect_bounded(test::raw_safetensors(header, 0), read_safetensors, false);
  }
}

TEST(Memory, OfASnapshotIsBounded) {
  SnapshotData data = test::sample_snapshot();
  data.state.resize(kMany);
  data.stop_carry.resize(kMany);
  data.sampler.logit_bias.resize(kMany);
  expect_bounded(std::string(as_text(snapshot_to_bytes(data))), read_snapshot_bytes, true);
}

TEST(Memory, OfAnEncodedSnapshotIsBounded) {
  SnapshotData data;
  // Per cent of the state that is not zero: ever better to pack.
  for (const int filled : {100, 50, 20, 5}) {
    data.state.assign(kMany, 0.0F);
    for (int i = 0; i < kMany * filled / 100; ++i) {
      data.state[static_cast<std::size_t>(i)] = 1.0F / static_cast<float>(i + 1);
    }
    for (const StateEncoding kind : {StateEncoding::f32, StateEncoding::f16, StateEncoding::int8}) {
      const auto bytes = snapshot_to_bytes(data, {.state = kind, .compress = true});
      expect_bounded(std::string(as_text(bytes)), read_snapshot_bytes, true);
    }
  }
}

TEST(Memory, OfASnapshotThatClaimsMoreNumbersThanItPacksIsBounded) {
  SnapshotData data;
  data.state.assign(kMany, 0.25F);
  data.state[7] = 1.0F;
  const std::string bytes(
      as_text(snapshot_to_bytes(data, {.state = StateEncoding::f16, .compress = true})));
  std::uint64_t state_at = 0;
  std::memcpy(&state_at, bytes.data() + 40 + 32 + 8, sizeof state_at);
  for (const std::uint64_t floats : {std::uint64_t(kMany) * 15, std::uint64_t(1) << 40,
                                     ~std::uint64_t(0) / 2, ~std::uint64_t(0)}) {
    for (const std::uint32_t kind : {0U, 1U, 2U}) {
      std::string lying = test::patched(bytes, static_cast<std::size_t>(state_at), kind);
      lying = test::patched(lying, static_cast<std::size_t>(state_at) + 4, 1U);
      lying = test::patched(lying, static_cast<std::size_t>(state_at) + 8, floats);
      expect_bounded(lying, read_snapshot_unverified, false);
    }
  }
}

}  // namespace
}  // namespace runnel
