// SPDX-License-Identifier: Apache-2.0
// runnel pack: reads a system prompt and documents once, so that chats can begin after them.
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "app/cli/command.h"
#include "app/cli/model_options.h"
#include "app/cli/terminal.h"
#include "runnel/conversation.h"
#include "runtime/base/byte_reader.h"
#include "runtime/base/file_map.h"
#include "runtime/base/try.h"

namespace runnel::cli {
namespace {

struct Options {
  ModelChoice model;
  std::string system;
  std::vector<std::string> documents;
  std::string output;
  bool compress = false;
};

Result<int> make(const Options& o) {
  std::vector<std::string> documents;
  for (const std::string& file : o.documents) {
    RUNNEL_TRY(const FileMap map, FileMap::open(file));
    documents.emplace_back(as_text(map.bytes()));
  }
  RUNNEL_TRY(const std::shared_ptr<const Model> model, load_model(o.model));
  Result<Snapshot> pack = [&] {
    ProgressBar bar("Reading");
    return make_pack(model, o.system, documents, {.progress = [&bar](auto done, auto total) {
                       bar.update(static_cast<double>(done) / static_cast<double>(total));
                     }});
  }();
  if (!pack) return std::move(pack).error();
  RUNNEL_CHECK_OK(pack->save(o.output, {.compress = o.compress}));
  write_out(o.output + ": " + format_count(pack->position()) + " tokens\n");
  return kOk;
}

}  // namespace

Command add_pack(CLI::App& program) {
  CLI::App* parser = program.add_subcommand("pack", "Make state packs to begin chats with");
  parser->require_subcommand(1);
  CLI::App* maker =
      parser->add_subcommand("make", "Read a system prompt and documents into a state pack");
  maker->footer(
      "A chat with --pack begins after them and reads no token of them. With another model the "
      "texts are "
      "read again.\n\n"
      "Example:\n"
      "  runnel pack make --system \"You keep a lighthouse.\" --document tower.txt -o "
      "keeper.rnlpack\n"
      "  runnel chat --pack keeper.rnlpack");
  auto o = std::make_shared<Options>();
  add_model_options(*maker, o->model);
  maker->add_option("--system", o->system, "System prompt")->type_name("TEXT");
  maker->add_option("--document", o->documents, "Text file to read after it, may be repeated")
      ->type_name("FILE");
  maker->add_option("-o,--output", o->output, "Pack to write")->required()->type_name("PACK");
  maker->add_flag("--compress", o->compress, "Smaller by an eighth, slower to open");
  return {parser, [o] {
            const Result<int> code = make(*o);
            return code ? *code : report(code.error());
          }};
}

}  // namespace runnel::cli
