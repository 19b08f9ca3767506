// SPDX-License-Identifier: Apache-2.0
// The stack machine of pickle, protocol 2, without anything that could run code.
#include "runtime/io/torch_pickle.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <string_view>

#include "runtime/base/byte_reader.h"
#include "runtime/base/text.h"
#include "runtime/base/try.h"

namespace runnel {
namespace {

constexpr std::size_t kMaxPickle = 4U << 20;
constexpr std::size_t kMaxDimensions = 8;

enum class Global { ordered_dict, rebuild_tensor, rebuild_parameter, f32, f16, bf16 };

struct NamedGlobal {
  std::string_view name;
  Global global;
};
constexpr NamedGlobal kGlobals[] = {
    {"collections.OrderedDict", Global::ordered_dict},
    {"torch._utils._rebuild_tensor_v2", Global::rebuild_tensor},
    {"torch._utils._rebuild_parameter", Global::rebuild_parameter},
    {"torch.FloatStorage", Global::f32},
    {"torch.HalfStorage", Global::f16},
    {"torch.BFloat16Storage", Global::bf16},
};

std::string_view name_of(Global global) {
  for (const NamedGlobal& g : kGlobals)
    if (g.global == global) return g.name;
  return {};
}

struct Value {
  enum class Kind : std::uint8_t {
    none,
    boolean,
    integer,
    text,
    tuple,
    dict,
    ordered_dict,
    global,
    storage,
    tensor
  };
  Kind kind = Kind::none;
  std::uint32_t index = 0;  // into the table of its kind
  std::int64_t number = 0;  // of booleans, integers and globals
};
using Kind = Value::Kind;

std::string_view kind_name(Kind kind) {
  constexpr std::string_view kNames[] = {"None",      "a bool",  "a number",       "a text",
                                         "a tuple",   "a dict",  "an OrderedDict", "a class",
                                         "a storage", "a tensor"};
  return kNames[static_cast<std::size_t>(kind)];
}

/// Opcodes that are refused, by the names that Python gives them.
std::string opcode_name(std::uint8_t opcode) {
  constexpr std::pair<char, std::string_view> kNames[] = {{'i', "INST"},
                                                          {'o', "OBJ"},
                                                          {'\x81', "NEWOBJ"},
                                                          {'\x92', "NEWOBJ_EX"},
                                                          {'\x93', "STACK_GLOBAL"},
                                                          {'\x82', "EXT1"},
                                                          {'\x83', "EXT2"},
                                                          {'\x84', "EXT4"},
                                                          {'P', "PERSID"},
                                                          {']', "EMPTY_LIST"},
                                                          {'l', "LIST"},
                                                          {'d', "DICT"},
                                                          {'a', "APPEND"},
                                                          {'e', "APPENDS"},
                                                          {'G', "BINFLOAT"},
                                                          {'F', "FLOAT"},
                                                          {'I', "INT"},
                                                          {'L', "LONG"},
                                                          {'S', "STRING"},
                                                          {'T', "BINSTRING"},
                                                          {'U', "SHORT_BINSTRING"},
                                                          {'V', "UNICODE"},
                                                          {'B', "BINBYTES"},
                                                          {'C', "SHORT_BINBYTES"},
                                                          {'\x94', "MEMOIZE"},
                                                          {'\x95', "FRAME"},
                                                          {'\x8c', "SHORT_BINUNICODE"},
                                                          {'\x8b', "LONG4"},
                                                          {'0', "POP"},
                                                          {'1', "POP_MARK"},
                                                          {'2', "DUP"},
                                                          {'p', "PUT"},
                                                          {'g', "GET"}};
  for (const auto& [code, name] : kNames)
    if (static_cast<std::uint8_t>(code) == opcode) return std::string(name);
  return "number " + std::to_string(opcode);
}

std::optional<std::int64_t> product(std::span<const std::int64_t> sizes) {
  std::int64_t all = 1;
  for (const std::int64_t size : sizes)
    if (__builtin_mul_overflow(all, size, &all)) return {};
  return all;
}

class Machine {
 public:
  explicit Machine(std::span<const std::byte> pickle) : reader_(pickle) {}

