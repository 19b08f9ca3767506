/* SPDX-License-Identifier: Apache-2.0 */
/* The C API: everything that sessions do in C++, for C99 and for whatever can call C. Conversations on disk are in
 * runnel_store.h.
 *
 * Example:
 *   runnel_model* model = NULL;
 *   runnel_error error;
 *   if (runnel_model_load("model.gguf", NULL, &model, &error) != RUNNEL_OK) puts(error.message);
 *   runnel_model_free(model);
 *
 * HANDLES are opaque. What a function creates, its _free takes back; _free(NULL) does nothing. A
 * session keeps its model alive, so the order of freeing does not matter.
 *
 * ERRORS. What can fail returns a status. With a non-null `error` (always the last parameter) the
 * caller also gets one sentence that names the thing, its value and what was expected. On failure
 * outputs are untouched and the handles are as before. Nothing is printed, nothing aborts, no C++
 * exception comes out.
 *
 * STRUCTS that callers fill have their size as first member: initialise them with RUNNEL_INIT(name,
 * variable), or call name_init(&variable, sizeof variable), and set what should differ. A program
 * built against an older header works with a newer library. A newer program whose new members are
 * not zero is refused by an older library (RUNNEL_UNSUPPORTED).
 *
 * TEXT is UTF-8 with a length in bytes; RUNNEL_NUL says that it ends at its first zero byte. Arrays
 * are copied out: pass room for `capacity` elements, *count says how many there are. If they do not
 * fit, nothing is written, *count is set and RUNNEL_TOO_SMALL is returned; capacity 0 asks for the
 * count.
 *
 * THREADS. Models and snapshots may be used by any number of threads at once. A session is used by
 * one thread at a time; different sessions of one model may run at the same time.
 * runnel_stop_request() may be called from any thread and from signal handlers' threads (not from a
 * handler itself). Callbacks are called on the thread that called the library and may not use the
 * session they are called for. The library starts only the threads that
 * runnel_model_options.threads allows, and keeps no state outside of its handles.
 */
#ifndef RUNNEL_RUNNEL_H
#define RUNNEL_RUNNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runnel/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* NOLINTBEGIN(modernize-use-using): this is C. */

/* ---- status ---- */

/* Why a call failed. Values never change; new ones may come. */
typedef int32_t runnel_status;
enum {
  RUNNEL_OK = 0,
  RUNNEL_INVALID_ARGUMENT = 1, /* a value outside its documented range, or a null pointer */
  RUNNEL_NOT_FOUND = 2,        /* a file, tensor, key or device does not exist */
  RUNNEL_IO = 3,               /* the operating system refused a read or a write */
  RUNNEL_MALFORMED = 4,        /* a file or a text is not what its format says */
  RUNNEL_UNSUPPORTED = 5,      /* well-formed, but this build does not run it */
  RUNNEL_MISMATCH = 6,         /* belongs to another model or version */
  RUNNEL_OUT_OF_MEMORY = 7,
  RUNNEL_DEVICE = 8,    /* a driver or device failed or was lost */
  RUNNEL_CANCELLED = 9, /* stopped on request, and nothing of the call stays */
  RUNNEL_INTERNAL = 10, /* a defect of the library; please report the message */
  RUNNEL_TOO_SMALL = 11 /* *count elements do not fit into `capacity` */
};

/* Filled by the library on failure; the message is cut if it is longer. On success it is left
 * alone. */
typedef struct runnel_error {
  runnel_status status;
  char message[508];
} runnel_error;

/* "invalid_argument" and so on; "unknown" for a value that this library does not know. */
RUNNEL_API const char* runnel_status_name(runnel_status status);

/* "0.1.0" */
RUNNEL_API const char* runnel_version(void);

#define RUNNEL_NUL ((size_t)-1)
#define RUNNEL_INIT(name, variable) name##_init(&(variable), sizeof(variable))

typedef int32_t runnel_token;

/* ---- cancelling ---- */

/* A request to stop what runs with it. Once requested it stays so. Where part of the work stays (feeding, generating, a
 * batch, the turns of a conversation), a stop is no error: the result says that it came and how far the work is. Where
 * nothing stays, the status is RUNNEL_CANCELLED. runnel_session_prefill() is older than this rule. */
typedef struct runnel_stop runnel_stop;
RUNNEL_API runnel_status runnel_stop_create(runnel_stop** stop, runnel_error* error);
RUNNEL_API void runnel_stop_request(runnel_stop* stop);
RUNNEL_API void runnel_stop_free(runnel_stop* stop);

/* ---- devices ---- */

typedef struct runnel_device_info {
  char id[32]; /* what runnel_model_options.device takes: "cpu", "cuda:0" */
  char backend[32];
  char name[128];
  char detail[128];
  uint64_t memory_bytes; /* 0: unknown */
} runnel_device_info;

