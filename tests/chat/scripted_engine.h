// SPDX-License-Identifier: Apache-2.0
// An engine that does what a test says: a library in memory, answers written by hand.
#pragma once

#include <QHash>
#include <QStringList>
#include <algorithm>
#include <utility>

#include "app/chat/engine/chat_engine.h"

namespace runnel::chat {

class ScriptedEngine : public ChatEngine {
  Q_OBJECT

 public:
  using ChatEngine::ChatEngine;

  // What a test looks at.
  QVector<AnswerRequest> requests;
  int stops = 0;
  QVector<qint64> forgotten;
  QStringList loads;   // "file device threads"
  QList<int> windows;  // of each of them
  QStringList searches;
  QStringList calls;

  // What a test does.
  Q_INVOKABLE qint64 addConversation(const QString& name, const QStringList& texts) {
    const qint64 id = ++m_ids;
    ConversationTree tree{.id = id, .name = name};
    for (const QString& text : texts) {
      tree.messages.push_back({.id = ++m_ids,
                               .parent = tree.head,
                               .role = tree.messages.size() % 2 == 0 ? QStringLiteral("user")
                                                                     : QStringLiteral("assistant"),
                               .text = text});
      tree.head = m_ids;
    }
    trees.insert(id, tree);
    return id;
  }
  /// A conversation whose messages are a tree: `parents` are places in `texts`, -1: none.
  Q_INVOKABLE qint64 addTree(const QString& name, const QStringList& texts,
                             const QList<int>& parents) {
    const qint64 id = addConversation(name, texts);
    ConversationTree& tree = trees[id];
    QVector<qint64> ids;
    for (const Message& message : std::as_const(tree.messages)) ids.push_back(message.id);
    for (qsizetype i = 0; i < tree.messages.size(); ++i)
      tree.messages[i].parent = parents.at(i) < 0 ? 0 : ids.at(parents.at(i));
    return id;
  }
  /// When message number `at` was written, and whether its state is saved.
  Q_INVOKABLE void setPlace(qint64 conversation, int at, double created, bool instant) {
    trees[conversation].messages[at].created = static_cast<qint64>(created);
    trees[conversation].messages[at].instant = instant;
  }
  /// The user's message of the running request is stored.
  Q_INVOKABLE void saveUser() {
    const AnswerRequest& request = requests.last();
    qint64 id = request.conversation;
    if (id == 0) id = addConversation(request.name, {});
    const Message message{.id = ++m_ids,
                          .parent = request.after,
                          .role = QStringLiteral("user"),
                          .text = request.text};
    trees[id].messages.push_back(message);
    trees[id].head = message.id;
    m_parent = message.id;
    m_answered = id;
    Q_EMIT userSaved(request.ticket, id, message);
  }
  /// These passages are found for the message that saveUser() stored; `messages`: of which they are.
  Q_INVOKABLE void remind(const QList<double>& messages, const QStringList& texts) {
    Message& question = trees[m_answered].messages.last();
    for (qsizetype i = 0; i < texts.size(); ++i)
      question.quoted.push_back({static_cast<qint64>(messages.at(i)), texts.at(i)});
    Q_EMIT reminded(requests.last().ticket, question);
  }
  Q_INVOKABLE bool lastReminds() const { return requests.last().remind; }
  Q_INVOKABLE void think(const QString& piece) {
    m_thought += piece;
    Q_EMIT thoughtWritten(requests.last().ticket, piece);
  }
  Q_INVOKABLE void write(const QString& piece) {
    m_written += piece;
    Q_EMIT textWritten(requests.last().ticket, piece);
  }
  void finish(AnswerEnd end = AnswerEnd::Complete) {
    const AnswerRequest& request = requests.last();
    AnswerReport report{.end = end,
                        .written = 3,
                        .firstTokenMs = 12,
                        .tokensPerSecond = 50,
                        .position = m_position};
    if (request.text.isEmpty() || request.act == Act::Write) m_answered = request.conversation;
    const bool said = !request.text.isEmpty() && request.act == Act::Answer;
    ConversationTree& tree = trees[m_answered];
    Message answer{
        .parent = said ? m_parent : request.after,
        .role = QStringLiteral("assistant"),
        .text = request.act == Act::Write ? request.text : std::exchange(m_written, QString()),
        .complete = end == AnswerEnd::Complete,
        .cut = end == AnswerEnd::Stopped  ? Cut::Stopped
               : end == AnswerEnd::Length ? Cut::Length
                                          : Cut::None,
        .thought = std::exchange(m_thought, QString()),
        .thoughtMs = 2400};
    if (request.act == Act::Resume) {
      auto old = std::find_if(tree.messages.begin(), tree.messages.end(),
                              [&](const Message& m) { return m.id == request.after; });
      answer.id = old->id;
      answer.parent = old->parent;
      answer.text = old->text + answer.text;
      *old = answer;
    } else {
      answer.id = ++m_ids;
      tree.messages.push_back(answer);
    }
    tree.head = answer.id;
    report.answer = answer;
    Q_EMIT answered(request.ticket, report);
  }
  Q_INVOKABLE void finishCut(bool stopped) {
    finish(stopped ? AnswerEnd::Stopped : AnswerEnd::Length);
  }
  Q_INVOKABLE void answerWith(const QString& text, qint64 position = 10) {
    m_position = position;
    if (!requests.last().text.isEmpty()) saveUser();
    write(text);
    finish();
  }
  Q_INVOKABLE void failStopped() { failAnswer(ErrorCode::cancelled); }
  void failAnswer(ErrorCode code) {
    Q_EMIT answerFailed(requests.last().ticket, {code, QStringLiteral("why")});
  }

