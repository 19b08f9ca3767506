// SPDX-License-Identifier: Apache-2.0
// Brings a session to a message of a stored conversation: restores the nearest snapshot and replays the tokens after it.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runnel/conversation.h"
#include "runtime/store/store_impl.h"

namespace runnel {

/// Whether a conversation can begin with the messages of a pack.
/// @return invalid_argument if there are none, malformed if one is of nobody
Status check_messages(std::span<const ChatMessage> messages);

/// Tokens of a system prompt that begins a conversation, none if this model's chat format reads it
/// as one with the first message.
Result<std::vector<TokenId>> encode_system(const Model& model, std::string_view text);

/// What a message adds.
struct AddedTokens {
  std::size_t kept = 0;  ///< steps before it that stay as they were read; the tokens follow those
  std::vector<TokenId> tokens;
};

/// What `role` saying `text` adds after `before` (messages with their tokens). Steps from `kept` on have been laid out
/// anew: their text is among these tokens, and they have none of their own any more.
/// @param unread  Session::unread_text() behind them; none: what of the last message's text its tokens lack.
Result<AddedTokens> encode_after(const Model& model, std::span<const PathStep> before,
                                 std::string_view role, std::string_view text,
                                 const std::optional<std::string>& unread = {});

/// The session's state as it is stored with a message of `tokens`.
Result<NewBoundary> boundary_of(const Session& session, std::vector<TokenId> tokens,
                                SnapshotEncoding encoding);

/// Prefills all of `tokens`.
/// @return cancelled if a stop was requested before the end; the session has then consumed some of them.
Status feed(Session& session, std::span<const TokenId> tokens, const ReplayOptions& replay);

/// Brings `session` before the first token.
/// @return as StoreImpl::read_beginning and Session::restore
Status go_to(StoreImpl& store, Session& session, const Beginning& beginning);

/// Brings `session` to the end of `path`, which begins at `beginning`, fills in missing tokens and positions of its steps and adds the cost.
/// Stores the state again if any token was replayed, so that the next time costs nothing.
/// @return cancelled, device and so on; the position of the session is then unspecified.
Status replay_path(StoreImpl& store, Session& session, const Beginning& beginning,
                   std::vector<PathStep>& path, const ReplayOptions& replay, TokenCost& cost,
                   std::string& warning);

}  // namespace runnel
