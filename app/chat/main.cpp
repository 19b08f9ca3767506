// SPDX-License-Identifier: Apache-2.0
// runnel-chat: talk to a model in a window.
#include <QCommandLineParser>
#include <QGuiApplication>
#include <QTimer>

#include "app/chat/application.h"
#include "app/chat/measure.h"

int main(int argc, char* argv[]) {
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
  const QCommandLineOption kiosk(
      QStringLiteral("kiosk"), QStringLiteral("Fill the screen, with everything large to touch."));
  const QCommandLineOption library(QStringLiteral("library"),
                                   QStringLiteral("Keep conversations in FILE."),
                                   QStringLiteral("FILE"));
  const QCommandLineOption settings(
      QStringLiteral("settings"), QStringLiteral("Keep settings in FILE."), QStringLiteral("FILE"));
  const QCommandLineOption language(QStringLiteral("language"),
                                    QStringLiteral("en or de, instead of the system's."),
                                    QStringLiteral("CODE"));
  QCommandLineOption selfTest(QStringLiteral("self-test"),
                              QStringLiteral("Show the window, then leave."));
  QCommandLineOption measuring(
      QStringLiteral("measure"),
      QStringLiteral("Measure start, first text and lateness, print JSON."));
  QCommandLineOption saying(QStringLiteral("say"), QStringLiteral("Send TEXT at once."),
                            QStringLiteral("TEXT"));
  QCommandLineOption views(QStringLiteral("views"), QStringLiteral("Take the QML files of FOLDER."),
                           QStringLiteral("FOLDER"));
  views.setFlags(QCommandLineOption::HiddenFromHelp);
  selfTest.setFlags(QCommandLineOption::HiddenFromHelp);
  measuring.setFlags(QCommandLineOption::HiddenFromHelp);
  saying.setFlags(QCommandLineOption::HiddenFromHelp);
  parser.addOptions({kiosk, library, settings, language, selfTest, measuring, saying, views});
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
  if (parser.isSet(selfTest)) QTimer::singleShot(500, &program, &QGuiApplication::quit);
  if (parser.isSet(saying)) {
    runnel::chat::ChatModel& chat = *application.controller().chat();
    chat.startNew();
    chat.setDraft(parser.value(saying));
    chat.send();
  }
  if (parser.isSet(measuring)) runnel::chat::measure(application);
  return QGuiApplication::exec();
}
