// SPDX-License-Identifier: Apache-2.0
// Each op of the seam by itself on every device, beside the reference: fresh random inputs, the same on both sides;
// outputs that begin as NaN; every weight type, odd sizes. ctest -R OpsAlone
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <map>
#include <utility>

#include "runtime/backend/reference/reference_backend.h"
#include "tests/backend/ops_alone_cases.h"
#include "tests/support/compare.h"
#include "tests/support/random.h"
#include "tests/support/test_devices.h"

namespace runnel::test {
namespace {

using quant::BlockType;
using reference::Activations;

// Largest errors of one unit, relative to the largest value of the buffer.
constexpr double kExactTolerance = 0.0;  // a row of a table, in f32
// The same of K types on CUDA, which packs their scales into 16 bits.
constexpr double kPackedScales = 1e-3;
constexpr double kFloatTolerance = 1e-5;  // f32, sums in another order
// The same through fast exponentials, of activations too, up to 65 tokens long.
constexpr double kCudaMixerTolerance = 5e-5;
constexpr double kPlainTolerance = 1e-4;  // 16-bit weights on CUDA, which multiplies pairs
// Inputs of int8: a code that falls to the other side of a half is 1/127 of a peak.
constexpr double kRoundedTolerance = 1e-2;
constexpr double kHalfTolerance = 5e-3;    // f16 operands
constexpr double kTensorTolerance = 2e-2;  // bf16 operands beside f32 ones
// A plan of so few multiplies vectors, one of more multiplies matrices.
constexpr int kFewTokens = 16;
constexpr int kManyTokens = 65;
constexpr int kMostNarrowSlots = 64;  // CUDA reads more of them with kernels of their own
constexpr std::size_t kCudaFew = 8;   // tokens of an item that CUDA multiplies as vectors

/// How a device computes a unit: what the reference does with activations to do the same, and how near it then is.
struct Expected {
  Activations activations;
  double tolerance;
};

Expected expected_of(const TestDevice& device, Unit unit, BlockType type, int plan,
                     std::size_t tokens) {
  const bool blocks = quant::is_block_type(type), f32 = type == BlockType::f32;
  const bool fast = device.is("cuda") && (advances_state(unit) || adds_to_x(unit));
  const Expected exact{Activations::exact, fast ? kCudaMixerTolerance : kFloatTolerance};
  const Expected rounded{Activations::rounded, kRoundedTolerance};
  const BlockType kept = quant::kept_as(type);
  const bool packed = device.is("cuda") && (kept == BlockType::q4_k || kept == BlockType::q5_k ||
                                            kept == BlockType::q6_k);
  if (unit == Unit::embed) return {Activations::exact, packed ? kPackedScales : kExactTolerance};
  if (device.is("cpu")) return blocks ? rounded : exact;
  if (device.is("vulkan")) {
    const bool tiles = plan > kFewTokens && !f32 && !device.software() && unit != Unit::logits;
    return tiles ? Expected{Activations::exact, kHalfTolerance} : exact;
  }
  if (f32) return exact;
  if (tokens > kCudaFew && unit != Unit::logits) return {Activations::tensor, kTensorTolerance};
  return blocks ? rounded : Expected{Activations::exact, kPlainTolerance};
}

/// Whether the device hands on what the unit makes, or takes what it reads, in a form of its own: long passes of 16-bit
/// weights on CUDA leave q, k and v as bf16 for the slots, and these, of many slots, their output for the projection.
/// Whole models (parity_test.cpp) compare them.
bool hands_on(const TestDevice& device, Unit unit, const OpCase& c, std::size_t tokens) {
  const LayerSpec& layer = c.config.layers.front();
  const bool beside_slots =
      unit == Unit::slot_projections ||
      (unit == Unit::output_projection && layer.kind() == Mixer::slots) ||
      (unit == Unit::slot_attention && layer.slots().num_memory_slots > kMostNarrowSlots);
  return device.is("cuda") && beside_slots && tokens > kCudaFew &&
         (c.type == BlockType::f16 || c.type == BlockType::bf16);
}

/// A model on a backend without a plan: only units are recorded.
struct Loaded {
  const RandomModel* source;
  std::unique_ptr<DeviceModel> model;
  std::unique_ptr<RecurrentState> state;
};

template <class T>
T value_of(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(*result);
}

void check(const Status& status) {
  if (!status) throw std::runtime_error(status.error().message);
}

Loaded load(Backend& backend, const RandomModel& source) {
  Loaded loaded{
      &source,
      value_of(backend.load(
          {.config = source.config, .weights = *source.weights, .keep_alive = source.storage})),
      nullptr};
  loaded.state = value_of(loaded.model->create_state());
  return loaded;
}

std::unique_ptr<Plan> record(const Loaded& loaded, Unit unit, int max_tokens) {
  const RandomModel& source = *loaded.source;
  return value_of(loaded.model->record(max_tokens, [&](Ops& ops) {
    return record_unit(unit, ops, source.config, *source.weights);
  }));
}

std::vector<float> canonical(const Loaded& loaded) {
  std::vector<float> floats(StateLayout::of(loaded.source->config).total_floats(), NAN);
  check(loaded.state->export_to(floats));
  return floats;
}

using Rows = std::map<PassBuffer, std::vector<float>>;

constexpr PassBuffer kAllBuffers[] = {PassBuffer::x,    PassBuffer::q, PassBuffer::k,
                                      PassBuffer::v,    PassBuffer::f, PassBuffer::r,
                                      PassBuffer::gate, PassBuffer::o, PassBuffer::first_v};

/// Every buffer of the layer: what the unit reads is random, all else begins as NaN.
Rows prepared(Unit unit, const ModelConfig& config, std::size_t tokens, Random& random) {
  const std::vector<PassBuffer> inputs = inputs_of(unit, config);
  Rows rows;
  for (const PassBuffer buffer : kAllBuffers) {
    const auto n = tokens * static_cast<std::size_t>(
                                columns_of(buffer, config.layers.front(), config.hidden_size));
    if (n == 0) continue;
    const bool input = std::find(inputs.begin(), inputs.end(), buffer) != inputs.end();
    rows[buffer] = input ? random.normals(n) : std::vector<float>(n, NAN);
  }
  return rows;
}

/// What a unit made: its buffers, what it added to x, the state, the logits.
struct Made {
  Rows rows;
  std::vector<float> x, state, logits;
};

/// Runs the unit once on prepared rows.
Made run_unit(const Loaded& loaded, Plan& plan, Unit unit, const Rows& rows,
              std::span<const TokenId> tokens) {
  const ModelConfig& config = loaded.source->config;
  const LayerSpec& layer = config.layers.front();
  PassProbe* probe = plan.probe();
  if (probe == nullptr) throw std::runtime_error("a plan without a probe");
  for (const auto& [buffer, values] : rows) check(probe->write(buffer, layer, values));
  Made made;
  std::vector<float> logits(tokens.size() * static_cast<std::size_t>(config.vocab_size), NAN);
  // All are wanted, so that no device leaves rows out.
  const PlanItem item{
      .state = loaded.state.get(), .tokens = tokens, .wanted = LogitsWanted::all, .logits = logits};
  check(plan.run(std::span(&item, 1), {}));
  if (unit == Unit::logits) made.logits = std::move(logits);
  for (const PassBuffer buffer : outputs_of(unit, config)) {
    std::vector<float>& values = made.rows[buffer];
    values.assign(rows.at(buffer).size(), NAN);
    check(probe->read(buffer, layer, values));
  }
  if (adds_to_x(unit)) {
    made.x.assign(rows.at(PassBuffer::x).size(), NAN);
    check(probe->read(PassBuffer::x, layer, made.x));
  }
  if (advances_state(unit)) made.state = canonical(loaded);
  return made;
}

double worst_error(const Made& actual, const Made& expected, std::span<const float> x_before) {
  double worst = max_relative_error(actual.state, expected.state);
  for (const auto& [buffer, values] : expected.rows)
    worst = std::max(worst, max_relative_error(actual.rows.at(buffer), values));
  worst = std::max(worst, max_relative_error(actual.logits, expected.logits));
  std::vector<float> added = actual.x, wanted = expected.x;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    added[i] -= x_before[i];
    wanted[i] -= x_before[i];
  }
  return std::max(worst, max_relative_error(added, wanted));
}

/// x as embed leaves it.
std::vector<float> embedded(const RandomModel& model, std::span<const TokenId> tokens) {
  std::vector<float> x(tokens.size() * static_cast<std::size_t>(model.config.hidden_size));
  reference::embed(model.weights->embeddings, tokens, x);
  return x;
}

/// A unit on a device; on the CPU with each of its instruction sets.
struct Case {
  std::vector<TestDevice> devices;
  Unit unit;
};

std::string name_of(const Case& c) {
  const TestDevice& first = c.devices.front();
  return (first.is("cpu") ? "cpu" : first.name) + "_" + name_of(c.unit);
}

void PrintTo(const Case& c, std::ostream* out) { *out << name_of(c); }

/// The model of case `index` of a unit: those of the last unit are kept, for GPUs that follow each other, since to encode them
/// takes longer than to run them.
RandomModel model_of(Unit unit, Extent extent, std::size_t index, const OpCase& c) {
  static std::pair<Unit, Extent> kept_of;
  static std::map<std::size_t, RandomModel> kept;
  if (std::exchange(kept_of, {unit, extent}) != std::pair{unit, extent}) kept.clear();
  auto found = kept.find(index);
  if (found == kept.end())
    found = kept.emplace(index, make_random_model(c.config, c.parts, 501 + index)).first;
  return found->second;
}

/// A device, and how near it came to the tolerances of a unit.
struct OnDevice {
  explicit OnDevice(const TestDevice& of) : device(&of), backend(open(of)) {}

