// SPDX-License-Identifier: Apache-2.0
// Conversations on a session, and state packs, in the C API.
#include <algorithm>
#include <cstddef>

#include "runtime/store/c/handles.h"

using namespace runnel;
using namespace runnel::c;

namespace {

constexpr runnel_turn_options kTurnDefaults{.size = sizeof(runnel_turn_options)};

Result<runnel_conversation_options> known(const runnel_conversation_options* options) {
  return known_struct(options, runnel_conversation_options{}, sizeof(runnel_conversation_options),
                      "runnel_conversation_options");
}

Result<runnel_turn_options> known(const runnel_turn_options* options) {
  return known_struct(options, kTurnDefaults, sizeof(runnel_turn_options), "runnel_turn_options");
}

template <class Options>
ReplayOptions replay_of(const Options& o) {
  ReplayOptions replay{.progress = {}, .stop = stop_of(o.stop)};
  if (o.on_progress != nullptr) {
    replay.progress = [call = o.on_progress, user = o.user](
                          std::uint64_t done, std::uint64_t total) { call(done, total, user); };
  }
  return replay;
}

Result<NewConversation> made_of(const char* name, const runnel_conversation_options& o) {
  RUNNEL_CHECK_OK(check_not_null(name, "name"));
  NewConversation made{.name = name, .system = {}, .pack = {}};
  if (o.system != nullptr) made.system = o.system;
  if (o.pack != nullptr) made.pack = o.pack->snapshot;
  return made;
}

/// How an answer is generated.
struct Answering {
  GenerationOptions options;
  TextCallback on_text;
  std::stop_token stop;
};

Result<Answering> answering(const runnel_turn_options& o, const Model& model) {
  RUNNEL_TRY(const runnel_generation_options generation, known_options(o.generation));
  Answering how;
  RUNNEL_TRY(how.options, to_options(generation, model));
  if (o.thinking < RUNNEL_THINKING_AS_TRAINED || o.thinking > RUNNEL_THINKING_ON)
    return fail(ErrorCode::invalid_argument, "thinking is ", o.thinking, ", expected 0, 1 or 2");
  RUNNEL_TRY(how.options.answer, model.answer_form(static_cast<Thinking>(o.thinking)));
  if (o.on_thought != nullptr) {
    how.options.on_thought = [call = o.on_thought, user = o.user](std::string_view text) {
      return call(text.data(), text.size(), user);
    };
  }
  how.on_text = text_callback(generation);
  how.stop = stop_of(generation.stop != nullptr ? generation.stop : o.stop);
  return how;
}

/// The caller's room for a turn.
struct TurnRoom {
  runnel_turn turn;
  runnel_generation_result result;
};

Result<TurnRoom> room_of(const runnel_turn* turn) {
  TurnRoom room;
  RUNNEL_TRY(room.turn, known_struct(turn, runnel_turn{}, sizeof(runnel_turn), "runnel_turn"));
  RUNNEL_TRY(room.result, known_result(room.turn.result));
  return room;
}

void put_turn(const Turn& done, const TurnRoom& room, runnel_turn* turn) {
  if (turn == nullptr) return;
  put_result(done.result, room.result, room.turn.result);
  runnel_turn out = room.turn;
  out.user = done.user;
  out.answer = done.answer;
  out.stopped = done.cancelled;
  out.replayed = done.cost.replayed;
  out.relaid = done.cost.relaid;
  out.fed = done.cost.fed;
  out.generated = done.cost.generated;
  out.warning_bytes = done.warning.size();
  if (out.warning != nullptr)
    std::copy_n(done.warning.begin(), std::min(done.warning.size(), out.warning_capacity),
                out.warning);
  fill_struct(turn, out);
}

runnel_token_cost to_c(const TokenCost& cost) {
  return {.size = sizeof(runnel_token_cost),
          .replayed = cost.replayed,
          .relaid = cost.relaid,
          .fed = cost.fed,
          .generated = cost.generated};
}

// Runs `turn` (of the conversation, the options, how it reads) → Result<Turn>, and gives what it did.
template <class Take>
runnel_status take_turn(runnel_conversation* conversation, const runnel_turn_options* options,
                        runnel_turn* turn, runnel_error* error, const Take& take) {
  return guarded(error, [&]() -> Status {
    RUNNEL_CHECK_OK(check_not_null(conversation, "conversation"));
    RUNNEL_TRY(const runnel_turn_options o, known(options));
    RUNNEL_TRY(const TurnRoom room, room_of(turn));
    RUNNEL_TRY(const Turn done, take(conversation->conversation, o, replay_of(o)));
    put_turn(done, room, turn);
    return {};
  });
}

using Answer = Result<Turn> (Conversation::*)(const GenerationOptions&, const TextCallback&,
                                              std::stop_token);

// take_turn() of an answer where the conversation stands.
runnel_status take_answer(runnel_conversation* conversation, const runnel_turn_options* options,
                          runnel_turn* turn, runnel_error* error, Answer answer) {
  return take_turn(
      conversation, options, turn, error,
      [&](Conversation& chat, const runnel_turn_options& o, const ReplayOptions&) -> Result<Turn> {
        RUNNEL_TRY(const Answering how, answering(o, chat.session().model()));
        return (chat.*answer)(how.options, how.on_text, how.stop);
      });
}

// Runs `open` (of the C++ store, the model, the options, how it reads) → Result<Conversation>.
template <class Open>
runnel_status open_conversation(const runnel_store* store, const runnel_model* model,
                                const runnel_conversation_options* options,
                                runnel_conversation** conversation, runnel_error* error,
                                const Open& open) {
  return guarded(error, [&]() -> Status {
    RUNNEL_CHECK_OK(check_not_null(store, "store"));
    RUNNEL_CHECK_OK(check_not_null(model, "model"));
    RUNNEL_CHECK_OK(check_not_null(conversation, "conversation"));
    RUNNEL_TRY(const runnel_conversation_options o, known(options));
    RUNNEL_TRY(Conversation opened, open(o, replay_of(o)));
    *conversation = new runnel_conversation{std::move(opened)};
    return {};
  });
}

}  // namespace

