// SPDX-License-Identifier: Apache-2.0
// /v1/embeddings: from a request's body to its answer.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "app/serve/completions.h"
#include "app/serve/net/http.h"
#include "app/serve/request.h"
#include "app/serve/scheduler.h"
#include "app/serve/workers.h"
#include "runnel/model.h"

namespace runnel::serve {

class Embeddings {
 public:
  Embeddings(std::shared_ptr<const Model> model, Completions::Settings settings,
             Scheduler& scheduler, Workers& workers)
      : model_(std::move(model)),
        settings_(std::move(settings)),
        scheduler_(scheduler),
        workers_(workers) {}

  /// Reads the request and starts it: a job for every text. On a worker's thread; the answer comes later.
  void answer(const std::shared_ptr<Exchange>& exchange);

 private:
  class Running;

  std::optional<HttpError> start(const std::shared_ptr<Exchange>& exchange);
  std::optional<HttpError> check(const std::vector<std::vector<TokenId>>& texts) const;

  const std::shared_ptr<const Model> model_;
  const Completions::Settings settings_;
  Scheduler& scheduler_;
  Workers& workers_;
};

}  // namespace runnel::serve
