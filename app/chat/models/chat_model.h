// SPDX-License-Identifier: Apache-2.0
// The conversation in view: what can be done with it, and what the engine does for it now.
#pragma once

#include <QtQml/qqmlregistration.h>

#include <QElapsedTimer>
#include <QHash>
#include <QObject>
#include <QTimer>
#include <QVariantList>
#include <optional>

#include "app/chat/engine/chat_engine.h"
#include "app/chat/models/chat_settings.h"
#include "app/chat/models/drafts.h"
#include "app/chat/models/message_model.h"
#include "app/chat/models/message_tree.h"
#include "app/chat/models/settings.h"
#include "app/chat/models/timeline_model.h"

namespace runnel::chat {

class ChatModel : public QObject {
  Q_OBJECT
  QML_ELEMENT
  QML_UNCREATABLE("App.chat is it")
  Q_PROPERTY(qint64 conversation READ conversation NOTIFY conversationChanged)
  Q_PROPERTY(QString title READ title NOTIFY titleChanged)
  Q_PROPERTY(runnel::chat::MessageModel* messages READ messages CONSTANT)
  Q_PROPERTY(runnel::chat::TimelineModel* timeline READ timeline CONSTANT)
  Q_PROPERTY(runnel::chat::ChatSettings* own READ own CONSTANT)
  // That of the branch in view or of the chat not begun yet; as in the settings if it has none of its own.
  Q_PROPERTY(QString systemPrompt READ systemPrompt NOTIFY pathChanged)
  Q_PROPERTY(bool beginsWithDocument READ beginsWithDocument NOTIFY pathChanged)
  Q_PROPERTY(QString draft READ draft WRITE setDraft NOTIFY draftChanged)
  Q_PROPERTY(State state READ state NOTIFY stateChanged)
  Q_PROPERTY(bool busyElsewhere READ busyElsewhere NOTIFY stateChanged)
  Q_PROPERTY(double readingProgress READ readingProgress NOTIFY stateChanged)
  Q_PROPERTY(qint64 readingDone READ readingDone NOTIFY stateChanged)
  Q_PROPERTY(int secondsLeft READ secondsLeft NOTIFY stateChanged)  // of reading; -1: not known yet
  Q_PROPERTY(qint64 readingTotal READ readingTotal NOTIFY stateChanged)
  // The chat that is answered; 0: none that exists.
  Q_PROPERTY(qint64 answering READ answering NOTIFY stateChanged)
  // Its draft is sent when the other answer is done.
  Q_PROPERTY(bool queued READ queued NOTIFY stateChanged)
  Q_PROPERTY(QStringList tries READ tries NOTIFY aside)  // three answers, none of them kept yet
  Q_PROPERTY(bool trying READ trying NOTIFY stateChanged)
  Q_PROPERTY(QString told READ told NOTIFY aside)  // what was answered aside
  Q_PROPERTY(bool asking READ asking NOTIFY stateChanged)
  Q_PROPERTY(AnswerKind answerKind READ answerKind NOTIFY answerFormChanged)
  Q_PROPERTY(QString schemaName READ schemaName NOTIFY answerFormChanged)
  Q_PROPERTY(bool canGoBack READ canGoBack NOTIFY pathChanged)
  Q_PROPERTY(bool canGoForward READ canGoForward NOTIFY pathChanged)
  Q_PROPERTY(bool wentBack READ wentBack NOTIFY pathChanged)
  Q_PROPERTY(bool unanswered READ unanswered NOTIFY pathChanged)
  Q_PROPERTY(double tokensPerSecond READ tokensPerSecond NOTIFY statisticsChanged)
  Q_PROPERTY(QString hostDraws READ hostDraws NOTIFY statisticsChanged)
  Q_PROPERTY(double firstTokenMs READ firstTokenMs NOTIFY statisticsChanged)
  Q_PROPERTY(qint64 tokensWritten READ tokensWritten NOTIFY statisticsChanged)
  Q_PROPERTY(qint64 tokensRead READ tokensRead NOTIFY statisticsChanged)
  Q_PROPERTY(qint64 tokensRelaid READ tokensRelaid NOTIFY statisticsChanged)
  Q_PROPERTY(qint64 position READ position NOTIFY statisticsChanged)
  Q_PROPERTY(qint64 length READ length NOTIFY pathChanged)
  Q_PROPERTY(bool lengthKnown READ lengthKnown NOTIFY pathChanged)

