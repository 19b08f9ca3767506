// SPDX-License-Identifier: Apache-2.0
// What this machine can do at most: memory read bandwidth and int8 arithmetic, measured now, to hold speeds against.
#pragma once

#include <cstddef>
#include <memory>

#include "runnel/result.h"

namespace runnel::cpu {

struct Roofline {
  // of a buffer of the asked size, all threads streaming a part of it each
  double read_bytes_per_second = 0;
  // multiply and add counted apart, by the dot product instruction of the kernels
  double int8_ops_per_second = 0;
};

/// Holds the buffer and the threads, so that it can be asked again and again, between the runs that are held against
/// it: on a machine with neighbours both change from second to second. One caller at a time.
class RooflineMeter {
 public:
  /// @param buffer_bytes  size of the buffer to stream, e.g. that of a model; at most 256 MiB of it are taken
  /// @return out_of_memory, invalid_argument for a bad number of threads
  static Result<RooflineMeter> create(int threads, std::size_t buffer_bytes);
  RooflineMeter(RooflineMeter&&) noexcept;
  RooflineMeter& operator=(RooflineMeter&&) noexcept;
  ~RooflineMeter();

  /// Both as they are now, medians of at least three passes: takes 60 ms or more.
  Roofline measure();

 private:
  struct Parts;
  explicit RooflineMeter(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace runnel::cpu
