// SPDX-License-Identifier: Apache-2.0
// The reference slot step against vectors of an independent float64 loop (tests/data/README.md says whence).
#include "runtime/backend/reference/ops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/compare.h"
#include "tests/support/safetensors.h"

namespace runnel::test {
namespace {

constexpr double kOpTolerance = 1e-5;  // f32 against float64, of the largest value

using Json = nlohmann::json;

std::filesystem::path data() { return std::filesystem::path(RUNNEL_TEST_DATA) / "golden"; }

class GoldenOps : public testing::TestWithParam<std::string> {
 protected:
  std::vector<float> tensor(const std::string& name) const {
    return file_.floats(GetParam() + "." + name);
  }
  std::vector<float> optional(const std::string& name) const {
    return file_.has(GetParam() + "." + name) ? tensor(name) : std::vector<float>();
  }

  Vectors file_{data() / "ops.safetensors"};
};

TEST_P(GoldenOps, SlotStepReproducesOutputsAndFinalState) {
  const Json all = Json::parse(std::ifstream(data() / "ops.json"));
  const Json& shape = all.at(GetParam());
  const auto size = [&](const char* key) { return shape.at(key).get<std::size_t>(); };
  const std::size_t batch = size("B"), tokens = size("T"), queries = size("HQ"), heads = size("H");
  const std::size_t dim_k = size("K"), dim_v = size("V"), slots = size("M"),
                    group = queries / heads;
  LayerSpec layer;
  layer.num_heads = static_cast<int>(queries);
  layer.num_kv_heads = static_cast<int>(heads);
  layer.head_k_dim = static_cast<int>(dim_k);
  layer.head_v_dim = static_cast<int>(dim_v);
  layer.slots().num_memory_slots = static_cast<int>(slots);
  layer.slots().scale = shape.at("scale").get<float>();

  const std::vector<float> q = tensor("q"), k = tensor("k"), v = tensor("v"), s = tensor("s"),
                           g = tensor("g");
  const std::vector<float> hk0 = optional("hk0"), hv0 = optional("hv0");
  std::vector<float> o(batch * tokens * queries * dim_v, NAN);
  std::vector<float> hk(batch * heads * dim_k * slots), hv(batch * heads * slots * dim_v);
  for (std::size_t b = 0; b < batch; ++b) {
    for (std::size_t h = 0; h < heads; ++h) {
      const std::size_t head = b * heads + h;
      std::vector<float> keys(slots * dim_k), values(slots * dim_v);
      if (!hk0.empty()) {
        keys =
            transposed(std::span(hk0).subspan(head * dim_k * slots, dim_k * slots), dim_k, slots);
        const auto first = hv0.begin() + static_cast<std::ptrdiff_t>(head * slots * dim_v);
        values.assign(first, first + static_cast<std::ptrdiff_t>(slots * dim_v));
      }
      for (std::size_t t = 0; t < tokens; ++t) {
        const std::size_t at = (b * tokens + t) * heads + h;
        const reference::SlotInput in{.q = std::span(q).subspan(at * group * dim_k, group * dim_k),
                                      .k = std::span(k).subspan(at * dim_k, dim_k),
                                      .v = std::span(v).subspan(at * dim_v, dim_v),
                                      .log_alpha = std::span(g).subspan(at * slots, slots),
                                      .s = std::span(s).subspan(at * slots, slots)};
        reference::slot_step(layer, t, in, keys, values,
                             std::span(o).subspan(at * group * dim_v, group * dim_v));
      }
      const std::vector<float> final_keys = transposed(keys, slots, dim_k);
      std::copy(final_keys.begin(), final_keys.end(),
                hk.begin() + static_cast<std::ptrdiff_t>(head * dim_k * slots));
      std::copy(values.begin(), values.end(),
                hv.begin() + static_cast<std::ptrdiff_t>(head * slots * dim_v));
    }
  }
  EXPECT_LE(max_relative_error(o, tensor("o_f64")), kOpTolerance);
  EXPECT_LE(max_relative_error(hk, tensor("hkt_f64")), kOpTolerance);
  EXPECT_LE(max_relative_error(hv, tensor("hvt_f64")), kOpTolerance);
}

INSTANTIATE_TEST_SUITE_P(Cases, GoldenOps,
                         testing::Values("tiny", "odd", "state", "chunks", "gqa", "strong_decay",
                                         "no_decay", "kv_differ", "mistral_head"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace runnel::test
