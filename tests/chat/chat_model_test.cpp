// SPDX-License-Identifier: Apache-2.0
// The conversation in view, with an engine that does what the test says.
#include "app/chat/models/chat_model.h"

#include <QAbstractItemModelTester>
#include <QElapsedTimer>
#include <QSignalSpy>
#include <QTemporaryDir>
#include <QTest>

#include "tests/chat/scripted_engine.h"
#include "tests/chat/suites.h"

namespace runnel::chat {

class ChatModelTest : public QObject {
  Q_OBJECT

  QTemporaryDir m_folder;
  std::unique_ptr<Settings> m_settings;
  std::unique_ptr<ScriptedEngine> m_engine;
  std::unique_ptr<ChatModel> m_chat;
  std::unique_ptr<QAbstractItemModelTester> m_messagesTester;
  std::unique_ptr<QAbstractItemModelTester> m_timelineTester;

  void say(const QString& text, const QString& answer) {
    m_chat->setDraft(text);
    QVERIFY(m_chat->send());
    m_engine->answerWith(answer);
  }
  QVariant at(int row, MessageModel::Role role) const {
    const MessageModel* messages = m_chat->messages();
    return messages->data(messages->index(row), role);
  }
  QString textAt(int row) const { return at(row, MessageModel::TextRole).toString(); }
  qint64 idAt(int row) const { return at(row, MessageModel::IdRole).toLongLong(); }
  int count() const { return m_chat->messages()->rowCount(); }

 private Q_SLOTS:
  void init() {
    QFile::remove(m_folder.filePath("s.ini"));
    m_settings = std::make_unique<Settings>(m_folder.filePath("s.ini"));
    m_engine = std::make_unique<ScriptedEngine>();
    m_chat = std::make_unique<ChatModel>(*m_engine, *m_settings);
    m_messagesTester = std::make_unique<QAbstractItemModelTester>(m_chat->messages());
    m_timelineTester = std::make_unique<QAbstractItemModelTester>(m_chat->timeline());
  }
  void cleanup() {
    m_messagesTester.reset();
    m_timelineTester.reset();
    m_chat.reset();
    m_engine.reset();
    m_settings.reset();
  }

  void sendShowsTheMessageAtOnceAndTheAnswerAsItComes() {
    m_chat->setDraft(QStringLiteral("  Hello\n"));
    QVERIFY(m_chat->send());
    QCOMPARE(m_engine->requests.last().text, QStringLiteral("Hello"));
    QCOMPARE(m_chat->draft(), QString());
    QCOMPARE(m_chat->state(), ChatModel::Waiting);
    QCOMPARE(count(), 2);
    QCOMPARE(textAt(0), QStringLiteral("Hello"));
    m_engine->saveUser();
    QVERIFY(idAt(0) > 0);
    m_engine->write(QStringLiteral("Good "));
    m_engine->write(QStringLiteral("day"));
    QCOMPARE(m_chat->state(), ChatModel::Writing);
    QCOMPARE(textAt(1), QStringLiteral("Good day"));
    QVERIFY(at(1, MessageModel::WritingRole).toBool());
    m_engine->finish();
    QCOMPARE(m_chat->state(), ChatModel::Idle);
    QCOMPARE(textAt(1), QStringLiteral("Good day"));
    QVERIFY(!at(1, MessageModel::WritingRole).toBool());
    QCOMPARE(m_chat->position(), 10);
  }

  void anAnswerGrowsInItsRowAndNothingIsInsertedOrReset() {
    m_chat->setDraft(QStringLiteral("Hello"));
    m_chat->send();
    QSignalSpy inserted(m_chat->messages(), &QAbstractItemModel::rowsInserted);
    QSignalSpy removed(m_chat->messages(), &QAbstractItemModel::rowsRemoved);
    QSignalSpy reset(m_chat->messages(), &QAbstractItemModel::modelReset);
    m_engine->answerWith(QStringLiteral("Hi"));
    QCOMPARE(inserted.count() + removed.count() + reset.count(), 0);
  }

