// SPDX-License-Identifier: Apache-2.0
// runnel_speed MODEL [THREADS [TOKENS [ROUNDS]]]: where the time of a prefill goes on the CPU. Each
// kind of op has a recording of its own that leaves the others out; rounds run the whole pass and
// all of them in turns, and a part's share is the median of its rounds.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "runtime/backend/cpu/roofline.h"
#include "runtime/backend/registry.h"
#include "runtime/base/try.h"
#include "runtime/model/forward.h"
#include "runtime/model/model_file.h"

namespace runnel {
namespace {

using Clock = std::chrono::steady_clock;

enum class Part { all, projections, mixer, output, mlp, embed_and_logits };

constexpr const char* kPartNames[] = {"whole pass",        "projections", "slots or recurrence",
                                      "output projection", "gated MLP",   "embedding, logits"};

// Passes on the ops of one part, or all.
class Only final : public Ops {
 public:
  Only(Ops& ops, Part part) : ops_(ops), part_(part) {}

  Status embed(const WeightView& table) override {
    return has(Part::embed_and_logits) ? ops_.embed(table) : Status{};
  }
  Status slot_projections(const LayerSpec& layer, const SlotWeights& w) override {
    return has(Part::projections) ? ops_.slot_projections(layer, w) : Status{};
  }
  Status slot_attention(const LayerSpec& layer, const SlotWeights& w) override {
    return has(Part::mixer) ? ops_.slot_attention(layer, w) : Status{};
  }
  Status recurrence_projections(const LayerSpec& layer, const RecurrenceWeights& w) override {
    return has(Part::projections) ? ops_.recurrence_projections(layer, w) : Status{};
  }
  Status embedding_norm(const NormSpec& spec, const NormWeights& w) override {
    return has(Part::embed_and_logits) ? ops_.embedding_norm(spec, w) : Status{};
  }
  Status shifted_projections(const LayerSpec& layer, const RecurrenceWeights& w) override {
    return has(Part::projections) ? ops_.shifted_projections(layer, w) : Status{};
  }
  Status gated_recurrence(const LayerSpec& layer, const RecurrenceWeights& w) override {
    return has(Part::mixer) ? ops_.gated_recurrence(layer, w) : Status{};
  }
  Status output_projection(const LayerSpec& layer, const OutputWeights& w) override {
    return has(Part::output) ? ops_.output_projection(layer, w) : Status{};
  }
  Status gated_mlp(const LayerSpec& layer, const ChannelMixWeights& w) override {
    return has(Part::mlp) ? ops_.gated_mlp(layer, w) : Status{};
  }
  Status squared_relu_mlp(const LayerSpec& layer, const ChannelMixWeights& w) override {
    return has(Part::mlp) ? ops_.squared_relu_mlp(layer, w) : Status{};
  }
  Status logits(const NormSpec& spec, const NormWeights& norm, const WeightView& head) override {
    return has(Part::embed_and_logits) ? ops_.logits(spec, norm, head) : Status{};
  }

 private:
  bool has(Part part) const { return part_ == Part::all || part_ == part; }

  Ops& ops_;
  Part part_;
};

Status measure(const char* path, int threads, int tokens, int rounds) {
  RUNNEL_TRY(std::shared_ptr<const GgufFile> gguf, GgufFile::open(path));
  RUNNEL_TRY(ModelFile file, ModelFile::from_gguf(gguf));
  RUNNEL_TRY(const std::unique_ptr<Backend> backend, make_backend("cpu", threads));
  RUNNEL_TRY(
      const std::unique_ptr<DeviceModel> model,
      backend->load({.config = file.config, .weights = file.weights, .keep_alive = file.file}));
  RUNNEL_TRY(cpu::RooflineMeter meter,
             cpu::RooflineMeter::create(threads, model->memory().weight_bytes));
  const cpu::Roofline roof = meter.measure();
  std::printf("%s: %.1f GB/s read, %.0f int8 Gop/s\n", backend->device().name.c_str(),
              roof.read_bytes_per_second * 1e-9, roof.int8_ops_per_second * 1e-9);

  std::vector<std::unique_ptr<Plan>> plans;
  // A state each: parts without inputs would decay a shared one to subnormal numbers, which are slow.
  std::vector<std::unique_ptr<RecurrentState>> states;
  for (const Part part : {Part::all, Part::projections, Part::mixer, Part::output, Part::mlp,
                          Part::embed_and_logits}) {
    RUNNEL_TRY(std::unique_ptr<Plan> plan, model->record(tokens, [&](Ops& ops) {
      Only some(ops, part);
      return forward(some, file.config, file.weights);
    }));
    RUNNEL_TRY(std::unique_ptr<RecurrentState> state, model->create_state());
    plans.push_back(std::move(plan));
    states.push_back(std::move(state));
  }
  std::vector<TokenId> prompt;
  for (int i = 0; i < tokens; ++i) prompt.push_back((i * 7919) % file.config.vocab_size);
  std::vector<float> logits(static_cast<std::size_t>(file.config.vocab_size));
  std::vector<std::vector<double>> seconds(plans.size());
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < plans.size(); ++i) {
      const PlanItem item{.state = states[i].get(),
                          .tokens = prompt,
                          .wanted = LogitsWanted::last,
                          .logits = logits};
      const auto begin = Clock::now();
      RUNNEL_CHECK_OK(plans[i]->run({&item, 1}, {}));
      seconds[i].push_back(std::chrono::duration<double>(Clock::now() - begin).count());
    }
  }
  const auto median = [](std::vector<double> values) {
    std::ranges::nth_element(values,
                             values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
    return values[values.size() / 2];
  };
  for (std::size_t i = 0; i < plans.size(); ++i) {
    std::vector<double> shares;
    for (std::size_t round = 0; round < seconds[i].size(); ++round)
      shares.push_back(seconds[i][round] / seconds[0][round]);
    std::printf("%-20s %8.1f ms %5.1f %%\n", kPartNames[i], median(seconds[i]) * 1e3,
                100 * median(std::move(shares)));
  }
  return {};
}

}  // namespace
}  // namespace runnel

int main(int argc, char** argv) {
  if (argc < 2)
    return std::fprintf(stderr, "usage: runnel_speed MODEL [THREADS [TOKENS [ROUNDS]]]\n"), 2;
  const runnel::Status done = runnel::measure(argv[1], argc > 2 ? std::atoi(argv[2]) : 0,
                                              argc > 3 ? std::atoi(argv[3]) : 512,
                                              argc > 4 ? std::max(1, std::atoi(argv[4])) : 9);
  if (!done) std::fprintf(stderr, "runnel_speed: %s\n", done.error().message.c_str());
  return done ? 0 : 1;
}
