// SPDX-License-Identifier: Apache-2.0
#include "app/chat/engine/generation_worker.h"

#include <QDateTime>
#include <QStandardPaths>
#include <algorithm>

#include "app/chat/engine/convert.h"
#include "app/chat/engine/model_facts.h"
#include "runtime/base/try.h"

namespace runnel::chat {
namespace {

constexpr qint64 kPieceMs = 33;  // 30 pieces of text a second are as smooth as a screen needs

/// Joins text that comes token by token into pieces of kPieceMs.
class PieceJoiner {
 public:
  template <class Emit>
  void add(std::string_view text, const Emit& emitPiece) {
    m_text.append(text);
    if (m_sent.isValid() && m_sent.elapsed() < kPieceMs) return;
    flush(emitPiece);
  }
  template <class Emit>
  void flush(const Emit& emitPiece) {
    if (!m_text.empty()) emitPiece(QString::fromStdString(m_text));
    m_text.clear();
    m_sent.start();
  }

 private:
  std::string m_text;
  QElapsedTimer m_sent;
};

}  // namespace

void GenerationWorker::load(const QString& file, const QString& device, int threads, int window,
                            const std::stop_token& stop) {
  QElapsedTimer sent;
  ModelOptions options{.device = device.toStdString(), .threads = threads, .progress = {}};
  options.progress = [&](float fraction) {
    if (!sent.isValid() || sent.elapsed() >= kPieceMs || fraction >= 1.0F) {
      Q_EMIT loadProgress(static_cast<double>(fraction));
      sent.start();
    }
    return !stop.stop_requested();
  };
  // One setting for all models: those with smaller windows keep theirs.
  if (window > 0 && window < fileWindowSlots(file)) options.window_slots = window;
  const QString cache = QStandardPaths::writableLocation(QStandardPaths::GenericCacheLocation);
  if (!cache.isEmpty()) options.cache_directory = (cache + QStringLiteral("/runnel")).toStdString();
  auto model = Model::load(file.toStdString(), options);
  if (model && !(*model)->has_tokenizer()) {
    model = Error{ErrorCode::unsupported, "the model's file has no tokenizer, so it cannot chat"};
  } else if (model && (*model)->chat_format().style == ChatStyle::none) {
    model = Error{ErrorCode::unsupported, "its chat template is not one this library runs: " +
                                              (*model)->chat_format().reason};
  }
  if (!model) {
    Q_EMIT modelFailed(problem(model.error()));
    return;
  }
  m_chat.reset();
  m_model = *model;
  const ModelInfo& info = m_model->info();
  Q_EMIT modelLoaded(
      {file, text(info.name), text(info.device), info.parameters, info.weight_bytes,
       info.state_bytes, info.step_program == "ops" ? QString() : text(info.step_program),
       m_model->sampling(), info.window_slots, info.file_window_slots, text(info.memory_note)});
}

GenerationOptions GenerationWorker::optionsOf(const AnswerRequest& request) const {
  GenerationOptions options;
  options.sampling = request.sampling;
  options.max_tokens = static_cast<std::uint64_t>(std::max(1, request.maxTokens));
  if (auto form = m_model->answer_form()) options.answer = *std::move(form);
  return options;
}

Status GenerationWorker::goTo(const AnswerRequest& request, const ReplayOptions& replay,
                              AnswerReport& report) {
  if (m_chat && m_chat->id() == request.conversation) {
    if (m_chat->head() == request.after) return {};
    RUNNEL_TRY(const TokenCost cost, m_chat->rewind(request.after, replay));
    report.again += static_cast<qint64>(cost.replayed);
    return {};
  }
  m_chat.reset();  // its session's memory is needed
  RUNNEL_TRY(const ConversationStore store, m_store->get());
  if (request.conversation == 0) {
    NewConversation made{.name = request.name.toStdString(),
                         .system = request.system.toStdString(),
                         .pack = std::nullopt};
    RUNNEL_TRY(m_chat, Conversation::create(store, m_model, std::move(made), replay));
    report.read += static_cast<qint64>(m_chat->cost().fed);
    return {};
  }
  RUNNEL_TRY(m_chat,
             Conversation::open(store, m_model, request.conversation, request.after, replay));
  report.again += static_cast<qint64>(m_chat->cost().replayed);
  if (request.after == 0) {
    RUNNEL_TRY(const TokenCost cost, m_chat->rewind(0, replay));
    report.again += static_cast<qint64>(cost.replayed);
  }
  return {};
}

void GenerationWorker::answer(const AnswerRequest& request, const std::stop_token& stop) {
  const Status done = carryOut(request, stop);
  if (!done) Q_EMIT answerFailed(request.ticket, problem(done.error()));
}

Status GenerationWorker::carryOut(const AnswerRequest& request, const std::stop_token& stop) {
  if (m_model == nullptr) return fail(ErrorCode::not_found, "no model is loaded");
  QElapsedTimer clock;
  clock.start();
  AnswerReport report;

  QElapsedTimer told;
  const ReplayOptions replay{.progress =
                                 [&](std::uint64_t done, std::uint64_t total) {
                                   if (told.isValid() && told.elapsed() < kPieceMs && done < total)
                                     return;
                                   Q_EMIT reading(request.ticket, static_cast<qint64>(done),
                                                  static_cast<qint64>(total));
                                   told.start();
                                 },
                             .stop = stop};
  RUNNEL_CHECK_OK(goTo(request, replay, report));

  if (!request.text.isEmpty()) {
    const qint64 parent = m_chat->head();
    Result<Turn> said = m_chat->add_user(request.text.toStdString(), replay);
    if (!said || said->cancelled) {
      // A conversation that was made for this message and holds nothing is not kept.
      if (request.conversation == 0) {
        ConversationStore store = m_chat->store();
        const qint64 made = m_chat->id();
        m_chat.reset();
        static_cast<void>(store.forget_conversation(made));
      }
      if (said) return fail(ErrorCode::cancelled, "stopped in the message");
      return std::move(said).error();
    }
    report.read += static_cast<qint64>(said->cost.fed);
    report.again += static_cast<qint64>(said->cost.replayed);
    report.warning = text(said->warning);
    Q_EMIT userSaved(request.ticket, m_chat->id(),
                     {.id = said->user,
                      .parent = parent,
                      .role = QStringLiteral("user"),
                      .text = request.text,
                      .created = QDateTime::currentMSecsSinceEpoch()});
  }

  const qint64 parent = m_chat->head();
  PieceJoiner joiner;
  const auto emitPiece = [&](const QString& piece) { Q_EMIT textWritten(request.ticket, piece); };
  QElapsedTimer writing;
  const TextCallback onText = [&](std::string_view piece) {
    if (!writing.isValid()) {
      report.firstTokenMs = static_cast<double>(clock.nsecsElapsed()) / 1e6;
      writing.start();
    }
    joiner.add(piece, emitPiece);
    return true;
  };
  RUNNEL_TRY(Turn turn, m_chat->answer(optionsOf(request), onText, stop));
  const double seconds = writing.isValid() ? static_cast<double>(writing.nsecsElapsed()) / 1e9 : 0;
  joiner.add(turn.result.held_back, emitPiece);
  joiner.flush(emitPiece);

  report.end = turn.result.reason == FinishReason::length      ? AnswerEnd::Length
               : turn.result.reason == FinishReason::cancelled ? AnswerEnd::Stopped
                                                               : AnswerEnd::Complete;
  report.written = static_cast<qint64>(turn.cost.generated);
  report.again += static_cast<qint64>(turn.cost.replayed);
  if (seconds > 0) report.tokensPerSecond = static_cast<double>(report.written) / seconds;
  const std::string& device = m_model->info().device;
  if (device.starts_with("cuda") || device.starts_with("vulkan"))
    report.hostDraws = text(why_not_drawn_ahead(*m_model, optionsOf(request)));
  report.position = static_cast<qint64>(m_chat->session().position());
  if (!turn.warning.empty()) report.warning = text(turn.warning);
  report.answer = {.id = turn.answer,
                   .parent = parent,
                   .role = QStringLiteral("assistant"),
                   .text = text(turn.result.text + turn.result.held_back),
                   .created = QDateTime::currentMSecsSinceEpoch(),
                   .complete = report.end == AnswerEnd::Complete};
  Q_EMIT answered(request.ticket, report);
  return {};
}

}  // namespace runnel::chat
