// SPDX-License-Identifier: Apache-2.0
// runnel devices: what this build can compute on here.
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "app/cli/command.h"
#include "app/cli/model_options.h"
#include "app/cli/terminal.h"
#include "runnel/device.h"

namespace runnel::cli {
namespace {

/// What computes one token of the model on the device, or why the model does not load there.
std::string step_program(const ModelChoice& choice, const std::string& device) {
  ModelChoice there = choice;
  there.device = device;
  const Result<std::shared_ptr<const Model>> model = load_model(there);
  return model ? (*model)->info().step_program : "does not load: " + model.error().message;
}

int list(const ModelChoice& model, bool with_model, bool json) {
  const std::vector<DeviceInfo> all = devices();
  if (json) {
    nlohmann::ordered_json out = nlohmann::ordered_json::array();
    for (const DeviceInfo& d : all) {
      out.push_back({{"id", d.id},
                     {"backend", d.backend},
                     {"name", d.name},
                     {"detail", d.detail},
                     {"memory_bytes", d.memory_bytes}});
      if (with_model) out.back()["step_program"] = step_program(model, d.id);
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
    if (with_model)
      text += std::string(id.size(), ' ') + "one token: " + step_program(model, d.id) + "\n";
  }
  return write_out(text) ? kOk : kFailed;
}

}  // namespace

Command add_devices(CLI::App& program) {
  CLI::App* parser = program.add_subcommand("devices", "List the devices that models can run on");
  parser->footer(
      "The first column is what --device takes; the first line is what --device auto means.\n"
      "RUNNEL_STEP=NAME makes any command use the step program of that name, where it fits.");
  struct Options {
    ModelChoice model;
    bool json = false;
  };
  auto o = std::make_shared<Options>();
  const CLI::Option* model = parser
                                 ->add_option("--model", o->model.file,
                                              "Load this model on each device in turn and print "
                                              "which program computes one token there, and "
                                              "why not a faster one")
                                 ->type_name("FILE");
  add_window_option(*parser, o->model);
  parser->get_option("--window")->needs("--model");
  parser->add_flag("--json", o->json, "Print JSON");
  return {parser, [o, model] { return list(o->model, model->count() > 0, o->json); }};
}

}  // namespace runnel::cli
