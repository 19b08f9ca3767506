// SPDX-License-Identifier: Apache-2.0
#include "app/serve/request_constraint.h"

#include <initializer_list>
#include <utility>

#include "runtime/constraint/closed_schema.h"

namespace runnel::serve {
namespace {

using Ordered = nlohmann::ordered_json;

/// The value at `path`, with the order of the body's keys; it is there.
Ordered in_order(std::string_view body, std::initializer_list<const char*> path) {
  Ordered at = Ordered::parse(body, nullptr, false);
  for (const char* name : path) {
    if (!at.is_object() || !at.contains(name)) return {};
    Ordered inner = std::move(at[name]);
    at = std::move(inner);
  }
  return at;
}

ConstraintSource schema_source(const Ordered& schema, bool strict) {
  return {.kind = ConstraintKind::json_schema,
          .text = schema.is_string() ? schema.get<std::string>() : dump(schema),
          .strict = strict};
}

bool is_schema(const nlohmann::json* value) {
  return value != nullptr && (value->is_object() || value->is_boolean());
}

// OpenAI's {"type": "json_schema", "json_schema": {"name": …, "schema": …, "strict": …}}.
std::optional<ConstraintSource> read_named_schema(Fields& fields, Fields& inner,
                                                  std::string_view body) {
  const nlohmann::json* named = inner.value("json_schema");
  if (named == nullptr || !named->is_object()) {
    fields.refuse("response_format: json_schema is missing, expected an object with a schema",
                  "response_format");
    return {};
  }
  Fields parts(*named);
  parts.ignore("name");
  parts.ignore("description");
  const std::optional<bool> strict = parts.boolean("strict");
  const bool given = is_schema(parts.value("schema"));
  parts.finish();
  if (!given || parts.error()) {
    fields.refuse("response_format: " + (parts.error() ? parts.error()->message
                                                       : "json_schema has no object \"schema\""),
                  "response_format");
    return {};
  }
  Ordered schema = in_order(body, {"response_format", "json_schema", "schema"});
  // Clients that say neither send what classes look like: no other properties, as for tools.
  if (!strict) schema = closed_schema(std::move(schema));
  return schema_source(schema, strict.value_or(false));
}

std::optional<ConstraintSource> read_format(Fields& fields, std::string_view body) {
  const nlohmann::json* format = fields.value("response_format");
  if (format == nullptr) return {};
  if (!format->is_object()) {
    fields.refuse("response_format: expected an object with a type", "response_format");
    return {};
  }
  Fields inner(*format);
  const std::string type = inner.text("type").value_or("");
  std::optional<ConstraintSource> source;
  if (type == "json_schema") {
    source = read_named_schema(fields, inner, body);
  } else if (type == "json_object") {
    const nlohmann::json* schema = inner.value("schema");  // as llama.cpp's server takes it
    source = is_schema(schema)
                 ? schema_source(in_order(body, {"response_format", "schema"}), false)
                 : ConstraintSource{.kind = ConstraintKind::json_object, .strict = false};
  } else if (type != "text") {
    fields.refuse("response_format: type is \"" + type.substr(0, 40) +
                      "\", expected text, json_object or json_schema",
                  "response_format");
  }
  inner.finish();
  if (inner.error()) fields.refuse("response_format: " + inner.error()->message, "response_format");
  return source;
}

std::optional<ConstraintSource> read_field(Fields& fields, const char* name,
                                           std::string_view body) {
  const std::string_view field = name;
  const nlohmann::json* given = fields.value(name);
  if (given == nullptr) return {};
  const bool schema = field == "json_schema" || field == "guided_json";
  if (schema && (is_schema(given) || given->is_string()))
    return schema_source(in_order(body, {name}), true);
  if (field == "guided_choice" && given->is_array())
    return ConstraintSource{.kind = ConstraintKind::choice, .text = dump(in_order(body, {name}))};
  if (!schema && field != "guided_choice" && given->is_string()) {
    return ConstraintSource{
        .kind = field == "guided_regex" ? ConstraintKind::regex : ConstraintKind::gbnf,
        .text = given->get<std::string>()};
  }
  fields.refuse(std::string(field) + ": expected " +
                    (schema                     ? "a JSON schema"
                     : field == "guided_choice" ? "a list of texts"
                                                : "a text"),
                name);
  return {};
}

}  // namespace

std::optional<AskedConstraint> read_constraint(Fields& fields, std::string_view body) {
  std::optional<AskedConstraint> asked;
  const auto take = [&](const char* name, std::optional<ConstraintSource> source) {
    if (!source) return;
    if (asked) {
      return fields.refuse(std::string(name) + " and " + asked->field +
                               " say both what the answer must be, expected one of them",
                           name);
    }
    asked = AskedConstraint{.source = *std::move(source), .field = name};
  };
  take("response_format", read_format(fields, body));
  for (const char* name :
       {"grammar", "json_schema", "guided_json", "guided_regex", "guided_choice", "guided_grammar"})
    take(name, read_field(fields, name, body));
  return asked;
}

}  // namespace runnel::serve
