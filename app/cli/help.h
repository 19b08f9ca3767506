// SPDX-License-Identifier: Apache-2.0
// The layout of help: one line per option, its default at the end, no internals of the parser.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace runnel::cli {

class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter() { column_width(kColumn); }

  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override;
  std::string make_usage(const CLI::App* app, std::string name) const override;
  std::string make_description(const CLI::App* app) const override;
  std::string make_option_opts(const CLI::Option* option) const override;
  std::string make_option_desc(const CLI::Option* option) const override;

 private:
  static constexpr std::size_t kColumn = 28;
  static constexpr std::size_t kWidth = 100;
};

}  // namespace runnel::cli
