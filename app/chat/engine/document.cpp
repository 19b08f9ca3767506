// SPDX-License-Identifier: Apache-2.0
#include "app/chat/engine/document.h"

#include <QDir>
#include <QFile>
#include <QFileInfo>
#include <QSet>
#include <QStringDecoder>
#include <QStringList>
#include <algorithm>
#include <optional>

namespace runnel::chat {
namespace {

using reader::Outcome;
using reader::Why;

const QSet<QString>& sourceSuffixes() {
  static const QSet<QString> suffixes = [] {
    const QString all = QStringLiteral(
        "txt text md markdown rst adoc tex org csv tsv c h cc cpp cxx hh hpp hxx inl ipp m mm cu "
        "cuh cl comp glsl "
        "vert frag geom hlsl wgsl metal rs go zig d nim swift kt kts java scala groovy clj cljs ex "
        "exs erl hrl hs "
        "ml mli fs fsi fsx cs vb pas ada adb ads f f90 f95 for jl r py pyi pyx rb pl pm lua tcl "
        "php js mjs cjs jsx "
        "ts tsx vue svelte qml html htm xhtml css scss sass less xml xsd xsl svg json jsonc json5 "
        "yaml yml toml ini "
        "cfg conf properties env sql graphql proto thrift sh bash zsh fish ps1 bat cmd awk sed vim "
        "el lisp scm rkt "
        "asm s v sv vhd vhdl cmake mk mak gradle bzl nix tf dockerfile diff patch po ts pro pri "
        "qrc ui desktop "
        "service in am ac m4");
    const QStringList list = all.split(u' ');
    return QSet<QString>(list.cbegin(), list.cend());
  }();
  return suffixes;
}

bool isSource(const QFileInfo& file) {
  static const QSet<QString> names = {
      QStringLiteral("makefile"),    QStringLiteral("gnumakefile"), QStringLiteral("dockerfile"),
      QStringLiteral("rakefile"),    QStringLiteral("gemfile"),     QStringLiteral("jenkinsfile"),
      QStringLiteral("meson.build"), QStringLiteral("build"),       QStringLiteral("workspace"),
      QStringLiteral("readme"),      QStringLiteral("license"),     QStringLiteral("copying"),
      QStringLiteral("authors"),     QStringLiteral("changelog"),   QStringLiteral("news"),
      QStringLiteral("todo"),        QStringLiteral("install"),     QStringLiteral("notice")};
  return sourceSuffixes().contains(file.suffix().toLower()) ||
         names.contains(file.fileName().toLower());
}

/// Whether a folder holds what programs made.
bool isBuilt(const QFileInfo& folder) {
  static const QSet<QString> names = {QStringLiteral("node_modules"),
                                      QStringLiteral("__pycache__"),
                                      QStringLiteral("target"),
                                      QStringLiteral("dist"),
                                      QStringLiteral("out"),
                                      QStringLiteral("obj"),
                                      QStringLiteral("venv"),
                                      QStringLiteral("build"),
                                      QStringLiteral("_build"),
                                      QStringLiteral("cmakefiles"),
                                      QStringLiteral("bower_components")};
  const QString name = folder.fileName().toLower();
  if (names.contains(name) || name.startsWith(QStringLiteral("build-")) ||
      name.startsWith(QStringLiteral("cmake-build")))
    return true;
  const QDir inside(folder.filePath());
  return inside.exists(QStringLiteral("CMakeCache.txt")) ||
         inside.exists(QStringLiteral("CACHEDIR.TAG")) ||
         inside.exists(QStringLiteral("pyvenv.cfg"));
}

/// Nothing: it is no text.
std::optional<QString> decoded(const QByteArray& bytes) {
  QStringDecoder decoder(QStringDecoder::Utf8);
  QString text = decoder(bytes);
  if (decoder.hasError() || text.contains(QChar(0))) return std::nullopt;
  return text;
}

/// More backquotes in a row than `text` has anywhere.
QString fenceFor(const QString& text) {
  qsizetype longest = 2;
  qsizetype run = 0;
  for (const QChar c : text) {
    run = c == u'`' ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  return QString(longest + 1, u'`');
}

/// The sources below a folder, in the order in which they are read.
class Sources {
 public:
  Sources(const QString& folder, const FolderLimits& limits, const std::stop_token& stop)
      : m_limits(limits), m_stop(stop) {
    list(folder, 0);
  }
  const QStringList& files() const { return m_files; }
  int leftOut() const { return m_leftOut; }
  bool tooMany() const { return m_files.size() > m_limits.files || m_looked > m_limits.looked; }

 private:
  void list(const QString& folder, int depth) {
    const QFileInfoList entries = QDir(folder).entryInfoList(
        QDir::Files | QDir::Dirs | QDir::NoDotAndDotDot | QDir::NoSymLinks | QDir::Readable,
        QDir::Name | QDir::DirsLast);
    for (const QFileInfo& entry : entries) {
      ++m_looked;
      if (m_stop.stop_requested() || tooMany()) return;
      if (entry.fileName().startsWith(u'.')) continue;
      if (entry.isDir()) {
        if (depth < m_limits.depth && !isBuilt(entry)) list(entry.filePath(), depth + 1);
      } else if (isSource(entry)) {
        if (entry.size() > m_limits.fileBytes) {
          ++m_leftOut;
        } else {
          m_files.push_back(entry.filePath());
        }
      }
    }
  }

  const FolderLimits& m_limits;
  const std::stop_token& m_stop;
  QStringList m_files;
  int m_looked = 0;
  int m_leftOut = 0;
};

}  // namespace

DocumentKind documentKind(const QString& file) {
  static const QStringList texts = {QStringLiteral("txt"), QStringLiteral("text"),
                                    QStringLiteral("md"), QStringLiteral("markdown")};
  static const QStringList office = {QStringLiteral("pdf"), QStringLiteral("docx"),
                                     QStringLiteral("odt")};
  const QFileInfo info(file);
  if (info.isDir()) return DocumentKind::Folder;
  const QString suffix = info.suffix().toLower();
  return texts.contains(suffix)    ? DocumentKind::Text
         : office.contains(suffix) ? DocumentKind::Office
                                   : DocumentKind::None;
}

Outcome readTextFile(const QString& name, Document& document) {
  constexpr qint64 kLargest = 16LL << 20;
  QFile file(name);
  if (!QFileInfo(name).isFile()) return {Why::Io, "is no file"};
  if (!file.open(QIODevice::ReadOnly)) return {Why::Io, file.errorString().toStdString()};
  if (file.size() > kLargest) {
    return {Why::TooLarge, "has " + std::to_string(file.size()) + " bytes, expected at most " +
                               std::to_string(kLargest)};
  }
  const std::optional<QString> text = decoded(file.read(kLargest));
  if (!text) return {Why::Damaged, "is no text in UTF-8"};
  if (text->trimmed().isEmpty()) return {Why::NoText, "has no text to read"};
  document = {.file = name, .text = *text};
  return {};
}

Outcome readFolder(const QString& folder, const FolderLimits& limits,
                   const std::function<void(double)>& progress, const std::stop_token& stop,
                   Document& document) {
  const Sources sources(folder, limits, stop);
  if (sources.tooMany()) {
    return {Why::TooLarge, "holds more than " + std::to_string(limits.files) +
                               " sources or more than " + std::to_string(limits.looked) + " files"};
  }
  document = {.file = folder, .text = {}, .leftOut = sources.leftOut()};
  const QDir top(folder);
  qint64 bytes = 0;
  for (qsizetype i = 0; i < sources.files().size(); ++i) {
    if (stop.stop_requested()) return {};
    progress(static_cast<double>(i) / static_cast<double>(sources.files().size()));
    const QString& path = sources.files().at(i);
    QFile file(path);
    std::optional<QString> text;
    if (file.open(QIODevice::ReadOnly)) text = decoded(file.read(limits.fileBytes));
    if (!text) {
      ++document.leftOut;
      continue;
    }
    if (text->trimmed().isEmpty()) continue;
    bytes += file.size();
    if (bytes > limits.textBytes) {
      return {Why::TooLarge,
              "holds more than " + std::to_string(limits.textBytes >> 20) + " MB of sources"};
    }
    const QString fence = fenceFor(*text);
    document.text += QStringLiteral("# ") + top.relativeFilePath(path) + QStringLiteral("\n\n") +
                     fence + u'\n' + *text +
                     (text->endsWith(u'\n') ? QString() : QStringLiteral("\n")) + fence +
                     QStringLiteral("\n\n");
    ++document.files;
  }
  if (document.files == 0) return {Why::NoText, "holds no text and no sources"};
  return {};
}

}  // namespace runnel::chat
