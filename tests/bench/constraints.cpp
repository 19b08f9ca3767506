// SPDX-License-Identifier: Apache-2.0
// What a constraint costs on the CPU: decoding with and without one in turns, and the time of a mask.
//   runnel_constraint_bench MODEL [ROUNDS (5)] [TOKENS (96)] [CASE (all)]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "runnel/constraint.h"
#include "runnel/generation.h"
#include "runnel/session.h"
#include "runtime/generate/constraint_walk.h"
#include "runtime/generate/session_source.h"
#include "runtime/model/model_impl.h"

namespace {

using namespace runnel;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

template <class T>
T or_exit(Result<T> result) {
  if (result) return *std::move(result);
  std::fprintf(stderr, "%s\n", result.error().message.c_str());
  std::exit(1);
}

double quantile(std::vector<double> values, double q) {
  std::ranges::sort(values);
  return values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1))];
}

struct Case {
  const char* name;
  ConstraintSource source;
};

// None of them ends by itself before the tokens are up, so that as many are decoded as without.
const std::vector<Case> kCases = {
    {"schema",
     {.kind = ConstraintKind::json_schema,
      .text = R"({"type": "array", "minItems": 50, "items": {"type": "object", "properties": {
                  "name": {"type": "string"}, "age": {"type": "integer", "minimum": 0, "maximum": 120},
                  "likes": {"type": "array", "items": {"enum": ["tea", "chess", "rain"]}}},
                  "required": ["name", "age", "likes"]}})"}},
    {"strings",
     {.kind = ConstraintKind::json_schema,
      .text = R"({"type": "array", "minItems": 200, "items": {"type": "string"}})"}},
    {"object", {.kind = ConstraintKind::json_object, .text = {}, .strict = false}},
    {"regex", {.kind = ConstraintKind::regex, .text = "([A-Za-z ,.'-]+\\n){200}"}},
    {"grammar",
     {.kind = ConstraintKind::gbnf,
      .text = "root ::= line{200}\nline ::= \"- \" [^\\n]+ \"\\n\"\n"}},
};

/// Seconds of a token; what was written in `tokens`.
double decode(const Session& from, const GenerationOptions& options, std::vector<TokenId>& tokens) {
  Session own = or_exit(from.fork());
  const auto start = Clock::now();
  const auto done = or_exit(generate(own, options));
  const double seconds = seconds_since(start);
  tokens = done.tokens;
  return seconds / static_cast<double>(std::max<std::size_t>(1, tokens.size()));
}

std::vector<double> mask_times(const Model& model,
                               const std::shared_ptr<const Constraint>& constraint,
                               const std::vector<TokenId>& tokens) {
  const PieceOf piece = [&](TokenId token) { return piece_of(tokenizer_of(model), token); };
  ConstraintWalk walk = or_exit(ConstraintWalk::begin(constraint, {}, piece, {}));
  std::vector<double> times;
  for (const TokenId token : tokens) {
    const auto start = Clock::now();
    const TokenMask* const mask = or_exit(walk.mask());
    times.push_back(seconds_since(start));
    if (!mask->has(token)) break;  // an end
    walk.took(token, piece(token));
  }
  return times;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: runnel_constraint_bench MODEL [ROUNDS] [TOKENS] [CASE]\n");
    return 2;
  }
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 5;
  const std::uint64_t count = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 96;
  const auto model = or_exit(Model::load(argv[1], {.device = "cpu"}));
  Session session = or_exit(Session::create(model));
  const auto prompt = or_exit(model->encode("Some people and what they like:\n"));
  if (!session.prefill(prompt)) return 1;
  for (const Case& one : kCases) {
    if (argc > 4 && std::string_view(one.name) != argv[4]) continue;
    const auto start = Clock::now();
    const auto constraint = or_exit(Constraint::compile(*model, one.source));
    const double compiled = seconds_since(start);
    GenerationOptions options{.sampling = {.temperature = 0}, .max_tokens = count};
    GenerationOptions free = options;
    free.ignore_end = true;
    options.constraint = constraint;
    std::vector<double> ratios, masks;
    std::vector<TokenId> tokens;
    decode(session, free, tokens);
    for (int round = 0; round < rounds; ++round) {
      const double before = decode(session, free, tokens);
      const double constrained = decode(session, options, tokens);
      const std::vector<TokenId> written = tokens;
      const double after = decode(session, free, tokens);
      ratios.push_back((before + after) / 2 / constrained);
      const std::vector<double> times = mask_times(*model, constraint, written);
      masks.insert(masks.end(), times.begin(), times.end());
    }
    std::printf(
        "%-8s compiled in %.0f ms, %.1f MB; constrained / free %.3f (median of %d; %.3f to %.3f); "
        "a mask %.0f us (median), "
        "%.0f us (p99) of %zu\n",
        one.name, 1e3 * compiled, static_cast<double>(constraint->bytes()) / 1e6,
        quantile(ratios, 0.5), rounds, quantile(ratios, 0), quantile(ratios, 1),
        1e6 * quantile(masks, 0.5), 1e6 * quantile(masks, 0.99), masks.size());
  }
  return 0;
}
