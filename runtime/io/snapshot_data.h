// SPDX-License-Identifier: Apache-2.0
// What a snapshot holds: everything a session remembers, on no device in particular. Plain data.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runnel/chat.h"
#include "runnel/snapshot.h"
#include "runnel/types.h"
#include "runtime/base/access.h"

namespace runnel {

/// The sampling options a session was using. Draws depend on seed and position alone, so this is
/// all of a sampler. Ranges and meanings as in SamplingOptions; not checked here.
struct SamplerState {
  std::uint64_t seed = 0;
  float temperature = 0.0F;
  std::int32_t top_k = 0;
  float top_p = 1.0F;
  float min_p = 0.0F;
  float repetition_penalty = 1.0F;
  float presence_penalty = 0.0F;
  float frequency_penalty = 0.0F;
  std::int32_t penalty_window = 256;

  struct Dry {
    float multiplier = 0.0F;
    float base = 1.75F;
    std::int32_t allowed_length = 2;
    std::int32_t range = 1024;
    std::vector<std::string> breakers = {"\n", ":", "\"", "*"};

    bool operator==(const Dry&) const = default;
  };
  Dry dry;

  /// The other samplers, as SamplingOptions has them.
  struct Chain {
    float top_n_sigma = 0.0F;
    float typical_p = 1.0F;
    float xtc_probability = 0.0F;
    float xtc_threshold = 0.1F;
    float dynatemp_range = 0.0F;
    float dynatemp_exponent = 1.0F;
    std::int32_t mirostat = 0;
    float mirostat_tau = 5.0F;
    float mirostat_eta = 0.1F;
    std::int32_t no_repeat_ngram = 0;
    std::vector<std::string> banned_texts;
    std::vector<std::uint8_t> order;  // ChainSampler

    bool operator==(const Chain&) const = default;
  };
  Chain chain;
  std::vector<std::pair<TokenId, float>> logit_bias;  // ascending token ids

  bool operator==(const SamplerState&) const = default;
};

/// How far a text has come in its constraint. Meanings as in ConstraintSource; not checked here.
struct ConstraintState {
  std::uint8_t kind = 0;  // ConstraintKind
  bool strict = true;
  std::string source;
  std::uint64_t hash = 0;  // Constraint::hash()
  std::string taken;       // bytes since it began

  bool operator==(const ConstraintState&) const = default;
};

/// What the tokens of a snapshot say: the part of a state pack that people read, and all that is
/// needed to make its state again on another model.
struct SnapshotContext {
  std::vector<ChatMessage> messages;
  std::vector<TokenId> tokens;  // all consumed since the session was empty

  bool empty() const { return messages.empty() && tokens.empty(); }
  bool operator==(const SnapshotContext&) const = default;
};

/// docs/snapshot-format.md says how this lies in a file.
struct SnapshotData {
  std::uint64_t model_fingerprint = 0;
  std::optional<std::int32_t> window_slots;  // fewer than the model's file has; empty: as many
  std::string backend;  // where it was taken ("cpu", "cuda"): only there it goes on bit-identically
  std::uint64_t position = 0;          // tokens consumed
  std::uint64_t history_hash = 0;      // of all tokens consumed, in order
  std::vector<float> state;            // StateLayout::total_floats(), canonical layout
  std::vector<float> logits;           // [vocab] after the last token; empty before the first
  std::vector<TokenId> recent_tokens;  // oldest first
  std::uint64_t generated_tokens = 0;  // how many at their end were generated since the last prompt
  std::string utf8_carry;              // bytes of a character that is not whole yet
  std::string stop_carry;              // text held back because a stop text may be starting in it
  std::string unread_carry;            // shown text of an answer that the next turn begins with
  std::optional<float> mirostat_mu;    // where mirostat's bound stands
  std::optional<ConstraintState> constraint;  // of a text that is not whole yet
  bool has_sampler = false;
  SamplerState sampler;
  SnapshotContext context;  // empty but in a state pack
  std::vector<float>
      initial_state;  // of a pack: what its messages were read from, as `state`; empty: the empty state

  bool operator==(const SnapshotData&) const = default;
};

/// What a snapshot holds.
inline const SnapshotData& data_of(const Snapshot& snapshot) { return Access::data(snapshot); }

inline Snapshot make_snapshot(std::shared_ptr<const SnapshotData> data) {
  return Access::make<Snapshot>(std::move(data));
}

}  // namespace runnel
