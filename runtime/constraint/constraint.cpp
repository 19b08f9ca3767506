// SPDX-License-Identifier: Apache-2.0
#include "runnel/constraint.h"

#include <algorithm>
#include <new>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/base/byte_reader.h"
#include "runtime/base/hash.h"
#include "runtime/base/try.h"
#include "runtime/constraint/constraint_cache.h"
#include "runtime/model/model_impl.h"
#include "runtime/sampling/token_mask.h"
#include "runtime/text/tokenizer.h"
#include "runtime/text/utf8.h"

namespace runnel {
namespace {

const GrammarEngine* engine() {
  return runnel_grammar_engine == nullptr ? nullptr : runnel_grammar_engine();
}

std::uint64_t hash_of(const ConstraintSource& source) {
  Hasher hasher;
  const std::byte head[] = {static_cast<std::byte>(source.kind),
                            static_cast<std::byte>(source.strict)};
  hasher.update(head);
  hasher.update(as_bytes(source.text));
  return hasher.digest();
}

Status check_source(const ConstraintSource& source) {
  if (to_string(source.kind).empty()) {
    return fail(ErrorCode::invalid_argument, "constraint: its kind is ",
                static_cast<int>(source.kind), ", expected one of ConstraintKind");
  }
  const std::string_view name = to_string(source.kind);
  if (source.text.size() > ConstraintSource::kMostBytes) {
    return fail(ErrorCode::invalid_argument, name, ": has ", source.text.size(),
                " bytes, expected at most ", std::size_t{ConstraintSource::kMostBytes});
  }
  if (first_invalid_utf8(source.text) != std::string_view::npos ||
      source.text.find('\0') != std::string::npos)
    return fail(ErrorCode::invalid_argument, name, ": is no text in UTF-8");
  const bool empty = source.text.empty();
  if (empty != (source.kind == ConstraintKind::json_object)) {
    return fail(ErrorCode::invalid_argument, name,
                empty ? ": is empty" : ": has a text, expected none");
  }
  return {};
}

GrammarVocabulary vocabulary_of(const Model& model) {
  const Tokenizer& tokenizer = *tokenizer_of(model);
  const auto vocab = static_cast<std::size_t>(model.info().vocab_size);
  GrammarVocabulary all;
  all.pieces.resize(vocab);
  for (std::size_t t = 0; t < vocab; ++t) {
    const auto token = static_cast<TokenId>(t);
    if (token >= tokenizer.vocab_size()) continue;
    if (model.is_end(token)) {
      all.ends.push_back(token);
    } else {
      all.pieces[t] = tokenizer.piece(token, false, false);
    }
  }
  return all;
}

}  // namespace

bool has_constraints() { return engine() != nullptr; }

std::string_view to_string(ConstraintKind kind) {
  switch (kind) {
    case ConstraintKind::json_schema:
      return "json_schema";
    case ConstraintKind::json_object:
      return "json_object";
    case ConstraintKind::regex:
      return "regex";
    case ConstraintKind::choice:
      return "choice";
    case ConstraintKind::gbnf:
      return "gbnf";
    case ConstraintKind::tags:
      return "tags";
  }
  return {};
}

// ---- ConstraintCache ----

Result<std::shared_ptr<const GrammarCompiler>> ConstraintCache::compiler(const Model& model) {
  const std::lock_guard lock(mutex_);
  if (compiler_ == nullptr) {
    RUNNEL_TRY(compiler_, engine()->compiler(vocabulary_of(model)));
  }
  return compiler_;
}

std::shared_ptr<const Constraint> ConstraintCache::find(std::uint64_t hash,
                                                        const ConstraintSource& source) {
  const std::lock_guard lock(mutex_);
  const auto at = std::ranges::find_if(kept_, [&](const std::shared_ptr<const Constraint>& one) {
    return one->hash() == hash && one->source() == source;
  });
  if (at == kept_.end()) return nullptr;
  std::rotate(kept_.begin(), at, at + 1);
  return kept_.front();
}

void ConstraintCache::keep(std::shared_ptr<const Constraint> made) {
  const std::lock_guard lock(mutex_);
  kept_.push_front(std::move(made));
  std::uint64_t bytes = 0;
  std::size_t n = 0;
  while (n < kept_.size() && n < kMost && (n == 0 || bytes + kept_[n]->bytes() <= kMostBytes))
    bytes += kept_[n++]->bytes();
  kept_.resize(n);
}

Result<std::shared_ptr<const Constraint>> ConstraintCache::get(const Model& model,
                                                               const ConstraintSource& source) {
  if (engine() == nullptr) {
    return fail(ErrorCode::unsupported, "constraint: ", to_string(source.kind),
                " is not supported by this build, which has no RUNNEL_GRAMMAR");
  }
  RUNNEL_CHECK_OK(check_source(source));
  if (!model.has_tokenizer()) {
    return fail(ErrorCode::unsupported,
                "constraint: needs a tokenizer, and the model's file has none");
  }
  const std::uint64_t hash = hash_of(source);
  if (std::shared_ptr<const Constraint> known = find(hash, source)) return known;
  RUNNEL_TRY(const std::shared_ptr<const GrammarCompiler> with, compiler(model));
  auto impl = std::make_unique<Access::Inside<Constraint>::Impl>();
  impl->source = source;
  impl->hash = hash;
  impl->model_fingerprint = model.info().fingerprint;
  impl->vocab = static_cast<std::size_t>(model.info().vocab_size);
  RUNNEL_TRY(impl->grammar, with->compile(source));
  std::shared_ptr<const Constraint> made(Access::make_new<Constraint>(std::move(impl)));
  keep(made);
  return made;
}

// ---- Constraint ----

Constraint::Constraint(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Constraint::~Constraint() = default;

const ConstraintSource& Constraint::source() const { return impl_->source; }
std::uint64_t Constraint::hash() const { return impl_->hash; }
std::uint64_t Constraint::model_fingerprint() const { return impl_->model_fingerprint; }
std::uint64_t Constraint::bytes() const {
  return sizeof(Impl) + impl_->source.text.size() + impl_->grammar->bytes();
}

Result<std::shared_ptr<const Constraint>> Constraint::compile(const Model& model,
                                                              const ConstraintSource& source) try {
  return constraints_of(model).get(model, source);
} catch (const std::bad_alloc&) {
  return fail(ErrorCode::out_of_memory, "constraint: not enough memory to compile it");
}

Result<std::shared_ptr<const Constraint>> Constraint::json_schema(const Model& model,
                                                                  std::string_view schema,
                                                                  bool strict) {
  return compile(
      model, {.kind = ConstraintKind::json_schema, .text = std::string(schema), .strict = strict});
}

Result<std::shared_ptr<const Constraint>> Constraint::json_object(const Model& model, bool strict) {
  return compile(model, {.kind = ConstraintKind::json_object, .text = {}, .strict = strict});
}

Result<std::shared_ptr<const Constraint>> Constraint::regex(const Model& model,
                                                            std::string_view expression) {
  return compile(model, {.kind = ConstraintKind::regex, .text = std::string(expression)});
}

Result<std::shared_ptr<const Constraint>> Constraint::choice(const Model& model,
                                                             std::span<const std::string> texts) {
  const nlohmann::json list(std::vector<std::string>(texts.begin(), texts.end()));
  // Bytes that are no UTF-8 become such that compile() refuses.
  for (const std::string& text : texts) {
    if (first_invalid_utf8(text) != std::string_view::npos)
      return fail(ErrorCode::invalid_argument, "choice: a text is not UTF-8");
  }
  return compile(model, {.kind = ConstraintKind::choice, .text = list.dump()});
}

Result<std::shared_ptr<const Constraint>> Constraint::gbnf(const Model& model,
                                                           std::string_view grammar) {
  return compile(model, {.kind = ConstraintKind::gbnf, .text = std::string(grammar)});
}

Result<std::vector<TokenId>> Constraint::forced(std::span<const TokenId> taken,
                                                std::size_t most) const {
  RUNNEL_TRY(const std::unique_ptr<GrammarMatcher> matcher, impl_->grammar->begin());
  for (std::size_t i = 0; i < taken.size(); ++i) {
    if (!matcher->accept(taken[i])) {
      return fail(ErrorCode::invalid_argument, "constraint: token ", i, ", ", taken[i],
                  ", does not fit it");
    }
  }
  std::vector<TokenId> certain;
  TokenMask mask(impl_->vocab);
  while (certain.size() < most) {
    RUNNEL_CHECK_OK(matcher->mask(mask.words()));
    mask.trim();
    const TokenId only = mask.only();
    if (only < 0 || !matcher->accept(only)) break;
    certain.push_back(only);
  }
  return certain;
}

bool Constraint::accepts(std::string_view text) const {
  const auto matcher = impl_->grammar->begin();
  return matcher && (*matcher)->accept_bytes(text) && (*matcher)->complete();
}

}  // namespace runnel