  void nothingIsSentTwiceOrEmpty() {
    m_chat->setDraft(QStringLiteral("  \n "));
    QVERIFY(!m_chat->send());
    m_chat->setDraft(QStringLiteral("One"));
    QVERIFY(m_chat->send());
    m_chat->setDraft(QStringLiteral("Two"));
    QVERIFY(!m_chat->send());
    QCOMPARE(m_engine->requests.size(), 1);
    QCOMPARE(m_chat->draft(), QStringLiteral("Two"));
  }

  void stopKeepsWhatWasWritten() {
    m_chat->setDraft(QStringLiteral("Hello"));
    m_chat->send();
    m_engine->saveUser();
    m_engine->write(QStringLiteral("Half"));
    m_chat->stop();
    QCOMPARE(m_engine->stops, 1);
    QCOMPARE(m_chat->state(), ChatModel::Stopping);
    m_engine->finish(AnswerEnd::Stopped);
    QCOMPARE(m_chat->state(), ChatModel::Idle);
    QCOMPARE(textAt(1), QStringLiteral("Half"));
    QVERIFY(!at(1, MessageModel::CompleteRole).toBool());
  }

  void aMessageThatWasNotStoredGoesBackToTheDraft() {
    QSignalSpy failed(m_chat.get(), &ChatModel::failed);
    m_chat->setDraft(QStringLiteral("Hello"));
    m_chat->send();
    m_engine->failAnswer(ErrorCode::io);
    QCOMPARE(m_chat->draft(), QStringLiteral("Hello"));
    QCOMPARE(failed.count(), 1);
    QCOMPARE(count(), 0);
    m_chat->send();
    m_engine->failAnswer(ErrorCode::cancelled);
    QCOMPARE(failed.count(), 1);  // stopping is no failure
  }

  void whatWasTypedSinceStandsAfterAMessageThatWasNotStored() {
    m_chat->setDraft(QStringLiteral("Hello"));
    m_chat->send();
    m_chat->setDraft(QStringLiteral("And more"));
    m_engine->failAnswer(ErrorCode::io);
    QCOMPARE(m_chat->draft(), QStringLiteral("Hello\n\nAnd more"));
    QCOMPARE(m_engine->drafts.value(0), m_chat->draft());
    say(QStringLiteral("A"), QStringLiteral("1"));
    m_chat->setDraft(QStringLiteral("typed"));
    m_chat->edit(idAt(0), QStringLiteral("said otherwise"));
    m_engine->failAnswer(ErrorCode::io);
    QCOMPARE(m_chat->draft(), QStringLiteral("said otherwise\n\ntyped"));
    QCOMPARE(m_engine->drafts.value(m_chat->conversation()), m_chat->draft());
  }

  void aFailureTakesNothingElseOutOfTheQueue() {
    const qint64 a = m_engine->addConversation(QStringLiteral("a"), {QStringLiteral("X")});
    m_chat->setDraft(QStringLiteral("first"));
    QVERIFY(m_chat->send());
    m_chat->open(a);
    m_chat->setDraft(QStringLiteral("queued"));
    QVERIFY(m_chat->send());
    m_engine->failAnswer(ErrorCode::io);
    QCOMPARE(m_engine->requests.last().text, QStringLiteral("queued"));
    m_chat->startNew();
    QCOMPARE(m_chat->draft(), QStringLiteral("first"));
  }

  void readingALongMessageShowsProgress() {
    m_chat->setDraft(QStringLiteral("Long"));
    m_chat->send();
    Q_EMIT m_engine->reading(m_engine->requests.last().ticket, 250, 1000);
    QCOMPARE(m_chat->state(), ChatModel::Reading);
    QCOMPARE(m_chat->readingProgress(), 0.25);
    QCOMPARE(m_chat->readingTotal(), 1000);
  }

  void reportsOfAnOldRequestAreDropped() {
    say(QStringLiteral("One"), QStringLiteral("1"));
    const quint64 old = m_engine->requests.last().ticket;
    m_chat->setDraft(QStringLiteral("Two"));
    m_chat->send();
    Q_EMIT m_engine->textWritten(old, QStringLiteral("late"));
    Q_EMIT m_engine->answerFailed(old, {});
    QCOMPARE(m_chat->state(), ChatModel::Waiting);
    QCOMPARE(textAt(3), QString());
  }

