// SPDX-License-Identifier: Apache-2.0
#include "app/serve/kept_states.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "runtime/base/hash.h"

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

}  // namespace

void MessageTrail::add(const ChatMessage& message) {
  ++count;
  // Lengths keep ("ab", "c") and ("a", "bc") apart.
  const std::string text = std::to_string(hash) + "/" + message.role + "/" +
                           std::to_string(message.content.size()) + "/" + message.content;
  hash = hash64(std::as_bytes(std::span(text)));
}

std::filesystem::path KeptStates::file(const std::string& id, const char* extension) const {
  return settings_.directory / (id + extension);
}

bool KeptStates::is_saved(const std::string& id) const {
  std::error_code error;
  return !settings_.directory.empty() && std::filesystem::exists(file(id, ".json"), error);
}

// What is not whole counts as not there: the client sends the conversation again.
std::optional<KeptState> KeptStates::load(const std::string& id) const {
  if (!is_saved(id)) return {};
  std::ifstream in(file(id, ".json"));
  const nlohmann::json facts = nlohmann::json::parse(in, nullptr, false);
  const Result<Snapshot> snapshot = Snapshot::load(file(id, ".snap"));
  if (!facts.is_object() || !snapshot) return {};
  Result<Session> session = Session::create(model_);
  if (!session || !session->restore(*snapshot)) return {};
  try {
    if (facts.at("position").get<std::uint64_t>() != session->position()) return {};
    return KeptState{.session = std::make_unique<Session>(std::move(*session)),
                     .trail = {.count = facts.at("messages").get<std::uint64_t>(),
                               .hash = facts.at("hash").get<std::uint64_t>()},
                     .closed = facts.at("closed").get<bool>(),
                     .awaiting = facts.at("awaiting").get<bool>()};
  } catch (const nlohmann::json::exception&) {
    return {};
  }
}

std::variant<KeptStates::Taken, HttpError> KeptStates::take(const std::string& id) {
  {
    const std::lock_guard lock(mutex_);
    if (busy_.contains(id)) return busy(id);
    busy_.insert(id);
    if (const auto found = idle_.find(id); found != idle_.end()) {
      Taken taken{.state = std::move(found->second.state)};
      by_age_.erase(found->second.age);
      idle_.erase(found);
      ++taken_;
      return taken;
    }
  }
  Taken taken{.state = load(id)};  // reading a file holds up nobody else
  const std::lock_guard lock(mutex_);
  if (taken.state) {
    ++taken_;
    make_room();
  }
  taken.forgotten =
      !taken.state && std::find(dropped_.begin(), dropped_.end(), id) != dropped_.end();
  return taken;
}

void KeptStates::make_room() {
  while (!by_age_.empty() && idle_.size() + taken_ >= settings_.most) {
    idle_.erase(by_age_.front());
    dropped_.splice(dropped_.end(), by_age_, by_age_.begin());
    if (dropped_.size() > kRememberedDrops) dropped_.pop_front();
    ++dropped_count_;
  }
}

void KeptStates::put(const std::string& id, KeptState state) {
  make_room();
  dropped_.remove(id);
  by_age_.push_back(id);
  idle_.insert_or_assign(id, Idle{std::move(state), std::prev(by_age_.end())});
}

void KeptStates::give_back(const std::string& id, KeptState state, bool was_kept) {
  const std::lock_guard lock(mutex_);
  busy_.erase(id);
  if (was_kept) --taken_;
  put(id, std::move(state));
}

void KeptStates::release(const std::string& id, bool was_kept) {
  const std::lock_guard lock(mutex_);
  busy_.erase(id);
  if (was_kept) --taken_;
}

std::optional<HttpError> KeptStates::save(const std::string& id) {
  if (settings_.directory.empty()) {
    return HttpError{400,
                     "this server keeps no states on disk: it was started without --states DIR", "",
                     "saving_disabled"};
  }
  std::optional<Snapshot> snapshot;
  nlohmann::json facts;
  {
    const std::lock_guard lock(mutex_);
    if (busy_.contains(id)) return busy(id);
    const auto found = idle_.find(id);
    if (found == idle_.end()) {
      if (is_saved(id)) return {};
      return not_found(id);
    }
    const KeptState& state = found->second.state;
    Result<Snapshot> taken = state.session->snapshot();
    if (!taken) return failed(taken.error());
    snapshot = std::move(*taken);
    facts = {{"position", state.session->position()},
             {"messages", state.trail.count},
             {"hash", state.trail.hash},
             {"closed", state.closed},
             {"awaiting", state.awaiting}};
  }
  if (const Status written = snapshot->save(file(id, ".snap")); !written)
    return failed(written.error());
  std::ofstream out(file(id, ".json"), std::ios::trunc);
  out << facts.dump() << '\n';
  out.close();
  if (!out) return HttpError{500, "the state's description could not be written", "", "io"};
  return {};
}

std::optional<HttpError> KeptStates::fork(const std::string& from, const std::string& to) {
  const std::lock_guard lock(mutex_);
  if (busy_.contains(from)) return busy(from);
  if (busy_.contains(to)) return busy(to);
  const auto found = idle_.find(from);
  if (found == idle_.end()) return not_found(from);
  if (idle_.contains(to) || is_saved(to)) {
    return HttpError{409, "there is a conversation " + to + " already", "into",
                     "conversation_exists"};
  }
  if (settings_.most < 2)
    return HttpError{507, "there is no room for another state", "", "no_room"};
  Result<Session> copy = found->second.state.session->fork();
  if (!copy) return failed(copy.error());
  KeptState state{.session = std::make_unique<Session>(std::move(*copy)),
                  .trail = found->second.state.trail,
                  .closed = found->second.state.closed,
                  .awaiting = found->second.state.awaiting};
  by_age_.splice(by_age_.end(), by_age_, found->second.age);  // used now: not the one to make room
  put(to, std::move(state));
  return {};
}

std::optional<HttpError> KeptStates::remove(const std::string& id) {
  const std::lock_guard lock(mutex_);
  if (busy_.contains(id)) return busy(id);
  bool there = is_saved(id);
  if (there) {
    std::error_code error;
    std::filesystem::remove(file(id, ".json"), error);
    std::filesystem::remove(file(id, ".snap"), error);
    if (error)
      return HttpError{500, "the state's file could not be removed: " + error.message(), "", "io"};
  }
  if (const auto found = idle_.find(id); found != idle_.end()) {
    by_age_.erase(found->second.age);
    idle_.erase(found);
    there = true;
  }
  dropped_.remove(id);
  if (!there) return not_found(id);
  return {};
}

KeptStates::Counts KeptStates::counts() const {
  const std::lock_guard lock(mutex_);
  return {.idle = idle_.size(), .most = settings_.most, .dropped = dropped_count_};
}

}  // namespace runnel::serve
