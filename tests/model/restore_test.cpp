// SPDX-License-Identifier: Apache-2.0
// A session that was stopped anywhere, kept and restored goes on bit for bit as one that never
// stopped; sessions of one model do not affect each other.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "runnel/generation.h"
#include "runnel/session.h"
#include "runtime/base/byte_reader.h"
#include "runtime/io/snapshot_data.h"
#include "tests/support/loaded_model.h"
#include "tests/support/random.h"
#include "tests/support/slow.h"
#include "tests/support/temporary_directory.h"

namespace runnel {
namespace {

// Every kind of sampler, the controls with the same.
std::vector<SamplingOptions> samplers() {
  return {
      {},
      {.temperature = 0.7F, .seed = 1},
      {.temperature = 1.3F, .top_k = 5, .seed = 2},
      {.temperature = 1.0F, .top_p = 0.8F, .seed = 3},
      {.temperature = 1.0F, .min_p = 0.1F, .seed = 4},
      {.temperature = 0.9F, .repetition_penalty = 1.3F, .penalty_window = 16, .seed = 5},
      {.temperature = 0.9F, .presence_penalty = 0.6F, .frequency_penalty = 0.4F, .seed = 6},
      {.temperature = 1.0F, .logit_bias = {{3, 4.0F}, {4, -50.0F}}, .seed = 7},
  };
}

// Pieces are fed, then tokens are generated.
struct Script {
  std::vector<std::vector<TokenId>> pieces;
  GenerationOptions generation;
};

Script random_script(test::Random& random, std::int32_t vocab, const SamplingOptions& sampling) {
  Script script;
  for (std::uint64_t piece = 1 + random.below(4); piece > 0; --piece) {
    std::vector<TokenId> tokens(1 + random.below(12));
    for (TokenId& token : tokens)
      token = static_cast<TokenId>(random.below(static_cast<std::uint64_t>(vocab)));
    script.pieces.push_back(std::move(tokens));
  }
  script.generation = {.sampling = sampling, .max_tokens = 24, .ignore_end = true};
  return script;
}

struct Ending {
  std::vector<TokenId> tokens;
  std::shared_ptr<const SnapshotData> everything;
};

Ending ending(Session& session, std::vector<TokenId> tokens) {
  const auto snapshot = session.snapshot();
  EXPECT_TRUE(snapshot);
  return {std::move(tokens), std::make_shared<const SnapshotData>(data_of(*snapshot))};
}

void append(std::vector<TokenId>& all, Session& session, GenerationOptions options,
            std::uint64_t count) {
  options.max_tokens = count;
  const auto more = generate(session, options);
  ASSERT_TRUE(more) << more.error().message;
  all.insert(all.end(), more->tokens.begin(), more->tokens.end());
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// The suite takes fewer than tests/slow/run, fewest on a GPU that is none.
int cuts_of_a_sampler(const std::string& id) {
  const char* wanted = std::getenv("RUNNEL_TEST_CUTS");
  if (wanted != nullptr) return std::atoi(wanted);
  if (test::kSlowBuild) return 7;
  const std::vector<DeviceInfo> all = devices();
  return std::any_of(all.begin(), all.end(),
                     [&](const DeviceInfo& device) {
                       return device.id == id && device.name.find("llvmpipe") != std::string::npos;
                     })
             ? 10
             : 125;
}

class RestoreTest : public ::testing::TestWithParam<std::string> {};

TEST_P(RestoreTest, GoesOnBitForBitFromAnyCutPoint) {
  constexpr int kCutsOfAScript = 10;
  const std::vector<SamplingOptions> sampling = samplers();
  const int cuts = cuts_of_a_sampler(GetParam()) * static_cast<int>(sampling.size());
  const test::TemporaryDirectory folder;
  const auto model = test::load_model(
      test::make_random_model(test::small_positional_config(), {.read_biases = true}, 5),
      GetParam());
  test::Random random(17);
  auto other = Session::create(model);  // restored into again and again, whatever it held
  ASSERT_TRUE(other);
  for (int cut = 0; cut < cuts;) {
    const Script script =
        random_script(random, model->info().vocab_size,
                      sampling[static_cast<std::size_t>(cut / kCutsOfAScript) % sampling.size()]);
    auto control = Session::create(model);
    ASSERT_TRUE(control);
    for (const auto& piece : script.pieces) ASSERT_TRUE(control->prefill(piece));
    std::vector<TokenId> generated;
    append(generated, *control, script.generation, script.generation.max_tokens);
    const Ending expected = ending(*control, generated);

    for (int i = 0; i < kCutsOfAScript; ++i, ++cut) {
      // A cut between two pieces, or between two generated tokens.
      const std::size_t pieces = script.pieces.size();
      const std::size_t at = 1 + random.below(pieces + script.generation.max_tokens - 1);
      auto first = Session::create(model);
      ASSERT_TRUE(first);
      for (std::size_t p = 0; p < std::min(at, pieces); ++p)
        ASSERT_TRUE(first->prefill(script.pieces[p]));
      std::vector<TokenId> tokens;
      const std::uint64_t before = at > pieces ? at - pieces : 0;
      if (before > 0) append(tokens, *first, script.generation, before);
      auto kept = first->snapshot();
      ASSERT_TRUE(kept);
      // By turns as it is, and through a file; that of save() is the same bytes, synced.
      if (i % 2 == 0) {
        const SnapshotEncoding encoding{StateEncoding::f32, i % 4 == 0};
        if (i == 0) {
          ASSERT_TRUE(kept->save(folder / "cut.snap", encoding));
        } else {
          const std::vector<std::byte> bytes = *kept->to_bytes(encoding);
          folder.file("cut.snap", as_text(bytes));
        }
        kept = Snapshot::load(folder / "cut.snap");
      }
      ASSERT_TRUE(kept) << kept.error().message;
      ASSERT_TRUE(other->restore(*kept));
      for (std::size_t p = at; p < pieces; ++p) ASSERT_TRUE(other->prefill(script.pieces[p]));
      append(tokens, *other, script.generation, script.generation.max_tokens - before);

      const Ending actual = ending(*other, tokens);
      ASSERT_EQ(actual.tokens, expected.tokens) << "cut " << cut << " at " << at;
      ASSERT_TRUE(same_bits(actual.everything->logits, expected.everything->logits));
      ASSERT_TRUE(same_bits(actual.everything->state, expected.everything->state));
      ASSERT_EQ(actual.everything->history_hash, expected.everything->history_hash);
      ASSERT_EQ(actual.everything->recent_tokens, expected.everything->recent_tokens);
    }
  }
}

TEST_P(RestoreTest, AHundredInterleavedSessionsAreEachAsIfAlone) {
  constexpr int kSessions = 100;
  constexpr std::uint64_t kTokens = 12;
  const auto model = test::load_model(
      test::make_random_model(test::small_positional_config(), {.read_biases = true}, 6),
      GetParam());
  const std::vector<SamplingOptions> sampling = samplers();
  test::Random random(23);
  std::vector<Script> scripts;
  std::vector<Ending> alone;
  for (int i = 0; i < kSessions; ++i) {
    scripts.push_back(random_script(random, model->info().vocab_size,
                                    sampling[static_cast<std::size_t>(i) % sampling.size()]));
    auto session = Session::create(model);
    ASSERT_TRUE(session);
    for (const auto& piece : scripts.back().pieces) ASSERT_TRUE(session->prefill(piece));
    std::vector<TokenId> tokens;
    append(tokens, *session, scripts.back().generation, kTokens);
    alone.push_back(ending(*session, std::move(tokens)));
  }

  // Now all of them at once, a step of a random one at a time.
  struct Running {
    Session session;
    std::size_t pieces = 0;
    std::vector<TokenId> tokens;
  };
  std::vector<Running> running;
  std::vector<std::size_t> steps;  // whose turn it is
  for (std::size_t i = 0; i < scripts.size(); ++i) {
    auto session = Session::create(model);
    ASSERT_TRUE(session);
    running.push_back({.session = std::move(*session)});
    steps.insert(steps.end(), scripts[i].pieces.size() + kTokens, i);
  }
  for (std::size_t i = steps.size(); i > 1; --i) std::swap(steps[i - 1], steps[random.below(i)]);
  for (const std::size_t i : steps) {
    Running& one = running[i];
    if (one.pieces < scripts[i].pieces.size()) {
      ASSERT_TRUE(one.session.prefill(scripts[i].pieces[one.pieces++]));
    } else {
      append(one.tokens, one.session, scripts[i].generation, 1);
    }
  }
  for (std::size_t i = 0; i < running.size(); ++i) {
    const Ending actual = ending(running[i].session, running[i].tokens);
    EXPECT_EQ(actual.tokens, alone[i].tokens) << "session " << i;
    EXPECT_TRUE(same_bits(actual.everything->logits, alone[i].everything->logits));
    EXPECT_TRUE(same_bits(actual.everything->state, alone[i].everything->state));
  }
}

std::vector<std::string> devices_here() {
  std::vector<std::string> ids;
  for (const DeviceInfo& device : devices()) ids.push_back(device.id);
  return ids;
}

INSTANTIATE_TEST_SUITE_P(Devices, RestoreTest, ::testing::ValuesIn(devices_here()),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), ':', '_');
                           return name;
                         });

