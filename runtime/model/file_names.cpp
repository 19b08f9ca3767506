// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/file_names.h"

#include <algorithm>
#include <iterator>

#include "runtime/base/number.h"

namespace runnel {
namespace {

constexpr std::string_view kShiftedMix = "rwkv7";  // the channel mix is shifted, too
constexpr std::string_view kGatedMix = "arwkv7";   // a SwiGLU

struct Pair {
  std::string_view ours;
  std::string_view theirs;
};

constexpr Pair kOfModel[] = {{kEmbeddingsName, "token_embd.weight"},
                             {kEmbeddingNormName, "token_embd_norm.weight"},
                             {kEmbeddingNormBiasName, "token_embd_norm.bias"},
                             {kFinalNormName, "output_norm.weight"},
                             {kFinalNormBiasName, "output_norm.bias"},
                             {kHeadName, "output.weight"}};

constexpr std::string_view kLerp = "attn.lerp";

constexpr Pair kOfLayer[] = {{"attn_norm.weight", "attn_norm.weight"},
                             {"attn_norm.bias", "attn_norm.bias"},
                             {kLerp, "time_mix_lerp_fused.weight"},
                             {"attn.q_proj.weight", "time_mix_receptance.weight"},
                             {"attn.k_proj.weight", "time_mix_key.weight"},
                             {"attn.v_proj.weight", "time_mix_value.weight"},
                             {"attn.f_proj.bias", "time_mix_w0.weight"},
                             {"attn.f_down.weight", "time_mix_w1.weight"},
                             {"attn.f_proj.weight", "time_mix_w2.weight"},
                             {"attn.r_proj.bias", "time_mix_a0.weight"},
                             {"attn.r_down.weight", "time_mix_a1.weight"},
                             {"attn.r_proj.weight", "time_mix_a2.weight"},
                             {"attn.v_mix.bias", "time_mix_v0.weight"},
                             {"attn.v_down.weight", "time_mix_v1.weight"},
                             {"attn.v_mix.weight", "time_mix_v2.weight"},
                             {"attn.g_down.weight", "time_mix_g1.weight"},
                             {"attn.g_proj.weight", "time_mix_g2.weight"},
                             {"attn.removal_key", "time_mix_k_k.weight"},
                             {"attn.key_rate", "time_mix_k_a.weight"},
                             {"attn.bonus", "time_mix_r_k.weight"},
                             {"attn.g_norm.weight", "time_mix_ln.weight"},
                             {"attn.g_norm.bias", "time_mix_ln.bias"},
                             {"attn.o_proj.weight", "time_mix_output.weight"}};

constexpr Pair kOfShiftedMix[] = {{"mlp_norm.weight", "attn_norm_2.weight"},
                                  {"mlp_norm.bias", "attn_norm_2.bias"},
                                  {"mlp.lerp", "channel_mix_lerp_k.weight"},
                                  {"mlp.up_proj.weight", "channel_mix_key.weight"},
                                  {"mlp.down_proj.weight", "channel_mix_value.weight"}};

constexpr Pair kOfGatedMix[] = {{"mlp_norm.weight", "ffn_norm.weight"},
                                {"mlp.gate_proj.weight", "ffn_gate.weight"},
                                {"mlp.up_proj.weight", "ffn_up.weight"},
                                {"mlp.down_proj.weight", "ffn_down.weight"}};

template <std::size_t kN>
std::string_view find(const Pair (&table)[kN], std::string_view ours) {
  const Pair* const pair = std::ranges::find(table, ours, &Pair::ours);
  return pair == std::end(table) ? std::string_view() : pair->theirs;
}

}  // namespace

void LayerCount::add(std::string_view name) {
  if (!name.starts_with(prefix_)) return;
  name.remove_prefix(prefix_.size());
  const auto number = number_in<std::int64_t>(name.substr(0, name.find('.')));
  if (number && *number >= 0 && *number < kMostLayers) count_ = std::max(count_, *number + 1);
}

bool has_llama_names(std::string_view architecture) {
  return architecture == kShiftedMix || architecture == kGatedMix;
}

FileNames::FileNames(std::string_view architecture)
    : llama_(has_llama_names(architecture)), gated_mix_(architecture == kGatedMix) {}

std::string FileNames::of(std::string_view name) const {
  const std::string_view theirs = llama_ ? find(kOfModel, name) : std::string_view();
  return std::string(theirs.empty() ? name : theirs);
}

std::string FileNames::of_layer(std::int32_t layer, std::string_view suffix) const {
  if (!llama_) return layer_prefix(layer) + std::string(suffix);
  std::string_view theirs = find(kOfLayer, suffix);
  if (theirs.empty()) theirs = gated_mix_ ? find(kOfGatedMix, suffix) : find(kOfShiftedMix, suffix);
  return "blk." + std::to_string(layer) + "." + std::string(theirs.empty() ? suffix : theirs);
}

std::vector<std::int64_t> FileNames::shape(const LayerTensor& tensor) const {
  if (llama_ && tensor.suffix == kLerp) return {tensor.shape[0], 1, 1, tensor.shape[1]};
  return tensor.shape;
}

std::vector<FileNames::Unread> FileNames::unread(std::int32_t layer) const {
  if (!llama_ || layer != 0) return {};
  return {{of_layer(0, "attn.v_mix.bias"), "attn.r_proj.bias"},
          {of_layer(0, "attn.v_down.weight"), "attn.r_down.weight"},
          {of_layer(0, "attn.v_mix.weight"), "attn.r_proj.weight"}};
}

}  // namespace runnel
