// SPDX-License-Identifier: Apache-2.0
#include "runtime/generate/generation_loop.h"

#include <string_view>
#include <utility>

#include "runtime/base/try.h"
#include "runtime/generate/sampler.h"
#include "runtime/generate/stop_detector.h"
#include "runtime/text/utf8.h"
#include "runtime/text/utf8_stream.h"

namespace runnel {
namespace {

Status check_stops(const std::vector<std::string>& stops) {
  for (std::size_t i = 0; i < stops.size(); ++i) {
    if (stops[i].empty()) {
      return fail(ErrorCode::invalid_argument, "stop string ", i,
                  " is empty, expected at least one character");
    }
    if (first_invalid_utf8(stops[i]) != std::string_view::npos) {
      return fail(ErrorCode::invalid_argument, "stop string ", i, " is not UTF-8");
    }
  }
  return {};
}

// Bytes → whole characters → text free of stop strings → callback.
class TextOutput {
 public:
  TextOutput(const std::vector<std::string>& stops, const TextCallback& on_text, std::string& all)
      : detector_(stops), on_text_(on_text), all_(all) {}

  Status resume(const GenerationCarry& carry) {
    RUNNEL_CHECK_OK(characters_.restore(carry.utf8));
    show(detector_.push(carry.stop));
    return {};
  }

  void push(std::string_view bytes) { show(detector_.push(characters_.push(bytes))); }

  // No more text will come: shows what was held back.
  void finish() {
    show(detector_.push(characters_.flush()));
    if (!detector_.stopped()) show(detector_.finish());
  }

  bool stopped() const { return detector_.stopped(); }
  bool refused() const { return refused_; }
  GenerationCarry carry() const {
    return {.utf8 = characters_.carry(), .stop = std::string(detector_.held())};
  }

 private:
  void show(std::string_view text) {
    if (text.empty()) return;
    all_ += text;
    if (on_text_ && !on_text_(text)) refused_ = true;
  }

  Utf8Stream characters_;
  StopDetector detector_;
  const TextCallback& on_text_;
  std::string& all_;
  bool refused_ = false;
};

}  // namespace

Result<GenerationResult> run_generation(TokenSource& source, const GenerationOptions& options,
                                        GenerationCarry& carry, const TextCallback& on_text,
                                        const std::stop_token& stop) {
  RUNNEL_CHECK_OK(check_stops(options.stop));
  if (source.logits().empty()) {
    return fail(ErrorCode::invalid_argument,
                "the session is empty, expected at least one token before generating");
  }
  RUNNEL_TRY(Sampler sampler,
             Sampler::create(options.sampling, static_cast<std::int32_t>(source.logits().size())));

  GenerationResult result;
  TextOutput output(options.stop, on_text, result.text);
  RUNNEL_CHECK_OK(output.resume(carry));

  const auto generate_one =
      [&]() -> Result<bool> {  // whether to go on; else result.reason says why not
    if (result.tokens.size() >= options.max_tokens) {
      result.reason = FinishReason::length;
      return false;
    }
    if (stop.stop_requested()) {
      result.reason = FinishReason::cancelled;
      return false;
    }
    RUNNEL_TRY(const TokenId token,
               sampler.sample(source.logits(), source.recent_tokens(), source.position()));
    RUNNEL_CHECK_OK(source.step(token));
    result.tokens.push_back(token);
    if (!options.ignore_end && source.is_end(token)) {
      output.finish();
      result.reason = output.stopped() ? FinishReason::stop_text : FinishReason::end;
      return false;
    }
    output.push(source.piece(token));
    if (output.stopped()) {
      result.reason = FinishReason::stop_text;
      return false;
    }
    if (output.refused()) {
      result.reason = FinishReason::callback;
      return false;
    }
    return true;
  };
  for (bool more = true; more;) {
    RUNNEL_TRY(more, generate_one());
  }

  const bool open = result.reason != FinishReason::end && result.reason != FinishReason::stop_text;
  carry = open ? output.carry() : GenerationCarry{};
  result.held_back = carry.stop;
  return result;
}

}  // namespace runnel
