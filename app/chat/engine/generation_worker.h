// SPDX-License-Identifier: Apache-2.0
// The thread that computes: owns the model and the session of the conversation that is answered.
#pragma once

#include <QElapsedTimer>
#include <QObject>
#include <atomic>
#include <memory>
#include <optional>
#include <stop_token>

#include "app/chat/engine/chat_types.h"
#include "app/chat/engine/shared_store.h"
#include "runnel/conversation.h"

namespace runnel::chat {

class GenerationWorker : public QObject {
  Q_OBJECT

 public:
  explicit GenerationWorker(std::shared_ptr<SharedStore> store) : m_store(std::move(store)) {}

  void load(const QString& file, const QString& device, int threads, int window,
            const std::stop_token& stop);
  void answer(const AnswerRequest& request, const std::stop_token& stop);
  void check(const ReplyForm& form);
  void savePlace(qint64 conversation, qint64 message, const QString& file);
  void beginFrom(qint64 conversation, qint64 message, const QString& name);
  void openPlace(const QString& file);

  /// Whether it has text of an answer that is not stored yet. From any thread.
  bool keeping() const { return m_keeping; }

 Q_SIGNALS:
  void loadProgress(double fraction);
  void modelLoaded(const runnel::chat::LoadedModel& model);
  void modelFailed(const runnel::chat::Problem& problem);
  void reading(quint64 ticket, qint64 done, qint64 total);
  void reminded(quint64 ticket, const runnel::chat::Message& question);
  void thoughtWritten(quint64 ticket, const QString& piece);
  void textWritten(quint64 ticket, const QString& piece);
  void tryWritten(quint64 ticket, int which, const QString& piece);
  void refused(const runnel::chat::ReplyForm& form, const runnel::chat::Problem& problem);
  void placeSaved(const QString& file);
  void placeOpened(qint64 conversation, qint64 toRead);
  void failed(const runnel::chat::Problem& problem);
  void answered(quint64 ticket, const runnel::chat::AnswerReport& report);
  void answerFailed(quint64 ticket, const runnel::chat::Problem& problem);

 private:
  Result<Snapshot> packOf(ConversationStore& store, qint64 conversation, qint64 id) const;
  Status carryOut(const AnswerRequest& request, const std::stop_token& stop);
  Status tryAnswers(const AnswerRequest& request, const std::stop_token& stop,
                    AnswerReport& report);
  Status readDocument(const AnswerRequest& request, const ReplayOptions& replay,
                      AnswerReport& report);
  Status askAside(const AnswerRequest& request, const std::stop_token& stop);
  Status goTo(const AnswerRequest& request, const ReplayOptions& replay, AnswerReport& report);
  /// Finds what the question refers to and keeps it with the question, before that is read.
  Status remindOf(const AnswerRequest& request);
  /// An answer went into a library that another one has replaced meanwhile: that one has the question and gets it, too.
  Status keepInNewLibrary(const MessageInfo& answer, AnswerReport& report);
  GenerationOptions optionsOf(const AnswerRequest& request) const;
  /// Null: anything.
  Result<std::shared_ptr<const Constraint>> constraintOf(const ReplyForm& form) const;

  std::shared_ptr<SharedStore> m_store;
  std::shared_ptr<const Model> m_model;
  std::optional<Conversation> m_chat;
  std::shared_ptr<const Constraint> m_constraint;  // of the answer that is being written
  int m_generation = 0;                            // of the store that m_chat is of
  std::atomic<bool> m_keeping = false;
};

}  // namespace runnel::chat