  /// The load asked for last is done, on this device, or failed.
  Q_INVOKABLE void finishLoad(const QString& device, double stateBytes = 0) {
    Q_EMIT modelLoaded({.file = lastLoad().section(u' ', 0, -3),
                        .name = QStringLiteral("tiny"),
                        .device = device,
                        .stateBytes = static_cast<quint64>(stateBytes)});
  }
  /// The same, with the program that computes one token there.
  Q_INVOKABLE void finishLoadWith(const QString& device, const QString& program) {
    Q_EMIT modelLoaded({.file = lastLoad().section(u' ', 0, -3),
                        .name = QStringLiteral("tiny"),
                        .device = device,
                        .stepProgram = program});
  }
  Q_INVOKABLE void finishWindow(int window, int ofFile) {
    Q_EMIT modelLoaded({.file = lastLoad().section(u' ', 0, -3),
                        .name = QStringLiteral("tiny"),
                        .device = QStringLiteral("cpu"),
                        .windowSlots = window,
                        .fileWindowSlots = ofFile});
  }
  Q_INVOKABLE void progress(double fraction) { Q_EMIT loadProgress(fraction); }
  void failLoad(ErrorCode code) { Q_EMIT modelFailed({code, QStringLiteral("why")}); }
  Q_INVOKABLE void failDevice() { failLoad(ErrorCode::device); }
  Q_INVOKABLE void failCancelled() { failLoad(ErrorCode::cancelled); }
  Q_INVOKABLE int cancelCount() const {
    return static_cast<int>(calls.count(QStringLiteral("cancel")));
  }
  Q_INVOKABLE int windowOfLastLoad() const { return windows.isEmpty() ? -1 : windows.last(); }
  Q_INVOKABLE QString lastLoad() const { return loads.isEmpty() ? QString() : loads.last(); }

  Q_INVOKABLE void finishAnswer() { finish(); }
  /// Three answers come, each in two pieces.
  Q_INVOKABLE void tryWith(const QStringList& texts) {
    const AnswerRequest& request = requests.last();
    AnswerReport report{.tries = texts};
    for (int half = 0; half < 2; ++half) {
      for (int i = 0; i < texts.size(); ++i) {
        const qsizetype middle = texts.at(i).size() / 2;
        Q_EMIT tryWritten(request.ticket, i,
                          half == 0 ? texts.at(i).left(middle) : texts.at(i).mid(middle));
      }
    }
    report.answer.parent = request.head;
    Q_EMIT answered(request.ticket, report);
  }
  /// What was asked aside is answered.
  Q_INVOKABLE void tellAside(const QString& text) {
    const AnswerRequest& request = requests.last();
    Q_EMIT textWritten(request.ticket, text);
    Q_EMIT answered(request.ticket, {});
  }
  Q_INVOKABLE QString lastCall() const { return calls.isEmpty() ? QString() : calls.last(); }
  Q_INVOKABLE int requestCount() const { return static_cast<int>(requests.size()); }
  Q_INVOKABLE QString lastText() const {
    return requests.isEmpty() ? QString() : requests.last().text;
  }
  Q_INVOKABLE QString lastSystem() const { return requests.last().system; }
  Q_INVOKABLE int stopCount() const { return stops; }

