// SPDX-License-Identifier: Apache-2.0
// The app put together: settings, engine, models, window.
#pragma once

#include <QQmlAbstractUrlInterceptor>
#include <QQmlApplicationEngine>
#include <QQmlNetworkAccessManagerFactory>
#include <QQuickWindow>
#include <QTranslator>
#include <memory>

#include "app/chat/engine/runnel_engine.h"
#include "app/chat/models/app_controller.h"

namespace runnel::chat {

struct StartOptions {
  QString model;     // empty: the one used last, or the first found
  QString library;   // empty: the user's
  QString settings;  // empty: the user's
  QString language;  // empty: as set, or the system's
  // empty: those inside the program; else a folder of QML files, for working on them
  QString views;
  bool kiosk = false;
};

class Application {
 public:
  explicit Application(const StartOptions& options);
  ~Application();

  /// Shows the window. False if the QML is broken.
  bool show();

  /// Keeps everything and stops what runs, when the window is closed.
  /// @return false if something still computes: the process then ends without waiting for it.
  bool leave();

  QQuickWindow* window() const;
  AppController& controller() { return *m_controller; }
  Settings& settings() { return m_settings; }

 private:
  void translate(const QString& language);

  const StartOptions m_options;
  Settings m_settings;
  QTranslator m_translator;
  std::unique_ptr<RunnelEngine> m_engine;
  std::unique_ptr<AppController> m_controller;
  std::unique_ptr<QQmlNetworkAccessManagerFactory> m_noNetwork;
  std::unique_ptr<QQmlAbstractUrlInterceptor> m_views;
  std::unique_ptr<QQmlApplicationEngine> m_qml;  // goes first
};

}  // namespace runnel::chat