void runnel_conversation_options_init(runnel_conversation_options* options, size_t size) {
  init_struct(options, size, runnel_conversation_options{});
}

void runnel_token_cost_init(runnel_token_cost* cost, size_t size) {
  init_struct(cost, size, runnel_token_cost{});
}

void runnel_turn_options_init(runnel_turn_options* options, size_t size) {
  init_struct(options, size, kTurnDefaults);
}

void runnel_turn_init(runnel_turn* turn, size_t size) { init_struct(turn, size, runnel_turn{}); }

runnel_status runnel_conversation_create(const runnel_store* store, const runnel_model* model,
                                         const char* name,
                                         const runnel_conversation_options* options,
                                         runnel_conversation** conversation, runnel_error* error) {
  return open_conversation(store, model, options, conversation, error,
                           [&](const runnel_conversation_options& o,
                               const ReplayOptions& replay) -> Result<Conversation> {
                             RUNNEL_TRY(NewConversation made, made_of(name, o));
                             return Conversation::create(store->store, model->model,
                                                         std::move(made), replay);
                           });
}

// NOLINTNEXTLINE(readability-function-size): in C a text, a buffer and an error are many parameters
runnel_status runnel_conversation_open(const runnel_store* store, const runnel_model* model,
                                       runnel_conversation_id id, runnel_message_id message,
                                       const runnel_conversation_options* options,
                                       runnel_conversation** conversation, runnel_error* error) {
  return open_conversation(store, model, options, conversation, error,
                           [&](const runnel_conversation_options&, const ReplayOptions& replay) {
                             return Conversation::open(store->store, model->model, id, message,
                                                       replay);
                           });
}

