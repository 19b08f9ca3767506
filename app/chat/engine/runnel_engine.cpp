// SPDX-License-Identifier: Apache-2.0
#include "app/chat/engine/runnel_engine.h"

#include <sys/resource.h>

#include "app/chat/engine/generation_worker.h"
#include "app/chat/engine/library_worker.h"

namespace runnel::chat {
namespace {

// The window's thread goes first when every core computes. Threads that the model starts inherit
// this; on Linux it is a property of the thread. Not less: other programs would starve the answer.
constexpr int kComputingNiceness = 5;

}  // namespace

template <class Call>
void RunnelEngine::inLibrary(Call call) {
  if (m_left) return;
  QMetaObject::invokeMethod(m_library,
                            [worker = m_library, call = std::move(call)] { call(*worker); });
}

RunnelEngine::RunnelEngine(std::filesystem::path library, quint64 budgetBytes, QObject* parent)
    : ChatEngine(parent) {
  const auto store = std::make_shared<SharedStore>(std::move(library), budgetBytes);
  m_generation = new GenerationWorker(store);
  m_library = new LibraryWorker(store);
  m_generation->moveToThread(&m_generationThread);
  m_library->moveToThread(&m_libraryThread);
  connect(&m_generationThread, &QThread::finished, m_generation, &QObject::deleteLater);
  connect(&m_libraryThread, &QThread::finished, m_library, &QObject::deleteLater);

  const GenerationWorker* g = m_generation;
  connect(g, &GenerationWorker::loadProgress, this, &ChatEngine::loadProgress);
  connect(g, &GenerationWorker::modelLoaded, this, &ChatEngine::modelLoaded);
  connect(g, &GenerationWorker::modelFailed, this, &ChatEngine::modelFailed);
  connect(g, &GenerationWorker::reading, this, &ChatEngine::reading);
  connect(g, &GenerationWorker::reminded, this, &ChatEngine::reminded);
  connect(g, &GenerationWorker::thoughtWritten, this, &ChatEngine::thoughtWritten);
  connect(g, &GenerationWorker::textWritten, this, &ChatEngine::textWritten);
  connect(g, &GenerationWorker::tryWritten, this, &ChatEngine::tryWritten);
  connect(g, &GenerationWorker::refused, this, &ChatEngine::refused);
  connect(g, &GenerationWorker::placeSaved, this, &ChatEngine::exported);
  connect(g, &GenerationWorker::placeOpened, this, &ChatEngine::placeOpened);
  connect(g, &GenerationWorker::failed, this, &ChatEngine::libraryFailed);
  connect(g, &GenerationWorker::answered, this, &ChatEngine::answered);
  connect(g, &GenerationWorker::answerFailed, this, &ChatEngine::answerFailed);
  const LibraryWorker* l = m_library;
  connect(l, &LibraryWorker::foldersListed, this, &ChatEngine::foldersListed);
  connect(l, &LibraryWorker::folderAdded, this, &ChatEngine::folderAdded);
  connect(l, &LibraryWorker::conversationsListed, this, &ChatEngine::conversationsListed);
  connect(l, &LibraryWorker::treeRead, this, &ChatEngine::treeRead);
  connect(l, &LibraryWorker::searched, this, &ChatEngine::searched);
  connect(l, &LibraryWorker::deleted, this, &ChatEngine::deleted);
  connect(l, &LibraryWorker::undone, this, &ChatEngine::undone);
  connect(l, &LibraryWorker::trashListed, this, &ChatEngine::trashListed);
  connect(l, &LibraryWorker::draftsRead, this, &ChatEngine::draftsRead);
  connect(l, &LibraryWorker::changedElsewhere, this, &ChatEngine::changedElsewhere);
  connect(l, &LibraryWorker::conversationGone, this, &ChatEngine::conversationGone);
  connect(l, &LibraryWorker::libraryReplaced, this, &ChatEngine::libraryReplaced);
  connect(l, &LibraryWorker::userSaved, this, &ChatEngine::userSaved);
  connect(l, &LibraryWorker::answered, this, &ChatEngine::answered);
  connect(l, &LibraryWorker::answerFailed, this, &ChatEngine::answerFailed);
  connect(l, &LibraryWorker::exported, this, &ChatEngine::exported);
  connect(l, &LibraryWorker::imported, this, &ChatEngine::imported);
  connect(l, &LibraryWorker::storeMeasured, this, &ChatEngine::storeMeasured);
  connect(l, &LibraryWorker::inspected, this, &ChatEngine::inspected);
  connect(l, &LibraryWorker::devicesListed, this, &ChatEngine::devicesListed);
  connect(l, &LibraryWorker::failed, this, &ChatEngine::libraryFailed);

  m_generationThread.setObjectName(QStringLiteral("generation"));
  m_libraryThread.setObjectName(QStringLiteral("library"));
  m_generationThread.start();
  m_libraryThread.start();
  QMetaObject::invokeMethod(m_generation,
                            [] { ::setpriority(PRIO_PROCESS, 0, kComputingNiceness); });
  inLibrary([](LibraryWorker& worker) { worker.watch(); });
}

RunnelEngine::~RunnelEngine() { static_cast<void>(leave(QDeadlineTimer(QDeadlineTimer::Forever))); }

bool RunnelEngine::leave(QDeadlineTimer until) {
  if (!m_left) {
    m_loading.request_stop();
    m_answering.request_stop();
    // What was asked before is done first: the thread is told to end by its own queue.
    inLibrary([thread = &m_libraryThread](LibraryWorker&) { thread->quit(); });
    m_libraryThread.wait();
    m_left = true;
    m_generationThread.quit();
  }
  // Text of an answer is worth a little longer; what is only read is not.
  constexpr int kToKeepMs = 5000;
  constexpr int kLookMs = 10;
  QDeadlineTimer longer(kToKeepMs);
  while (!m_generationThread.wait(QDeadlineTimer(kLookMs))) {
    if (until.hasExpired() && (!m_generation->keeping() || longer.hasExpired())) return false;
  }
  return true;
}

void RunnelEngine::loadModel(const QString& file, const QString& device, int threads, int window) {
  m_loading.request_stop();  // of a load that is still going on
  m_loading = std::stop_source();
  QMetaObject::invokeMethod(m_generation, [worker = m_generation, file, device, threads, window,
                                           stop = m_loading.get_token()] {
    worker->load(file, device, threads, window, stop);
  });
}

void RunnelEngine::cancelLoading() { m_loading.request_stop(); }

void RunnelEngine::answer(const AnswerRequest& request) {
  m_answering = std::stop_source();
  inLibrary(
      [generation = m_generation, request, stop = m_answering.get_token()](LibraryWorker& library) {
        const std::optional<AnswerRequest> rest = library.store(request);
        if (!rest) return;
        QMetaObject::invokeMethod(
            generation, [generation, request = *rest, stop] { generation->answer(request, stop); });
      });
}

void RunnelEngine::stop() { m_answering.request_stop(); }

void RunnelEngine::check(const ReplyForm& form) {
  if (m_left) return;
  QMetaObject::invokeMethod(m_generation, [worker = m_generation, form] { worker->check(form); });
}

void RunnelEngine::inspect(const QString& file) {
  inLibrary([file](LibraryWorker& w) { w.inspect(file); });
}
void RunnelEngine::listDevices() {
  inLibrary([](LibraryWorker& w) { w.listDevices(); });
}
void RunnelEngine::listConversations() {
  inLibrary([](LibraryWorker& w) { w.list(); });
}
void RunnelEngine::readTree(qint64 conversation) {
  inLibrary([conversation](LibraryWorker& w) { w.readTree(conversation); });
}
void RunnelEngine::search(const QString& query) {
  inLibrary([query](LibraryWorker& w) { w.search(query); });
}
void RunnelEngine::rename(qint64 conversation, const QString& name) {
  inLibrary([conversation, name](LibraryWorker& w) { w.rename(conversation, name); });
}
void RunnelEngine::pinConversation(qint64 conversation, bool pinned) {
  inLibrary([conversation, pinned](LibraryWorker& w) { w.pinConversation(conversation, pinned); });
}
void RunnelEngine::setHead(qint64 conversation, qint64 message) {
  inLibrary([conversation, message](LibraryWorker& w) { w.setHead(conversation, message); });
}
void RunnelEngine::pinMessage(qint64 message, bool pinned) {
  inLibrary([message, pinned](LibraryWorker& w) { w.pinMessage(message, pinned); });
}
void RunnelEngine::nameMessage(qint64 message, const QString& name) {
  inLibrary([message, name](LibraryWorker& w) { w.nameMessage(message, name); });
}
void RunnelEngine::deleteConversation(qint64 conversation) {
  inLibrary([conversation](LibraryWorker& w) { w.deleteConversation(conversation); });
}
void RunnelEngine::deleteFrom(qint64 conversation, qint64 message) {
  inLibrary([conversation, message](LibraryWorker& w) { w.deleteFrom(conversation, message); });
}
void RunnelEngine::undoDelete(qint64 conversation, qint64 trash) {
  inLibrary([conversation, trash](LibraryWorker& w) { w.undoDelete(conversation, trash); });
}
void RunnelEngine::listTrash() {
  inLibrary([](LibraryWorker& w) { w.listTrash(); });
}
void RunnelEngine::forgetTrash(qint64 trash) {
  inLibrary([trash](LibraryWorker& w) { w.forgetTrash(trash); });
}
void RunnelEngine::setSettings(qint64 conversation, const QString& json) {
  inLibrary([conversation, json](LibraryWorker& w) { w.setSettings(conversation, json); });
}
void RunnelEngine::beginAgain(qint64 conversation, qint64 leaf, const QString& system) {
  inLibrary(
      [conversation, leaf, system](LibraryWorker& w) { w.beginAgain(conversation, leaf, system); });
}
void RunnelEngine::addFolder(const QString& name, qint64 conversation) {
  inLibrary([name, conversation](LibraryWorker& w) { w.addFolder(name, conversation); });
}
void RunnelEngine::renameFolder(qint64 folder, const QString& name) {
  inLibrary([folder, name](LibraryWorker& w) { w.renameFolder(folder, name); });
}
void RunnelEngine::foldFolder(qint64 folder, bool folded) {
  inLibrary([folder, folded](LibraryWorker& w) { w.foldFolder(folder, folded); });
}
void RunnelEngine::removeFolder(qint64 folder) {
  inLibrary([folder](LibraryWorker& w) { w.removeFolder(folder); });
}
void RunnelEngine::putIntoFolder(qint64 conversation, qint64 folder) {
  inLibrary([conversation, folder](LibraryWorker& w) { w.putIntoFolder(conversation, folder); });
}
void RunnelEngine::setDraft(qint64 conversation, const QString& text) {
  inLibrary([conversation, text](LibraryWorker& w) { w.setDraft(conversation, text); });
}
void RunnelEngine::readDrafts(const QHash<qint64, QString>& older) {
  inLibrary([older](LibraryWorker& w) { w.readDrafts(older); });
}
void RunnelEngine::replaceLibrary(Replace how) {
  inLibrary([how](LibraryWorker& w) { w.replaceLibrary(how); });
}
void RunnelEngine::exportTo(qint64 conversation, const QString& file) {
  inLibrary([conversation, file](LibraryWorker& w) { w.exportTo(conversation, file); });
}
void RunnelEngine::importFrom(const QString& file) {
  inLibrary([file](LibraryWorker& w) { w.importFrom(file); });
}
void RunnelEngine::savePlace(qint64 conversation, qint64 message, const QString& file) {
  if (m_left) return;
  QMetaObject::invokeMethod(m_generation, [worker = m_generation, conversation, message, file] {
    worker->savePlace(conversation, message, file);
  });
}
void RunnelEngine::openPlace(const QString& file) {
  if (m_left) return;
  QMetaObject::invokeMethod(m_generation,
                            [worker = m_generation, file] { worker->openPlace(file); });
}
void RunnelEngine::beginFrom(qint64 conversation, qint64 message, const QString& name) {
  if (m_left) return;
  QMetaObject::invokeMethod(m_generation, [worker = m_generation, conversation, message, name] {
    worker->beginFrom(conversation, message, name);
  });
}
void RunnelEngine::measureStore() {
  inLibrary([](LibraryWorker& w) { w.measure(); });
}
void RunnelEngine::setBudget(quint64 bytes) {
  inLibrary([bytes](LibraryWorker& w) { w.setBudget(bytes); });
}

}  // namespace runnel::chat