/* Every device that a model can be loaded on now, best first. */
RUNNEL_API runnel_status runnel_devices(runnel_device_info* devices, size_t capacity, size_t* count,
                                        runnel_error* error);

/* ---- model ---- */

typedef struct runnel_model runnel_model;

typedef struct runnel_model_options {
  size_t size;
  const char* device;    /* a device id, a backend name or "auto" (also NULL) */
  int32_t threads;       /* on the CPU, the caller's included; 0: one per core; at most 1024 */
  uint64_t memory_limit; /* bytes that weights, scratch and one session may take; 0: no limit */
  bool (*on_progress)(float fraction, void* user); /* false stops the load */
  void* user;
  /* Window slots of every layer, 0 to runnel_model_info.file_window_slots: fewer make the state smaller. Outside of
   * that RUNNEL_INVALID_ARGUMENT, RUNNEL_UNSUPPORTED for a model without them; RUNNEL_FILE_WINDOW: all of the
   * file's. */
  int64_t window_slots;
  uint64_t flags; /* none is known yet: RUNNEL_UNSUPPORTED unless 0 */
  /* Zero-terminated. */
  const char*
      cache_directory; /* keeps compiled device code, made if missing; NULL: nothing is kept */
  const char*
      step_program; /* the program for one token, as runnel_model_info names it; NULL: the best that fits */
  const char*
      chat_template; /* "chatml", "plain", "rwkv" or a file with a Jinja template; NULL: as the model's file says */
} runnel_model_options;
#define RUNNEL_FILE_WINDOW INT64_MIN
RUNNEL_API void runnel_model_options_init(runnel_model_options* options, size_t size);

/* options may be NULL. */
RUNNEL_API runnel_status runnel_model_load(const char* file, const runnel_model_options* options,
                                           runnel_model** model, runnel_error* error);
/* The same of a model file in memory: the bytes are needed only until this returns. RUNNEL_UNSUPPORTED for a part of a
 * split model. */
RUNNEL_API runnel_status runnel_model_load_bytes(const void* bytes, size_t count,
                                                 const runnel_model_options* options,
                                                 runnel_model** model, runnel_error* error);
/* The same of a file that is open for reading, or of `length` bytes of it from `offset` on (0: to its end). Its position
 * is neither used nor changed, and it may be closed when this returns. RUNNEL_IO for what is no regular file. */
RUNNEL_API runnel_status runnel_model_load_descriptor(int descriptor, uint64_t offset,
                                                      uint64_t length,
                                                      const runnel_model_options* options,
                                                      runnel_model** model, runnel_error* error);
RUNNEL_API void runnel_model_free(runnel_model* model);

/* How chats are laid out. */
enum {
  RUNNEL_CHAT_STYLE_PLAIN = 0,  /* "User: ", "Assistant: ": the file names no template */
  RUNNEL_CHAT_STYLE_CHATML = 1, /* <|im_start|>role ... <|im_end|> */
  RUNNEL_CHAT_STYLE_RWKV = 2,   /* turns apart by a blank line */
  RUNNEL_CHAT_STYLE_NONE =
      3, /* the file's template is one that this library does not run: no chat */
  RUNNEL_CHAT_STYLE_JINJA = 4 /* a Jinja template */
};

typedef struct runnel_model_info {
  size_t size;
  char name[128];
  char device[32];
  int32_t vocab_size;
  int64_t parameters;
  uint64_t weight_bytes; /* memory of the weights on the device */
  uint64_t state_bytes;  /* memory of one session, whatever its length */
  uint64_t fingerprint;
  bool has_tokenizer;
  runnel_token begin_token;  /* begins a document, -1 if there is none */
  int32_t window_slots;      /* of the layer that has most, as loaded */
  int32_t file_window_slots; /* the same in the file; 0: the model has none */
  int32_t hidden_size;       /* numbers of an embedding */
  /* Zero-terminated, never NULL, valid as long as the model. */
  const char*
      chat_reason; /* with RUNNEL_CHAT_STYLE_NONE: what in the template is not run; else empty */
  const char* default_system; /* the system prompt of chats that bring none; may be empty */
  const char* step_program;   /* how one token is computed, and why not by a better program */
  const char* memory_note;    /* where the weights take much more than in the file; mostly empty */
  char architecture[32];      /* "gsa" */
  int32_t chat_style;
} runnel_model_info;
RUNNEL_API void runnel_model_info_init(runnel_model_info* info, size_t size);
RUNNEL_API runnel_status runnel_model_get_info(const runnel_model* model, runnel_model_info* info,
                                               runnel_error* error);

/* Text to tokens. With `parse_special` the texts of special tokens become those tokens: never do
 * that with what users typed. */
