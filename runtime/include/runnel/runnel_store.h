/* SPDX-License-Identifier: Apache-2.0 */
/* The C API of librunnel_store: conversations on disk. What holds for runnel.h holds here.
 *
 * Example:
 *   runnel_store_options where;
 *   runnel_turn_options how;
 *   runnel_store* store = NULL;
 *   runnel_conversation* chat = NULL;
 *   RUNNEL_INIT(runnel_store_options, where);
 *   where.file = "chats.db";
 *   RUNNEL_INIT(runnel_turn_options, how);
 *   how.generation = &options;
 *   if (runnel_store_open(&where, &store, &error) != RUNNEL_OK ||
 *       runnel_conversation_open_named(store, model, "plans", NULL, &chat, &error) != RUNNEL_OK ||
 *       runnel_conversation_send(chat, "What shall we plant?", RUNNEL_NUL, &how, NULL, &error) != RUNNEL_OK) {
 *     puts(error.message);
 *   }
 *   runnel_conversation_free(chat);
 *   runnel_store_free(store);
 *
 * LISTS come through a callback, one element a call, in the order that is stated; false ends the list without an error.
 * What an element points to is valid during the call. Its `size` says how many bytes this library filled: a program of a
 * newer header looks before it reads a member that an older library may not know. A callback may not use the store.
 *
 * THREADS. A store may be used by any number of threads at once, a conversation by one at a time. Several processes may
 * use one file.
 */
#ifndef RUNNEL_RUNNEL_STORE_H
#define RUNNEL_RUNNEL_STORE_H

#include "runnel/runnel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* NOLINTBEGIN(modernize-use-using): this is C. */

/* ---- the store ---- */

typedef struct runnel_store runnel_store;

/* Names of rows. Never used twice, 0 is none. */
typedef int64_t runnel_conversation_id;
typedef int64_t runnel_message_id;
typedef int64_t runnel_trash_id;

typedef struct runnel_store_options {
  size_t size;
  const char*
      file; /* the database; snapshots lie beside it, in the folder with its name and ".snapshots" */
  uint64_t
      budget_bytes; /* of all snapshots: when they take more, older ones go; 1 GB. 0: the pinned ones only */
  int32_t encoding;        /* RUNNEL_STATE_F32, which continues bit for bit */
  bool compress;           /* true */
  int64_t busy_timeout_ms; /* how long to wait for another process that is writing; 10,000 */
} runnel_store_options;
RUNNEL_API void runnel_store_options_init(runnel_store_options* options, size_t size);

/* "DATA/runnel/conversations.db" of XDG_DATA_HOME and HOME, each of which may be NULL; without a zero byte. */
RUNNEL_API runnel_status runnel_store_default_file(const char* xdg_data_home, const char* home,
                                                   char* file, size_t capacity, size_t* count,
                                                   runnel_error* error);

/* Opens or makes the file. RUNNEL_UNSUPPORTED if a newer version of the library made it. */
RUNNEL_API runnel_status runnel_store_open(const runnel_store_options* options,
                                           runnel_store** store, runnel_error* error);
RUNNEL_API void runnel_store_free(runnel_store* store);
/* Whether it can only be read, as on a disk that is mounted so. */
RUNNEL_API bool runnel_store_is_read_only(const runnel_store* store);

/* Times are milliseconds since 1970 (UTC). */
typedef struct runnel_conversation_info {
  size_t size;
  runnel_conversation_id id;
  const char* name; /* zero-terminated */
  int64_t created;
  int64_t updated;
  int64_t messages; /* on all branches */
  bool pinned;
  runnel_message_id head; /* the last message of the current branch, 0: none */
  runnel_trash_id trash;  /* not 0: deleted, may still be undone */
} runnel_conversation_info;
typedef bool (*runnel_on_conversation)(const runnel_conversation_info* conversation, void* user);

typedef struct runnel_message_info {
  size_t size;
  runnel_message_id id;
  runnel_message_id parent; /* 0: the first of its branch */
  runnel_conversation_id conversation;
  const char* role; /* zero-terminated: "system", "user" or "assistant" */
  const char* text; /* UTF-8, `bytes` of it and a zero byte */
  size_t bytes;
  int64_t created;
  bool complete; /* false: an answer that was cut short */
  bool pinned;
  bool has_snapshot; /* for some model */
  const char* name;  /* that the user gave it, zero-terminated, usually empty */
} runnel_message_info;
typedef bool (*runnel_on_message)(const runnel_message_info* message, void* user);