 public:
  enum State {
    Idle,
    Waiting,  // the engine has the request: it loads the model or goes to the place
    Reading,
    Writing,
    Stopping
  };
  Q_ENUM(State)
  enum AnswerKind { AnswerFree = ReplyForm::Free, AnswerJson, AnswerSchema };
  Q_ENUM(AnswerKind)

  ChatModel(ChatEngine& engine, Settings& settings, QObject* parent = nullptr);

  ~ChatModel() override { saveDraft(); }

  qint64 conversation() const { return m_conversation; }
  QString title() const { return m_title; }
  MessageModel* messages() { return &m_messages; }
  TimelineModel* timeline() { return &m_timeline; }
  ChatSettings* own() { return &m_own; }
  QString systemPrompt() const;
  bool beginsWithDocument() const;
  /// The file of the model that is to be loaded, as far as a chat says: of the one that is answered, else of the one in
  /// view. Empty: as in the settings.
  QString wantedModel() const { return busy() ? m_turn.own.model : m_own.own().model; }
  qint64 head() const { return m_tree.head(); }
  QVector<qint64> answersInView() const;
  bool modelKnown() const { return busy() || m_ownKnown; }  // or its tree is yet to come
  QString draft() const { return m_drafts.of(m_conversation); }
  void setDraft(const QString& text);
  State state() const;  // of the conversation in view
  bool busy() const { return m_turn.ticket != 0; }
  bool busyElsewhere() const { return busy() && !turnIsHere(); }
  qint64 answering() const { return m_turn.conversation; }
  bool queued() const;
  QStringList tries() const { return m_tries; }
  bool trying() const { return turnIsHere() && m_turn.act == Act::Try; }
  QString told() const { return m_told; }
  bool asking() const { return turnIsHere() && m_turn.act == Act::Ask; }
  AnswerKind answerKind() const { return static_cast<AnswerKind>(m_own.own().form.kind); }
  QString schemaName() const { return m_own.own().form.name; }
  bool canGoBack() const { return !m_back.isEmpty(); }
  bool canGoForward() const { return !m_forward.isEmpty(); }
  double readingProgress() const;
  qint64 readingDone() const { return m_turn.done; }
  int secondsLeft() const;
  qint64 readingTotal() const { return m_turn.total; }
  bool wentBack() const;    // something follows where the talk stands
  bool unanswered() const;  // the talk stands after a message of the user
  double tokensPerSecond() const { return m_last.tokensPerSecond; }
  QString hostDraws() const { return m_last.hostDraws; }
  double firstTokenMs() const { return m_last.firstTokenMs; }
  qint64 tokensWritten() const { return m_last.written; }
  qint64 tokensRead() const { return m_last.read; }
  qint64 tokensRelaid() const { return m_last.relaid; }
  qint64 position() const { return m_last.position; }
  qint64 length() const;     // tokens of the talk up to where it stands
  bool lengthKnown() const;  // counted, not estimated from its text

