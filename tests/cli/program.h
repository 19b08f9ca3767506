// SPDX-License-Identifier: Apache-2.0
// Runs the built command line program as a user would: arguments and standard input in, both
// outputs and exit code out.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace runnel::test {

struct Outcome {
  int code = -1;  // exit code, or 128 + the signal that ended it
  std::string out;
  std::string err;
};

/// Runs `runnel` with `arguments`; `input` is its standard input. Fails the test if it takes longer than a minute.
Outcome run_program(const std::vector<std::string>& arguments, const std::string& input = "");

/// A model file with a byte-level tokenizer and ChatML, random weights: 264 entries, two layers.
/// Made once, read-only.
const std::string& chat_model();

/// The same weights without a tokenizer.
const std::string& bare_model();

/// A directory for the files of all tests of this process.
const std::filesystem::path& scratch();

}  // namespace runnel::test
