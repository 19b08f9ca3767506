// SPDX-License-Identifier: Apache-2.0
#include "app/chat/models/app_controller.h"

#include <QClipboard>
#include <QCoreApplication>
#include <QDesktopServices>
#include <QFileInfo>
#include <QGuiApplication>
#include <QUrl>
#include <utility>

namespace runnel::chat {
namespace {

constexpr const char* kInstance = "runnelApp";  // a dynamic property of the QML engine

}  // namespace

QString inWords(const Problem& problem) {
  switch (problem.code) {
    case ErrorCode::not_found:
      return QCoreApplication::translate(
          "Runnel",
          "Something is missing. Choose a model file, or look whether the file was moved.");
    case ErrorCode::io:
      return QCoreApplication::translate(
          "Runnel", "The disk refused to read or write. Look for free space and permissions.");
    case ErrorCode::malformed:
      return QCoreApplication::translate(
          "Runnel", "This file is damaged or not what its name says. Fetch it again.");
    case ErrorCode::unsupported:
      return QCoreApplication::translate(
          "Runnel", "This file is fine, but this version cannot run it. Choose another model.");
    case ErrorCode::mismatch:
      return QCoreApplication::translate("Runnel", "This belongs to another model or version.");
    case ErrorCode::out_of_memory:
      return QCoreApplication::translate(
          "Runnel", "Not enough memory. Close other programs or choose a smaller model.");
    case ErrorCode::device:
      return QCoreApplication::translate("Runnel",
                                         "The device failed. Choose another device, or try again.");
    case ErrorCode::cancelled:
      return QCoreApplication::translate("Runnel", "Stopped.");
    case ErrorCode::invalid_argument:
      return QCoreApplication::translate(
          "Runnel", "A setting is outside its range. Reset the sampling settings.");
    case ErrorCode::internal:
      break;
  }
  return QCoreApplication::translate("Runnel",
                                     "Something went wrong inside. Please report the details.");
}

AppController::AppController(ChatEngine& engine, Settings& settings, AppOptions options,
                             QObject* parent)
    : QObject(parent),
      m_engine(engine),
      m_settings(settings),
      m_options(std::move(options)),
      m_chat(engine, settings),
      m_library(engine),
      m_models(engine, settings, m_options.modelFolders) {
  connect(&m_chat, &ChatModel::libraryChanged, &m_library, &LibraryModel::refresh);
  connect(&m_chat, &ChatModel::failed, this, [this](const Problem& p) {
    if (p.code != ErrorCode::device || !m_models.fallBack(p)) show(p);
  });
  connect(&m_chat, &ChatModel::warned, this, [this](const QString& warning) {
    show({ErrorCode::io, warning});
  });
  connect(&m_models, &ModelPicker::failed, this, [this](const Problem& p) { show(p); });
  connect(&m_models, &ModelPicker::fellBack, this, [this](const Problem& p) {
    show(p, p.code == ErrorCode::out_of_memory
                ? QCoreApplication::translate("Runnel",
                                              "The device has too little memory for this model, so "
                                              "it runs on the CPU. Choose a smaller model, or "
                                              "another device under Models.")
                : QCoreApplication::translate("Runnel",
                                              "The device cannot be used, so the model runs on the "
                                              "CPU. Look at its driver, or choose another device "
                                              "under Models."));
  });
  connect(&engine, &ChatEngine::libraryFailed, this, [this](const Problem& p) { show(p); });
  connect(&engine, &ChatEngine::deleted, this,
          [this](qint64 conversation, qint64 message, qint64 trash) {
            const bool whole = message == 0;
            if (whole && conversation == m_chat.conversation()) m_chat.forget();
            say(whole ? QCoreApplication::translate("Runnel", "Chat deleted.")
                      : QCoreApplication::translate("Runnel", "Deleted from there on."));
            m_trash = trash;
            m_somethingInTrash = true;
            m_trashConversation = conversation;
            Q_EMIT noticeChanged();
          });
  connect(&engine, &ChatEngine::undone, this, [this](qint64 conversation) {
    if (conversation == m_chat.conversation()) {
      m_chat.reload();
    } else {
      m_chat.open(conversation);
    }
  });
  connect(&engine, &ChatEngine::exported, this, [this](const QString& file) {
    say(QCoreApplication::translate("Runnel", "Exported to %1").arg(file));
  });
  connect(&engine, &ChatEngine::imported, this, [this](qint64 conversation) {
    m_chat.open(conversation);
    say(QCoreApplication::translate("Runnel", "Imported."));
  });
  int budget = settings.budgetMegabytes;
  connect(&settings, &Settings::changed, this, [this, budget]() mutable {
    if (budget == m_settings.budgetMegabytes) return;
    budget = m_settings.budgetMegabytes;
    m_engine.setBudget(static_cast<quint64>(budget) * 1'000'000);
  });
}

AppController::~AppController() = default;

void AppController::attach(QQmlEngine& engine) {
  engine.setProperty(kInstance, QVariant::fromValue<QObject*>(this));
}

AppController* AppController::create(QQmlEngine* engine, QJSEngine*) {
  auto* instance = qobject_cast<AppController*>(engine->property(kInstance).value<QObject*>());
  QQmlEngine::setObjectOwnership(instance, QQmlEngine::CppOwnership);
  return instance;
}

void AppController::start() {
  m_library.refresh();
  if (!m_models.loadInitial()) {
    show({ErrorCode::not_found, {}},
         QCoreApplication::translate("Runnel",
                                     "No model was found. Choose a GGUF file under Models."));
  }
  const qint64 last = m_settings.recall(QStringLiteral("conversation"), 0).toLongLong();
  if (last != 0) m_chat.open(last);
  m_engine.emptyTrash();  // what could not be undone any more when the app ended
}

void AppController::show(const Problem& problem, const QString& words) {
  m_trash = 0;
  m_notice = words.isEmpty() ? inWords(problem) : words;
  m_details = problem.message;
  m_problem = true;
  Q_EMIT noticeChanged();
}

void AppController::say(const QString& notice) {
  m_trash = 0;
  m_notice = notice;
  m_details.clear();
  m_problem = false;
  Q_EMIT noticeChanged();
}

void AppController::undo() {
  if (m_trash == 0) return;
  m_engine.undoDelete(m_trashConversation, m_trash);  // before the rest of the trash goes
  dismissNotice();
}

void AppController::dismissNotice() {
  m_trash = 0;
  if (std::exchange(m_somethingInTrash, false)) m_engine.emptyTrash();
  m_notice.clear();
  m_details.clear();
  m_problem = false;
  Q_EMIT noticeChanged();
}

void AppController::copy(const QString& text) {
  QGuiApplication::clipboard()->setText(text);
  say(QCoreApplication::translate("Runnel", "Copied."));
}

bool AppController::isWebLink(const QString& link) const {
  const QString scheme = QUrl(link).scheme();
  return scheme == QStringLiteral("http") || scheme == QStringLiteral("https") ||
         scheme == QStringLiteral("mailto");
}

void AppController::openLink(const QString& link) {
  if (isWebLink(link)) QDesktopServices::openUrl(QUrl(link));
}

void AppController::drop(const QUrl& file) {
  if (file.toLocalFile().endsWith(QStringLiteral(".json"), Qt::CaseInsensitive)) {
    m_library.importFrom(file);
  } else if (!m_models.add(file)) {
    show({ErrorCode::unsupported, file.toString()},
         QCoreApplication::translate("Runnel",
                                     "Drop a model (.gguf) or an exported chat (.json) here."));
  }
}

}  // namespace runnel::chat
