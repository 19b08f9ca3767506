// SPDX-License-Identifier: Apache-2.0
#include "runtime/sampling/device_draws.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <string_view>
#include <utility>

#include "runtime/sampling/sampler.h"

namespace runnel {
namespace {

bool greedy(const SamplingOptions& o) {
  return o.temperature == 0.0F && o.dynatemp_range == 0.0F && is_usual_order(o.order);
}

// Where a Vulkan device does not run the whole chain, it finds the tokens that top-k leaves, and the host draws among
// them: what looks at the probabilities of all tokens must come behind top-k.
std::string why_not_vulkan(const SamplingOptions& o) {
  if (is_device_chain(o)) {
    if (o.logit_bias.size() <= kMostDrawnBiases) return {};
    return "there are more than " + std::to_string(kMostDrawnBiases) + " of logit_bias";
  }
  if (o.top_k == 0) return "it has no top_k, so the host sees all logits";
  if (o.mirostat != 0) return "mirostat is in place of top_k";
  const std::span<const ChainSampler> order = order_of(o);
  const auto place = [order](ChainSampler s) {
    return std::find(order.begin(), order.end(), s) - order.begin();
  };
  const auto top_k = place(ChainSampler::top_k);
  if (top_k == std::ssize(order)) return "top_k is not in the order";
  const auto before = [&](bool on, ChainSampler s) { return on && place(s) < top_k; };
  for (const auto& [on, sampler] : {std::pair(o.top_n_sigma > 0.0F, ChainSampler::top_n_sigma),
                                    std::pair(o.dynatemp_range > 0.0F, ChainSampler::temperature),
                                    std::pair(o.temperature == 0.0F, ChainSampler::temperature),
                                    std::pair(o.typical_p < 1.0F, ChainSampler::typical),
                                    std::pair(o.top_p < 1.0F, ChainSampler::top_p),
                                    std::pair(o.min_p > 0.0F, ChainSampler::min_p),
                                    std::pair(o.xtc_probability > 0.0F, ChainSampler::xtc)}) {
    if (before(on, sampler))
      return std::string(to_string(sampler)) + " comes before top_k, so the host sees all logits";
  }
  const bool penalties = has_penalties(o);
  for (const auto& [on, sampler] :
       {std::pair(penalties, ChainSampler::penalties), std::pair(has_dry(o), ChainSampler::dry)}) {
    if (on && place(sampler) > top_k && place(sampler) < std::ssize(order))
      return std::string(to_string(sampler)) + " comes after top_k";
  }
  const std::size_t changed =
      o.logit_bias.size() + (penalties ? static_cast<std::size_t>(o.penalty_window) : 0);
  if (static_cast<std::size_t>(o.top_k) + changed > kMostTokensBehindTopK) {
    return "top_k and the tokens whose logits change are more than " +
           std::to_string(kMostTokensBehindTopK) + ", so the host sees all logits";
  }
  return {};
}

}  // namespace

bool is_device_chain(const SamplingOptions& o) {
  if (o.no_repeat_ngram > 0 || !o.banned_texts.empty()) return false;
  if (!is_usual_order(o.order) || o.mirostat != 0) return false;
  if (greedy(o)) return true;  // nothing that cuts matters then
  return o.dynatemp_range == 0.0F && o.typical_p == 1.0F;
}

bool has_penalties(const SamplingOptions& o) {
  return o.penalty_window > 0 && (o.repetition_penalty != 1.0F || o.presence_penalty != 0.0F ||
                                  o.frequency_penalty != 0.0F);
}
bool has_dry(const SamplingOptions& o) { return o.dry_multiplier > 0.0F && o.dry_range > 0; }

bool draws_largest(const SamplingOptions& o) {
  return o.temperature == 0.0F && o.logit_bias.empty() && !has_penalties(o) && !has_dry(o);
}

std::string why_not_ahead(const SamplingOptions& o, DrawDevice device) {
  const auto on_host = [](std::string_view name) {
    return std::string(name) + " is drawn on the host";
  };
  if (o.no_repeat_ngram > 0) return on_host("no_repeat_ngram");
  if (!o.banned_texts.empty()) return on_host("banned_texts");
  if (device == DrawDevice::vulkan) return why_not_vulkan(o);
  if (!is_usual_order(o.order)) return "an order of its own is drawn on the host";
  if (o.mirostat != 0) return on_host("mirostat");
  if (is_device_chain(o)) return {};
  return on_host(o.dynatemp_range > 0.0F ? "dynatemp" : "typ_p");
}

}  // namespace runnel
