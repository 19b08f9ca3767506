// SPDX-License-Identifier: Apache-2.0
#include "app/chat/measure.h"

#include <time.h>
#include <unistd.h>

#include <QCoreApplication>
#include <QElapsedTimer>
#include <QFile>
#include <QQuickWindow>
#include <QTimer>
#include <algorithm>
#include <cstdio>
#include <vector>

#include "app/chat/application.h"

namespace runnel::chat {
namespace {

constexpr int kTickMs = 5;
constexpr int kAnswers = 4;

double quantile(std::vector<double>& values, double q) {
  if (values.empty()) return 0.0;
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1))];
}

class Measurement : public QObject {
 public:
  explicit Measurement(Application& application)
      : m_chat(*application.controller().chat()), m_models(*application.controller().models()) {
    connect(
        application.window(), &QQuickWindow::frameSwapped, this,
        [this] {
          if (m_start == 0) m_start = secondsSinceExec();
        },
        Qt::QueuedConnection);
    m_timer.setTimerType(Qt::PreciseTimer);
    m_timer.setInterval(kTickMs);
    connect(&m_timer, &QTimer::timeout, this, [this] { tick(); });
    connect(&m_chat, &ChatModel::stateChanged, this, [this] {
      if (m_chat.state() == ChatModel::Writing && m_firstShown == 0)
        m_firstShown = static_cast<double>(m_sent.nsecsElapsed()) / 1e6;
    });
    connect(&m_chat, &ChatModel::answered, this, [this] {
      m_timer.stop();
      m_first.push_back(m_firstShown);
      m_rate.push_back(m_chat.tokensPerSecond());
      // The next message once this answer's last frame is shown.
      QTimer::singleShot(300, this, [this] { next(); });
    });
    m_waiting.setInterval(50);
    connect(&m_waiting, &QTimer::timeout, this, [this] {
      if (m_start == 0 || m_models.state() != ModelPicker::Loaded) return;
      m_waiting.stop();
      next();
    });
    m_waiting.start();
  }

 private:
  void next() {
    if (m_first.size() == kAnswers) {
      report();
      QCoreApplication::quit();
      return;
    }
    m_firstShown = 0;
    m_sent.start();
    m_expected = -1;
    m_timer.start();
    m_chat.setDraft(
        QStringLiteral("Write a long story about a river and the people who live by it. "
                       "Use a list and some code."));
    m_chat.send();
  }

  void tick() {
    const double now = static_cast<double>(m_sent.nsecsElapsed()) / 1e6;
    // Later than kTickMs after the one before: the event loop was held up.
    if (m_expected >= 0 && m_chat.state() == ChatModel::Writing)
      m_late.push_back(std::max(0.0, now - m_expected));
    m_expected = now + kTickMs;
  }

  void report() {
    const double p50 = quantile(m_late, 0.5);
    const double p99 = quantile(m_late, 0.99);
    const double most = quantile(m_late, 1.0);
    const std::size_t samples = m_late.size();
    std::printf(
        "{\"start_to_first_frame_s\": %.2f, \"send_to_first_text_ms\": {\"first\": %.0f, "
        "\"median\": %.0f, \"worst\": %.0f}, \"tokens_per_second\": %.0f, "
        "\"timer_lateness_ms\": {\"samples\": %zu, \"p50\": %.1f, \"p99\": %.1f, "
        "\"worst\": %.1f}}\n",
        m_start, m_first.front(), quantile(m_first, 0.5), quantile(m_first, 1.0),
        quantile(m_rate, 0.5), samples, p50, p99, most);
    std::fflush(stdout);
  }

  ChatModel& m_chat;
  ModelPicker& m_models;
  QTimer m_timer;
  QTimer m_waiting;
  QElapsedTimer m_sent;
  double m_start = 0;
  double m_expected = -1;
  double m_firstShown = 0;
  std::vector<double> m_late;
  std::vector<double> m_first;
  std::vector<double> m_rate;
};

}  // namespace

double secondsSinceExec() {
  QFile file(QStringLiteral("/proc/self/stat"));
  if (!file.open(QIODevice::ReadOnly)) return -1;
  const QByteArray stat = file.readAll();
  // Field 22, counted from behind the name, which may hold spaces.
  const QList<QByteArray> fields = stat.mid(stat.lastIndexOf(')') + 2).split(' ');
  timespec now = {};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9 -
         fields.value(19).toDouble() / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

void measure(Application& application) {
  new Measurement(application);  // until the program ends
}

}  // namespace runnel::chat
