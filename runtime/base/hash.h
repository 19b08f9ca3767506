// SPDX-License-Identifier: Apache-2.0
// XXH3, 64 bits: checksums of files and fingerprints of models. Not for secrets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

struct XXH3_state_s;

namespace runnel {

/// XXH3_64bits of `bytes`, seed 0.
std::uint64_t hash64(std::span<const std::byte> bytes);

/// The same over bytes in pieces: equal to hash64 of their concatenation.
class Hasher {
 public:
  Hasher();
  void update(std::span<const std::byte> bytes);
  /// The hash of everything so far; more may follow.
  std::uint64_t digest() const;

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const noexcept;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

}  // namespace runnel
