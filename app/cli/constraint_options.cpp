// SPDX-License-Identifier: Apache-2.0
#include "app/cli/constraint_options.h"

#include <string_view>
#include <utility>

#include "runtime/base/byte_reader.h"
#include "runtime/base/file_map.h"
#include "runtime/base/try.h"

namespace runnel::cli {
namespace {

constexpr const char* kGroup = "Constraints";

Result<std::shared_ptr<const Constraint>> of_file(const Model& model, ConstraintKind kind,
                                                  const std::string& file) {
  RUNNEL_TRY(const FileMap map, FileMap::open(file));
  return Constraint::compile(model, {.kind = kind, .text = std::string(as_text(map.bytes()))});
}

}  // namespace

void add_constraint_options(CLI::App& parser, ConstraintChoice& choice) {
  std::vector<CLI::Option*> options;
  options.push_back(
      parser.add_flag("--json", choice.json, "Answer with a JSON object")->group(kGroup));
  const auto add = [&](const char* name, auto& value, const char* help, const char* type) {
    CLI::Option* option = parser.add_option(name, value, help)->group(kGroup)->type_name(type);
    options.push_back(option);
    return option;
  };
  add("--json-schema", choice.schema, "Answer with JSON that the schema in FILE describes", "FILE");
  add("--grammar", choice.grammar, "Answer with a text of the GBNF grammar in FILE", "FILE");
  add("--regex", choice.regex, "Answer with a text that matches RE as a whole", "RE");
  add("--choice", choice.choices, "Answer with this text or another --choice; repeatable", "TEXT")
      ->allow_extra_args(false);
  for (CLI::Option* one : options) {
    for (CLI::Option* other : options) {
      if (one != other) one->excludes(other);
    }
  }
}

Result<std::shared_ptr<const Constraint>> chosen_constraint(const ConstraintChoice& choice,
                                                            const Model& model) {
  if (!choice.any()) return std::shared_ptr<const Constraint>();
  std::string_view option = "--json: ";
  auto made = [&]() -> Result<std::shared_ptr<const Constraint>> {
    if (choice.json) return Constraint::json_object(model, false);
    if (!choice.schema.empty()) {
      option = "--json-schema: ";
      return of_file(model, ConstraintKind::json_schema, choice.schema);
    }
    if (!choice.grammar.empty()) {
      option = "--grammar: ";
      return of_file(model, ConstraintKind::gbnf, choice.grammar);
    }
    if (!choice.regex.empty()) {
      option = "--regex: ";
      return Constraint::regex(model, choice.regex);
    }
    option = "--choice: ";
    return Constraint::choice(model, choice.choices);
  }();
  if (!made) return with_context(std::move(made).error(), option);
  return made;
}

}  // namespace runnel::cli
