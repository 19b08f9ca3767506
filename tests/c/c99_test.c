/* SPDX-License-Identifier: Apache-2.0 */
/* The C API as a C99 program uses it: c99_test MODEL SCRATCH_FILE. Ends with 0 if every check
 * holds. */
#include <math.h>
#include <runnel/runnel.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures = 0;
#define CHECK(condition)                                               \
  do {                                                                 \
    if (!(condition)) {                                                \
      fprintf(stderr, "line %d: %s is false\n", __LINE__, #condition); \
      ++failures;                                                      \
    }                                                                  \
  } while (0)
#define OK(call)                                                                   \
  do {                                                                             \
    if ((call) != RUNNEL_OK) {                                                     \
      fprintf(stderr, "line %d: %s failed: %s\n", __LINE__, #call, error.message); \
      exit(1);                                                                     \
    }                                                                              \
  } while (0)

static runnel_error error;

typedef struct collected {
  char text[4096];
  size_t bytes;
  int calls;
  runnel_token forced;
} collected;

static bool collect(const char* text, size_t bytes, void* user) {
  collected* c = (collected*)user;
  if (c->bytes + bytes < sizeof(c->text)) {
    memcpy(c->text + c->bytes, text, bytes);
    c->bytes += bytes;
  }
  c->calls++;
  return true;
}

static bool force(float* logits, size_t vocab, const runnel_token* tokens, size_t count,
                  void* user) {
  const collected* c = (const collected*)user;
  size_t i;
  (void)tokens;
  for (i = 0; i < vocab; ++i) {
    if ((runnel_token)i != c->forced) logits[i] = -INFINITY;
  }
  return count < 3;
}

static void collect_event(const runnel_tool_event* event, void* user) {
  static const char* const kinds[] = {"text", "begin", "arguments", "end", "broken"};
  collect(kinds[event->kind], strlen(kinds[event->kind]), user);
  collect(" ", 1, user);
  collect(event->text, event->bytes, user);
  collect(";", 1, user);
}

static bool refuse_load(float fraction, void* user) {
  ++*(int*)user;
  return fraction < 0.0f;
}

static void test_loading(const char* file) {
  runnel_model* model = NULL;
  runnel_model_options options;
  int calls = 0;
  CHECK(runnel_model_load("/does/not/exist.gguf", NULL, &model, &error) == RUNNEL_NOT_FOUND);
  CHECK(error.status == RUNNEL_NOT_FOUND && strstr(error.message, "/does/not/exist.gguf") != NULL);
  CHECK(runnel_model_load(NULL, NULL, &model, &error) == RUNNEL_INVALID_ARGUMENT);

  RUNNEL_INIT(runnel_model_options, options);
  options.device = "no such device";
  CHECK(runnel_model_load(file, &options, &model, &error) != RUNNEL_OK);
  RUNNEL_INIT(runnel_model_options, options);
  options.on_progress = refuse_load;
  options.user = &calls;
  CHECK(runnel_model_load(file, &options, &model, &error) == RUNNEL_CANCELLED);
  CHECK(calls == 1 && model == NULL);
  memset(&options, 0, sizeof(options));
  CHECK(runnel_model_load(file, &options, &model, &error) == RUNNEL_INVALID_ARGUMENT);
}

static void test_newer_struct(const char* file) {
  struct newer {
    runnel_model_options known;
    uint64_t unknown;
  } options;
  runnel_model* model = NULL;
  runnel_model_options_init(&options.known, sizeof(options));
  CHECK(options.known.size == sizeof(options) && options.unknown == 0);
  options.unknown = 1;
  CHECK(runnel_model_load(file, &options.known, &model, &error) == RUNNEL_UNSUPPORTED);
  CHECK(model == NULL);
}

static void test_model(runnel_model* model) {
  runnel_model_info info;
  runnel_token tokens[16];
  runnel_chat_message message = {"user", "Hello", RUNNEL_NUL};
  char text[64];
  size_t count = 0, bytes = 0;
  RUNNEL_INIT(runnel_model_info, info);
  OK(runnel_model_get_info(model, &info, &error));
  CHECK(info.vocab_size == 49152 && info.has_tokenizer && info.state_bytes > 0);

  OK(runnel_model_encode(model, "The capital", RUNNEL_NUL, false, tokens, 16, &count, &error));
  CHECK(count == 2);
  CHECK(runnel_model_encode(model, "The capital", RUNNEL_NUL, false, NULL, 0, &count, &error) ==
        RUNNEL_TOO_SMALL);
  CHECK(count == 2);
  OK(runnel_model_decode(model, tokens, 2, false, text, sizeof(text), &bytes, &error));
  CHECK(bytes == 11 && memcmp(text, "The capital", 11) == 0);
  CHECK(runnel_model_encode(model, "\xff", 1, false, tokens, 16, &count, &error) ==
        RUNNEL_MALFORMED);
  CHECK(runnel_model_encode_chat(model, &message, 1, true, RUNNEL_CHAT_START, NULL, 0, &count,
                                 &error) == RUNNEL_TOO_SMALL);
  CHECK(count > 5);
  CHECK(runnel_model_encode_chat(model, &message, 1, true, 7, NULL, 0, &count, &error) ==
        RUNNEL_INVALID_ARGUMENT);
}

static void test_generating(runnel_model* model, const char* scratch) {
  runnel_session *session = NULL, *fork = NULL;
  runnel_snapshot *snapshot = NULL, *loaded = NULL, *copied = NULL;
  runnel_generation_options options;
  runnel_generation_result result;
  runnel_token first[8], second[8], forced[4];
  collected out = {{0}, 0, 0, 0};
  runnel_stop* stop = NULL;
  size_t count = 0;
  void* bytes = NULL;
  bool known = false;

  OK(runnel_session_create(model, &session, &error));
  CHECK(runnel_generate(session, NULL, NULL, &error) == RUNNEL_INVALID_ARGUMENT);
  OK(runnel_session_prefill_text(session, "The capital of France is", RUNNEL_NUL, false, &error));
  CHECK(runnel_session_position(session) == 5);
  CHECK(runnel_session_logits(session, &count) != NULL && count == 49152);
  CHECK(runnel_session_recent(session, &count) != NULL && count == 5);
  OK(runnel_session_snapshot(session, &snapshot, &error));
  CHECK(runnel_snapshot_position(snapshot) == 5 && runnel_snapshot_bytes(snapshot) > 1000000);

  RUNNEL_INIT(runnel_generation_options, options);
  RUNNEL_INIT(runnel_generation_result, result);
  options.max_tokens = 8;
  options.on_text = collect;
  options.user = &out;
  result.tokens = first;
  result.token_capacity = 8;
  OK(runnel_generate(session, &options, &result, &error));
  CHECK(result.token_count > 0 && result.token_count <= 8 && result.text_bytes == out.bytes);
  CHECK(strstr(out.text, "Paris") != NULL);
  count = result.token_count;

  /* Back, again, and on a fork, from a file and from bytes: the same tokens. */
  OK(runnel_snapshot_save(snapshot, scratch, RUNNEL_STATE_F32, true, &error));
  OK(runnel_snapshot_load(scratch, &loaded, &error));
  OK(runnel_session_restore(session, loaded, &error));
  OK(runnel_session_fork(session, &fork, &error));
  result.tokens = second;
  OK(runnel_generate(fork, &options, &result, &error));
  CHECK(result.token_count == count && memcmp(first, second, count * sizeof(first[0])) == 0);
  OK(runnel_session_last_sampling(fork, &options, &known, &error));
  CHECK(known && options.temperature == 0.0f);
  CHECK(runnel_snapshot_to_bytes(snapshot, RUNNEL_STATE_F32, false, NULL, 0, &count, &error) ==
        RUNNEL_TOO_SMALL);
  bytes = malloc(count);
  OK(runnel_snapshot_to_bytes(snapshot, RUNNEL_STATE_F32, false, bytes, count, &count, &error));
  OK(runnel_snapshot_from_bytes(bytes, count, &copied, &error));
  CHECK(runnel_snapshot_fingerprint(copied) == runnel_snapshot_fingerprint(snapshot));
  CHECK(runnel_snapshot_from_bytes(bytes, count / 2, &copied, &error) == RUNNEL_MALFORMED);
  free(bytes);
  remove(scratch);

  /* The caller's own constraint: only one token may come, and only three of it. */
  RUNNEL_INIT(runnel_generation_options, options);
  options.on_logits = force;
  options.user = &out;
  out.forced = 1000;
  result.tokens = forced;
  result.token_capacity = 4;
  OK(runnel_generate(session, &options, &result, &error));
  CHECK(result.finish == RUNNEL_FINISH_CALLBACK && result.token_count == 3);
  CHECK(forced[0] == 1000 && forced[1] == 1000 && forced[2] == 1000);

  OK(runnel_stop_create(&stop, &error));
  runnel_stop_request(stop);
  RUNNEL_INIT(runnel_generation_options, options);
  options.stop = stop;
  OK(runnel_generate(session, &options, &result, &error));
  CHECK(result.finish == RUNNEL_FINISH_CANCELLED && result.token_count == 0);
  CHECK(runnel_session_prefill(session, first, 2, stop, NULL, &error) == RUNNEL_CANCELLED);

  OK(runnel_session_reset(session, &error));
  CHECK(runnel_session_position(session) == 0);
  runnel_stop_free(stop);
  runnel_snapshot_free(copied);
  runnel_snapshot_free(loaded);
  runnel_snapshot_free(snapshot);
  runnel_session_free(fork);
  runnel_session_free(session);
}

static void test_tools(const runnel_model* model) {
  const char* json =
      "[{\"name\": \"now\", \"description\": \"The time of day\"}, {\"type\": \"function\", "
      "\"function\": {\"name\": \"roll\"}}]";
  const runnel_tool_call call = {"call_1", "now", "{}"};
  runnel_tool_message talk[3] = {{"user", "When?", RUNNEL_NUL, NULL, 0, NULL},
                                 {"assistant", "", 0, NULL, 1, NULL},
                                 {"tool", "noon", RUNNEL_NUL, NULL, 0, "call_1"}};
  const char* text = "So: <tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";
  runnel_tools* tools = NULL;
  runnel_tool_reader* reader = NULL;
  char laid_out[4096];
  runnel_token tokens[1024];
  runnel_token again[1024];
  size_t count = 0, count_again = 0, kept = 9;
  collected out = {{0}, 0, 0, 0};

  CHECK(runnel_tools_read("[{\"name\": \"a b\"}]", RUNNEL_NUL, &tools, &error) ==
        RUNNEL_INVALID_ARGUMENT);
  OK(runnel_tools_read(json, RUNNEL_NUL, &tools, &error));
  talk[1].calls = &call;
  OK(runnel_model_tool_chat_text(model, talk, 3, tools, true, laid_out, sizeof(laid_out) - 1,
                                 &count, &error));
  laid_out[count] = 0;
  CHECK(strstr(laid_out, "The time of day") != NULL && strstr(laid_out, "noon") != NULL);
  OK(runnel_model_encode_tool_chat(model, talk, 3, tools, true, RUNNEL_CHAT_START, tokens, 1024,
                                   &count, &error));
  OK(runnel_model_read_tool_chat(model, talk, 3, tools, 0, false, &kept, again, 1024, &count_again,
                                 &error));
  CHECK(kept == 0 && count == count_again && memcmp(tokens, again, count * sizeof(tokens[0])) == 0);
  talk[1].calls = NULL;
  CHECK(runnel_model_encode_tool_chat(model, talk, 3, tools, true, RUNNEL_CHAT_START, tokens, 1024,
                                      &count, &error) == RUNNEL_INVALID_ARGUMENT);

  OK(runnel_tool_reader_create(model, &reader, &error));
  OK(runnel_tool_reader_push(reader, text, 30, collect_event, &out, &error));
  OK(runnel_tool_reader_push(reader, text + 30, RUNNEL_NUL, collect_event, &out, &error));
  OK(runnel_tool_reader_finish(reader, false, collect_event, &out, &error));
  CHECK(strstr(out.text, "text So:") != NULL && strstr(out.text, "begin now;") != NULL &&
        strstr(out.text, "end ;") != NULL);
  CHECK(runnel_tool_reader_push(reader, text, 1, NULL, NULL, &error) == RUNNEL_INVALID_ARGUMENT);
  runnel_tool_reader_free(reader);
  runnel_tools_free(tools);
  runnel_tools_free(NULL);
}

int main(int argc, char** argv) {
  runnel_model* model = NULL;
  runnel_device_info devices[16];
  size_t count = 0;
  if (argc != 3) return 2;
  CHECK(strcmp(runnel_status_name(RUNNEL_IO), "io") == 0 && strlen(runnel_version()) >= 5);
  OK(runnel_devices(devices, 16, &count, &error));
  CHECK(count >= 1);
  test_loading(argv[1]);
  test_newer_struct(argv[1]);
  OK(runnel_model_load(argv[1], NULL, &model, &error));
  test_model(model);
  test_generating(model, argv[2]);
  test_tools(model);
  runnel_model_free(model);
  runnel_model_free(NULL);
  runnel_session_free(NULL);
  if (failures == 0) printf("all checks hold\n");
  return failures == 0 ? 0 : 1;
}
