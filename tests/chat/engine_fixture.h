// SPDX-License-Identifier: Apache-2.0
// What the suites with the real engine share: the default model, and a library of its own on disk for each test.
#pragma once

#include <QHash>
#include <QSignalSpy>
#include <QTemporaryDir>
#include <QTest>
#include <memory>

#include "app/chat/engine/runnel_engine.h"
#include "app/chat/models/app_controller.h"

namespace runnel::chat {

constexpr int kTimeoutMs = 120'000;  // sanitizers and busy machines
inline const QString kModel = QStringLiteral(RUNNEL_MODELS "/runnel-gsa-135m-instruct.gguf");

class EngineFixture : public QObject {
  Q_OBJECT

 protected:
  QTemporaryDir m_folder;
  int m_libraries = 0;
  QString m_library;
  std::unique_ptr<RunnelEngine> m_engine;
  std::unique_ptr<Settings> m_settings;
  std::unique_ptr<AppController> m_app;

  void start() {
    m_engine = std::make_unique<RunnelEngine>(m_library.toStdString(), 1'000'000'000);
    m_settings =
        std::make_unique<Settings>(m_folder.filePath(QStringLiteral("%1.ini").arg(m_libraries)));
    m_settings->maxTokens = 12;
    m_settings->modelFile = kModel;
    m_settings->seed = 5;
    m_app = std::make_unique<AppController>(*m_engine, *m_settings, AppOptions{});
    m_app->start();
  }
  void leave() {
    m_app.reset();
    m_engine.reset();
    m_settings.reset();
  }
  ChatModel& chat() { return *m_app->chat(); }
  QString textAt(int row) {
    return chat().messages()->index(row).data(MessageModel::TextRole).toString();
  }
  qint64 idAt(int row) {
    return chat().messages()->index(row).data(MessageModel::IdRole).toLongLong();
  }
  void say(const QString& text) {
    QSignalSpy answered(&chat(), &ChatModel::answered);
    chat().setDraft(text);
    QVERIFY(chat().send());
    QVERIFY(answered.wait(kTimeoutMs));
  }

  // Another conversation of the library as it is now; 0: none.
  qint64 otherThan(qint64 conversation) {
    QSignalSpy lists(m_engine.get(), &ChatEngine::conversationsListed);
    m_engine->listConversations();
    if (!lists.wait(kTimeoutMs)) return 0;
    for (const ConversationRow& row : lists.last().at(0).value<QVector<ConversationRow>>()) {
      if (row.id != conversation) return row.id;
    }
    return 0;
  }
  // Everything of a message but its number; its parent as its place in the list.
  QStringList contentOf(qint64 conversation) {
    QSignalSpy trees(m_engine.get(), &ChatEngine::treeRead);
    m_engine->readTree(conversation);
    if (!trees.wait(kTimeoutMs)) return {};
    const auto tree = trees.last().at(0).value<ConversationTree>();
    QHash<qint64, qsizetype> places;
    QStringList content;
    for (const Message& m : tree.messages) {
      content.push_back(QStringLiteral("%1 after %2: %3 | %4 %5 %6")
                            .arg(m.role)
                            .arg(places.value(m.parent, -1))
                            .arg(m.text, m.name)
                            .arg(m.pinned)
                            .arg(m.complete));
      places.insert(m.id, content.size() - 1);
    }
    content.push_back(QStringLiteral("at %1").arg(places.value(tree.head, -1)));
    return content;
  }

 private Q_SLOTS:
  void init() {
    ++m_libraries;
    m_library = m_folder.filePath(QStringLiteral("%1.db").arg(m_libraries));
    start();
  }
  void cleanup() { leave(); }
};

}  // namespace runnel::chat
