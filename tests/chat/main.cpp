// SPDX-License-Identifier: Apache-2.0
// All suites in one program; ctest runs each with its name as first argument.
#include <QGuiApplication>
#include <cstring>

#include "tests/chat/suites.h"

int main(int argc, char** argv) {
  const QGuiApplication application(argc, argv);
  const char* suite = argc > 1 ? argv[1] : "";
  const auto is = [suite](const char* name) { return std::strcmp(suite, name) == 0; };
  const bool all = argc == 1;
  if (!all) {
    --argc;
    ++argv;
  }
  int failed = 0;
  if (all || is("chat")) failed += runChatModelTests(argc, argv);
  if (all || is("document")) failed += runDocumentTests(argc, argv);
  if (all || is("lists")) failed += runListTests(argc, argv);
  if (all || is("markdown")) failed += runMarkdownTests(argc, argv);
  if (all || is("engine")) failed += runEngineTests(argc, argv);
  if (all || is("library-faults")) failed += runLibraryFaultsTests(argc, argv);
  return failed;
}