std::uint64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::uint64_t pages = 0;
  statm >> pages >> pages;
  return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

TEST(SessionMemory, AHundredSessionsTakeAHundredStates) {
  if (test::kSlowBuild) GTEST_SKIP() << "sanitizers keep shadow memory of their own";
  constexpr std::uint64_t kSessions = 100;
  constexpr std::uint64_t kSmallThings = 32 * 1024;  // logits, recent tokens, a session's own parts
  constexpr std::uint64_t kSlack = 4 << 20;          // of the allocator
  ModelConfig config = test::small_config();
  // A state of half a megabyte, to stand out.
  test::set(config, &MixerSpec::num_memory_slots, 1024);
  const auto model = test::load_model(test::make_random_model(config, {}, 7), "reference");
  const TokenId token = 1;
  const auto touch = [&] {
    auto session = Session::create(model);
    EXPECT_TRUE(session && session->prefill(std::span(&token, 1)));
    return std::move(*session);
  };
  touch();  // what the first one makes for all
  const std::uint64_t before = resident_bytes();
  std::vector<Session> sessions;
  for (std::uint64_t i = 0; i < kSessions; ++i) sessions.push_back(touch());
  const std::uint64_t taken = resident_bytes() - before;
  EXPECT_LT(taken, kSessions * (model->info().state_bytes + kSmallThings) + kSlack);
}

}  // namespace
}  // namespace runnel