/* One path through the tree: from the first message to a leaf. */
typedef struct runnel_branch_info {
  size_t size;
  runnel_message_id leaf;
  runnel_message_id fork; /* the last message shared with another branch, 0: none */
  int64_t messages;
  int64_t updated;
  bool current;
  const char* preview; /* the beginning of the first message after the fork, zero-terminated */
} runnel_branch_info;
typedef bool (*runnel_on_branch)(const runnel_branch_info* branch, void* user);

typedef struct runnel_search_hit {
  size_t size;
  runnel_conversation_id conversation;
  runnel_message_id message;
  const char* name;    /* the conversation's; these three are zero-terminated */
  const char* role;    /* the message's */
  const char* excerpt; /* around the first match, matches between guillemets */
} runnel_search_hit;
typedef bool (*runnel_on_hit)(const runnel_search_hit* hit, void* user);

/* A deletion that can be undone. */
typedef struct runnel_trash_info {
  size_t size;
  runnel_trash_id id;
  int64_t at; /* when */
  runnel_conversation_id conversation;
  bool whole;          /* all of the conversation */
  int64_t messages;    /* what went */
  const char* name;    /* the conversation's, zero-terminated */
  const char* excerpt; /* the beginning of the first message that went, zero-terminated */
} runnel_trash_info;
typedef bool (*runnel_on_trash)(const runnel_trash_info* trash, void* user);

/* Newest first; `with_trash`: also what was deleted and can be undone. */
RUNNEL_API runnel_status runnel_store_list(const runnel_store* store, bool with_trash,
                                           runnel_on_conversation each, void* user,
                                           runnel_error* error);
/* One conversation, in one call of `each`. */
RUNNEL_API runnel_status runnel_store_get(const runnel_store* store, runnel_conversation_id id,
                                          runnel_on_conversation each, void* user,
                                          runnel_error* error);
/* The most recently used conversation of that name; *id is 0 if there is none. */
RUNNEL_API runnel_status runnel_store_find(const runnel_store* store, const char* name,
                                           runnel_conversation_id* id, runnel_error* error);
/* All messages of a conversation, parents before children. */
RUNNEL_API runnel_status runnel_store_tree(const runnel_store* store, runnel_conversation_id id,
                                           runnel_on_message each, void* user, runnel_error* error);
/* From the first message of its branch to `message`. */
RUNNEL_API runnel_status runnel_store_path(const runnel_store* store, runnel_message_id message,
                                           runnel_on_message each, void* user, runnel_error* error);
/* Most recently changed first. */
RUNNEL_API runnel_status runnel_store_branches(const runnel_store* store, runnel_conversation_id id,
                                               runnel_on_branch each, void* user,
                                               runnel_error* error);
/* Messages with all words of `query`, or, where no word matches, with `query` somewhere inside; at most `limit`. */
RUNNEL_API runnel_status runnel_store_search(const runnel_store* store, const char* query,
                                             int32_t limit, runnel_on_hit each, void* user,
                                             runnel_error* error);

RUNNEL_API runnel_status runnel_store_rename(runnel_store* store, runnel_conversation_id id,
                                             const char* name, runnel_error* error);
/* Pinned: its snapshots are never dropped. */
RUNNEL_API runnel_status runnel_store_pin(runnel_store* store, runnel_conversation_id id,
                                          bool pinned, runnel_error* error);
RUNNEL_API runnel_status runnel_store_pin_message(runnel_store* store, runnel_message_id id,
                                                  bool pinned, runnel_error* error);
/* An empty name removes it. */
RUNNEL_API runnel_status runnel_store_name_message(runnel_store* store, runnel_message_id id,
                                                   const char* name, runnel_error* error);
/* Where the conversation will be opened next; 0: before the first message. */
RUNNEL_API runnel_status runnel_store_set_head(runnel_store* store, runnel_conversation_id id,
                                               runnel_message_id message, runnel_error* error);

/* ---- deleting ---- */

