// SPDX-License-Identifier: Apache-2.0
// THE SEAM between the model and a device: Backend (a device), DeviceModel (weights on it),
// RecurrentState (a session's memory on it), Ops (records a pass, once) and Plan (replays it for
// any list of sessions).
//
// A backend implements every op; there is no per-op fallback to another device. reference/ has the
// equation of each.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "runnel/device.h"
#include "runnel/result.h"
#include "runnel/types.h"
#include "runtime/model/config.h"
#include "runtime/model/state_layout.h"
#include "runtime/model/weights.h"
#include "runtime/sampling/dry.h"

namespace runnel {

class PassProbe;         // runtime/backend/pass_probe.h
class TokenMask;         // runtime/sampling/token_mask.h
struct SamplingOptions;  // runnel/sampling.h

/// The memory of one session on one device: constant size, advanced in place by Plan::run.
class RecurrentState {
 public:
  virtual ~RecurrentState() = default;

  /// Tokens consumed since the state was empty. Has no upper bound in practice (64 bit).
  virtual std::uint64_t position() const = 0;

  /// Copies the state out in canonical layout. `out` has StateLayout::total_floats() floats.
  virtual Status export_to(std::span<float> out) const = 0;

  /// Replaces the state by a canonical one that has consumed `position` tokens. On error the state
  /// is unchanged.
  virtual Status import_from(std::span<const float> canonical, std::uint64_t position) = 0;

  /// An independent copy on the same device.
  virtual Result<std::unique_ptr<RecurrentState>> clone() const = 0;

  /// Back to empty, position 0.
  virtual Status reset() = 0;
};

/// Which logits a pass computes for one item.
enum class LogitsWanted { none, last, all };

/// One session's share of a pass.
struct PlanItem {
  RecurrentState* state = nullptr;  // of the plan's DeviceModel; each state at most once per run
  std::span<const TokenId> tokens;  // at least one; ids in [0, vocab)
  LogitsWanted wanted = LogitsWanted::none;
  std::span<float> logits;  // [vocab] for last, [tokens, vocab] for all, empty for none
};

/// Records the ops of one pass over T tokens. The residual stream x [T, D] and the buffers between the ops belong to
/// the plan. An op is given all it needs: its layer's description, which it copies, and its own weights, which outlive
/// the plan.
/// Recording checks shapes and types; nothing is computed here.
class Ops {
 public:
  virtual ~Ops() = default;

  /// x[t] = table[token[t]]
  virtual Status embed(const WeightView& table) = 0;

  /// x <- norm(x)
  virtual Status embedding_norm(const NormSpec& norm, const NormWeights& weights) = 0;

  /// x^ = norm(x);  q, k, v, f = W x^ + bias (+ conv)
  virtual Status slot_projections(const LayerSpec& layer, const SlotWeights& weights) = 0;

  /// Maps of q and k, activation of v;  log alpha = max(floor, logsigmoid(f + bias) / tau),  s = -expm1(log alpha).
  /// Then per kv head and token: update the slots, then read o = softmax(logits over all slots) V~. T = 1: the
  /// recurrence; T > 1: chunkwise, the same function. Advances the state of this layer in place.
  virtual Status slot_attention(const LayerSpec& layer, const SlotWeights& weights) = 0;

  /// x^ = norm(x);  what the model has of q, k, v, f, r, output gate = W x^ (+ bias, conv); f by way of its low rank
  virtual Status recurrence_projections(const LayerSpec& layer,
                                        const RecurrenceWeights& weights) = 0;

  /// h = norm(x), d = h of the token before - h (advances that part of the state), x_j = h + lerp_j d;  q = W x_q and so
  /// k, v;  f, r and the output gate by way of low ranks, with tanh, nothing and a sigmoid between;  v is kept for later
  /// layers, or goes towards what was kept by sigmoid(W2 (W1 x_v) + bias)
  virtual Status shifted_projections(const LayerSpec& layer, const RecurrenceWeights& weights) = 0;

