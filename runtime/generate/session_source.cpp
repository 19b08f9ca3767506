// SPDX-License-Identifier: Apache-2.0
// Drawing ahead on a session: the device draws, and the session's position and history follow token by token.
#include "runtime/generate/session_source.h"

#include "runtime/base/try.h"

namespace runnel {

SessionSource::~SessionSource() {
  if (ahead_) static_cast<void>(settle());
}

Result<bool> SessionSource::draw_ahead(TokenId first, const SamplingOptions& sampling,
                                       bool masked) {
  const auto piece = [tokenizer = tokenizer_](TokenId token) { return piece_of(tokenizer, token); };
  RUNNEL_TRY(ahead_, impl_of(session_).draw_ahead(first, sampling, piece, masked));
  return ahead_;
}

Status SessionSource::settle() {
  if (!ahead_) return {};
  ahead_ = false;
  return impl_of(session_).settle();
}

}  // namespace runnel
