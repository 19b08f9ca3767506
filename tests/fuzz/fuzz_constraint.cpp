// SPDX-License-Identifier: Apache-2.0
// Any text as a schema, an expression, a list of choices, a grammar or tags, for a vocabulary of bytes: it compiles or is refused, in
// time; what compiles can be followed.
//   input: kind, strictness, the text
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "runtime/constraint/grammar_engine.h"

namespace {

using namespace runnel;

void require(bool condition) {
  if (!condition) std::abort();
}

const GrammarCompiler& compiler() {
  static const std::shared_ptr<const GrammarCompiler> made = [] {
    GrammarVocabulary bytes;
    for (int b = 0; b < 256; ++b) bytes.pieces.emplace_back(1, static_cast<char>(b));
    bytes.pieces.emplace_back();
    bytes.ends = {256};
    auto compiled = runnel_grammar_engine()->compiler(bytes);
    require(compiled.has_value());
    return *compiled;
  }();
  return *made;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 3 || size > 2048) return 0;
  const ConstraintSource source{.kind = static_cast<ConstraintKind>(data[0] % 6),
                                .text = std::string(data + 2, data + size),
                                .strict = data[1] % 2 != 0};
  const auto compiled = compiler().compile(source);
  if (!compiled) {
    require(!compiled.error().message.empty());
    return 0;
  }
  auto matcher = (*compiled)->begin();
  require(matcher.has_value());
  std::vector<std::uint32_t> words((257 + 31) / 32);
  for (std::size_t step = 0; step < 24; ++step) {
    if (!(*matcher)->mask(words)) return 0;
    std::vector<TokenId> may;
    for (TokenId t = 0; t < 256; ++t) {
      const auto at = static_cast<std::size_t>(t);
      if (((words[at / 32] >> (at % 32)) & 1U) != 0) may.push_back(t);
    }
    if (may.empty()) {
      require((*matcher)->complete());
      return 0;
    }
    require((*matcher)->accept(may[data[step % size] % may.size()]));
  }
  return 0;
}
