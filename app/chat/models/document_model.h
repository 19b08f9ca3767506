// SPDX-License-Identifier: Apache-2.0
// The document that was dropped or chosen: its text is got, then what reading it costs is said, then it is read.
#pragma once

#include <QtQml/qqmlregistration.h>

#include <QObject>

#include "app/chat/engine/document_reader.h"
#include "app/chat/models/chat_model.h"

namespace runnel::chat {

class DocumentModel : public QObject {
  Q_OBJECT
  QML_ELEMENT
  QML_UNCREATABLE("App.documents is it")
  Q_PROPERTY(QString name READ name NOTIFY changed)         // empty: there is none
  Q_PROPERTY(bool ready READ ready NOTIFY changed)          // its text is there
  Q_PROPERTY(double progress READ progress NOTIFY changed)  // until then
  Q_PROPERTY(qint64 tokens READ tokens NOTIFY changed)      // about
  Q_PROPERTY(int files READ files NOTIFY changed)           // of a folder; 0: it is none
  Q_PROPERTY(int leftOut READ leftOut NOTIFY changed)

 public:
  explicit DocumentModel(ChatModel& chat, QObject* parent = nullptr);

  QString name() const;
  bool ready() const { return !m_document.text.isEmpty(); }
  double progress() const { return m_progress; }
  qint64 tokens() const;
  int files() const { return m_document.files; }
  int leftOut() const { return m_document.leftOut; }

  void open(const QString& file);  // instead of what is open
  Q_INVOKABLE void read();         // what is ready: a chat begins after it
  Q_INVOKABLE void close();

 Q_SIGNALS:
  void changed();
  void opened();
  void failed(const runnel::chat::NoDocument& why);

 private:
  ChatModel& m_chat;
  DocumentReader m_reader;
  QString m_file;
  Document m_document;
  double m_progress = 0;
};

/// Why a document was not read, with what to do about it.
QString inWords(const NoDocument& no);

}  // namespace runnel::chat
