// SPDX-License-Identifier: Apache-2.0
// Gets the text of a document without keeping anybody waiting: of text files and folders on a thread, of PDF and office
// files by the program runnel-read-document, which may crash, hang and ask for memory as it likes.
#pragma once

#include <QObject>
#include <QTimer>
#include <memory>
#include <optional>
#include <thread>

#include "app/chat/engine/document.h"

class QProcess;

namespace runnel::chat {

class DocumentReader : public QObject {
  Q_OBJECT

 public:
  /// Where the program is: beside this one, or where it is installed to; empty: nowhere.
  static QString findProgram();

  explicit DocumentReader(QObject* parent = nullptr) : DocumentReader(std::nullopt, {}, parent) {}
  /// Without `program` it is looked for when it is needed.
  DocumentReader(std::optional<QString> program, const reader::Limits& limits,
                 QObject* parent = nullptr);
  ~DocumentReader() override;

  /// Begins; what is being read is given up. `file` is one of the kinds of documentKind().
  void read(const QString& file);
  void stop();  // nothing is told any more

 Q_SIGNALS:
  void progressed(double fraction);
  void done(const runnel::chat::Document& document);
  void failed(const runnel::chat::NoDocument& why);

 private:
  void readOnThread(DocumentKind kind);
  void readByProgram();
  void takeErrors();
  void takeText();
  void onEnded();
  void fail(reader::Why why, const QString& reason);

  const std::optional<QString> m_program;
  const reader::Limits m_limits;
  QString m_file;
  quint64 m_job = 0;  // what a thread tells of an earlier one is dropped
  std::jthread m_thread;
  std::unique_ptr<QProcess> m_process;
  QByteArray m_text;
  QString m_reason;  // the last line that was not progress
  QTimer m_patience;
};

}  // namespace runnel::chat
