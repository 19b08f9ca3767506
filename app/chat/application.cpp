// SPDX-License-Identifier: Apache-2.0
#include "app/chat/application.h"

#include <QCoreApplication>
#include <QDir>
#include <QFileInfo>
#include <QLocale>
#include <QLoggingCategory>
#include <QNetworkAccessManager>
#include <QNetworkReply>
#include <QQmlNetworkAccessManagerFactory>
#include <QQuickWindow>
#include <QStandardPaths>
#include <QTimer>

namespace runnel::chat {
namespace {

Q_LOGGING_CATEGORY(logged, "runnel.chat", QtWarningMsg)

// Whatever text an answer holds, nothing in it may reach out: every request fails at once.
class RefusedReply : public QNetworkReply {
 public:
  RefusedReply(const QNetworkRequest& request, QObject* parent) : QNetworkReply(parent) {
    setRequest(request);
    setUrl(request.url());
    setError(ContentAccessDenied, QStringLiteral("this program uses no network"));
    setFinished(true);
    QTimer::singleShot(0, this, &QNetworkReply::finished);
  }
  void abort() override {}
  qint64 readData(char*, qint64) override { return -1; }
};

class NoNetwork : public QNetworkAccessManager {
 public:
  using QNetworkAccessManager::QNetworkAccessManager;

 protected:
  QNetworkReply* createRequest(Operation, const QNetworkRequest& request, QIODevice*) override {
    return new RefusedReply(request, this);
  }
};

class NoNetworkFactory : public QQmlNetworkAccessManagerFactory {
 public:
  QNetworkAccessManager* create(QObject* parent) override { return new NoNetwork(parent); }
};

// Views from a folder that has a qmldir, so that they can be worked on without building.
class ViewsFrom : public QQmlAbstractUrlInterceptor {
 public:
  explicit ViewsFrom(const QString& folder) : m_folder(QDir(folder).absolutePath()) {}
  QUrl intercept(const QUrl& url, DataType type) override {
    const QString inside = QStringLiteral("/qt/qml/Runnel/Chat/");
    if (type != QmlFile || url.scheme() != QStringLiteral("qrc") || !url.path().startsWith(inside))
      return url;
    return QUrl::fromLocalFile(m_folder + u'/' + url.path().mid(inside.size()));
  }

 private:
  const QString m_folder;
};

QString dataFolder() {
  return QStandardPaths::writableLocation(QStandardPaths::GenericDataLocation) +
         QStringLiteral("/runnel");
}

QString settingsFile() {
  return QStandardPaths::writableLocation(QStandardPaths::GenericConfigLocation) +
         QStringLiteral("/runnel/chat.ini");
}

// A build directory lies in the source tree: build/cpu/bin/runnel-chat finds ../../../models.
QStringList modelFolders() {
  QStringList folders = {dataFolder() + QStringLiteral("/models"), dataFolder()};
  QDir directory(QCoreApplication::applicationDirPath());
  folders.push_back(directory.absoluteFilePath(QStringLiteral("../share/runnel")));
  for (int levels = 0; levels < 4; ++levels) {
    folders.push_back(directory.absoluteFilePath(QStringLiteral("models")));
    if (!directory.cdUp()) break;
  }
  folders += {QStringLiteral("/usr/local/share/runnel"), QStringLiteral("/usr/share/runnel")};
  return folders;
}

}  // namespace

Application::Application(const StartOptions& options)
    : m_options(options),
      m_settings(options.settings.isEmpty() ? settingsFile() : options.settings) {
  const QString model =
      options.model.isEmpty() ? QString() : QDir().absoluteFilePath(options.model);
  if (QFileInfo::exists(model))
    m_settings.modelFile = model;  // else it is said, and the one used last loads
  translate(options.language.isEmpty() ? m_settings.language : options.language);
  const QString library = options.library.isEmpty()
                              ? dataFolder() + QStringLiteral("/conversations.db")
                              : options.library;
  m_engine = std::make_unique<RunnelEngine>(
      library.toStdString(), static_cast<quint64>(m_settings.budgetMegabytes) * 1'000'000);
  m_controller = std::make_unique<AppController>(*m_engine, m_settings,
                                                 AppOptions{.modelFolders = modelFolders(),
                                                            .kiosk = options.kiosk,
                                                            .wantedModel = model,
                                                            .library = library});
  // The model loads while the window is being made.
  m_controller->start();
}

Application::~Application() = default;

void Application::translate(const QString& language) {
  const QLocale locale = language.isEmpty() ? QLocale::system() : QLocale(language);
  QLocale::setDefault(locale);
  if (m_translator.load(locale, QStringLiteral("runnel_chat"), QStringLiteral("_"),
                        QStringLiteral(":/i18n"))) {
    QCoreApplication::installTranslator(&m_translator);
  }
  qCInfo(logged).noquote() << "language" << locale.name()
                           << QCoreApplication::translate("LibraryPane", "Settings");
}

bool Application::leave() {
  constexpr int kSoonMs = 100;  // what is only read; the rest has its own time
  m_controller->chat()->saveDraft();
  m_settings.save();
  return m_engine->leave(QDeadlineTimer(kSoonMs));
}

bool Application::show() {
  m_noNetwork = std::make_unique<NoNetworkFactory>();
  m_qml = std::make_unique<QQmlApplicationEngine>();
  m_qml->setNetworkAccessManagerFactory(m_noNetwork.get());
  if (!m_options.views.isEmpty()) {
    m_views = std::make_unique<ViewsFrom>(m_options.views);
    m_qml->addUrlInterceptor(m_views.get());
  }
  m_qml->addImportPath(QStringLiteral("qrc:/qt/qml"));
  m_controller->attach(*m_qml);
  m_qml->load(QUrl(QStringLiteral("qrc:/qt/qml/Runnel/Chat/Main.qml")));
  return window() != nullptr;
}

QQuickWindow* Application::window() const {
  const QList<QObject*> roots = m_qml ? m_qml->rootObjects() : QList<QObject*>();
  return roots.isEmpty() ? nullptr : qobject_cast<QQuickWindow*>(roots.first());
}

}  // namespace runnel::chat