  /// Maps, rotations and decays of each head, then per state head and token
  ///   S <- diag(a) S diag(b) + k v^T,  o = scale S^T q,
  /// twice with a softmax over the slots between if the model has slots; with a removal
  ///   S <- diag(a) S + b (c^T S) + k v^T,  of the S before;  bonus_h = sum of q k w over the head's channels.
  /// One token: the recurrence; several: the same
  /// function in blocks. Advances the state of this layer in place.
  virtual Status gated_recurrence(const LayerSpec& layer, const RecurrenceWeights& weights) = 0;

  /// x += W_o ((norm(act(o)) + bonus v) * act(output gate)), norm over all channels or over each head's
  virtual Status output_projection(const LayerSpec& layer, const OutputWeights& weights) = 0;

  /// x += W_down(silu(W_gate x~) * W_up x~),  x~ = norm(x)
  virtual Status gated_mlp(const LayerSpec& layer, const ChannelMixWeights& weights) = 0;

  /// x += W_down(relu(W_up x~)^2),  x~ = norm(x), or between that and norm(x) of the token before as lerp says
  /// (advances that part of the state)
  virtual Status squared_relu_mlp(const LayerSpec& layer, const ChannelMixWeights& weights) = 0;

  /// logits = W_head norm(x), at the positions each PlanItem wants
  virtual Status logits(const NormSpec& norm, const NormWeights& norm_weights,
                        const WeightView& head) = 0;
};

/// Passes of one token on one state whose tokens the device draws itself, so that it goes from one
/// to the next without asking the host:
///
///   queue();                                  // consumes the first token, draws the second
///   loop { queue(); token = *drawn(); … }     // the device is a pass ahead of the reader
///
/// Steps with masks draw only what a mask allows, which is known when the token before is:
///
///   queue(); mask(…);
///   loop { queue(); token = *drawn(); mask(what may follow it); … }
///
/// The draw of a pass waits for its mask on the device, while its layers need not. Tokens are those of Sampler, bit for
/// bit. The state's position counts what is queued.
class SampledSteps {
 public:
  virtual ~SampledSteps() = default;

  /// Queues the pass that consumes the token drawn last and draws the next; does not wait.
  /// @return invalid_argument if the pass before has no mask yet
  virtual Status queue() = 0;

  /// For steps with masks: which tokens the pass queued last may draw. Copied; once for each pass, before the next is
  /// queued. Waits for nothing, and may run while another thread uses the plan, which may wait for it.
  /// @return invalid_argument if no pass waits for one or it is of another vocabulary; internal if it came too late;
  ///         device
  virtual Status mask(const TokenMask& mask) = 0;

  /// A pass that has no mask yet draws nothing, so that a thread that waits for it goes on: for callers that need its
  /// token no more. As mask(); nothing can be queued after it.
  virtual void forgo_mask() = 0;

  /// The token drawn by the earliest pass not read yet; waits for that pass only.
  /// May run while another thread uses the plan.
  /// @return invalid_argument if no token could be chosen; internal if its mask did not come in time; device: the state
  ///         is undefined then.
  virtual Result<TokenId> drawn() = 0;