RUNNEL_API runnel_status runnel_model_encode(const runnel_model* model, const char* text,
                                             size_t bytes, bool parse_special, runnel_token* tokens,
                                             size_t capacity, size_t* count, runnel_error* error);

/* Tokens to bytes, which may end inside a character; no zero byte is added. */
RUNNEL_API runnel_status runnel_model_decode(const runnel_model* model, const runnel_token* tokens,
                                             size_t token_count, bool show_special, char* text,
                                             size_t capacity, size_t* count, runnel_error* error);

/* Whether generation ends at this token. */
RUNNEL_API bool runnel_model_is_end(const runnel_model* model, runnel_token token);

/* The tokens at which it ends, ascending. */
RUNNEL_API runnel_status runnel_model_end_tokens(const runnel_model* model, runnel_token* tokens,
                                                 size_t capacity, size_t* count,
                                                 runnel_error* error);

/* What an entry of the vocabulary is. */
enum {
  RUNNEL_TOKEN_NORMAL = 1,
  RUNNEL_TOKEN_UNKNOWN = 2,
  RUNNEL_TOKEN_CONTROL = 3,      /* no text: begins or ends a document, a message */
  RUNNEL_TOKEN_USER_DEFINED = 4, /* ordinary text that is never split */
  RUNNEL_TOKEN_UNUSED = 5,       /* nothing makes it */
  RUNNEL_TOKEN_BYTE = 6
};

typedef struct runnel_token_info {
  size_t size;
  int32_t kind;
  bool is_end; /* generation ends at it */
  const char*
      bytes; /* not zero-terminated, may end inside a character; valid as long as the model */
  size_t byte_count;
} runnel_token_info;
RUNNEL_API void runnel_token_info_init(runnel_token_info* info, size_t size);
/* RUNNEL_UNSUPPORTED without a tokenizer, RUNNEL_INVALID_ARGUMENT outside of [0, vocab_size). */
RUNNEL_API runnel_status runnel_model_get_token(const runnel_model* model, runnel_token token,
                                                runnel_token_info* info, runnel_error* error);

typedef struct runnel_chat_message {
  const char* role; /* "system", "user" or "assistant" */
  const char* content;
  size_t bytes; /* of content, or RUNNEL_NUL */
} runnel_chat_message;

/* Where the messages stand in the conversation. */
enum {
  RUNNEL_CHAT_START = 0,
  RUNNEL_CHAT_AFTER_CLOSED_ANSWER = 1, /* the session's last token ended the answer */
  RUNNEL_CHAT_AFTER_CUT_ANSWER = 2     /* the answer was stopped before; it is closed first */
};

/* Messages in the model's chat format. `add_prompt`: and then what makes the model answer. */
RUNNEL_API runnel_status runnel_model_encode_chat(const runnel_model* model,
                                                  const runnel_chat_message* messages,
                                                  size_t message_count, bool add_prompt,
                                                  int32_t continuation, runnel_token* tokens,
                                                  size_t capacity, size_t* count,
                                                  runnel_error* error);

/* What a session that has read (or said) the first `read` messages must read to answer all of them. *kept (may be NULL)
 * says how many of those stay as they were read; if they are fewer than `read`, the model's chat template lays out the
 * others anew, and the session must first be brought back to where it stood after *kept messages (0: reset).
 * `closed`: the session's last token ended its answer. */
RUNNEL_API runnel_status runnel_model_read_chat(const runnel_model* model,
                                                const runnel_chat_message* messages,
                                                size_t message_count, size_t read, bool closed,
                                                size_t* kept, runnel_token* tokens, size_t capacity,
                                                size_t* count, runnel_error* error);

/* The text of `messages` in the model's chat format, markers and all: for people to look at. */
RUNNEL_API runnel_status runnel_model_chat_text(const runnel_model* model,
                                                const runnel_chat_message* messages,
                                                size_t message_count, bool add_prompt, char* text,
                                                size_t capacity, size_t* count,
                                                runnel_error* error);

/* ---- session ---- */

/* One conversation; its memory has a constant size. */
typedef struct runnel_session runnel_session;
/* An immutable copy of all that a session remembers. */
typedef struct runnel_snapshot runnel_snapshot;

RUNNEL_API runnel_status runnel_session_create(const runnel_model* model, runnel_session** session,
                                               runnel_error* error);
RUNNEL_API void runnel_session_free(runnel_session* session);

typedef struct runnel_feed_options {
  size_t size;
  void (*on_progress)(uint64_t done, uint64_t total, void* user); /* tokens, between passes */
  void* user;
  const runnel_stop* stop; /* may be NULL */
} runnel_feed_options;
RUNNEL_API void runnel_feed_options_init(runnel_feed_options* options, size_t size);

/* Feeds tokens, in passes. options may be NULL. A stop is no error: *consumed (may be NULL) says how many tokens the
 * session has taken, and *stopped (may be NULL) that it was requested before the last one. */
