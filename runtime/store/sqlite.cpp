// SPDX-License-Identifier: Apache-2.0
#include "runtime/store/sqlite.h"

#include <sqlite3.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <system_error>
#include <utility>

#include "runtime/base/text.h"
#include "runtime/base/try.h"

namespace runnel {
namespace {

ErrorCode code_of(int sqlite_code) {
  switch (sqlite_code & 0xff) {
    case SQLITE_NOMEM:
      return ErrorCode::out_of_memory;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_FORMAT:
      return ErrorCode::malformed;
    case SQLITE_CONSTRAINT:
      return ErrorCode::not_found;  // a row this one refers to is gone
    case SQLITE_TOOBIG:
      return ErrorCode::invalid_argument;
    default:
      return ErrorCode::io;
  }
}

bool is_full(sqlite3* handle, int sqlite_code) {
  const int kind = sqlite_code & 0xff;
  if (kind == SQLITE_FULL) return true;
  const int reason = sqlite3_system_errno(handle);
  return (kind == SQLITE_IOERR || kind == SQLITE_CANTOPEN) &&
         (reason == ENOSPC || reason == EDQUOT || reason == EFBIG);
}

std::string reason_of(sqlite3* handle, int sqlite_code) {
  const int system = sqlite3_system_errno(handle);
  const auto text = [](int number) { return std::generic_category().message(number); };
  switch (sqlite_code & 0xff) {
    case SQLITE_BUSY:
      return "another process keeps it locked";
    case SQLITE_CONSTRAINT:
      return "what this belongs to has been deleted";
    case SQLITE_READONLY:
      return "cannot be changed: it or its folder is for reading only";
    case SQLITE_FULL:
      return "the disk is full: " + text(ENOSPC);
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
      return (is_full(handle, sqlite_code) ? "the disk is full" : sqlite3_errmsg(handle)) +
             (system != 0 ? ": " + text(system) : std::string());
    default:
      return sqlite3_errmsg(handle);
  }
}

Error error_of(sqlite3* handle, int sqlite_code, bool& no_space) {
  const char* path = sqlite3_db_filename(handle, "main");
  if (is_full(handle, sqlite_code)) no_space = true;
  return fail(code_of(sqlite_code), path != nullptr ? printable(path) : "conversations", ": ",
              reason_of(handle, sqlite_code));
}

// As SQLite reads addresses of files.
std::string address_of(const std::filesystem::path& file) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string address = "file:";
  std::error_code ignored;  // a relative path will do
  const std::filesystem::path absolute = std::filesystem::absolute(file, ignored);
  for (const char c : absolute.native()) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '%' || c == '?' || c == '#') {
      address += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    } else {
      address += c;
    }
  }
  return address + "?immutable=1";
}

}  // namespace

void Statement::Finalize::operator()(sqlite3_stmt* handle) const noexcept {
  sqlite3_finalize(handle);
}

void Statement::bind_one(int index, std::int64_t value) {
  const int code = sqlite3_bind_int64(handle_.get(), index, value);
  if (bind_error_ == SQLITE_OK) bind_error_ = code;
}

void Statement::bind_one(int index, std::string_view text) {
  const int code =
      sqlite3_bind_text64(handle_.get(), index, text.data() != nullptr ? text.data() : "",
                          text.size(), SQLITE_STATIC, SQLITE_UTF8);
  if (bind_error_ == SQLITE_OK) bind_error_ = code;
}

void Statement::bind_one(int index, std::span<const std::byte> blob) {
  // A null pointer would bind NULL.
  const void* bytes = blob.empty() ? static_cast<const void*>("") : blob.data();
  const int code = sqlite3_bind_blob64(handle_.get(), index, bytes, blob.size(), SQLITE_STATIC);
  if (bind_error_ == SQLITE_OK) bind_error_ = code;
}

Result<bool> Statement::step() {
  sqlite3* database = sqlite3_db_handle(handle_.get());
  if (bind_error_ != SQLITE_OK) return error_of(database, bind_error_, *no_space_);
  const int code = sqlite3_step(handle_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return error_of(database, code, *no_space_);
}

Status Statement::run() {
  for (;;) {
    RUNNEL_TRY(const bool row, step());
    if (!row) return {};
  }
}

std::int64_t Statement::integer(int column) const {
  return sqlite3_column_int64(handle_.get(), column);
}

bool Statement::is_null(int column) const {
  return sqlite3_column_type(handle_.get(), column) == SQLITE_NULL;
}

std::string Statement::text(int column) const {
  const unsigned char* text = sqlite3_column_text(handle_.get(), column);
  const int size = sqlite3_column_bytes(handle_.get(), column);
  return text == nullptr
             ? std::string()
             : std::string(reinterpret_cast<const char*>(text), static_cast<std::size_t>(size));
}

std::vector<std::byte> Statement::blob(int column) const {
  const auto* bytes = static_cast<const std::byte*>(sqlite3_column_blob(handle_.get(), column));
  const int size = sqlite3_column_bytes(handle_.get(), column);
  return bytes == nullptr ? std::vector<std::byte>() : std::vector<std::byte>(bytes, bytes + size);
}

void Database::Close::operator()(sqlite3* handle) const noexcept { sqlite3_close_v2(handle); }

Result<Database> Database::open(const std::filesystem::path& file, std::chrono::milliseconds wait,
                                Access access) {
  sqlite3* handle = nullptr;
  const bool still = access == Access::read_still;
  const int flags = (access == Access::write ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY) |
                    (still ? SQLITE_OPEN_URI : 0) | SQLITE_OPEN_NOMUTEX;
  const std::string name = still ? address_of(file) : file.native();
  const int code = sqlite3_open_v2(name.c_str(), &handle, flags, nullptr);
  if (handle == nullptr) return fail(ErrorCode::out_of_memory, "conversations: not enough memory");
  Database database(handle);
  if (code != SQLITE_OK) return error_of(handle, code, *database.no_space_);
  sqlite3_extended_result_codes(handle, 1);
  database.set_wait(wait);
  return database;
}

void Database::set_wait(std::chrono::milliseconds wait) {
  const auto limit = std::chrono::milliseconds(std::numeric_limits<int>::max());
  sqlite3_busy_timeout(
      handle_.get(),
      static_cast<int>(std::clamp(wait, std::chrono::milliseconds(0), limit).count()));
}

Result<Statement> Database::prepare(std::string_view sql) {
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v2(handle_.get(), sql.data(), static_cast<int>(sql.size()),
                                      &statement, nullptr);
  if (code != SQLITE_OK) return error_of(handle_.get(), code, *no_space_);
  return Statement(statement, no_space_.get());
}

Status Database::run(const char* sql) {
  const int code = sqlite3_exec(handle_.get(), sql, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return error_of(handle_.get(), code, *no_space_);
  return {};
}

std::int64_t Database::last_id() const { return sqlite3_last_insert_rowid(handle_.get()); }

std::int64_t Database::changes() const { return sqlite3_changes64(handle_.get()); }

Result<Transaction> Transaction::begin(Database& database) {
  RUNNEL_CHECK_OK(database.run("BEGIN IMMEDIATE"));
  return Transaction(database);
}

Transaction::Transaction(Transaction&& other) noexcept
    : database_(std::exchange(other.database_, nullptr)) {}

Transaction::~Transaction() {
  if (database_ != nullptr) static_cast<void>(database_->run("ROLLBACK"));
}

Status Transaction::commit() {
  RUNNEL_CHECK_OK(database_->run("COMMIT"));
  database_ = nullptr;
  return {};
}

}  // namespace runnel
