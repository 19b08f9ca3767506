// SPDX-License-Identifier: Apache-2.0
#include "app/chat/engine/library_worker.h"

#include <QFile>
#include <QSaveFile>

#include "app/chat/engine/convert.h"
#include "app/chat/engine/model_facts.h"
#include "runnel/device.h"
#include "runtime/base/try.h"

namespace runnel::chat {

namespace {

constexpr qint64 kLargestImport = 256LL << 20;  // bytes of JSON

Result<QByteArray> readWhole(const QString& name) {
  QFile file(name);
  if (!file.open(QIODevice::ReadOnly))
    return fail(ErrorCode::io, name.toStdString(), ": ", file.errorString().toStdString());
  if (file.size() > kLargestImport)
    return fail(ErrorCode::malformed, name.toStdString(), ": is too large for a conversation");
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

}  // namespace

template <class Use>
void LibraryWorker::with(const Use& use) {
  Result<ConversationStore> store = m_store->get();
  const Status done = store ? use(*store) : Status(store.error());
  if (!done) Q_EMIT failed(problem(done.error()));
}

void LibraryWorker::list() {
  with([this](ConversationStore& store) -> Status {
    RUNNEL_TRY(const auto found, store.list());
    QVector<ConversationRow> rows;
    rows.reserve(static_cast<qsizetype>(found.size()));
    for (const ConversationInfo& info : found)
      rows.push_back({info.id, text(info.name), info.updated, info.messages, info.pinned});
    Q_EMIT conversationsListed(rows);
    return {};
  });
}

void LibraryWorker::readTree(qint64 conversation) {
  with([&](ConversationStore& store) -> Status {
    RUNNEL_TRY(const ConversationInfo info, store.info(conversation));
    RUNNEL_TRY(const auto found, store.tree(conversation));
    ConversationTree tree{.id = conversation, .name = text(info.name), .head = info.head};
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
  with([&](ConversationStore& s) { return s.rename(conversation, name.toStdString()); });
  list();
}

void LibraryWorker::pinConversation(qint64 conversation, bool pinned) {
  with([&](ConversationStore& s) { return s.pin(conversation, pinned); });
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
    RUNNEL_TRY(const TrashId trash, store.trash_conversation(conversation));
    Q_EMIT deleted(conversation, 0, trash);
    return {};
  });
  list();
}

void LibraryWorker::deleteFrom(qint64 conversation, qint64 id) {
  with([&](ConversationStore& store) -> Status {
    RUNNEL_TRY(const TrashId trash, store.trash_from(id));
    Q_EMIT deleted(conversation, id, trash);
    return {};
  });
  readTree(conversation);
}

void LibraryWorker::undoDelete(qint64 conversation, qint64 trash) {
  with([&](ConversationStore& store) -> Status {
    RUNNEL_CHECK_OK(store.undo(trash));
    Q_EMIT undone(conversation);
    return {};
  });
  list();
}

void LibraryWorker::emptyTrash() {
  with([](ConversationStore& store) -> Status {
    RUNNEL_TRY(const ForgetReport report, store.forget_trash(std::chrono::milliseconds(0)));
    static_cast<void>(report);
    return {};
  });
}

void LibraryWorker::exportTo(qint64 conversation, const QString& file) {
  with([&](ConversationStore& store) -> Status {
    const bool json = file.endsWith(QStringLiteral(".json"), Qt::CaseInsensitive);
    RUNNEL_TRY(const std::string out,
               json ? store.export_json(conversation) : store.export_markdown(conversation));
    RUNNEL_CHECK_OK(writeWhole(file, out));
    Q_EMIT exported(file);
    return {};
  });
}

void LibraryWorker::importFrom(const QString& file) {
  with([&](ConversationStore& store) -> Status {
    RUNNEL_TRY(const QByteArray bytes, readWhole(file));
    RUNNEL_TRY(const ConversationId id,
               store.import_json({bytes.data(), static_cast<std::size_t>(bytes.size())}));
    Q_EMIT imported(id);
    return {};
  });
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