RUNNEL_API runnel_status runnel_session_feed(runnel_session* session, const runnel_token* tokens,
                                             size_t token_count, const runnel_feed_options* options,
                                             uint64_t* consumed, bool* stopped,
                                             runnel_error* error);

/* The same as old programs know it: RUNNEL_CANCELLED if `stop` (may be NULL) was requested, although *consumed (may be
 * NULL) tokens stay. */
RUNNEL_API runnel_status runnel_session_prefill(runnel_session* session, const runnel_token* tokens,
                                                size_t token_count, const runnel_stop* stop,
                                                uint64_t* consumed, runnel_error* error);

/* runnel_model_encode() and runnel_session_prefill(). */
RUNNEL_API runnel_status runnel_session_prefill_text(runnel_session* session, const char* text,
                                                     size_t bytes, bool parse_special,
                                                     runnel_error* error);

/* Feeds tokens; logits [token_count, vocab] are those after each. *count is token_count * vocab;
 * asked with capacity 0 nothing is fed. */
RUNNEL_API runnel_status runnel_session_score(runnel_session* session, const runnel_token* tokens,
                                              size_t token_count, float* logits, size_t capacity,
                                              size_t* count, runnel_error* error);

/* How an embedding is made of the hidden states of a text's tokens, as bits: 0 is their mean, of length 1. */
enum {
  RUNNEL_EMBEDDING_LAST = 1, /* that of the last token, which alone has read all of the text */
  RUNNEL_EMBEDDING_RAW = 2   /* of the length it has */
};

/* What the model makes of tokens (at least one), read after what the session has read: their hidden states behind the
 * final norm, pooled into runnel_model_info.hidden_size numbers. The session stays where it is. RUNNEL_TOO_SMALL if
 * `capacity` is less, before anything is read. */
RUNNEL_API runnel_status runnel_session_embedding(const runnel_session* session,
                                                  const runnel_token* tokens, size_t token_count,
                                                  uint32_t form, float* embedding, size_t capacity,
                                                  runnel_error* error);

typedef struct runnel_choice {
  const runnel_token* tokens;
  size_t token_count;
} runnel_choice;

/* log_likelihoods[i], in nats: how likely choices[i] is after what the session has read (at least one token), the sum
 * over its tokens, 0 of none. The session stays where it is; choices are read together, some in each pass. */
RUNNEL_API runnel_status runnel_session_score_choices(const runnel_session* session,
                                                      const runnel_choice* choices,
                                                      size_t choice_count, double* log_likelihoods,
                                                      runnel_error* error);

/* Logits after the last token: *count of them (0 before the first), valid until the session is next
 * changed. */
RUNNEL_API const float* runnel_session_logits(const runnel_session* session, size_t* count);

/* The same; RUNNEL_DEVICE where runnel_session_logits() gives none, because a generation under way draws on a device that
 * failed. */
RUNNEL_API runnel_status runnel_session_get_logits(const runnel_session* session,
                                                   const float** logits, size_t* count,
                                                   runnel_error* error);

/* Tokens consumed since it was empty. */
RUNNEL_API uint64_t runnel_session_position(const runnel_session* session);

/* The last tokens consumed, oldest first (at most 1,024): *count of them, valid until the session
 * is next changed. */
RUNNEL_API const runnel_token* runnel_session_recent(const runnel_session* session, size_t* count);

/* Text of the last answer of a conversation that was shown but not consumed, not zero-terminated: *bytes of it, mostly
 * none; valid until the session is next changed. */
RUNNEL_API const char* runnel_session_unread_text(const runnel_session* session, size_t* bytes);

RUNNEL_API runnel_status runnel_session_reset(runnel_session* session, runnel_error* error);
RUNNEL_API runnel_status runnel_session_fork(const runnel_session* session, runnel_session** fork,
                                             runnel_error* error);
RUNNEL_API runnel_status runnel_session_snapshot(const runnel_session* session,
                                                 runnel_snapshot** snapshot, runnel_error* error);
/* RUNNEL_MISMATCH if the snapshot belongs to another model or window. */
RUNNEL_API runnel_status runnel_session_restore(runnel_session* session,
                                                const runnel_snapshot* snapshot,
                                                runnel_error* error);

/* ---- generating ---- */

typedef struct runnel_logit_bias {
  runnel_token token;
  float bias; /* -INFINITY forbids it */
} runnel_logit_bias;

/* A token and the natural logarithm of its probability, -INFINITY if it could not come. */
typedef struct runnel_token_logprob {
  runnel_token token;
  float logprob;
} runnel_token_logprob;

typedef struct runnel_text_bias {
  const char*
      text; /* zero-terminated; of each of its tokens, as it is split when it stands alone */
  float bias;
} runnel_text_bias;

