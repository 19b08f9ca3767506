// SPDX-License-Identifier: Apache-2.0
// What a token is to a layer: the slot that it writes, the slots in use. Layers with other sinks and windows have words
// of their own behind the rest of the pass buffer. The host calls the constant kTokensAt. Include pass.glsl before.
layout(constant_id = kNarrowTile + 1) const uint TOKENS_AT = kPassHeader;

uint layer_token_word(uint token, uint which) { return pass.word[TOKENS_AT + token * kTokenWords + which]; }
