// SPDX-License-Identifier: Apache-2.0
// Bytes as text, RFC 4648 with padding.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace runnel {

std::string to_base64(std::span<const std::byte> bytes);

/// @return nothing unless `text` is what to_base64() gives for some bytes.
std::optional<std::vector<std::byte>> from_base64(std::string_view text);

}  // namespace runnel
