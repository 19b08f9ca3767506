// SPDX-License-Identifier: Apache-2.0
#include "runtime/store/schema.h"

#include <sqlite3.h>

#include <string>

#include "runtime/base/text.h"
#include "runtime/base/try.h"

namespace runnel {
namespace {

constexpr std::int64_t kApplication = 0x524e4c31;  // "RNL1"
constexpr std::int64_t kVersion = 6;
constexpr std::int64_t kOldestReadable = 2;  // as it is, by who only reads

// AUTOINCREMENT: an id that another process still holds must never come to mean another row.
constexpr const char* kVersion1 = R"sql(
CREATE TABLE conversations(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL,
  created INTEGER NOT NULL,                       -- ms since 1970
  updated INTEGER NOT NULL,
  pinned INTEGER NOT NULL DEFAULT 0,
  head INTEGER NOT NULL DEFAULT 0,                -- messages.id, 0: before the first
  trash INTEGER NOT NULL DEFAULT 0                -- trash.id, 0: not deleted
);
CREATE TABLE messages(
  id INTEGER PRIMARY KEY AUTOINCREMENT,           -- parents have smaller ids than their children
  conversation INTEGER NOT NULL REFERENCES conversations(id),
  parent INTEGER REFERENCES messages(id),         -- NULL: the first of its branch
  role TEXT NOT NULL,
  text TEXT NOT NULL,
  created INTEGER NOT NULL,
  complete INTEGER NOT NULL DEFAULT 1,
  pinned INTEGER NOT NULL DEFAULT 0,
  trash INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX messages_by_conversation ON messages(conversation);
CREATE INDEX messages_by_parent ON messages(parent);

-- What a message became for one model: its tokens, and the session after them.
CREATE TABLE boundaries(
  message INTEGER NOT NULL REFERENCES messages(id) ON DELETE CASCADE,
  model INTEGER NOT NULL,                         -- fingerprint
  tokens BLOB NOT NULL,                           -- i32 each, of this message alone
  position INTEGER NOT NULL,                      -- tokens from the beginning
  history INTEGER NOT NULL,                       -- hash of all of them
  snapshot TEXT,                                  -- snapshots.hash, NULL: none
  PRIMARY KEY(message, model)
) WITHOUT ROWID;
CREATE INDEX boundaries_by_history ON boundaries(model, history);
CREATE INDEX boundaries_by_snapshot ON boundaries(snapshot);

-- Files in the snapshot folder.
CREATE TABLE snapshots(
  hash TEXT PRIMARY KEY,
  bytes INTEGER NOT NULL,
  used INTEGER NOT NULL                           -- counts up: least recently used first
) WITHOUT ROWID;

CREATE TABLE trash(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  at INTEGER NOT NULL,                            -- ms since 1970
  conversation INTEGER NOT NULL,
  head INTEGER NOT NULL                           -- of the conversation before
);

-- Filled by hand (index_words, and again after deletions): triggers on it would need a trusted schema.
CREATE VIRTUAL TABLE words USING fts5(
  text, content='messages', content_rowid='id', tokenize='unicode61 remove_diacritics 2');
)sql";

// Version 2: a message can have a name, so that a place in the conversation is found again.
constexpr const char* kFrom1To2 =
    "ALTER TABLE messages ADD COLUMN name TEXT NOT NULL DEFAULT ''; PRAGMA user_version = 2";

// Version 3: what was typed and not sent; messages.complete says why an answer was cut short: 0 unknown, 1 it is
// whole, 2 it was stopped, 3 it reached its length.
constexpr const char* kFrom2To3 =
    "CREATE TABLE drafts(conversation INTEGER PRIMARY KEY, text TEXT NOT NULL); "
    "PRAGMA user_version = 3";

// Version 4: what a model thought before an answer, and for how long; what a program keeps for a conversation.
constexpr const char* kFrom3To4 =
    "CREATE TABLE thoughts(message INTEGER PRIMARY KEY REFERENCES messages(id) ON DELETE CASCADE, "
    "ms INTEGER NOT NULL, text TEXT NOT NULL); "
    "CREATE TABLE settings(conversation INTEGER PRIMARY KEY REFERENCES conversations(id) "
    "ON DELETE CASCADE, text TEXT NOT NULL); "
    "PRAGMA user_version = 4";

// Version 5: what was read again before a message, see quotations.h; folders of conversations.
constexpr const char* kFrom4To5 =
    "CREATE TABLE quotations(message INTEGER PRIMARY KEY REFERENCES messages(id) "
    "ON DELETE CASCADE, text TEXT NOT NULL); "
    "CREATE TABLE folders(id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, "
    "folded INTEGER NOT NULL DEFAULT 0); "
    "CREATE TABLE foldered(conversation INTEGER PRIMARY KEY REFERENCES conversations(id) "
    "ON DELETE CASCADE, folder INTEGER NOT NULL REFERENCES folders(id) ON DELETE CASCADE); "
    "PRAGMA user_version = 5";

// Version 6: what conversations begin from in place of the empty state. No tokens can bring it back, so that it is in the
// database itself and not among the snapshots.
constexpr const char* kFrom5To6 =
    "CREATE TABLE initial_states(hash TEXT PRIMARY KEY, snapshot BLOB NOT NULL); "
    "CREATE TABLE beginnings(conversation INTEGER PRIMARY KEY REFERENCES conversations(id) "
    "ON DELETE CASCADE, model INTEGER NOT NULL, history INTEGER NOT NULL, "
    "state TEXT NOT NULL REFERENCES initial_states(hash)); "
    "CREATE INDEX beginnings_by_state ON beginnings(state); "
    "PRAGMA user_version = 6";

// For who only reads an older file: the same tables, empty, of this connection alone.
constexpr const char* kStandInsOf4 =
    "CREATE TEMP TABLE thoughts(message INTEGER PRIMARY KEY, ms INTEGER, text TEXT); "
    "CREATE TEMP TABLE settings(conversation INTEGER PRIMARY KEY, text TEXT)";
constexpr const char* kStandInsOf5 =
    "CREATE TEMP TABLE quotations(message INTEGER PRIMARY KEY, text TEXT); "
    "CREATE TEMP TABLE folders(id INTEGER PRIMARY KEY, name TEXT, folded INTEGER); "
    "CREATE TEMP TABLE foldered(conversation INTEGER PRIMARY KEY, folder INTEGER)";
constexpr const char* kStandInsOf6 =
    "CREATE TEMP TABLE initial_states(hash TEXT PRIMARY KEY, snapshot BLOB); "
    "CREATE TEMP TABLE beginnings(conversation INTEGER PRIMARY KEY, model INTEGER, "
    "history INTEGER, state TEXT)";

// Two processes that open a new file at once: the change to write-ahead logging does not wait for
// locks as other statements do.
Status use_write_ahead_log(Database& database, std::chrono::milliseconds wait) {
  constexpr int kPauseMs = 5;
  for (std::chrono::milliseconds waited(0);; waited += std::chrono::milliseconds(kPauseMs)) {
    Status status = database.run("PRAGMA journal_mode = WAL");
    if (status || status.error().code != ErrorCode::io || waited >= wait) return status;
    sqlite3_sleep(kPauseMs);
  }
}

Status refuse_version(const std::filesystem::path& file, std::int64_t version) {
  return fail(ErrorCode::unsupported, printable(file.native()), ": its tables have version ",
              version, ", expected ", version > kVersion ? "at most " : "", kVersion);
}

}  // namespace

Status check_schema(Database& database, const std::filesystem::path& file) {
  RUNNEL_CHECK_OK(database.run("PRAGMA temp_store = MEMORY; PRAGMA trusted_schema = OFF"));
  RUNNEL_TRY(const auto version, database.number("PRAGMA user_version"));
  RUNNEL_TRY(const auto application, database.number("PRAGMA application_id"));
  if (application.value_or(0) != kApplication) {
    return fail(ErrorCode::malformed, printable(file.native()),
                ": is the database of another program");
  }
  if (version.value_or(0) < kOldestReadable || version.value_or(0) > kVersion)
    return refuse_version(file, version.value_or(0));
  if (version.value_or(0) < 4) RUNNEL_CHECK_OK(database.run(kStandInsOf4));
  if (version.value_or(0) < 5) RUNNEL_CHECK_OK(database.run(kStandInsOf5));
  if (version.value_or(0) < 6) RUNNEL_CHECK_OK(database.run(kStandInsOf6));
  return {};
}

Status prepare_schema(Database& database, const std::filesystem::path& file,
                      std::chrono::milliseconds wait) {
  // secure_delete: what is deleted is overwritten with zeros.
  RUNNEL_CHECK_OK(database.run(
      "PRAGMA secure_delete = ON; PRAGMA foreign_keys = ON; PRAGMA temp_store = MEMORY;"
      "PRAGMA synchronous = FULL; PRAGMA trusted_schema = OFF"));
  RUNNEL_CHECK_OK(use_write_ahead_log(database, wait));
  RUNNEL_TRY(Transaction transaction, Transaction::begin(database));
  RUNNEL_TRY(const auto version, database.number("PRAGMA user_version"));
  RUNNEL_TRY(const auto application, database.number("PRAGMA application_id"));
  RUNNEL_TRY(const auto tables, database.number("SELECT count(*) FROM sqlite_master"));
  if (version.value_or(0) == 0 && tables.value_or(0) == 0) {
    RUNNEL_CHECK_OK(database.run(kVersion1));
    RUNNEL_CHECK_OK(database.run(kFrom1To2));
    RUNNEL_CHECK_OK(database.run(kFrom2To3));
    RUNNEL_CHECK_OK(database.run(kFrom3To4));
    RUNNEL_CHECK_OK(database.run(kFrom4To5));
    RUNNEL_CHECK_OK(database.run(kFrom5To6));
    const std::string stamp = "PRAGMA application_id = " + std::to_string(kApplication);
    RUNNEL_CHECK_OK(database.run(stamp.c_str()));
    return transaction.commit();
  }
  if (application.value_or(0) != kApplication) {
    return fail(ErrorCode::malformed, printable(file.native()),
                ": is the database of another program");
  }
  if (version.value_or(0) < 1 || version.value_or(0) > kVersion)
    return refuse_version(file, version.value_or(0));
  constexpr const char* kSteps[] = {kFrom1To2, kFrom2To3, kFrom3To4, kFrom4To5, kFrom5To6};
  for (std::int64_t from = *version; from < kVersion; ++from)
    RUNNEL_CHECK_OK(database.run(kSteps[from - 1]));
  return transaction.commit();
}

}  // namespace runnel