/* Deleting that can be undone: hidden at once, but still in the file until it is forgotten. *trash may be NULL. */
RUNNEL_API runnel_status runnel_store_trash_conversation(runnel_store* store,
                                                         runnel_conversation_id id,
                                                         runnel_trash_id* trash,
                                                         runnel_error* error);
/* Everything after `message`, on all branches. */
RUNNEL_API runnel_status runnel_store_trash_after(runnel_store* store, runnel_message_id message,
                                                  runnel_trash_id* trash, runnel_error* error);
/* `message` and everything after it; other answers beside it stay. */
RUNNEL_API runnel_status runnel_store_trash_from(runnel_store* store, runnel_message_id message,
                                                 runnel_trash_id* trash, runnel_error* error);
RUNNEL_API runnel_status runnel_store_undo(runnel_store* store, runnel_trash_id trash,
                                           runnel_error* error);
/* What can be undone, the newest first. */
RUNNEL_API runnel_status runnel_store_trash(const runnel_store* store, runnel_on_trash each,
                                            void* user, runnel_error* error);

typedef struct runnel_forget_report {
  size_t size;
  int64_t messages;
  int64_t snapshots;
  bool
      log_emptied; /* false only while another process reads: its log keeps the text until the next time */
} runnel_forget_report;
RUNNEL_API void runnel_forget_report_init(runnel_forget_report* report, size_t size);

/* Forgetting: afterwards (with log_emptied) no file of the store holds the text, its tokens or a snapshot. `report` may
 * be NULL. */
RUNNEL_API runnel_status runnel_store_forget_conversation(runnel_store* store,
                                                          runnel_conversation_id id,
                                                          runnel_forget_report* report,
                                                          runnel_error* error);
RUNNEL_API runnel_status runnel_store_forget_after(runnel_store* store, runnel_message_id message,
                                                   runnel_forget_report* report,
                                                   runnel_error* error);
/* What was deleted at least that long ago; 0: all of it. */
RUNNEL_API runnel_status runnel_store_forget_trash(runnel_store* store, int64_t older_than_ms,
                                                   runnel_forget_report* report,
                                                   runnel_error* error);

/* One deletion alone, with what was deleted after it below the same messages; RUNNEL_NOT_FOUND if it was undone or
 * forgotten. */
RUNNEL_API runnel_status runnel_store_forget_trash_entry(runnel_store* store, runnel_trash_id trash,
                                                         runnel_forget_report* report,
                                                         runnel_error* error);

/* ---- the file ---- */

/* The branch that ends at `leaf` (0: the current one), for reading; and the whole tree, for import. */
RUNNEL_API runnel_status runnel_store_export_markdown(const runnel_store* store,
                                                      runnel_conversation_id id,
                                                      runnel_message_id leaf, char* text,
                                                      size_t capacity, size_t* count,
                                                      runnel_error* error);
RUNNEL_API runnel_status runnel_store_export_json(const runnel_store* store,
                                                  runnel_conversation_id id, char* json,
                                                  size_t capacity, size_t* count,
                                                  runnel_error* error);
/* A library has no model: a state of another size than the model's, which the conversation begins from, is refused
 * (RUNNEL_MISMATCH) when the conversation is opened with that model. */
RUNNEL_API runnel_status runnel_store_import_json(runnel_store* store, const char* json,
                                                  size_t bytes, runnel_conversation_id* id,
                                                  runnel_error* error);

/* All chats of an export of this library, of ChatGPT (conversations.json) or of Open WebUI, with their branches. `each`
 * (may be NULL) gets their ids in the order of the file. RUNNEL_MALFORMED if it is
 * none of these, and then nothing is stored. */
RUNNEL_API runnel_status runnel_store_import_chats(
    runnel_store* store, const char* json, size_t bytes,
    void (*each)(runnel_conversation_id id, void* user), void* user, runnel_error* error);

typedef struct runnel_salvage_report {
  size_t size;
  int64_t conversations;
  int64_t messages;
  int64_t unreadable; /* messages that are known to be lost */
} runnel_salvage_report;
RUNNEL_API void runnel_salvage_report_init(runnel_salvage_report* report, size_t size);
/* Copies what can still be read of the damaged library `file` into this one, under new ids; the file is only read.
 * `report` may be NULL. RUNNEL_MALFORMED or RUNNEL_IO if nothing can be read. */
