// SPDX-License-Identifier: Apache-2.0
// Which options let a GPU backend draw tokens ahead, and which leave each draw to the host.
#pragma once

#include <string>

#include "runnel/sampling.h"

namespace runnel {

/// The kinds of devices that draw ahead.
enum class DrawDevice { cuda, vulkan };

/// Why tokens are not drawn ahead with these options: "typ_p is drawn on the host". Empty: they are, the same as Sampler
/// bit for bit. docs/samplers.md has the table.
/// @param options  valid
std::string why_not_ahead(const SamplingOptions& options, DrawDevice device);

}  // namespace runnel
