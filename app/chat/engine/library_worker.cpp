// SPDX-License-Identifier: Apache-2.0
#include "app/chat/engine/library_worker.h"

#include <QDateTime>
#include <QFile>
#include <QFileInfo>
#include <QLoggingCategory>
#include <QSaveFile>
#include <QStandardPaths>
#include <algorithm>
#include <chrono>
#include <vector>

#include "app/chat/engine/convert.h"
#include "app/chat/engine/model_facts.h"
#include "app/chat/engine/own_settings.h"
#include "runnel/device.h"
#include "runtime/base/try.h"

namespace runnel::chat {

namespace {

// What is being done to the library, for tests that kill the program meanwhile.
Q_LOGGING_CATEGORY(acts, "runnel.chat.acts", QtWarningMsg)

constexpr qint64 kLargestImport = 256LL << 20;  // bytes of JSON
constexpr std::chrono::hours kKept(24 * 30);    // what was deleted

Result<QByteArray> readWhole(const QString& name) {
  QFile file(name);
  if (!file.open(QIODevice::ReadOnly))
    return fail(ErrorCode::io, name.toStdString(), ": ", file.errorString().toStdString());
  return file.readAll();
}

Status writeWhole(const QString& name, const std::string& bytes) {
  QSaveFile file(name);  // the old file or the whole new one
  if (!file.open(QIODevice::WriteOnly) ||
      file.write(bytes.data(), static_cast<qint64>(bytes.size())) !=
          static_cast<qint64>(bytes.size()) ||
      !file.commit()) {
    return fail(ErrorCode::io, name.toStdString(), ": ", file.errorString().toStdString());
  }
  return {};
}

// JSON that breaks off, or an export of ours that is not as we write it; not that of something else.
bool brokenExport(const QByteArray& bytes, const std::string& why) {
  const QByteArray begin = bytes.left(64).trimmed();
  return (begin.startsWith('{') || begin.startsWith('[')) &&
         why.find("this is no export") == std::string::npos &&
         why.find("holds no message") == std::string::npos;
}

}  // namespace

QString LibraryWorker::libraryFile() const { return text(m_store->file().string()); }

Result<ConversationStore> LibraryWorker::current() {
  RUNNEL_TRY(ConversationStore store, m_store->get());
  if (m_store->generation() == m_generation) return store;
  m_generation = m_store->generation();
  m_version = 0;
  // Chats that were saved into it have their ids and times; those of a new one have other times.
  bool same = m_created.isEmpty();
  if (!same) {
    RUNNEL_TRY(const auto chats, store.list());
    same = std::any_of(chats.begin(), chats.end(), [this](const ConversationInfo& info) {
      return m_created.value(info.id, -1) == info.created;
    });
  }
  Q_EMIT libraryReplaced(
      {.how = same ? Replace::Salvage : Replace::Anew, .elsewhere = true, .file = libraryFile()});
  list();
  if (same) return store;
  return fail(ErrorCode::not_found, m_store->file().string(),
              ": another program has begun a new library here meanwhile");
}

template <class Use>
void LibraryWorker::with(const Use& use, About about, const QString& file) {
  Result<ConversationStore> store = current();
  if (!store) {
    Q_EMIT failed(problem(store.error(), About::Library, libraryFile()));
    return;
  }
  const Status done = use(*store);
  if (!done)
    Q_EMIT failed(problemIn(m_store->file(), done.error(), about,
                            about == About::Library ? libraryFile() : file));
}

std::optional<AnswerRequest> LibraryWorker::store(const AnswerRequest& request) {
  if (request.text.isEmpty() || request.act == Act::Ask || request.act == Act::Read) {
    if (request.conversation == 0) return request;
    const Result<ConversationStore> there = current();
    if (there) return request;
    Q_EMIT answerFailed(request.ticket, problem(there.error(), About::Library, libraryFile()));
    return std::nullopt;
  }
  const auto add = [&]() -> Result<MessageInfo> {
    RUNNEL_TRY(ConversationStore store, current());
    return store.add({.conversation = request.conversation,
                      .parent = request.after,
                      .role = request.act == Act::Write ? "assistant" : "user",
                      .text = request.text.toStdString(),
                      .name = request.name.toStdString(),
                      .system = request.system.toStdString(),
                      .from_draft = request.fromDraft});
  };
  qCInfo(acts) << "begins: send";
  const Result<MessageInfo> stored = add();
  if (stored) qCInfo(acts) << "done: send";
  if (!stored) {
    Q_EMIT answerFailed(request.ticket, problem(stored.error(), About::Library, libraryFile()));
    return std::nullopt;
  }
  if (request.act == Act::Write) {
    AnswerReport report;
    report.answer = message(*stored);
    Q_EMIT answered(request.ticket, report);
    return std::nullopt;
  }
  Q_EMIT userSaved(request.ticket, stored->conversation, message(*stored));
  AnswerRequest rest = request;
  rest.conversation = stored->conversation;
  rest.after = stored->id;
  rest.text.clear();
  return rest;
}

void LibraryWorker::watch(std::chrono::milliseconds forgetEvery) {
  m_forget = new QTimer(this);
  m_forget->setInterval(forgetEvery);
  connect(m_forget, &QTimer::timeout, this, &LibraryWorker::forgetOld);
  m_forget->start();
  constexpr int kLookEveryMs = 500;
  m_watch = new QTimer(this);
  m_watch->setInterval(kLookEveryMs);
  connect(m_watch, &QTimer::timeout, this, &LibraryWorker::look);
  m_watch->start();
  look();  // what is listed from now on is at least as new
}

void LibraryWorker::look() {
  const Result<ConversationStore> store = current();
  if (!store) return;  // who asked for something was told
  const Result<std::int64_t> version = store->version_seen();
  if (!version || *version == m_version) return;
  const bool first = m_version == 0;
  m_version = *version;
  if (first) return;
  list();
  listTrash();
  Q_EMIT changedElsewhere();
}

void LibraryWorker::listTrash() {
  with([this](ConversationStore& store) -> Status {
    RUNNEL_TRY(const auto found, store.trash());
    QVector<DeletedRow> rows;
    for (const TrashInfo& info : found) {
      rows.push_back({info.id, info.at, info.conversation, info.whole, info.messages,
                      text(info.name), text(info.excerpt)});
    }
    Q_EMIT trashListed(rows);
    return {};
  });
}

// Nobody asked for it now, so nobody is told if it cannot be.
void LibraryWorker::forgetOld() {
  Result<ConversationStore> store = current();
  if (!store || store->read_only()) return;
  const Result<ForgetReport> report = store->forget_trash(kKept);
  if (report && report->messages > 0) listTrash();
}

void LibraryWorker::forgetTrash(qint64 trash) {
  with([&](ConversationStore& store) -> Status {
    RUNNEL_TRY(const ForgetReport report,
               trash == 0 ? store.forget_trash(kKept) : store.forget_trash_entry(trash));
    static_cast<void>(report);
    return {};
  });
  listTrash();
}

void LibraryWorker::setSettings(qint64 conversation, const QString& json) {
  with([&](ConversationStore& s) { return s.set_settings(conversation, json.toStdString()); });
}

void LibraryWorker::setDraft(qint64 conversation, const QString& typed) {
  Result<ConversationStore> store = current();
  const Status kept =
      store ? store->set_draft(conversation, typed.toStdString()) : Status(store.error());
  if (!kept && !m_draftFailed) Q_EMIT failed(problem(kept.error(), About::Library, libraryFile()));
  m_draftFailed = !kept;
}

void LibraryWorker::readDrafts(const QHash<qint64, QString>& older) {
  with([&](ConversationStore& store) -> Status {
    RUNNEL_TRY(auto found, store.drafts());
    QHash<qint64, QString> drafts;
    for (const DraftInfo& draft : found) drafts.insert(draft.conversation, text(draft.text));
    for (auto old = older.cbegin(); old != older.cend(); ++old) {
      if (drafts.contains(old.key()) || old->isEmpty()) continue;
      RUNNEL_CHECK_OK(store.set_draft(old.key(), old->toStdString()));
      drafts.insert(old.key(), *old);
    }
    Q_EMIT draftsRead(drafts);
    return {};
  });
}

void LibraryWorker::replaceLibrary(Replace how) {
  const QString stamp = QDateTime::currentDateTime().toString(QStringLiteral("yyyyMMdd-HHmmss"));
  // Where a library can be made if not beside the old one.
  std::vector<std::filesystem::path> elsewhere;
  for (const auto place : {QStandardPaths::GenericDataLocation, QStandardPaths::TempLocation}) {
    elsewhere.emplace_back((QStandardPaths::writableLocation(place) +
                            QStringLiteral("/runnel/conversations-%1.db").arg(stamp))
                               .toStdString());
  }
  const auto replace = [&]() -> Result<Replaced> {
    Replaced replaced{.how = how};
    const SharedStore::Fill fill = [&](ConversationStore& made,
                                       const std::filesystem::path& old) -> Status {
      if (how == Replace::Anew) return {};
      RUNNEL_TRY(const SalvageReport report, made.salvage(old));
      replaced.conversations = report.conversations;
      replaced.messages = report.messages;
      replaced.unreadable = report.unreadable;
      return {};
    };
    if (how == Replace::Look) std::reverse(elsewhere.begin(), elsewhere.end());  // not for long
    const QString reason =
        (how == Replace::Anew ? QStringLiteral("kept-") : QStringLiteral("damaged-")) + stamp;
    RUNNEL_TRY(const std::filesystem::path old,
               how == Replace::Look ? m_store->move_to(elsewhere, fill)
                                    : m_store->begin_anew(reason.toStdString(), elsewhere, fill));
    replaced.old = text(old.string());
    replaced.file = libraryFile();
    return replaced;
  };
  qCInfo(acts) << "begins: replace";
  const Result<Replaced> replaced = replace();
  if (replaced) qCInfo(acts) << "done: replace";
  m_version = 0;
  m_generation = m_store->generation();
  look();
  if (replaced) {
    Q_EMIT libraryReplaced(*replaced);
  } else {
    Q_EMIT failed(problem(replaced.error(), About::Library, libraryFile()));
  }
  list();
}

void LibraryWorker::list() {
  with([this](ConversationStore& store) -> Status {
    RUNNEL_TRY(const auto kept, store.folders());
    RUNNEL_TRY(const auto found, store.list());
    QVector<FolderRow> folders;
    for (const FolderInfo& info : kept) folders.push_back({info.id, text(info.name), info.folded});
    Q_EMIT foldersListed(folders);
    QVector<ConversationRow> rows;
    rows.reserve(static_cast<qsizetype>(found.size()));
    m_created.clear();
    for (const ConversationInfo& info : found) {
      rows.push_back(
          {info.id, text(info.name), info.updated, info.messages, info.pinned, info.folder});
      m_created.insert(info.id, info.created);
    }
    Q_EMIT conversationsListed(rows);
    return {};
  });
}

void LibraryWorker::readTree(qint64 conversation) {
  with([&](ConversationStore& store) -> Status {
    const Result<ConversationInfo> there = store.info(conversation);
    if ((!there && there.error().code == ErrorCode::not_found) || (there && there->trash != 0)) {
      Q_EMIT conversationGone(conversation);
      return {};
    }
    RUNNEL_TRY(const ConversationInfo info, there);
    RUNNEL_TRY(const auto found, store.tree(conversation));
    ConversationTree tree{.id = conversation, .name = text(info.name), .head = info.head};
    RUNNEL_TRY(const std::string settings, store.settings(conversation));
    tree.settings = text(settings);
    tree.messages.reserve(static_cast<qsizetype>(found.size()));
    for (const MessageInfo& entry : found) tree.messages.push_back(message(entry));
    Q_EMIT treeRead(tree);
    return {};
  });
}

void LibraryWorker::search(const QString& query) {
  with([&](ConversationStore& store) -> Status {
    RUNNEL_TRY(const auto hits, store.search(query.toStdString(), 100));
    QVector<SearchResult> results;
    for (const SearchHit& hit : hits) {
      results.push_back(
          {hit.conversation, hit.message, text(hit.name), text(hit.role), text(hit.excerpt)});
    }
    Q_EMIT searched(query, results);
    return {};
  });
}

void LibraryWorker::rename(qint64 conversation, const QString& name) {
  qCInfo(acts) << "begins: rename";
  with([&](ConversationStore& s) -> Status {
    RUNNEL_CHECK_OK(s.rename(conversation, name.toStdString()));
    qCInfo(acts) << "done: rename";
    return {};
  });
  list();
}

void LibraryWorker::pinConversation(qint64 conversation, bool pinned) {
  with([&](ConversationStore& s) { return s.pin(conversation, pinned); });
  list();
}

void LibraryWorker::beginAgain(qint64 conversation, qint64 leaf, const QString& system) {
  with([&](ConversationStore& store) -> Status {
    RUNNEL_TRY(const MessageId head, store.begin_again(conversation, leaf, system.toStdString()));
    static_cast<void>(head);  // the tree has it
    return {};
  });
  readTree(conversation);
  list();
}

void LibraryWorker::addFolder(const QString& name, qint64 conversation) {
  with([&](ConversationStore& store) -> Status {
    RUNNEL_TRY(const FolderId folder, store.add_folder(name.toStdString()));
    if (conversation != 0) RUNNEL_CHECK_OK(store.put_into_folder(conversation, folder));
    list();
    Q_EMIT folderAdded(folder);
    return {};
  });
}

void LibraryWorker::renameFolder(qint64 folder, const QString& name) {
  with([&](ConversationStore& s) { return s.rename_folder(folder, name.toStdString()); });
  list();
}

void LibraryWorker::foldFolder(qint64 folder, bool folded) {
  with([&](ConversationStore& s) { return s.fold_folder(folder, folded); });
  list();
}

void LibraryWorker::removeFolder(qint64 folder) {
  with([&](ConversationStore& s) { return s.remove_folder(folder); });
  list();
}

void LibraryWorker::putIntoFolder(qint64 conversation, qint64 folder) {
  with([&](ConversationStore& s) { return s.put_into_folder(conversation, folder); });
  list();
}

void LibraryWorker::setHead(qint64 conversation, qint64 id) {
  with([&](ConversationStore& s) { return s.set_head(conversation, id); });
}

void LibraryWorker::pinMessage(qint64 id, bool pinned) {
  with([&](ConversationStore& s) { return s.pin_message(id, pinned); });
}

void LibraryWorker::nameMessage(qint64 id, const QString& name) {
  with([&](ConversationStore& s) { return s.name_message(id, name.toStdString()); });
}

void LibraryWorker::deleteConversation(qint64 conversation) {
  with([&](ConversationStore& store) -> Status {
    qCInfo(acts) << "begins: delete";
    RUNNEL_TRY(const TrashId trash, store.trash_conversation(conversation));
    qCInfo(acts) << "done: delete";
    Q_EMIT deleted(conversation, 0, trash);
    return {};
  });
  list();
  listTrash();
}

void LibraryWorker::deleteFrom(qint64 conversation, qint64 id) {
  with([&](ConversationStore& store) -> Status {
    RUNNEL_TRY(const TrashId trash, store.trash_from(id));
    Q_EMIT deleted(conversation, id, trash);
    return {};
  });
  listTrash();
  readTree(conversation);
}

void LibraryWorker::undoDelete(qint64 conversation, qint64 trash) {
  with([&](ConversationStore& store) -> Status {
    qCInfo(acts) << "begins: restore";
    RUNNEL_CHECK_OK(store.undo(trash));
    qCInfo(acts) << "done: restore";
    Q_EMIT undone(conversation);
    return {};
  });
  list();
  listTrash();
}

void LibraryWorker::exportTo(qint64 conversation, const QString& file) {
  with(
      [&](ConversationStore& store) -> Status {
        const bool json = file.endsWith(QStringLiteral(".json"), Qt::CaseInsensitive);
        RUNNEL_TRY(const std::string settings, store.settings(conversation));
        RUNNEL_TRY(const std::string out,
                   json ? store.export_json(conversation, OwnSettings::portable(text(settings)))
                        : store.export_markdown(conversation));
        RUNNEL_CHECK_OK(writeWhole(file, out));
        Q_EMIT exported(file);
        return {};
      },
      About::Export, file);
}

void LibraryWorker::importFrom(const QString& file) {
  const qint64 size = QFileInfo(file).size();
  if (size > kLargestImport) {
    Problem large = problem(fail(ErrorCode::unsupported, file.toStdString(), ": has ", size,
                                 " bytes, expected at most ", kLargestImport),
                            About::Import, file);
    large.flaw = Flaw::TooLarge;
    large.bytes = size;
    large.mostBytes = kLargestImport;
    Q_EMIT failed(large);
    return;
  }
  bool cut = false;
  const Result<ConversationStore> opened = current();
  qCInfo(acts) << "begins: import";
  const auto bring = [&]() -> Status {
    RUNNEL_TRY(ConversationStore store, opened);
    RUNNEL_TRY(const QByteArray bytes, readWhole(file));
    const auto ids = store.import_chats({bytes.data(), static_cast<std::size_t>(bytes.size())});
    if (!ids) {
      cut = ids.error().code == ErrorCode::malformed && brokenExport(bytes, ids.error().message);
      return ids.error();
    }
    qCInfo(acts) << "done: import";
    Q_EMIT imported(ids->back(), static_cast<int>(ids->size()));
    return {};
  };
  if (const Status done = bring(); !done) {
    Problem why = opened ? problemIn(m_store->file(), done.error(), About::Import, file)
                         : problem(done.error(), About::Library, libraryFile());
    if (cut && why.about == About::Import) why.flaw = Flaw::Damaged;
    Q_EMIT failed(why);
  }
  list();
}

void LibraryWorker::measure() {
  with([this](ConversationStore& store) -> Status {
    RUNNEL_TRY(const StoreUsage usage, store.usage());
    Q_EMIT storeMeasured({usage.snapshots, usage.snapshot_bytes, usage.database_bytes});
    return {};
  });
}

void LibraryWorker::setBudget(quint64 bytes) {
  with([&](ConversationStore& s) { return s.set_budget(bytes); });
  measure();
}

void LibraryWorker::inspect(const QString& file) { Q_EMIT inspected(readModelFacts(file)); }

void LibraryWorker::listDevices() {
  QVector<Device> list;
  for (const DeviceInfo& d : devices())
    list.push_back({text(d.id), text(d.name), text(d.detail), d.memory_bytes});
  Q_EMIT devicesListed(list);
}

}  // namespace runnel::chat