RUNNEL_API runnel_status runnel_store_salvage(runnel_store* store, const char* file,
                                              runnel_salvage_report* report, runnel_error* error);

typedef struct runnel_store_usage {
  size_t size;
  uint64_t snapshots;
  uint64_t snapshot_bytes;
  uint64_t pinned_bytes; /* of those: never dropped */
  uint64_t budget_bytes;
  uint64_t database_bytes;
} runnel_store_usage;
RUNNEL_API void runnel_store_usage_init(runnel_store_usage* usage, size_t size);
RUNNEL_API runnel_status runnel_store_get_usage(const runnel_store* store,
                                                runnel_store_usage* usage, runnel_error* error);
RUNNEL_API runnel_status runnel_store_set_budget(runnel_store* store, uint64_t bytes,
                                                 runnel_error* error);
/* Gives unused pages of the database back to the file system. */
RUNNEL_API runnel_status runnel_store_vacuum(runnel_store* store, runnel_error* error);

/* ---- one conversation on a session ---- */

/* Its session stands at its head. Several handles may have one conversation open: what they add becomes branches. */
typedef struct runnel_conversation runnel_conversation;

typedef struct runnel_conversation_options {
  size_t size;
  const char* system; /* the system prompt of a conversation that is made; NULL: the model's own */
  const runnel_snapshot*
      pack; /* of runnel_pack_make(): begin after it; `system` is then ignored. Or a snapshot before
                                    the first token, such as a tuned state: begin from it, with
                                    `system`. RUNNEL_MISMATCH if such a state is of another model */
  void (*on_progress)(uint64_t done, uint64_t total, void* user); /* tokens that are read again */
  void* user;
  const runnel_stop* stop; /* RUNNEL_CANCELLED where nothing stays; may be NULL */
} runnel_conversation_options;
RUNNEL_API void runnel_conversation_options_init(runnel_conversation_options* options, size_t size);

/* options may be NULL. */
RUNNEL_API runnel_status runnel_conversation_create(const runnel_store* store,
                                                    const runnel_model* model, const char* name,
                                                    const runnel_conversation_options* options,
                                                    runnel_conversation** conversation,
                                                    runnel_error* error);
/* At `message` (0: where it was left). */
RUNNEL_API runnel_status runnel_conversation_open(
    const runnel_store* store, const runnel_model* model, runnel_conversation_id id,
    runnel_message_id message, const runnel_conversation_options* options,
    runnel_conversation** conversation, runnel_error* error);
/* That of this name, made if there is none. */
RUNNEL_API runnel_status runnel_conversation_open_named(const runnel_store* store,
                                                        const runnel_model* model, const char* name,
                                                        const runnel_conversation_options* options,
                                                        runnel_conversation** conversation,
                                                        runnel_error* error);
RUNNEL_API void runnel_conversation_free(runnel_conversation* conversation);

RUNNEL_API runnel_conversation_id
runnel_conversation_get_id(const runnel_conversation* conversation);
/* The message that the session stands after; 0: before the first. */
RUNNEL_API runnel_message_id runnel_conversation_head(const runnel_conversation* conversation);
/* Tokens that its session has consumed. */
RUNNEL_API uint64_t runnel_conversation_position(const runnel_conversation* conversation);
/* Its session's state, for a session of one's own. */
RUNNEL_API runnel_status runnel_conversation_snapshot(const runnel_conversation* conversation,
                                                      runnel_snapshot** snapshot,
                                                      runnel_error* error);

/* What an operation cost, in tokens. */
typedef struct runnel_token_cost {
  size_t size;
  uint64_t replayed; /* read again, because a snapshot was gone or of another model */
  uint64_t relaid;   /* read again, because the chat template lays out earlier turns anew */
  uint64_t fed;      /* read for the first time */
  uint64_t generated;
} runnel_token_cost;
RUNNEL_API void runnel_token_cost_init(runnel_token_cost* cost, size_t size);
/* What opening it cost. */
RUNNEL_API runnel_status runnel_conversation_cost(const runnel_conversation* conversation,
                                                  runnel_token_cost* cost, runnel_error* error);

/* Whether the model thinks before it answers, in formats that know of it. */
enum { RUNNEL_THINKING_AS_TRAINED = 0, RUNNEL_THINKING_OFF = 1, RUNNEL_THINKING_ON = 2 };

