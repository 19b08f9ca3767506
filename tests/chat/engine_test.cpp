// SPDX-License-Identifier: Apache-2.0
// The real engine with the default model: two threads, a library on disk.
#include <QAbstractItemModelTester>
#include <QDateTime>
#include <QElapsedTimer>
#include <QFile>
#include <QFileInfo>
#include <QJsonDocument>
#include <QJsonObject>
#include <QProcess>
#include <QSignalSpy>
#include <QTest>
#include <algorithm>
#include <array>

#include "app/chat/engine/library_worker.h"
#include "runtime/io/gguf.h"
#include "runtime/store/sqlite.h"
#include "tests/chat/engine_fixture.h"
#include "tests/chat/reader/sample_pdf.h"
#include "tests/chat/suites.h"
#include "tests/support/chat_model.h"
#include "tests/support/initial_state.h"
#include "tests/support/loaded_model.h"

namespace runnel::chat {

class EngineTest : public EngineFixture {
  Q_OBJECT

 private Q_SLOTS:
  void answersStreamsKeepsAndReopens() {
    QSignalSpy pieces(m_engine.get(), &ChatEngine::textWritten);
    say(QStringLiteral("What is the capital of France?"));
    QVERIFY(pieces.count() >= 1);
    QCOMPARE(m_app->notice(), QString());
    const QString answer = textAt(1);
    QVERIFY(!answer.isEmpty());
    QVERIFY(chat().firstTokenMs() > 0);
    QVERIFY(chat().position() > 10);
    QCOMPARE(m_app->models()->stepProgram(), QStringLiteral("ops"));  // of a CPU
    leave();
    start();
    QTRY_COMPARE_WITH_TIMEOUT(chat().messages()->rowCount(), 2, kTimeoutMs);
    QCOMPARE(textAt(1), answer);
    say(QStringLiteral("And of Italy?"));  // goes on from the snapshot
    QCOMPARE(chat().messages()->rowCount(), 4);
  }

  void anotherSystemPromptIsReadFromTheStartAndTheOldBranchStaysExact() {
    say(QStringLiteral("Name a colour."));
    const qint64 answer = idAt(1);
    const QString first = textAt(1);
    QVERIFY(chat().setSystemPrompt(QStringLiteral("You answer in French.")));
    QTRY_COMPARE_WITH_TIMEOUT(chat().messages()->rowCount(), 3, kTimeoutMs);
    QCOMPARE(textAt(0), QStringLiteral("You answer in French."));
    QCOMPARE(textAt(2), first);
    QVERIFY(idAt(2) != answer);
    QSignalSpy reports(m_engine.get(), &ChatEngine::answered);
    say(QStringLiteral("And another?"));
    QVERIFY(reports.last().at(1).value<AnswerReport>().read > 10);
    leave();
    start();
    QTRY_COMPARE_WITH_TIMEOUT(chat().messages()->rowCount(), 5, kTimeoutMs);
    QCOMPARE(chat().systemPrompt(), QStringLiteral("You answer in French."));
    // The branch that was left is there with its states.
    chat().rewind(answer);
    QCOMPARE(chat().systemPrompt(), QString());
    QCOMPARE(textAt(1), first);
    QSignalSpy again(m_engine.get(), &ChatEngine::answered);
    chat().regenerate(answer);
    QTRY_COMPARE_WITH_TIMEOUT(again.count(), 1, kTimeoutMs);
    QCOMPARE(textAt(1), first);
    QCOMPARE(again.at(0).at(1).value<AnswerReport>().again, 0);
  }

  void aChatsSettingsSurviveARestartAndGoAlongInAnExport() {
    chat().own()->chooseMaxTokens(5);
    chat().own()->chooseSampling(QStringLiteral("temperature"), 0.0);
    say(QStringLiteral("Count to twenty."));
    QCOMPARE(m_app->settings()->maxTokens, 12);
    QSignalSpy reports(m_engine.get(), &ChatEngine::answered);
    chat().regenerate(idAt(1));
    QVERIFY(reports.wait(kTimeoutMs));
    QVERIFY(reports.last().at(1).value<AnswerReport>().written <= 5);
    leave();
    start();
    QTRY_COMPARE_WITH_TIMEOUT(chat().own()->maxTokens(), 5, kTimeoutMs);
    QCOMPARE(chat().own()->sampling().value(QStringLiteral("temperature")).toDouble(), 0.0);
    const qint64 first = chat().conversation();
    const QString file = m_folder.filePath(QStringLiteral("own.json"));
    QSignalSpy exported(m_engine.get(), &ChatEngine::exported);
    m_app->library()->exportTo(first, file);
    QVERIFY(exported.wait(kTimeoutMs));
    m_app->library()->importFrom(QUrl::fromLocalFile(file));
    QTRY_VERIFY_WITH_TIMEOUT(chat().conversation() != first, kTimeoutMs);
    QTRY_COMPARE_WITH_TIMEOUT(chat().own()->maxTokens(), 5, kTimeoutMs);
  }

  void aChatOpensWithItsOwnModelOrSaysThatItIsMissing() {
    const QString other = m_folder.filePath(QStringLiteral("other.gguf"));
    QVERIFY(QFile::copy(kModel, other));
    QTRY_COMPARE_WITH_TIMEOUT(m_app->models()->state(), ModelPicker::Loaded, kTimeoutMs);
    QSignalSpy loaded(m_engine.get(), &ChatEngine::modelLoaded);
    chat().own()->chooseModel(other);
    QVERIFY(loaded.wait(kTimeoutMs));
    QCOMPARE(loaded.last().at(0).value<LoadedModel>().file, other);
    say(QStringLiteral("Name a colour."));
    const qint64 mine = chat().conversation();
    QCOMPARE(m_settings->modelFile, kModel);
    chat().startNew();
    QTRY_COMPARE_WITH_TIMEOUT(loaded.last().at(0).value<LoadedModel>().file, kModel, kTimeoutMs);
    chat().open(mine);
    QTRY_COMPARE_WITH_TIMEOUT(loaded.last().at(0).value<LoadedModel>().file, other, kTimeoutMs);
    leave();
    QVERIFY(QFile::remove(other));
    start();
    QTRY_VERIFY_WITH_TIMEOUT(m_app->notice().contains(QStringLiteral("Can't find other.gguf")),
                             kTimeoutMs);
    say(QStringLiteral("And another?"));
    QCOMPARE(chat().messages()->rowCount(), 4);
  }