/* What an answer must be, compiled for a model: runnel/constraint.h says more. Any number of threads and generations use
 * one at once. */
typedef struct runnel_constraint runnel_constraint;
enum {
  RUNNEL_CONSTRAINT_JSON_SCHEMA = 0,
  RUNNEL_CONSTRAINT_JSON_OBJECT = 1, /* without a text */
  RUNNEL_CONSTRAINT_REGEX = 2,
  RUNNEL_CONSTRAINT_CHOICE = 3, /* a JSON list of texts */
  RUNNEL_CONSTRAINT_GBNF = 4
};

/* For a JSON schema, `strict`: nothing that it does not name, and white space of one form. RUNNEL_INVALID_ARGUMENT for
 * a text that is none of its kind or asks for what is not supported, RUNNEL_OUT_OF_MEMORY if it takes more than four
 * seconds or 256 MiB, RUNNEL_UNSUPPORTED in a build without constraints. */
RUNNEL_API runnel_status runnel_constraint_create(const runnel_model* model, int32_t kind,
                                                  const char* text, size_t bytes, bool strict,
                                                  runnel_constraint** constraint,
                                                  runnel_error* error);
RUNNEL_API void runnel_constraint_free(runnel_constraint* constraint);

/* The tokens that must follow `taken` (those since the constraint began), because each is the only one that may come; at
 * most `capacity`, *count of them. */
RUNNEL_API runnel_status runnel_constraint_forced(const runnel_constraint* constraint,
                                                  const runnel_token* taken, size_t taken_count,
                                                  runnel_token* tokens, size_t capacity,
                                                  size_t* count, runnel_error* error);

/* Defaults are greedy: see runnel/sampling.h for ranges. */
typedef struct runnel_generation_options {
  size_t size;
  uint64_t max_tokens;      /* 256 */
  float temperature;        /* 0: the likeliest token */
  int32_t top_k;            /* 0: all */
  float top_p;              /* 1 */
  float min_p;              /* 0 */
  float repetition_penalty; /* 1 */
  float presence_penalty;
  float frequency_penalty;
  int32_t penalty_window; /* 256 */
  uint64_t seed;
  const runnel_logit_bias* logit_bias;
  size_t logit_bias_count;
  const char* const* stop_texts; /* zero-terminated */
  size_t stop_text_count;
  bool ignore_end; /* go on after an end-of-text token */

  /* Whole characters as they come, without zero byte, never a part of a stop text; false ends the
   * generation. */
  bool (*on_text)(const char* text, size_t bytes, void* user);
  /* May change the logits from which the next token is chosen; false ends the generation. `tokens`
   * are this generation's so far. */
  bool (*on_logits)(float* logits, size_t vocab, const runnel_token* tokens, size_t token_count,
                    void* user);
  void* user;              /* for both */
  const runnel_stop* stop; /* may be NULL */

  /* DRY, "do not repeat yourself": what would go on with a repetition of n generated tokens, n at
   * least dry_allowed_length, loses dry_multiplier * dry_base^(n - dry_allowed_length). */
  float dry_multiplier;       /* 0: off */
  float dry_base;             /* 1.75 */
  int32_t dry_allowed_length; /* 2 */
  int32_t dry_range; /* how many generated tokens it sees, at most 1,024, which is the default */
  /* Texts that a repetition does not reach over, zero-terminated: line ends, colons, quotes and
   * asterisks. NULL with a count of 0: none. */
  const char* const* dry_breakers;
  size_t dry_breaker_count;

  /* With an on_logprobs: it gets each token with its log-probability, before its text, and the `logprobs` likeliest at
   * its place (0 to 20), falling. `logprobs_of_draw`: of what was drawn from, after bias, penalties, temperature and
   * what is cut off; else the model's own. */
  void (*on_logprobs)(const runnel_token_logprob* chosen, const runnel_token_logprob* top,
                      size_t top_count, void* user);
  int32_t logprobs;
  bool logprobs_of_draw;

  /* runnel/sampling.h has the equations. */
  float top_n_sigma;               /* 0 or -1: off */
  float typical_p;                 /* 1: off */
  float xtc_probability;           /* 0: off */
  float xtc_threshold;             /* 0.1 */
  float dynatemp_range;            /* 0: off */
  float dynatemp_exponent;         /* 1 */
  int32_t mirostat;                /* 0: off, or 2 */
  float mirostat_tau;              /* 5 */
  float mirostat_eta;              /* 0.1 */
  int32_t no_repeat_ngram;         /* 0: off */
  const char* const* banned_texts; /* zero-terminated; never generated */
  size_t banned_text_count;
  const char* samplers;              /* their order, "top_k;temperature"; NULL: the usual one */
  const runnel_text_bias* text_bias; /* added to logit_bias */
  size_t text_bias_count;

  const runnel_constraint* constraint; /* what the answer must be; NULL: anything */
} runnel_generation_options;
RUNNEL_API void runnel_generation_options_init(runnel_generation_options* options, size_t size);