typedef struct runnel_turn_options {
  size_t size;
  const runnel_generation_options*
      generation; /* of the answer, its on_text and stop too; NULL: the defaults */
  int32_t thinking;
  bool (*on_thought)(const char* text, size_t bytes, void* user); /* as on_text; may be NULL */
  void (*on_progress)(uint64_t done, uint64_t total,
                      void* user); /* tokens that are read, before the answer */
  void* user;                      /* for these two */
  const runnel_stop*
      stop; /* of reading, and of the answer unless generation->stop is set; may be NULL */
} runnel_turn_options;
RUNNEL_API void runnel_turn_options_init(runnel_turn_options* options, size_t size);

typedef struct runnel_turn {
  size_t size;
  runnel_generation_result* result;          /* in: gets the answer's, or NULL */
  char* warning;                             /* in: room for a text, or NULL */
  size_t warning_capacity;                   /* in */
  runnel_message_id user;                    /* the message that was saved; 0: none */
  runnel_message_id answer;                  /* likewise */
  bool stopped;                              /* on request: what is not saved above was not said */
  uint64_t replayed, relaid, fed, generated; /* as runnel_token_cost */
  size_t
      warning_bytes; /* nothing failed, but this should be told; as many as fit are in `warning` */
} runnel_turn;
RUNNEL_API void runnel_turn_init(runnel_turn* turn, size_t size);

/* A user's message and its answer; `options` and `turn` may be NULL, here and below. A stop is no error of a turn. With
 * options that are refused nothing is said. */
RUNNEL_API runnel_status runnel_conversation_send(runnel_conversation* conversation,
                                                  const char* text, size_t bytes,
                                                  const runnel_turn_options* options,
                                                  runnel_turn* turn, runnel_error* error);
/* The two halves of it. */
RUNNEL_API runnel_status runnel_conversation_add_user(runnel_conversation* conversation,
                                                      const char* text, size_t bytes,
                                                      const runnel_turn_options* options,
                                                      runnel_turn* turn, runnel_error* error);
RUNNEL_API runnel_status runnel_conversation_answer(runnel_conversation* conversation,
                                                    const runnel_turn_options* options,
                                                    runnel_turn* turn, runnel_error* error);
/* Goes on with the answer at the head, which was cut short: the turn's answer is the same message, longer. */
RUNNEL_API runnel_status runnel_conversation_resume(runnel_conversation* conversation,
                                                    const runnel_turn_options* options,
                                                    runnel_turn* turn, runnel_error* error);
/* Another answer beside the one at the head: a new branch. */
RUNNEL_API runnel_status runnel_conversation_regenerate(runnel_conversation* conversation,
                                                        const runnel_turn_options* options,
                                                        runnel_turn* turn, runnel_error* error);
/* Another text beside a user's message: a new branch, read but not answered yet. */
RUNNEL_API runnel_status runnel_conversation_edit(runnel_conversation* conversation,
                                                  runnel_message_id message, const char* text,
                                                  size_t bytes, const runnel_turn_options* options,
                                                  runnel_turn* turn, runnel_error* error);
/* Goes to any message (0: before the first); the next one starts a branch there. In `options` on_progress, user and
 * stop count; `cost` may be NULL. */
RUNNEL_API runnel_status runnel_conversation_rewind(runnel_conversation* conversation,
                                                    runnel_message_id message,
                                                    const runnel_conversation_options* options,
                                                    runnel_token_cost* cost, runnel_error* error);
/* Deletes everything after `message` for good, on all branches, and goes there. */
RUNNEL_API runnel_status runnel_conversation_forget_after(
    runnel_conversation* conversation, runnel_message_id message,
    const runnel_conversation_options* options, runnel_forget_report* report, runnel_error* error);

/* Reads a system prompt and documents (zero-terminated) once: a snapshot that conversations begin with at no cost. Of
 * `options` on_progress, user and stop count. */
RUNNEL_API runnel_status runnel_pack_make(const runnel_model* model, const char* system,
                                          const char* const* documents, size_t document_count,
                                          const runnel_conversation_options* options,
                                          runnel_snapshot** pack, runnel_error* error);

/* NOLINTEND(modernize-use-using) */

#ifdef __cplusplus
}
#endif

#endif
