// SPDX-License-Identifier: Apache-2.0
// runnel devices: what this build can compute on here.
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "app/cli/command.h"
#include "app/cli/terminal.h"
#include "runnel/device.h"

namespace runnel::cli {
namespace {

int list(bool json) {
  const std::vector<DeviceInfo> all = devices();
  if (json) {
    nlohmann::ordered_json out = nlohmann::ordered_json::array();
    for (const DeviceInfo& d : all) {
      out.push_back({{"id", d.id},
                     {"backend", d.backend},
                     {"name", d.name},
                     {"detail", d.detail},
                     {"memory_bytes", d.memory_bytes}});
    }
    return write_out(out.dump(2) + "\n") ? kOk : kFailed;
  }
  std::string text;
  for (const DeviceInfo& d : all) {
    std::string id = d.id;
    id.resize(std::max<std::size_t>(12, id.size() + 2), ' ');
    text += id + d.name;
    if (!d.detail.empty()) text += ", " + d.detail;
    if (d.memory_bytes > 0) text += ", " + format_bytes(d.memory_bytes);
    text += "\n";
  }
  return write_out(text) ? kOk : kFailed;
}

}  // namespace

Command add_devices(CLI::App& program) {
  CLI::App* parser = program.add_subcommand("devices", "List the devices that models can run on");
  parser->footer(
      "The first column is what --device takes; the first line is what --device auto means.");
  auto json = std::make_shared<bool>(false);
  parser->add_flag("--json", *json, "Print JSON");
  return {parser, [json] { return list(*json); }};
}

}  // namespace runnel::cli
