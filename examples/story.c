/* SPDX-License-Identifier: Apache-2.0 */
/* A story with two ends: reads a prompt once, keeps the state, and goes on from it twice.
 *   example_story_c MODEL.gguf "Once upon a time" */
#include <runnel/runnel.h>
#include <stdio.h>

static bool show(const char* text, size_t bytes, void* user) {
  (void)user;
  return fwrite(text, 1, bytes, stdout) == bytes; /* false stops */
}

static int tell_story(const runnel_model* model, runnel_session* session, const char* prompt,
                      runnel_error* error) {
  runnel_snapshot* after_prompt = NULL; /* 6 MB, however long the prompt was */
  runnel_generation_options options;
  int status = runnel_session_prefill_text(session, prompt, RUNNEL_NUL, false, error);
  if (status == RUNNEL_OK) status = runnel_session_snapshot(session, &after_prompt, error);

  RUNNEL_INIT(runnel_generation_options, options);
  if (status == RUNNEL_OK) status = runnel_model_sampling(model, &options, error);
  options.max_tokens = 40;
  options.on_text = show;
  for (options.seed = 1; options.seed <= 2 && status == RUNNEL_OK; ++options.seed) {
    printf("\n--- end %d: %s", (int)options.seed, prompt);
    status = runnel_generate(session, &options, NULL, error);
    if (status == RUNNEL_OK) status = runnel_session_restore(session, after_prompt, error);
  }
  printf("\n");
  runnel_snapshot_free(after_prompt);
  return status;
}

int main(int argc, char** argv) {
  runnel_model* model = NULL;
  runnel_session* session = NULL;
  runnel_error error;
  int status;
  if (argc != 3) {
    fprintf(stderr, "usage: %s MODEL.gguf PROMPT\n", argv[0]);
    return 2;
  }
  status = runnel_model_load(argv[1], NULL, &model, &error);
  if (status == RUNNEL_OK) status = runnel_session_create(model, &session, &error);
  if (status == RUNNEL_OK) status = tell_story(model, session, argv[2], &error);
  if (status != RUNNEL_OK) fprintf(stderr, "%s: %s\n", runnel_status_name(status), error.message);
  runnel_session_free(session);
  runnel_model_free(model);
  return status == RUNNEL_OK ? 0 : 1;
}
