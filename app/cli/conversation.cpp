// SPDX-License-Identifier: Apache-2.0
// runnel conversation: lists and changes the library of conversations; needs no model.
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "app/cli/chat_store.h"
#include "app/cli/command.h"
#include "app/cli/terminal.h"
#include "runtime/base/byte_reader.h"
#include "runtime/base/file_map.h"
#include "runtime/base/try.h"

namespace runnel::cli {
namespace {

struct Options {
  std::string library;
  std::string name;
  std::string new_name;
  std::string words;
  std::string file;
  bool json = false;
};

Result<ConversationId> named(const ConversationStore& store, const std::string& name) {
  RUNNEL_TRY(const std::optional<ConversationId> id, store.find(name));
  if (!id) return Error{ErrorCode::not_found, "there is no conversation \"" + name + "\""};
  return *id;
}

Result<int> list(const Options& o) {
  RUNNEL_TRY(const ConversationStore store, open_library(o.library));
  RUNNEL_TRY(const std::vector<ConversationInfo> all, store.list());
  std::string text;
  for (const ConversationInfo& conversation : all) {
    text += conversation.name + "  (" + std::to_string(conversation.messages) + " messages" +
            (conversation.pinned ? ", pinned" : "") + ")\n";
  }
  RUNNEL_TRY(const StoreUsage usage, store.usage());
  text += std::to_string(usage.snapshots) + " snapshots, " + format_bytes(usage.snapshot_bytes) +
          " of " + format_bytes(usage.budget_bytes) + "\n";
  return write_out(text) ? kOk : kFailed;
}

Result<int> search(const Options& o) {
  RUNNEL_TRY(const ConversationStore store, open_library(o.library));
  RUNNEL_TRY(const std::vector<SearchHit> hits, store.search(o.words));
  std::string text;
  for (const SearchHit& hit : hits) text += hit.name + ": " + hit.excerpt + "\n";
  return write_out(text) ? kOk : kFailed;
}

Result<int> show(const Options& o) {
  RUNNEL_TRY(const ConversationStore store, open_library(o.library));
  RUNNEL_TRY(const ConversationId id, named(store, o.name));
  RUNNEL_TRY(const std::string text, o.json ? store.export_json(id) : store.export_markdown(id));
  return write_out(text) ? kOk : kFailed;
}

Result<int> import(const Options& o) {
  RUNNEL_TRY(ConversationStore store, open_library(o.library));
  RUNNEL_TRY(const FileMap map, FileMap::open(o.file));
  RUNNEL_TRY(const ConversationId id, store.import_json(as_text(map.bytes())));
  RUNNEL_TRY(const ConversationInfo info, store.info(id));
  return write_out("Imported " + info.name + "\n") ? kOk : kFailed;
}

Result<int> rename(const Options& o) {
  RUNNEL_TRY(ConversationStore store, open_library(o.library));
  RUNNEL_TRY(const ConversationId id, named(store, o.name));
  RUNNEL_CHECK_OK(store.rename(id, o.new_name));
  return kOk;
}

Result<int> forget(const Options& o) {
  RUNNEL_TRY(ConversationStore store, open_library(o.library));
  RUNNEL_TRY(const ConversationId id, named(store, o.name));
  RUNNEL_TRY(const ForgetReport report, store.forget_conversation(id));
  std::string text = "Deleted " + std::to_string(report.messages) + " messages and " +
                     std::to_string(report.snapshots) + " snapshots\n";
  if (!report.log_emptied) {
    text += "Another program is reading the library: until it stops, its log keeps the text\n";
  }
  return write_out(text) ? kOk : kFailed;
}

}  // namespace

Command add_conversation(CLI::App& program) {
  CLI::App* parser = program.add_subcommand(
      "conversation", "List, search, export and delete the conversations that chat keeps");
  parser->require_subcommand(1);
  parser->footer(
      "Examples:\n"
      "  runnel chat --conversation plans\n"
      "  runnel conversation export plans > plans.md\n"
      "  runnel conversation delete plans");
  auto o = std::make_shared<Options>();
  auto action = std::make_shared<Result<int> (*)(const Options&)>(nullptr);
  const auto add = [&](const char* name, const char* what, Result<int> (*run)(const Options&)) {
    CLI::App* command = parser->add_subcommand(name, what);
    command->callback([action, run] { *action = run; });
    add_library_option(*command, o->library);
    return command;
  };
  add("list", "Names, most recent first", list);
  CLI::App* finder = add("search", "Find words in all of them", search);
  finder->add_option("WORDS", o->words, "What to look for")->required();
  CLI::App* exporter = add("export", "Print one as Markdown", show);
  exporter->add_option("NAME", o->name, "Conversation")->required();
  exporter->add_flag("--json", o->json, "Print all branches as JSON, for import");
  CLI::App* importer = add("import", "Add one from JSON", import);
  importer->add_option("FILE", o->file, "What export --json printed")->required();
  CLI::App* renamer = add("rename", "Give one another name", rename);
  renamer->add_option("NAME", o->name, "Conversation")->required();
  renamer->add_option("NEW", o->new_name, "Its new name")->required();
  CLI::App* forgetter = add("delete", "Delete one for good: no file keeps its text", forget);
  forgetter->add_option("NAME", o->name, "Conversation")->required();
  return {parser, [o, action] {
            const Result<int> code = (*action)(*o);
            return code ? *code : report(code.error());
          }};
}

}  // namespace runnel::cli
