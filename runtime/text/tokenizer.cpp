// SPDX-License-Identifier: Apache-2.0
// Chooses the kind of tokenizer that a model file asks for; decoding of sequences.
#include "runtime/text/tokenizer.h"

#include "runtime/base/text.h"
#include "runtime/base/try.h"
#include "runtime/text/byte_bpe.h"
#ifdef RUNNEL_SENTENCEPIECE
#include "runtime/text/sentencepiece_tokenizer.h"
#endif
#include "runtime/text/world_tokenizer.h"

namespace runnel {

Result<std::vector<TokenId>> Tokenizer::encode(std::string_view text, bool parse_special) const {
  const ByteRange all{0, text.size()};
  return encode_marked(text, std::span(&all, parse_special ? 0U : 1U));
}

std::string Tokenizer::decode(std::span<const TokenId> tokens, bool show_special) const {
  std::string text;
  bool first = true;
  for (const TokenId token : tokens) {
    text += piece(token, first, show_special);
    // Text after a shown special token was encoded on its own, so it opens there again.
    first = is_special(token) && (first || show_special);
  }
  return text;
}

Result<std::shared_ptr<const Tokenizer>> Tokenizer::from_gguf(const GgufFile& file,
                                                              std::int32_t vocab_size) {
  constexpr const char* kModel = "tokenizer.ggml.model";
  if (file.find(kModel) == nullptr) {
    if (file.find("tokenizer.ggml.tokens") != nullptr)
      return fail(ErrorCode::malformed, kModel, ": is missing, but the file has tokens");
    return std::shared_ptr<const Tokenizer>();
  }
  RUNNEL_TRY(const std::string name, file.get_string(kModel));
  const std::string_view model = name;
  if (model == "gpt2") return ByteBpe::from_gguf(file, vocab_size);
  if (model == "rwkv") return WorldTokenizer::from_gguf(file, vocab_size);
  if (model == "none" || model == "no_vocab") return std::shared_ptr<const Tokenizer>();
  if (model == "llama") {
#ifdef RUNNEL_SENTENCEPIECE
    return SentencepieceTokenizer::from_gguf(file, vocab_size);
#else
    return fail(ErrorCode::unsupported, kModel,
                ": 'llama' is a sentencepiece tokenizer, and this build has none (CMake option "
                "RUNNEL_SENTENCEPIECE)");
#endif
  }
  return fail(ErrorCode::unsupported, kModel, ": ", in_quotes(model),
              " is not one of gpt2, llama, rwkv");
}

}  // namespace runnel
