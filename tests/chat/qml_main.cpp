// SPDX-License-Identifier: Apache-2.0
// Runs tests/chat/qml/tst_*.qml on the real views, with an engine that does what a test says.
#include <QQmlContext>
#include <QQmlEngine>
#include <QTemporaryDir>
#include <QtQuickTest>

#include "app/chat/models/app_controller.h"
#include "tests/chat/scripted_engine.h"

namespace runnel::chat {

class Setup : public QObject {
  Q_OBJECT

  QTemporaryDir m_folder;
  ScriptedEngine m_engine;
  Settings m_settings{m_folder.filePath(QStringLiteral("s.ini"))};
  AppController m_app{m_engine, m_settings, AppOptions{}};

 public Q_SLOTS:
  void qmlEngineAvailable(QQmlEngine* engine) {
    engine->addImportPath(QStringLiteral("qrc:/qt/qml"));
    m_app.attach(*engine);
    QQmlEngine::setObjectOwnership(&m_engine, QQmlEngine::CppOwnership);
    engine->rootContext()->setContextProperty(QStringLiteral("script"), &m_engine);
  }
};

}  // namespace runnel::chat

using RunnelSetup = runnel::chat::Setup;
QUICK_TEST_MAIN_WITH_SETUP(runnel_chat, RunnelSetup)

#include "qml_main.moc"
