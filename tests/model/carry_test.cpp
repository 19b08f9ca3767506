// SPDX-License-Identifier: Apache-2.0
// A session that was taken on one device goes on on another, and on another architecture.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <ostream>

#include "runnel/generation.h"
#include "runnel/session.h"
#include "runtime/io/snapshot_data.h"
#include "tests/support/compare.h"
#include "tests/support/loaded_model.h"
#include "tests/support/model_files.h"
#include "tests/support/random.h"
#include "tests/support/temporary_directory.h"

namespace runnel {
namespace {

// Root mean square of logits between backends that all compute in f32 but in other orders; the
// last one for a state that a thousand tokens of both went into.
constexpr double kCarryTolerance = 1e-4;
constexpr double kManyTripsTolerance = 1e-3;
constexpr std::uint64_t kGreedyTokens = 32;

struct Way {
  std::string from;
  std::string to;
};

void PrintTo(const Way& way, std::ostream* out) { *out << way.from << " to " << way.to; }

std::vector<Way> ways() {
  std::vector<Way> all;
  for (const DeviceInfo& from : devices()) {
    for (const DeviceInfo& to : devices()) {
      if (from.id != to.id) all.push_back({from.id, to.id});
    }
  }
  return all;
}

std::vector<TokenId> greedy(Session& session, std::uint64_t count) {
  const auto result = generate(
      session, {.sampling = {.temperature = 0.0F}, .max_tokens = count, .ignore_end = true});
  EXPECT_TRUE(result) << (result ? "" : result.error().message);
  return result ? result->tokens : std::vector<TokenId>();
}

std::vector<float> logits_of(const Session& session) {
  return {session.logits()->begin(), session.logits()->end()};
}

class CarryTest : public ::testing::TestWithParam<Way> {
 protected:
  static std::shared_ptr<const Model> load(const std::string& device) {
    return test::load_model(
        test::make_random_model(test::small_positional_config(), {.read_biases = true}, 21),
        device);
  }
  static Session session_on(const std::shared_ptr<const Model>& model) {
    auto session = Session::create(model);
    if (!session) throw std::runtime_error(session.error().message);
    return std::move(*session);
  }

  std::shared_ptr<const Model> here_ = load(GetParam().from);
  std::shared_ptr<const Model> there_ = load(GetParam().to);
  std::int32_t vocab_ = here_->info().vocab_size;
};

TEST_P(CarryTest, SaysTheSameElsewhere) {
  test::Random random(31);
  for (int talk = 0; talk < 8; ++talk) {
    Session stays = session_on(here_);
    ASSERT_TRUE(stays.prefill(random.tokens(1 + random.below(150), vocab_)));
    greedy(stays, 8);
    const auto bytes = stays.snapshot()->to_bytes();
    const auto carried = Snapshot::from_bytes(*bytes);
    ASSERT_TRUE(carried) << carried.error().message;
    Session goes = session_on(there_);
    const Status restored = goes.restore(*carried);
    ASSERT_TRUE(restored) << restored.error().message;
    EXPECT_EQ(logits_of(goes), logits_of(stays)) << "the last logits come along";
    EXPECT_EQ(greedy(goes, kGreedyTokens), greedy(stays, kGreedyTokens)) << "talk " << talk;
    EXPECT_LE(test::rms_relative_error(logits_of(goes), logits_of(stays)), kCarryTolerance);
  }
}

TEST_P(CarryTest, AThousandTripsLoseNothing) {
  constexpr int kTrips = 1000;
  test::Random random(32);
  Session stays = session_on(here_);
  Session traveller[2] = {session_on(here_), session_on(there_)};
  const std::vector<TokenId> start = random.tokens(40, vocab_);
  ASSERT_TRUE(stays.prefill(start));
  ASSERT_TRUE(traveller[0].prefill(start));
  for (int trip = 0; trip < kTrips; ++trip) {
    Session& from = traveller[trip % 2];
    Session& to = traveller[(trip + 1) % 2];
    const auto packed = from.snapshot();
    ASSERT_TRUE(packed);
    ASSERT_TRUE(to.restore(*packed));
    const auto unpacked = to.snapshot();
    ASSERT_TRUE(unpacked);
    const std::vector<float>& a = data_of(*packed).state;
    const std::vector<float>& b = data_of(*unpacked).state;
    ASSERT_EQ(a.size(), b.size());
    ASSERT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0) << "trip " << trip;
    const std::vector<TokenId> token = random.tokens(1, vocab_);
    ASSERT_TRUE(to.prefill(token));
    ASSERT_TRUE(stays.prefill(token));
  }
  Session& last = traveller[kTrips % 2];
  EXPECT_EQ(last.position(), stays.position());
  EXPECT_LE(test::rms_relative_error(logits_of(last), logits_of(stays)), kManyTripsTolerance);
  EXPECT_EQ(greedy(last, kGreedyTokens), greedy(stays, kGreedyTokens));
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CarryTest);
INSTANTIATE_TEST_SUITE_P(Devices, CarryTest, ::testing::ValuesIn(ways()), [](const auto& test) {
  std::string name = test.param.from + "_to_" + test.param.to;
  std::replace(name.begin(), name.end(), ':', '_');
  return name;
});

// tests/data/carry/make wrote these, each on the architecture of its name: tiny_base after this
// prompt and eight greedy tokens.
class CarriedFile : public ::testing::TestWithParam<const char*> {};

TEST_P(CarriedFile, GoesOnAsIfTakenHere) {
  const std::vector<TokenId> prompt = {17, 4,  98, 201, 33, 7,  7, 64, 129, 250,
                                       3,  88, 41, 190, 15, 77, 6, 5,  231, 112};
  const test::TemporaryDirectory folder;
  ASSERT_TRUE(test::convert_tensors(test::tiny_checkpoint("tiny_base"), folder / "tiny.gguf", {}));
  for (const char* device : {"reference", "cpu"}) {
    const auto model = Model::load(folder / "tiny.gguf", {.device = device, .threads = 1});
    ASSERT_TRUE(model) << model.error().message;
    auto stayed = Session::create(*model);
    ASSERT_TRUE(stayed && stayed->prefill(prompt));
    greedy(*stayed, 8);
    const auto carried =
        Snapshot::load(std::string(RUNNEL_TEST_DATA "/carry/") + GetParam() + ".snap");
    ASSERT_TRUE(carried) << carried.error().message;
    auto came = Session::create(*model);
    const Status restored = came->restore(*carried);
    ASSERT_TRUE(restored) << restored.error().message;
    EXPECT_EQ(came->position(), stayed->position());
    EXPECT_LE(test::rms_relative_error(data_of(*carried).state, data_of(*stayed->snapshot()).state),
              kCarryTolerance);
    EXPECT_EQ(greedy(*came, kGreedyTokens), greedy(*stayed, kGreedyTokens));
    EXPECT_LE(test::rms_relative_error(logits_of(*came), logits_of(*stayed)), kCarryTolerance);
  }
}

INSTANTIATE_TEST_SUITE_P(Architectures, CarriedFile, ::testing::Values("x86_64", "aarch64"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace runnel
