// SPDX-License-Identifier: Apache-2.0
// The real engine with the default model: two threads, a library on disk.
#include <QFile>
#include <QProcess>
#include <QSignalSpy>
#include <QTemporaryDir>
#include <QTest>

#include "app/chat/engine/runnel_engine.h"
#include "app/chat/models/app_controller.h"
#include "tests/chat/suites.h"

namespace runnel::chat {
namespace {

constexpr int kPatienceMs = 120'000;  // sanitizers and busy machines
const QString kModel = QStringLiteral(RUNNEL_MODELS "/runnel-gsa-135m-instruct.gguf");

}  // namespace

class EngineTest : public QObject {
  Q_OBJECT

  QTemporaryDir m_folder;
  int m_libraries = 0;
  std::unique_ptr<RunnelEngine> m_engine;
  std::unique_ptr<Settings> m_settings;
  std::unique_ptr<AppController> m_app;

  void start() {
    m_engine = std::make_unique<RunnelEngine>(
        m_folder.filePath(QStringLiteral("%1.db").arg(m_libraries)).toStdString(), 1'000'000'000);
    m_settings =
        std::make_unique<Settings>(m_folder.filePath(QStringLiteral("%1.ini").arg(m_libraries)));
    m_settings->maxTokens = 12;
    m_settings->modelFile = kModel;
    m_settings->seed = 5;
    m_app = std::make_unique<AppController>(*m_engine, *m_settings, AppOptions{});
    m_app->start();
  }
  void leave() {
    m_app.reset();
    m_engine.reset();
    m_settings.reset();
  }
  ChatModel& chat() { return *m_app->chat(); }
  QString textAt(int row) {
    return chat().messages()->index(row).data(MessageModel::TextRole).toString();
  }
  qint64 idAt(int row) {
    return chat().messages()->index(row).data(MessageModel::IdRole).toLongLong();
  }
  void say(const QString& text) {
    QSignalSpy answered(&chat(), &ChatModel::answered);
    chat().setDraft(text);
    QVERIFY(chat().send());
    QVERIFY(answered.wait(kPatienceMs));
  }

  // Another conversation of the library as it is now; 0: none.
  qint64 otherThan(qint64 conversation) {
    QSignalSpy lists(m_engine.get(), &ChatEngine::conversationsListed);
    m_engine->listConversations();
    if (!lists.wait(kPatienceMs)) return 0;
    for (const ConversationRow& row : lists.last().at(0).value<QVector<ConversationRow>>()) {
      if (row.id != conversation) return row.id;
    }
    return 0;
  }
  // Everything of a message but its number; its parent as its place in the list.
  QStringList contentOf(qint64 conversation) {
    QSignalSpy trees(m_engine.get(), &ChatEngine::treeRead);
    m_engine->readTree(conversation);
    if (!trees.wait(kPatienceMs)) return {};
    const auto tree = trees.last().at(0).value<ConversationTree>();
    QHash<qint64, qsizetype> places;
    QStringList content;
    for (const Message& m : tree.messages) {
      content.push_back(QStringLiteral("%1 after %2: %3 | %4 %5 %6")
                            .arg(m.role)
                            .arg(places.value(m.parent, -1))
                            .arg(m.text, m.name)
                            .arg(m.pinned)
                            .arg(m.complete));
      places.insert(m.id, content.size() - 1);
    }
    content.push_back(QStringLiteral("at %1").arg(places.value(tree.head, -1)));
    return content;
  }

 private Q_SLOTS:
  void init() {
    ++m_libraries;
    start();
  }
  void cleanup() { leave(); }

  void answersStreamsKeepsAndReopens() {
    QSignalSpy pieces(m_engine.get(), &ChatEngine::textWritten);
    say(QStringLiteral("What is the capital of France?"));
    QVERIFY(pieces.count() >= 1);
    QCOMPARE(m_app->notice(), QString());
    const QString answer = textAt(1);
    QVERIFY(!answer.isEmpty());
    QVERIFY(chat().firstTokenMs() > 0);
    QVERIFY(chat().position() > 10);
    leave();
    start();
    QTRY_COMPARE_WITH_TIMEOUT(chat().messages()->rowCount(), 2, kPatienceMs);
    QCOMPARE(textAt(1), answer);
    say(QStringLiteral("And of Italy?"));  // goes on from the snapshot
    QCOMPARE(chat().messages()->rowCount(), 4);
  }

  void theSameSeedRegeneratesTheSameAnswerFromTheSnapshot() {
    say(QStringLiteral("Name a colour."));
    const QString first = textAt(1);
    QSignalSpy reports(m_engine.get(), &ChatEngine::answered);
    chat().regenerate(idAt(1));
    QVERIFY(reports.wait(kPatienceMs));
    QCOMPARE(textAt(1), first);
    QCOMPARE(reports.first().at(1).value<AnswerReport>().again, 0);
    QCOMPARE(chat().messages()->index(1).data(MessageModel::AlternativesRole).toInt(), 2);
  }

  void stopEndsAnAnswerSoon() {
    m_settings->maxTokens = 100'000;
    QSignalSpy pieces(m_engine.get(), &ChatEngine::textWritten);
    chat().setDraft(QStringLiteral("Tell a very long story."));
    QVERIFY(chat().send());
    QVERIFY(pieces.wait(kPatienceMs));
    chat().stop();
    QTRY_COMPARE_WITH_TIMEOUT(chat().state(), ChatModel::Idle, kPatienceMs);
    QVERIFY(chat().tokensWritten() < 100'000);
  }

  void stopWhileReadingGivesTheMessageBack() {
    QTRY_COMPARE_WITH_TIMEOUT(m_app->models()->state(), ModelPicker::Loaded, kPatienceMs);
    QSignalSpy reading(m_engine.get(), &ChatEngine::reading);
    const QString text = QStringLiteral("word ").repeated(20'000).trimmed();
    chat().setDraft(text);
    QVERIFY(chat().send());
    QVERIFY(reading.wait(kPatienceMs));
    chat().stop();
    QTRY_COMPARE_WITH_TIMEOUT(chat().state(), ChatModel::Idle, kPatienceMs);
    QCOMPARE(chat().draft(), text);
    QCOMPARE(chat().messages()->rowCount(), 0);
    m_app->library()->refresh();
    QTRY_VERIFY(m_app->library()->ready());
    QCOMPARE(m_app->library()->rowCount(), 0);
  }

  void aBrokenFileIsRefusedInWords() {
    QTRY_COMPARE_WITH_TIMEOUT(m_app->models()->state(), ModelPicker::Loaded, kPatienceMs);
    QFile file(m_folder.filePath(QStringLiteral("broken.gguf")));
    QVERIFY(file.open(QIODevice::WriteOnly));
    file.write("GGUF but not really");
    file.close();
    QVERIFY(m_app->models()->add(QUrl::fromLocalFile(file.fileName())));
    QTRY_VERIFY_WITH_TIMEOUT(m_app->noticeIsProblem(), kPatienceMs);
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
    QTRY_COMPARE(chat().messages()->rowCount(), 2);
    QCOMPARE(chat().lengthKnown(), false);
    QVERIFY(chat().length() > 5);
    say(QStringLiteral("Go on"));  // read again from its text
    QCOMPARE(chat().messages()->rowCount(), 4);
  }

  void anExportHoldsAllBranchesAndComesBackTheSame() {
    say(QStringLiteral("Name a colour: \"red\" or <b>?"));
    const qint64 first = idAt(1);
    m_settings->seed = 6;
    QSignalSpy answered(&chat(), &ChatModel::answered);
    chat().regenerate(first);
    QVERIFY(answered.wait(kPatienceMs));
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
    QTRY_VERIFY_WITH_TIMEOUT((killed = otherThan(earlier)) != 0, kPatienceMs);
    QTRY_VERIFY_WITH_TIMEOUT(contentOf(killed).join(u' ').contains(said), kPatienceMs);
    program.kill();
    QVERIFY(program.waitForFinished());
    leave();
    start();
    QTRY_COMPARE_WITH_TIMEOUT(chat().messages()->rowCount(), 2, kPatienceMs);
    QCOMPARE(chat().conversation(), earlier);
    QCOMPARE(textAt(1), answer);
    chat().open(killed);
    QTRY_COMPARE_WITH_TIMEOUT(textAt(0), said, kPatienceMs);
    QVERIFY(chat().unanswered());
    QSignalSpy answered(&chat(), &ChatModel::answered);
    chat().answerAgain();
    QVERIFY(answered.wait(kPatienceMs));
    QCOMPARE(chat().messages()->rowCount(), 2);
  }

  void readsAModelsFactsWithoutLoadingIt() {
    QSignalSpy inspected(m_engine.get(), &ChatEngine::inspected);
    m_engine->inspect(kModel);
    QVERIFY(inspected.wait(kPatienceMs));
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
    QVERIFY(pieces.wait(kPatienceMs));
    leave();  // must neither hang nor crash
    start();
    QTRY_COMPARE_WITH_TIMEOUT(chat().messages()->rowCount(), 2,
                              kPatienceMs);  // what was written is kept
  }
};

}  // namespace runnel::chat

int runEngineTests(int argc, char** argv) {
  runnel::chat::EngineTest test;
  return QTest::qExec(&test, argc, argv);
}

#include "engine_test.moc"
