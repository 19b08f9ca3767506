// SPDX-License-Identifier: Apache-2.0
// The decode kernel on a GPU: checked against the graph of kernels, timed with several layouts, and
// where its time goes. Usage: runnel_cuda_decode_bench MODEL [quick | TUNING…], MODEL: 135m 500m 1500m, or of
// 1.38 B: q4_0 q4_1 q4_k q5_0 q5_k q5_1 q2_k iq4_xs q8_0 bf16, or as in q4_0-stored, TUNING: as in even=0 or poll=2,copies=1; without one, many. cluster=0 and even=0
// leave rows of the ladder out.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "runnel/generation.h"
#include "runtime/backend/cuda/cuda_backend.h"
#include "runtime/backend/cuda/plan.h"
#include "runtime/backend/cuda/recorder.h"
#include "runtime/model/forward.h"
#include "tests/cuda/bench_models.h"
#include "tests/cuda/bench_support.h"
#include "tests/support/random.h"

namespace runnel::bench {
namespace {

constexpr std::size_t kTraced = 256;  // blocks, at most

struct Device {
  std::shared_ptr<cuda::ResidentModel> model;
  const BenchModel& source;
  StepModel step;
  cudaStream_t stream;
  cuda::DeviceArray<std::int32_t> token;
  cuda::DeviceArray<cuda::Segment> segment;
  cuda::DeviceArray<float> logits;
  cuda::DeviceArray<std::uint64_t> trace;

  explicit Device(const BenchModel& b)
      : model(
            take(cuda::load_model(cuda::facts_of(0), {.config = b.config, .weights = b.weights}))),
        source(b),
        step(record_step_model(forward_of(b.config, b.weights))),
        stream(model->stream.get()) {
    token = take(cuda::device_array<std::int32_t>(1, "token"));
    segment = take(cuda::device_array<cuda::Segment>(1, "segment"));
    logits =
        take(cuda::device_array<float>(static_cast<std::size_t>(b.config.vocab_size), "logits"));
    trace = take(cuda::device_array<std::uint64_t>(kTraced * cuda::kDecodeTrace, "trace"));
  }
  void place(TokenId id, const cuda::CudaState& state, std::uint64_t position) {
    const cuda::Segment s{.state_in = state.data(),
                          .state_out = state.data(),
                          .position = position,
                          .first = 0,
                          .count = 1};
    must(cudaMemcpy(token.get(), &id, 4, cudaMemcpyHostToDevice));
    must(cudaMemcpy(segment.get(), &s, sizeof s, cudaMemcpyHostToDevice));
  }
};

/// A program of the ladder with its constants tuned.
struct Kernel {
  std::unique_ptr<cuda::StepKernel> kernel;
  std::string name;

  const cuda::Decode& d() const { return kernel->decode(); }
  bool in_cluster() const { return kernel->cluster() != nullptr; }
  int num_layers() const { return in_cluster() ? kernel->cluster()->num_layers : d().num_layers; }

