// SPDX-License-Identifier: Apache-2.0
// What llama.cpp thinks of texts, for tests/bench/eval, which compiles this beside a built llama.cpp.
//
// Usage: llama_scores MODEL.gguf THREADS CONTEXT. Reads requests "BEFORE BYTES\n" and then as many bytes of text, the first
// BEFORE of which are given; answers each with "TOKENS NATS GREEDY\n": the tokens behind what is given, minus the logarithm
// of their probability, and whether each of them is the most likely one (1 or 0). Texts of special tokens become those
// tokens. What a text shares with the one before is not computed again.
#include <llama.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

constexpr int kBatch = 512;  // tokens; their logits take 512 * vocabulary * 4 bytes

struct Score {
  std::size_t tokens = 0;
  double nats = 0.0;
  bool greedy = true;
};

class Scorer {
 public:
  Scorer(llama_model* model, llama_context* context)
      : vocab_(llama_model_get_vocab(model)),
        context_(context),
        batch_(llama_batch_init(kBatch, 0, 1)) {}
  ~Scorer() { llama_batch_free(batch_); }
  Scorer(const Scorer&) = delete;
  Scorer& operator=(const Scorer&) = delete;

  std::vector<llama_token> encode(const std::string& text) const {
    std::vector<llama_token> tokens(text.size() + 8);
    const int count = llama_tokenize(vocab_, text.data(), static_cast<int>(text.size()),
                                     tokens.data(), static_cast<int>(tokens.size()),
                                     /*add_special=*/true, /*parse_special=*/true);
    tokens.resize(static_cast<std::size_t>(std::max(count, 0)));
    return tokens;
  }

  /// False if llama.cpp failed, or there is nothing to score.
  bool score(const std::string& text, std::size_t before, Score& result) {
    const std::vector<llama_token> tokens = encode(text);
    const std::vector<llama_token> given = encode(text.substr(0, before));
    const std::size_t first = shared(tokens, given);
    if (first == 0 || first >= tokens.size()) return false;
    std::size_t at = std::min(shared(tokens, read_), first - 1);
    llama_memory_seq_rm(llama_get_memory(context_), 0, static_cast<llama_pos>(at), -1);
    read_.assign(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(at));
    for (; at + 1 < tokens.size(); at += static_cast<std::size_t>(batch_.n_tokens)) {
      batch_.n_tokens = static_cast<int>(std::min<std::size_t>(kBatch, tokens.size() - 1 - at));
      for (int i = 0; i < batch_.n_tokens; ++i) {
        const std::size_t place = at + static_cast<std::size_t>(i);
        batch_.token[i] = tokens[place];
        batch_.pos[i] = static_cast<llama_pos>(place);
        batch_.n_seq_id[i] = 1;
        batch_.seq_id[i][0] = 0;
        batch_.logits[i] = place + 1 >= first;
      }
      if (llama_decode(context_, batch_) != 0) return false;
      for (int i = 0; i < batch_.n_tokens; ++i) {
        if (batch_.logits[i] != 0) add(i, tokens[at + static_cast<std::size_t>(i) + 1], result);
      }
    }
    read_.assign(tokens.begin(), tokens.end() - 1);
    return true;
  }

 private:
  static std::size_t shared(const std::vector<llama_token>& a, const std::vector<llama_token>& b) {
    const std::size_t most = std::min(a.size(), b.size());
    return static_cast<std::size_t>(
        std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(most), b.begin()).first -
        a.begin());
  }

  void add(int row, llama_token next, Score& result) const {
    const float* logits = llama_get_logits_ith(context_, row);
    const int count = llama_vocab_n_tokens(vocab_);
    const float most = *std::max_element(logits, logits + count);
    double sum = 0.0;
    for (int i = 0; i < count; ++i) sum += static_cast<double>(std::exp(logits[i] - most));
    result.nats += std::log(sum) - static_cast<double>(logits[next] - most);
    result.greedy = result.greedy && logits[next] == most;
    ++result.tokens;
  }

  const llama_vocab* vocab_;
  llama_context* context_;
  llama_batch batch_;
  std::vector<llama_token> read_;  // what the context holds
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: llama_scores MODEL.gguf THREADS CONTEXT\n");
    return 2;
  }
  llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  llama_backend_init();
  llama_model* model = llama_model_load_from_file(argv[1], llama_model_default_params());
  if (model == nullptr) {
    std::fprintf(stderr, "llama_scores: llama.cpp cannot load %s\n", argv[1]);
    return 1;
  }
  llama_context_params params = llama_context_default_params();
  params.n_threads = params.n_threads_batch = std::atoi(argv[2]);
  params.n_ctx = static_cast<uint32_t>(std::atoi(argv[3]));
  params.n_batch = params.n_ubatch = kBatch;
  llama_context* context = llama_init_from_model(model, params);
  if (context == nullptr) {
    std::fprintf(stderr, "llama_scores: llama.cpp cannot make a context of %s tokens\n", argv[3]);
    return 1;
  }
  Scorer scorer(model, context);
  std::size_t before = 0;
  std::size_t bytes = 0;
  while (std::scanf("%zu %zu", &before, &bytes) == 2 && std::getchar() == '\n') {
    std::string text(bytes, '\0');
    Score result;
    if (std::fread(text.data(), 1, bytes, stdin) != bytes || before > bytes ||
        !scorer.score(text, before, result)) {
      std::fprintf(stderr, "llama_scores: a text of %zu bytes cannot be scored\n", bytes);
      return 1;
    }
    std::printf("%zu %.9g %d\n", result.tokens, result.nats, result.greedy ? 1 : 0);
    std::fflush(stdout);
  }
  return 0;
}
