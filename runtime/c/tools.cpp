// SPDX-License-Identifier: Apache-2.0
// Tools and their calls in the C API.
#include "runnel/tools.h"

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runnel/model.h"
#include "runtime/c/support.h"

using namespace runnel;
using namespace runnel::c;

struct runnel_tool_reader {
  ToolCallReader reader;
};

namespace {

// Tells them in order.
void tell(const std::vector<ToolEvent>& events, runnel_on_tool on_tool, void* user) {
  for (const ToolEvent& event : events) {
    const runnel_tool_event told{.size = sizeof(runnel_tool_event),
                                 .kind = static_cast<int32_t>(event.kind),
                                 .text = event.text.c_str(),
                                 .bytes = event.text.size(),
                                 .call = event.call,
                                 .reason = event.reason.c_str(),
                                 .begun = event.begun};
    on_tool(&told, user);
  }
}

}  // namespace

runnel_status runnel_tools_read(const char* json, size_t bytes, runnel_tools** tools,
                                runnel_error* error) {
  return guarded(error, [&]() -> Status {
    RUNNEL_CHECK_OK(check_not_null(tools, "tools"));
    RUNNEL_TRY(const std::string_view text, text_of(json, bytes, "json"));
    RUNNEL_TRY(std::vector<Tool> made, read_tools(text));
    *tools = new runnel_tools{std::move(made)};
    return {};
  });
}

void runnel_tools_free(runnel_tools* tools) { delete tools; }

runnel_status runnel_tools_constraint(const runnel_tools* tools, const runnel_model* model,
                                      int32_t choice, const char* name, bool parallel,
                                      runnel_constraint** constraint, runnel_error* error) {
  return guarded(error, [&]() -> Status {
    RUNNEL_CHECK_OK(check_not_null(tools, "tools"));
    RUNNEL_CHECK_OK(check_not_null(model, "model"));
    RUNNEL_CHECK_OK(check_not_null(constraint, "constraint"));
    if (choice < RUNNEL_TOOLS_AUTO || choice > RUNNEL_TOOLS_NAMED)
      return fail(ErrorCode::invalid_argument, "choice is ", choice, ", expected 0 to 3");
    ToolChoice of{.kind = static_cast<ToolChoice::Kind>(choice), .parallel = parallel};
    if (choice == RUNNEL_TOOLS_NAMED) {
      RUNNEL_CHECK_OK(check_not_null(name, "name"));
      of.name = name;
    }
    RUNNEL_TRY(std::shared_ptr<const Constraint> made,
               tool_constraint(*model->model, tools->tools, of));
    *constraint = new runnel_constraint{std::move(made)};
    return {};
  });
}

int32_t runnel_model_tool_style(const runnel_model* model) {
  return static_cast<int32_t>(model != nullptr ? model->model->tool_format().style
                                               : ToolStyle::none);
}

runnel_status runnel_tool_reader_create(const runnel_model* model, runnel_tool_reader** reader,
                                        runnel_error* error) {
  return guarded(error, [&]() -> Status {
    RUNNEL_CHECK_OK(check_not_null(model, "model"));
    RUNNEL_CHECK_OK(check_not_null(reader, "reader"));
    *reader = new runnel_tool_reader{ToolCallReader(model->model->tool_format())};
    return {};
  });
}

void runnel_tool_reader_free(runnel_tool_reader* reader) { delete reader; }

runnel_status runnel_tool_reader_push(runnel_tool_reader* reader, const char* text, size_t bytes,
                                      runnel_on_tool on_tool, void* user, runnel_error* error) {
  return guarded(error, [&]() -> Status {
    RUNNEL_CHECK_OK(check_not_null(reader, "reader"));
    RUNNEL_CHECK_OK(check_not_null(reinterpret_cast<const void*>(on_tool), "on_tool"));
    RUNNEL_TRY(const std::string_view more, text_of(text, bytes, "text"));
    tell(reader->reader.push(more), on_tool, user);
    return {};
  });
}

runnel_status runnel_tool_reader_finish(runnel_tool_reader* reader, bool cut,
                                        runnel_on_tool on_tool, void* user, runnel_error* error) {
  return guarded(error, [&]() -> Status {
    RUNNEL_CHECK_OK(check_not_null(reader, "reader"));
    RUNNEL_CHECK_OK(check_not_null(reinterpret_cast<const void*>(on_tool), "on_tool"));
    tell(reader->reader.finish(cut), on_tool, user);
    return {};
  });
}
