// SPDX-License-Identifier: Apache-2.0
// Which options let a GPU backend draw tokens ahead, and which leave each draw to the host.
#pragma once

#include <cstddef>
#include <string>

#include "runnel/sampling.h"

namespace runnel {

/// The kinds of devices that draw ahead.
enum class DrawDevice { cuda, vulkan };

/// More biases than these are not drawn on a Vulkan device.
inline constexpr std::size_t kMostDrawnBiases = 2048;
/// Most tokens that the host draws among behind a Vulkan device's top-k: top_k, biased and penalised ones.
inline constexpr std::size_t kMostTokensBehindTopK = 512;

/// Whether a device runs the whole chain of `options` and draws: bias, penalties, DRY, top-n-sigma, temperature, top-k,
/// top-p, min-p and XTC, in this order.
/// @param options  valid
bool is_device_chain(const SamplingOptions& options);

/// Whether tokens that came before change logits, by penalties; by DRY.
bool has_penalties(const SamplingOptions& options);
bool has_dry(const SamplingOptions& options);

/// Whether the token is the likeliest of the logits as they are, unless a mask changes them.
/// @param options  is_device_chain()
bool draws_largest(const SamplingOptions& options);

/// Why tokens are not drawn ahead with these options: "typ_p is drawn on the host". Empty: they are, the same as Sampler
/// bit for bit. docs/samplers.md has the table.
/// @param options  valid
std::string why_not_ahead(const SamplingOptions& options, DrawDevice device);

}  // namespace runnel