runnel_status runnel_conversation_open_named(const runnel_store* store, const runnel_model* model,
                                             const char* name,
                                             const runnel_conversation_options* options,
                                             runnel_conversation** conversation,
                                             runnel_error* error) {
  return open_conversation(store, model, options, conversation, error,
                           [&](const runnel_conversation_options& o,
                               const ReplayOptions& replay) -> Result<Conversation> {
                             RUNNEL_TRY(NewConversation made, made_of(name, o));
                             return Conversation::open_or_create(store->store, model->model,
                                                                 std::move(made), replay);
                           });
}

void runnel_conversation_free(runnel_conversation* conversation) { delete conversation; }

runnel_conversation_id runnel_conversation_get_id(const runnel_conversation* conversation) {
  return conversation != nullptr ? conversation->conversation.id() : 0;
}

runnel_message_id runnel_conversation_head(const runnel_conversation* conversation) {
  return conversation != nullptr ? conversation->conversation.head() : 0;
}

uint64_t runnel_conversation_position(const runnel_conversation* conversation) {
  return conversation != nullptr ? conversation->conversation.session().position() : 0;
}

runnel_status runnel_conversation_snapshot(const runnel_conversation* conversation,
                                           runnel_snapshot** snapshot, runnel_error* error) {
  return guarded(error, [&]() -> Status {
    RUNNEL_CHECK_OK(check_not_null(conversation, "conversation"));
    RUNNEL_CHECK_OK(check_not_null(snapshot, "snapshot"));
    RUNNEL_TRY(Snapshot taken, conversation->conversation.session().snapshot());
    *snapshot = new runnel_snapshot{std::move(taken)};
    return {};
  });
}

runnel_status runnel_conversation_cost(const runnel_conversation* conversation,
                                       runnel_token_cost* cost, runnel_error* error) {
  return guarded(error, [&]() -> Status {
    RUNNEL_CHECK_OK(check_not_null(conversation, "conversation"));
    RUNNEL_CHECK_OK(check_not_null(cost, "cost"));
    return give_struct(cost, to_c(conversation->conversation.cost()), "runnel_token_cost");
  });
}

runnel_status runnel_conversation_send(runnel_conversation* conversation, const char* text,
                                       size_t bytes, const runnel_turn_options* options,
                                       runnel_turn* turn, runnel_error* error) {
  return take_turn(conversation, options, turn, error,
                   [&](Conversation& chat, const runnel_turn_options& o,
                       const ReplayOptions& replay) -> Result<Turn> {
                     RUNNEL_TRY(const std::string_view said, text_of(text, bytes, "text"));
                     RUNNEL_TRY(const Answering how, answering(o, chat.session().model()));
                     RUNNEL_CHECK_OK(validate(chat.session().model(), how.options));
                     RUNNEL_TRY(Turn asked, chat.add_user(said, replay));
                     if (asked.cancelled) return asked;
                     RUNNEL_TRY(Turn answered, chat.answer(how.options, how.on_text, how.stop));
                     answered.user = asked.user;
                     answered.cost.replayed += asked.cost.replayed;
                     answered.cost.relaid += asked.cost.relaid;
                     answered.cost.fed += asked.cost.fed;
                     if (answered.warning.empty()) answered.warning = std::move(asked.warning);
                     return answered;
                   });
}

runnel_status runnel_conversation_add_user(runnel_conversation* conversation, const char* text,
                                           size_t bytes, const runnel_turn_options* options,
                                           runnel_turn* turn, runnel_error* error) {
  return take_turn(conversation, options, turn, error,
                   [&](Conversation& chat, const runnel_turn_options&,
                       const ReplayOptions& replay) -> Result<Turn> {
                     RUNNEL_TRY(const std::string_view said, text_of(text, bytes, "text"));
                     return chat.add_user(said, replay);
                   });
}

runnel_status runnel_conversation_answer(runnel_conversation* conversation,
                                         const runnel_turn_options* options, runnel_turn* turn,
                                         runnel_error* error) {
  return take_answer(conversation, options, turn, error, &Conversation::answer);
}

