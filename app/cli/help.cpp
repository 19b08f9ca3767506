// SPDX-License-Identifier: Apache-2.0
#include "app/cli/help.h"

#include <sstream>

namespace runnel::cli {

std::string HelpFormatter::make_help(const CLI::App* app, std::string name,
                                     CLI::AppFormatMode mode) const {
  std::string text = Formatter::make_help(app, std::move(name), mode);
  for (std::size_t at; (at = text.find("\n\n\n")) != std::string::npos;) text.erase(at, 1);
  return text;
}

std::string HelpFormatter::make_usage(const CLI::App* app, std::string name) const {
  std::string usage = "\n" + Formatter::make_usage(app, std::move(name));
  if (const std::size_t at = usage.find("SUBCOMMAND"); at != std::string::npos) {
    usage.replace(at, std::string("SUBCOMMAND").size(), "COMMAND");
  }
  return usage;
}

std::string HelpFormatter::make_description(const CLI::App* app) const {
  return app->get_description() + ".\n";
}

std::string HelpFormatter::make_option_opts(const CLI::Option* option) const {
  if (option->get_type_size() == 0 || option->get_positional()) return {};
  const std::string type = option->get_type_name();
  return " " + type.substr(0, type.find(':'));  // what follows is a validator
}

std::string HelpFormatter::make_option_desc(const CLI::Option* option) const {
  std::string text = option->get_description();
  if (!option->get_default_str().empty()) text += " (default " + option->get_default_str() + ")";
  if (option->get_required() && !option->get_positional()) text += " (required)";
  std::string wrapped;
  std::size_t column = kColumn;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const bool first = column == kColumn;
    if (!first && column + 1 + word.size() > kWidth) {
      wrapped += "\n" + word;
      column = kColumn + word.size();
    } else {
      wrapped += (first ? "" : " ") + word;
      column += word.size() + (first ? 0 : 1);
    }
  }
  return wrapped;
}

}  // namespace runnel::cli
