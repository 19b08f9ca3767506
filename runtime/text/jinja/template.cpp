// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/jinja/template.h"

#include "runtime/base/try.h"

namespace runnel::jinja {

Result<Template> Template::parse(std::string_view source) {
  if (source.size() > kMostBytes)
    return fail(ErrorCode::invalid_argument, "chat template: has ", source.size(),
                " bytes, at most ", kMostBytes, " are read");
  RUNNEL_TRY(std::unique_ptr<Node> body, jinja::parse(source));
  return Template(std::move(body));
}

Result<Text> Template::render(std::vector<std::pair<std::string, Value>> variables,
                              const std::tm& now, Limits limits) const {
  return Run(limits, now)(*body_, std::move(variables));
}

}  // namespace runnel::jinja
