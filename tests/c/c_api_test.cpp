// SPDX-License-Identifier: Apache-2.0
// The C API against the C++ one: the same tokens, and errors instead of crashes for wrong calls.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "runnel/generation.h"
#include "runnel/runnel.h"
#include "runnel/scoring.h"
#include "runtime/c/support.h"
#include "runtime/model/sampling_keys.h"
#include "tests/support/loaded_model.h"
#include "tests/support/random_model.h"
#include "tests/support/temporary_directory.h"

namespace runnel {
namespace {

constexpr std::uint64_t kTokens = 24;
const std::vector<TokenId> kPrompt = {3, 14, 15, 92, 65};

class CApi : public ::testing::Test {
 protected:
  void SetUp() override {
    random_ = test::make_random_model(test::small_positional_config(), {}, 7);
    test::write_gguf(random_, file_);
    ASSERT_EQ(runnel_model_load(file_.c_str(), nullptr, &model_, &error_), RUNNEL_OK)
        << error_.message;
    ASSERT_EQ(runnel_session_create(model_, &session_, &error_), RUNNEL_OK) << error_.message;
  }
  void TearDown() override {
    runnel_session_free(session_);
    runnel_model_free(model_);
  }

  test::TemporaryDirectory folder_;
  std::string file_ = (folder_ / "model.gguf").string();
  test::RandomModel random_;
  runnel_error error_{};
  runnel_model* model_ = nullptr;
  runnel_session* session_ = nullptr;
};

// What runnel_generate() gives after kPrompt; empty if it failed.
std::vector<TokenId> generated(runnel_session* session, const runnel_generation_options& options) {
  runnel_error error{};
  std::vector<TokenId> tokens(kTokens, -7);
  runnel_generation_result result;
  RUNNEL_INIT(runnel_generation_result, result);
  result.tokens = tokens.data();
  result.token_capacity = tokens.size();
  EXPECT_EQ(runnel_session_reset(session, &error), RUNNEL_OK) << error.message;
  EXPECT_EQ(
      runnel_session_prefill(session, kPrompt.data(), kPrompt.size(), nullptr, nullptr, &error),
      RUNNEL_OK)
      << error.message;
  EXPECT_EQ(runnel_generate(session, &options, &result, &error), RUNNEL_OK) << error.message;
  tokens.resize(std::min(result.token_count, tokens.size()));
  return tokens;
}

TEST_F(CApi, DryIsTheOneOfCpp) {
  auto model = Model::load(file_);
  ASSERT_TRUE(model);
  auto session = Session::create(*model);
  ASSERT_TRUE(session && session->prefill(kPrompt));
  SamplingOptions sampling;
  sampling.dry_multiplier = 50.0F;
  sampling.dry_base = 1.5F;
  sampling.dry_allowed_length = 1;
  sampling.dry_range = 20;
  sampling.dry_breakers = {"x"};
  const auto expected = generate(*session, {.sampling = sampling, .max_tokens = kTokens});
  ASSERT_TRUE(expected) << expected.error().message;

  runnel_generation_options options;
  RUNNEL_INIT(runnel_generation_options, options);
  options.max_tokens = kTokens;
  const std::vector<TokenId> greedy = generated(session_, options);
  options.dry_multiplier = 50.0F;
  options.dry_base = 1.5F;
  options.dry_allowed_length = 1;
  options.dry_range = 20;
  const char* const breakers[] = {"x"};
  options.dry_breakers = breakers;
  options.dry_breaker_count = 1;
  EXPECT_EQ(generated(session_, options), expected->tokens);
  EXPECT_NE(greedy, expected->tokens) << "the case is not one in which DRY matters";

  bool known = false;
  runnel_generation_options last;
  RUNNEL_INIT(runnel_generation_options, last);
  ASSERT_EQ(runnel_session_last_sampling(session_, &last, &known, &error_), RUNNEL_OK);
  EXPECT_TRUE(known);
  EXPECT_EQ(last.dry_multiplier, 50.0F);
  EXPECT_EQ(last.dry_range, 20);
  ASSERT_EQ(last.dry_breaker_count, 1U);
  EXPECT_STREQ(last.dry_breakers[0], "x");

  const char* const nothing[] = {nullptr};
  options.dry_breakers = nothing;
  EXPECT_EQ(runnel_generate(session_, &options, nullptr, &error_), RUNNEL_INVALID_ARGUMENT);
  options.dry_breaker_count = 0;
  options.dry_base = 0.5F;
  EXPECT_EQ(runnel_generate(session_, &options, nullptr, &error_), RUNNEL_INVALID_ARGUMENT);
  EXPECT_NE(std::string(error_.message).find("dry_base is 0.5"), std::string::npos);
}

TEST_F(CApi, TheChainIsTheOneOfCpp) {
  auto model = Model::load(file_);
  ASSERT_TRUE(model);
  const SamplingOptions sampling{.temperature = 1.0F,
                                 .logit_bias = {{5, 1.0F}},
                                 .seed = 3,
                                 .top_n_sigma = 2.0F,
                                 .typical_p = 0.9F,
                                 .xtc_probability = 0.5F,
                                 .xtc_threshold = 0.01F,
                                 .dynatemp_range = 0.5F,
                                 .dynatemp_exponent = 2.0F,
                                 .mirostat_tau = 4.0F,
                                 .mirostat_eta = 0.25F,
                                 .no_repeat_ngram = 2,
                                 .order = {ChainSampler::typical, ChainSampler::top_n_sigma,
                                           ChainSampler::xtc, ChainSampler::temperature}};
  SamplingOptions mirostat = sampling;
  mirostat.mirostat = 2;
  mirostat.order.clear();
  for (const SamplingOptions& one : {sampling, mirostat}) {
    auto session = Session::create(*model);
    ASSERT_TRUE(session && session->prefill(kPrompt));
    const auto expected = generate(*session, {.sampling = one, .max_tokens = kTokens});
    ASSERT_TRUE(expected) << expected.error().message;
    runnel_generation_options options;
    RUNNEL_INIT(runnel_generation_options, options);
    options.max_tokens = kTokens;
    options.temperature = 1.0F;
    options.seed = 3;
    const runnel_logit_bias bias{5, 1.0F};
    options.logit_bias = &bias;
    options.logit_bias_count = 1;
    options.top_n_sigma = 2.0F;
    options.typical_p = 0.9F;
    options.xtc_probability = 0.5F;
    options.xtc_threshold = 0.01F;
    options.dynatemp_range = 0.5F;
    options.dynatemp_exponent = 2.0F;
    options.mirostat = one.mirostat;
    options.mirostat_tau = 4.0F;
    options.mirostat_eta = 0.25F;
    options.no_repeat_ngram = 2;
    options.samplers = one.mirostat == 0 ? "typ_p;top_n_sigma;xtc;temperature" : nullptr;
    EXPECT_EQ(generated(session_, options), expected->tokens);
    bool known = false;
    runnel_generation_options last;
    RUNNEL_INIT(runnel_generation_options, last);
    ASSERT_EQ(runnel_session_last_sampling(session_, &last, &known, &error_), RUNNEL_OK);
    EXPECT_EQ(last.mirostat, one.mirostat);
    EXPECT_EQ(last.dynatemp_exponent, 2.0F);
    if (one.mirostat == 0) {
      EXPECT_STREQ(last.samplers, options.samplers);
    } else {
      EXPECT_EQ(last.samplers, nullptr);
    }
  }
}

TEST_F(CApi, RefusesTextsOfSamplingThatAreNone) {
  runnel_generation_options options;
  RUNNEL_INIT(runnel_generation_options, options);
  options.max_tokens = 1;
  const std::vector<TokenId> any = generated(session_, options);
  options.samplers = "top_k;top_q";
  EXPECT_EQ(runnel_generate(session_, &options, nullptr, &error_), RUNNEL_INVALID_ARGUMENT);
  EXPECT_NE(std::string(error_.message).find("'top_q'"), std::string::npos) << error_.message;
  options.samplers = nullptr;
  const char* const texts[] = {nullptr};
  options.banned_texts = texts;
  options.banned_text_count = 1;
  EXPECT_EQ(runnel_generate(session_, &options, nullptr, &error_), RUNNEL_INVALID_ARGUMENT);
  options.banned_text_count = 0;
  const runnel_text_bias bias{nullptr, 1.0F};
  options.text_bias = &bias;
  options.text_bias_count = 1;
  EXPECT_EQ(runnel_generate(session_, &options, nullptr, &error_), RUNNEL_INVALID_ARGUMENT);
}

TEST_F(CApi, AProgramOlderThanDryIsServedAsBefore) {
  constexpr std::size_t kBefore = offsetof(runnel_generation_options, dry_multiplier);
  runnel_generation_options options;
  std::memset(&options, 0xff, sizeof(options));  // what lies behind such a program's struct
  runnel_generation_options_init(&options, kBefore);
  options.max_tokens = kTokens;
  EXPECT_EQ(options.size, kBefore);
  runnel_generation_options newer;
  RUNNEL_INIT(runnel_generation_options, newer);
  newer.max_tokens = kTokens;
  EXPECT_EQ(generated(session_, options), generated(session_, newer));
  ASSERT_EQ(runnel_model_sampling(model_, &options, &error_), RUNNEL_OK) << error_.message;
  EXPECT_EQ(options.dry_range, -1) << "written beyond the struct's size";
}

TEST_F(CApi, SamplingOfTheModelIsWhatItsFileRecommends) {
  runnel_generation_options options;
  RUNNEL_INIT(runnel_generation_options, options);
  EXPECT_EQ(options.dry_multiplier, 0.0F);
  EXPECT_EQ(options.dry_breaker_count, SamplingOptions().dry_breakers.size());
  options.seed = 9;
  options.max_tokens = 3;
  ASSERT_EQ(runnel_model_sampling(model_, &options, &error_), RUNNEL_OK) << error_.message;
  EXPECT_EQ(options.temperature, default_sampling().temperature);
  EXPECT_EQ(options.repetition_penalty, default_sampling().repetition_penalty);

  const std::string file = (folder_ / "keys.gguf").string();
  test::write_gguf(random_, file, [](GgufWriter& w) {
    for (const char* key : {"min_p=0.25", "dry_multiplier=0.75", "dry_sequence_breakers=[\"a\"]"})
      EXPECT_TRUE(set_sampling_key(key, w));
  });
  runnel_model* model = nullptr;
  ASSERT_EQ(runnel_model_load(file.c_str(), nullptr, &model, &error_), RUNNEL_OK);
  ASSERT_EQ(runnel_model_sampling(model, &options, &error_), RUNNEL_OK) << error_.message;
  EXPECT_EQ(options.min_p, 0.25F);
  EXPECT_EQ(options.dry_multiplier, 0.75F);
  EXPECT_EQ(options.repetition_penalty, 1.0F) << "not named by the file, so off";
  ASSERT_EQ(options.dry_breaker_count, 1U);
  EXPECT_STREQ(options.dry_breakers[0], "a");
  EXPECT_EQ(options.seed, 9U);
  EXPECT_EQ(options.max_tokens, 3U);
  runnel_model_free(model);
  EXPECT_EQ(runnel_model_sampling(nullptr, &options, &error_), RUNNEL_INVALID_ARGUMENT);
}

TEST_F(CApi, LoadsWithFewerWindowSlots) {
  runnel_model_info whole, info;
  RUNNEL_INIT(runnel_model_info, whole);
  ASSERT_EQ(runnel_model_get_info(model_, &whole, &error_), RUNNEL_OK);
  EXPECT_EQ(whole.window_slots, 6);
  EXPECT_EQ(whole.file_window_slots, 6);
  runnel_model_options options;
  RUNNEL_INIT(runnel_model_options, options);
  EXPECT_EQ(options.window_slots, RUNNEL_FILE_WINDOW);
  options.window_slots = 1;
  runnel_model* small = nullptr;
  ASSERT_EQ(runnel_model_load(file_.c_str(), &options, &small, &error_), RUNNEL_OK)
      << error_.message;
  RUNNEL_INIT(runnel_model_info, info);
  ASSERT_EQ(runnel_model_get_info(small, &info, &error_), RUNNEL_OK);
  EXPECT_EQ(info.window_slots, 1);
  EXPECT_EQ(info.file_window_slots, 6);
  EXPECT_LT(info.state_bytes, whole.state_bytes);
  EXPECT_NE(info.fingerprint, whole.fingerprint);
  runnel_model_free(small);
  for (const std::int64_t window : {std::int64_t{-1}, std::int64_t{7}, std::int64_t{1} << 40}) {
    options.window_slots = window;
    runnel_model* none = nullptr;
    EXPECT_EQ(runnel_model_load(file_.c_str(), &options, &none, &error_), RUNNEL_INVALID_ARGUMENT);
    EXPECT_EQ(none, nullptr);
    EXPECT_NE(std::string(error_.message).find("expected 0 to 6"), std::string::npos);
  }
}

TEST_F(CApi, TakesTheStructOfAProgramBuiltBeforeWindowsWereChosen) {
  runnel_model_options options;
  runnel_model_options_init(&options, offsetof(runnel_model_options, window_slots));
  options.window_slots = 1;  // not a part of that program's struct
  runnel_model* model = nullptr;
  ASSERT_EQ(runnel_model_load(file_.c_str(), &options, &model, &error_), RUNNEL_OK)
      << error_.message;
  runnel_model_info info;
  runnel_model_info_init(&info, offsetof(runnel_model_info, window_slots));
  info.window_slots = -9;
  ASSERT_EQ(runnel_model_get_info(model, &info, &error_), RUNNEL_OK);
  EXPECT_EQ(info.window_slots, -9);
  EXPECT_EQ(info.vocab_size, 96);
  runnel_model_free(model);
}

TEST_F(CApi, GeneratesWhatCppGenerates) {
  auto model = Model::load(file_);
  ASSERT_TRUE(model);
  auto session = Session::create(*model);
  ASSERT_TRUE(session && session->prefill(kPrompt));
  const auto expected = generate(
      *session, {.sampling = {.temperature = 0.9F, .top_k = 20, .seed = 5}, .max_tokens = kTokens});
  ASSERT_TRUE(expected) << expected.error().message;

  ASSERT_EQ(
      runnel_session_prefill(session_, kPrompt.data(), kPrompt.size(), nullptr, nullptr, &error_),
      RUNNEL_OK);
  runnel_generation_options options;
  RUNNEL_INIT(runnel_generation_options, options);
  options.temperature = 0.9F;
  options.top_k = 20;
  options.seed = 5;
  options.max_tokens = kTokens;
  std::vector<TokenId> tokens(kTokens, -7);
  runnel_generation_result result;
  RUNNEL_INIT(runnel_generation_result, result);
  result.tokens = tokens.data();
  result.token_capacity = tokens.size();
  ASSERT_EQ(runnel_generate(session_, &options, &result, &error_), RUNNEL_OK) << error_.message;
  EXPECT_EQ(result.token_count, expected->tokens.size());
  EXPECT_EQ(tokens, expected->tokens);
  EXPECT_EQ(result.finish, RUNNEL_FINISH_LENGTH);
}

TEST_F(CApi, ScoresAndAsksForRoomFirst) {
  std::size_t count = 0;
  EXPECT_EQ(
      runnel_session_score(session_, kPrompt.data(), kPrompt.size(), nullptr, 0, &count, &error_),
      RUNNEL_TOO_SMALL);
  EXPECT_EQ(runnel_session_position(session_), 0U) << "nothing was fed";
  std::vector<float> logits(count);
  ASSERT_EQ(runnel_session_score(session_, kPrompt.data(), kPrompt.size(), logits.data(), count,
                                 &count, &error_),
            RUNNEL_OK);
  EXPECT_EQ(runnel_session_position(session_), kPrompt.size());
  std::size_t vocab = 0;
  const float* last = runnel_session_logits(session_, &vocab);
  EXPECT_EQ(std::vector<float>(logits.end() - static_cast<std::ptrdiff_t>(vocab), logits.end()),
            std::vector<float>(last, last + vocab));
}

TEST_F(CApi, AStopFromAnotherThreadEndsAGeneration) {
  ASSERT_EQ(
      runnel_session_prefill(session_, kPrompt.data(), kPrompt.size(), nullptr, nullptr, &error_),
      RUNNEL_OK);
  runnel_stop* stop = nullptr;
  ASSERT_EQ(runnel_stop_create(&stop, &error_), RUNNEL_OK);
  struct Started {
    runnel_stop* stop;
    std::thread thread;
  } started{stop, {}};
  runnel_generation_options options;
  RUNNEL_INIT(runnel_generation_options, options);
  options.max_tokens = UINT64_MAX;
  options.stop = stop;
  options.user = &started;
  options.on_logits = [](float*, size_t, const runnel_token*, size_t count, void* user) {
    auto* s = static_cast<Started*>(user);
    if (count == 2) s->thread = std::thread([s] { runnel_stop_request(s->stop); });
    return true;
  };
  runnel_generation_result result;
  RUNNEL_INIT(runnel_generation_result, result);
  EXPECT_EQ(runnel_generate(session_, &options, &result, &error_), RUNNEL_OK);
  EXPECT_EQ(result.finish, RUNNEL_FINISH_CANCELLED);
  EXPECT_EQ(runnel_session_position(session_), kPrompt.size() + result.token_count);
  started.thread.join();
  runnel_stop_free(stop);
}

TEST_F(CApi, NullsAndBadValuesAreErrorsThatNameThem) {
  EXPECT_EQ(runnel_session_create(nullptr, &session_, &error_), RUNNEL_INVALID_ARGUMENT);
  EXPECT_STREQ(error_.message, "model is null");
  EXPECT_EQ(runnel_session_prefill(session_, nullptr, 4, nullptr, nullptr, &error_),
            RUNNEL_INVALID_ARGUMENT);
  const runnel_token outside = 96;
  EXPECT_EQ(runnel_session_prefill(session_, &outside, 1, nullptr, nullptr, &error_),
            RUNNEL_INVALID_ARGUMENT);
  EXPECT_EQ(runnel_session_prefill(session_, &outside, 1, nullptr, nullptr, nullptr),
            RUNNEL_INVALID_ARGUMENT)
      << "a caller that wants no message";
  EXPECT_EQ(runnel_session_prefill_text(session_, "text", RUNNEL_NUL, false, &error_),
            RUNNEL_UNSUPPORTED)
      << "the file has no tokenizer";
  EXPECT_EQ(runnel_session_position(nullptr), 0U);
  EXPECT_EQ(runnel_session_logits(nullptr, nullptr), nullptr);
}

TEST_F(CApi, ASnapshotOfAnotherModelIsAMismatch) {
  const test::RandomModel other = test::make_random_model(test::small_config(), {}, 8);
  test::write_gguf(other, folder_ / "other.gguf");
  runnel_model* stranger = nullptr;
  runnel_session* session = nullptr;
  runnel_snapshot* snapshot = nullptr;
  ASSERT_EQ(runnel_model_load((folder_ / "other.gguf").c_str(), nullptr, &stranger, &error_),
            RUNNEL_OK);
  ASSERT_EQ(runnel_session_create(stranger, &session, &error_), RUNNEL_OK);
  runnel_model_free(stranger);  // the session keeps it
  ASSERT_EQ(runnel_session_snapshot(session, &snapshot, &error_), RUNNEL_OK);
  EXPECT_EQ(runnel_session_restore(session_, snapshot, &error_), RUNNEL_MISMATCH);
  runnel_snapshot_free(snapshot);
  runnel_session_free(session);
}

TEST(CError, ALongMessageIsCutBetweenCharacters) {
  std::string message;
  for (int i = 0; i < 300; ++i) message += "é";
  runnel_error error{};
  EXPECT_EQ(c::report(RUNNEL_IO, message, &error), RUNNEL_IO);
  EXPECT_EQ(std::string(error.message), message.substr(0, 506))
      << "507 would end inside a character";
}

// The same session in C++ and in C, after kPrompt.
class CApiAfterPrompt : public CApi {
 protected:
  void SetUp() override {
    CApi::SetUp();
    ASSERT_EQ(
        runnel_session_prefill(session_, kPrompt.data(), kPrompt.size(), nullptr, nullptr, &error_),
        RUNNEL_OK);
    auto model = Model::load(file_);
    ASSERT_TRUE(model);
    auto session = Session::create(*model);
    ASSERT_TRUE(session && session->prefill(kPrompt));
    cpp_.emplace(*std::move(session));
  }

