// SPDX-License-Identifier: Apache-2.0
// What llama.cpp's GBNF has and XGrammar's notation has not.
#pragma once

#include <string>
#include <string_view>

namespace runnel {

/// The same grammar with "" where an alternative is empty, and with a class of all characters for each dot.
std::string complete_gbnf(std::string_view text);

}  // namespace runnel