  void regenerateMakesAnotherVersionThatCanBePaged() {
    say(QStringLiteral("Hello"), QStringLiteral("First"));
    m_chat->regenerate(idAt(1));
    QCOMPARE(m_engine->requests.last().after, idAt(0));
    QVERIFY(m_engine->requests.last().text.isEmpty());
    m_engine->answerWith(QStringLiteral("Second"));
    QCOMPARE(textAt(1), QStringLiteral("Second"));
    QCOMPARE(at(1, MessageModel::AlternativesRole).toInt(), 2);
    QCOMPARE(at(1, MessageModel::AlternativeRole).toInt(), 1);
    m_chat->showAlternative(idAt(1), -1);
    QCOMPARE(textAt(1), QStringLiteral("First"));
    m_chat->showAlternative(idAt(1), -1);  // there is none before
    QCOMPARE(textAt(1), QStringLiteral("First"));
    const QVariantList versions = m_chat->alternativesOf(idAt(1));
    QCOMPARE(versions.size(), 2);
    QVERIFY(versions.at(0).toMap().value("shown").toBool());
  }

  void editIsABranchBesideTheMessage() {
    say(QStringLiteral("Hello"), QStringLiteral("Hi"));
    say(QStringLiteral("More"), QStringLiteral("Yes"));
    const qint64 more = idAt(2);
    m_chat->edit(more, QStringLiteral("Less"));
    QCOMPARE(m_engine->requests.last().after, idAt(1));
    m_engine->answerWith(QStringLiteral("No"));
    QCOMPARE(count(), 4);
    QCOMPARE(textAt(2), QStringLiteral("Less"));
    QCOMPARE(at(2, MessageModel::AlternativesRole).toInt(), 2);
    m_chat->showAlternative(idAt(2), -1);
    QCOMPARE(idAt(2), more);
    QCOMPARE(textAt(3), QStringLiteral("Yes"));
  }

  void rewindGoesBackAndWhatIsSaidThereIsABranch() {
    say(QStringLiteral("A"), QStringLiteral("1"));
    say(QStringLiteral("B"), QStringLiteral("2"));
    const qint64 first = idAt(1);
    m_chat->rewind(first);
    QCOMPARE(count(), 2);
    QVERIFY(m_chat->wentBack());
    QCOMPARE(m_engine->trees[m_chat->conversation()].head, first);
    m_chat->returnToEnd();
    QCOMPARE(count(), 4);
    QVERIFY(!m_chat->wentBack());
    m_chat->rewind(first);
    say(QStringLiteral("C"), QStringLiteral("3"));
    QCOMPARE(m_engine->requests.last().after, first);
    QCOMPARE(m_chat->timeline()->rowCount(), 6);
    QCOMPARE(m_chat->timeline()->lanes(), 2);
  }

  void atAUsersMessageTheAnswerCanBeAskedFor() {
    say(QStringLiteral("A"), QStringLiteral("1"));
    m_chat->rewind(idAt(0));
    QVERIFY(m_chat->unanswered());
    m_chat->answerLastAgain();
    QCOMPARE(m_engine->requests.last().after, idAt(0));
    m_engine->answerWith(QStringLiteral("2"));
    QVERIFY(!m_chat->unanswered());
  }

  void deletingFromHereCanBeUndone() {
    say(QStringLiteral("A"), QStringLiteral("1"));
    say(QStringLiteral("B"), QStringLiteral("2"));
    m_chat->deleteFrom(idAt(2));
    QCOMPARE(count(), 2);
    m_engine->undoDelete(m_chat->conversation(), 77);
    m_chat->reload();
    QCOMPARE(count(), 4);
  }

  void placesArePinnedAndNamed() {
    say(QStringLiteral("A"), QStringLiteral("1"));
    const qint64 id = idAt(1);
    m_chat->pin(id, true);
    m_chat->nameMessage(id, QStringLiteral(" the \n start "));
    QVERIFY(at(1, MessageModel::PinnedRole).toBool());
    QCOMPARE(at(1, MessageModel::NameRole).toString(), QStringLiteral("the start"));
    QVERIFY(m_engine->calls.contains(QStringLiteral("name %1 the start").arg(id)));
  }