  std::optional<Session> cpp_;
};

TEST_F(CApiAfterPrompt, EmbeddingsAreThoseOfCpp) {
  const std::vector<TokenId> text = {5, 6, 7};
  runnel_model_info info;
  RUNNEL_INIT(runnel_model_info, info);
  ASSERT_EQ(runnel_model_get_info(model_, &info, &error_), RUNNEL_OK);
  std::vector<float> made(static_cast<std::size_t>(info.hidden_size));
  const auto embed = [&](std::uint32_t form, std::size_t capacity, std::size_t tokens) {
    return runnel_session_embedding(session_, text.data(), tokens, form, made.data(), capacity,
                                    &error_);
  };
  EXPECT_EQ(embed(0, made.size() - 1, text.size()), RUNNEL_TOO_SMALL);
  ASSERT_EQ(embed(RUNNEL_EMBEDDING_LAST | RUNNEL_EMBEDDING_RAW, made.size(), text.size()),
            RUNNEL_OK)
      << error_.message;
  const auto last = cpp_->embedding(text, {.pooling = Pooling::last, .normalise = false});
  ASSERT_TRUE(last);
  EXPECT_EQ(made, *last);
  ASSERT_EQ(embed(0, made.size(), text.size()), RUNNEL_OK) << error_.message;
  const auto mean = cpp_->embedding(text, {.pooling = Pooling::mean, .normalise = true});
  ASSERT_TRUE(mean);
  EXPECT_EQ(made, *mean);
  EXPECT_EQ(embed(4, made.size(), text.size()), RUNNEL_INVALID_ARGUMENT);
  EXPECT_EQ(embed(0, made.size(), 0), RUNNEL_INVALID_ARGUMENT);
  EXPECT_EQ(runnel_session_position(session_), kPrompt.size());
}

TEST_F(CApiAfterPrompt, ChoicesAreScoredAsInCpp) {
  const std::vector<std::vector<TokenId>> texts = {{1, 2, 3}, {}, {9}};
  std::vector<runnel_choice> choices;
  for (const auto& text : texts) choices.push_back({text.data(), text.size()});
  std::vector<double> made(3, 1.0);
  ASSERT_EQ(runnel_session_score_choices(session_, choices.data(), 3, made.data(), &error_),
            RUNNEL_OK)
      << error_.message;
  const auto expected = score_choices(*cpp_, texts);
  ASSERT_TRUE(expected);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(made[i], (*expected)[i].total());
  EXPECT_EQ(runnel_session_score_choices(session_, choices.data(), 3, nullptr, &error_),
            RUNNEL_INVALID_ARGUMENT);
  EXPECT_EQ(runnel_session_score_choices(session_, nullptr, 0, nullptr, &error_), RUNNEL_OK);
}

TEST_F(CApiAfterPrompt, SeveralAnswersAndTheirLogprobsAreThoseOfCpp) {
  struct Told {
    std::vector<std::string> texts = std::vector<std::string>(3);
    std::vector<float> chosen;
    std::size_t tops = 0;
  } told;
  runnel_generation_options options;
  RUNNEL_INIT(runnel_generation_options, options);
  options.max_tokens = 6;
  options.temperature = 1.5F;
  options.seed = 3;
  options.user = &told;
  options.logprobs = 4;
  options.on_logprobs = [](const runnel_token_logprob* chosen, const runnel_token_logprob*,
                           size_t top_count, void* user) {
    static_cast<Told*>(user)->chosen.push_back(chosen->logprob);
    static_cast<Told*>(user)->tops += top_count;
  };
  std::vector<TokenId> tokens(6);
  runnel_generation_result second;
  RUNNEL_INIT(runnel_generation_result, second);
  second.tokens = tokens.data();
  second.token_capacity = tokens.size();
  runnel_generation_result* const results[] = {nullptr, &second, nullptr};
  ASSERT_EQ(runnel_generate_several(session_, 3, &options, nullptr, results, &error_), RUNNEL_OK)
      << error_.message;
  const auto expected = generate_several(
      *cpp_, 3, {.sampling = {.temperature = 1.5F, .seed = 3}, .max_tokens = 6, .logprobs = 4});
  ASSERT_TRUE(expected);
  ASSERT_EQ(second.token_count, 6U);
  EXPECT_EQ(tokens, (*expected)[1].tokens);
  ASSERT_EQ(told.chosen.size(), 18U);
  EXPECT_EQ(told.tops, 72U);
  for (std::size_t i = 0; i < told.chosen.size(); ++i)  // a token of each answer in turn
    EXPECT_EQ(told.chosen[i], (*expected)[i % 3].logprobs[i / 3].chosen.logprob);

  EXPECT_EQ(runnel_generate_several(session_, 17, &options, nullptr, nullptr, &error_),
            RUNNEL_INVALID_ARGUMENT);
  options.logprobs = 21;
  EXPECT_EQ(runnel_generate(session_, &options, nullptr, &error_), RUNNEL_INVALID_ARGUMENT);
  EXPECT_NE(std::string(error_.message).find("logprobs is 21"), std::string::npos);
  options.logprobs = 1;
  options.on_logprobs = nullptr;
  EXPECT_EQ(runnel_generate(session_, &options, nullptr, &error_), RUNNEL_INVALID_ARGUMENT);
  EXPECT_NE(std::string(error_.message).find("on_logprobs"), std::string::npos);
}

}  // namespace
}  // namespace runnel
