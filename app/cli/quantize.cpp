// SPDX-License-Identifier: Apache-2.0
// runnel quantize: a model file stored again in other types.
#include <cstdio>
#include <memory>
#include <string>

#include "app/cli/command.h"
#include "app/cli/interrupt.h"
#include "app/cli/model_options.h"
#include "app/cli/store_options.h"
#include "app/cli/terminal.h"
#include "runtime/base/try.h"
#include "runtime/model/quantize_model.h"

namespace runnel::cli {
namespace {

struct Options {
  std::string in;
  std::string out;
  StoreChoice store;
};

/// Rounding what was rounded before adds the two errors.
void warn_if_requantised(const std::string& in, const std::vector<StoredTensor>& tensors) {
  int again = 0;
  for (const StoredTensor& t : tensors) {
    again += static_cast<int>(quant::is_block_type(t.from) && t.to != t.from);
  }
  if (again == 0) return;
  std::fprintf(stderr,
               "runnel: warning: %d tensors of %s were quantised already; from the f32, f16 or "
               "bf16 file the error would be smaller\n",
               again, in.c_str());
}

Result<int> run(const Options& o) {
  RUNNEL_TRY(StoreOptions options, store_options(o.store));
  RUNNEL_CHECK_OK(check_overwrite(o.out, o.store));
  Result<std::shared_ptr<const GgufFile>> file = GgufFile::open(o.in);
  if (!file) return file.error();
  Result<ModelFile> model = ModelFile::from_gguf(*std::move(file));
  if (!model) return of_file(model.error(), o.in);

  InterruptHandler interrupts;
  const StopOnInterrupt stop(interrupts);
  ProgressBar bar("Quantising");
  options.progress = [&](float fraction) {
    bar.update(static_cast<double>(fraction));
    return !stop.interrupted();
  };
  const Result<std::vector<StoredTensor>> stored = quantize_model(*model, o.out, options);
  bar.clear();
  if (!stored) {
    if (stored.error().code == ErrorCode::cancelled) return static_cast<int>(kInterrupted);
    // What is wrong with a tensor is said of the file it is in; the rest is about the one that is written.
    return stored.error().code == ErrorCode::malformed ? of_file(stored.error(), o.in)
                                                       : stored.error();
  }
  warn_if_requantised(o.in, *stored);
  print_stored(o.out, *stored, o.store);
  return static_cast<int>(kOk);
}

}  // namespace

Command add_quantize(CLI::App& program) {
  CLI::App* parser =
      program.add_subcommand("quantize", "Store a model file in another type, usually smaller");
  const auto options = std::make_shared<Options>();
  parser->add_option("IN", options->in, "Model file to read (GGUF)")->required();
  parser->add_option("OUT", options->out, "Model file to write")->required();
  add_store_options(*parser, options->store)->required();
  parser->footer(storage_help() +
                 "\nTensors that have their type already are copied byte for byte.");
  return {parser, [options] {
            if (const auto mistake = input_replaced(options->in, options->out, options->store))
              return report_usage(*mistake);
            const Result<int> code = run(*options);
            return code ? *code : report(code.error());
          }};
}

}  // namespace runnel::cli
