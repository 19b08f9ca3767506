// SPDX-License-Identifier: Apache-2.0
#include "app/chat/engine/generation_worker.h"

#include <QFile>
#include <QFileInfo>
#include <QStandardPaths>
#include <algorithm>
#include <array>

#include "app/chat/engine/convert.h"
#include "app/chat/engine/model_facts.h"
#include "runnel/constraint.h"
#include "runtime/base/try.h"
#include "runtime/io/snapshot_layout.h"
#include "runtime/model/initial_state.h"
#include "runtime/store/remind.h"

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

// Whether it is a state pack, or was one before something happened to it.
bool beginsAsPlace(const QString& name) {
  QFile file(name);
  const auto& magic = snapshot_layout::kMagic;
  return file.open(QIODevice::ReadOnly) &&
         file.read(static_cast<qint64>(magic.size())) ==
             QByteArray(reinterpret_cast<const char*>(magic.data()),
                        static_cast<qsizetype>(magic.size()));
}

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
  Q_EMIT modelLoaded({file, text(info.name), text(info.device), info.parameters, info.weight_bytes,
                      info.state_bytes, text(info.step_program), m_model->sampling(),
                      info.window_slots, info.file_window_slots, text(info.memory_note)});
}

Status GenerationWorker::remindOf(const AnswerRequest& request) {
  RUNNEL_TRY(ConversationStore store, m_store->get());
  RUNNEL_TRY(const std::vector<MessageInfo> path, store.path(request.after));
  MessageInfo question = path.back();
  if (question.role != "user" || !question.quotations.empty()) return {};
  RUNNEL_TRY(question.quotations,
             remind(std::span(path).first(path.size() - 1), question.text, *m_model));
  if (question.quotations.empty()) return {};
  RUNNEL_TRY(const bool kept, store.set_quotations(question.id, question.quotations));
  // What a model has read stays as it was read.
  if (kept) Q_EMIT reminded(request.ticket, message(question));
  return {};
}

GenerationOptions GenerationWorker::optionsOf(const AnswerRequest& request) const {
  GenerationOptions options;
  options.sampling = request.sampling;
  options.max_tokens = static_cast<std::uint64_t>(std::max(1, request.maxTokens));
  if (auto form = m_model->answer_form()) options.answer = *std::move(form);
  options.constraint = m_constraint;
  return options;
}

Result<std::shared_ptr<const Constraint>> GenerationWorker::constraintOf(
    const ReplyForm& form) const {
  if (m_model == nullptr || form.kind == ReplyForm::Free) return nullptr;
  if (form.kind == ReplyForm::Json) return Constraint::json_object(*m_model, false);
  return Constraint::json_schema(*m_model, form.schema.toStdString());
}

void GenerationWorker::check(const ReplyForm& form) {
  const auto made = constraintOf(form);
  if (!made) Q_EMIT refused(form, problem(made.error(), About::Form, form.name));
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
  // A document is only read, what is asked aside is no answer of the chat.
  const bool free = request.act == Act::Read || request.act == Act::Ask;
  auto constraint = constraintOf(free ? ReplyForm() : request.form);
  if (!constraint) {
    Q_EMIT answerFailed(request.ticket,
                        problem(constraint.error(), About::Form, request.form.name));
    return;
  }
  m_constraint = *std::move(constraint);
  const Status done = carryOut(request, stop);
  if (done) return;
  // Models that are loaded are there: what is missing is a chat or a message.
  const About about = m_model != nullptr && done.error().code == ErrorCode::not_found
                          ? About::Library
                          : About::Nothing;
  Q_EMIT answerFailed(
      request.ticket,
      problemIn(m_store->file(), done.error(), about,
                about == About::Library ? text(m_store->file().string()) : QString()));
}

