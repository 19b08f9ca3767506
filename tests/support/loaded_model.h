// SPDX-License-Identifier: Apache-2.0
// Random models through files.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "runnel/model.h"
#include "runtime/io/gguf.h"
#include "tests/support/random_model.h"

namespace runnel::test {

/// Writes `model` as a GGUF file, without a tokenizer unless `add_keys` sets its keys. Throws on error.
void write_gguf(const RandomModel& model, const std::filesystem::path& file,
                const std::function<void(GgufWriter&)>& add_keys = {});

/// `model` through a file and Model::load. Throws on error.
std::shared_ptr<const Model> load_model(const RandomModel& model, const std::string& device = "cpu",
                                        int threads = 1);

}  // namespace runnel::test
