// SPDX-License-Identifier: Apache-2.0
// The recurrence with a removal, S <- diag(a) S + b (c^T S) + k v^T, against vectors of independent float64 loops: the
// delta rule without decay, with one decay a head, with one a channel (also strong, also with keys that heads share),
// and the free form. The reference, and the kernel of every instruction set.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/backend/cpu/isa.h"
#include "runtime/backend/cpu/kernels.h"
#include "runtime/backend/reference/ops.h"
#include "tests/support/compare.h"
#include "tests/support/safetensors.h"

namespace runnel::test {
namespace {

constexpr double kOpTolerance = 1e-5;  // f32 against float64, of the largest value

using Json = nlohmann::json;

std::filesystem::path data() {
  return std::filesystem::path(RUNNEL_TEST_DATA) / "golden" / "rnn" / "delta";
}

/// One case in the form that the kernels take: rows of every state head, whatever the heads of the keys.
struct Inputs {
  std::size_t tokens = 0, heads = 0, dim_k = 0, dim_v = 0;
  std::vector<float> a, b, c, k, q;  // [T, heads, K]
  std::vector<float> v;              // [T, heads, V]
  std::vector<float> state;          // [heads, K, V]
  std::vector<float> expected, final_state;
};

Inputs inputs_of(const std::string& name) {
  const Vectors file(data() / "ops.safetensors");
  const Json ops = Json::parse(std::ifstream(data() / "ops.json"));
  const double scale = ops.at("cases").at(name).at("scale");
  const auto get = [&](const char* tensor) { return file.floats(name + "." + tensor); };
  const auto shape_k = file.shape(name + ".k"), shape_v = file.shape(name + ".v");
  Inputs in;
  in.tokens = static_cast<std::size_t>(shape_v[0]);
  in.heads = static_cast<std::size_t>(shape_v[1]);
  in.dim_v = static_cast<std::size_t>(shape_v[2]);
  in.dim_k = static_cast<std::size_t>(shape_k[2]);
  const std::size_t key_heads = static_cast<std::size_t>(shape_k[1]), shared = in.heads / key_heads;
  in.v = get("v"), in.state = get("initial_state");
  in.expected = get("o"), in.final_state = get("final_state");
  const std::vector<float> q = get("q"), k = get("k");
  const bool free_form = file.has(name + ".w");
  const std::vector<float> w = free_form ? get("w") : get("log_decay");
  const std::vector<float> beta = free_form ? std::vector<float>() : get("beta");
  const std::vector<float> b = free_form ? get("b") : k, c = free_form ? get("c") : k;
  const std::size_t decays = w.size() / (in.tokens * in.heads);
  for (std::size_t t = 0; t < in.tokens; ++t) {
    for (std::size_t h = 0; h < in.heads; ++h) {
      for (std::size_t i = 0; i < in.dim_k; ++i) {
        const std::size_t head = t * in.heads + h;
        const std::size_t key = (t * key_heads + h / shared) * in.dim_k + i;
        const float decay = w[head * decays + (decays > 1 ? i : 0)];
        const float a = free_form ? decay : std::exp(decay);
        in.q.push_back(q[key] * static_cast<float>(scale));
        in.a.push_back(a);
        in.b.push_back(free_form ? b[key] : -beta[head] * k[key]);
        in.c.push_back(free_form ? c[key] : a * k[key]);
        in.k.push_back(free_form ? k[key] : beta[head] * k[key]);
      }
    }
  }
  return in;
}

class RemovalOps : public testing::TestWithParam<std::string> {};

TEST_P(RemovalOps, ReferenceReproducesOutputsAndFinalState) {
  Inputs in = inputs_of(GetParam());
  std::vector<float> o(in.expected.size(), NAN);
  for (std::size_t t = 0; t < in.tokens; ++t) {
    for (std::size_t h = 0; h < in.heads; ++h) {
      const std::size_t head = t * in.heads + h;
      const auto row = [&](const std::vector<float>& all) {
        return std::span(all).subspan(head * in.dim_k, in.dim_k);
      };
      const std::span<float> state =
          std::span(in.state).subspan(h * in.dim_k * in.dim_v, in.dim_k * in.dim_v);
      reference::removal_core(row(in.a), row(in.b), row(in.c), row(in.k),
                              std::span(in.v).subspan(head * in.dim_v, in.dim_v), state);
      reference::recurrence_read(row(in.q), 1.0F, state,
                                 std::span(o).subspan(head * in.dim_v, in.dim_v));
    }
  }
  EXPECT_LE(max_relative_error(o, in.expected), kOpTolerance);
  EXPECT_LE(max_relative_error(in.state, in.final_state), kOpTolerance);
}

TEST_P(RemovalOps, KernelsOfEveryInstructionSetDo) {
  const Inputs in = inputs_of(GetParam());
  const std::size_t columns = (in.dim_v + 15) / 16 * 16;  // rows of the kernels are whole registers
  const auto widened = [&](const std::vector<float>& rows) {
    std::vector<float> wide(rows.size() / in.dim_v * columns);
    for (std::size_t i = 0; i < rows.size(); ++i)
      wide[i / in.dim_v * columns + i % in.dim_v] = rows[i];
    return wide;
  };
  const auto narrowed = [&](const std::vector<float>& wide) {
    std::vector<float> rows;
    for (std::size_t i = 0; i < wide.size(); ++i) {
      if (i % columns < in.dim_v) rows.push_back(wide[i]);
    }
    return rows;
  };
  const std::vector<float> v = widened(in.v);
  for (const cpu::Isa isa : cpu::supported_isas()) {
    std::vector<float> state = widened(in.state), o(v.size(), NAN);
    for (std::size_t h = 0; h < in.heads; ++h) {
      cpu::RecurrenceArgs a{};
      a.state = state.data() + h * in.dim_k * columns;
      a.rows = static_cast<int>(in.dim_k);
      a.dim = a.end = static_cast<int>(columns);
      a.tokens = static_cast<int>(in.tokens);
      a.heads = 1;
      a.decay = in.a.data() + h * in.dim_k;
      a.k = in.k.data() + h * in.dim_k;
      a.q = in.q.data() + h * in.dim_k;
      a.c = in.c.data() + h * in.dim_k;
      a.b = in.b.data() + h * in.dim_k;
      a.k_stride = a.q_stride = a.decay_stride = a.removal_stride =
          static_cast<std::ptrdiff_t>(in.heads * in.dim_k);
      a.v = v.data() + h * columns;
      a.out = o.data() + h * columns;
      a.v_stride = a.out_stride = static_cast<std::ptrdiff_t>(in.heads * columns);
      cpu::find_kernels(isa)->recurrence(a);
    }
    EXPECT_LE(max_relative_error(narrowed(o), in.expected), kOpTolerance) << cpu::isa_name(isa);
    EXPECT_LE(max_relative_error(narrowed(state), in.final_state), kOpTolerance)
        << cpu::isa_name(isa);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, RemovalOps,
                         testing::Values("delta", "gdn", "kda", "kda_gva", "kda_strong", "rwkv7"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace runnel::test
