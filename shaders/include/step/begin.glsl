// SPDX-License-Identifier: Apache-2.0
// What a dispatch of one token is told of the token, before its first layer. Needs the pass buffer and the arguments `a`.

const uint kTag = 1;           // the bit of an exchanged value that says whether it is this token's
uint tag = 0;                  // that bit; in narrow_step the next one is of the head's values, until it is taken off
int poll_limit = 0;            // polls that are left; below zero waits return at once
uint token_place = 0;          // of its state in the bank
uvec3 token_slots = uvec3(0);  // positional slot it writes, sinks and window in use

void begin_token() {
  tag = pass.word[kPassTag];
  poll_limit = a.poll_limit;
  token_place = pass.word[a.pass.items + 2];
  token_slots = uvec3(token_word(0, 1), token_word(0, 2), token_word(0, 3));
}
