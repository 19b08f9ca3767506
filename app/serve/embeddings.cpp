// SPDX-License-Identifier: Apache-2.0
#include "app/serve/embeddings.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "runtime/base/base64.h"

namespace runnel::serve {
namespace {

/// Little-endian f32, as clients expect them in base64.
std::string packed(std::span<const float> values) {
  std::vector<std::uint8_t> bytes;
  bytes.reserve(values.size_bytes());
  for (const float value : values) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    for (unsigned shift = 0; shift < 32; shift += 8)
      bytes.push_back(static_cast<std::uint8_t>(bits >> shift));
  }
  return to_base64(std::as_bytes(std::span(bytes)));
}

}  // namespace

// One request from its start to its answer.
class Embeddings::Running : public std::enable_shared_from_this<Running> {
 public:
  Running(Workers& workers, std::shared_ptr<Exchange> exchange, std::string name, bool packed)
      : workers_(workers),
        exchange_(std::move(exchange)),
        name_(std::move(name)),
        packed_(packed) {}

  void begin(std::vector<std::shared_ptr<Job>> jobs) {
    jobs_ = std::move(jobs);
    for (const std::shared_ptr<Job>& job : jobs_) {
      job->client = exchange_->request().address;
      job->on_news = [self = shared_from_this()] { self->news(); };
    }
  }

  void open() {
    exchange_->on_gone([jobs = jobs_] {
      for (const std::shared_ptr<Job>& job : jobs) job->cancel();
    });
  }

  void take_back() {
    for (const std::shared_ptr<Job>& job : jobs_) {
      job->on_news = nullptr;
      job->refuse();
    }
  }

 private:
  // On the scheduler's thread.
  void news() {
    const auto over = [](const std::shared_ptr<Job>& job) { return job->over(); };
    if (!std::all_of(jobs_.begin(), jobs_.end(), over)) return;
    workers_.run([self = shared_from_this()] { self->finish(); });
  }

  void finish() {
    for (const std::shared_ptr<Job>& job : jobs_) {
      if (job->error()) return exchange_->reply(error_reply(of_error(*job->error())));
    }
    nlohmann::ordered_json data = nlohmann::ordered_json::array();
    std::uint64_t tokens = 0;
    for (const std::shared_ptr<Job>& job : jobs_) {
      nlohmann::ordered_json one = {{"object", "embedding"}, {"index", data.size()}};
      if (packed_) {
        one["embedding"] = packed(job->embedding());
      } else {
        one["embedding"] = job->embedding();
      }
      data.push_back(std::move(one));
      tokens += job->fed();
    }
    exchange_->reply(
        {.body = dump({{"object", "list"},
                       {"data", std::move(data)},
                       {"model", name_},
                       {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}})});
  }

  Workers& workers_;
  const std::shared_ptr<Exchange> exchange_;
  const std::string name_;
  const bool packed_;
  std::vector<std::shared_ptr<Job>> jobs_;
};

std::optional<HttpError> Embeddings::check(const std::vector<std::vector<TokenId>>& texts) const {
  std::size_t tokens = 0;
  for (const std::vector<TokenId>& text : texts) {
    if (text.empty())
      return HttpError{400, "input: is empty, expected a text or tokens", "input", "invalid_value"};
    tokens += text.size();
  }
  if (tokens > settings_.most_prompt) {
    return HttpError{400,
                     "the input has " + std::to_string(tokens) + " tokens, at most " +
                         std::to_string(settings_.most_prompt) + " are read for one request",
                     "input", "context_length_exceeded"};
  }
  if (texts.size() <= settings_.most_prompts) return {};
  return HttpError{400,
                   "input is a list of " + std::to_string(texts.size()) + ", at most " +
                       std::to_string(settings_.most_prompts) +
                       " are answered or wait at once on this server",
                   "input", "invalid_value"};
}

std::optional<HttpError> Embeddings::start(const std::shared_ptr<Exchange>& exchange) {
  const std::variant<EmbeddingRequest, HttpError> request = read_embedding_request(
      exchange->request().body, model_->info().hidden_size, settings_.limits);
  if (const auto* error = std::get_if<HttpError>(&request)) return *error;
  const EmbeddingRequest& asked = std::get<EmbeddingRequest>(request);
  std::vector<std::vector<TokenId>> texts;
  for (const Prompt& text : asked.texts) {
    auto tokens = tokens_of_prompt(*model_, text, "input");
    if (const auto* error = std::get_if<HttpError>(&tokens)) return *error;
    texts.push_back(std::get<std::vector<TokenId>>(std::move(tokens)));
  }
  if (auto error = check(texts)) return error;
  std::vector<std::shared_ptr<Job>> jobs;
  for (std::vector<TokenId>& tokens : texts) {
    jobs.push_back(std::make_shared<Job>(model_, nullptr, std::move(tokens), GenerationOptions{}));
    jobs.back()->embed_prompt(asked.options);
  }
  const auto running = std::make_shared<Running>(
      workers_, exchange, settings_.limits.name_of(asked.model), asked.packed);
  running->begin(jobs);
  if (scheduler_.submit(jobs)) {
    running->open();
    return {};
  }
  running->take_back();
  return HttpError{
      429, "the queue is full: " + std::to_string(settings_.queue) + " requests wait already", "",
      "queue_full"};
}

void Embeddings::answer(const std::shared_ptr<Exchange>& exchange) {
  if (const std::optional<HttpError> error = start(exchange)) exchange->reply(error_reply(*error));
}

}  // namespace runnel::serve
