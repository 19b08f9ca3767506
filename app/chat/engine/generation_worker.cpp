// SPDX-License-Identifier: Apache-2.0
#include "app/chat/engine/generation_worker.h"

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
    Q_EMIT modelFailed(problem(model.error(), About::Model, file));
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
  const auto count = [&report](const TokenCost& cost) {
    report.read += static_cast<qint64>(cost.fed);
    report.again += static_cast<qint64>(cost.replayed);
    report.relaid += static_cast<qint64>(cost.relaid);
  };
  if (m_chat && m_chat->id() == request.conversation && m_generation == m_store->generation()) {
    if (m_chat->head() == request.after) return {};
    RUNNEL_TRY(const TokenCost cost, m_chat->rewind(request.after, replay));
    count(cost);
    return {};
  }
  m_chat.reset();  // its session's memory is needed
  m_generation = m_store->generation();
  RUNNEL_TRY(const ConversationStore store, m_store->get());
  RUNNEL_TRY(m_chat,
             Conversation::open(store, m_model, request.conversation, request.after, replay));
  count(m_chat->cost());
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
  m_keeping = true;
  Result<Turn> made = request.act == Act::Resume ? m_chat->resume(optionsOf(request), onText, stop)
                                                 : m_chat->answer(optionsOf(request), onText, stop);
  m_keeping = false;
  RUNNEL_TRY(const Turn turn, std::move(made));
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
  report.warning = text(turn.warning);
  if (turn.answer != 0) {
    RUNNEL_TRY(const std::vector<MessageInfo> path, m_chat->store().path(turn.answer));
    report.answer = message(path.back());
  } else {
    report.answer.parent = m_chat->head();
  }
  Q_EMIT answered(request.ticket, report);
  return {};
}

}  // namespace runnel::chat
