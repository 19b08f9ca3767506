// SPDX-License-Identifier: Apache-2.0
// Bringing a session to a message: from the nearest snapshot, the rest read again from its tokens.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runnel/conversation.h"
#include "runtime/store/store_impl.h"

namespace runnel {

/// Tokens of a system prompt that begins a conversation, none if this model's chat format reads it
/// as one with the first message.
Result<std::vector<TokenId>> encode_system(const Model& model, std::string_view text);

/// Tokens that `role` saying `text` adds after `before` (messages with their tokens).
Result<std::vector<TokenId>> encode_after(const Model& model, std::span<const PathStep> before,
                                          std::string_view role, std::string_view text);

/// The session's state as it is stored with a message of `tokens`.
Result<NewBoundary> boundary_of(const Session& session, std::vector<TokenId> tokens,
                                SnapshotEncoding encoding);

/// Prefills all of `tokens`.
/// @return cancelled if a stop came first; the session is then between.
Status feed(Session& session, std::span<const TokenId> tokens, const ReplayOptions& replay);

/// Brings `session` to the end of `path` and fills in what its steps lack. Adds what it cost.
/// What had to be read is stored again, so that the next time costs nothing.
/// @return cancelled, device … : the session is then anywhere.
Status read_to_end(ConversationStore::Impl& store, Session& session, std::vector<PathStep>& path,
                   const ReplayOptions& replay, TokenCost& cost, std::string& warning);

}  // namespace runnel
