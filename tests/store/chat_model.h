// SPDX-License-Identifier: Apache-2.0
// A tiny random model that chats: bytes as tokens, ChatML. What it says is noise, always the same.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runnel/generation.h"
#include "runnel/model.h"
#include "runnel/store.h"
#include "runtime/store/store_impl.h"

namespace runnel::test {

/// Throws on error. Models of the same seed are equal, fingerprint included.
/// @param window  ModelOptions::window_slots
std::shared_ptr<const Model> chat_model(std::uint64_t seed = 1,
                                        std::optional<std::int64_t> window = {});

/// A store in `folder`; fails the test and throws on error.
ConversationStore open_store(const std::filesystem::path& folder,
                             std::uint64_t budget = 1'000'000'000);

/// Twelve sampled tokens.
GenerationOptions short_answer(std::uint64_t seed = 7);

/// Snapshots of a session after each of some tokens, as file bytes: messages to save without
/// computing anything. Throws on error.
std::vector<NewBoundary> boundaries(int count);

/// Saves one of them as the user's, who says "message at POSITION".
Result<MessageId> add_message(ConversationStore& store, ConversationId id, MessageId parent,
                              const NewBoundary& boundary, std::string& warning);

/// All bytes of all files under `folder`, names included.
std::string everything_under(const std::filesystem::path& folder);

}  // namespace runnel::test
