// SPDX-License-Identifier: Apache-2.0
// Cuts text into the words that byte-level BPE merges within, by the regular expression of a named pre-tokenizer.
#pragma once

#include <memory>
#include <string_view>

#include "runnel/result.h"

namespace runnel {

/// A compiled rule. Immutable and thread-safe; each thread cuts with its own Cutter.
class PreTokenizer {
 public:
  /// @param name  as `tokenizer.ggml.pre` has it: "gpt-2", and "olmo" and "mpt", which are the same; one that keeps
  ///              every digit apart first ("smollm", "starcoder", "refact", "command-r", "codeshell"); "default", which
  ///              keeps punctuation apart and digits in threes; or "qwen2", which keeps digits apart, too, and is for
  ///              text in normal form C.
  /// @return unsupported for another name.
  static Result<PreTokenizer> create(std::string_view name);

  PreTokenizer(PreTokenizer&&) noexcept;
  PreTokenizer& operator=(PreTokenizer&&) noexcept;
  ~PreTokenizer();

  /// Whether text is to be brought into Unicode's normal form C before it is cut.
  bool wants_nfc() const;

  /// The expression of "qwen2" as tokenizer.json spells it.
  static std::string_view qwen2_expression();

  /// Goes over one text.
  class Cutter {
   public:
    ~Cutter();
    Cutter(const Cutter&) = delete;
    Cutter& operator=(const Cutter&) = delete;

    /// Starts on `text`, valid UTF-8 that outlives the cutting.
    void start(std::string_view text);
    /// The next word; empty at the end of the text. Every byte of the text is in exactly one word.
    Result<std::string_view> next();

   private:
    friend class PreTokenizer;
    struct Impl;
    explicit Cutter(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
  };
  /// @return out_of_memory if PCRE2 has none.
  Result<std::unique_ptr<Cutter>> cutter() const;

 private:
  struct Impl;
  explicit PreTokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace runnel
