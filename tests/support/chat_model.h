// SPDX-License-Identifier: Apache-2.0
// A tiny model that chats: a token for every byte, ChatML, random weights.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "runnel/types.h"
#include "runtime/io/gguf.h"
#include "tests/support/random_model.h"

namespace runnel::test {

/// Two layers, 264 entries, window and sink slots.
RandomModel chat_weights(std::uint64_t seed = 11);

/// Those weights with the tokenizer, and with further keys.
void write_chat_model(const std::filesystem::path& file,
                      const std::function<void(GgufWriter&)>& add_keys = {},
                      std::uint64_t seed = 11);

/// A Jinja template of those markers whose answers begin with a thought, which it takes out of earlier turns;
/// enable_thinking switches it off.
inline constexpr const char* kThinkingTemplate =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content.split('</think>')[-1] "
    "}}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{{ '<think>\n\n</think>\n\n' if enable_thinking is false else '<think>\n' }}{% endif %}";

/// The same weights with a World tokenizer of every byte (byte b is token b + 1), and of
/// kWorldTokens from kFirstWorldToken on.
void write_world_chat_model(const std::filesystem::path& file);

inline constexpr TokenId kFirstWorldToken = 257;
inline constexpr const char* kWorldTokens[] = {"\n\n", "\xE3\x80\x82\n", "User",
                                               " <",   "think",          " \n\n"};

}  // namespace runnel::test