  void openingShowsWhereItWasLeftAndASearchedMessageBesideItDoesNotMove() {
    say(QStringLiteral("A"), QStringLiteral("1"));
    const qint64 conversation = m_chat->conversation();
    const qint64 first = idAt(1);
    m_chat->regenerate(first);
    m_engine->answerWith(QStringLiteral("other"));
    m_chat->startNew();
    QCOMPARE(count(), 0);
    m_chat->open(conversation);
    QCOMPARE(textAt(1), QStringLiteral("other"));
    m_chat->startNew();
    QSignalSpy found(m_chat.get(), &ChatModel::foundBeside);
    m_chat->open(conversation, first);
    QCOMPARE(found.count(), 1);
    QCOMPARE(found.last().at(0).toLongLong(), first);
    QCOMPARE(textAt(1), QStringLiteral("other"));
    m_chat->open(conversation, first);  // it is in view already
    QCOMPARE(found.count(), 2);
    m_chat->rewind(first);
    QCOMPARE(textAt(1), QStringLiteral("1"));
    m_chat->open(conversation, first);
    QCOMPARE(found.count(), 2);
  }

  void anAnswerGoesOnWhileAnotherChatIsInView() {
    const qint64 other = m_engine->addConversation(QStringLiteral("other"),
                                                   {QStringLiteral("X"), QStringLiteral("Y")});
    m_chat->setDraft(QStringLiteral("Hello"));
    m_chat->send();
    m_engine->saveUser();
    const qint64 first = m_chat->conversation();
    m_engine->write(QStringLiteral("He"));
    m_chat->open(other);
    QCOMPARE(m_chat->state(), ChatModel::Idle);
    QVERIFY(m_chat->busyElsewhere());
    m_engine->write(QStringLiteral("llo"));
    QCOMPARE(textAt(1), QStringLiteral("Y"));
    m_chat->open(first);
    QCOMPARE(m_chat->state(), ChatModel::Writing);
    QCOMPARE(textAt(1), QStringLiteral("Hello"));
    m_chat->open(other);
    m_engine->finish();
    QVERIFY(!m_chat->busyElsewhere());
    m_chat->open(first);
    QCOMPARE(textAt(1), QStringLiteral("Hello"));
  }

  void aChatBeingMadeThatIsLeftDoesNotComeBackIntoView() {
    m_chat->setDraft(QStringLiteral("Hello"));
    m_chat->send();
    m_chat->startNew();
    QCOMPARE(count(), 0);
    m_engine->saveUser();
    QCOMPARE(m_chat->conversation(), 0);
    m_engine->write(QStringLiteral("x"));
    m_engine->finish();
    QCOMPARE(count(), 0);
  }

  void theLengthIsCountedAfterAnAnswerAndEstimatedElsewhere() {
    say(QStringLiteral("Hello"), QStringLiteral("Good day"));
    QVERIFY(m_chat->lengthKnown());
    QCOMPARE(m_chat->length(), 10);
    const qint64 conversation = m_chat->conversation();
    m_chat->rewind(idAt(0));
    QVERIFY(!m_chat->lengthKnown());
    QCOMPARE(m_chat->length(), 5);  // five characters, and what is around a message
    QCOMPARE(m_chat->timeline()->costOf(static_cast<double>(idAt(0))), m_chat->length());
    m_chat->startNew();
    QCOMPARE(m_chat->length(), 0);
    m_chat->open(conversation);
    m_chat->returnToEnd();
    QVERIFY(m_chat->lengthKnown());  // what was counted once is known
    QCOMPARE(m_chat->length(), 10);
  }

  void theLastVersionsInViewAreFound() {
    say(QStringLiteral("A"), QStringLiteral("1"));
    QCOMPARE(m_chat->lastWithAlternatives(), 0);
    m_chat->regenerate(idAt(1));
    m_engine->answerWith(QStringLiteral("2"));
    const qint64 second = idAt(1);
    say(QStringLiteral("B"), QStringLiteral("3"));
    QCOMPARE(m_chat->lastWithAlternatives(), second);
  }

