// SPDX-License-Identifier: Apache-2.0
#include "app/cli/model_options.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "app/cli/terminal.h"
#include "runtime/base/text.h"
#include "runtime/base/try.h"
#include "runtime/model/tuned_state.h"

namespace runnel::cli {
namespace {

/// The models that come with the program, the default first.
struct CarriedModel {
  const char* name;  // for --model
  const char* file;
  const char* what;
};
constexpr CarriedModel kCarriedModels[] = {
    {"default", "runnel-gsa-0.5b-coder-instruct-00001-of-00003.gguf", "422 M parameters"},
    {"small", "runnel-gsa-135m-instruct.gguf", "138 M parameters, for devices under 1 GB"},
};

std::vector<std::filesystem::path> carried_model_places() {
  namespace fs = std::filesystem;
  std::vector<fs::path> places;
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (!error) {
    // A build directory lies in the source tree: build/cpu/bin/runnel finds ../../../models.
    fs::path directory = program.parent_path();
    for (int levels = 0; levels < 4 && directory.has_relative_path(); ++levels) {
      places.push_back(directory / "models");
      directory = directory.parent_path();
    }
    places.push_back(program.parent_path().parent_path() / "share" / "runnel");
  }
  places.emplace_back("models");
  if (const char* data = std::getenv("XDG_DATA_HOME"); data != nullptr && *data != '\0') {
    places.push_back(fs::path(data) / "runnel");
  } else if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') {
    places.push_back(fs::path(home) / ".local" / "share" / "runnel");
  }
  places.emplace_back("/usr/local/share/runnel");
  places.emplace_back("/usr/share/runnel");
  return places;
}

/// A carried model's file, in the directories that carried_model_places() lists.
Result<std::string> find_carried_model(const CarriedModel& model) {
  std::string looked;
  for (const std::filesystem::path& place : carried_model_places()) {
    std::error_code error;
    const std::filesystem::path file = place / model.file;
    if (std::filesystem::is_regular_file(file, error)) return file.lexically_normal().string();
    looked += "\n  " + place.lexically_normal().string();
  }
  return fail(ErrorCode::not_found, "the model \"", model.name, "\" (", model.file,
              ") is in none of these directories:", looked);
}

/// Where compiled pipelines are kept; empty if the user has no place for such things.
std::filesystem::path cache_directory() {
  namespace fs = std::filesystem;
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != '\0')
    return fs::path(cache) / "runnel";
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0')
    return fs::path(home) / ".cache" / "runnel";
  return {};
}

/// Whether a load failed because of what the model's file holds.
bool is_about_contents(const Error& error, const ModelChoice& choice) {
  if (!choice.chat_template.empty() && error.message.starts_with(choice.chat_template))
    return false;
  switch (error.code) {
    case ErrorCode::malformed:
    case ErrorCode::unsupported:
    case ErrorCode::mismatch:
      return true;
    case ErrorCode::not_found:
      return error.message.starts_with("key ");
    default:
      return false;
  }
}

}  // namespace

void add_window_option(CLI::App& parser, ModelChoice& choice) {
  parser
      .add_option("--window", choice.window,
                  "Window slots: how many of the newest tokens are seen word for word, 0 to the "
                  "number in the file, which is the default; fewer make the state smaller")
      ->type_name("N");
}

void add_model_options(CLI::App& parser, ModelChoice& choice) {
  CLI::Option* const file =
      parser.add_option("FILE", choice.file, "Model file (GGUF). Without it: the default model");
  std::string names = "A model that comes with the program:";
  std::vector<std::string> known;
  for (const CarriedModel& m : kCarriedModels) {
    names += std::string(known.empty() ? " " : ", ") + m.name + " (" + m.what + ")";
    known.emplace_back(m.name);
  }
  parser.add_option("-m,--model", choice.name, names)
      ->type_name("NAME")
      ->check(CLI::IsMember(known))
      ->excludes(file);
  parser
      .add_option("--device", choice.device,
                  "Where to compute: a device as `runnel devices` lists it, or auto")
      ->type_name("ID")
      ->capture_default_str();
  parser.add_option("-t,--threads", choice.threads, "Threads on the CPU, 0 for one per core")
      ->type_name("N")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  add_window_option(parser, choice);
}

void add_chat_template_option(CLI::App& parser, ModelChoice& choice) {
  parser
      .add_option("--chat-template", choice.chat_template,
                  "Lay out chats so instead of as the model's file says: chatml, plain, rwkv or a "
                  "file with a Jinja template")
      ->type_name("FILE|NAME");
}

Result<std::string> model_file(const ModelChoice& choice) {
  if (!choice.file.empty()) return choice.file;
  for (const CarriedModel& m : kCarriedModels) {
    if (choice.name.empty() || choice.name == m.name) return find_carried_model(m);
  }
  return fail(ErrorCode::invalid_argument, "no model is called \"", choice.name, "\"");
}

Result<std::shared_ptr<const Model>> load_model(const ModelChoice& choice) {
  RUNNEL_TRY(const std::string file, model_file(choice));
  ProgressBar bar("Loading");
  ModelOptions options{.device = choice.device,
                       .threads = choice.threads,
                       .progress = {},
                       .cache_directory = cache_directory(),
                       .step_program = {},
                       .window_slots = choice.window,
                       .chat_template = choice.chat_template};
  if (const char* step = std::getenv("RUNNEL_STEP"); step != nullptr) options.step_program = step;
  options.progress = [&bar](float fraction) {
    bar.update(static_cast<double>(fraction));
    return true;
  };
  Result<std::shared_ptr<const Model>> model = Model::load(file, options);
  if (!model && is_about_contents(model.error(), choice)) return of_file(model.error(), file);
  return model;
}

Error of_file(Error error, const std::string& file) {
  const std::string named = printable(file) + ": ";
  return error.message.starts_with(named) ? error : with_context(std::move(error), named);
}

Result<Snapshot> load_start(const std::string& file, const std::shared_ptr<const Model>& model) {
  return is_torch_file(file) ? load_tuned_state(file, model) : Snapshot::load(file);
}

Result<Snapshot> start_from(const std::string& file, Session& session) {
  RUNNEL_TRY(Snapshot snapshot, load_start(file, session.shared_model()));
  const Status restored = session.restore(snapshot);
  if (!restored) return of_file(restored.error(), file);
  return snapshot;
}

}  // namespace runnel::cli