  Q_INVOKABLE void failLibrary(const QString& file, const QString& why) {
    Q_EMIT libraryFailed(
        {.code = ErrorCode::malformed, .message = why, .about = About::Library, .file = file});
  }
  Q_INVOKABLE void refuseLibrary(const QString& file) {
    Q_EMIT libraryFailed({.code = ErrorCode::io,
                          .message = file + QStringLiteral(": Permission denied"),
                          .about = About::Library,
                          .file = file,
                          .refusal = Refusal::Forbidden});
  }
  Q_INVOKABLE int callCount(const QString& call) const {
    return static_cast<int>(calls.count(call));
  }
  /// Another program adds a message to a conversation.
  Q_INVOKABLE void writeElsewhere(qint64 conversation, const QString& text) {
    ConversationTree& tree = trees[conversation];
    tree.messages.push_back(
        {.id = ++m_ids, .parent = tree.head, .role = QStringLiteral("user"), .text = text});
    tree.head = m_ids;
    Q_EMIT changedElsewhere();
  }

  QHash<qint64, ConversationTree> trees;
  QHash<qint64, QString> drafts;

  // ChatEngine
  void loadModel(const QString& file, const QString& device, int threads, int window) override {
    windows.push_back(window);
    loads.push_back(QStringLiteral("%1 %2 %3").arg(file, device).arg(threads));
  }
  void cancelLoading() override { calls.push_back(QStringLiteral("cancel")); }
  void inspect(const QString& file) override {
    Q_EMIT inspected({.file = file,
                      .name = QStringLiteral("tiny"),
                      .parameters = 1'000'000,
                      .weightBytes = 2'000'000,
                      .stateBytes = 10'000,
                      .quantisation = QStringLiteral("Q4_0"),
                      .layers = 2,
                      .canChat = true});
  }
  void listDevices() override {
    Q_EMIT devicesListed(
        {{.id = QStringLiteral("cpu"), .name = QStringLiteral("A processor")},
         {.id = QStringLiteral("vulkan:0"), .name = QStringLiteral("A GPU")},
         {.id = QStringLiteral("reference"), .name = QStringLiteral("Reference")}});
  }
  void answer(const AnswerRequest& request) override { requests.push_back(request); }
  void stop() override { ++stops; }
  void check(const ReplyForm& form) override {
    calls.push_back(QStringLiteral("check %1 %2").arg(form.kind).arg(form.name));
    if (form.schema.contains(QStringLiteral("nonsense"))) {
      Q_EMIT refused(
          form, {.code = ErrorCode::invalid_argument,
                 .message = QStringLiteral("schema: type is \"nonsense\", expected one of JSON"),
                 .about = About::Form,
                 .file = form.name});
    }
  }
  void beginAgain(qint64 conversation, qint64 leaf, const QString& system) override {
    calls.push_back(QStringLiteral("again %1 %2 %3").arg(conversation).arg(leaf).arg(system));
    ConversationTree& tree = trees[conversation];
    QVector<Message> path;
    for (qint64 at = leaf; at != 0;) {
      const auto found = std::find_if(tree.messages.cbegin(), tree.messages.cend(),
                                      [at](const Message& m) { return m.id == at; });
      path.prepend(*found);
      at = found->parent;
    }
    if (!path.isEmpty() && path.first().role == QStringLiteral("system")) path.removeFirst();
    if (!system.isEmpty()) path.prepend({.role = QStringLiteral("system"), .text = system});
    tree.head = 0;
    for (Message& message : path) {
      message.id = ++m_ids;
      message.parent = tree.head;
      tree.messages.push_back(message);
      tree.head = message.id;
    }
    Q_EMIT treeRead(tree);
  }
  void addFolder(const QString& name, qint64 conversation) override {
    m_folders.push_back({.id = ++m_ids, .name = name});
    std::sort(m_folders.begin(), m_folders.end(),
              [](const FolderRow& a, const FolderRow& b) { return a.name < b.name; });
    if (conversation != 0) m_foldered.insert(conversation, m_ids);
    listConversations();
    Q_EMIT folderAdded(m_ids);
  }
  void renameFolder(qint64 folder, const QString& name) override {
    for (FolderRow& row : m_folders) {
      if (row.id == folder) row.name = name;
    }
    listConversations();
  }
  void foldFolder(qint64 folder, bool folded) override {
    for (FolderRow& row : m_folders) {
      if (row.id == folder) row.folded = folded;
    }
    listConversations();
  }
  void removeFolder(qint64 folder) override {
    m_folders.removeIf([folder](const FolderRow& row) { return row.id == folder; });
    m_foldered.removeIf([folder](const auto& entry) { return *entry == folder; });
    listConversations();
  }
  void putIntoFolder(qint64 conversation, qint64 folder) override {
    m_foldered.insert(conversation, folder);
    listConversations();
  }
  void setSettings(qint64 conversation, const QString& json) override {
    trees[conversation].settings = json;
  }
  Q_INVOKABLE void setOwn(qint64 conversation, const QString& json) {
    trees[conversation].settings = json;
  }
  Q_INVOKABLE double lastTemperature() const {
    return static_cast<double>(requests.last().sampling.temperature);
  }
  Q_INVOKABLE double lastSeed() const { return static_cast<double>(requests.last().sampling.seed); }
  /// An empty library.
  Q_INVOKABLE void forgetChats() {
    trees.clear();
    listConversations();
  }
  Q_INVOKABLE QString settingsOf(qint64 conversation) const {
    return trees.value(conversation).settings;
  }
  /// "kind name" of the form that the last answer was asked for in.
  Q_INVOKABLE QString lastForm() const {
    return QStringLiteral("%1 %2").arg(requests.last().form.kind).arg(requests.last().form.name);
  }
  void listConversations() override {
    Q_EMIT foldersListed(m_folders);
    QVector<ConversationRow> rows;
    QList<qint64> ids = trees.keys();
    std::sort(ids.begin(), ids.end(), std::greater<>());
    for (const qint64 id : ids) {
      if (m_trash.contains(id)) continue;
      rows.push_back({.id = id,
                      .name = trees[id].name,
                      .updated = 1,
                      .pinned = m_pinned.contains(id),
                      .folder = m_foldered.value(id)});
    }
    Q_EMIT conversationsListed(rows);
  }
  void readTree(qint64 conversation) override { Q_EMIT treeRead(trees.value(conversation)); }
  void search(const QString& query) override {
    searches.push_back(query);
    QVector<SearchResult> results;
    for (const ConversationTree& tree : std::as_const(trees)) {
      for (const Message& message : tree.messages) {
        if (message.text.contains(query))
          results.push_back({tree.id, message.id, tree.name, message.role,
                             QStringLiteral("<i> «%1»").arg(query)});
      }
    }
    Q_EMIT searched(query, results);
  }
  void rename(qint64 conversation, const QString& name) override {
    trees[conversation].name = name;
    listConversations();
  }
  void pinConversation(qint64 conversation, bool pinned) override {
    m_pinned.removeAll(conversation);
    if (pinned) m_pinned.push_back(conversation);
    listConversations();
  }
  void setHead(qint64 conversation, qint64 message) override { trees[conversation].head = message; }
  void pinMessage(qint64 id, bool pinned) override {
    calls.push_back(QStringLiteral("pin %1 %2").arg(id).arg(pinned));
  }
  void nameMessage(qint64 id, const QString& name) override {
    calls.push_back(QStringLiteral("name %1 %2").arg(id).arg(name));
  }
  void deleteConversation(qint64 conversation) override {
    m_trash.push_back(conversation);
    m_deleted.prepend({.trash = conversation,
                       .conversation = conversation,
                       .whole = true,
                       .messages = trees[conversation].messages.size(),
                       .name = trees[conversation].name});
    Q_EMIT deleted(conversation, 0, conversation);
    listConversations();
    listTrash();
  }
  void deleteFrom(qint64 conversation, qint64 message) override {
    ConversationTree& tree = trees[conversation];
    m_before = tree;
    QVector<qint64> gone = {message};
    tree.messages.removeIf([&](const Message& m) {
      if (m.id != message && !gone.contains(m.parent)) return false;
      gone.push_back(m.id);
      if (m.id == message) tree.head = m.parent;
      return true;
    });
    m_deleted.prepend({.trash = 77,
                       .conversation = conversation,
                       .messages = gone.size() - 1,
                       .name = tree.name});
    Q_EMIT deleted(conversation, message, 77);
    listTrash();
    Q_EMIT treeRead(tree);
  }
  void undoDelete(qint64 conversation, qint64 trash) override {
    if (trash == 77) trees[conversation] = m_before;
    m_trash.removeAll(conversation);
    m_deleted.removeIf([trash](const DeletedRow& row) { return row.trash == trash; });
    Q_EMIT undone(conversation);
    listConversations();
    listTrash();
  }
  void listTrash() override { Q_EMIT trashListed(m_deleted); }
  void forgetTrash(qint64 trash) override {
    forgotten.push_back(trash);
    m_deleted.removeIf([trash](const DeletedRow& row) { return row.trash == trash; });
    listTrash();
  }
  void setDraft(qint64 conversation, const QString& text) override {
    drafts.insert(conversation, text);
  }
  void readDrafts(const QHash<qint64, QString>& older) override {
    for (auto old = older.cbegin(); old != older.cend(); ++old) drafts.insert(old.key(), *old);
    Q_EMIT draftsRead(drafts);
  }
  void replaceLibrary(Replace how) override {
    const bool copy = how != Replace::Anew;
    calls.push_back(how == Replace::Look      ? QStringLiteral("look")
                    : how == Replace::Salvage ? QStringLiteral("salvage")
                                              : QStringLiteral("fresh"));
    Q_EMIT libraryReplaced({.how = how,
                            .old = QStringLiteral("/x/old.db"),
                            .file = QStringLiteral("/x/new.db"),
                            .conversations = copy ? 2 : 0,
                            .messages = copy ? 5 : 0,
                            .unreadable = copy ? 1 : 0});
  }
  void exportTo(qint64, const QString& file) override { Q_EMIT exported(file); }
  void importFrom(const QString& file) override {
    const qint64 id = addConversation(file, {QStringLiteral("Hello")});
    Q_EMIT imported(id, 1);
    listConversations();
  }
  void savePlace(qint64 conversation, qint64 message, const QString& file) override {
    calls.push_back(QStringLiteral("place %1 %2 %3").arg(conversation).arg(message).arg(file));
    Q_EMIT exported(file);
  }
  void openPlace(const QString& file) override {
    const qint64 id = addConversation(file, {QStringLiteral("Hello"), QStringLiteral("there")});
    Q_EMIT placeOpened(id, file.contains(QStringLiteral("other")) ? 500 : 0);
    listConversations();
  }
  void beginFrom(qint64 conversation, qint64 message, const QString& name) override {
    QStringList said;
    for (const Message& m : std::as_const(trees[conversation].messages)) {
      if (m.id <= message) said.push_back(m.text);
    }
    const qint64 id = addConversation(name, said);
    Q_EMIT placeOpened(id, 0);
    listConversations();
  }
  void measureStore() override { Q_EMIT storeMeasured({3, 17'000'000, 40'960}); }
  void setBudget(quint64 bytes) override {
    calls.push_back(QStringLiteral("budget %1").arg(bytes));
  }

 private:
  qint64 m_ids = 100;
  qint64 m_parent = 0;
  qint64 m_answered = 0;
  QString m_written;
  QString m_thought;
  qint64 m_position = 10;  // tokens of the conversation after an answer
  QVector<qint64> m_trash;
  QVector<DeletedRow> m_deleted;
  QVector<qint64> m_pinned;
  QVector<FolderRow> m_folders;
  QHash<qint64, qint64> m_foldered;
  ConversationTree m_before;
};

}  // namespace runnel::chat