  bool make(Device& on, const cuda::DecodeTuning& tuning) {
    constexpr std::uint32_t kPollLimit = 1U << 19;
    for (const cuda::StepRow& row : cuda::step_programs()) {
      name = row.name;
      if (row.lay_out == nullptr) return false;
      if (tuning.cluster == 0 && name.starts_with("cluster")) continue;
      if (tuning.even == 0 && name == "grid-even") continue;
      cuda::StepLayout layout =
          row.lay_out(on.step, on.model->weights, on.model->device.step, tuning);
      std::string why = layout.why_not;
      if (why.empty()) {
        auto made =
            cuda::StepKernel::create(std::move(layout), on.model->weights, on.stream, kPollLimit);
        if (made) {
          kernel = *std::move(made);
          return true;
        }
        why = made.error().message;
      }
      std::printf("not %s: %s\n", row.name, why.c_str());
    }
    return false;
  }
  void step(Device& on) {
    must(kernel->launch(on.stream, on.token.get(), on.segment.get(), on.logits.get()));
  }
  bool fine(Device& on) {
    must(cudaStreamSynchronize(on.stream));
    const Status done = kernel->finished(on.stream);
    if (!done) std::printf("  STUCK: %s\n", done.error().message.c_str());
    return done.has_value();
  }
};

double relative(const std::vector<float>& a, const std::vector<float>& b) {
  double error = 0.0, size = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double e = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    error += e * e, size += static_cast<double>(b[i]) * static_cast<double>(b[i]);
  }
  return std::sqrt(error / size);
}

void check(Device& on, Kernel& kernel) {
  std::unique_ptr<cuda::Recorder> graph = take(cuda::Recorder::create(on.model, 1));
  must(forward(*graph, on.source.config, on.source.weights));
  const auto a = take(cuda::CudaState::create(on.model)),
             b = take(cuda::CudaState::create(on.model));
  const std::size_t vocab = static_cast<std::size_t>(on.source.config.vocab_size);
  const std::size_t floats = StateLayout::of(on.source.config).total_floats();
  std::vector<float> expected(vocab), got(vocab), sa(floats), sb(floats);
  test::Random random(7);
  double worst = 0.0, worst_state = 0.0, again = 0.0;
  for (int i = 0; i < 12; ++i) {
    const std::vector<TokenId> token = random.tokens(1, on.source.config.vocab_size);
    const cuda::Segment s{.state_in = b->data(),
                          .state_out = b->data(),
                          .position = static_cast<std::uint64_t>(i),
                          .first = 0,
                          .count = 1};
    must(cudaMemcpy(graph->buffers().tokens.get(), token.data(), 4, cudaMemcpyHostToDevice));
    must(cudaMemcpy(graph->buffers().segments.get(), &s, sizeof s, cudaMemcpyHostToDevice));
    const cuda::Pass pass{
        .launch = on.model->launch(), .tokens = 1, .num_segments = 1, .many = false};
    must(graph->run(pass));
    must(graph->run_head(pass.launch, 0, 1));
    must(cudaStreamSynchronize(on.stream));
    must(cudaMemcpy(expected.data(), graph->buffers().logits.get(), vocab * 4,
                    cudaMemcpyDeviceToHost));
    on.place(token[0], *a, static_cast<std::uint64_t>(i));
    must(cudaMemset(on.logits.get(), 0xFF, on.logits.bytes()));
    must(cudaDeviceSynchronize());
    kernel.step(on);
    if (!kernel.fine(on)) return;
    must(cudaMemcpy(got.data(), on.logits.get(), vocab * 4, cudaMemcpyDeviceToHost));
    const double error = relative(got, expected);
    worst = error >= worst || std::isnan(error) ? error : worst;
    must(a->export_to(sa));
    must(b->export_to(sb));
    const double state = relative(sa, sb);
    worst_state = state >= worst_state || std::isnan(state) ? state : worst_state;
    if (i == 11) {  // the same step from the same state, bit for bit
      must(b->import_from(sb, 12));
      must(a->import_from(sb, 12));
      on.place(token[0], *a, 12);
      must(cudaDeviceSynchronize());
      kernel.step(on);
      kernel.fine(on);
      must(cudaMemcpy(expected.data(), on.logits.get(), vocab * 4, cudaMemcpyDeviceToHost));
      must(a->import_from(sb, 12));
      kernel.step(on);
      kernel.fine(on);
      must(cudaMemcpy(got.data(), on.logits.get(), vocab * 4, cudaMemcpyDeviceToHost));
      again = relative(got, expected);
    }
  }
  std::printf("  12 tokens against the graph: logits %.2e, state %.2e; repeated %.2e\n", worst,
              worst_state, again);
}

double time_us(Device& on, Kernel& kernel, int inner, int repeats) {
  cudaEvent_t a = nullptr, b = nullptr;
  must(cudaEventCreate(&a));
  must(cudaEventCreate(&b));
  for (int i = 0; i < 3; ++i) kernel.step(on);
  if (!kernel.fine(on)) return NAN;
  std::vector<double> times;
  for (int r = 0; r < repeats; ++r) {
    must(cudaEventRecord(a, on.stream));
    for (int i = 0; i < inner; ++i) kernel.step(on);
    must(cudaEventRecord(b, on.stream));
    if (!kernel.fine(on)) return NAN;
    float ms = 0.0F;
    must(cudaEventElapsedTime(&ms, a, b));
    times.push_back(1000.0 * static_cast<double>(ms) / inner);
  }
  must(cudaEventDestroy(a));
  must(cudaEventDestroy(b));
  std::nth_element(times.begin(), times.begin() + repeats / 2, times.end());
  return times[static_cast<std::size_t>(repeats / 2)];
}

/// Whether a block of an even program has slots, as take_slots() deals them out.
bool has_slots(const cuda::Decode& d, int block) {
  if (d.warp_slots != 0) return true;
  const int shares = d.kv_heads * d.split_queries * d.splits;
  const int share = (block * shares + d.blocks - 1) / d.blocks;
  return share < shares && share * d.blocks / shares == block;
}

/// Every interval of an even layer: mean over layers, least, middle and most of all blocks (the slots': of those that
/// have some).
void trace_blocks(const std::vector<std::uint64_t>& t, const cuda::Decode& d) {
  constexpr std::size_t kParts = 17, kSlots = 4;
  std::printf("  all blocks:");
  for (std::size_t part = 0; part < kParts; ++part) {
    std::vector<long long> means;
    for (int block = 0; block < d.blocks; ++block) {
      const bool slots = has_slots(d, block);
      if (part == kSlots && !slots) continue;
      const std::size_t a_layer = slots ? kParts : kParts - 1;
      const std::size_t j = slots || part < kSlots ? part : part - 1;
      const std::uint64_t* m = t.data() + block * cuda::kDecodeTrace;
      std::uint64_t sum = 0;
      for (std::size_t l = 1; l < static_cast<std::size_t>(d.num_layers); ++l)
        sum += m[2 + l * a_layer + j] - m[1 + l * a_layer + j];
      means.push_back(static_cast<long long>(sum) / (d.num_layers - 1));
    }
    std::sort(means.begin(), means.end());
    std::printf(" %lld-%lld-%lld%s", means.front(), means[means.size() / 2], means.back(),
                part == kSlots || (part > kSlots && part % 4 == 0) || part == 3 ? ";" : "");
  }
  std::printf("\n");
}

/// Medians over layers of the clocks between the marks of blocks 0 (which has slots) and 1; of a cluster, 0 and 15.
void trace(Device& on, Kernel& kernel) {
  must(cudaMemset(on.trace.get(), 0, on.trace.bytes()));
  must(cudaDeviceSynchronize());
  must(kernel.kernel->trace(on.trace.get()));
  kernel.step(on);
  must(kernel.kernel->trace(nullptr));
  if (!kernel.fine(on)) return;
  std::vector<std::uint64_t> t(kTraced * cuda::kDecodeTrace);
  must(cudaMemcpy(t.data(), on.trace.get(), on.trace.bytes(), cudaMemcpyDeviceToHost));
  static const char* const kPhase[] = {"q k v f", "output", "gate up", "down"};
  static const char* const kNames[2][4] = {{"input", "barrier", "products", "publish"},
                                           {"weights", "input", "products", "publish"}};
  const char* const* const kMark = kNames[kernel.d().even != 0 ? 1 : 0];  // publish: with a barrier
  for (int block = 0; block < 2; ++block) {
    const std::uint64_t* m = t.data() + block * cuda::kDecodeTrace;
    const bool slots = block == 0 || kernel.in_cluster() || kernel.d().warp_slots != 0;
    const int num_layers = kernel.num_layers();
    std::printf("  block %d, clocks: start %lld;", block, static_cast<long long>(m[1] - m[0]));
    std::size_t at = 1;
    const std::size_t a_layer = slots ? 17 : 16;
    double total = 0.0;
    for (std::size_t j = 0; j < a_layer; ++j) {
      std::vector<long long> deltas;
      for (int l = 1; l < num_layers; ++l) {
        const std::size_t i = at + static_cast<std::size_t>(l) * a_layer + j;
        deltas.push_back(static_cast<long long>(m[i + 1] - m[i]));
      }
      std::nth_element(deltas.begin(),
                       deltas.begin() + static_cast<std::ptrdiff_t>(deltas.size() / 2),
                       deltas.end());
      const long long median = deltas[deltas.size() / 2];
      total += static_cast<double>(median);
      const bool is_slots = slots && j == 4;
      const std::size_t k = slots && j > 4 ? j - 1 : j;
      if (is_slots) {
        std::printf(" [slots %lld]", median);
      } else {
        if (k % 4 == 0) std::printf(" %s:", kPhase[k / 4]);
        std::printf(" %s %lld", kMark[k % 4], median);
      }
    }
    at += static_cast<std::size_t>(num_layers) * a_layer;
    std::printf("; a layer %.0f; ", total);
    if (kernel.in_cluster()) {
      std::printf("all %lld\n", static_cast<long long>(m[at] - m[0]));
      continue;
    }
    std::printf("head:");
    for (std::size_t j = 0; j < 4; ++j)
      std::printf(" %lld", static_cast<long long>(m[at + j + 1] - m[at + j]));
    std::printf("; all %lld\n", static_cast<long long>(m[at + 4] - m[0]));
  }
  if (kernel.d().even != 0) trace_blocks(t, kernel.d());
}

/// Whole generation: steps that draw their tokens on the device, as the host reads them.
void generation(const BenchModel& source, const char* program) {
  struct Kind {
    const char* name;
    SamplingOptions sampling;
  };
  const Kind kinds[] = {
      {"greedy", {}},
      {"greedy, DRY", {.dry_multiplier = 0.8F}},
      {"temperature 0.3, min-p 0.1, DRY",
       {.temperature = 0.3F, .min_p = 0.1F, .dry_multiplier = 0.8F, .seed = 1}},
      {"temperature 0.8, top-p 0.95", {.temperature = 0.8F, .top_p = 0.95F, .seed = 1}},
      {"top-k 40, penalties",
       {.temperature = 0.8F, .top_k = 40, .repetition_penalty = 1.1F, .seed = 1}}};
  constexpr int kTokens = 1300, kFirst = 1000;  // until the clocks have risen
  auto backend = take(cuda::make_backend(0));
  const Recording pass = forward_of(source.config, source.weights);
  const auto model = take(backend->load(
      {.config = source.config, .weights = source.weights, .pass = pass, .step_program = program}));
  std::printf("  %s\n", to_string(model->step_program()).c_str());
  const auto plan = take(model->record(16, pass));
  const auto state = take(model->create_state());
  for (const Kind& kind : kinds) {
    must(state->reset());
    const TokenId first = 17;
    auto steps = take(plan->sampled_steps(*state, std::span(&first, 1), kind.sampling));
    must(steps->queue());
    auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kTokens; ++i) {
      if (i == kFirst) begin = std::chrono::steady_clock::now();
      must(steps->queue());
      static_cast<void>(take(steps->drawn()));
    }
    const double us =
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
            .count() /
        (kTokens - kFirst);
    std::printf("  generation, %-32s %7.1f us %6.0f tok/s\n", kind.name, us, 1e6 / us);
  }
}