/* Why a generation ended. */
enum {
  RUNNEL_FINISH_END = 0, /* the model ended its text */
  RUNNEL_FINISH_STOP_TEXT = 1,
  RUNNEL_FINISH_LENGTH = 2,    /* max_tokens */
  RUNNEL_FINISH_CANCELLED = 3, /* stop was requested */
  RUNNEL_FINISH_CALLBACK = 4   /* a callback returned false */
};

typedef struct runnel_generation_result {
  size_t size;
  runnel_token* tokens;  /* in: room for the tokens, or NULL */
  size_t token_capacity; /* in */
  char* held_back; /* in: room for text not shown because a stop text may have begun, or NULL */
  size_t held_back_capacity; /* in */
  int32_t finish;
  size_t token_count;     /* generated; as many as fit are in `tokens` */
  size_t text_bytes;      /* given to on_text */
  size_t held_back_bytes; /* as many as fit are in `held_back` */
} runnel_generation_result;
RUNNEL_API void runnel_generation_result_init(runnel_generation_result* result, size_t size);

/* Continues the session, which must have consumed at least one token, and leaves it after the last
 * generated one. options and result may be NULL. A stop is no error: see result->finish. */
RUNNEL_API runnel_status runnel_generate(runnel_session* session,
                                         const runnel_generation_options* options,
                                         runnel_generation_result* result, runnel_error* error);

/* `n` continuations (1 to 16) of a session, which stays where it is: each pass computes a token of all. Answer i is what
 * runnel_generate() gives on a fork with options->seed + i. on_text gets the texts with the answer's number and
 * options->user, in place of options->on_text; false ends that answer. `results` are n pointers, each of which may be
 * NULL, or NULL. */
RUNNEL_API runnel_status runnel_generate_several(
    const runnel_session* session, size_t n, const runnel_generation_options* options,
    bool (*on_text)(size_t answer, const char* text, size_t bytes, void* user),
    runnel_generation_result* const* results, runnel_error* error);

/* ---- generating in steps, and many sessions at once ---- */

/* runnel_generate() one token at a time. The session must outlive it, and is used by nothing else between the steps. */
typedef struct runnel_generation runnel_generation;

/* options may be NULL; what they point to is copied, but for callbacks and their user, and options->stop. */
RUNNEL_API runnel_status runnel_generation_create(runnel_session* session,
                                                  const runnel_generation_options* options,
                                                  runnel_generation** generation,
                                                  runnel_error* error);
RUNNEL_API void runnel_generation_free(runnel_generation* generation);

/* The next token, or *over true. The session does not consume it: runnel_batch_run() with `generated` does, and then
 * runnel_generation_took(). */
RUNNEL_API runnel_status runnel_generation_choose(runnel_generation* generation,
                                                  runnel_token* token, bool* over,
                                                  runnel_error* error);
/* The session has consumed the token: its text is shown. */
RUNNEL_API runnel_status runnel_generation_took(runnel_generation* generation, runnel_token token,
                                                runnel_error* error);
/* All three: chooses a token (or *over), which the session consumes, and shows its text. */
RUNNEL_API runnel_status runnel_generation_step(runnel_generation* generation, runnel_token* token,
                                                bool* over, runnel_error* error);
/* What the last _took or _step showed: *bytes of it, not zero-terminated, valid until the next call. */
RUNNEL_API const char* runnel_generation_text(const runnel_generation* generation, size_t* bytes);
/* The result (may be NULL), as runnel_generate() gives it; RUNNEL_FINISH_CALLBACK if it was not over. After it only _free
 * may be called. */
RUNNEL_API runnel_status runnel_generation_finish(runnel_generation* generation,
                                                  runnel_generation_result* result,
                                                  runnel_error* error);

/* Feeds many sessions of one model together: each pass over the weights serves all of them. */
typedef struct runnel_batch runnel_batch;

typedef struct runnel_feed {
  runnel_session* session; /* each once */
  const runnel_token* tokens;
  size_t token_count;
  bool generated; /* runnel_generation_choose() gave them */
} runnel_feed;

typedef struct runnel_feed_result {
  runnel_error error; /* of this feed alone; status RUNNEL_OK: none */
  uint64_t consumed;  /* tokens that the session has taken */
  bool stopped;       /* before the last one */
} runnel_feed_result;

RUNNEL_API runnel_status runnel_batch_create(const runnel_model* model, runnel_batch** batch,
                                             runnel_error* error);
RUNNEL_API void runnel_batch_free(runnel_batch* batch);
/* Every session stands after its tokens. `results`: [feed_count]. A feed that cannot be fed (a bad token, another model's
 * session, one that an earlier feed has) fails by itself, in its result; the others go on. On the CPU each session is bit
 * for bit what feeding it alone makes of it. `stop` may be NULL. */
