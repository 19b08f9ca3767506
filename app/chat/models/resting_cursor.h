// SPDX-License-Identifier: Apache-2.0
// A text cursor that blinks draws the window twice a second for as long as it is open: most of what an idle window
// costs. It stops blinking, visible, a while after the last key or touch.
#pragma once

#include <QCoreApplication>
#include <QEvent>
#include <QGuiApplication>
#include <QObject>
#include <QStyleHints>
#include <QTimer>
#include <chrono>

namespace runnel::chat {

/// While it lives, of the whole program.
class RestingCursor : public QObject {
 public:
  explicit RestingCursor(std::chrono::milliseconds after = std::chrono::seconds(10))
      : m_flashTime(QGuiApplication::styleHints()->cursorFlashTime()) {
    m_timer.setSingleShot(true);
    m_timer.setInterval(after);
    connect(&m_timer, &QTimer::timeout, this,
            [] { QGuiApplication::styleHints()->setCursorFlashTime(0); });
    m_timer.start();
    QCoreApplication::instance()->installEventFilter(this);
  }
  ~RestingCursor() override { QGuiApplication::styleHints()->setCursorFlashTime(m_flashTime); }

  bool eventFilter(QObject* /*watched*/, QEvent* event) override {
    switch (event->type()) {
      case QEvent::KeyPress:
      case QEvent::InputMethod:
      case QEvent::MouseButtonPress:
      case QEvent::TouchBegin:
      case QEvent::ApplicationStateChange:
        if (!m_timer.isActive()) QGuiApplication::styleHints()->setCursorFlashTime(m_flashTime);
        m_timer.start();
        break;
      default:
        break;
    }
    return false;
  }

 private:
  const int m_flashTime;
  QTimer m_timer;
};

}  // namespace runnel::chat