void measure(const BenchModel& source, const char* label, std::vector<cuda::DecodeTuning> tunings,
             int inner) {
  std::printf("%s\n", label);
  generation(source, "");  // alone on the device
  generation(source, "ops");
  Device on(source);
  std::printf("%s: %.0f MB of weights\n", label,
              static_cast<double>(on.model->weights.bytes) / 1e6);
  const auto state = take(cuda::CudaState::create(on.model));
  bool first = true;
  for (const cuda::DecodeTuning& tuning : tunings) {
    Kernel kernel;
    if (!kernel.make(on, tuning)) continue;
    if (first) check(on, kernel);
    on.place(17, *state, 100);
    must(cudaDeviceSynchronize());
    const double us = time_us(on, kernel, inner, 9);
    std::printf(
        "  %s: blocks %3d splits %d warp_slots %d copies %d ring %d pieces of %d poll %3d "
        "keep %d pauses %u %u %u %u %u: %7.1f us %6.0f tok/s\n",
        kernel.name.c_str(), kernel.d().blocks, kernel.d().splits, kernel.d().warp_slots,
        kernel.d().copies, kernel.d().ring_bytes, kernel.d().piece_bytes, kernel.d().poll,
        kernel.d().keep, kernel.d().pauses[0], kernel.d().pauses[1], kernel.d().pauses[2],
        kernel.d().pauses[3], kernel.d().pauses[4], us, 1e6 / us);
    trace(on, kernel);
    if (first) {
      on.place(17, *state, 100000);
      must(cudaDeviceSynchronize());
      const double late = time_us(on, kernel, inner, 9);
      std::printf("  at token 100,000: %.1f us, %.4f of token 100\n", late, late / us);
    }
    first = false;
  }
}