  /// Shows a conversation as it was left; `message` (0: none) is brought into view, or found beside it where it is on
  /// another branch: looking does not move.
  Q_INVOKABLE void open(qint64 conversation, qint64 message = 0);
  /// An empty page: the conversation is made when its first message is sent.
  Q_INVOKABLE void startNew();
  /// The draft; while another chat is answered it waits for that. False if there is nothing to send or this chat is
  /// being answered.
  Q_INVOKABLE bool send();
  Q_INVOKABLE void unqueue();              // the draft in view stays what it is
  Q_INVOKABLE void stop();                 // the answer in view
  Q_INVOKABLE void resume(qint64 answer);  // one that was cut short, where the talk stands
  Q_INVOKABLE void editAnswer(qint64 answer, const QString& text);  // as another version
  Q_INVOKABLE void regenerate(qint64 answer);
  /// Three answers beside an answer, or to a message of the user; keepTry() makes one of them a version.
  /// False if something is being answered.
  Q_INVOKABLE bool tryThree(qint64 message);
  Q_INVOKABLE void keepTry(int which);
  /// Reads a document's text once: a chat begins after it, and others can. False if something is being answered.
  bool readDocument(const QString& file, const QString& text);
  /// Another chat that begins with all that was said up to a message, at once. False if something is being answered.
  Q_INVOKABLE bool beginFrom(qint64 message);
  /// Asks a copy of the state where the talk stands: told() is the answer, and nothing is added.
  Q_INVOKABLE bool askAside(const QString& question);
  /// What the answers of this chat must be from now on; kept with it.
  Q_INVOKABLE void answerFreely() { setForm({}); }
  Q_INVOKABLE void answerAsJson() { setForm({.kind = ReplyForm::Json}); }
  Q_INVOKABLE void answerBySchema(const QString& file);
  /// The system prompt of this chat. One that is begun is said again under it from the start, as a new branch, and read
  /// with the next message; what was there stays. False while it is answered, or if nothing changes.
  Q_INVOKABLE bool setSystemPrompt(const QString& text);
  Q_INVOKABLE void answerAgain();      // to the user's message where the talk stands
  Q_INVOKABLE void answerLastAgain();  // whichever of the two fits
  Q_INVOKABLE void edit(qint64 message, const QString& text);
  /// What is typed in place of a message, kept until it is sent or given up (empty).
  Q_INVOKABLE QString editOf(qint64 message) const;
  Q_INVOKABLE void keepEdit(qint64 message, const QString& text);
  Q_INVOKABLE void rewind(qint64 message);
  Q_INVOKABLE void goBack();  // to the place before the last move
  Q_INVOKABLE void goForward();
  Q_INVOKABLE bool look(qint64 message);  // scrolls to it. False if it is on another branch
  Q_INVOKABLE void returnToEnd();
  Q_INVOKABLE void showAlternative(qint64 message, int step);
  Q_INVOKABLE void showMessage(qint64 message);  // with what follows it
  Q_INVOKABLE void pin(qint64 message, bool pinned);
  Q_INVOKABLE void nameMessage(qint64 message, const QString& name);
  Q_INVOKABLE void deleteFrom(qint64 message);
  /// What deleteFrom() takes: {messages, branches, pinned}.
  Q_INVOKABLE QVariantMap whatGoes(qint64 message) const;
  Q_INVOKABLE QString roleOf(qint64 message) const;
  Q_INVOKABLE QString textOf(qint64 message) const;
  Q_INVOKABLE QString thoughtOf(qint64 message) const;
  Q_INVOKABLE double secondsFor(qint64 tokens) const;  // of reading, about; 0: not known yet
  Q_INVOKABLE QVariantList alternativesOf(qint64 message) const;  // {id, text, shown, number}
  /// The last message in view that was said or answered in several versions; 0: none.
  Q_INVOKABLE qint64 lastWithAlternatives() const;

  void reload();         // after a change in the library
  void reloadInPlace();  // after a change by another program: where the talk stands here, it stays
  void saveDraft();      // now, and the chat's own settings
  void forget();         // the conversation in view was deleted

