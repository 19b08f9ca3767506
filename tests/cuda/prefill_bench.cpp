// SPDX-License-Identifier: Apache-2.0
// Speed of long passes on one GPU, kernel by kernel and way by way. Usage: runnel_prefill_bench
// [part …], parts: slots products model small 500m; all of them without arguments; with 500m, slots are those of the
// 0.5B model alone, in all their ways. Times are device times
// between events, medians of repeats.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "runtime/backend/cuda/cuda_backend.h"
#include "runtime/backend/cuda/pass_graphs.h"
#include "runtime/backend/cuda/recorder.h"
#include "tests/cuda/bench_models.h"
#include "tests/cuda/bench_support.h"
#include "tests/cuda/prefill_support.h"
#include "tests/support/random.h"

namespace runnel::bench {
namespace {

using cuda::Launch;
using quant::BlockType;
using test::MixerShape;
using test::OnDevice;

std::vector<float> floats(std::size_t count, float scale, float offset = 0.0F) {
  test::Random random(count);
  const std::vector<float> block = random.normals(std::min<std::size_t>(count, 65521), scale);
  std::vector<float> all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = block[i % block.size()] + offset;
  return all;
}
std::vector<std::uint16_t> halves(std::size_t count, float scale) {
  test::Random random(count + 1);
  std::vector<std::uint16_t> block(std::min<std::size_t>(count, 65521)), all(count);
  for (auto& v : block) v = test::bf16_of(scale * random.normal());
  for (std::size_t i = 0; i < count; ++i) all[i] = block[i % block.size()];
  return all;
}

struct BroadWay {
  const char* name;
  cuda::BroadTuning tuning;
};

/// Each kernel of the broad slots alone, in every way it can work.
void broad_ways(const Launch& l, const cuda::SlotMixer& m, const cuda::Segment* segment, int n,
                cuda::ChunkOperands o) {
  auto* const bf16 = reinterpret_cast<std::uint16_t*>(m.out);
  const auto run = [&](const std::function<cudaError_t()>& f) {
    return time_us(l.stream, 5, 9, [&] { must(f()); });
  };
  for (int spans : {1, 2, 4, 8}) {
    const cuda::ChunkPass pass{segment, n, {.spans = spans}};
    std::printf("slots broad %6d tokens: states in %d spans %7.1f us\n", n, spans,
                run([&] { return cuda::slot_states(l, m, pass, o); }));
  }
  for (const BroadWay& way : {BroadWay{"tiles", {.read = cuda::BroadRead::tiles}},
                              BroadWay{"whole", {.read = cuda::BroadRead::whole}}}) {
    const cuda::ChunkPass pass{segment, n, way.tuning};
    o.out_bf16 = nullptr;
    const double to_f32 = run([&] { return cuda::broad_slot_read(l, m, pass, o); });
    o.out_bf16 = bf16;
    const double to_bf16 = run([&] { return cuda::broad_slot_read(l, m, pass, o); });
    const double all = run([&] { return cuda::slot_chunks(l, m, pass, o); });
    std::printf("slots broad %6d tokens: read %s %7.1f us, to bf16 %7.1f us; all four %7.1f us\n",
                n, way.name, to_f32, to_bf16, all);
  }
}

/// @param broad_alone  the 0.5B model's shape alone
void slots(const Launch& launch, bool broad_alone) {
  Launch l = launch;
  l.chain = false;
  for (const MixerShape& s :
       {MixerShape{"1.38B", 4, 4, 512, 512, 64, 0, 0}, MixerShape{"7B", 32, 8, 128, 128, 64, 0, 0},
        MixerShape{"135M", 9, 3, 64, 64, 64, 4, 60},
        MixerShape{"0.5B", 14, 2, 64, 64, 128, 4, 252, 200.0F}}) {
    if (broad_alone && !s.broad()) continue;
    for (int n : {512, 2048, 8192, 32768}) {
      if (n == 32768 && (s.heads == 32 || broad_alone)) continue;
      cuda::SlotMixer m = test::mixer_of(s);
      m.scale = 1.0F / std::sqrt(static_cast<float>(s.k_dim));
      const auto tokens = static_cast<std::size_t>(n);
      const OnDevice<float> state(
          floats(m.head_floats * static_cast<std::size_t>(s.kv_heads), 0.1F));
      // Log decays around -0.1, inputs prepared.
      const OnDevice<float> inputs(
          floats(tokens * static_cast<std::size_t>(m.input_stride), 0.03F, -0.1F));
      const std::vector<double> turn(static_cast<std::size_t>(s.k_dim / 2), 0.1);
      const OnDevice<double> turns(turn);
      const OnDevice<float> out(tokens * static_cast<std::size_t>(s.heads * s.v_dim));
      const OnDevice<float> gates(
          floats(tokens * static_cast<std::size_t>(s.kv_heads * s.memory), 0.03F, -0.1F));
      const test::ChunkPool pool(s, n);
      const OnDevice<float> k_bias(
          std::vector<float>(static_cast<std::size_t>(s.kv_heads * s.k_dim), s.k_bias));
      if (s.broad()) m.k_bias = k_bias.get();
      m.inputs = inputs.get(), m.out = out.get(), m.turns = turns.get();
      const cuda::Segment segment{
          .state_in = state.get(), .state_out = state.get(), .position = 0, .first = 0, .count = n};
      const OnDevice<cuda::Segment> segments(std::vector<cuda::Segment>{segment});
      const cuda::ChunkPass pass{segments.get(), n};
      cuda::ChunkOperands o = pool.operands();
      must(cuda::slot_chunks(l, m, pass, o));  // makes the operands
      const auto run = [&](const std::function<cudaError_t()>& f) {
        return time_us(l.stream, 5, 9, [&] { must(f()); });
      };
      const double whole = run([&] { return cuda::slot_chunks(l, m, pass, o); });
      if (!s.broad()) o.gates = gates.get(), o.gate_stride = s.kv_heads * s.memory;
      const double operands = run([&] {
        return s.broad() ? cuda::broad_slot_operands(l, m, pass, o)
                         : cuda::slot_operands(l, m, pass, o);
      });
      if (s.sinks + s.window == 0) {
        o.ready = true;
        o.out_bf16 = reinterpret_cast<std::uint16_t*>(out.get());
      }
      const double ready = run([&] { return cuda::slot_chunks(l, m, pass, o); });
      const double again = run([&] { return cuda::slot_chunks(l, m, pass, o); });
      std::printf(
          "slots %-6s %6d tokens: from f32 %8.1f us, from bf16 %8.1f us (again %8.1f); alone: "
          "operands %7.1f gates %6.1f states %7.1f read %7.1f us\n",
          s.name, n, whole, ready, again, operands,
          run([&] { return cuda::slot_gates(l, m, pass, o); }),
          run([&] { return cuda::slot_states(l, m, pass, o); }), run([&] {
            return s.broad() ? cuda::broad_slot_read(l, m, pass, o)
                             : cuda::slot_read(l, m, pass, o);
          }));
      if (s.broad()) broad_ways(l, m, segments.get(), n, o);
    }
  }
}

struct Product {
  const char* name;
  int rows, inner;
  cuda::WideOutput output;
};

void products(const Launch& l) {
  const bool wide = cuda::prepare_wide_matmul();
  const std::unique_ptr<cuda::CublasLt> library = cuda::CublasLt::load();
  std::printf("products: wgmma %s, cuBLASLt %s\n", wide ? "yes" : "NO",
              library != nullptr ? "yes" : "NO");
  for (int n : {512, 2048, 8192}) {
    for (const Product& p : {Product{"slots", 6400, 2048, cuda::WideOutput::slots},
                             {"output", 2048, 2048, cuda::WideOutput::add_f32},
                             {"gate, up", 11264, 2048, cuda::WideOutput::swiglu},
                             {"gate, up plain", 11264, 2048, cuda::WideOutput::store_bf16},
                             {"down", 2048, 5632, cuda::WideOutput::add_f32}}) {
      const auto u = [](int v) { return static_cast<std::size_t>(v); };
      const OnDevice<std::uint16_t> a(halves(u(n) * u(p.inner), 1.0F)),
          b(halves(u(p.rows) * u(p.inner), 0.02F));
      const OnDevice<float> c(floats(u(n) * u(p.rows), 1.0F));
      const bool narrow =
          p.output == cuda::WideOutput::swiglu || p.output == cuda::WideOutput::store_bf16;
      const bool add = p.output == cuda::WideOutput::add_f32;
      const cuda::Matmul mm{.a = a.get(),
                            .lda = p.inner,
                            .b = b.get(),
                            .ldb = p.inner,
                            .tokens = n,
                            .rows = p.rows,
                            .inner = p.inner,
                            .c = c.get(),
                            .ldc = p.output == cuda::WideOutput::swiglu ? p.rows / 2 : p.rows,
                            .add = add,
                            .c_bf16 = narrow};
      const double gf = 2.0 * n * p.rows * p.inner / 1e6;
      std::printf("product %-14s %5d x %5d x %4d TFLOP/s:", p.name, n, p.rows, p.inner);
      if (library != nullptr) {
        cuda::Matmul x = mm;
        x.ldc = p.rows;
        bool fine = true;
        const double t =
            time_us(l.stream, 3, 7, [&] { fine = library->matmul(l.stream, x) && fine; });
        std::printf(" cuBLASLt %.0f%s (%.1f us)", gf / t, fine ? "" : " FAILED", t);
      }
      if (wide) {
        cuda::WideMatmul w{.p = mm, .output = p.output, .slots = {}};
        auto* narrow_out = reinterpret_cast<std::uint16_t*>(c.get());
        w.slots = {.q = 2048,
                   .k = 2048,
                   .v = 2048,
                   .f = 256,
                   .activated = narrow_out,
                   .gates = c.get() + u(n) * 4096,
                   .qk_act = cuda::Act::swish,
                   .v_act = cuda::Act::swish};
        for (const cuda::WideTuning& t :
             {cuda::WideTuning{.columns = 256}, cuda::WideTuning{.columns = 128}}) {
          const double us = time_us(l.stream, 3, 7, [&] { must(cuda::wide_matmul(l, w, t)); });
          std::printf("; %d wide %.0f (%.1f us)", t.columns, gf / us, us);
        }
      }
      std::printf("\n");
    }
    // The glue.
    const auto u = [](int v) { return static_cast<std::size_t>(v); };
    const OnDevice<float> x(floats(u(n) * 2048, 1.0F)), w(floats(2048, 1.0F));
    const OnDevice<std::uint16_t> y(halves(u(n) * 2048, 1.0F)), z(u(n) * 2048);
    const cuda::Rows rows{.x = x.get(),
                          .x_stride = 2048,
                          .n = 2048,
                          .out_stride = 2048,
                          .normalise = true,
                          .eps = 1e-6F,
                          .weight = w.get(),
                          .out = z.get()};
    cuda::Rows from = rows;
    from.x = nullptr, from.x_bf16 = y.get(), from.act = cuda::Act::swish;
    const OnDevice<std::uint16_t> gu(halves(u(n) * 11264, 1.0F)), h(u(n) * 5632);
    const auto run = [&](const std::function<cudaError_t()>& f) {
      return time_us(l.stream, 3, 7, [&] { must(f()); });
    };
    std::printf("rows %5d x 2048: norm of f32 %.1f us, of activated bf16 %.1f us; ", n,
                run([&] { return cuda::norm_rows(l, rows, n); }),
                run([&] { return cuda::norm_rows(l, from, n); }));
    std::printf("swiglu of 11264 %.1f us\n", run([&] {
                  return cuda::swiglu_rows(l,
                                           {.gu = gu.get(),
                                            .gu_bf16 = true,
                                            .gu_stride = 11264,
                                            .n = 5632,
                                            .h = h.get(),
                                            .h_bf16 = true,
                                            .h_stride = 5632},
                                           n);
                }));
  }
}

enum Part : unsigned { kProjections = 1, kSlots = 2, kOutput = 4, kMlp = 8, kAll = 15 };

struct Way {
  const char* name;
  cuda::PrefillOptions options;
};

/// For models whose slots the broad kernels take.
std::vector<Way> broad_model_ways() {
  using cuda::BroadRead;
  return {{"as it is", {}},
          {"read by tiles", {.broad = {.read = BroadRead::tiles}}},
          {"states in one span", {.broad = {.spans = 1}}},
          {"biases apart", {.defer_biases = false}},
          {"slots to f32", {.bf16_outputs = false}},
          {"all of these",
           {.defer_biases = false,
            .bf16_outputs = false,
            .broad = {.spans = 1, .read = BroadRead::tiles}}},
          {"products by cuBLASLt", {.wide = false}},
          {"as it is, again", {}}};
}

std::vector<Way> ways(bool broad) {
  if (broad) return broad_model_ways();
  return {{"as it is", {}},
          {"products by cuBLASLt", {.wide = false, .tuning = {}}},
          {"all wide", {.wide_products = true, .tuning = {}}},
          {"as it is, again", {}}};
}

void model(const BenchModel& source, const char* label, const std::vector<int>& lengths) {
  const std::shared_ptr<cuda::ResidentModel> model = take(
      cuda::load_model(cuda::facts_of(0), {.config = source.config, .weights = source.weights}));
  for (int n : lengths) {
    test::Random random(1);
    const std::vector<TokenId> tokens =
        random.tokens(static_cast<std::size_t>(n), source.config.vocab_size);
    const auto state = take(cuda::CudaState::create(model));
    must(state->reset());
    const cuda::Segment segment{.state_in = state->data(),
                                .state_out = state->data(),
                                .position = 100,
                                .first = 0,
                                .count = n};
    const auto recorder_of = [&](unsigned parts) {
      auto r = take(cuda::Recorder::create(model, n));
      must(r->embed(source.weights.embeddings));
      for (const LayerSpec& layer : source.config.layers) {
        const LayerWeights& w = source.weights.layers[static_cast<std::size_t>(layer.index)];
        if ((parts & kProjections) != 0) must(r->slot_projections(layer, w.slots()));
        if ((parts & kSlots) != 0) must(r->slot_attention(layer, w.slots()));
        if ((parts & kOutput) != 0) must(r->output_projection(layer, w.output));
        if ((parts & kMlp) != 0) must(r->gated_mlp(layer, w.channel_mix));
      }
      // A part alone reads what nothing wrote: zeros, never gates of any strength.
      const cuda::PlanBuffers& b = r->buffers();
      must(cudaMemset(b.slot_pool.get(), 0, b.slot_pool.bytes()));
      must(cudaMemset(b.inputs.get(), 0, b.inputs.bytes()));
      must(cudaMemset(b.o.get(), 0, b.o.bytes()));
      must(cudaMemcpy(r->buffers().tokens.get(), tokens.data(), tokens.size() * 4,
                      cudaMemcpyHostToDevice));
      must(cudaMemcpy(r->buffers().segments.get(), &segment, sizeof segment,
                      cudaMemcpyHostToDevice));
      return r;
    };
    const cuda::Pass pass{.launch = model->launch(), .tokens = n, .num_segments = 1, .many = true};
    const cudaStream_t stream = pass.launch.stream;
    const auto run = [&](cuda::Recorder& r) {
      return time_us(stream, 1, 7, [&] { must(r.run(pass)); });
    };
    const auto whole = recorder_of(kAll);
    struct Piece {
      const char* name;
      std::unique_ptr<cuda::Recorder> recorder;
    };
    std::vector<Piece> pieces;
    if (n >= 2048) {
      pieces.push_back({"projections", recorder_of(kProjections)});
      pieces.push_back({"slots", recorder_of(kSlots)});
      pieces.push_back({"output", recorder_of(kOutput)});
      pieces.push_back({"mlp", recorder_of(kMlp)});
    }
    const bool broad = source.config.layers[0].qkv_bias;
    for (const Way& way : ways(broad)) {
      model->prefill = way.options;
      const double us = run(*whole);
      std::printf("prefill %s %5d tokens, %-22s %9.0f us %8.0f tok/s;", label, n, way.name, us,
                  n * 1e6 / us);
      for (const Piece& piece : pieces)
        std::printf(" %s %.1f", piece.name, run(*piece.recorder) / source.config.num_layers());
      std::printf("%s\n", pieces.empty() ? "" : " us a layer");
      if (!broad) continue;
      cuda::PassGraphs graphs;
      cuda::Pass prompt = pass;
      prompt.first_wanted = n - 1;
      const double recorded = time_us(stream, 2, 11, [&] {
        must(graphs.run(stream, {n, n - 1}, [&] { return whole->run(prompt); }));
      });
      std::printf("prefill %s %5d tokens, %-22s %9.0f us %8.0f tok/s recorded, last wanted\n",
                  label, n, way.name, recorded, n * 1e6 / recorded);
    }
    model->prefill = {};
    cuda::PassGraphs graphs;
    cuda::Pass prompt = pass;
    prompt.first_wanted = n - 1;
    const auto replay = [&] {
      must(graphs.run(stream, {n, n - 1}, [&] { return whole->run(prompt); }));
    };
    const double us = time_us(stream, 1, 11, replay);
    // From rest, as a prompt finds the board: in a row, passes run into the board's power limit.
    std::vector<double> rested;
    for (int i = 0; i < 5; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(150));
      rested.push_back(time_us(stream, 1, 1, replay, 0));
    }
    std::sort(rested.begin(), rested.end());
    std::printf(
        "prefill %s %5d tokens, %-22s %9.0f us %8.0f tok/s; after a pause %.0f us %.0f tok/s\n",
        label, n, "recorded, last wanted", us, n * 1e6 / us, rested[2], n * 1e6 / rested[2]);
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
  const std::set<std::string> parts(argv + 1, argv + argc);
  const auto wanted = [&](const char* part) { return parts.empty() || parts.count(part) > 0; };
  const cuda::DeviceFacts facts = cuda::facts_of(0);
  std::printf("%s, %d multiprocessors\n", cuda::devices()[0].name.c_str(), facts.multiprocessors);
  const cuda::Stream stream = take(cuda::create_stream());
  const Launch launch{.stream = stream.get(),
                      .chain = facts.major >= 9,
                      .cluster_limit = facts.major >= 9 ? 8 : 1,
                      .multiprocessors = facts.multiprocessors};
  must(cuda::prepare_matmul());
  must(cuda::prepare_slot_chunks());
  if (wanted("slots")) slots(launch, parts.count("500m") > 0);
  if (wanted("products")) products(launch);
  if (wanted("model")) model(model_1380m(BlockType::bf16), "1.38B bf16", {512, 2048, 4096, 8192});
  if (wanted("small")) model(model_135m(), "135M", {512, 2048});
  if (wanted("500m")) model(model_500m(), "0.5B", {512, 2048, 8192});
  return 0;
}