RUNNEL_API runnel_status runnel_batch_run(runnel_batch* batch, const runnel_feed* feeds,
                                          size_t feed_count, const runnel_stop* stop,
                                          runnel_feed_result* results, runnel_error* error);

/* Sets the sampling members of `options`, but not the seed, as the model's file recommends, or to
 * Runnel's own defaults if it says nothing. Texts are valid until the model is freed. */
RUNNEL_API runnel_status runnel_model_sampling(const runnel_model* model,
                                               runnel_generation_options* options,
                                               runnel_error* error);

/* Sets the sampling members of `options` to those of the session's last generation, or of the one
 * its snapshot came with. *known false: there was none, and nothing is set. A logit bias is not
 * given back. Texts are valid until the next call of this for the session, or until that is
 * freed. */
RUNNEL_API runnel_status runnel_session_last_sampling(const runnel_session* session,
                                                      runnel_generation_options* options,
                                                      bool* known, runnel_error* error);

/* The constraint of the session's last generation, or of the one its snapshot came with, if that was cut before the text
 * was whole: with it runnel_generate() goes on where that stopped. NULL: there was none. */
RUNNEL_API runnel_status runnel_session_last_constraint(const runnel_session* session,
                                                        runnel_constraint** constraint,
                                                        runnel_error* error);

/* ---- tools ---- */

/* Functions of the program that a model may call: described by the program, called by the model in its answers, run by the
 * program, which gives the results back as messages of the role "tool". runnel/tools.h and docs/tools.md say more. */
typedef struct runnel_tools runnel_tools;

/* From JSON as OpenAI's interface has it: a list of {"type": "function", "function": {"name": ..., "description": ...,
 * "parameters": SCHEMA, "strict": ...}}, or of the inner objects. RUNNEL_INVALID_ARGUMENT names the tool's place and what
 * is wrong with it. Any number of threads use them at once. */
RUNNEL_API runnel_status runnel_tools_read(const char* json, size_t bytes, runnel_tools** tools,
                                           runnel_error* error);
RUNNEL_API void runnel_tools_free(runnel_tools* tools);

/* How the model writes calls, by its chat format. */
enum {
  RUNNEL_TOOL_STYLE_NONE = 0,   /* it knows no tools, or writes calls in a way that is not read */
  RUNNEL_TOOL_STYLE_TAGGED = 1, /* <tool_call>{"name": ..., "arguments": ...}</tool_call> */
  RUNNEL_TOOL_STYLE_BARE = 2,   /* the answer is {"name": ..., "parameters": ...} */
  RUNNEL_TOOL_STYLE_LIST = 3,   /* [TOOL_CALLS][{"name": ..., "arguments": ...}, ...] */
  RUNNEL_TOOL_STYLE_NAMED = 4   /* [TOOL_CALLS]NAME[ARGS]{...} */
};
RUNNEL_API int32_t runnel_model_tool_style(const runnel_model* model);

/* A call; zero-terminated. */
typedef struct runnel_tool_call {
  const char* id; /* by which its result names it; may be NULL */
  const char* name;
  const char* arguments; /* a JSON object */
} runnel_tool_call;

/* As runnel_chat_message, in a conversation with tools. */
typedef struct runnel_tool_message {
  const char* role; /* "system", "user", "assistant" or "tool": the result of a call */
  const char* content;
  size_t bytes;                  /* of content, or RUNNEL_NUL */
  const runnel_tool_call* calls; /* of the assistant, behind `content` */
  size_t call_count;
  const char* call_id; /* of a result: the call that it answers; may be NULL */
} runnel_tool_message;

/* runnel_model_encode_chat(), _read_chat() and _chat_text() with tools, the same ones in all of a conversation (NULL: none).
 * RUNNEL_UNSUPPORTED, with the reason, where the style is RUNNEL_TOOL_STYLE_NONE. */
RUNNEL_API runnel_status runnel_model_encode_tool_chat(
    const runnel_model* model, const runnel_tool_message* messages, size_t message_count,
    const runnel_tools* tools, bool add_prompt, int32_t continuation, runnel_token* tokens,
    size_t capacity, size_t* count, runnel_error* error);
RUNNEL_API runnel_status runnel_model_read_tool_chat(
    const runnel_model* model, const runnel_tool_message* messages, size_t message_count,
    const runnel_tools* tools, size_t read, bool closed, size_t* kept, runnel_token* tokens,
    size_t capacity, size_t* count, runnel_error* error);

RUNNEL_API runnel_status runnel_model_tool_chat_text(const runnel_model* model,
                                                     const runnel_tool_message* messages,
                                                     size_t message_count,
                                                     const runnel_tools* tools, bool add_prompt,
                                                     char* text, size_t capacity, size_t* count,
                                                     runnel_error* error);

