// SPDX-License-Identifier: Apache-2.0
#include "app/chat/models/document_model.h"

#include <QCoreApplication>
#include <QFileInfo>

namespace runnel::chat {

QString inWords(const NoDocument& no) {
  const bool folder = documentKind(no.file) == DocumentKind::Folder;
  switch (no.why) {
    case reader::Why::NoText:
      return (folder
                  ? QCoreApplication::translate("Runnel", "%1 has no text or source files to read.")
              : no.file.endsWith(QStringLiteral(".pdf"), Qt::CaseInsensitive)
                  ? QCoreApplication::translate("Runnel",
                                                "%1 has no text to read (scanned pages?).")
                  : QCoreApplication::translate("Runnel", "%1 has no text to read."))
          .arg(no.file);
    case reader::Why::Encrypted:
      return QCoreApplication::translate(
                 "Runnel", "Can't read %1: it is protected by a password. Save it without one.")
          .arg(no.file);
    case reader::Why::TooLarge:
      return (folder ? QCoreApplication::translate(
                           "Runnel", "Can't read %1: it is too large. Choose a folder inside it.")
                     : QCoreApplication::translate(
                           "Runnel", "Can't read %1: it is too large. Save a smaller part."))
          .arg(no.file);
    case reader::Why::Damaged:
      return QCoreApplication::translate("Runnel",
                                         "Can't read %1: it is damaged or not what its name says.")
          .arg(no.file);
    case reader::Why::Memory:
      return QCoreApplication::translate(
                 "Runnel", "Can't read %1: that needs too much memory. Save a smaller part.")
          .arg(no.file);
    case reader::Why::Time:
      return QCoreApplication::translate("Runnel",
                                         "Can't read %1: that takes too long. Save a smaller part.")
          .arg(no.file);
    case reader::Why::Io:
      return QCoreApplication::translate("Runnel", "Couldn't read %1: %2.").arg(no.file, no.reason);
    case reader::Why::Sandbox:
      return QCoreApplication::translate("Runnel",
                                         "Can't read %1: this system can't lock in the program "
                                         "that reads such files. Save it as text.")
          .arg(no.file);
    case reader::Why::NotSupported:
    case reader::Why::Usage:
    case reader::Why::Read:
      break;
  }
  return QCoreApplication::translate(
             "Runnel", "This version can't read this kind of file: %1. Save it as text.")
      .arg(no.file);
}

DocumentModel::DocumentModel(ChatModel& chat, QObject* parent) : QObject(parent), m_chat(chat) {
  connect(&m_reader, &DocumentReader::progressed, this, [this](double part) {
    m_progress = part;
    Q_EMIT changed();
  });
  connect(&m_reader, &DocumentReader::done, this, [this](const Document& document) {
    m_document = document;
    Q_EMIT changed();
  });
  connect(&m_reader, &DocumentReader::failed, this, [this](const NoDocument& why) {
    close();
    Q_EMIT failed(why);
  });
}

QString DocumentModel::name() const { return QFileInfo(m_file).fileName(); }

qint64 DocumentModel::tokens() const {
  constexpr qint64 kCharactersOfAToken = 4;  // of English and German text
  return m_document.text.size() / kCharactersOfAToken + 1;
}

void DocumentModel::open(const QString& file) {
  m_file = QFileInfo(file).absoluteFilePath();
  while (m_file.size() > 1 && m_file.endsWith(u'/')) m_file.chop(1);
  m_document = {};
  m_progress = 0;
  m_reader.read(m_file);
  Q_EMIT changed();
  Q_EMIT opened();
}

void DocumentModel::read() {
  if (ready()) m_chat.readDocument(m_file, m_document.text);
  close();
}

void DocumentModel::close() {
  if (m_file.isEmpty()) return;
  m_reader.stop();
  m_file.clear();
  m_document = {};
  Q_EMIT changed();
}

}  // namespace runnel::chat