Status GenerationWorker::tryAnswers(const AnswerRequest& request, const std::stop_token& stop,
                                    AnswerReport& report) {
  constexpr std::size_t kAnswers = 3;
  constexpr float kTemperature = 0.8F;  // where the model's or the user's is none
  GenerationOptions options = optionsOf(request);
  // Three times the likeliest would be three times the same.
  if (options.sampling.temperature <= 0) options.sampling.temperature = kTemperature;
  std::array<PieceJoiner, kAnswers> joiners;
  const auto emitPiece = [&](std::size_t which) {
    return [this, which, &request](const QString& piece) {
      Q_EMIT tryWritten(request.ticket, static_cast<int>(which), piece);
    };
  };
  const AnswerCallback onText = [&](std::size_t which, std::string_view piece) {
    joiners.at(which).add(piece, emitPiece(which));
    return true;
  };
  RUNNEL_TRY(const std::vector<GenerationResult> made,
             generate_several(m_chat->session(), kAnswers, options, onText, stop));
  for (const GenerationResult& result : made)
    report.tries.push_back(text(result.text + result.held_back));
  return {};
}

Status GenerationWorker::readDocument(const AnswerRequest& request, const ReplayOptions& replay,
                                      AnswerReport& report) {
  const std::string documents[] = {request.text.toStdString()};
  RUNNEL_TRY(const Snapshot pack,
             make_pack(m_model, request.system.toStdString(), documents, replay));
  RUNNEL_TRY(ConversationStore store, m_store->get());
  RUNNEL_TRY(
      const Conversation made,
      Conversation::create(store, m_model, {.name = request.name.toStdString(), .pack = pack}));
  // A place of its own on the rail, which stays instant.
  RUNNEL_CHECK_OK(store.name_message(made.head(), request.name.toStdString()));
  RUNNEL_CHECK_OK(store.pin_message(made.head(), true));
  report.read = static_cast<qint64>(pack.position());
  Q_EMIT placeOpened(made.id(), 0);
  return {};
}

Status GenerationWorker::askAside(const AnswerRequest& request, const std::stop_token& stop) {
  PieceJoiner joiner;
  const auto emitPiece = [&](const QString& piece) { Q_EMIT textWritten(request.ticket, piece); };
  const TextCallback onText = [&](std::string_view piece) {
    joiner.add(piece, emitPiece);
    return true;
  };
  RUNNEL_TRY(const GenerationResult said,
             m_chat->ask(request.text.toStdString(), optionsOf(request), onText, stop));
  joiner.add(said.held_back, emitPiece);
  joiner.flush(emitPiece);
  return {};
}

// Going there may read it again; where the talk stands it stays.
Result<Snapshot> GenerationWorker::packOf(ConversationStore& store, qint64 conversation,
                                          qint64 id) const {
  if (m_model == nullptr) return fail(ErrorCode::not_found, "no model is loaded");
  RUNNEL_TRY(const ConversationInfo info, store.info(conversation));
  Result<Conversation> there = Conversation::open(store, m_model, conversation, id);
  RUNNEL_CHECK_OK(store.set_head(conversation, info.head));
  if (!there) return there.error();
  return there->pack();
}

void GenerationWorker::beginFrom(qint64 conversation, qint64 id, const QString& name) {
  const auto begin = [&]() -> Result<ConversationId> {
    RUNNEL_TRY(ConversationStore store, m_store->get());
    RUNNEL_TRY(const Snapshot pack, packOf(store, conversation, id));
    RUNNEL_TRY(const Conversation made,
               Conversation::create(store, m_model, {.name = name.toStdString(), .pack = pack}));
    return made.id();
  };
  if (const Result<ConversationId> made = begin(); !made) {
    Q_EMIT failed(problemIn(m_store->file(), made.error(), About::Nothing));
  } else {
    Q_EMIT placeOpened(*made, 0);
  }
}

void GenerationWorker::savePlace(qint64 conversation, qint64 id, const QString& file) {
  const auto save = [&]() -> Status {
    RUNNEL_TRY(ConversationStore store, m_store->get());
    RUNNEL_TRY(const Snapshot pack, packOf(store, conversation, id));
    return pack.save(file.toStdString(), {.state = StateEncoding::f32, .compress = true});
  };
  if (const Status saved = save(); !saved) {
    Q_EMIT failed(problemIn(m_store->file(), saved.error(), About::Export, file));
  } else {
    Q_EMIT placeSaved(file);
  }
}