  void draftsAreKeptByConversationInTheLibrary() {
    const qint64 a = m_engine->addConversation(QStringLiteral("a"), {QStringLiteral("X")});
    m_chat->setDraft(QStringLiteral("new one"));
    m_chat->open(a);
    QCOMPARE(m_chat->draft(), QString());
    m_chat->setDraft(QStringLiteral("for a"));
    m_chat->startNew();
    QCOMPARE(m_chat->draft(), QStringLiteral("new one"));
    QCOMPARE(m_engine->drafts.value(0), QStringLiteral("new one"));
    ChatModel later(*m_engine, *m_settings);
    m_engine->readDrafts({});
    QCOMPARE(later.draft(), QStringLiteral("new one"));
    later.open(a);
    QCOMPARE(later.draft(), QStringLiteral("for a"));
  }

  void whatIsTypedInPlaceOfAMessageIsKeptUntilItIsSent() {
    say(QStringLiteral("A"), QStringLiteral("1"));
    m_chat->keepEdit(idAt(0), QStringLiteral("B"));
    m_chat->setDraft(QStringLiteral("typed"));  // in the field, at the same time
    QTRY_COMPARE(m_engine->drafts.value(m_chat->conversation()), QStringLiteral("typed"));
    QCOMPARE(m_engine->drafts.value(-idAt(0)), QStringLiteral("B"));
    QCOMPARE(m_chat->editOf(idAt(0)), QStringLiteral("B"));
    QCOMPARE(m_chat->editOf(0), QString());  // a message that is not stored yet
    m_chat->keepEdit(idAt(0), QString());
    m_chat->saveDraft();
    QCOMPARE(m_engine->drafts.value(-idAt(0)), QString());
    QCOMPARE(m_chat->draft(), QStringLiteral("typed"));
  }

  void typingWithoutAPauseIsKeptToo() {
    QString text;
    QElapsedTimer clock;
    clock.start();
    while (clock.elapsed() < 1500) {
      m_chat->setDraft(text += QLatin1Char('a'));
      QTest::qWait(40);
    }
    const qsizetype kept = m_engine->drafts.value(0).size();
    QVERIFY2(kept * 2 > text.size(), qPrintable(QString::number(kept)));
  }

  void aDraftThatIsSentIsForgottenByTheLibraryAlone() {
    m_chat->setDraft(QStringLiteral("Hello"));
    QTRY_COMPARE(m_engine->drafts.value(0), QStringLiteral("Hello"));
    QVERIFY(m_chat->send());
    QVERIFY(m_engine->requests.last().fromDraft);
    QTest::qWait(600);
    // It stays until it is stored as a message.
    QCOMPARE(m_engine->drafts.value(0), QStringLiteral("Hello"));
  }

  void theTimelineDrawsABranchAsALane() {
    say(QStringLiteral("A"), QStringLiteral("1"));
    say(QStringLiteral("B"), QStringLiteral("2"));
    m_chat->rewind(idAt(1));
    say(QStringLiteral("C"), QStringLiteral("3"));
    TimelineModel* timeline = m_chat->timeline();
    const auto role = [&](int row, TimelineModel::Role r) {
      return timeline->data(timeline->index(row), r);
    };
    QCOMPARE(role(4, TimelineModel::LaneRole).toInt(), 1);  // C left the lane of B
    QCOMPARE(role(3, TimelineModel::LaneRole).toInt(), 0);
    QVERIFY(!role(3, TimelineModel::OnPathRole).toBool());
    QVERIFY(role(5, TimelineModel::HeadRole).toBool());
    QCOMPARE(timeline->headRow(), 5);
    QCOMPARE(role(1, TimelineModel::TurnsRole).toList().size(), 1);
    const QVariantMap passing = role(2, TimelineModel::LinesRole).toList().at(1).toMap();
    QCOMPARE(passing.value("lane").toInt(), 1);
    QVERIFY(passing.value("up").toBool() && passing.value("down").toBool());
  }
};

}  // namespace runnel::chat

int runChatModelTests(int argc, char** argv) {
  runnel::chat::ChatModelTest test;
  return QTest::qExec(&test, argc, argv);
}

#include "chat_model_test.moc"
