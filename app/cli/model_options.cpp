// SPDX-License-Identifier: Apache-2.0
#include "app/cli/model_options.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <vector>

#include "app/cli/terminal.h"
#include "runtime/base/try.h"

namespace runnel::cli {
namespace {

constexpr const char* kDefaultModel = "runnel-gsa-135m-instruct.gguf";

std::vector<std::filesystem::path> default_model_places() {
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

/// Where compiled pipelines are kept; empty if the user has no place for such things.
std::filesystem::path cache_directory() {
  namespace fs = std::filesystem;
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != '\0')
    return fs::path(cache) / "runnel";
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0')
    return fs::path(home) / ".cache" / "runnel";
  return {};
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
  parser.add_option("FILE", choice.file,
                    std::string("Model file (GGUF). Without it: ") + kDefaultModel);
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

Result<std::string> find_default_model() {
  std::string looked;
  for (const std::filesystem::path& place : default_model_places()) {
    std::error_code error;
    const std::filesystem::path file = place / kDefaultModel;
    if (std::filesystem::is_regular_file(file, error)) return file.lexically_normal().string();
    looked += "\n  " + place.lexically_normal().string();
  }
  return fail(ErrorCode::not_found, "no model file given, and the default model ", kDefaultModel,
              " is in none of these directories:", looked);
}

Result<std::string> model_file(const ModelChoice& choice) {
  return choice.file.empty() ? find_default_model() : choice.file;
}

Result<std::shared_ptr<const Model>> load_model(const ModelChoice& choice) {
  RUNNEL_TRY(const std::string file, model_file(choice));
  ProgressBar bar("Loading");
  ModelOptions options{.device = choice.device,
                       .threads = choice.threads,
                       .progress = {},
                       .cache_directory = cache_directory(),
                       .step_program = {},
                       .window_slots = choice.window};
  if (const char* step = std::getenv("RUNNEL_STEP"); step != nullptr) options.step_program = step;
  options.progress = [&bar](float fraction) {
    bar.update(static_cast<double>(fraction));
    return true;
  };
  return Model::load(file, options);
}

}  // namespace runnel::cli
