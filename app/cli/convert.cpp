// SPDX-License-Identifier: Apache-2.0
// runnel convert: a checkpoint, a Hugging Face directory or one file of RWKV-7, becomes a model file.
#include <cstdio>
#include <memory>
#include <string>

#include "app/cli/command.h"
#include "app/cli/interrupt.h"
#include "app/cli/store_options.h"
#include "app/cli/terminal.h"
#include "runtime/base/try.h"
#include "runtime/model/hf_checkpoint.h"

namespace runnel::cli {
namespace {

struct Options {
  std::string directory;
  std::string out;
  std::string name;
  std::string license;
  std::string chat;
  std::string system;
  std::vector<std::string> sampling;
  StoreChoice store;
};

Result<int> run(const Options& o) {
  ConvertOptions options;
  RUNNEL_TRY(options.store, store_options(o.store));
  RUNNEL_CHECK_OK(check_overwrite(o.out, o.store));
  if (!o.store.type.empty()) options.type = options.store.type;
  options.name = o.name;
  options.license = o.license;
  if (!o.chat.empty()) {
    const ChatStyle style = o.chat == "chatml" ? ChatStyle::chatml
                            : o.chat == "rwkv" ? ChatStyle::rwkv
                                               : ChatStyle::plain;
    options.chat = ChatFormat{style, o.system, {}, {}};
  } else if (!o.system.empty()) {
    return fail(ErrorCode::invalid_argument, "--system needs --chat");
  }

  options.sampling = o.sampling;

  InterruptHandler interrupts;
  const StopOnInterrupt stop(interrupts);
  ProgressBar bar("Converting");
  options.store.progress = [&](float fraction) {
    bar.update(static_cast<double>(fraction));
    return !stop.interrupted();
  };
  Result<ConvertReport> report = convert_checkpoint(o.directory, o.out, options);
  bar.clear();
  if (!report) {
    if (report.error().code == ErrorCode::cancelled) return static_cast<int>(kInterrupted);
    return report.error();
  }
  for (const std::string& warning : report->warnings) {
    std::fprintf(stderr, "runnel: warning: %s\n", warning.c_str());
  }
  if (!report->has_tokenizer) {
    std::fprintf(stderr,
                 "runnel: warning: %s has no tokenizer; the model will take token ids only\n",
                 o.directory.c_str());
  }
  print_stored(o.out, report->tensors, o.store);
  return static_cast<int>(kOk);
}

}  // namespace

Command add_convert(CLI::App& program) {
  CLI::App* parser = program.add_subcommand("convert", "Make a model file from a checkpoint");
  const auto options = std::make_shared<Options>();
  parser
      ->add_option("CHECKPOINT", options->directory,
                   "Directory with config.json (model_type one of " + hf_model_types() +
                       "), *.safetensors and tokenizer files; or one file, .pth or "
                       ".safetensors, of RWKV-7 as its author publishes it")
      ->required()
      ->check(CLI::ExistingPath);
  parser->add_option("OUT", options->out, "Model file to write (GGUF)")->required();
  add_store_options(*parser, options->store)
      ->description(
          "Type of the linear weights. Without it: the checkpoint's own, nothing is lost");
  parser->add_option("--name", options->name, "Name of the model. Without it: the checkpoint's")
      ->type_name("TEXT");
  parser->add_option("--license", options->license, "Licence to note in the file, as in apache-2.0")
      ->type_name("TEXT");
  parser
      ->add_option("--chat", options->chat,
                   "Chat format of the model. Without it: as the template in the directory says")
      ->type_name("STYLE")
      ->check(CLI::IsMember({"chatml", "plain", "rwkv"}));
  parser->add_option("--system", options->system, "With --chat: the default system prompt")
      ->type_name("TEXT");
  parser
      ->add_option("--sampling", options->sampling,
                   "How chats should draw by default, as in temp=0.7 or dry_multiplier=0.8; may be "
                   "repeated")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  parser->footer(storage_help());
  return {
      parser, [options] {
        if (const auto mistake = input_replaced(options->directory, options->out, options->store))
          return report_usage(*mistake);
        const Result<int> code = run(*options);
        return code ? *code : report(code.error());
      }};
}

}  // namespace runnel::cli