/* What of its tools the model may use for an answer. */
enum {
  RUNNEL_TOOLS_AUTO = 0,     /* text, calls, or text and then calls */
  RUNNEL_TOOLS_NONE = 1,     /* text alone */
  RUNNEL_TOOLS_REQUIRED = 2, /* calls alone, at least one */
  RUNNEL_TOOLS_NAMED = 3     /* one call, of the tool `name` */
};

/* A constraint that keeps an answer to that: calls are whole, of tools that there are, their arguments as the schemas say.
 * `name` is for RUNNEL_TOOLS_NAMED alone. `parallel`: several calls in an answer, where the style has that. Errors are
 * those of runnel_constraint_create(). */
RUNNEL_API runnel_status runnel_tools_constraint(const runnel_tools* tools,
                                                 const runnel_model* model, int32_t choice,
                                                 const char* name, bool parallel,
                                                 runnel_constraint** constraint,
                                                 runnel_error* error);

/* What a text turns out to be. */
enum {
  RUNNEL_TOOL_TEXT = 0,      /* `text` is for the reader */
  RUNNEL_TOOL_BEGIN = 1,     /* a call of the tool `text` begins */
  RUNNEL_TOOL_ARGUMENTS = 2, /* `text` is the next part of its arguments */
  RUNNEL_TOOL_END = 3,       /* it is whole */
  RUNNEL_TOOL_BROKEN = 4     /* `text`, from a call's beginning on, is none */
};
typedef struct runnel_tool_event {
  size_t size;
  int32_t kind;
  const char* text; /* zero-terminated; valid until the callback returns, as `reason` is */
  size_t bytes;
  size_t call;        /* of begin, arguments and end: counted from 0 in the answer */
  const char* reason; /* of broken: "was cut", "does not parse at byte 17" */
  bool begun;         /* of broken: there was a begin of `call` */
} runnel_tool_event;
typedef void (*runnel_on_tool)(const runnel_tool_event* event, void* user);

/* Finds calls in an answer as it comes; where its text is cut makes no difference. One thread at a time. */
typedef struct runnel_tool_reader runnel_tool_reader;
RUNNEL_API runnel_status runnel_tool_reader_create(const runnel_model* model,
                                                   runnel_tool_reader** reader,
                                                   runnel_error* error);
RUNNEL_API void runnel_tool_reader_free(runnel_tool_reader* reader);
/* The answer's next bytes. `on_tool` gets what they are, before this returns. */
RUNNEL_API runnel_status runnel_tool_reader_push(runnel_tool_reader* reader, const char* text,
                                                 size_t bytes, runnel_on_tool on_tool, void* user,
                                                 runnel_error* error);
/* It ended. `cut`: by RUNNEL_FINISH_LENGTH, so that a call which is not whole was cut. */
RUNNEL_API runnel_status runnel_tool_reader_finish(runnel_tool_reader* reader, bool cut,
                                                   runnel_on_tool on_tool, void* user,
                                                   runnel_error* error);

/* ---- snapshots ---- */

/* How a saved state holds its numbers. */
enum { RUNNEL_STATE_F32 = 0, RUNNEL_STATE_F16 = 1, RUNNEL_STATE_INT8 = 2 };

RUNNEL_API void runnel_snapshot_free(runnel_snapshot* snapshot);
RUNNEL_API uint64_t runnel_snapshot_position(const runnel_snapshot* snapshot);
RUNNEL_API uint64_t runnel_snapshot_fingerprint(const runnel_snapshot* snapshot);
RUNNEL_API uint64_t runnel_snapshot_bytes(const runnel_snapshot* snapshot); /* in memory */
/* The window that it was taken with, if that was smaller than its model's file has; else RUNNEL_FILE_WINDOW. */
RUNNEL_API int64_t runnel_snapshot_window_slots(const runnel_snapshot* snapshot);

/* The file is replaced as a whole or not at all. */
RUNNEL_API runnel_status runnel_snapshot_save(const runnel_snapshot* snapshot, const char* file,
                                              int32_t encoding, bool compress, runnel_error* error);
RUNNEL_API runnel_status runnel_snapshot_load(const char* file, runnel_snapshot** snapshot,
                                              runnel_error* error);
RUNNEL_API runnel_status runnel_snapshot_to_bytes(const runnel_snapshot* snapshot, int32_t encoding,
                                                  bool compress, void* bytes, size_t capacity,
                                                  size_t* count, runnel_error* error);
RUNNEL_API runnel_status runnel_snapshot_from_bytes(const void* bytes, size_t count,
                                                    runnel_snapshot** snapshot,
                                                    runnel_error* error);

/* NOLINTEND(modernize-use-using) */

#ifdef __cplusplus
}
#endif

#endif