void GenerationWorker::openPlace(const QString& file) {
  const auto open = [&]() -> Status {
    RUNNEL_TRY(const Snapshot pack, Snapshot::load(file.toStdString()));
    RUNNEL_TRY(ConversationStore store, m_store->get());
    const std::string name = QFileInfo(file).completeBaseName().toStdString();
    // A state before anything was said means nothing to another model.
    if (m_model != nullptr &&
        (pack.model_fingerprint() == m_model->info().fingerprint || is_before_all(pack))) {
      RUNNEL_TRY(const Conversation made,
                 Conversation::create(store, m_model, {.name = name, .pack = pack}));
      Q_EMIT placeOpened(made.id(), 0);
      return {};
    }
    // Another model's pack: it is read when the talk goes on.
    RUNNEL_TRY(const ConversationId id, store.add_pack(pack, name));
    Q_EMIT placeOpened(id, static_cast<qint64>(pack.position()));
    return {};
  };
  if (const Status opened = open(); !opened) {
    Problem why = problemIn(m_store->file(), opened.error(), About::Import, file);
    if (why.code == ErrorCode::malformed && beginsAsPlace(file)) why.flaw = Flaw::Damaged;
    Q_EMIT failed(why);
  }
}

Status GenerationWorker::keepInNewLibrary(const MessageInfo& answer, AnswerReport& report) {
  RUNNEL_TRY(ConversationStore store, m_store->get());
  if (m_generation == m_store->generation()) return {};
  RUNNEL_TRY(const MessageInfo kept, store.add({.conversation = answer.conversation,
                                                .parent = answer.parent,
                                                .role = answer.role,
                                                .text = answer.text}));
  report.answer = message(kept);
  report.instant.clear();
  return {};
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
  if (request.act == Act::Read) {
    RUNNEL_CHECK_OK(readDocument(request, replay, report));
    report.firstTokenMs = static_cast<double>(clock.nsecsElapsed()) / 1e6;
    Q_EMIT answered(request.ticket, report);
    return {};
  }
  if (request.remind && request.act == Act::Answer) RUNNEL_CHECK_OK(remindOf(request));
  RUNNEL_CHECK_OK(goTo(request, replay, report));
  if (request.act == Act::Try || request.act == Act::Ask) {
    const Status done =
        request.act == Act::Try ? tryAnswers(request, stop, report) : askAside(request, stop);
    // Looking at what might be said moves nothing.
    ConversationStore store = m_chat->store();
    RUNNEL_CHECK_OK(store.set_head(request.conversation, request.head));
    RUNNEL_CHECK_OK(done);
    report.answer.parent = request.head;
    Q_EMIT answered(request.ticket, report);
    return {};
  }

  if (request.act == Act::Resume) {
    // An answer goes on as it began, whatever the chat's answers must be by now.
    RUNNEL_TRY(std::shared_ptr<const Constraint> began, last_constraint(m_chat->session()));
    RUNNEL_TRY(const std::vector<MessageInfo> path, m_chat->store().path(request.after));
    if (began != nullptr || !path.back().text.empty()) m_constraint = std::move(began);
  }

  PieceJoiner joiner;
  PieceJoiner thoughts;
  const auto emitPiece = [&](const QString& piece) { Q_EMIT textWritten(request.ticket, piece); };
  const auto emitThought = [&](const QString& piece) {
    Q_EMIT thoughtWritten(request.ticket, piece);
  };
  QElapsedTimer writing;
  const auto begun = [&] {
    if (writing.isValid()) return;
    report.firstTokenMs = static_cast<double>(clock.nsecsElapsed()) / 1e6;
    writing.start();
  };
  const TextCallback onText = [&](std::string_view piece) {
    begun();
    thoughts.flush(emitThought);
    joiner.add(piece, emitPiece);
    return true;
  };
  GenerationOptions options = optionsOf(request);
  options.on_thought = [&](std::string_view piece) {
    begun();
    thoughts.add(piece, emitThought);
    return true;
  };
  m_keeping = true;
  Result<Turn> made = request.act == Act::Resume ? m_chat->resume(options, onText, stop)
                                                 : m_chat->answer(options, onText, stop);
  m_keeping = false;
  thoughts.flush(emitThought);
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
    for (const MessageInfo& info : path) {
      if (info.has_snapshot) report.instant.push_back(info.id);
    }
    RUNNEL_CHECK_OK(keepInNewLibrary(path.back(), report));
  } else {
    report.answer.parent = m_chat->head();
  }
  Q_EMIT answered(request.ticket, report);
  return {};
}

}  // namespace runnel::chat