  /// Waits for all that is queued; the logits [vocab] of the last pass.
  virtual Status logits(std::span<float> out) = 0;
};

/// How long a draw waits for its mask; by then something is wrong, since masks take microseconds to make.
inline constexpr std::chrono::milliseconds kMaskTimeout{10'000};

/// A recorded pass. Used by one thread at a time.
class Plan {
 public:
  virtual ~Plan() = default;

  /// Most tokens, summed over all items, that one run takes.
  virtual int max_tokens() const = 0;

  /// Feeds every item's tokens to its state and writes the wanted logits. Items may have different lengths. What an
  /// item computes does not depend on the other items: bit for bit on the CPU; on GPUs within one program, where a lone
  /// token may be computed by another program (DeviceModel::step_program) than the same token beside others.
  /// @return invalid_argument for bad items (nothing has run); cancelled if `stop` was requested before the pass
  ///         changed any state; device if the driver failed (states are then undefined).
  virtual Status run(std::span<const PlanItem> items, std::stop_token stop) = 0;

  /// Steps of `state` that draw their own tokens; null where the backend does not, or not with these options
  /// (why_not_ahead). They may take turns with run() and with other steps of this plan, which outlives them; the state
  /// too.
  /// @param recent    tokens generated since the last prompt, oldest first, as far as penalties and DRY look back, and
  ///                  then the first to consume
  /// @param sampling  valid; ids of biases in [0, vocab)
  /// @param piece     texts of tokens, for DRY's breakers, the same for all steps of this plan; empty: there are none
  /// @param mask_timeout  how long each draw waits for its mask; 0: draws have none
  virtual Result<std::unique_ptr<SampledSteps>> sampled_steps(
      RecurrentState& /*state*/, std::span<const TokenId> /*recent*/,
      const SamplingOptions& /*sampling*/, PieceOf /*piece*/ = {},
      std::chrono::milliseconds /*mask_timeout*/ = {}) {
    return std::unique_ptr<SampledSteps>();
  }

  /// The buffers between the ops, the plan's own: all rows of x can be read after a run of one item if the plan recorded
  /// no logits.
  /// Null where it shows none, which no backend of this library does.
  virtual PassProbe* probe() { return nullptr; }
};

/// Bytes a DeviceModel holds.
struct MemoryUse {
  std::uint64_t weight_bytes = 0;   // on the device, packed or repacked
  std::uint64_t state_bytes = 0;    // of one state
  std::uint64_t scratch_bytes = 0;  // of the plans recorded so far
};

/// Calls the ops of one pass in order; see runtime/model/forward.h. What it captures outlives the DeviceModel.
using Recording = std::function<Status(Ops&)>;

/// The program that computes one token of one session, as a backend's ladder of programs chose it, and why the
/// programs above it were not taken.
struct StepProgram {
  struct Refused {
    std::string name;
    std::string reason;
  };
  std::string name = "ops";
  std::string detail;  // which variant: "fixed 576", "128 workgroups"; may be empty
  std::vector<Refused> refused;
};

/// For people: "grid (64 blocks); not cluster: …"; "ops (two to five times slower than one kernel); not …".
std::string to_string(const StepProgram& program);

/// For backends whose ladder is the one row "ops". @return not_found for any other wanted name
Status expect_ops(const std::string& wanted, const std::string& device);

/// The weights of one model on one device. Immutable after load; shared by threads.
class DeviceModel {
 public:
  virtual ~DeviceModel() = default;

  virtual Result<std::unique_ptr<RecurrentState>> create_state() const = 0;

  /// Records a pass of up to `max_tokens` tokens.
  virtual Result<std::unique_ptr<Plan>> record(int max_tokens,
                                               const Recording& recording) const = 0;

  virtual MemoryUse memory() const = 0;

  /// How a token of one session is computed. "ops", where a backend has no program of its own for it.
  virtual StepProgram step_program() const { return {}; }

  /// Tokens of one prefill pass that suit the device: more feed wide products better and cost more scratch.
  virtual int prefill_tokens() const { return 512; }
};

/// Reports progress in [0, 1]; false stops the load with ErrorCode::cancelled.
using LoadProgress = std::function<bool(float)>;

/// What a model is loaded with.
struct LoadRequest {
  const ModelConfig& config;  // copied
  /// Outlives the DeviceModel; the bytes that it views need not, unless the backend holds `keep_alive`.
  const Weights& weights;
  std::shared_ptr<const void> keep_alive = {};
  /// The pass that plans will record: what a one-token program is built from. Empty: none is.
  Recording pass = {};
  LoadProgress progress = {};
  /// A row of the backend's ladder of programs by name; empty: the best that fits.
  std::string step_program = {};
};

/// One device.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual const DeviceInfo& device() const = 0;

  /// Puts the weights on the device.
  /// @return unsupported if the device cannot run the model, or not by the wanted step program, naming the reason;
  ///         not_found for a step program that the backend does not have; cancelled by `progress`; out_of_memory.
  virtual Result<std::unique_ptr<DeviceModel>> load(const LoadRequest& request) = 0;
};

}  // namespace runnel
