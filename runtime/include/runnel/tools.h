// SPDX-License-Identifier: Apache-2.0
// Tools: functions of the program that a model may call. The program describes them, the model answers with calls, the
// program runs them and gives the results as messages of the role "tool". The library runs nothing.
//
// Example, in a function that returns a Result:
//   auto tools = runnel::read_tools(R"([{"type": "function", "function": {"name": "now", "description": "The time"}}])");
//   if (!tools) return tools.error();
//   std::vector<runnel::ChatMessage> talk{{"user", "What time is it?"}};
//   auto prompt = model->encode_chat(talk, true, runnel::ChatContinuation::start, {}, *tools);
//   if (!prompt) return prompt.error();
//   if (auto read = session.prefill(*prompt); !read) return read.error();
//   auto constraint = runnel::tool_constraint(*model, *tools, {.kind = runnel::ToolChoice::Kind::required});
//   if (!constraint) return constraint.error();
//   auto result = runnel::generate(session, {.max_tokens = 100, .constraint = *constraint});
//   if (!result) return result.error();
//   auto answer = runnel::read_tool_calls(model->tool_format(), result->text);
//   for (const auto& call : answer.calls) std::cout << call.name << ' ' << call.arguments << '\n';    // now {}
//
// docs/tools.md says which formats are known and how calls are told from text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runnel/chat.h"
#include "runnel/constraint.h"
#include "runnel/export.h"
#include "runnel/model.h"
#include "runnel/result.h"

namespace runnel {

/// Most tools of a conversation.
inline constexpr std::size_t kMostTools = 128;

/// How calls stand in an answer.
enum class ToolStyle : std::uint8_t {
  none,  ///< the chat format knows no tools, or writes calls in a way that is not read here
  tagged,  ///< <tool_call>{"name": …, "arguments": …}</tool_call>, several of them: Hermes, Qwen, RWKV
  bare,   ///< the answer is {"name": …, "parameters": …}: Llama
  list,   ///< [TOOL_CALLS][{"name": …, "arguments": …}, …]: Mistral
  named,  ///< [TOOL_CALLS]NAME[ARGS]{…}, several of them: Mistral's later ones
};

/// "none", "tagged", "bare", "list", "named".
RUNNEL_API std::string_view to_string(ToolStyle style);

/// How a model writes its calls, as its chat template lays them out: `begin` NAME `middle` ARGUMENTS, then `between` and
/// the next call's NAME or `end`. In these texts kIdMark stands for an id of nine letters or digits.
struct ToolFormat {
  ToolStyle style = ToolStyle::none;
  std::string reason = {};  ///< with none: why
  /// What begins a call and is no text: "<tool_call>", "[TOOL_CALLS]"; empty with bare.
  std::string open = {};
  std::string close = {};   ///< with tagged: "</tool_call>"
  std::string begin = {};   ///< "<tool_call>\n{\"name\": \""
  std::string middle = {};  ///< "\", \"arguments\": "
  /// "}\n</tool_call>\n<tool_call>\n{\"name\": \""; empty: one call an answer
  std::string between = {};
  std::string end = {};  ///< "}\n</tool_call>"

  static constexpr char kIdMark = '\x1f';

  bool operator==(const ToolFormat&) const = default;
};

/// Tools from JSON as OpenAI's interface has them: a list of {"type": "function", "function": {"name": …, "description":
/// …, "parameters": SCHEMA, "strict": …}}, or of the inner objects.
/// @return invalid_argument naming the tool's place and what is wrong with it: no JSON, nested more than 64 deep, more
///         than kMostTools, a name twice, a field that is not known
RUNNEL_API Result<std::vector<Tool>> read_tools(std::string_view json);

/// What of its tools a model may use for an answer.
struct ToolChoice {
  enum class Kind : std::uint8_t {
    automatic,  ///< text, calls, or text and then calls
    none,       ///< text alone
    required,   ///< calls alone, at least one
    named,      ///< one call, of the tool `name`
  };
  Kind kind = Kind::automatic;
  std::string name = {};
  bool parallel = true;  ///< several calls in one answer, where the format has that
};

/// A constraint that keeps an answer to `choice`: calls are whole, of tools that there are, and their arguments what the
/// schemas say. Objects have the properties that their schema names; a schema that is not `strict` and has a keyword that
/// is not supported keeps its tool's arguments to a JSON object alone. Text before calls is free.
/// @return as Constraint::compile(), naming the tool; unsupported if the model's tool_format() is none;
///         invalid_argument for a name that is no tool's, or no tools where a call is required.
RUNNEL_API Result<std::shared_ptr<const Constraint>> tool_constraint(const Model& model,
                                                                     std::span<const Tool> tools,
                                                                     const ToolChoice& choice = {});

/// What a text turns out to be, in order.
struct ToolEvent {
  enum class Kind : std::uint8_t {
    text,       ///< `text` is for the reader
    begin,      ///< a call of the tool `text` begins
    arguments,  ///< `text` is the next part of its arguments
    end,        ///< it is whole
    broken,     ///< `text`, from a call's beginning on, is none: it was cut or does not parse
  };
  Kind kind = Kind::text;
  std::string text;
  std::size_t call = 0;     ///< of begin, arguments, end: counted from 0 in the answer
  std::string reason = {};  ///< of broken
  bool begun = false;       ///< of broken: there was a `begin` of `call`

  bool operator==(const ToolEvent&) const = default;
};

/// Finds calls in an answer as it comes. What it gives does not depend on where the text is cut, but for how it is cut
/// itself. White space between text and calls is left out. One thread at a time.
class RUNNEL_API ToolCallReader {
 public:
  /// @param format  Model::tool_format(); with none all is text
  explicit ToolCallReader(ToolFormat format);
  ToolCallReader(ToolCallReader&&) noexcept;
  ToolCallReader& operator=(ToolCallReader&&) noexcept;
  ~ToolCallReader();

  /// The answer's next bytes.
  std::vector<ToolEvent> push(std::string_view text);
  /// It ended. `cut`: it would have gone on (FinishReason::length), so that a call which is not whole was cut.
  std::vector<ToolEvent> finish(bool cut = false);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// A call that is none.
struct BrokenCall {
  std::string text;    ///< as the model wrote it
  std::string reason;  ///< "was cut", "does not parse at byte 17"

  bool operator==(const BrokenCall&) const = default;
};

/// An answer and the calls in it.
struct ToolAnswer {
  std::string text;             ///< before, between and after calls
  std::vector<ToolCall> calls;  ///< whole ones, without ids
  std::vector<BrokenCall> broken;

  bool operator==(const ToolAnswer&) const = default;
};

/// All of an answer at once; `cut` as in ToolCallReader::finish().
RUNNEL_API ToolAnswer read_tool_calls(const ToolFormat& format, std::string_view text,
                                      bool cut = false);

}  // namespace runnel