  void note(const OpCase& c, std::size_t tokens, double error, double tolerance) {
    const double share = tolerance > 0.0 ? error / tolerance : error;
    if (share >= nearest) nearest = share, nearest_name = c.name + ", T " + std::to_string(tokens);
  }

  const TestDevice* device;
  std::unique_ptr<Backend> backend;
  double nearest = 0.0;  // the largest error as a share of its tolerance
  std::string nearest_name;
};

/// All passes of a case, each from the reference's state, which is computed once for all devices: they are the CPU's, or one.
void compare(Unit unit, const OpCase& c, const RandomModel& model, std::span<OnDevice> devices) {
  const TestDevice& first = *devices.front().device;
  std::vector<Loaded> actual;
  for (const OnDevice& on : devices) actual.push_back(load(*on.backend, model));
  std::vector<std::unique_ptr<Plan>> plans(devices.size());
  std::map<Activations, Loaded> oracles;
  Random random(71);
  std::vector<float> before = canonical(actual.front());
  std::uint64_t position = 0;
  int max_tokens = 0;
  for (const std::size_t n : c.tokens) {
    if (hands_on(first, unit, c, n)) continue;
    const int most = n > static_cast<std::size_t>(kFewTokens) ? kManyTokens : kFewTokens;
    const bool replan = std::exchange(max_tokens, most) != most;
    const Expected expected = expected_of(first, unit, c.type, most, n);
    Loaded& oracle = oracles[expected.activations];
    if (oracle.model == nullptr)
      oracle = load(*reference::make_backend(expected.activations), model);
    const std::vector<TokenId> tokens = random.tokens(n, model.config.vocab_size);
    const Rows rows = prepared(unit, model.config, n, random);
    const std::vector<float> x = embedded(model, tokens);
    check(oracle.state->import_from(before, position));
    const Made wanted = run_unit(oracle, *record(oracle, unit, most), unit, rows, tokens);
    for (std::size_t i = 0; i < devices.size(); ++i) {
      if (replan) plans[i] = record(actual[i], unit, most);
      check(actual[i].state->import_from(before, position));
      const Made made = run_unit(actual[i], *plans[i], unit, rows, tokens);
      const double error = worst_error(made, wanted, x);
      EXPECT_LE(error, expected.tolerance)
          << devices[i].device->name << ", " << name_of(unit) << ", " << c.name << ", " << n
          << " tokens at " << position;
      EXPECT_EQ(actual[i].state->position(), position + n) << devices[i].device->name;
      devices[i].note(c, n, error, expected.tolerance);
    }
    if (advances_state(unit)) before = wanted.state;
    position += n;
  }
}

class OpsAlone : public testing::TestWithParam<Case> {};

TEST_P(OpsAlone, MatchTheReference) {
  const Unit unit = GetParam().unit;
  std::vector<OnDevice> devices(GetParam().devices.begin(), GetParam().devices.end());
  const TestDevice& first = *devices.front().device;
  const Extent extent = first.is("cpu")    ? Extent::all
                        : first.software() ? Extent::few_shapes
                                           : Extent::matrix_units;
  int refused = 0;
  const std::vector<OpCase> cases = cases_of(unit, extent);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (first.takes(cases[i].config)) {
      compare(unit, cases[i], model_of(unit, extent, i, cases[i]), devices);
    } else {
      ++refused;
    }
  }
  if (refused > 0)
    std::printf("[ op       ] %s: %d cases NOT run, which this device refuses\n",
                name_of(unit).c_str(), refused);
  for (const OnDevice& on : devices) {
    EXPECT_FALSE(on.nearest_name.empty()) << "no case was compared";
    std::printf("[ op       ] %s on %s: the largest error is %.2f of its tolerance: %s\n",
                name_of(unit).c_str(), on.device->name.c_str(), on.nearest,
                on.nearest_name.c_str());
  }
}

/// Units outside, so that GPUs that follow each other take the same models.
std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const Unit unit : all_units()) {
    bool cpu = false;  // has a case
    for (const TestDevice& device : test_devices()) {
      if (device.is("cpu") && cpu) {
        cases.back().devices.push_back(device);
      } else {
        cases.push_back({{device}, unit});
        cpu = device.is("cpu");
      }
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Devices, OpsAlone, testing::ValuesIn(all_cases()),
                         [](const auto& each) { return name_of(each.param); });

}  // namespace
}  // namespace runnel::test