 Q_SIGNALS:
  void conversationChanged();
  void titleChanged();
  void draftChanged();
  void stateChanged();
  void pathChanged();
  void statisticsChanged();
  void answerFormChanged();
  void modelWanted();                  // wantedModel() may be another one
  void answered(const QString& text);  // for screen readers
  void failed(const runnel::chat::Problem& problem);
  void warned(const QString& warning);
  void bringIntoView(int row);
  void foundBeside(qint64 message);  // what was to be seen is on another branch
  void aside();                      // tries or told changed
  void opened();                     // where it was left
  void libraryChanged();

 private:
  // The answer the engine works on, perhaps of a conversation that is not in view.
  struct Turn {
    quint64 ticket = 0;
    qint64 conversation = 0;  // 0: being made
    qint64 after = 0;
    QString said;     // not stored yet
    QString written;  // so far
    qint64 done = 0;
    qint64 total = 0;
    State state = Waiting;
    bool here = true;  // a conversation being made is in view
    Act act = Act::Answer;
    bool fromDraft = false;
    OwnSettings own = {};
    QElapsedTimer reading = {};  // since the first report of it
    qint64 before = 0;           // tokens that were read by then
    QString thought = {};        // before what is written
    QElapsedTimer thinking = {};
    qint64 thoughtMs = 0;  // once it is over
  };
  // A draft that is sent when another answer is done.
  struct Queued {
    qint64 conversation = 0;
    qint64 after = 0;
    OwnSettings own = {};
    std::optional<QString> system = {};
  };

  void begin(const AnswerRequest& request) { begin(request, m_own.own(), m_system); }
  /// With what the chat has of its own.
  void begin(AnswerRequest request, const OwnSettings& own, const std::optional<QString>& system);
  void sendQueued();
  void moved();  // where the talk stands is about to change
  void setForm(const ReplyForm& form);
  void showOwn(const OwnSettings& own);
  void saveOwn();
  void keepOwn(qint64 conversation, const OwnSettings& own);
  void onRefused(const ReplyForm& form, const Problem& problem);
  bool turnIsHere() const;
  bool turnIsAside() const {
    return m_turn.act == Act::Try || m_turn.act == Act::Ask || m_turn.act == Act::Read;
  }
  void setHead(qint64 message);
  void lookFor(qint64 message);
  void showPath();
  void onTree(const ConversationTree& tree);
  void onUserSaved(quint64 ticket, qint64 conversation, const Message& message);
  void onText(quint64 ticket, const QString& piece);
  void onThought(quint64 ticket, const QString& piece);
  void writingBegan();
  void onAnswered(quint64 ticket, const AnswerReport& report);
  void onReplaced(const Replaced& replaced);
  void onFailed(quint64 ticket, const Problem& problem);
  void endTurn();
  void switchTo(qint64 conversation);

  ChatEngine& m_engine;
  Settings& m_settings;
  MessageModel m_messages;
  TimelineModel m_timeline;
  MessageTree m_tree;
  qint64 m_conversation = 0;
  QString m_title;
  Drafts m_drafts;
  ChatSettings m_own;
  bool m_ownKnown = true;
  QTimer m_keeping;                 // until its own settings are kept
  std::optional<QString> m_system;  // of the chat that is not begun yet
  struct Chosen {                   // last, and may yet be refused
    qint64 conversation = 0;
    ReplyForm form = {};
    OwnSettings before = {};
  } m_chosen;
  QVector<Queued> m_queue;
  QVector<qint64> m_back;
  QVector<qint64> m_forward;
  bool m_keepsHead = false;  // when the tree comes
  qint64 m_wanted = 0;       // message to bring into view when its tree comes
  Turn m_turn;
  quint64 m_tickets = 0;
  AnswerReport m_last;
  QHash<qint64, qint64> m_counted;  // answer → tokens up to it
  QStringList m_tries;
  qint64 m_triedAfter = 0;  // the message that they answer
  QString m_told;
  double m_readRate = 0;  // tokens per second; 0: not known
};

}  // namespace runnel::chat
