// SPDX-License-Identifier: Apache-2.0
// runnel-chat: talk to a model in a window.
#include <QCommandLineParser>
#include <QGuiApplication>
#include <QQuickWindow>
#include <QTimer>
#include <QUrl>
#include <cstdio>
#include <cstdlib>

#include "app/chat/application.h"
#include "app/chat/measure.h"
#include "app/chat/models/files.h"
#include "app/chat/models/resting_cursor.h"

int main(int argc, char* argv[]) {
  // Without a GPU a software OpenGL would draw every frame whole; Qt's own renderer draws what changed.
  if (qEnvironmentVariableIsEmpty("QT_QUICK_BACKEND") &&
      qEnvironmentVariableIsEmpty("QSG_RHI_BACKEND") &&
      !runnel::chat::hasGpu(QStringLiteral("/dev")))
    QQuickWindow::setGraphicsApi(QSGRendererInterface::Software);
  QGuiApplication program(argc, argv);
  QGuiApplication::setApplicationName(QStringLiteral("runnel-chat"));
  QGuiApplication::setApplicationDisplayName(QStringLiteral("Runnel Chat"));
  QGuiApplication::setApplicationVersion(QStringLiteral(RUNNEL_VERSION));
  QGuiApplication::setDesktopFileName(QStringLiteral("runnel-chat"));

  QCommandLineParser parser;
  parser.setApplicationDescription(
      QStringLiteral("Talk to a language model on this device. Uses no network."));
  parser.addHelpOption();
  parser.addVersionOption();
  const QCommandLineOption kiosk(QStringLiteral("kiosk"),
                                 QStringLiteral("Full screen with large touch targets."));
  const QCommandLineOption library(QStringLiteral("library"),
                                   QStringLiteral("Use FILE as the chat library."),
                                   QStringLiteral("FILE"));
  const QCommandLineOption settings(
      QStringLiteral("settings"), QStringLiteral("Use FILE for settings."), QStringLiteral("FILE"));
  const QCommandLineOption language(
      QStringLiteral("language"),
      QStringLiteral("Interface language, en or de (default: the system's)."),
      QStringLiteral("CODE"));
  QCommandLineOption selfTest(QStringLiteral("self-test"),
                              QStringLiteral("Show the window, then leave."));
  QCommandLineOption measuring(
      QStringLiteral("measure"),
      QStringLiteral("Measure start, first text and lateness, print JSON."));
  QCommandLineOption measuringLong(
      QStringLiteral("measure-long"),
      QStringLiteral("Import a long chat, measure opening and scrolling it, print JSON."),
      QStringLiteral("FILE"));
  QCommandLineOption doing(
      QStringLiteral("do"),
      QStringLiteral("Rename:NAME, delete, restore, import:FILE or salvage, once it runs."),
      QStringLiteral("ACT"));
  QCommandLineOption saying(QStringLiteral("say"), QStringLiteral("Send TEXT at once."),
                            QStringLiteral("TEXT"));
  QCommandLineOption views(QStringLiteral("views"), QStringLiteral("Take the QML files of FOLDER."),
                           QStringLiteral("FOLDER"));
  QCommandLineOption quitting(QStringLiteral("quit-after"),
                              QStringLiteral("Close the window after MS, say how long that took."),
                              QStringLiteral("MS"));
  quitting.setFlags(QCommandLineOption::HiddenFromHelp);
  views.setFlags(QCommandLineOption::HiddenFromHelp);
  selfTest.setFlags(QCommandLineOption::HiddenFromHelp);
  measuring.setFlags(QCommandLineOption::HiddenFromHelp);
  doing.setFlags(QCommandLineOption::HiddenFromHelp);
  measuringLong.setFlags(QCommandLineOption::HiddenFromHelp);
  saying.setFlags(QCommandLineOption::HiddenFromHelp);
  parser.addOptions({kiosk, library, settings, language, selfTest, measuring, measuringLong, doing,
                     saying, views, quitting});
  parser.addPositionalArgument(QStringLiteral("MODEL"), QStringLiteral("Model file (GGUF)."),
                               QStringLiteral("[MODEL]"));
  parser.process(program);

  runnel::chat::Application application({.model = parser.positionalArguments().value(0),
                                         .library = parser.value(library),
                                         .settings = parser.value(settings),
                                         .language = parser.value(language),
                                         .views = parser.value(views),
                                         .kiosk = parser.isSet(kiosk)});
  if (!application.show()) return 1;
  const runnel::chat::RestingCursor resting;
  if (parser.isSet(selfTest)) QTimer::singleShot(500, &program, &QGuiApplication::quit);
  if (parser.isSet(saying)) {
    runnel::chat::ChatModel& chat = *application.controller().chat();
    chat.startNew();
    chat.setDraft(parser.value(saying));
    chat.send();
  }
  if (parser.isSet(doing)) {
    runnel::chat::AppController& controller = application.controller();
    const QString act = parser.value(doing).section(u':', 0, 0);
    const qint64 last =
        application.settings().recall(QStringLiteral("conversation"), 0).toLongLong();
    if (act == QStringLiteral("rename"))
      controller.library()->rename(last, parser.value(doing).section(u':', 1));
    if (act == QStringLiteral("delete")) controller.library()->remove(last);
    if (act == QStringLiteral("import"))
      controller.library()->importFrom(QUrl::fromLocalFile(parser.value(doing).section(u':', 1)));
    if (act == QStringLiteral("salvage")) controller.act(act);
    if (act == QStringLiteral("restore"))
      QObject::connect(&controller, &runnel::chat::AppController::trashChanged, &controller,
                       &runnel::chat::AppController::undo, Qt::SingleShotConnection);
  }
  if (parser.isSet(measuring)) runnel::chat::measure(application);
  if (parser.isSet(measuringLong))
    runnel::chat::measureLong(application, parser.value(measuringLong));
  if (parser.isSet(quitting))
    QTimer::singleShot(parser.value(quitting).toInt(), application.window(), &QWindow::close);
  const int code = QGuiApplication::exec();
  if (parser.isSet(quitting)) {
    std::puts("leaving");
    std::fflush(stdout);
  }
  // A pass over a long text cannot be interrupted, and nothing that is kept depends on its end.
  if (!application.leave()) std::_Exit(code);
  return code;
}
