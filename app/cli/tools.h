// SPDX-License-Identifier: Apache-2.0
// Tools of chat and run: the program runs none of them, it prints the calls and reads their results.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runnel/generation.h"
#include "runnel/tools.h"

namespace runnel::cli {

/// What the command line says.
struct ToolsChoice {
  std::string file;
  std::string choice = "auto";

  bool any() const { return !file.empty(); }
};

/// Adds --tools and --tool-choice.
void add_tools_options(CLI::App& parser, ToolsChoice& choice);

/// The tools, none if none were given, and in `generation` the constraint that keeps answers to them.
/// @return as read_tools() and tool_constraint(), with the option's name; not_found or io for the file
Result<std::vector<Tool>> chosen_tools(const ToolsChoice& choice, const Model& model,
                                       GenerationOptions& generation);

/// An answer with calls as a person reads it.
class ShownCalls {
 public:
  /// @param first  of its calls is the so-manieth of the conversation
  ShownCalls(const Model& model, std::size_t first) : reader_(model.tool_format()), next_(first) {}

  /// The answer's next text -> what to show of it.
  std::string push(std::string_view text) { return take(reader_.push(text)); }
  std::string finish(bool cut) { return take(reader_.finish(cut)); }

  /// Once it is over: what was said, with calls named "call_1", "call_2", ….
  const ChatMessage& message() const { return message_; }
  /// A line for each call: "call: NAME {…}".
  std::string lines() const;
  /// The first text that is no call, as an error; none: there is none.
  std::optional<Error> problem() const { return problem_; }

 private:
  std::string take(const std::vector<ToolEvent>& events);

  ToolCallReader reader_;
  std::size_t next_;
  ChatMessage message_{.role = "assistant", .content = {}};
  ToolCall call_;
  std::optional<Error> problem_;
};

/// Asks for the results of calls. @param ask  gives a line for a call, or nothing if there is none to come
std::vector<ChatMessage> read_results(
    const std::vector<ToolCall>& calls,
    const std::function<std::optional<std::string>(const ToolCall&)>& ask);

}  // namespace runnel::cli
