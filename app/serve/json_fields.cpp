// SPDX-License-Identifier: Apache-2.0
#include "app/serve/json_fields.h"

#include <cmath>
#include <sstream>

namespace runnel::serve {
namespace {

constexpr std::size_t kShownBytes = 60;  // of a client's own value in a message

// A value in a message. Never more of it than a line: it is the client's.
std::string shown(const nlohmann::json& value) {
  if (value.is_array()) return "a list of " + std::to_string(value.size());
  if (value.is_object()) return "an object";
  if (!value.is_string()) return value.dump();  // a number, true, false or null
  const auto& text = value.get_ref<const std::string&>();
  return '"' + text.substr(0, kShownBytes) + (text.size() > kShownBytes ? "…\"" : "\"");
}

std::string number_text(double value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

}  // namespace

std::string dump(const nlohmann::ordered_json& value) {
  return value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string to_json(const HttpError& error) {
  const char* type = error.status == 401   ? "authentication_error"
                     : error.status == 429 ? "rate_limit_error"
                     : error.status >= 500 ? "server_error"
                                           : "invalid_request_error";
  nlohmann::ordered_json body = {{"message", error.message}, {"type", type}};
  body["param"] =
      error.param.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(error.param);
  body["code"] = error.code.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(error.code);
  if (error.exists) {
    body["conversation"] = {{"generation", error.exists->generation},
                            {"position", error.exists->position}};
  }
  return dump({{"error", body}});
}

void Fields::refuse(std::string message, std::string param, std::string code) {
  if (!error_) error_ = HttpError{400, std::move(message), std::move(param), std::move(code)};
}

const nlohmann::json* Fields::value(const char* name) {
  known_.insert(name);
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<double> Fields::number(const char* name, double least, double most) {
  const nlohmann::json* given = value(name);
  if (given == nullptr) return {};
  const double number = given->is_number() ? given->get<double>() : std::nan("");
  if (number >= least && number <= most) return number;
  refuse(std::string(name) + " is " + shown(*given) + ", expected a number from " +
             number_text(least) + " to " + number_text(most),
         name);
  return {};
}

std::optional<std::int64_t> Fields::integer(const char* name, std::int64_t least,
                                            std::int64_t most) {
  const nlohmann::json* given = value(name);
  if (given == nullptr) return {};
  if (given->is_number_integer() &&
      !(given->is_number_unsigned() && given->get<std::uint64_t>() > INT64_MAX)) {
    const auto number = given->get<std::int64_t>();
    if (number >= least && number <= most) return number;
  }
  refuse(std::string(name) + " is " + shown(*given) + ", expected a whole number from " +
             std::to_string(least) + " to " + std::to_string(most),
         name);
  return {};
}

std::optional<bool> Fields::boolean(const char* name) {
  const nlohmann::json* given = value(name);
  if (given == nullptr) return {};
  if (given->is_boolean()) return given->get<bool>();
  refuse(std::string(name) + " is " + shown(*given) + ", expected true or false", name);
  return {};
}

std::optional<std::string> Fields::text(const char* name) {
  const nlohmann::json* given = value(name);
  if (given == nullptr) return {};
  if (given->is_string()) return given->get<std::string>();
  refuse(std::string(name) + " is " + shown(*given) + ", expected a text", name);
  return {};
}

std::vector<std::string> Fields::texts(const char* name, std::size_t most) {
  const nlohmann::json* given = value(name);
  if (given == nullptr) return {};
  std::vector<std::string> all;
  if (given->is_string()) {
    all.push_back(given->get<std::string>());
  } else if (given->is_array() && given->size() <= most) {
    for (const nlohmann::json& one : *given) {
      if (one.is_string()) all.push_back(one.get<std::string>());
    }
  }
  if (!all.empty() && (given->is_string() || all.size() == given->size())) return all;
  if (given->is_array() && given->empty()) return {};
  refuse(std::string(name) + " is " + shown(*given) + ", expected a text or a list of at most " +
             std::to_string(most) + " texts",
         name);
  return {};
}

void Fields::only(const char* name, const nlohmann::json& neutral) {
  const nlohmann::json* given = value(name);
  if (given == nullptr || *given == neutral) return;
  refuse(std::string(name) + " is " + shown(*given) + ", which this server does not support", name,
         "unsupported_field");
}

void Fields::finish() {
  for (const auto& [name, given] : object_.items()) {
    if (given.is_null() || known_.contains(name)) continue;
    const std::string cut = name.substr(0, kShownBytes);
    refuse("the field " + cut + " is not supported by this server", cut, "unsupported_field");
  }
}

}  // namespace runnel::serve
