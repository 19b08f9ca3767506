// SPDX-License-Identifier: Apache-2.0
// What the window begins with: the models behind its parts, notices, and the few things that are
// done outside the window.
#pragma once

#include <QtQml/qqmlregistration.h>

#include <QColor>
#include <QObject>
#include <QQmlEngine>
#include <QVariantList>

#include "app/chat/models/chat_model.h"
#include "app/chat/models/document_model.h"
#include "app/chat/models/library_model.h"
#include "app/chat/models/model_picker.h"
#include "app/chat/models/settings.h"
#include "app/chat/models/tour.h"

namespace runnel::chat {

struct AppOptions {
  QStringList modelFolders;
  bool kiosk = false;
  QString wantedModel = {};  // named at the start; it may not be there
  QString library = {};      // its file
};

class AppController : public QObject {
  Q_OBJECT
  QML_NAMED_ELEMENT(App)
  QML_SINGLETON
  Q_PROPERTY(runnel::chat::ChatModel* chat READ chat CONSTANT)
  Q_PROPERTY(runnel::chat::LibraryModel* library READ library CONSTANT)
  Q_PROPERTY(runnel::chat::ModelPicker* models READ models CONSTANT)
  Q_PROPERTY(runnel::chat::Tour* tour READ tour CONSTANT)
  Q_PROPERTY(runnel::chat::DocumentModel* documents READ documents CONSTANT)
  Q_PROPERTY(runnel::chat::Settings* settings READ settings CONSTANT)
  Q_PROPERTY(bool kiosk READ kiosk CONSTANT)
  Q_PROPERTY(QColor linkColour READ linkColour WRITE setLinkColour NOTIFY linkColourChanged)
  // {id, text, details, problem, undo, actions: [{act, text}]}, the newest last.
  Q_PROPERTY(QVariantList notices READ notices NOTIFY noticeChanged)
  Q_PROPERTY(QString notice READ notice NOTIFY noticeChanged)  // the newest
  Q_PROPERTY(QString noticeDetails READ noticeDetails NOTIFY noticeChanged)
  Q_PROPERTY(bool noticeIsProblem READ noticeIsProblem NOTIFY noticeChanged)
  Q_PROPERTY(bool canUndo READ canUndo NOTIFY trashChanged)
  // What was deleted, the newest first.
  Q_PROPERTY(QVariantList trash READ trash NOTIFY trashChanged)

 public:
  AppController(ChatEngine& engine, Settings& settings, AppOptions options,
                QObject* parent = nullptr);
  ~AppController() override;

  /// Puts the instance that App means in QML onto a QML engine.
  void attach(QQmlEngine& engine);
  static AppController* create(QQmlEngine* engine, QJSEngine*);

  /// Reads the library, opens what was open, loads a model.
  void start();

  ChatModel* chat() { return &m_chat; }
  LibraryModel* library() { return &m_library; }
  ModelPicker* models() { return &m_models; }
  Tour* tour() { return &m_tour; }
  DocumentModel* documents() { return &m_documents; }
  Settings* settings() { return &m_settings; }
  bool kiosk() const { return m_options.kiosk; }
  QColor linkColour() const;
  void setLinkColour(const QColor& colour);  // of documents that are read after this
  QVariantList notices() const;
  QString notice() const { return m_notices.isEmpty() ? QString() : m_notices.last().text; }
  QString noticeDetails() const {
    return m_notices.isEmpty() ? QString() : m_notices.last().details;
  }
  bool noticeIsProblem() const { return !m_notices.isEmpty() && m_notices.last().problem; }
  bool canUndo() const { return !m_deleted.isEmpty(); }
  QVariantList trash() const;

  Q_INVOKABLE void undo();  // the last deletion, also one before a restart
  Q_INVOKABLE void restore(qint64 trash);
  Q_INVOKABLE void forgetDeleted(qint64 trash);  // for good
  Q_INVOKABLE void dismissNotice(int id = 0);    // 0: the newest
  /// Drops the notices that neither tell of a problem nor can be undone: where a page or a drawer comes in, they are
  /// known by now, and would move its rows when they go.
  Q_INVOKABLE void dismissGoodNews();
  Q_INVOKABLE void act(const QString& what);  // of a notice's actions
  Q_INVOKABLE void copy(const QString& text);
  Q_INVOKABLE void openLink(const QString& link);  // after the user was asked
  Q_INVOKABLE bool isWebLink(const QString& link) const;
  Q_INVOKABLE void drop(const QUrl& file);  // a model, exported chats, a place, a document
  Q_INVOKABLE void say(const QString& notice);
  /// "Ctrl+N, PgUp" as the system writes it, in the language of the window. Several keys are divided by ", ".
  Q_INVOKABLE QString keys(const QString& portable) const;
  /// What going to a place takes that costs so many tokens of reading; 0: none.
  Q_INVOKABLE QString costInWords(qint64 tokens) const;
  /// Has screen readers say what `item` is called now.
  Q_INVOKABLE void announce(QObject* item) const;

 Q_SIGNALS:
  void noticeChanged();
  void trashChanged();
  void linkColourChanged();

 private:
  struct Notice {
    int id = 0;
    QString text;
    QString details;
    bool problem = false;
    bool library = false;  // of the file that another one may take the place of
    qint64 trash = 0;      // what its Undo brings back
    QStringList acts;
  };

  void show(const Problem& problem, const QString& words = {});
  void put(Notice notice);
  void connectEngine();
  void onPlaceOpened(qint64 conversation, qint64 toRead);
  void useWantedModel();

  ChatEngine& m_engine;
  Settings& m_settings;
  const AppOptions m_options;
  ChatModel m_chat;
  LibraryModel m_library;
  ModelPicker m_models;
  Tour m_tour;
  DocumentModel m_documents;
  QVector<Notice> m_notices;
  int m_lastNotice = 0;
  QVector<DeletedRow> m_deleted;  // the newest first
  qint64 m_modelFor = -1;         // the chat whose model was wanted last
  QString m_missing;              // a model that was said to be
};

/// What went wrong in words, with what to do about it.
QString inWords(const Problem& problem);

}  // namespace runnel::chat
