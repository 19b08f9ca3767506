// SPDX-License-Identifier: Apache-2.0
#include "app/serve/kept_states.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <new>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "runtime/base/hash.h"
#include "runtime/base/text.h"
#include "runtime/base/try.h"
#include "runtime/io/snapshot_data.h"
#include "runtime/model/session_impl.h"

namespace runnel::serve {
namespace {

constexpr std::size_t kRememberedDrops = 4096;

HttpError not_found(const std::string& id) {
  return {404, "there is no conversation " + id + " here", "conversation",
          "conversation_not_found"};
}

HttpError busy(const std::string& id) {
  return {409, "conversation " + id + " is answering another request", "conversation",
          "conversation_busy"};
}

HttpError failed(const Error& error) { return {500, error.message, "", to_string(error.code)}; }

HttpError does_not_fit(const std::string& id, const Error& error) {
  return {409,
          "conversation " + id + " does not fit this server: " + error.message +
              "; its file is left as it is: take another id, or delete the conversation",
          "conversation", "conversation_does_not_fit"};
}

HttpError unreadable(const std::string& id, const Error& error) {
  return {500, "the file of conversation " + id + " cannot be read: " + error.message,
          "conversation", to_string(error.code)};
}

HttpError not_saved(const std::string& id, const Error& error, std::optional<StateMark> exists) {
  return {507,
          "conversation " + id + " could not be saved: " + error.message +
              (exists ? "; it stands at generation " + std::to_string(exists->generation)
                      : "; nothing of it is kept"),
          "conversation", "not_saved", exists};
}

std::string place(std::optional<std::uint64_t> generation, std::optional<std::uint64_t> position) {
  if (generation.value_or(1) == 0 || (!generation && position.value_or(1) == 0)) return "none yet";
  return (generation ? "generation " + std::to_string(*generation) : "") +
         (generation && position ? ", " : "") +
         (position ? "position " + std::to_string(*position) : "");
}

HttpError differs(const std::string& id, const Expectation& expect,
                  std::optional<StateMark> exists) {
  return {412,
          "conversation " + id + " is " +
              (exists ? "at " + place(exists->generation, exists->position) : "not here") +
              ", expected " + place(expect.generation, expect.position),
          "conversation", "generation_differs", exists ? exists : StateMark{}};
}

StateMark mark_of(const KeptState& state) { return {state.generation, state.session->position()}; }

}  // namespace

void MessageTrail::add(const ChatMessage& message) {
  ++count;
  // Lengths keep ("ab", "c") and ("a", "bc") apart.
  const std::string text = std::to_string(hash) + "/" + message.role + "/" +
                           std::to_string(message.content.size()) + "/" + message.content;
  hash = hash64(std::as_bytes(std::span(text)));
  const auto also = [this](const std::string& more) {
    const std::string all = std::to_string(hash) + "/" + more;
    hash = hash64(std::as_bytes(std::span(all)));
  };
  for (const ToolCall& call : message.tool_calls) {
    // Clients may write the same arguments otherwise, and name the call as they like.
    const auto json = nlohmann::json::parse(call.arguments, nullptr, false);
    also("call/" + call.name + "/" + (json.is_discarded() ? call.arguments : json.dump()));
  }
  if (!message.tool_call_id.empty()) also("result/" + message.tool_call_id);
}

Result<std::unique_ptr<KeptStates>> KeptStates::open(std::shared_ptr<const Model> model,
                                                     Settings settings) {
  std::unique_ptr<KeptStates> states(new KeptStates(std::move(model), std::move(settings)));
  const Settings& s = states->settings_;
  if (s.directory.empty()) return states;
  RUNNEL_TRY(states->folder_, StateFolder::open(s.directory, *s.system));
  states->last_generation_ = states->folder_->newest();
  return states;
}

std::optional<StateMark> KeptStates::mark_in_file(const std::string& id) const {
  return on_disk() ? folder_->mark(id) : std::nullopt;
}

// @return not_found, malformed if it is damaged, mismatch if it is of another model or initial state, or why it cannot be read now.
Result<KeptStates::InFile> KeptStates::read_file(const std::string& id) const {
  RUNNEL_TRY(StateFacts facts, folder_->facts(id));
  RUNNEL_TRY(Snapshot snapshot, folder_->snapshot(id));
  RUNNEL_CHECK_OK(check_fits(engine_of(*model_), data_of(snapshot)));
  if (snapshot.position() != facts.position)
    return fail(ErrorCode::malformed, "the facts of its file are those of another state");
  if (facts.initial_state != settings_.initial_state) {
    const auto name = [](std::uint64_t initial) {
      return initial == 0 ? std::string("the empty state")
                          : "initial state " + hexadecimal(initial);
    };
    return fail(ErrorCode::mismatch, "it began from ", name(facts.initial_state),
                ", this server's conversations begin from ", name(settings_.initial_state));
  }
  return InFile{std::move(facts), std::move(snapshot)};
}

// @return likewise
Result<KeptState> KeptStates::read(const std::string& id) const {
  RUNNEL_TRY(const InFile file, read_file(id));
  const StateFacts& facts = file.facts;
  RUNNEL_TRY(Session session, Session::create(model_));
  RUNNEL_CHECK_OK(session.restore(file.snapshot));
  return KeptState{.session = std::make_unique<Session>(std::move(session)),
                   .trail = {.count = facts.messages, .hash = facts.hash, .tools = facts.tools},
                   .closed = facts.closed,
                   .awaiting = facts.awaiting,
                   .generation = facts.generation,
                   .saved = true};
}

// What is not whole counts as not there, and the client sends the conversation again; but nothing is written over that
// another server could still read, or that somebody may want to look at.
std::variant<std::optional<KeptState>, HttpError> KeptStates::load(const std::string& id) const {
  if (!on_disk()) return std::nullopt;
  Result<KeptState> kept = read(id);
  if (kept) return std::optional(*std::move(kept));
  const Error& error = kept.error();
  if (error.code == ErrorCode::not_found) return std::nullopt;
  if (error.code == ErrorCode::mismatch) return does_not_fit(id, error);
  if (error.code != ErrorCode::malformed) return unreadable(id, error);
  const Result<bool> aside = folder_->put_aside(id);
  if (!aside) return unreadable(id, aside.error());
  if (settings_.note) {
    settings_.note("conversation " + id + " begins anew: " + error.message +
                   (*aside ? "; its file is put aside as " + StateFolder::name_aside(id)
                           : "; its file stays, the folder is for reading only"));
  }
  return std::nullopt;
}

Status KeptStates::write(const std::string& id, KeptState& state) const try {
  RUNNEL_TRY(const Snapshot snapshot, state.session->snapshot());
  RUNNEL_CHECK_OK(folder_->write({.id = id,
                                  .generation = state.generation,
                                  .position = state.session->position(),
                                  .messages = state.trail.count,
                                  .hash = state.trail.hash,
                                  .tools = state.trail.tools,
                                  .initial_state = settings_.initial_state,
                                  .closed = state.closed,
                                  .awaiting = state.awaiting},
                                 snapshot));
  state.saved = true;
  return {};
} catch (const std::bad_alloc&) {
  return fail(ErrorCode::out_of_memory, "not enough memory");
}

// An id in writing_ or busy_ while this lives, also where an exception ends that. Nobody waits for an id for ever.
class KeptStates::Held {
 public:
  // With the lock, which may be let go while this lives.
  Held(KeptStates& states, std::set<std::string>& ids, const std::string& id, Lock& lock)
      : states_(states), ids_(ids), id_(id), lock_(lock) {
    ids_.insert(id_);
  }
  ~Held() {
    if (!lock_.owns_lock()) lock_.lock();
    if (!kept_) ids_.erase(id_);
    states_.settled_.notify_all();
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

  void keep() { kept_ = true; }

 private:
  KeptStates& states_;
  std::set<std::string>& ids_;
  const std::string& id_;
  Lock& lock_;
  bool kept_ = false;
};

// ---- Reservations. `lock` is held wherever it is a parameter. ----

// Waits while the id is being written or removed. @return 409 while a request
// has it.
std::optional<HttpError> KeptStates::settle(const std::string& id, Lock& lock) {
  settled_.wait(lock, [&] { return !writing_.contains(id); });
  if (busy_.contains(id)) return busy(id);
  return {};
}

KeptState KeptStates::take_idle(std::map<std::string, Idle>::iterator found) {
  KeptState state = std::move(found->second.state);
  by_age_.erase(found->second.age);
  idle_.erase(found);
  return state;
}

// Time in microseconds, or one more than the last: it grows across restarts and
// deletions without a counter on the disk that would have to be right.
std::uint64_t KeptStates::next_generation() {
  const auto now = std::chrono::duration_cast<std::chrono::microseconds>(
                       std::chrono::system_clock::now().time_since_epoch())
                       .count();
  last_generation_ = std::max(last_generation_ + 1, static_cast<std::uint64_t>(now));
  return last_generation_;
}

void KeptStates::remember_drop(const std::string& id, StateMark lost) {
  if (dropped_.insert_or_assign(id, lost).second) drops_by_age_.push_back(id);
  while (drops_by_age_.size() > kRememberedDrops) {
    dropped_.erase(drops_by_age_.front());
    drops_by_age_.pop_front();
  }
}

// The least recently used go; what is not on the disk is written first, with
// the lock released.
void KeptStates::make_room(Lock& lock) {
  while (!by_age_.empty() && idle_.size() + taken_ >= settings_.most) {
    const std::string id = by_age_.front();
    KeptState state = take_idle(idle_.find(id));
    ++dropped_count_;
    if (on_disk() && !state.saved) {
      const Held writing(*this, writing_, id, lock);
      lock.unlock();
      const Status written = write(id, state);
      lock.lock();
      if (!written) remember_drop(id, mark_of(state));
    } else if (!on_disk()) {
      remember_drop(id, mark_of(state));
    }
  }
}

void KeptStates::put(const std::string& id, KeptState state, Lock& lock) {
  make_room(lock);
  if (dropped_.erase(id) != 0) drops_by_age_.remove(id);
  by_age_.push_back(id);
  idle_.insert_or_assign(id, Idle{std::move(state), std::prev(by_age_.end())});
}

// ---- What requests do ----

std::variant<KeptStates::Taken, HttpError> KeptStates::take(const std::string& id,
                                                            const Expectation& expect) {
  Lock lock(mutex_);
  if (auto error = settle(id, lock)) return *error;
  if (const auto found = idle_.find(id); found != idle_.end()) {
    const StateMark mark = mark_of(found->second.state);
    if (!expect.fits(mark)) return differs(id, expect, mark);
    busy_.insert(id);
    ++taken_;
    return Taken{.state = take_idle(found)};
  }
  Held taken(*this, busy_, id, lock);
  lock.unlock();  // reading a file must not hold up other threads
  std::variant<std::optional<KeptState>, HttpError> got = load(id);
  const bool behind = on_disk() && folder_->behind(id);
  lock.lock();
  if (const auto* error = std::get_if<HttpError>(&got)) return *error;
  std::optional<KeptState>& loaded = std::get<std::optional<KeptState>>(got);
  const auto drop = dropped_.find(id);
  std::optional<StateMark> exists;
  if (loaded) exists = mark_of(*loaded);
  if (!expect.fits(exists)) return differs(id, expect, exists);
  // Going on from an older state than the client has seen takes its word for it.
  const bool lost =
      drop != dropped_.end() && (!exists || exists->generation < drop->second.generation);
  if ((lost || behind) && !expect.given()) {
    taken.keep();
    return Taken{.forgotten = true, .exists = exists};
  }
  if (loaded) {
    ++taken_;
    make_room(lock);
  }
  taken.keep();
  return Taken{.state = std::move(loaded)};
}

std::variant<StateMark, HttpError> KeptStates::give_back(const std::string& id, KeptState state,
                                                         bool was_kept, bool changed) {
  Lock lock(mutex_);
  const Held answered(*this, busy_, id, lock);  // to the end: put() may let go of the lock
  lock.unlock();
  // An older state that one client asked for is not what others go on from unasked.
  bool older = !changed && state.saved && on_disk() && folder_->behind(id);
  lock.lock();
  older = older || (!changed && state.saved && dropped_.contains(id));
  const bool was_saved = state.saved || state.generation == 0;
  if (changed) {
    state.generation = next_generation();
    state.saved = false;
  }
  std::optional<HttpError> failure;
  if (changed && on_disk() && settings_.autosave) {
    lock.unlock();
    if (const Status written = write(id, state); !written)
      failure = not_saved(id, written.error(), mark_in_file(id));
    lock.lock();
  } else if (changed && on_disk() && was_saved) {
    lock.unlock();
    // Where no note can be written nothing can be saved either, and only memory is promised.
    static_cast<void>(folder_->note_behind(id));
    lock.lock();
  }
  if (was_kept) --taken_;
  const StateMark mark = mark_of(state);
  if (!failure && !older) put(id, std::move(state), lock);
  if (failure) return *failure;
  return mark;
}

void KeptStates::release(const std::string& id, std::uint64_t lost) {
  const std::optional<StateMark> exists = mark_in_file(id);
  const Lock lock(mutex_);
  busy_.erase(id);
  if (lost == 0) return;
  --taken_;
  if (!exists || exists->generation < lost) remember_drop(id, {lost, 0});
}

std::variant<StateMark, HttpError> KeptStates::save(const std::string& id) {
  if (!on_disk()) {
    return HttpError{400,
                     "this server keeps no states on disk: it was started "
                     "without --states DIR",
                     "", "saving_disabled"};
  }
  Lock lock(mutex_);
  if (auto error = settle(id, lock)) return *error;
  const auto found = idle_.find(id);
  if (found == idle_.end()) {
    const Held reading(*this, writing_, id, lock);
    lock.unlock();
    // It is saved if this server could go on from it: to see that, its file is enough.
    const Result<InFile> kept = read_file(id);
    lock.lock();
    if (kept) return StateMark{kept->facts.generation, kept->facts.position};
    const ErrorCode code = kept.error().code;
    if (code == ErrorCode::mismatch) return does_not_fit(id, kept.error());
    if (code == ErrorCode::not_found || code == ErrorCode::malformed) return not_found(id);
    return unreadable(id, kept.error());
  }
  if (found->second.state.saved) return mark_of(found->second.state);
  KeptState state = take_idle(found);
  ++taken_;
  const Held writing(*this, writing_, id, lock);
  lock.unlock();
  const Status written = write(id, state);
  lock.lock();
  const StateMark mark = mark_of(state);
  --taken_;
  put(id, std::move(state), lock);
  if (!written) return not_saved(id, written.error(), mark_in_file(id));
  return mark;
}

std::variant<StateMark, HttpError> KeptStates::fork(const std::string& from,
                                                    const std::string& to) {
  if (settings_.most < 2)
    return HttpError{507, "there is no room for another state", "", "no_room"};
  std::variant<Taken, HttpError> got = take(from, {});
  if (const auto* error = std::get_if<HttpError>(&got)) return *error;
  std::optional<KeptState>& state = std::get<Taken>(got).state;
  if (!state) {
    release(from, 0);
    return not_found(from);
  }
  Result<Session> copy = state->session->fork();
  KeptState forked{.before_answer = state->before_answer,
                   .trail = state->trail,
                   .closed = state->closed,
                   .awaiting = state->awaiting};
  give_back(from, *std::move(state), true, false);
  if (!copy) return failed(copy.error());
  forked.session = std::make_unique<Session>(*std::move(copy));
  std::variant<Taken, HttpError> place = take(to, {});
  if (const auto* error = std::get_if<HttpError>(&place)) return *error;
  if (std::optional<KeptState>& there = std::get<Taken>(place).state) {
    give_back(to, *std::move(there), true, false);
    return HttpError{409, "there is a conversation " + to + " already", "into",
                     "conversation_exists"};
  }
  return give_back(to, std::move(forked), false, true);
}

std::optional<HttpError> KeptStates::remove(const std::string& id) {
  Lock lock(mutex_);
  if (auto error = settle(id, lock)) return *error;
  std::optional<KeptState> held;
  if (const auto found = idle_.find(id); found != idle_.end()) held = take_idle(found);
  if (dropped_.erase(id) != 0) drops_by_age_.remove(id);
  if (!on_disk()) {
    if (!held) return not_found(id);
    return {};
  }
  const Held removing(*this, writing_, id, lock);
  lock.unlock();
  const Result<bool> removed = folder_->remove(id);
  lock.lock();
  const bool there = held.has_value() || (removed && *removed);
  if (!removed && held) put(id, *std::move(held), lock);
  if (!removed) return failed(removed.error());
  if (!there) return not_found(id);
  return {};
}

Status KeptStates::save_all() {
  if (!on_disk()) return {};
  std::vector<std::string> ids;
  {
    const Lock lock(mutex_);
    for (const auto& [id, idle] : idle_) {
      if (!idle.state.saved) ids.push_back(id);
    }
  }
  Status first;
  for (const std::string& id : ids) {
    const auto saved = save(id);
    if (const auto* error = std::get_if<HttpError>(&saved); error != nullptr && first.has_value())
      first = Error{ErrorCode::io, error->message};
  }
  return first;
}

KeptStates::Counts KeptStates::counts() const {
  const std::lock_guard lock(mutex_);
  return {.idle = idle_.size(), .most = settings_.most, .dropped = dropped_count_};
}

}  // namespace runnel::serve