runnel_status runnel_conversation_resume(runnel_conversation* conversation,
                                         const runnel_turn_options* options, runnel_turn* turn,
                                         runnel_error* error) {
  return take_answer(conversation, options, turn, error, &Conversation::resume);
}

runnel_status runnel_conversation_regenerate(runnel_conversation* conversation,
                                             const runnel_turn_options* options, runnel_turn* turn,
                                             runnel_error* error) {
  return take_turn(conversation, options, turn, error,
                   [&](Conversation& chat, const runnel_turn_options& o,
                       const ReplayOptions& replay) -> Result<Turn> {
                     RUNNEL_TRY(const Answering how, answering(o, chat.session().model()));
                     return chat.regenerate(how.options, how.on_text, how.stop, replay);
                   });
}

// NOLINTNEXTLINE(readability-function-size): in C a text, a buffer and an error are many parameters
runnel_status runnel_conversation_edit(runnel_conversation* conversation, runnel_message_id message,
                                       const char* text, size_t bytes,
                                       const runnel_turn_options* options, runnel_turn* turn,
                                       runnel_error* error) {
  return take_turn(conversation, options, turn, error,
                   [&](Conversation& chat, const runnel_turn_options&,
                       const ReplayOptions& replay) -> Result<Turn> {
                     RUNNEL_TRY(const std::string_view said, text_of(text, bytes, "text"));
                     return chat.edit(message, said, replay);
                   });
}

runnel_status runnel_conversation_rewind(runnel_conversation* conversation,
                                         runnel_message_id message,
                                         const runnel_conversation_options* options,
                                         runnel_token_cost* cost, runnel_error* error) {
  return guarded(error, [&]() -> Status {
    RUNNEL_CHECK_OK(check_not_null(conversation, "conversation"));
    RUNNEL_TRY(const runnel_conversation_options o, known(options));
    RUNNEL_CHECK_OK(
        known_struct(cost, runnel_token_cost{}, sizeof(runnel_token_cost), "runnel_token_cost"));
    RUNNEL_TRY(const TokenCost paid, conversation->conversation.rewind(message, replay_of(o)));
    return give_struct(cost, to_c(paid), "runnel_token_cost");
  });
}

runnel_status runnel_conversation_forget_after(runnel_conversation* conversation,
                                               runnel_message_id message,
                                               const runnel_conversation_options* options,
                                               runnel_forget_report* report, runnel_error* error) {
  return guarded(error, [&]() -> Status {
    RUNNEL_CHECK_OK(check_not_null(conversation, "conversation"));
    RUNNEL_TRY(const runnel_conversation_options o, known(options));
    RUNNEL_CHECK_OK(check_report(report));
    RUNNEL_TRY(const ForgetReport done,
               conversation->conversation.forget_after(message, replay_of(o)));
    return give_struct(report, runnel::c::to_c(done), "runnel_forget_report");
  });
}

runnel_status runnel_pack_make(const runnel_model* model, const char* system,
                               const char* const* documents, size_t document_count,
                               const runnel_conversation_options* options, runnel_snapshot** pack,
                               runnel_error* error) {
  return guarded(error, [&]() -> Status {
    RUNNEL_CHECK_OK(check_not_null(model, "model"));
    RUNNEL_CHECK_OK(check_not_null(pack, "pack"));
    RUNNEL_TRY(const runnel_conversation_options o, known(options));
    RUNNEL_TRY(const std::span<const char* const> given,
               span_of(documents, document_count, "documents"));
    std::vector<std::string> texts;
    for (const char* text : given) {
      RUNNEL_CHECK_OK(check_not_null(text, "a document"));
      texts.emplace_back(text);
    }
    RUNNEL_TRY(Snapshot made,
               make_pack(model->model, system != nullptr ? system : "", texts, replay_of(o)));
    *pack = new runnel_snapshot{std::move(made)};
    return {};
  });
}