/// "poll=2,copies=1" -> a tuning.
cuda::DecodeTuning tuning_of(std::string text) {
  cuda::DecodeTuning tuning;
  const std::pair<const char*, std::int32_t*> names[] = {
      {"blocks", &tuning.blocks},         {"splits", &tuning.splits},
      {"ring_kb", &tuning.ring_kb},       {"poll", &tuning.poll},
      {"piece_kb", &tuning.piece_kb},     {"keep", &tuning.keep},
      {"warp_slots", &tuning.warp_slots}, {"copies", &tuning.copies},
      {"cluster", &tuning.cluster},       {"even", &tuning.even},
      {"p0", &tuning.pauses[0]},          {"p1", &tuning.pauses[1]},
      {"p2", &tuning.pauses[2]},          {"p3", &tuning.pauses[3]},
      {"ps", &tuning.pauses[4]}};
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size()), is = text.find('=', at);
    for (const auto& [name, to] : names) {
      if (is < end && text.compare(at, is - at, name) == 0) *to = std::atoi(text.c_str() + is + 1);
    }
    at = end + 1;
  }
  return tuning;
}

}  // namespace
}  // namespace runnel::bench

int main(int argc, char** argv) {
  using namespace runnel;
  using namespace runnel::bench;
  setvbuf(stdout, nullptr, _IOLBF, 0);
  if (cuda::devices().empty()) {
    std::printf("no CUDA device: nothing was measured\n");
    return 0;
  }
  const std::string which = argc > 1 ? argv[1] : "135m";
  const bool quick = argc > 2;
  std::vector<cuda::DecodeTuning> tunings{{}};
  for (int i = 2; i < argc; ++i) {
    if (std::strchr(argv[i], '=') != nullptr) tunings.push_back(tuning_of(argv[i]));
  }
  if (which == "135m") {
    if (!quick) {
      for (int blocks : {0, 36, 48, 64, 132}) tunings.push_back({.blocks = blocks, .cluster = 0});
      tunings.push_back({.blocks = 48, .splits = 8, .cluster = 0});
    }
    measure(model_named(which), "135M q4_0", tunings, 20);
    return 0;
  }
  if (which == "500m" || which == "1500m") {
    if (!quick) {
      for (int blocks : {0, 32, 64, 96}) tunings.push_back({.blocks = blocks});
      for (int splits : {4, 8}) tunings.push_back({.splits = splits});
    }
    measure(model_named(which), which == "500m" ? "0.5B q4_0" : "1.5B q4_0", tunings, 20);
    return 0;
  }
  if (!quick) {
    for (int copies : {1, 4}) tunings.push_back({.copies = copies});
    tunings.push_back({.poll = 2});
    tunings.push_back({.poll = 2, .copies = 1});
    tunings.push_back({.splits = 16});
    tunings.push_back({.warp_slots = 0});
    for (int kb : {12, 24, 42}) tunings.push_back({.piece_kb = kb});
    for (int kb : {100, 218}) tunings.push_back({.ring_kb = kb});
    const std::vector<cuda::DecodeTuning> once = tunings;
    tunings.insert(tunings.end(), once.begin(), once.end());
  }
  measure(model_named(which), ("1.38B " + which).c_str(), tunings, 10);
  return 0;
}
