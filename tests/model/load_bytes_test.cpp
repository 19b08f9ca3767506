// SPDX-License-Identifier: Apache-2.0
// Models from memory and from descriptors: the same model as from the file, and nothing of the caller's is needed later.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <memory>
#include <vector>

#include "runnel/generation.h"
#include "runtime/io/gguf_parts.h"
#include "tests/support/chat_model.h"
#include "tests/support/temporary_directory.h"

namespace runnel::test {
namespace {

using ::testing::HasSubstr;

std::vector<std::byte> read_all(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

class LoadBytes : public ::testing::TestWithParam<const char*> {
 protected:
  LoadBytes() { write_chat_model(file_); }

  ModelOptions options() const { return {.device = GetParam(), .threads = 1}; }
  static std::string story(const std::shared_ptr<const Model>& model) {
    auto session = Session::create(model);
    const auto prompt = model->encode("Once upon a time");
    EXPECT_TRUE(session && prompt && session->prefill(*prompt));
    const auto told = generate(*session, {.max_tokens = 16});
    EXPECT_TRUE(told);
    return told ? told->text : "";
  }
  void expect_same(const Result<std::shared_ptr<const Model>>& model) {
    ASSERT_TRUE(model) << model.error().message;
    const auto from_file = Model::load(file_, options());
    ASSERT_TRUE(from_file) << from_file.error().message;
    EXPECT_EQ((*model)->info().fingerprint, (*from_file)->info().fingerprint);
    EXPECT_EQ((*model)->info().parameters, (*from_file)->info().parameters);
    EXPECT_EQ(story(*model), story(*from_file));
  }
  // The file behind `before` other bytes and before others.
  std::filesystem::path inside_archive(std::size_t before) {
    const std::vector<std::byte> bytes = read_all(file_);
    const auto path = folder_ / "archive";
    std::ofstream out(path, std::ios::binary);
    out << std::string(before, 'x');
    out.write(reinterpret_cast<const char*>(bytes.data()),
              static_cast<std::streamsize>(bytes.size()));
    out << "end";
    size_ = bytes.size();
    return path;
  }

  TemporaryDirectory folder_;
  std::filesystem::path file_ = folder_ / "m.gguf";
  std::size_t size_ = 0;
};

TEST_P(LoadBytes, NeedsThemUntilItReturnsOnly) {
  const std::vector<std::byte> bytes = read_all(file_);
  for (const std::size_t shift : {0U, 1U, 4U}) {
    // Pages that go away: a later look would be a crash.
    const std::size_t room = bytes.size() + shift;
    void* pages = ::mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(pages, MAP_FAILED);
    std::byte* const given = static_cast<std::byte*>(pages) + shift;
    std::memcpy(given, bytes.data(), bytes.size());
    const auto model = Model::load_bytes(std::span(given, bytes.size()), options());
    ASSERT_EQ(::munmap(pages, room), 0);
    expect_same(model);
  }
}

TEST_P(LoadBytes, ReadsAPartOfAnOpenFile) {
  for (const std::size_t before : {0U, 4096U, 8U, 5U, 10'000U}) {
    const auto archive = inside_archive(before);
    const int descriptor = ::open(archive.c_str(), O_RDONLY | O_CLOEXEC);
    ASSERT_GE(descriptor, 0);
    const auto model = Model::load_descriptor(descriptor, before, size_, options());
    EXPECT_EQ(::lseek(descriptor, 0, SEEK_CUR), 0) << "the position is the caller's";
    ::close(descriptor);
    expect_same(model);
  }
}

TEST_P(LoadBytes, ALengthOfNothingIsTheRestOfTheFile) {
  const int descriptor = ::open(file_.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(descriptor, 0);
  const auto model = Model::load_descriptor(descriptor, 0, 0, options());
  ::close(descriptor);
  expect_same(model);
}

TEST_P(LoadBytes, AnExceptionOfTheCallbackPassesThrough) {
  struct Thrown {};
  const auto load = [this](float least) {
    ModelOptions throwing = options();
    throwing.progress = [least](float share) -> bool {
      if (share >= least) throw Thrown();
      return true;
    };
    return Model::load(file_, throwing);
  };
  EXPECT_THROW(static_cast<void>(load(0)), Thrown) << "while the file is read";
  EXPECT_THROW(static_cast<void>(load(1)), Thrown) << "while weights are packed";
  EXPECT_TRUE(Model::load(file_, options()));
}

INSTANTIATE_TEST_SUITE_P(Devices, LoadBytes, ::testing::Values("cpu", "reference", "auto"));

void expect_refused(const Result<std::shared_ptr<const Model>>& model, ErrorCode code,
                    const std::string& says) {
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, code) << model.error().message;
  EXPECT_THAT(model.error().message, HasSubstr(says));
}

TEST(LoadDescriptor, RefusesByNameWhatIsNoFile) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  expect_refused(Model::load_descriptor(ends[0], 0, 0), ErrorCode::io,
                 "descriptor " + std::to_string(ends[0]) + ": is a pipe, expected a regular file");
  ::close(ends[0]);
  ::close(ends[1]);
  expect_refused(Model::load_descriptor(ends[0], 0, 0), ErrorCode::io,
                 "descriptor " + std::to_string(ends[0]) + ": cannot stat");
  const TemporaryDirectory folder;
  const int directory = ::open(folder.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  expect_refused(Model::load_descriptor(directory, 0, 0), ErrorCode::io, "is a directory");
  ::close(directory);
}

TEST(LoadDescriptor, RefusesBytesOutsideOfTheFile) {
  const TemporaryDirectory folder;
  write_chat_model(folder / "m.gguf");
  const auto size = static_cast<std::uint64_t>(std::filesystem::file_size(folder / "m.gguf"));
  const int descriptor = ::open((folder / "m.gguf").c_str(), O_RDONLY | O_CLOEXEC);
  for (const auto& [offset, length] : {std::pair{size + 1, std::uint64_t{0}},
                                       {std::uint64_t{1}, size},
                                       {size, ~std::uint64_t{0}}}) {
    expect_refused(Model::load_descriptor(descriptor, offset, length), ErrorCode::invalid_argument,
                   "lie outside the file");
  }
  expect_refused(Model::load_descriptor(descriptor, size, 0), ErrorCode::malformed, "GGUF");
  expect_refused(Model::load_descriptor(descriptor, 0, size - 1), ErrorCode::malformed,
                 "descriptor ");
  ::close(descriptor);
}

TEST(LoadBytesOf, RefusesByNameAPartOfASplitModel) {
  const TemporaryDirectory folder;
  write_chat_model(folder / "m.gguf", [](GgufWriter& writer) {
    writer.set(gguf::kSplitNumberKey, std::uint16_t{0});
    writer.set(gguf::kSplitCountKey, std::uint16_t{3});
    writer.set(gguf::kSplitTensorsKey, std::int32_t{40});
  });
  expect_refused(Model::load_bytes(read_all(folder / "m.gguf")), ErrorCode::unsupported,
                 "bytes in memory: is part 1 of 3 of a split model");
}

TEST(LoadBytesOf, RefusesWhatIsNoModel) {
  expect_refused(Model::load_bytes({}), ErrorCode::malformed, "bytes in memory: is no GGUF file");
  const std::vector<std::byte> zeros(100);
  expect_refused(Model::load_bytes(zeros), ErrorCode::malformed, "is no GGUF file");
  std::vector<std::byte> bytes(100);
  expect_refused(Model::load_bytes(bytes, {.threads = -1}), ErrorCode::invalid_argument, "threads");
}

}  // namespace
}  // namespace runnel::test
