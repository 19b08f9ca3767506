// SPDX-License-Identifier: Apache-2.0
// Passes of many tokens as recorded graphs, one a size.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "runtime/backend/cuda/handles.h"

namespace runnel::cuda {

/// The first pass of a size goes launch by launch: kernels are loaded and products of the size
/// prepared. The second is recorded, and from then on a pass of this size is one launch of its graph.
class PassGraphs {
 public:
  /// Graphs kept; passes of further sizes go launch by launch.
  static constexpr int kMost = 8;

  using Size = std::pair<int, int>;  // tokens; the first that is wanted

  /// @param launches  puts the pass on `stream`: the same launches, with the same arguments, for every pass of this
  ///                  size.
  Status run(cudaStream_t stream, Size size, const std::function<Status()>& launches);

  int recorded() const { return recorded_; }
  std::uint64_t replayed() const { return replayed_; }

 private:
  std::map<Size, GraphExec> sizes_;  // without a graph: seen once
  int recorded_ = 0;
  std::uint64_t replayed_ = 0;  // passes that were one launch
};

/// What `launches` puts on `stream`, recorded instead of run. `what` names it in errors.
Result<GraphExec> record_graph(cudaStream_t stream, std::string_view what,
                               const std::function<Status()>& launches);

}  // namespace runnel::cuda
