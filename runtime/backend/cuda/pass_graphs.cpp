// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/cuda/pass_graphs.h"

#include "runtime/base/try.h"

namespace runnel::cuda {

Result<GraphExec> record_graph(cudaStream_t stream, std::string_view what,
                               const std::function<Status()>& launches) {
  RUNNEL_CHECK_OK(check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), what));
  const Status recorded = launches();
  cudaGraph_t raw = nullptr;
  const Status ended = check(cudaStreamEndCapture(stream, &raw), what);
  const Graph graph(raw);
  RUNNEL_CHECK_OK(recorded);
  RUNNEL_CHECK_OK(ended);
  cudaGraphExec_t exec = nullptr;
  RUNNEL_CHECK_OK(check(cudaGraphInstantiate(&exec, graph.get(), 0), what));
  return GraphExec(exec);
}

Status PassGraphs::run(cudaStream_t stream, Size size, const std::function<Status()>& launches) {
  const auto [entry, first] = sizes_.try_emplace(size);
  GraphExec& graph = entry->second;
  if (!graph) {
    if (first || recorded_ == kMost) {
      Status done = launches();
      if (!done) sizes_.erase(entry);
      return done;
    }
    RUNNEL_TRY(graph, record_graph(stream, "record a pass", launches));
    ++recorded_;
  }
  ++replayed_;
  return check(cudaGraphLaunch(graph.get(), stream), "launch a pass");
}

}  // namespace runnel::cuda
