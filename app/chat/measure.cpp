// SPDX-License-Identifier: Apache-2.0
#include "app/chat/measure.h"

#include <time.h>
#include <unistd.h>

#include <QCoreApplication>
#include <QElapsedTimer>
#include <QFile>
#include <QQuickWindow>
#include <QTimer>
#include <QUrl>
#include <QWheelEvent>
#include <algorithm>
#include <cstdio>
#include <ctime>
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

/// Opens a long chat again and again, then turns the wheel over it. Wall times of frames, and the processor's time, which
/// a busy machine does not change.
class LongMeasurement : public QObject {
 public:
  LongMeasurement(Application& application, const QString& file)
      : m_window(*application.window()),
        m_chat(*application.controller().chat()),
        m_file(file),
        m_library(*application.controller().library()) {
    m_quiet.setSingleShot(true);
    m_quiet.setInterval(400);
    connect(&m_quiet, &QTimer::timeout, this, [this] { next(); });
    // A frame counts that was begun after the chat was there, not one that was still to be told of.
    connect(
        &m_window, &QQuickWindow::beforeSynchronizing, this,
        [this] { m_begun = m_opening && m_chat.messages()->rowCount() > 0; }, Qt::DirectConnection);
    connect(
        &m_window, &QQuickWindow::frameSwapped, this, [this] { frame(); }, Qt::QueuedConnection);
    connect(&m_chat, &ChatModel::conversationChanged, this, [this] {
      if (m_conversation == 0) m_conversation = m_chat.conversation();
    });
    // What loads the model is not counted.
    m_loading.setInterval(200);
    connect(&m_loading, &QTimer::timeout, this, [this, &application] {
      if (application.controller().models()->state() == ModelPicker::Loading) return;
      m_loading.stop();
      m_library.importFrom(QUrl::fromLocalFile(m_file));
      m_quiet.start();
    });
    m_loading.start();
  }

 private:
  static constexpr int kRounds = 5;
  static constexpr int kSteps = 120;

  static double cpuMs() { return static_cast<double>(std::clock()) * 1000.0 / CLOCKS_PER_SEC; }
  double wallMs() const { return static_cast<double>(m_clock.nsecsElapsed()) / 1e6; }

  // Nothing was drawn for a while: the step before is over.
  void next() {
    if (m_conversation == 0) {
      m_quiet.start();
    } else if (m_opening) {
      m_openCpu.push_back(cpuMs() - m_cpu);
      m_opening = false;
      m_messages = m_chat.messages()->rowCount();
      if (m_openCpu.size() == kRounds) {
        m_cpu = cpuMs();
        m_clock.start();
        m_wheeling = true;
        wheel();
      } else {
        m_chat.startNew();
        m_quiet.start();
      }
    } else if (m_chat.conversation() != 0) {
      m_chat.startNew();
      m_quiet.start();
    } else {
      m_opening = true;
      m_shown = m_begun = false;
      m_cpu = cpuMs();
      m_clock.start();
      m_chat.open(m_conversation);
      m_quiet.start();
    }
  }

  void frame() {
    if (m_wheeling) return wheel();
    if (m_opening && !m_shown && m_begun) {
      m_shown = true;
      m_openWall.push_back(wallMs());
    }
    m_quiet.start();
  }

  void wheel() {
    if (m_steps == kSteps) return report();
    ++m_steps;
    const QPointF at(m_window.width() / 2.0, m_window.height() / 2.0);
    QWheelEvent event(at, m_window.mapToGlobal(at), {}, {0, 120}, Qt::NoButton, Qt::NoModifier,
                      Qt::NoScrollPhase, false);
    QCoreApplication::sendEvent(&m_window, &event);
    m_window.update();  // a frame comes even where nothing moved
  }

  void report() {
    m_wheeling = false;
    const double wall = wallMs(), cpu = cpuMs() - m_cpu;
    std::printf(
        "{\"messages\": %d, \"open_to_first_frame_ms\": %.0f, \"open_cpu_ms\": %.0f, "
        "\"wheel_steps_per_second\": %.0f, \"wheel_cpu_ms_per_step\": %.2f}\n",
        m_messages, quantile(m_openWall, 0.5), quantile(m_openCpu, 0.5), kSteps * 1000.0 / wall,
        cpu / kSteps);
    std::fflush(stdout);
    QCoreApplication::quit();
  }

  QQuickWindow& m_window;
  ChatModel& m_chat;
  const QString m_file;
  LibraryModel& m_library;
  QTimer m_loading;
  QTimer m_quiet;
  QElapsedTimer m_clock;
  qint64 m_conversation = 0;
  double m_cpu = 0;
  bool m_opening = false;
  bool m_shown = false;
  bool m_begun = false;
  bool m_wheeling = false;
  int m_messages = 0;
  int m_steps = 0;
  std::vector<double> m_openWall;
  std::vector<double> m_openCpu;
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

void measureLong(Application& application, const QString& file) {
  new LongMeasurement(application, file);  // until the program ends
}

}  // namespace runnel::chat