  Result<TorchDict> run() {
    while (!stopped_) {
      const std::size_t at = reader_.position();
      Status done = step();
      if (!done) return with_context(std::move(done).error(), "byte " + std::to_string(at) + ": ");
    }
    return finish();
  }

 private:
  struct Range {
    std::uint32_t first = 0;
    std::uint32_t count = 0;
  };

  template <class... Parts>
  static Error broken(const Parts&... parts) {
    return fail(ErrorCode::malformed, parts...);
  }
  static Error cut() { return broken("the pickle is cut"); }

  void push(Kind kind, std::size_t index, std::int64_t number = 0) {
    stack_.push_back({kind, static_cast<std::uint32_t>(index), number});
  }
  /// How many values lie above the last mark, or on the whole stack.
  std::size_t free_values() const { return stack_.size() - (marks_.empty() ? 0 : marks_.back()); }
  Result<Value> pop() {
    if (free_values() == 0) return broken("the stack is empty");
    const Value value = stack_.back();
    stack_.pop_back();
    return value;
  }
  Result<std::int64_t> size_number(const Value& value, std::string_view what) const {
    if (value.kind != Kind::integer || value.number < 0)
      return broken(what, " is ",
                    value.kind == Kind::integer ? std::to_string(value.number)
                                                : std::string(kind_name(value.kind)),
                    ", expected a number from 0");
    return value.number;
  }
  std::span<const Value> elements(const Value& tuple) const {
    const Range& range = tuples_[tuple.index];
    return std::span(elements_).subspan(range.first, range.count);
  }

  Status step();
  Status push_number(std::uint8_t opcode);
  Status read_long();
  Status read_text();
  Status read_global();
  Status put(std::optional<std::uint32_t> index);
  Status get(std::optional<std::uint32_t> index);
  Status make_tuple(std::size_t count);
  Status set_items(bool one);
  Status persistent_id();
  Status reduce();
  Status build();
  Status rebuild_tensor(std::span<const Value> arguments);
  Result<std::vector<std::int64_t>> read_sizes(const Value& tuple, std::string_view what) const;
  Result<TorchDict> finish();

