// SPDX-License-Identifier: Apache-2.0
// Unicode normalisation form C (UAX #15): characters composed, marks in their order.
#pragma once

#include <string>
#include <string_view>

namespace runnel {

/// `text`, valid UTF-8, in form C: `text` itself if it is in that form already, else written to `storage` and viewed
/// there. Takes time linear in the text but for runs of n combining marks, which are sorted in n log n; the storage is
/// at most three times the text.
std::string_view normalise_nfc(std::string_view text, std::string& storage);

}  // namespace runnel
