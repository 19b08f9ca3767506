// SPDX-License-Identifier: Apache-2.0
#include "app/chat/engine/document_reader.h"

#include <QCoreApplication>
#include <QDir>
#include <QFileInfo>
#include <QProcess>
#include <QProcessEnvironment>
#include <QStringList>
#include <utility>

namespace runnel::chat {

using reader::Outcome;
using reader::Why;

QString DocumentReader::findProgram() {
  const QDir here(QCoreApplication::applicationDirPath());
  for (const QString& place : {QStringLiteral("runnel-read-document"),
                               QStringLiteral("../libexec/runnel/runnel-read-document")}) {
    const QFileInfo program(here.absoluteFilePath(place));
    if (program.isFile() && program.isExecutable()) return program.canonicalFilePath();
  }
  return {};
}

DocumentReader::DocumentReader(std::optional<QString> program, const reader::Limits& limits,
                               QObject* parent)
    : QObject(parent), m_program(std::move(program)), m_limits(limits) {
  m_patience.setSingleShot(true);
  connect(&m_patience, &QTimer::timeout, this,
          [this] { fail(Why::Time, QStringLiteral("took more than %1 s").arg(m_limits.seconds)); });
}

DocumentReader::~DocumentReader() { stop(); }

void DocumentReader::stop() {
  ++m_job;
  m_thread.request_stop();
  m_patience.stop();
  m_text.clear();
  m_reason.clear();
  if (m_process == nullptr) return;
  QProcess* const process = m_process.release();
  process->disconnect();
  if (process->state() == QProcess::NotRunning) {
    process->deleteLater();
    return;
  }
  connect(process, &QProcess::finished, process, &QObject::deleteLater);
  process->kill();
}

void DocumentReader::read(const QString& file) {
  stop();
  m_file = file;
  const DocumentKind kind = documentKind(file);
  if (kind == DocumentKind::Office) {
    readByProgram();
  } else {
    readOnThread(kind);
  }
}

void DocumentReader::readOnThread(DocumentKind kind) {
  // Only `this` is touched from the thread, and only to post to it: the thread ends before it does.
  m_thread = std::jthread([this, kind, job = m_job, file = m_file](const std::stop_token& stop) {
    const auto tell = [this, job](auto&& what) {
      QMetaObject::invokeMethod(
          this,
          [this, job, what = std::forward<decltype(what)>(what)] {
            if (job == m_job) what();
          },
          Qt::QueuedConnection);
    };
    int told = -1;
    const auto progress = [&](double part) {
      const int percent = static_cast<int>(part * 100);
      if (std::exchange(told, percent) != percent) tell([this, part] { Q_EMIT progressed(part); });
    };
    Document document;
    const Outcome outcome = kind == DocumentKind::Folder
                                ? readFolder(file, {}, progress, stop, document)
                                : readTextFile(file, document);
    if (outcome.ok()) {
      tell([this, document] { Q_EMIT done(document); });
    } else {
      tell([this, outcome] { fail(outcome.why, QString::fromStdString(outcome.reason)); });
    }
  });
}

void DocumentReader::readByProgram() {
  const auto refuse = [this](Why why, const QString& reason) {
    QMetaObject::invokeMethod(
        this,
        [this, why, reason, job = m_job] {
          if (job == m_job) fail(why, reason);
        },
        Qt::QueuedConnection);
  };
  const QFileInfo file(m_file);
  if (!file.isFile()) return refuse(Why::Io, QStringLiteral("is no file"));
  if (!file.isReadable()) return refuse(Why::Io, QStringLiteral("no permission to read it"));
  const QString program = m_program ? *m_program : findProgram();
  if (program.isEmpty()) {
    return refuse(Why::NotSupported,
                  QStringLiteral("the program runnel-read-document is not beside this one: it is "
                                 "built where libzip and pugixml are"));
  }
  m_process = std::make_unique<QProcess>();
  QProcess& process = *m_process;
  // What a document could make known of its reader's surroundings is nothing.
  const QProcessEnvironment mine = QProcessEnvironment::systemEnvironment();
  QProcessEnvironment environment;
  environment.insert(QStringLiteral("LC_ALL"), QStringLiteral("C.UTF-8"));
  for (const QString& name : {QStringLiteral("PATH"), QStringLiteral("LD_LIBRARY_PATH")}) {
    if (mine.contains(name)) environment.insert(name, mine.value(name));
  }
  process.setProcessEnvironment(environment);
  process.setStandardInputFile(m_file);
  connect(&process, &QProcess::readyReadStandardOutput, this, &DocumentReader::takeText);
  connect(&process, &QProcess::readyReadStandardError, this, &DocumentReader::takeErrors);
  connect(&process, &QProcess::finished, this, &DocumentReader::onEnded);
  connect(&process, &QProcess::errorOccurred, this, [this](QProcess::ProcessError error) {
    if (error == QProcess::FailedToStart) fail(Why::Io, m_process->errorString());
  });
  // It minds its time itself; this is for one that does not.
  constexpr int kGraceMs = 2000;
  m_patience.start(m_limits.seconds * 1000 + kGraceMs);
  process.start(program,
                {QStringLiteral("--seconds"), QString::number(m_limits.seconds),
                 QStringLiteral("--megabytes"), QString::number(m_limits.memoryBytes >> 20)});
}

void DocumentReader::takeText() {
  if (m_process == nullptr) return;
  m_text += m_process->readAllStandardOutput();
  if (static_cast<std::size_t>(m_text.size()) > m_limits.textBytes) {
    fail(Why::TooLarge,
         QStringLiteral("has more than %1 MB of text").arg(m_limits.textBytes >> 20));
  }
}

void DocumentReader::takeErrors() {
  constexpr qint64 kLongestLine = 4096;
  double part = -1;
  m_process->setReadChannel(QProcess::StandardError);
  while (m_process->canReadLine()) {
    const QString line = QString::fromUtf8(m_process->readLine(kLongestLine)).trimmed();
    const QStringList words = line.split(u' ');
    if (words.size() == 3 && words.at(0) == QStringLiteral("progress")) {
      const double total = words.at(2).toDouble();
      if (total > 0) part = qBound(0.0, words.at(1).toDouble() / total, 1.0);
    } else {
      m_reason = line;
    }
  }
  if (m_process->bytesAvailable() > kLongestLine) m_process->readAllStandardError();
  if (part >= 0) Q_EMIT progressed(part);  // who hears it may stop all of this
}

void DocumentReader::onEnded() {
  takeErrors();
  takeText();
  if (m_process == nullptr) return;  // it was stopped, or is too long
  if (m_process->exitStatus() != QProcess::NormalExit) {
    fail(Why::Damaged, QStringLiteral("its reader crashed"));
    return;
  }
  const int code = m_process->exitCode();
  if (code != 0) {
    fail(static_cast<Why>(code), m_reason);
    return;
  }
  const Document document{.file = m_file, .text = QString::fromUtf8(m_text)};
  stop();
  Q_EMIT done(document);
}

void DocumentReader::fail(Why why, const QString& reason) {
  const NoDocument told{m_file, why, reason};
  stop();
  Q_EMIT failed(told);
}

}  // namespace runnel::chat
