// SPDX-License-Identifier: Apache-2.0
// The real engine with libraries that are damaged, full, for reading only, or replaced by another window.
#include <QDir>
#include <QFile>
#include <QFileInfo>
#include <QRegularExpression>
#include <QSignalSpy>
#include <QTest>

#include "runnel/store.h"
#include "runtime/store/sqlite.h"
#include "tests/chat/engine_fixture.h"
#include "tests/chat/suites.h"
#include "tests/support/small_disk.h"

namespace runnel::chat {

class LibraryFaultsTest : public EngineFixture {
  Q_OBJECT

  // Texts that stand in a library, in the order of their numbers.
  static QStringList textsIn(const QString& file) {
    QStringList texts;
    const auto store = ConversationStore::open({.file = file.toStdString()});
    if (!store) return {QString::fromStdString(store.error().message)};
    const auto chats = store->list();
    if (!chats) return {QString::fromStdString(chats.error().message)};
    for (const ConversationInfo& chat : *chats) {
      const auto tree = store->tree(chat.id);
      if (!tree) return {QString::fromStdString(tree.error().message)};
      for (const MessageInfo& message : *tree) texts += QString::fromStdString(message.text);
    }
    return texts;
  }

  // Another window replaces the library. @return where the old file is
  QString replaceElsewhere(Replace how) {
    RunnelEngine other(m_library.toStdString(), 1'000'000'000);
    QSignalSpy done(&other, &ChatEngine::libraryReplaced);
    other.replaceLibrary(how);
    if (!done.wait(kTimeoutMs)) return {};
    return done.first().at(0).value<Replaced>().old;
  }

  // Presses the button of a notice. @return whether there is one
  bool press(const QString& act) {
    for (const QVariant& notice : m_app->notices()) {
      for (const QVariant& button : notice.toMap().value(QStringLiteral("actions")).toList()) {
        if (button.toMap().value(QStringLiteral("act")) != act) continue;
        m_app->act(act);
        return true;
      }
    }
    return false;
  }
  // The library becomes 60 chats with two messages each; the table of chats and some pages of messages are noise.
  void layDamaged() {
    {
      auto store = ConversationStore::open({.file = m_library.toStdString()});
      QVERIFY(store);
      for (int i = 0; i < 60; ++i) {
        const std::string number = std::to_string(i);
        const auto asked = store->add(
            {.text = "question " + number + std::string(900, 'x'), .name = "chat " + number});
        QVERIFY(asked);
        QVERIFY(store->add({.conversation = asked->conversation,
                            .parent = asked->id,
                            .role = "assistant",
                            .text = "answer " + number + std::string(900, 'y')}));
      }
      QVERIFY(store->vacuum());
    }
    std::vector<qint64> pages;
    {
      auto database =
          Database::open(m_library.toStdString(), std::chrono::seconds(1), Database::Access::read);
      QVERIFY(database);
      const auto chats =
          database->number("SELECT rootpage FROM sqlite_master WHERE name = 'conversations'");
      QVERIFY(chats && *chats);
      pages.push_back(**chats);
    }
    QFile file(m_library);
    QVERIFY(file.open(QIODevice::ReadWrite));
    const QByteArray all = file.readAll();
    // Every third page that holds answers.
    int seen = 0;
    for (qint64 page = 2; page <= all.size() / 4096; ++page) {
      const QByteArray text = all.mid((page - 1) * 4096, 4096);
      if (text.contains("answer ") && text.contains("yyyyyyyy") && ++seen % 3 == 0)
        pages.push_back(page);
    }
    QVERIFY(seen > 20);
    for (const qint64 page : pages) {
      QVERIFY(file.seek((page - 1) * 4096));
      file.write(QByteArray(4096, 'z'));
    }
  }
  // What can be read of the messages of a file, one by one.
  static QStringList readable(const QString& library) {
    QStringList texts;
    auto database = Database::open(library.toStdString(), std::chrono::seconds(1),
                                   Database::Access::read_still);
    if (!database) return texts;
    for (qint64 id = 1; id <= 1000; ++id) {
      auto row = database->prepare("SELECT role, text FROM messages WHERE id = ?1");
      if (!row) return texts;
      const Result<bool> there = row->bind(std::int64_t(id)).step();
      if (there && *there)
        texts.push_back(QString::fromStdString(row->text(0) + ": " + row->text(1)));
    }
    texts.sort();
    return texts;
  }
  // The same of all chats that are listed.
  QStringList shown() {
    QStringList texts;
    QSignalSpy lists(m_engine.get(), &ChatEngine::conversationsListed);
    m_engine->listConversations();
    if (!lists.wait(kTimeoutMs)) return texts;
    for (const ConversationRow& chat : lists.last().at(0).value<QVector<ConversationRow>>()) {
      QSignalSpy trees(m_engine.get(), &ChatEngine::treeRead);
      m_engine->readTree(chat.id);
      if (!trees.wait(kTimeoutMs)) return {};
      for (const Message& m : trees.last().at(0).value<ConversationTree>().messages)
        texts.push_back(m.role + QStringLiteral(": ") + m.text);
    }
    texts.sort();
    return texts;
  }

 private Q_SLOTS:
  void aDamagedLibraryIsSaidAndSavedIntoANewOne() {
    leave();
    layDamaged();
    const QStringList before = readable(m_library);
    QVERIFY(before.size() > 60);
    QVERIFY(before.size() < 120);
    start();
    QTRY_COMPARE_WITH_TIMEOUT(m_app->notice(),
                              QStringLiteral("Your chat library %1 is damaged.").arg(m_library),
                              kTimeoutMs);
    // First looked at: nothing of the file is touched.
    QVERIFY(press(QStringLiteral("look")));
    QTRY_VERIFY_WITH_TIMEOUT(m_app->notice().contains(QStringLiteral("can be read")), kTimeoutMs);
    QTRY_VERIFY(m_app->library()->rowCount() >= 1);
    QCOMPARE(shown(), before);
    leave();
    QCOMPARE(readable(m_library), before);
    start();
    QTRY_VERIFY_WITH_TIMEOUT(m_app->notice().contains(m_library), kTimeoutMs);
    QVERIFY(press(QStringLiteral("salvage")));
    QTRY_VERIFY_WITH_TIMEOUT(m_app->notice().contains(QStringLiteral(".damaged-")), kTimeoutMs);
    QVERIFY2(m_app->notice().contains(QStringLiteral("could not be read")),
             qPrintable(m_app->notice()));
    QTRY_VERIFY(m_app->library()->rowCount() >= 1);
    QCOMPARE(shown(), before);
    say(QStringLiteral("A new chat can be begun"));
    leave();
    // The old file is whole beside it, and nothing else is.
    const QStringList left = QDir(QFileInfo(m_library).path()).entryList(QDir::Files, QDir::Name);
    QCOMPARE(left.filter(QStringLiteral(".damaged-")).filter(QRegularExpression(".db$")).size(), 1);
    QVERIFY2(left.filter(QStringLiteral(".new")).isEmpty(), qPrintable(left.join(u' ')));
    QCOMPARE(
        readable(
            QFileInfo(m_library).path() + u'/' +
            left.filter(QStringLiteral(".damaged-")).filter(QRegularExpression(".db$")).first()),
        before);
    start();
    QTRY_VERIFY_WITH_TIMEOUT(m_app->library()->rowCount() >= 1, kTimeoutMs);
    QCOMPARE(m_app->notice(), QString());
    QCOMPARE(shown().size(), before.size() + 2);
  }

  void ofAFileThatIsNoLibraryNothingIsSavedAndItStays() {
    leave();
    const QByteArray noise = QByteArray("no library, only words. ").repeated(1000);
    {
      QFile file(m_library);
      QVERIFY(file.open(QIODevice::WriteOnly));
      file.write(noise);
    }
    start();
    QTRY_VERIFY_WITH_TIMEOUT(m_app->notice().contains(m_library), kTimeoutMs);
    QSignalSpy failed(m_engine.get(), &ChatEngine::libraryFailed);
    QVERIFY(press(QStringLiteral("salvage")));
    QTRY_VERIFY_WITH_TIMEOUT(failed.count() > 0, kTimeoutMs);
    QFile file(m_library);
    QVERIFY(file.open(QIODevice::ReadOnly));
    QCOMPARE(file.readAll(), noise);
    QVERIFY(press(QStringLiteral("fresh")));
    QTRY_VERIFY_WITH_TIMEOUT(m_app->notice().contains(QStringLiteral(".kept-")), kTimeoutMs);
    say(QStringLiteral("A new chat can be begun"));
  }

  void aLibraryForReadingOnlyIsShownAndAChatIsBegunElsewhere() {
    const test::SmallDisk disk(32 << 20);
    if (!disk.mounted())
      QSKIP(qPrintable(QStringLiteral("SKIPPED: cannot mount a small file system: %1; run as root")
                           .arg(QString::fromStdString(disk.why_not()))));
    leave();
    m_library = QString::fromStdString((disk.path() / "chats.db").string());
    start();
    say(QStringLiteral("Name a colour."));
    const QString answer = textAt(1);
    leave();
    QVERIFY(disk.make_read_only());
    start();
    QTRY_COMPARE_WITH_TIMEOUT(chat().messages()->rowCount(), 2, kTimeoutMs);
    QCOMPARE(textAt(1), answer);
    QCOMPARE(m_app->library()->rowCount(), 1);
    const QString typed = QStringLiteral("And another?");
    chat().setDraft(typed);
    QVERIFY(chat().send());
    const QString words =
        QStringLiteral("Couldn't save to %1: no permission to write there.").arg(m_library);
    QTRY_COMPARE_WITH_TIMEOUT(m_app->notice(), words, kTimeoutMs);
    QTRY_COMPARE(chat().draft(), typed);  // what was typed is still there
    const QByteArray home = qgetenv("XDG_DATA_HOME");
    qputenv("XDG_DATA_HOME", m_folder.filePath(QStringLiteral("home")).toUtf8());
    const bool pressed = press(QStringLiteral("fresh"));
    if (pressed) {
      QTRY_VERIFY_WITH_TIMEOUT(m_app->notice().contains(QStringLiteral("New messages are kept in")),
                               kTimeoutMs);
    }
    home.isNull() ? qunsetenv("XDG_DATA_HOME") : qputenv("XDG_DATA_HOME", home);
    QVERIFY(pressed);
    QVERIFY2(m_app->notice().contains(m_library), qPrintable(m_app->notice()));
    say(QStringLiteral("A new chat can be begun"));
    QCOMPARE(chat().messages()->rowCount(), 2);
    leave();
  }

  void onAFullDiskItIsSaidWhereAndWhyAndNothingIsLost() {
    const test::SmallDisk disk(32 << 20);
    if (!disk.mounted())
      QSKIP(qPrintable(QStringLiteral("SKIPPED: cannot mount a small file system: %1; run as root")
                           .arg(QString::fromStdString(disk.why_not()))));
    leave();
    m_library = QString::fromStdString((disk.path() / "chats.db").string());
    start();
    say(QStringLiteral("Name a colour."));
    const qint64 id = chat().conversation();
    const QString words = QStringLiteral("Couldn't save to %1: the disk is full.").arg(m_library);
    // A log that was just begun has no room from before.
    leave();
    start();
    QTRY_COMPARE_WITH_TIMEOUT(chat().messages()->rowCount(), 2, kTimeoutMs);
    // It fills up while an answer is written, for which much is read first.
    const QString question = QStringLiteral("And another? ").repeated(1'000).trimmed();
    const auto filling =
        connect(m_engine.get(), &ChatEngine::userSaved, this, [&disk] { disk.fill_all_but(0); });
    m_settings->maxTokens = 60;
    chat().setDraft(question);
    QVERIFY(chat().send());
    QTRY_COMPARE_WITH_TIMEOUT(m_app->notice(), words, kTimeoutMs);
    disconnect(filling);
    QTRY_VERIFY_WITH_TIMEOUT(!chat().busy(), kTimeoutMs);
    leave();
    disk.fill_all_but(0);
    start();
    QTRY_COMPARE_WITH_TIMEOUT(chat().messages()->rowCount(), 3, kTimeoutMs);
    QCOMPARE(textAt(2), question);
    disk.fill_all_but(0);
    const QString typed = QStringLiteral("A word. ").repeated(20'000).trimmed();
    chat().setDraft(typed);
    QVERIFY(chat().send());
    QTRY_COMPARE_WITH_TIMEOUT(m_app->notice(), words, kTimeoutMs);
    QTRY_COMPARE(chat().draft(), typed);
    QCOMPARE(contentOf(id).size(), 4);  // three and where it stands
    chat().setDraft({});
    disk.empty();
    chat().startNew();
    m_app->dismissNotice();
    say(QStringLiteral("A new chat can be begun"));
    QCOMPARE(chat().messages()->rowCount(), 2);
    QCOMPARE(m_app->notice(), QString());
    leave();
  }

  void twoWindowsGoOnInTheLibraryThatOneOfThemSaved() {
    // Numbers have a gap, so that new ones would differ.
    say(QStringLiteral("It will be forgotten."));
    QSignalSpy deleted(m_engine.get(), &ChatEngine::deleted);
    m_engine->deleteConversation(chat().conversation());
    QVERIFY(deleted.wait(kTimeoutMs));
    m_engine->forgetTrash(deleted.first().at(2).toLongLong());
    chat().startNew();
    say(QStringLiteral("Name a colour."));
    const qint64 conversation = chat().conversation();
    const qint64 head = chat().head();
    chat().setDraft(QStringLiteral("typed before"));
    QSignalSpy replaced(m_engine.get(), &ChatEngine::libraryReplaced);
    const QString old = replaceElsewhere(Replace::Salvage);
    QVERIFY(!old.isEmpty());
    chat().setDraft(QStringLiteral("typed at once"));
    QTRY_COMPARE_WITH_TIMEOUT(replaced.count(), 1, kTimeoutMs);
    QCOMPARE(chat().conversation(), conversation);
    QCOMPARE(chat().head(), head);
    QCOMPARE(chat().draft(), QStringLiteral("typed at once"));
    QCOMPARE(m_app->notice(), QString());
    say(QStringLiteral("Name another one."));
    QCOMPARE(chat().conversation(), conversation);
    QCOMPARE(replaced.count(), 1);
    chat().setDraft(QStringLiteral("typed last"));
    leave();
    QCOMPARE(textsIn(m_library).filter(QStringLiteral("Name ")),
             QStringList({QStringLiteral("Name a colour."), QStringLiteral("Name another one.")}));
    QCOMPARE(textsIn(old).filter(QStringLiteral("Name ")),
             QStringList({QStringLiteral("Name a colour.")}));
    start();
    QTRY_COMPARE_WITH_TIMEOUT(chat().draft(), QStringLiteral("typed last"), kTimeoutMs);
    QCOMPARE(chat().conversation(), conversation);
  }

  void anAnswerThatIsWrittenMeanwhileComesIntoTheSavedLibrary() {
    m_settings->maxTokens = 60;
    QSignalSpy pieces(m_engine.get(), &ChatEngine::textWritten);
    QSignalSpy answered(&chat(), &ChatModel::answered);
    chat().setDraft(QStringLiteral("Tell me a story."));
    QVERIFY(chat().send());
    QVERIFY(pieces.wait(kTimeoutMs));
    const QString old = replaceElsewhere(Replace::Salvage);
    QVERIFY(!old.isEmpty());
    QCOMPARE(answered.count(), 0);
    QVERIFY(answered.wait(kTimeoutMs));
    const QString answer = textAt(1);
    QVERIFY(!answer.isEmpty());
    say(QStringLiteral("And then?"));
    leave();
    QCOMPARE(textsIn(m_library).mid(0, 2),
             QStringList({QStringLiteral("Tell me a story."), answer}));
    QCOMPARE(textsIn(m_library).size(), 4);
  }

  void whereAnotherWindowBeganALibraryTypedTextStaysAndNoOtherChatGetsIt() {
    say(QStringLiteral("Name a colour."));
    chat().setDraft(QStringLiteral("typed before"));
    const QString old = replaceElsewhere(Replace::Anew);
    QVERIFY(!old.isEmpty());
    {  // a chat with the number of the one in view
      auto store = ConversationStore::open({.file = m_library.toStdString()});
      QVERIFY(store);
      QCOMPARE(store->add({.text = "of the other window", .name = "other"})->conversation,
               chat().conversation());
    }
    QVERIFY(chat().send());  // at once, before it was seen
    QTRY_COMPARE_WITH_TIMEOUT(chat().draft(), QStringLiteral("typed before"), kTimeoutMs);
    QTRY_COMPARE_WITH_TIMEOUT(chat().conversation(), 0, kTimeoutMs);
    QTRY_VERIFY_WITH_TIMEOUT(!chat().busy(), kTimeoutMs);
    QTRY_VERIFY_WITH_TIMEOUT(m_app->notice().contains(QStringLiteral("A new library was begun.")),
                             kTimeoutMs);
    QTRY_COMPARE_WITH_TIMEOUT(m_app->library()->rowCount() > 0, true, kTimeoutMs);
    say(chat().draft());
    leave();
    QCOMPARE(textsIn(m_library).filter(QStringLiteral("of the other window")).size(), 1);
    const auto store = ConversationStore::open({.file = m_library.toStdString()});
    QVERIFY(store);
    QCOMPARE(store->list()->size(), std::size_t{2});
    for (const ConversationInfo& info : *store->list())
      QCOMPARE(info.messages, info.name == "other" ? 1 : 2);
  }
};

}  // namespace runnel::chat

int runLibraryFaultsTests(int argc, char** argv) {
  runnel::chat::LibraryFaultsTest test;
  return QTest::qExec(&test, argc, argv);
}

#include "library_faults_test.moc"
