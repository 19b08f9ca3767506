// SPDX-License-Identifier: Apache-2.0
// runnel-read-document: the text of the document on standard input (PDF, docx, odt) to standard output, as UTF-8.
//   runnel-read-document [--seconds N] [--megabytes N] [--pdf-by-program] < FILE
// Whatever the file holds, this process and what it starts can neither open nor write a file, nor reach the network or
// another process. It says "progress DONE TOTAL" on standard error, and one line why there is no text; its exit code
// (reader/outcome.h) says the same to programs.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <string_view>

#include "app/chat/reader/outcome.h"
#include "app/chat/reader/pdf_text.h"
#include "app/chat/reader/sandbox.h"
#include "app/chat/reader/tidy.h"
#include "app/chat/reader/word_text.h"
#include "app/chat/reader/xml.h"

namespace {

using runnel::reader::Limits;
using runnel::reader::Outcome;
using runnel::reader::Why;

struct Options {
  Limits limits;
  bool pdfByProgram = false;
};

bool parse(int count, char** words, Options& options) {
  constexpr int kMostSeconds = 3600, kMostMegabytes = 1 << 20;
  for (int i = 1; i < count; ++i) {
    const std::string_view word = words[i];
    if (word == "--pdf-by-program") {
      options.pdfByProgram = true;
      continue;
    }
    if (i + 1 == count) return false;
    const std::string_view value = words[++i];
    if (word == "--seconds") {
      options.limits.seconds = runnel::reader::number(value, 0, kMostSeconds);
      if (options.limits.seconds == 0) return false;
    } else if (word == "--megabytes") {
      const int megabytes = runnel::reader::number(value, 0, kMostMegabytes);
      options.limits.memoryBytes = static_cast<std::uint64_t>(megabytes) << 20;
      if (megabytes == 0) return false;
    } else {
      return false;
    }
  }
  return true;
}

Outcome readInput(std::size_t most, std::string& out) {
  char piece[65536];
  while (true) {
    const ssize_t got = read(STDIN_FILENO, piece, sizeof piece);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return {Why::Io, std::strerror(errno)};
    if (got == 0) return {};
    out.append(piece, static_cast<std::size_t>(got));
    if (out.size() > most) {
      return {Why::TooLarge, "is larger than " + std::to_string(most >> 20) + " MB"};
    }
  }
}

bool isPdf(std::string_view bytes) {
  constexpr std::size_t kBefore = 1024;  // other bytes may come first
  return bytes.substr(0, kBefore).find("%PDF-") != std::string_view::npos;
}

/// Compound files: documents of older programs, and newer ones that a password protects.
Outcome refuseCompound(std::string_view bytes) {
  constexpr std::string_view kName = "EncryptedPackage";
  std::string wide;
  for (const char c : kName) (wide += c) += '\0';
  if (bytes.find(wide) != std::string_view::npos)
    return {Why::Encrypted, "opens with a password only"};
  return {Why::NotSupported, "is in a format of older office programs"};
}

Outcome extract(const Options& options, std::string_view bytes, std::string& text, bool& typeset) {
  typeset = isPdf(bytes);
  const bool byProgram = typeset && (options.pdfByProgram || !runnel::reader::hasQtPdf());
  if (byProgram) return runnel::reader::pdfTextByProgram(options.limits, text);
  if (Outcome locked = runnel::reader::enterSandbox(); !locked.ok()) return locked;
  if (typeset) {
    const auto progress = [](int done, int total) {
      std::fprintf(stderr, "progress %d %d\n", done, total);
    };
    return runnel::reader::pdfText(bytes, options.limits, progress, text);
  }
  if (bytes.starts_with("PK")) return runnel::reader::officeText(bytes, options.limits, text);
  if (bytes.starts_with("\xD0\xCF\x11\xE0")) return refuseCompound(bytes);
  return {Why::Damaged, "is neither a PDF, docx nor odt file"};
}

Outcome run(const Options& options) {
  if (Outcome limited = runnel::reader::setLimits(options.limits); !limited.ok()) return limited;
  std::string bytes;
  if (Outcome got = readInput(options.limits.fileBytes, bytes); !got.ok()) return got;
  std::string text;
  bool typeset = false;
  if (Outcome got = extract(options, bytes, text, typeset); !got.ok()) return got;
  bytes = {};
  text = runnel::reader::tidy(text, typeset);
  if (text.empty()) return {Why::NoText, "has no text to read"};
  if (text.size() > options.limits.textBytes) {
    return {Why::TooLarge,
            "has more than " + std::to_string(options.limits.textBytes >> 20) + " MB of text"};
  }
  for (std::string_view rest = text; !rest.empty();) {
    const ssize_t sent = write(STDOUT_FILENO, rest.data(), rest.size());
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return {Why::Usage, std::string("standard output: ") + std::strerror(errno)};
    rest.remove_prefix(static_cast<std::size_t>(sent));
  }
  return {};
}

/// What there is no memory for, here or in a library without exceptions, ends the process.
void outOfMemory() {
  static constexpr char kWords[] = "needs more memory than it may take\n";
  static_cast<void>(!write(STDERR_FILENO, kWords, sizeof kWords - 1));
  _exit(static_cast<int>(Why::Memory));
}

}  // namespace

int main(int argc, char** argv) {
  std::set_new_handler(outOfMemory);
  Options options;
  Outcome outcome;
  if (parse(argc, argv, options)) {
    try {
      outcome = run(options);
    } catch (const std::exception& e) {
      outcome = {Why::Damaged, e.what()};
    }
  } else {
    outcome = {
        Why::Usage,
        "usage: runnel-read-document [--seconds N] [--megabytes N] [--pdf-by-program] < FILE"};
  }
  if (!outcome.ok()) std::fprintf(stderr, "%s\n", outcome.reason.c_str());
  // Nothing is left that a destructor would have to do.
  _exit(static_cast<int>(outcome.why));
}