  void foldersAreSeenInTheOtherWindowWithinASecond() {
    say(QStringLiteral("Name a colour."));
    const qint64 mine = chat().conversation();
    RunnelEngine other(m_folder.filePath(QStringLiteral("%1.db").arg(m_libraries)).toStdString(),
                       1'000'000'000);
    LibraryModel library(other);
    library.refresh();
    QTRY_COMPARE_WITH_TIMEOUT(library.rowCount(), 1, kTimeoutMs);
    QTest::qWait(600);  // it looks from now on
    m_app->library()->addFolder(QStringLiteral("Work"), mine);
    QTRY_COMPARE_WITH_TIMEOUT(library.rowCount(), 2, 1000);
    QVERIFY(library.folderOf(mine) != 0);
    m_app->library()->foldFolder(library.folderOf(mine), true);
    QTRY_COMPARE_WITH_TIMEOUT(library.rowCount(), 1, 1000);
    leave();
    start();
    QTRY_COMPARE_WITH_TIMEOUT(m_app->library()->rowCount(), 1, kTimeoutMs);
    QCOMPARE(m_app->library()->data(m_app->library()->index(0), LibraryModel::NameRole).toString(),
             QStringLiteral("Work"));
  }

  void theTourIsTakenOnARealChat() {
    Tour& tour = *m_app->tour();
    QTRY_VERIFY_WITH_TIMEOUT(tour.offered(), kTimeoutMs);
    tour.begin();
    const auto send = [this] {
      QSignalSpy answered(&chat(), &ChatModel::answered);
      QVERIFY(chat().send());
      QVERIFY(answered.wait(kTimeoutMs));
    };
    send();
    QCOMPARE(tour.stage(), Tour::AskMore);
    send();
    QCOMPARE(tour.stage(), Tour::GoBack);
    chat().rewind(tour.place());
    QCOMPARE(tour.stage(), Tour::AskOther);
    send();
    QCOMPARE(tour.stage(), Tour::Return);
    chat().goBack();
    QCOMPARE(tour.stage(), Tour::Done);
    const qint64 mine = chat().conversation();
    QTRY_COMPARE_WITH_TIMEOUT(chat().title(), QStringLiteral("A short tour"), kTimeoutMs);
    QCOMPARE(contentOf(mine).size(), 8);  // prompt, three questions and answers, where it stands
    tour.removeChat();
    QTRY_COMPARE_WITH_TIMEOUT(m_app->trash().size(), 1, kTimeoutMs);
    QVERIFY(!tour.active());
    leave();
    start();
    QTRY_VERIFY_WITH_TIMEOUT(m_app->library()->ready(), kTimeoutMs);
    QVERIFY(!m_app->tour()->offered());
  }

  void theSameSeedRegeneratesTheSameAnswerFromTheSnapshot() {
    say(QStringLiteral("Name a colour."));
    const QString first = textAt(1);
    QSignalSpy reports(m_engine.get(), &ChatEngine::answered);
    chat().regenerate(idAt(1));
    QVERIFY(reports.wait(kTimeoutMs));
    QCOMPARE(textAt(1), first);
    QCOMPARE(reports.first().at(1).value<AnswerReport>().again, 0);
    QCOMPARE(chat().messages()->index(1).data(MessageModel::AlternativesRole).toInt(), 2);
  }

  void branchesAreOnTheTimelineAndAClickGoesBackThere() {
    TimelineModel* timeline = chat().timeline();
    const QAbstractItemModelTester tester(timeline);
    const QAbstractItemModelTester messages(chat().messages());
    say(QStringLiteral("Name a colour."));
    const qint64 first = idAt(1);
    say(QStringLiteral("Another."));
    QCOMPARE(timeline->rowCount(), 4);
    QCOMPARE(timeline->lanes(), 1);
    chat().rewind(first);
    QCOMPARE(chat().messages()->rowCount(), 2);
    QCOMPARE(timeline->headRow(), 1);
    QSignalSpy reports(m_engine.get(), &ChatEngine::answered);
    say(QStringLiteral("And an animal."));
    // From the snapshot, not its text.
    QCOMPARE(reports.first().at(1).value<AnswerReport>().again, 0);
    QCOMPARE(chat().messages()->rowCount(), 4);
    QCOMPARE(timeline->rowCount(), 6);
    QCOMPARE(timeline->lanes(), 2);
    leave();
    start();
    QTRY_COMPARE_WITH_TIMEOUT(chat().timeline()->rowCount(), 6, kTimeoutMs);
    QCOMPARE(chat().timeline()->lanes(), 2);
    QCOMPARE(chat().timeline()->headRow(), 5);
  }

  void textComesThirtyTimesASecondAtMost() {
    m_settings->maxTokens = 200;
    QVector<qint64> at;  // ms
    QObject here;        // ends the connection
    QElapsedTimer clock;
    clock.start();
    connect(m_engine.get(), &ChatEngine::textWritten, &here,
            [&] { at.push_back(clock.elapsed()); });
    QSignalSpy reports(m_engine.get(), &ChatEngine::answered);
    say(QStringLiteral("Tell a long story about a river."));
    const qint64 written = reports.first().at(1).value<AnswerReport>().written;
    QVERIFY(at.size() >= 2);
    // The first and the last piece need not be full, and any may be late.
    QVERIFY2(at.size() <= (at.last() - at.first()) / 33 + 5,
             qPrintable(QString::number(at.size())));
    QVERIFY(at.size() <= written);
  }

  void theLibraryFindsRenamesPinsDeletesAndUndoes() {
    LibraryModel* library = m_app->library();
    const QAbstractItemModelTester tester(library);
    const auto name = [&] { return library->index(0).data(LibraryModel::NameRole).toString(); };
    say(QStringLiteral("Where do whales go in winter?"));
    const qint64 id = chat().conversation();
    QTRY_COMPARE(library->rowCount(), 1);
    library->rename(id, QStringLiteral("Sea"));
    QTRY_COMPARE(name(), QStringLiteral("Sea"));
    library->setQuery(QStringLiteral("whale"));
    QTRY_VERIFY(library->rowCount() >= 1 &&
                library->index(0).data(LibraryModel::MessageRole).toLongLong() > 0);
    library->setQuery({});
    library->pin(id, true);
    QTRY_COMPARE(library->index(0).data(LibraryModel::SectionRole).toString(),
                 QStringLiteral("pinned"));
    const QStringList before = contentOf(id);
    library->remove(id);
    QTRY_COMPARE(library->rowCount(), 0);
    QTRY_VERIFY(m_app->canUndo());
    QCOMPARE(chat().conversation(), 0);
    m_app->undo();
    QTRY_COMPARE(library->rowCount(), 1);
    QTRY_COMPARE(chat().conversation(), id);
    QCOMPARE(contentOf(id), before);
    chat().deleteFrom(idAt(1));
    QTRY_COMPARE(chat().messages()->rowCount(), 1);
    QTRY_VERIFY(m_app->canUndo());
    m_app->undo();
    QTRY_COMPARE(chat().messages()->rowCount(), 2);
    QCOMPARE(contentOf(id), before);
    library->remove(id);  // and after a restart
    QTRY_VERIFY(m_app->canUndo());
    leave();
    start();
    QTRY_VERIFY(m_app->canUndo());
    m_app->undo();
    QTRY_COMPARE(chat().conversation(), id);
    QCOMPARE(contentOf(id), before);
  }

  void aLoadThatIsCancelledKeepsTheModelBefore() {
    ModelPicker* models = m_app->models();
    QTRY_COMPARE_WITH_TIMEOUT(models->state(), ModelPicker::Loaded, kTimeoutMs);
    const QString link = m_folder.filePath(QStringLiteral("same.gguf"));
    QVERIFY(QFile::link(QFileInfo(kModel).absoluteFilePath(), link));
    QSignalSpy progress(m_engine.get(), &ChatEngine::loadProgress);
    models->choose(link);
    QCOMPARE(models->state(), ModelPicker::Loading);
    models->cancel();
    QTRY_COMPARE_WITH_TIMEOUT(models->state(), ModelPicker::Loaded, kTimeoutMs);
    QCOMPARE(m_settings->modelFile, kModel);
    QCOMPARE(m_app->notice(), QString());
    say(QStringLiteral("Hi"));
    models->choose(link);
    QTRY_COMPARE_WITH_TIMEOUT(m_settings->modelFile, link, kTimeoutMs);
    QVERIFY(progress.count() >= 1);
    QCOMPARE(models->progress(), 1.0);
  }

  void thePickerSaysWhatTheDefaultModelNeedsBeforeItIsLoaded() {
    m_settings->remember(QStringLiteral("modelFiles"), QStringList{kModel});
    ModelPicker* models = m_app->models();
    const QAbstractItemModelTester tester(models);
    models->refresh();
    const auto words = [&](ModelPicker::Role role) {
      return models->index(0).data(role).toString();
    };
    QTRY_VERIFY(!words(ModelPicker::MemoryRole).isEmpty());
    QVERIFY2(words(ModelPicker::MemoryRole).contains(QStringLiteral("5.9 MB")),
             qPrintable(words(ModelPicker::MemoryRole)));
    QVERIFY2(words(ModelPicker::FactsRole).startsWith(QStringLiteral("137.8 M")),
             qPrintable(words(ModelPicker::FactsRole)));
    QVERIFY(models->index(0).data(ModelPicker::FitsRole).toBool());
    QTRY_VERIFY(models->devices().size() >= 2);
    QCOMPARE(models->devices().at(1).toMap().value(QStringLiteral("id")).toString(),
             QStringLiteral("cpu"));
  }

  void stopEndsAnAnswerSoon() {
    m_settings->maxTokens = 100'000;
    QSignalSpy pieces(m_engine.get(), &ChatEngine::textWritten);
    chat().setDraft(QStringLiteral("Tell a very long story."));
    QVERIFY(chat().send());
    QVERIFY(pieces.wait(kTimeoutMs));
    chat().stop();
    QTRY_COMPARE_WITH_TIMEOUT(chat().state(), ChatModel::Idle, kTimeoutMs);
    QVERIFY(chat().tokensWritten() < 100'000);
  }

  void stopWhileReadingKeepsTheMessageInTheChat() {
    QTRY_COMPARE_WITH_TIMEOUT(m_app->models()->state(), ModelPicker::Loaded, kTimeoutMs);
    QSignalSpy reading(m_engine.get(), &ChatEngine::reading);
    const QString text = QStringLiteral("word ").repeated(20'000).trimmed();
    chat().setDraft(text);
    QVERIFY(chat().send());
    QVERIFY(reading.wait(kTimeoutMs));
    chat().stop();
    QTRY_COMPARE_WITH_TIMEOUT(chat().state(), ChatModel::Idle, kTimeoutMs);
    QCOMPARE(chat().draft(), QString());
    QTRY_COMPARE(chat().messages()->rowCount(), 1);
    QVERIFY(chat().unanswered());
    leave();
    start();
    QTRY_COMPARE_WITH_TIMEOUT(chat().messages()->rowCount(), 1, kTimeoutMs);
    QCOMPARE(textAt(0), text);
  }

  void aMessageIsStoredBeforeTheModelIsLoadedAndClosingIsQuick() {
    const QString text = QStringLiteral("word ").repeated(10'000).trimmed();
    chat().setDraft(text);
    QVERIFY(chat().send());  // the model still loads
    QElapsedTimer clock;
    clock.start();
    chat().saveDraft();
    m_engine->leave(QDeadlineTimer(250));
    QVERIFY2(clock.elapsed() < 500, qPrintable(QString::number(clock.elapsed())));
    leave();
    start();
    QTRY_COMPARE_WITH_TIMEOUT(chat().conversation() != 0 || m_app->library()->rowCount() == 1, true,
                              kTimeoutMs);
    m_engine->listConversations();
    QTRY_COMPARE(m_app->library()->rowCount(), 1);  // no ghost beside it
    chat().open(m_app->library()->index(0).data(LibraryModel::ConversationRole).toLongLong());
    QTRY_COMPARE_WITH_TIMEOUT(chat().messages()->rowCount(), 1, kTimeoutMs);
    QCOMPARE(textAt(0), text);
    QCOMPARE(chat().draft(), QString());
  }

  void killedRightAfterEnterItHasTheMessage() {
    QTRY_COMPARE_WITH_TIMEOUT(m_app->models()->state(), ModelPicker::Loaded, kTimeoutMs);
    const QString library = m_folder.filePath(QStringLiteral("%1.db").arg(m_libraries));
    leave();
    const QString said = QStringLiteral("word ").repeated(10'000).trimmed();
    QProcess program;
    program.start(
        QStringLiteral(RUNNEL_CHAT_PROGRAM),
        {QStringLiteral("--library"), library, QStringLiteral("--settings"),
         m_folder.filePath(QStringLiteral("killed.ini")), QStringLiteral("--say"), said, kModel});
    QVERIFY(program.waitForStarted());
    start();
    QTRY_VERIFY_WITH_TIMEOUT(otherThan(0) != 0, kTimeoutMs);
    program.kill();  // it reads, or still loads
    QVERIFY(program.waitForFinished());
    QVERIFY(contentOf(otherThan(0)).first().contains(said));
  }

  void whileItReadsTheProgramEndsInHalfASecond() {
    leave();
    const QString said = QStringLiteral("word ").repeated(20'000).trimmed();
    QProcess program;
    program.start(
        QStringLiteral(RUNNEL_CHAT_PROGRAM),
        {QStringLiteral("--library"), m_folder.filePath(QStringLiteral("%1.db").arg(m_libraries)),
         QStringLiteral("--settings"), m_folder.filePath(QStringLiteral("quick.ini")),
         QStringLiteral("--quit-after"), QStringLiteral("4000"), QStringLiteral("--say"), said,
         kModel});
    program.setProcessChannelMode(QProcess::MergedChannels);
    QByteArray out;
    while (!out.contains("leaving\n") && program.waitForReadyRead(kTimeoutMs))
      out += program.readAll();
    QVERIFY2(out.contains("leaving\n"), out.constData());
    QElapsedTimer clock;
    clock.start();
    QVERIFY(program.waitForFinished(kTimeoutMs));
    QVERIFY2(clock.elapsed() < 500, qPrintable(QString::number(clock.elapsed())));
    start();
    QTRY_VERIFY_WITH_TIMEOUT(otherThan(0) != 0, kTimeoutMs);
    const QStringList kept = contentOf(otherThan(0));
    QVERIFY(kept.first().contains(said));
    QCOMPARE(kept.size(), 2);  // it was not answered yet, and the talk stands there
  }

  void aCutAnswerIsContinuedAndAnAnswerWrittenByHandIsGoneOnFrom() {
    m_settings->maxTokens = 4;
    say(QStringLiteral("Tell a long story about a river."));
    const QString first = textAt(1);
    QCOMPARE(chat().messages()->index(1).data(MessageModel::CutRole).toString(),
             QStringLiteral("length"));
    QSignalSpy answered(&chat(), &ChatModel::answered);
    chat().resume(idAt(1));
    QVERIFY(answered.wait(kTimeoutMs));
    QCOMPARE(chat().messages()->rowCount(), 2);
    QVERIFY(textAt(1).startsWith(first) && textAt(1).size() > first.size());
    chat().editAnswer(idAt(1), QStringLiteral("The river is called Runnel."));
    QTRY_COMPARE(textAt(1), QStringLiteral("The river is called Runnel."));
    QTRY_COMPARE(chat().state(), ChatModel::Idle);  // it is stored
    say(QStringLiteral("What is it called?"));
    QCOMPARE(chat().messages()->rowCount(), 4);
    leave();
    start();
    QTRY_COMPARE_WITH_TIMEOUT(chat().messages()->rowCount(), 4, kTimeoutMs);
    QCOMPARE(textAt(1), QStringLiteral("The river is called Runnel."));
  }

  void aChatIsAnsweredBySchemaAlsoAfterARestart() {
    const auto file = [this](const char* name, const QByteArray& bytes) {
      QFile made(m_folder.filePath(QLatin1String(name)));
      if (made.open(QIODevice::WriteOnly)) made.write(bytes);
      return made.fileName();
    };
    QTRY_COMPARE_WITH_TIMEOUT(m_app->models()->state(), ModelPicker::Loaded, kTimeoutMs);
    // Refused by the library, with its words.
    chat().answerBySchema(file("wrong.json", R"({"type": "nonsense"})"));
    QTRY_VERIFY_WITH_TIMEOUT(m_app->noticeIsProblem(), kTimeoutMs);
    QVERIFY2(m_app->notice().startsWith(QStringLiteral("Can't answer by wrong.json: ")) &&
                 m_app->notice().contains(QStringLiteral("nonsense")),
             qPrintable(m_app->notice()));
    QCOMPARE(chat().answerKind(), ChatModel::AnswerFree);

    m_settings->maxTokens = 60;
    chat().answerBySchema(file("colour.json", R"({"type": "object", "properties": {"colour":
        {"enum": ["red", "green"]}, "dark": {"type": "boolean"}}, "required": ["colour", "dark"]})"));
    const auto isOne = [this](int row) {
      const QJsonObject said = QJsonDocument::fromJson(textAt(row).toUtf8()).object();
      return said.size() == 2 && said.value(QStringLiteral("dark")).isBool();
    };
    say(QStringLiteral("Name a colour."));
    QVERIFY2(isOne(1), qPrintable(textAt(1)));
    QSignalSpy reports(m_engine.get(), &ChatEngine::answered);
    chat().regenerate(idAt(1));
    QVERIFY(reports.wait(kTimeoutMs));
    QVERIFY2(isOne(1), qPrintable(textAt(1)));
    QVERIFY(chat().tryThree(idAt(1)));
    QVERIFY(reports.wait(kTimeoutMs));
    QCOMPARE(chat().tries().size(), 3);
    for (const QString& said : chat().tries())
      QVERIFY2(QJsonDocument::fromJson(said.toUtf8()).object().size() == 2, qPrintable(said));
    QVERIFY(QFile::remove(m_folder.filePath(QStringLiteral("colour.json"))));
    leave();
    start();
    QTRY_COMPARE_WITH_TIMEOUT(chat().messages()->rowCount(), 2, kTimeoutMs);
    QCOMPARE(chat().schemaName(), QStringLiteral("colour.json"));
    m_settings->maxTokens = 60;
    say(QStringLiteral("Another one."));
    QVERIFY2(isOne(3), qPrintable(textAt(3)));
    chat().answerAsJson();
    say(QStringLiteral("Tell me about it."));
    QVERIFY2(textAt(5).startsWith(u'{'), qPrintable(textAt(5)));
  }

  void anAnswerBySchemaIsContinuedByItAlsoAfterARestart() {
    QFile schema(m_folder.filePath(QStringLiteral("river.json")));
    QVERIFY(schema.open(QIODevice::WriteOnly));
    schema.write(
        R"({"type": "object", "properties": {"river": {"enum": ["the Danube", "the Rhine"]},
        "long": {"type": "boolean"}}, "required": ["river", "long"]})");
    schema.close();
    for (const bool restarts : {false, true}) {
      chat().startNew();
      chat().answerBySchema(schema.fileName());
      m_settings->maxTokens = 5;
      say(QStringLiteral("Name a river."));
      const QString first = textAt(1);
      QVERIFY2(first.startsWith(u'{') && !first.endsWith(u'}'), qPrintable(first));
      if (restarts) {
        leave();
        start();
        QTRY_COMPARE_WITH_TIMEOUT(chat().messages()->rowCount(), 2, kTimeoutMs);
        chat().answerFreely();  // from the next answer on
      }
      m_settings->maxTokens = 60;
      QSignalSpy answered(&chat(), &ChatModel::answered);
      chat().resume(idAt(1));
      QVERIFY(answered.wait(kTimeoutMs));
      QVERIFY2(textAt(1).startsWith(first), qPrintable(textAt(1)));
      QVERIFY2(QJsonDocument::fromJson(textAt(1).toUtf8()).object().size() == 2,
               qPrintable(textAt(1)));
    }
  }

  void whatAQuestionRefersToIsReadAgainShownAndKept() {
    m_settings->remind = true;
    const auto quoted = [this](int row) {
      return chat().messages()->index(row).data(MessageModel::QuotedRole).toList();
    };
    QSignalSpy reminded(m_engine.get(), &ChatEngine::reminded);
    say(QStringLiteral("My sister's name is Maeve."));
    // Longer than the window.
    QString story = QStringLiteral("Here is a story about rivers.");
    for (int i = 0; i < 60; ++i) story += QStringLiteral(" The water ran down to the sea.");
    say(story);
    QCOMPARE(reminded.count(), 0);
    say(QStringLiteral("What is my sister's name?"));
    QCOMPARE(m_app->notice(), QString());
    QCOMPARE(reminded.count(), 1);
    QCOMPARE(quoted(4).size(), 1);
    const QVariantMap first = quoted(4).at(0).toMap();
    QCOMPARE(first.value(QStringLiteral("text")).toString(),
             QStringLiteral("My sister's name is Maeve."));
    QCOMPARE(first.value(QStringLiteral("message")).toLongLong(), idAt(0));
    QCOMPARE(textAt(4), QStringLiteral("What is my sister's name?"));

    // Answered again after a restart, it is the same: nothing is searched or read anew.
    const QString answer = textAt(5);
    leave();
    start();
    m_settings->remind = true;
    QTRY_COMPARE_WITH_TIMEOUT(chat().messages()->rowCount(), 6, kTimeoutMs);
    QCOMPARE(quoted(4).size(), 1);
    QSignalSpy reports(m_engine.get(), &ChatEngine::answered);
    QSignalSpy again(m_engine.get(), &ChatEngine::reminded);
    chat().regenerate(idAt(5));
    QVERIFY(reports.wait(kTimeoutMs));
    QCOMPARE(textAt(5), answer);
    QCOMPARE(reports.first().at(1).value<AnswerReport>().again, 0);
    QCOMPARE(again.count(), 0);

    // A question about nothing past, and one with the setting off.
    say(QStringLiteral("What is the capital of France?"));
    m_settings->remind = false;
    say(story);
    say(QStringLiteral("What is my sister's name?"));
    QCOMPARE(again.count(), 0);
    QVERIFY(quoted(10).isEmpty());
  }

  void aThoughtIsToldApartFromTheAnswerAndKept() {
    const QString model = m_folder.filePath(QStringLiteral("thinks.gguf"));
    test::write_chat_model(model.toStdString(), [](GgufWriter& writer) {
      writer.set("gsa.chat.style", std::string("jinja"));
      writer.set("tokenizer.chat_template", std::string(test::kThinkingTemplate));
    });
    m_settings->maxTokens = 60;  // random words, but they do not come to the end of a thought
    QTRY_COMPARE_WITH_TIMEOUT(m_app->models()->state(), ModelPicker::Loaded, kTimeoutMs);
    m_app->models()->choose(model);
    QTRY_COMPARE_WITH_TIMEOUT(m_app->models()->state(), ModelPicker::Loaded, kTimeoutMs);
    QSignalSpy thoughts(m_engine.get(), &ChatEngine::thoughtWritten);
    QSignalSpy pieces(m_engine.get(), &ChatEngine::textWritten);
    say(QStringLiteral("Hello"));
    QVERIFY(thoughts.count() >= 1);
    QCOMPARE(pieces.count(), 0);
    QCOMPARE(textAt(1), QString());
    const auto thought = [this] {
      return chat().messages()->index(1).data(MessageModel::ThoughtRole).toString();
    };
    const QString before = thought();
    QVERIFY(!before.isEmpty());
    QCOMPARE(chat().thoughtOf(idAt(1)), before);
    leave();
    start();
    QTRY_COMPARE_WITH_TIMEOUT(chat().messages()->rowCount(), 2, kTimeoutMs);
    QCOMPARE(thought(), before);
  }

  void whatWasDeletedIsForgottenAfterThirtyDaysWithoutARestart() {
    leave();
    const auto ago = [](int days) {
      return static_cast<std::int64_t>(QDateTime::currentMSecsSinceEpoch()) -
             std::int64_t{days} * 24 * 3600 * 1000;
    };
    const auto store = std::make_shared<SharedStore>(m_library.toStdString(), 1'000'000);
    std::vector<std::pair<ConversationId, int>> deleted;  // days ago
    {
      auto library = store->get();
      QVERIFY(library);
      for (const int days : {29, 31}) {
        const auto added = library->add({.text = "deleted " + std::to_string(days), .name = "x"});
        QVERIFY(added && library->trash_conversation(added->conversation));
        deleted.emplace_back(added->conversation, days);
      }
    }
    LibraryWorker worker(store);
    QSignalSpy listed(&worker, &LibraryWorker::trashListed);
    worker.watch(std::chrono::milliseconds(50));
    worker.listTrash();
    QCOMPARE(listed.takeFirst().at(0).value<QVector<DeletedRow>>().size(), 2);
    // Days go by while it is open.
    auto other = Database::open(m_library.toStdString(), std::chrono::seconds(5));
    QVERIFY(other);
    for (const auto& [conversation, days] : deleted) {
      QVERIFY(other->run_with("UPDATE trash SET at = ?1 WHERE conversation = ?2", ago(days),
                              conversation));
    }
    const auto left = [&]() -> QVector<DeletedRow> {
      return listed.isEmpty() ? QVector<DeletedRow>()
                              : listed.last().at(0).value<QVector<DeletedRow>>();
    };
    QTRY_COMPARE_WITH_TIMEOUT(left().size(), 1, kTimeoutMs);
    QTest::qWait(200);
    QCOMPARE(left().first().excerpt, QStringLiteral("deleted 29"));
    const auto rest = other->number("SELECT count(*) FROM messages");
    QVERIFY(rest);
    QCOMPARE(rest->value_or(0), 1);
    // And at the start, as the app asks.
    QVERIFY(other->run_with("UPDATE trash SET at = ?1", ago(31)));
    worker.forgetTrash(0);
    QCOMPARE(left().size(), 0);
  }

  void twoProgramsSeeEachOthersChanges() {
    say(QStringLiteral("Name a colour."));
    RunnelEngine other(m_folder.filePath(QStringLiteral("%1.db").arg(m_libraries)).toStdString(),
                       1'000'000'000);
    std::array<qint64, 3> took = {};
    for (qint64& ms : took) {
      const QString name = QStringLiteral("renamed elsewhere %1").arg(&ms - took.data());
      QElapsedTimer clock;
      clock.start();
      other.rename(chat().conversation(), name);
      QTRY_COMPARE_WITH_TIMEOUT(m_app->library()->index(0).data(LibraryModel::NameRole).toString(),
                                name, 10'000);
      ms = clock.elapsed();
    }
    std::sort(took.begin(), took.end());
    QVERIFY2(took[1] < 1000, qPrintable(QString::number(took[1])));
    const auto facts = chat().messages()->rowCount();
    AnswerRequest said{.ticket = 1,
                       .conversation = chat().conversation(),
                       .after = idAt(facts - 1),
                       .text = QStringLiteral("A message of the other window.")};
    other.answer(said);  // it has no model, so the message alone is stored
    QElapsedTimer clock;
    clock.start();
    QTRY_COMPARE_WITH_TIMEOUT(chat().messages()->rowCount(), facts + 1, 10'000);
    QVERIFY2(clock.elapsed() < 1000, qPrintable(QString::number(clock.elapsed())));
  }

  void aBrokenFileIsRefusedInWords() {
    QTRY_COMPARE_WITH_TIMEOUT(m_app->models()->state(), ModelPicker::Loaded, kTimeoutMs);
    QFile file(m_folder.filePath(QStringLiteral("broken.gguf")));
    QVERIFY(file.open(QIODevice::WriteOnly));
    file.write("GGUF but not really");
    file.close();
    QVERIFY(m_app->models()->add(QUrl::fromLocalFile(file.fileName())));
    QTRY_VERIFY_WITH_TIMEOUT(m_app->noticeIsProblem(), kTimeoutMs);
    QCOMPARE(m_app->models()->state(), ModelPicker::Loaded);  // the one before still is
    QTRY_VERIFY(!m_app->models()->index(0).data(ModelPicker::ProblemRole).toString().isEmpty());
  }

  void exportsAndImports() {
    say(QStringLiteral("Hello there"));
    const QString json = m_folder.filePath(QStringLiteral("talk.json"));
    const QString markdown = m_folder.filePath(QStringLiteral("talk.md"));
    QSignalSpy exported(m_engine.get(), &ChatEngine::exported);
    m_app->library()->exportTo(chat().conversation(), json);
    m_app->library()->exportTo(chat().conversation(), markdown);
    QTRY_COMPARE(exported.count(), 2);
    QFile file(markdown);
    QVERIFY(file.open(QIODevice::ReadOnly));
    QVERIFY(file.readAll().contains("Hello there"));
    const qint64 before = chat().conversation();
    m_app->library()->importFrom(QUrl::fromLocalFile(json));
    QTRY_VERIFY(chat().conversation() != before);
    QTRY_COMPARE(chat().messages()->rowCount(), 2);  // as many as the chat before had
    QTRY_VERIFY(!chat().lengthKnown() && chat().length() > 5);
    say(QStringLiteral("Go on"));  // read again from its text
    QCOMPARE(chat().messages()->rowCount(), 4);
  }

  void threeAnswersAreTriedAndAQuestionIsAskedAside() {
    say(QStringLiteral("Name a colour."));
    const qint64 id = chat().conversation();
    const QStringList before = contentOf(id);
    QVERIFY(chat().tryThree(idAt(1)));
    QTRY_VERIFY_WITH_TIMEOUT(!chat().busy(), kTimeoutMs);
    const QStringList tries = chat().tries();
    QCOMPARE(tries.size(), 3);
    for (const QString& text : tries) QVERIFY(!text.trimmed().isEmpty());
    QVERIFY(QSet<QString>(tries.begin(), tries.end()).size() > 1);
    QCOMPARE(contentOf(id), before);
    QVERIFY(chat().askAside(QStringLiteral("What did I ask for?")));
    QTRY_VERIFY_WITH_TIMEOUT(!chat().busy(), kTimeoutMs);
    QVERIFY(!chat().told().trimmed().isEmpty());
    QCOMPARE(contentOf(id), before);
    const QString& kept = tries.at(1);
    chat().keepTry(1);
    QTRY_VERIFY_WITH_TIMEOUT(!chat().busy(), kTimeoutMs);
    QCOMPARE(textAt(1), kept);
    QCOMPARE(chat().alternativesOf(idAt(1)).size(), 2);
    say(QStringLiteral("Why?"));
    QCOMPARE(chat().messages()->rowCount(), 4);
  }

  void aPlaceIsTakenAlongAsOneFile() {
    say(QStringLiteral("Name a colour."));
    say(QStringLiteral("And another?"));
    const qint64 id = chat().conversation();
    const QStringList before = contentOf(id);
    QSignalSpy saved(m_engine.get(), &ChatEngine::exported);
    m_app->library()->savePlace(id, idAt(1), m_folder.path());
    QVERIFY(saved.wait(kTimeoutMs));
    QCOMPARE(contentOf(id), before);  // where the talk stands it stays
    const QString file = saved.first().at(0).toString();
    QVERIFY(file.endsWith(QStringLiteral(".rnlpack")));
    leave();
    ++m_libraries;  // another one
    start();
    QTRY_COMPARE_WITH_TIMEOUT(m_app->models()->state(), ModelPicker::Loaded, kTimeoutMs);
    m_app->library()->importFrom(QUrl::fromLocalFile(file));
    QTRY_COMPARE_WITH_TIMEOUT(chat().messages()->rowCount(), 2, kTimeoutMs);
    QCOMPARE(textAt(0), QStringLiteral("Name a colour."));
    QSignalSpy reading(m_engine.get(), &ChatEngine::answered);
    say(QStringLiteral("And another?"));
    QCOMPARE(reading.last().at(1).value<AnswerReport>().again, 0);  // it went on at once
    m_app->library()->importFrom(QUrl::fromLocalFile(kModel + QStringLiteral(".rnlpack")));
    QTRY_VERIFY_WITH_TIMEOUT(m_app->noticeIsProblem(), kTimeoutMs);
  }

  void aChatThatBeginsFromAStateGoesBackToIt() {
    const QString colour = QStringLiteral("Name a colour.");
    const QString fruit = QStringLiteral("Name a fruit.");
    say(colour);
    const QString plain = textAt(1);
    const qint64 before = chat().conversation();
    const QString file = m_folder.filePath(QStringLiteral("tuned.snap"));
    {
      const auto model = Model::load(kModel.toStdString(), {.device = "cpu", .threads = 1});
      QVERIFY(model && test::random_initial_state(*model).save(file.toStdString()));
    }
    m_app->drop(QUrl::fromLocalFile(file));
    QTRY_VERIFY_WITH_TIMEOUT(chat().conversation() != before, kTimeoutMs);
    QTRY_COMPARE_WITH_TIMEOUT(chat().title(), QStringLiteral("tuned"), kTimeoutMs);
    QTRY_COMPARE_WITH_TIMEOUT(chat().messages()->rowCount(), 0, kTimeoutMs);
    say(colour);
    const QString tuned = textAt(1);
    QVERIFY(tuned != plain);
    const auto editFirst = [this](const QString& text) {
      QSignalSpy answered(&chat(), &ChatModel::answered);
      chat().edit(idAt(0), text);
      QVERIFY(answered.wait(kTimeoutMs));
    };
    editFirst(fruit);
    QCOMPARE(textAt(0), fruit);
    leave();
    start();
    QTRY_COMPARE_WITH_TIMEOUT(chat().messages()->rowCount(), 2, kTimeoutMs);
    editFirst(colour);
    QCOMPARE(textAt(1), tuned);
  }

  void aStateOfAnotherModelOrOfALaterPlaceBeginsNoChat() {
    QTRY_COMPARE_WITH_TIMEOUT(m_app->models()->state(), ModelPicker::Loaded, kTimeoutMs);
    const QString file = m_folder.filePath(QStringLiteral("other.snap"));
    const auto model = test::load_model(test::chat_weights());
    QVERIFY(test::random_initial_state(model).save(file.toStdString()).has_value());
    m_app->library()->importFrom(QUrl::fromLocalFile(file));
    QTRY_COMPARE_WITH_TIMEOUT(
        m_app->notice(),
        QStringLiteral("%1 was made with another model or a newer version.").arg(file), kTimeoutMs);
    const QString later = m_folder.filePath(QStringLiteral("later.snap"));
    auto session = Session::create(model);
    const TokenId token = 1;
    QVERIFY(session && session->prefill({&token, 1}) &&
            session->snapshot()->save(later.toStdString()));
    m_app->library()->importFrom(QUrl::fromLocalFile(later));
    QTRY_VERIFY_WITH_TIMEOUT(m_app->notice().contains(QStringLiteral("has no messages")),
                             kTimeoutMs);
    QCOMPARE(chat().conversation(), 0);
  }

  void aDocumentIsReadOnceAndIsAPlace() {
    QTRY_COMPARE_WITH_TIMEOUT(m_app->models()->state(), ModelPicker::Loaded, kTimeoutMs);
    QFile file(m_folder.filePath(QStringLiteral("tower.pdf")));
    QVERIFY(file.open(QIODevice::WriteOnly));
    file.write(QByteArray::fromStdString(
        test::pdfOfLines({"The tower has 199 steps.", "The lamp turns once in 12 seconds."})));
    file.close();
    QSignalSpy opened(m_engine.get(), &ChatEngine::placeOpened);
    m_app->drop(QUrl::fromLocalFile(file.fileName()));
    QTRY_VERIFY_WITH_TIMEOUT(m_app->documents()->ready(), kTimeoutMs);
    QVERIFY(chat().messages()->rowCount() == 0);  // nothing is read unasked
    m_app->documents()->read();
    QVERIFY(opened.wait(kTimeoutMs));
    QTRY_COMPARE(chat().title(), QStringLiteral("After tower.pdf"));
    QTRY_COMPARE(chat().messages()->rowCount(), 1);
    QVERIFY2(textAt(0).contains(QStringLiteral("The tower has 199 steps.\nThe lamp turns")),
             qPrintable(textAt(0)));
    QCOMPARE(chat().timeline()->rowCount(), 1);
    const qint64 place = idAt(0);
    QSignalSpy answered(m_engine.get(), &ChatEngine::answered);
    for (int round = 0; round < 2; ++round) {
      say(QStringLiteral("How many steps?"));
      QCOMPARE(answered.last().at(1).value<AnswerReport>().again, 0);
      chat().rewind(place);  // and another one begins there
      QCOMPARE(chat().messages()->rowCount(), 1);
    }
    const qint64 first = chat().conversation();
    const QStringList before = contentOf(first);
    QVERIFY(chat().beginFrom(place));  // also as a chat of its own
    QTRY_VERIFY_WITH_TIMEOUT(chat().conversation() != first && chat().messages()->rowCount() == 1,
                             kTimeoutMs);
    QCOMPARE(chat().title(), QStringLiteral("After tower.pdf"));
    say(QStringLiteral("How often does the lamp turn?"));
    QCOMPARE(answered.last().at(1).value<AnswerReport>().again, 0);
    QVERIFY(answered.last().at(1).value<AnswerReport>().read < 60);
    QCOMPARE(contentOf(first), before);
  }

  void chatsOfOtherProgramsComeInAndOtherFilesAreNamed() {
    const auto bring = [this](const char* name, const QByteArray& bytes) {
      QFile file(m_folder.filePath(QLatin1String(name)));
      if (file.open(QIODevice::WriteOnly)) file.write(bytes);
      file.close();
      m_app->library()->importFrom(QUrl::fromLocalFile(file.fileName()));
      return file.fileName();
    };
    bring("conversations.json",
          R"([{"title":"Tea","create_time":1700000000,"current_node":"b","mapping":{
               "r":{"id":"r","message":null,"parent":null,"children":["a"]},
               "a":{"id":"a","message":{"author":{"role":"user"},"content":{"content_type":"text",
                    "parts":["How hot?"]}},"parent":"r","children":["b"]},
               "b":{"id":"b","message":{"author":{"role":"assistant"},"content":{"content_type":"text",
                    "parts":["Just below boiling."]}},"parent":"a","children":[]}}}])");
    QTRY_COMPARE(chat().title(), QStringLiteral("Tea"));
    QTRY_COMPARE(chat().messages()->rowCount(), 2);
    QCOMPARE(textAt(1), QStringLiteral("Just below boiling."));
    QCOMPARE(m_app->notice(), QStringLiteral("1 chats imported."));  // without a translation
    const QString other = bring("other.json", R"({"kind":"something else"})");
    QTRY_VERIFY(m_app->noticeIsProblem());
    QCOMPARE(m_app->notice(),
             QStringLiteral("Can't import %1: this is not a chat export of Runnel, "
                            "ChatGPT or Open WebUI.")
                 .arg(other));

    // What was an export is told from what never was one.
    say(QStringLiteral("Hello there"));
    const QString own = m_folder.filePath(QStringLiteral("own.json"));
    QSignalSpy exported(m_engine.get(), &ChatEngine::exported);
    m_app->library()->exportTo(chat().conversation(), own);
    QVERIFY(exported.wait(kTimeoutMs));
    QFile file(own);
    QVERIFY(file.open(QIODevice::ReadOnly));
    const QByteArray whole = file.readAll();
    const auto broken = [](const QString& name) {
      return QStringLiteral(
                 "Can't import %1: the file is damaged or incomplete. Export or copy it again.")
          .arg(name);
    };
    const QString cut = bring("cut.json", whole.left(whole.size() / 2));
    QTRY_COMPARE(m_app->notice(), broken(cut));
    QByteArray changed = whole;
    changed.replace("\"user\"", "\"us3r\"");
    const QString wrong = bring("wrong.json", changed);
    QTRY_COMPARE(m_app->notice(), broken(wrong));
    // A file of 300 MB that takes no room.
    const QString large = m_folder.filePath(QStringLiteral("large.json"));
    {
      QFile sparse(large);
      QVERIFY(sparse.open(QIODevice::WriteOnly));
      QVERIFY(sparse.resize(300LL << 20));
    }
    m_app->library()->importFrom(QUrl::fromLocalFile(large));
    QTRY_COMPARE(
        m_app->notice(),
        QStringLiteral("Can't import %1: it is too large (300 MB, at most 256 MB).").arg(large));
    // And a place that somebody was given.
    const QString place = m_folder.filePath(QStringLiteral("place.rnlpack"));
    exported.clear();
    m_engine->savePlace(chat().conversation(), idAt(1), place);
    QVERIFY(exported.wait(kTimeoutMs));
    QFile pack(place);
    QVERIFY(pack.open(QIODevice::ReadWrite));
    QVERIFY(pack.resize(pack.size() / 2));
    pack.close();
    m_engine->openPlace(place);
    QTRY_COMPARE_WITH_TIMEOUT(m_app->notice(), broken(place), kTimeoutMs);
  }

  void anExportHoldsAllBranchesAndComesBackTheSame() {
    say(QStringLiteral("Name a colour: \"red\" or <b>?"));
    const qint64 first = idAt(1);
    m_settings->seed = 6;
    QSignalSpy answered(&chat(), &ChatModel::answered);
    chat().regenerate(first);
    QVERIFY(answered.wait(kTimeoutMs));
    chat().pin(first, true);
    chat().nameMessage(first, QStringLiteral("früher · 早"));
    chat().rewind(first);
    const QStringList before = contentOf(chat().conversation());
    QCOMPARE(before.size(), 4);
    const QString json = m_folder.filePath(QStringLiteral("all.json"));
    QSignalSpy exported(m_engine.get(), &ChatEngine::exported);
    m_app->library()->exportTo(chat().conversation(), json);
    QTRY_COMPARE(exported.count(), 1);
    QSignalSpy imported(m_engine.get(), &ChatEngine::imported);
    m_app->library()->importFrom(QUrl::fromLocalFile(json));
    QTRY_COMPARE(imported.count(), 1);
    QCOMPARE(contentOf(imported.first().at(0).toLongLong()), before);
  }

  void killedWhileItWritesItLosesNothingButTheAnswer() {
    say(QStringLiteral("Before."));
    const QString answer = textAt(1);
    const qint64 earlier = chat().conversation();
    const QString library = m_folder.filePath(QStringLiteral("%1.db").arg(m_libraries));
    leave();
    const QString said = QStringLiteral("Tell a very long story about a river.");
    QProcess program;
    program.start(
        QStringLiteral(RUNNEL_CHAT_PROGRAM),
        {QStringLiteral("--library"), library, QStringLiteral("--settings"),
         m_folder.filePath(QStringLiteral("killed.ini")), QStringLiteral("--say"), said, kModel});
    QVERIFY(program.waitForStarted());
    start();  // two programs may use one library
    qint64 killed = 0;
    QTRY_VERIFY_WITH_TIMEOUT((killed = otherThan(earlier)) != 0, kTimeoutMs);
    QTRY_VERIFY_WITH_TIMEOUT(contentOf(killed).join(u' ').contains(said), kTimeoutMs);
    program.kill();
    QVERIFY(program.waitForFinished());
    leave();
    start();
    QTRY_COMPARE_WITH_TIMEOUT(chat().messages()->rowCount(), 2, kTimeoutMs);
    QCOMPARE(chat().conversation(), earlier);
    QCOMPARE(textAt(1), answer);
    chat().open(killed);
    QTRY_COMPARE_WITH_TIMEOUT(textAt(0), said, kTimeoutMs);
    QVERIFY(chat().unanswered());
    QSignalSpy answered(&chat(), &ChatModel::answered);
    chat().answerAgain();
    QVERIFY(answered.wait(kTimeoutMs));
    QCOMPARE(chat().messages()->rowCount(), 2);
  }

  void readsAModelsFactsWithoutLoadingIt() {
    QSignalSpy inspected(m_engine.get(), &ChatEngine::inspected);
    m_engine->inspect(kModel);
    QVERIFY(inspected.wait(kTimeoutMs));
    const auto facts = inspected.first().at(0).value<ModelFacts>();
    QVERIFY(facts.canChat);
    QCOMPARE(facts.problem, QString());
    QCOMPARE(facts.layers, 30);
    QVERIFY(facts.stateBytes > 5'000'000);
  }

  void leavingWhileItWritesIsQuick() {
    m_settings->maxTokens = 100'000;
    QSignalSpy pieces(m_engine.get(), &ChatEngine::textWritten);
    chat().setDraft(QStringLiteral("Tell a very long story."));
    QVERIFY(chat().send());
    QVERIFY(pieces.wait(kTimeoutMs));
    leave();  // must neither hang nor crash
    start();
    // What was written is kept.
    QTRY_COMPARE_WITH_TIMEOUT(chat().messages()->rowCount(), 2, kTimeoutMs);
  }
};

}  // namespace runnel::chat

int runEngineTests(int argc, char** argv) {
  runnel::chat::EngineTest test;
  return QTest::qExec(&test, argc, argv);
}

#include "engine_test.moc"
