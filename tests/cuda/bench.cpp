// SPDX-License-Identifier: Apache-2.0
// Speed of decode, prefill and single ops on one GPU, as one table. Usage: runnel_cuda_bench [part
// …], parts: micro ops 135m bf16 q8_0 q4_0 q4_k prefill; all of them without arguments. Times are
// device times between events, medians of repeats.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "runtime/backend/cuda/cuda_backend.h"
#include "runtime/backend/cuda/recorder.h"
#include "runtime/model/forward.h"
#include "tests/cuda/bench_models.h"
#include "tests/cuda/bench_support.h"
#include "tests/support/random.h"

namespace runnel::bench {
namespace {

using cuda::Launch;
using quant::BlockType;

/// Records what `work` launches on the stream and returns the graph.
cuda::GraphExec capture(cudaStream_t stream, const std::function<void()>& work) {
  must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  work();
  cudaGraph_t graph = nullptr;
  must(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t exec = nullptr;
  must(cudaGraphInstantiate(&exec, graph, 0));
  must(cudaGraphDestroy(graph));
  return cuda::GraphExec(exec);
}

double time_graph_us(cudaStream_t stream, const std::function<void()>& work, int inner = 20,
                     int repeats = 11) {
  const cuda::GraphExec graph = capture(stream, work);
  return time_us(stream, inner, repeats, [&] { must(cudaGraphLaunch(graph.get(), stream)); });
}

struct Loaded {
  std::shared_ptr<cuda::ResidentModel> model;
  std::unique_ptr<cuda::Recorder> recorder;
  std::unique_ptr<cuda::CudaState> state;
  cuda::Segment segment;
};

enum Part : unsigned { kProjections = 1, kSlots = 2, kOutput = 4, kMlp = 8, kAll = 15 };

Loaded load(const BenchModel& source, int max_tokens, unsigned parts = kAll,
            std::shared_ptr<cuda::ResidentModel> model = nullptr) {
  Loaded l;
  l.model = model != nullptr
                ? model
                : take(cuda::load_model(cuda::facts_of(0),
                                        {.config = source.config, .weights = source.weights}));
  l.recorder = take(cuda::Recorder::create(l.model, max_tokens));
  must(l.recorder->embed(source.weights.embeddings));
  for (const LayerSpec& layer : source.config.layers) {
    const LayerWeights& w = source.weights.layers[static_cast<std::size_t>(layer.index)];
    if ((parts & kProjections) != 0) must(l.recorder->slot_projections(layer, w.slots()));
    if ((parts & kSlots) != 0) must(l.recorder->slot_attention(layer, w.slots()));
    if ((parts & kOutput) != 0) must(l.recorder->output_projection(layer, w.output));
    if ((parts & kMlp) != 0) must(l.recorder->gated_mlp(layer, w.channel_mix));
  }
  must(
      l.recorder->logits(source.config.final_norm, source.weights.final_norm, source.weights.head));
  l.state = take(cuda::CudaState::create(l.model));
  l.segment = {.state_in = l.state->data(),
               .state_out = l.state->data(),
               .position = 100,
               .first = 0,
               .count = max_tokens};
  test::Random random(1);
  const std::vector<TokenId> tokens =
      random.tokens(static_cast<std::size_t>(max_tokens), source.config.vocab_size);
  must(cudaMemcpy(l.recorder->buffers().tokens.get(), tokens.data(), tokens.size() * 4,
                  cudaMemcpyHostToDevice));
  must(cudaMemcpy(l.recorder->buffers().segments.get(), &l.segment, sizeof l.segment,
                  cudaMemcpyHostToDevice));
  return l;
}

double decode_us(Loaded& l, bool chain, bool head) {
  Launch launch = l.model->launch();
  launch.chain = launch.chain && chain;
  const cuda::Pass pass{.launch = launch, .tokens = 1, .num_segments = 1, .many = false};
  return time_graph_us(launch.stream, [&] {
    must(l.recorder->run(pass));
    if (head) must(l.recorder->run_head(launch, 0, 1));
  });
}

void decode(const BenchModel& source, const char* label, double target) {
  Loaded l = load(source, 1);
  const double mb = static_cast<double>(l.model->weights.bytes) / 1e6;
  const double us = decode_us(l, true, true), again = decode_us(l, true, true),
               plain = decode_us(l, false, true);
  std::printf(
      "decode %-12s %8.1f us  %7.0f tok/s (again %.0f; plain graph %.0f; target %.0f)  %.0f MB "
      "weights, %.2f TB/s\n",
      label, us, 1e6 / us, 1e6 / again, 1e6 / plain, target, mb, mb / us);
  struct Row {
    const char* name;
    unsigned parts;
    bool head;
  };
  for (const Row& row :
       {Row{"embed only", 0, false}, Row{"head only", 0, true},
        Row{"projections", kProjections, false}, Row{"slots", kSlots, false},
        Row{"output", kOutput, false}, Row{"mlp", kMlp, false},
        Row{"all but slots", kAll & ~kSlots, true}, Row{"all but mlp", kAll & ~kMlp, true}}) {
    Loaded part = load(source, 1, row.parts, l.model);
    const double t = decode_us(part, true, row.head);
    std::printf("  %-14s %8.1f us  %6.2f us a layer\n", row.name, t,
                t / source.config.num_layers());
  }
}

void prefill(const BenchModel& source, const char* label, std::vector<int> lengths) {
  std::shared_ptr<cuda::ResidentModel> model;
  for (int n : lengths) {
    Loaded l = load(source, n, kAll, model);
    model = l.model;
    const auto run = [&](Loaded& x) {
      const cuda::Pass pass{
          .launch = x.model->launch(), .tokens = n, .num_segments = 1, .many = true};
      return time_us(pass.launch.stream, 1, 5, [&] { must(x.recorder->run(pass)); });
    };
    const double us = run(l);
    std::printf("prefill %-11s %5d tokens %10.0f us  %8.0f tok/s  (%s)\n", label, n, us,
                n * 1e6 / us, model->cublas != nullptr ? "cuBLASLt" : "own products");
    for (const auto& [name, parts] : {std::pair{"projections", unsigned(kProjections)},
                                      {"slots", unsigned(kSlots)},
                                      {"output", unsigned(kOutput)},
                                      {"mlp", unsigned(kMlp)}}) {
      Loaded part = load(source, n, parts, model);
      const double t = run(part);
      std::printf("  %-14s %10.0f us  %8.1f us a layer\n", name, t, t / source.config.num_layers());
    }
    if (model->cublas != nullptr && n == lengths.front()) {
      std::unique_ptr<cuda::CublasLt> library = std::move(model->cublas);
      const double own = run(l);
      std::printf("  %-14s %10.0f us  %8.0f tok/s\n", "own products", own, n * 1e6 / own);
      model->cublas = std::move(library);
    }
  }
}

template <class T>
cuda::DeviceArray<T> device(std::size_t count) {
  return take(cuda::device_array<T>(count, "benchmark data"));
}

cuda::DeviceArray<float> random_floats(std::size_t count, float scale, float offset = 0.0F) {
  test::Random random(count);
  std::vector<float> block = random.normals(std::min<std::size_t>(count, 65521), scale);
  std::vector<float> all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = block[i % block.size()] + offset;
  auto d = device<float>(count);
  must(cudaMemcpy(d.get(), all.data(), d.bytes(), cudaMemcpyHostToDevice));
  return d;
}

struct MixerShape {
  const char* name;
  int heads, kv_heads, dim;
};

void ops(cudaStream_t stream, const Launch& launch) {
  for (const MixerShape& s : {MixerShape{"1.38B: 4 heads of 512", 4, 4, 512},
                              MixerShape{"7B: 32/8 heads of 128", 32, 8, 128}}) {
    cuda::SlotMixer m{};
    m.heads = s.heads, m.kv_heads = s.kv_heads, m.k_dim = m.v_dim = s.dim, m.memory = 64;
    m.scale = 1.0F / std::sqrt(static_cast<float>(s.dim)), m.gate_normalizer = 8.0F;
    m.head_floats = std::size_t(64) * 2 * static_cast<std::size_t>(s.dim);
    m.input_stride = s.heads * s.dim + 2 * s.kv_heads * s.dim + s.kv_heads * 64;
    constexpr int kStates = 32;  // rotate, so that no op finds its state in L1
    const std::size_t floats = m.head_floats * static_cast<std::size_t>(s.kv_heads);
    const auto state = random_floats(floats * kStates, 0.1F);
    const auto inputs = random_floats(static_cast<std::size_t>(m.input_stride), 1.0F);
    const auto out = device<float>(static_cast<std::size_t>(s.heads * s.dim));
    const cuda::Segment segment{
        .state_in = state.get(), .state_out = state.get(), .position = 0, .first = 0, .count = 1};
    const auto segments = device<cuda::Segment>(1);
    must(cudaMemcpy(segments.get(), &segment, sizeof segment, cudaMemcpyHostToDevice));
    m.inputs = inputs.get(), m.out = out.get(), m.prepared = false;
    for (bool chain : {true, false}) {
      Launch l = launch;
      l.chain = chain && launch.chain;
      const double us = time_graph_us(stream, [&] {
        for (int i = 0; i < 128; ++i) {
          cuda::SlotMixer x = m;
          x.layer_offset = floats * static_cast<std::size_t>(i % kStates);
          must(cuda::slot_recurrent(l, x, segments.get(), 1));
        }
      });
      std::printf("slots, one token   %-24s %7.2f us (%s, 128 in a graph)\n", s.name, us / 128,
                  l.chain ? "chained" : "plain");
    }
  }
}

void micro(cudaStream_t stream, const Launch& launch) {
  const std::size_t bytes = std::size_t{2} << 30;
  const auto a = device<char>(bytes), b = device<char>(bytes);
  must(cudaMemset(a.get(), 1, bytes));
  const double us = time_us(stream, 2, 7, [&] {
    must(cudaMemcpyAsync(b.get(), a.get(), bytes, cudaMemcpyDeviceToDevice, stream));
  });
  std::printf("copy, read + written %.2f TB/s\n", 2.0 * static_cast<double>(bytes) / us / 1e6);
  // The cost of a phase: tiny products in a chain.
  cuda::Matrix w{
      .type = BlockType::bf16, .rows = 576, .cols = 576, .lanes = 8, .steps = 9, .data = a.get()};
  const auto x = random_floats(4096, 1.0F), y = random_floats(4096, 1.0F);
  for (bool chain : {true, false}) {
    Launch l = launch;
    l.chain = chain && launch.chain;
    const double t = time_graph_us(stream, [&] {
      for (int i = 0; i < 100; ++i) {
        cuda::Matvec v{.x = i % 2 == 0 ? x.get() : y.get(), .n = 576, .x_stride = 576};
        v.segments[v.num_segments++] = {
            .w = w, .out = i % 2 == 0 ? y.get() : x.get(), .out_stride = 576};
        must(cuda::matvec(l, cuda::MatvecOutput::store, v, 1, nullptr, {}));
      }
    });
    const double e = time_graph_us(stream, [&] {
      for (int i = 0; i < 100; ++i)
        must(cuda::norm_rows(
            l, {.x = x.get(), .x_stride = 64, .n = 64, .out_stride = 64, .out = y.get()}, 1));
    });
    std::printf("phase: 576 x 576 product %.2f us, one tiny block %.2f us (%s)\n", t / 100, e / 100,
                l.chain ? "chained" : "plain");
  }
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
  std::set<std::string> parts(argv + 1, argv + argc);
  const auto wanted = [&](const char* part) { return parts.empty() || parts.count(part) > 0; };
  const cuda::DeviceFacts facts = cuda::facts_of(0);
  std::printf("%s, %d multiprocessors\n", cuda::devices()[0].name.c_str(), facts.multiprocessors);
  const cuda::Stream stream = take(cuda::create_stream());
  const cuda::Launch launch{.stream = stream.get(),
                            .chain = facts.major >= 9,
                            .cluster_limit = facts.major >= 9 ? 8 : 1,
                            .multiprocessors = facts.multiprocessors};
  must(cuda::prepare_matvec());
  must(cuda::prepare_matmul());
  if (wanted("micro")) micro(stream.get(), launch);
  if (wanted("ops")) ops(stream.get(), launch);
  if (wanted("135m")) {
    const BenchModel m = model_135m();
    decode(m, "135M q4_0", 5500);
    if (wanted("prefill")) prefill(m, "135M q4_0", {512, 2048});
  }
  for (const auto& [name, type, target] : {std::tuple{"q4_0", BlockType::q4_0, 2900.0},
                                           {"q4_k", BlockType::q4_k, 2900.0},
                                           {"q8_0", BlockType::q8_0, 2000.0},
                                           {"bf16", BlockType::bf16, 1200.0}}) {
    if (!wanted(name)) continue;
    const BenchModel m = model_1380m(type);
    decode(m, (std::string("1.38B ") + name).c_str(), target);
    if (wanted("prefill") && type != BlockType::q4_k && type != BlockType::q8_0)
      prefill(m, (std::string("1.38B ") + name).c_str(), {512, 2048, 8192});
  }
  return 0;
}
