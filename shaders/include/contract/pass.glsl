// SPDX-License-Identifier: Apache-2.0
// The pass buffer: what changes from one run of a recorded command buffer to the next. Define PASS_BINDING.
layout(set = 0, binding = PASS_BINDING) readonly buffer Pass { uint word[]; } pass;

uint token_word(uint token, uint which) { return pass.word[kPassHeader + token * kTokenWords + which]; }