  ByteReader reader_;
  bool stopped_ = false;
  std::vector<Value> stack_;
  std::vector<std::size_t> marks_;  // heights of the stack
  std::vector<Value> memo_;
  std::vector<std::string_view> texts_;
  std::vector<Range> tuples_;
  std::vector<Value> elements_;  // of all tuples
  std::vector<std::vector<std::pair<Value, Value>>> dicts_;
  TorchDict result_;
  std::vector<TorchView> tensors_;
  std::map<std::string_view, std::uint32_t> storage_of_;  // by key
};

Status Machine::step() {
  const auto opcode = reader_.read<std::uint8_t>();
  if (!opcode) return cut();
  switch (static_cast<char>(*opcode)) {
    case '\x80': {  // PROTO
      const auto version = reader_.read<std::uint8_t>();
      if (!version) return cut();
      if (*version != 2)
        return fail(ErrorCode::unsupported, "protocol ", int{*version}, ", expected 2");
      return {};
    }
    case '.':
      stopped_ = true;
      return {};
    case '(':
      marks_.push_back(stack_.size());
      return {};
    case ')':
      return make_tuple(0);
    case '\x85':
    case '\x86':
    case '\x87':
      return make_tuple(static_cast<std::size_t>(*opcode - 0x84));
    case 't': {
      if (marks_.empty()) return broken("TUPLE without a mark");
      const std::size_t count = free_values();
      RUNNEL_CHECK_OK(make_tuple(count));
      marks_.pop_back();
      return {};
    }
    case '}':
      push(Kind::dict, dicts_.size());
      dicts_.emplace_back();
      return {};
    case 'N':
    case '\x88':
    case '\x89':
    case 'K':
    case 'M':
    case 'J':
      return push_number(*opcode);
    case '\x8a':
      return read_long();
    case 'X':
      return read_text();
    case 'c':
      return read_global();
    case 'q':
      return put(reader_.read<std::uint8_t>());
    case 'r':
      return put(reader_.read<std::uint32_t>());
    case 'h':
      return get(reader_.read<std::uint8_t>());
    case 'j':
      return get(reader_.read<std::uint32_t>());
    case 's':
    case 'u':
      return set_items(*opcode == 's');
    case 'Q':
      return persistent_id();
    case 'R':
      return reduce();
    case 'b':
      return build();
    default:
      return fail(ErrorCode::unsupported, "opcode ", opcode_name(*opcode), " is not read");
  }
}

Status Machine::push_number(std::uint8_t opcode) {
  switch (static_cast<char>(opcode)) {
    case 'N':
      push(Kind::none, 0);
      return {};
    case '\x88':
    case '\x89':
      push(Kind::boolean, 0, opcode == 0x88 ? 1 : 0);
      return {};
    default:
      break;
  }
  std::optional<std::int64_t> number;
  if (opcode == 'K') number = reader_.read<std::uint8_t>();
  if (opcode == 'M') number = reader_.read<std::uint16_t>();
  if (opcode == 'J') number = reader_.read<std::int32_t>();
  if (!number) return cut();
  push(Kind::integer, 0, *number);
  return {};
}

Status Machine::read_long() {
  const auto size = reader_.read<std::uint8_t>();
  if (!size) return cut();
  if (*size > sizeof(std::int64_t))
    return broken("a number of ", int{*size}, " bytes, expected at most 8");
  const auto bytes = reader_.take(*size);
  if (!bytes) return cut();
  std::int64_t number = 0;
  if (!bytes->empty()) {
    const bool negative = (static_cast<std::uint8_t>(bytes->back()) & 0x80U) != 0;
    if (negative) number = -1;
    std::memcpy(&number, bytes->data(), bytes->size());
  }
  push(Kind::integer, 0, number);
  return {};
}

Status Machine::read_text() {
  const auto size = reader_.read<std::uint32_t>();
  const auto bytes = size ? reader_.take(*size) : std::nullopt;
  if (!bytes) return cut();
  push(Kind::text, texts_.size());
  texts_.push_back(as_text(*bytes));
  return {};
}

Status Machine::read_global() {
  std::array<std::string, 2> lines;  // module, name
  for (std::string& line : lines) {
    for (;;) {
      const auto next = reader_.read<char>();
      if (!next) return cut();
      if (*next == '\n') break;
      line += *next;
    }
  }
  const std::string name = lines[0] + "." + lines[1];
  for (const NamedGlobal& g : kGlobals) {
    if (g.name != name) continue;
    push(Kind::global, 0, static_cast<std::int64_t>(g.global));
    return {};
  }
  return fail(ErrorCode::unsupported, "GLOBAL ", in_quotes(name),
              " is not one of those that a dictionary of tensors needs");
}

Status Machine::put(std::optional<std::uint32_t> index) {
  if (!index) return cut();
  if (free_values() == 0) return broken("the stack is empty");
  if (*index > memo_.size())
    return broken("memo ", *index, ", expected at most ", memo_.size(), ", the next one");
  if (*index == memo_.size()) memo_.emplace_back();
  memo_[*index] = stack_.back();
  return {};
}

Status Machine::get(std::optional<std::uint32_t> index) {
  if (!index) return cut();
  if (*index >= memo_.size()) return broken("memo ", *index, " of ", memo_.size());
  stack_.push_back(memo_[*index]);
  return {};
}

Status Machine::make_tuple(std::size_t count) {
  if (free_values() < count) return broken("the stack is empty");
  const Range range{static_cast<std::uint32_t>(elements_.size()),
                    static_cast<std::uint32_t>(count)};
  elements_.insert(elements_.end(), stack_.end() - static_cast<std::ptrdiff_t>(count),
                   stack_.end());
  stack_.resize(stack_.size() - count);
  push(Kind::tuple, tuples_.size());
  tuples_.push_back(range);
  return {};
}

Status Machine::set_items(bool one) {
  if (!one && marks_.empty()) return broken("SETITEMS without a mark");
  const std::size_t count = one ? 2 : free_values();
  if (free_values() < count || count % 2 != 0)
    return broken("SETITEMS of ", count, " values, expected pairs");
  const std::size_t first = stack_.size() - count;
  if (!one) marks_.pop_back();
  // What the pairs go into lies below them, and below the mark.
  if (first == (marks_.empty() ? 0 : marks_.back())) return broken("the stack is empty");
  const Value target = stack_[first - 1];
  if (target.kind != Kind::dict && target.kind != Kind::ordered_dict)
    return broken("items are set in ", kind_name(target.kind), ", expected a dict");
  for (std::size_t i = first; i < stack_.size(); i += 2)
    dicts_[target.index].emplace_back(stack_[i], stack_[i + 1]);
  stack_.resize(first);
  return {};
}

/// ('storage', CLASS, KEY, DEVICE, ELEMENTS)
Status Machine::persistent_id() {
  RUNNEL_TRY(const Value id, pop());
  const auto parts = id.kind == Kind::tuple ? elements(id) : std::span<const Value>();
  if (parts.size() != 5 || parts[0].kind != Kind::text || texts_[parts[0].index] != "storage" ||
      parts[1].kind != Kind::global || parts[2].kind != Kind::text || parts[3].kind != Kind::text)
    return broken("the persistent id is no ('storage', class, key, device, elements)");
  TorchStorage storage;
  switch (static_cast<Global>(parts[1].number)) {
    case Global::f32:
      storage.type = SafetensorsType::f32;
      break;
    case Global::f16:
      storage.type = SafetensorsType::f16;
      break;
    case Global::bf16:
      storage.type = SafetensorsType::bf16;
      break;
    default:
      return broken(name_of(static_cast<Global>(parts[1].number)), " as the class of a storage");
  }
  const std::string_view key = texts_[parts[2].index];
  RUNNEL_TRY(storage.elements, size_number(parts[4], "the number of elements of a storage"));
  storage.key = key;
  const auto [at, added] =
      storage_of_.emplace(key, static_cast<std::uint32_t>(result_.storages.size()));
  if (added) {
    result_.storages.push_back(std::move(storage));
  } else if (const TorchStorage& before = result_.storages[at->second];
             before.type != storage.type || before.elements != storage.elements) {
    return broken("storage ", in_quotes(key), " is described twice and differently");
  }
  push(Kind::storage, at->second);
  return {};
}

Status Machine::reduce() {
  RUNNEL_TRY(const Value arguments, pop());
  RUNNEL_TRY(const Value callee, pop());
  if (callee.kind != Kind::global)
    return fail(ErrorCode::unsupported, "REDUCE calls ", kind_name(callee.kind));
  const auto global = static_cast<Global>(callee.number);
  if (arguments.kind != Kind::tuple)
    return broken("REDUCE of ", name_of(global), ": its arguments are ", kind_name(arguments.kind),
                  ", expected a tuple");
  const auto given = elements(arguments);
  switch (global) {
    case Global::ordered_dict:
      if (!given.empty())
        return fail(ErrorCode::unsupported, "REDUCE of ", name_of(global), " with ", given.size(),
                    " arguments, expected none");
      push(Kind::ordered_dict, dicts_.size());
      dicts_.emplace_back();
      return {};
    case Global::rebuild_tensor:
      return rebuild_tensor(given);
    case Global::rebuild_parameter:
      // tensor, requires_grad, backward_hooks
      if (given.size() != 3 || given[0].kind != Kind::tensor)
        return broken("REDUCE of ", name_of(global), ": expected a tensor and two more arguments");
      stack_.push_back(given[0]);
      return {};
    default:
      return fail(ErrorCode::unsupported, "REDUCE of ", name_of(global));
  }
}

/// Only an OrderedDict has such a state: {'_metadata': …}, which is ignored.
Status Machine::build() {
  RUNNEL_TRY(const Value state, pop());
  if (free_values() == 0) return broken("the stack is empty");
  const Value& target = stack_.back();
  if (target.kind != Kind::ordered_dict)
    return fail(ErrorCode::unsupported, "BUILD of ", kind_name(target.kind));
  if (state.kind != Kind::dict)
    return fail(ErrorCode::unsupported, "BUILD of an OrderedDict with ", kind_name(state.kind));
  for (const auto& [key, value] : dicts_[state.index]) {
    if (key.kind != Kind::text || texts_[key.index] != "_metadata")
      return fail(
          ErrorCode::unsupported, "BUILD of an OrderedDict with ",
          key.kind == Kind::text ? in_quotes(texts_[key.index]) : std::string(kind_name(key.kind)),
          ", expected '_metadata'");
  }
  return {};
}

Result<std::vector<std::int64_t>> Machine::read_sizes(const Value& tuple,
                                                      std::string_view what) const {
  if (tuple.kind != Kind::tuple) return broken(what, " is ", kind_name(tuple.kind));
  const auto values = elements(tuple);
  if (values.size() > kMaxDimensions)
    return broken(what, " has ", values.size(), " dimensions, expected at most ", kMaxDimensions);
  std::vector<std::int64_t> sizes;
  for (const Value& value : values) {
    RUNNEL_TRY(const std::int64_t size, size_number(value, what));
    sizes.push_back(size);
  }
  return sizes;
}

/// storage, offset, shape, strides, requires_grad, backward_hooks[, None]
Status Machine::rebuild_tensor(std::span<const Value> arguments) {
  const bool known =
      arguments.size() == 6 || (arguments.size() == 7 && arguments[6].kind == Kind::none);
  if (!known || arguments[0].kind != Kind::storage)
    return broken("REDUCE of ", name_of(Global::rebuild_tensor),
                  ": expected a storage and five more arguments");
  TorchView view;
  view.storage = arguments[0].index;
  RUNNEL_TRY(view.offset, size_number(arguments[1], "a tensor's offset"));
  RUNNEL_TRY(view.shape, read_sizes(arguments[2], "a tensor's shape"));
  RUNNEL_TRY(view.strides, read_sizes(arguments[3], "a tensor's strides"));
  const TorchStorage& storage = result_.storages[view.storage];
  const auto leaves = [&](const auto&... why) {
    return broken("a tensor of storage ", in_quotes(storage.key), " ", why...);
  };
  if (view.strides.size() != view.shape.size())
    return leaves("has ", view.shape.size(), " dimensions and ", view.strides.size(), " strides");
  const std::optional<std::int64_t> count = product(view.shape);
  // As many elements as the storage at most: strides of 0 would make more of it than the file has.
  if (!count || *count > storage.elements)
    return leaves("has ", count ? std::to_string(*count) : "more than 2^63",
                  " elements, but the storage has ", storage.elements);
  std::int64_t last = view.offset;
  for (std::size_t i = 0; i < view.shape.size() && *count > 0; ++i) {
    std::int64_t step = 0;
    if (__builtin_mul_overflow(view.shape[i] - 1, view.strides[i], &step) ||
        __builtin_add_overflow(last, step, &last))
      return leaves("has strides beyond 2^63");
  }
  if (*count > 0 ? last >= storage.elements : view.offset > storage.elements)
    return leaves("ends at element ", last, ", but the storage has ", storage.elements);
  push(Kind::tensor, tensors_.size());
  tensors_.push_back(std::move(view));
  return {};
}

Result<TorchDict> Machine::finish() {
  if (stack_.size() != 1 || !marks_.empty())
    return broken("the pickle ends with ", stack_.size(), " values, expected one");
  const Value& whole = stack_[0];
  if (whole.kind != Kind::dict && whole.kind != Kind::ordered_dict)
    return fail(ErrorCode::unsupported, "the file holds ", kind_name(whole.kind),
                ", expected a dict of tensors");
  for (const auto& [key, value] : dicts_[whole.index]) {
    if (key.kind != Kind::text) return broken("a key is ", kind_name(key.kind));
    const std::string_view name = texts_[key.index];
    if (value.kind != Kind::tensor)
      return fail(ErrorCode::unsupported, in_quotes(name), " is ", kind_name(value.kind),
                  ", expected a tensor");
    result_.tensors.emplace_back(name, tensors_[value.index]);
  }
  return std::move(result_);
}

}  // namespace

std::int64_t TorchView::elements() const { return product(shape).value_or(0); }

bool TorchView::is_contiguous() const {
  std::int64_t wanted = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (shape[i] != 1 && strides[i] != wanted) return elements() == 0;
    wanted *= shape[i];
  }
  return true;
}

Result<TorchDict> read_torch_pickle(std::span<const std::byte> pickle) {
  if (pickle.size() > kMaxPickle)
    return fail(ErrorCode::unsupported, "has ", pickle.size(), " bytes, at most ", kMaxPickle,
                " are read");
  return Machine(pickle).run();
}

}  // namespace runnel
