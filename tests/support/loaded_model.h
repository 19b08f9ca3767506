// SPDX-License-Identifier: Apache-2.0
// Model files on disk for tests, in a folder of their own.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "runnel/model.h"
#include "runtime/io/gguf.h"
#include "tests/support/random_model.h"

namespace runnel::test {

/// A new empty folder under the system's temporary one, removed with all it holds when this object
/// dies.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

/// Writes `model` as a GGUF file, without a tokenizer unless `add_keys` sets its keys. Throws on
/// error.
void write_gguf(const RandomModel& model, const std::filesystem::path& file,
                const std::function<void(GgufWriter&)>& add_keys = {});

/// `model` through a file and Model::load. Throws on error.
std::shared_ptr<const Model> load_model(const RandomModel& model, const std::string& device = "cpu",
                                        int threads = 1);

}  // namespace runnel::test
