/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/include/example_c99.h"

#include <fcntl.h>
#include <runnel/runnel.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#ifdef RUNNEL_HAS_STORE
#include <runnel/runnel_store.h>
#endif

void runnel_example_c99(void) {
#include "runnel_1.inc"
}

void runnel_example_store(runnel_model* model) {
  runnel_error error;
  runnel_generation_options options;
  RUNNEL_INIT(runnel_generation_options, options);
  options.max_tokens = 3;
  {
#ifdef RUNNEL_HAS_STORE
#include "runnel_store_1.inc"
#else
    (void)model;
    (void)error;
#endif
  }
}

static bool show(const char* text, size_t bytes, void* user) {
  (void)user;
  return fwrite(text, 1, bytes, stdout) == bytes;
}

void runnel_example_readme(runnel_session* session) {
#include "README_c_1.inc"
}

void runnel_example_loading(void) {
  runnel_error error;
#include "library_c_1.inc"
}

void runnel_example_steps(runnel_session* session) {
  runnel_error error;
#include "library_c_2.inc"
}

void runnel_example_tools(runnel_model* model) {
  runnel_error error = {0};
#include "tools_c_1.inc"
  if (error.status != RUNNEL_OK) abort();
}
