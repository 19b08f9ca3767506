// SPDX-License-Identifier: Apache-2.0
// What the window begins with: the models behind its parts, notices, and the few things that are
// done outside the window.
#pragma once

#include <QtQml/qqmlregistration.h>

#include <QObject>
#include <QQmlEngine>

#include "app/chat/models/chat_model.h"
#include "app/chat/models/library_model.h"
#include "app/chat/models/model_picker.h"
#include "app/chat/models/settings.h"

namespace runnel::chat {

struct AppOptions {
  QStringList modelFolders;
  bool kiosk = false;
};

class AppController : public QObject {
  Q_OBJECT
  QML_NAMED_ELEMENT(App)
  QML_SINGLETON
  Q_PROPERTY(runnel::chat::ChatModel* chat READ chat CONSTANT)
  Q_PROPERTY(runnel::chat::LibraryModel* library READ library CONSTANT)
  Q_PROPERTY(runnel::chat::ModelPicker* models READ models CONSTANT)
  Q_PROPERTY(runnel::chat::Settings* settings READ settings CONSTANT)
  Q_PROPERTY(bool kiosk READ kiosk CONSTANT)
  Q_PROPERTY(QString notice READ notice NOTIFY noticeChanged)
  Q_PROPERTY(QString noticeDetails READ noticeDetails NOTIFY noticeChanged)
  Q_PROPERTY(bool noticeIsProblem READ noticeIsProblem NOTIFY noticeChanged)
  Q_PROPERTY(bool canUndo READ canUndo NOTIFY noticeChanged)

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
  Settings* settings() { return &m_settings; }
  bool kiosk() const { return m_options.kiosk; }
  QString notice() const { return m_notice; }
  QString noticeDetails() const { return m_details; }
  bool noticeIsProblem() const { return m_problem; }
  bool canUndo() const { return m_trash != 0; }

  Q_INVOKABLE void undo();
  Q_INVOKABLE void dismissNotice();
  Q_INVOKABLE void copy(const QString& text);
  Q_INVOKABLE void openLink(const QString& link);  // after the user was asked
  Q_INVOKABLE bool isWebLink(const QString& link) const;
  Q_INVOKABLE void drop(const QUrl& file);  // a model or an exported conversation
  Q_INVOKABLE void say(const QString& notice);

 Q_SIGNALS:
  void noticeChanged();

 private:
  void show(const Problem& problem, const QString& context = {});

  ChatEngine& m_engine;
  Settings& m_settings;
  const AppOptions m_options;
  ChatModel m_chat;
  LibraryModel m_library;
  ModelPicker m_models;
  QString m_notice;
  QString m_details;
  bool m_problem = false;
  qint64 m_trash = 0;  // what undo() brings back
  qint64 m_trashConversation = 0;
  bool m_somethingInTrash = false;  // it goes for good with the notice that offers to undo
};

/// What went wrong in words, with what to do about it.
QString inWords(const Problem& problem);

}  // namespace runnel::chat
