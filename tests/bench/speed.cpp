// SPDX-License-Identifier: Apache-2.0
// runnel_speed MODEL [THREADS [TOKENS [ROUNDS]]]: where the time of a prefill goes on the CPU. Each
// kind of op is left out of a recording of its own; what the pass then takes less is that op's
// time.
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

enum class Part { none, projections, mixer, output, mlp };

constexpr const char* kPartNames[] = {"whole pass", "projections", "slots or recurrence",
                                      "output projection", "gated MLP"};

// Passes every op on but those of one part.
class Without final : public Ops {
 public:
  Without(Ops& ops, Part part) : ops_(ops), part_(part) {}

  Status embed(const WeightView& table) override { return ops_.embed(table); }
  Status slot_projections(int layer, const LayerWeights& w) override {
    return part_ == Part::projections ? Status{} : ops_.slot_projections(layer, w);
  }
  Status slot_attention(int layer, const LayerWeights& w) override {
    return part_ == Part::mixer ? Status{} : ops_.slot_attention(layer, w);
  }
  Status recurrence_projections(int layer, const LayerWeights& w) override {
    return part_ == Part::projections ? Status{} : ops_.recurrence_projections(layer, w);
  }
  Status gated_recurrence(int layer, const LayerWeights& w) override {
    return part_ == Part::mixer ? Status{} : ops_.gated_recurrence(layer, w);
  }
  Status output_projection(int layer, const LayerWeights& w) override {
    return part_ == Part::output ? Status{} : ops_.output_projection(layer, w);
  }
  Status gated_mlp(int layer, const LayerWeights& w) override {
    return part_ == Part::mlp ? Status{} : ops_.gated_mlp(layer, w);
  }
  Status logits(const WeightView& norm, const WeightView& head) override {
    return ops_.logits(norm, head);
  }

 private:
  Ops& ops_;
  Part part_;
};

Status measure(const char* path, int threads, int tokens, int rounds) {
  RUNNEL_TRY(std::shared_ptr<const GgufFile> gguf, GgufFile::open(path));
  RUNNEL_TRY(ModelFile file, ModelFile::from_gguf(gguf));
  RUNNEL_TRY(const std::unique_ptr<Backend> backend, make_backend("cpu", threads));
  RUNNEL_TRY(const std::unique_ptr<DeviceModel> model,
             backend->load(file.config, file.weights, file.file, {}));
  RUNNEL_TRY(const std::unique_ptr<RecurrentState> state, model->create_state());
  RUNNEL_TRY(const cpu::Roofline roof,
             cpu::measure_roofline(threads, model->memory().weight_bytes));
  std::printf("%s: %.1f GB/s read, %.0f int8 Gop/s\n", backend->device().name.c_str(),
              roof.read_bytes_per_second * 1e-9, roof.int8_ops_per_second * 1e-9);

  std::vector<std::unique_ptr<Plan>> plans;
  for (const Part part : {Part::none, Part::projections, Part::mixer, Part::output, Part::mlp}) {
    RUNNEL_TRY(std::unique_ptr<Plan> plan, model->record(tokens, [&](Ops& ops) {
      Without some(ops, part);
      return forward(some, file.config, file.weights);
    }));
    plans.push_back(std::move(plan));
  }
  std::vector<TokenId> prompt;
  for (int i = 0; i < tokens; ++i) prompt.push_back((i * 7919) % file.config.vocab_size);
  std::vector<float> logits(static_cast<std::size_t>(file.config.vocab_size));
  std::vector<std::vector<double>> seconds(plans.size());
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < plans.size(); ++i) {
      const PlanItem item{
          .state = state.get(), .tokens = prompt, .wanted = LogitsWanted::last, .logits = logits};
      const auto begin = Clock::now();
      RUNNEL_CHECK_OK(plans[i]->run({&item, 1}, {}));
      seconds[i].push_back(std::chrono::duration<double>(Clock::now() - begin).count());
    }
  }
  // The best of all rounds: what others do to the machine only adds to it.
  const auto best = [&](std::size_t i) { return *std::ranges::min_element(seconds[i]); };
  const double whole = best(0);
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const double without = best(i);
    const double own = i == 0 ? whole : whole - without;
    std::printf("%-20s %8.1f ms %5.1f %%   (%.0f tokens/s%s)\n", kPartNames[i], own * 1e3,
                100 * own / whole, tokens / without, i == 0 ? "" : " without it");
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
