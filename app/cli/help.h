// SPDX-License-Identifier: Apache-2.0
// How help looks: one line an option, its default at the end, nothing of the parser's inner workings.
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
