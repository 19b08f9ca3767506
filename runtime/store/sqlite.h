// SPDX-License-Identifier: Apache-2.0
// SQLite with errors as values: Database, Statement, Transaction.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runnel/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace runnel {

/// A prepared statement. Views of bound text and bytes must live until it has run.
class Statement {
 public:
  /// @param no_space  set when the disk is full
  Statement(sqlite3_stmt* handle, bool* no_space) : handle_(handle), no_space_(no_space) {}

  /// Parameters ?1, ?2 … in order.
  template <class... Values>
  Statement& bind(const Values&... values) {
    int index = 0;
    (bind_one(++index, values), ...);
    return *this;
  }

  /// Whether there is a row (more).
  Result<bool> step();
  /// Runs to the end and ignores rows.
  Status run();

  std::int64_t integer(int column) const;  // NULL is 0
  bool is_null(int column) const;
  std::string text(int column) const;
  std::vector<std::byte> blob(int column) const;

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* handle) const noexcept;
  };

  void bind_one(int index, std::int64_t value);
  void bind_one(int index, int value) { bind_one(index, static_cast<std::int64_t>(value)); }
  void bind_one(int index, bool value) { bind_one(index, static_cast<std::int64_t>(value)); }
  void bind_one(int index, std::uint64_t value) {
    bind_one(index, static_cast<std::int64_t>(value));
  }
  void bind_one(int index, std::string_view text);
  void bind_one(int index, const std::string& text) { bind_one(index, std::string_view(text)); }
  void bind_one(int index, const char* text) { bind_one(index, std::string_view(text)); }
  void bind_one(int index, std::span<const std::byte> blob);
  template <class T>
  void bind_one(int index, const std::optional<T>& value) {
    if (value) bind_one(index, *value);  // otherwise it stays NULL
  }

  std::unique_ptr<sqlite3_stmt, Finalize> handle_;
  bool* no_space_;
  int bind_error_ = 0;  // of the first bind that failed
};

/// A connection. One thread at a time.
class Database {
 public:
  enum class Access {
    write,
    read,
    read_still,  // and the file does not change meanwhile: needs no file beside it
  };

  /// @param wait  how long a call waits for another connection's lock before it fails with io.
  static Result<Database> open(const std::filesystem::path& file, std::chrono::milliseconds wait,
                               Access access = Access::write);

  /// How long later calls wait for the locks of others.
  void set_wait(std::chrono::milliseconds wait);

  Result<Statement> prepare(std::string_view sql);

  /// Runs statements without parameters and ignores rows.
  Status run(const char* sql);

  /// Runs one statement with parameters and ignores rows.
  template <class... Values>
  Status run_with(std::string_view sql, const Values&... values) {
    auto statement = prepare(sql);
    if (!statement) return std::move(statement).error();
    return statement->bind(values...).run();
  }

  /// The first column of the first row as a number; nothing if there is no row.
  template <class... Values>
  Result<std::optional<std::int64_t>> number(std::string_view sql, const Values&... values) {
    auto statement = prepare(sql);
    if (!statement) return std::move(statement).error();
    const auto row = statement->bind(values...).step();
    if (!row) return row.error();
    return *row ? std::optional(statement->integer(0)) : std::optional<std::int64_t>();
  }

  std::int64_t last_id() const;
  std::int64_t changes() const;

  /// Whether a call has failed since the last look because the disk is full.
  bool lacked_space() { return std::exchange(*no_space_, false); }

 private:
  struct Close {
    void operator()(sqlite3* handle) const noexcept;
  };
  explicit Database(sqlite3* handle) : handle_(handle), no_space_(std::make_unique<bool>(false)) {}
  std::unique_ptr<sqlite3, Close> handle_;
  std::unique_ptr<bool> no_space_;  // where statements find it
};

/// Begins at once as the only writer; rolled back unless committed.
class Transaction {
 public:
  static Result<Transaction> begin(Database& database);
  Transaction(Transaction&& other) noexcept;
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();
  Status commit();

 private:
  explicit Transaction(Database& database) : database_(&database) {}
  Database* database_;  // null: committed or rolled back
};

}  // namespace runnel
