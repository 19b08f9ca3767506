// SPDX-License-Identifier: Apache-2.0
// Writes the first inputs of each fuzzer into DIRECTORY/<fuzzer>/: small valid files.
//   fuzz_seeds DIRECTORY
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

#include "runtime/base/byte_reader.h"
#include "runtime/io/snapshot_file.h"
#include "tests/io/sample_files.h"

namespace {

namespace fs = std::filesystem;

bool write(const fs::path& directory, std::string_view name, std::string_view bytes) {
  std::error_code ignored;
  fs::create_directories(directory, ignored);
  std::ofstream out(directory / name, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return out.good();
}

bool write_gguf(const fs::path& directory) {
  runnel::test::RawGguf aligned(2, 1);
  aligned.key("general.alignment", 4).put(64U);
  aligned.tensor("q", {256, 1, 1, 1}, 12, 0).tensor("h", {2}, 1, 192);
  return write(directory, "sample", runnel::test::sample_gguf()) &&
         write(directory, "aligned", aligned.with_data(196, 64));
}

bool write_safetensors(const fs::path& directory) {
  return write(directory, "sample", runnel::test::sample_safetensors()) &&
         write(
             directory, "index",
             R"({"metadata":{"total_size":36},"weight_map":{"w":"a.safetensors","b":"b.safetensors"}})");
}

bool write_snapshots(const fs::path& directory) {
  const auto text = [](const runnel::SnapshotData& data) {
    return std::string(runnel::as_text(runnel::snapshot_to_bytes(data)));
  };
  return write(directory, "sample", text(runnel::test::sample_snapshot())) &&
         write(directory, "empty", text({}));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: fuzz_seeds DIRECTORY\n");
    return 2;
  }
  const fs::path directory = argv[1];
  const bool written = write_gguf(directory / "fuzz_gguf") &&
                       write_safetensors(directory / "fuzz_safetensors") &&
                       write_snapshots(directory / "fuzz_snapshot");
  if (!written) std::fprintf(stderr, "%s: cannot be written\n", argv[1]);
  return written ? 0 : 1;
}
