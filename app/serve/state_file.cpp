// SPDX-License-Identifier: Apache-2.0
#include "app/serve/state_file.h"

#include <cstring>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/atomic_file.h"
#include "runtime/base/file_map.h"
#include "runtime/base/hash.h"
#include "runtime/base/text.h"
#include "runtime/base/try.h"
#include "runtime/text/json_file.h"

namespace runnel::serve {
namespace {

constexpr std::string_view kMagic = "RUNNELST";
constexpr std::size_t kFixedBytes = 24;  // magic, hash, size
constexpr std::size_t kMostFactBytes = 4096;

void append(std::string& bytes, std::uint64_t number) {
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>((number >> (8 * i)) & 0xFFU);
}

std::uint64_t number_at(std::span<const std::byte> bytes, std::size_t at) {
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < 8; ++i)
    number |= static_cast<std::uint64_t>(bytes[at + i]) << (8 * i);
  return number;
}

// The facts' text and where the snapshot begins.
Result<std::pair<std::string, std::size_t>> facts_text(std::span<const std::byte> bytes,
                                                       const std::string& name) {
  const auto wrong = [&name](const char* what) {
    return fail(ErrorCode::malformed, name, ": ", what);
  };
  if (bytes.size() < kFixedBytes || std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0)
    return wrong("is no saved state");
  const std::uint64_t size = number_at(bytes, 16);
  if (size > kMostFactBytes || size > bytes.size() - kFixedBytes) return wrong("is cut off");
  const auto facts = bytes.subspan(kFixedBytes, static_cast<std::size_t>(size));
  if (hash64(facts) != number_at(bytes, 8)) return wrong("its facts are damaged");
  return std::pair(std::string(reinterpret_cast<const char*>(facts.data()), facts.size()),
                   kFixedBytes + static_cast<std::size_t>(size));
}

}  // namespace

Status write_state(const std::filesystem::path& file, const StateFacts& facts,
                   const Snapshot& snapshot, const FileSystem& system) {
  const std::string text = nlohmann::json{
      {"id", facts.id},
      {"generation", facts.generation},
      {"position", facts.position},
      {"messages", facts.messages},
      {"hash", facts.hash},
      {"tools", facts.tools},
      {"initial_state", facts.initial_state},
      {"closed", facts.closed},
      {"awaiting",
       facts.awaiting}}.dump();
  std::string head(kMagic);
  append(head, hash64(std::as_bytes(std::span(text))));
  append(head, text.size());
  head += text;
  RUNNEL_TRY(const std::vector<std::byte> bytes, snapshot.to_bytes());
  RUNNEL_TRY(AtomicFile out, AtomicFile::create(file, AtomicFile::kPrivateMode, system));
  RUNNEL_CHECK_OK(out.write(std::as_bytes(std::span(head))));
  RUNNEL_CHECK_OK(out.write(bytes));
  return out.commit();
}

Result<StateFacts> read_state_facts(const std::filesystem::path& file) {
  RUNNEL_TRY(const FileMap map, FileMap::open(file));
  const std::string name = printable(file.filename().native());
  RUNNEL_TRY(const auto text, facts_text(map.bytes(), name));
  RUNNEL_TRY(const nlohmann::json json, parse_json(text.first, name));
  try {
    return StateFacts{.id = json.at("id").get<std::string>(),
                      .generation = json.at("generation").get<std::uint64_t>(),
                      .position = json.at("position").get<std::uint64_t>(),
                      .messages = json.at("messages").get<std::uint64_t>(),
                      .hash = json.at("hash").get<std::uint64_t>(),
                      .tools = json.value("tools", std::uint64_t{0}),
                      .initial_state = json.value("initial_state", std::uint64_t{0}),
                      .closed = json.at("closed").get<bool>(),
                      .awaiting = json.at("awaiting").get<bool>()};
  } catch (const nlohmann::json::exception&) {
    return fail(ErrorCode::malformed, name, ": lacks facts of a state");
  }
}

Result<Snapshot> read_state_snapshot(const std::filesystem::path& file) {
  RUNNEL_TRY(const FileMap map, FileMap::open(file));
  RUNNEL_TRY(const auto text, facts_text(map.bytes(), printable(file.filename().native())));
  return Snapshot::from_bytes(map.bytes().subspan(text.second));
}

}  // namespace runnel::serve
