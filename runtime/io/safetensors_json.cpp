// SPDX-License-Identifier: Apache-2.0
#include "runtime/io/safetensors_json.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "runtime/base/text.h"
#include "runtime/base/try.h"

namespace runnel::safetensors {
namespace {

constexpr int kMaxDepth = 32;              // of members that are skipped
constexpr std::size_t kMaxDimensions = 8;  // PyTorch checkpoints have at most 5
constexpr std::size_t kMaxShards = 4096;

// What both texts share: they keep the first error. Returning false stops nlohmann's parser.
class Events : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool binary(binary_t&) override { return refuse("holds binary data"); }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    // nlohmann writes "[json.exception.parse_error.101] parse error at line…: reason; last read: …".
    std::string_view reason = error.what();
    if (const std::size_t bracket = reason.find("] "); bracket != reason.npos)
      reason.remove_prefix(bracket + 2);
    return refuse("is no valid JSON at byte ", position, ": ", printable(reason));
  }

  Status status() const { return error_ ? Status(*error_) : Status(); }

 protected:
  template <class... Parts>
  bool refuse(const Parts&... parts) {
    return refuse_as(ErrorCode::malformed, parts...);
  }
  template <class... Parts>
  bool refuse_as(ErrorCode code, const Parts&... parts) {
    if (!error_) error_ = fail(code, parts...);
    return false;
  }

 private:
  std::optional<Error> error_;
};

constexpr std::pair<std::string_view, SafetensorsType> kTypes[] = {
    {"BOOL", SafetensorsType::boolean}, {"U8", SafetensorsType::u8},
    {"I8", SafetensorsType::i8},        {"U16", SafetensorsType::u16},
    {"I16", SafetensorsType::i16},      {"F16", SafetensorsType::f16},
    {"BF16", SafetensorsType::bf16},    {"U32", SafetensorsType::u32},
    {"I32", SafetensorsType::i32},      {"F32", SafetensorsType::f32},
    {"U64", SafetensorsType::u64},      {"I64", SafetensorsType::i64},
    {"F64", SafetensorsType::f64},
};

class HeaderEvents final : public Events {
 public:
  Header header;

  bool start_object(std::size_t) override {
    switch (where_) {
      case Where::outside:
        where_ = Where::top;
        return true;
      case Where::top:
        where_ = name_ == "__metadata__" ? Where::metadata : Where::tensor;
        return true;
      default:
        return unexpected("an object");
    }
  }

  bool key(std::string& key) override {
    switch (where_) {
      case Where::top:
        name_ = std::move(key);
        if (name_ == "__metadata__")
          return !std::exchange(has_metadata_, true) || refuse("names '__metadata__' twice");
        if (!header.try_emplace(name_).second)
          return refuse("names tensor ", in_quotes(name_), " twice");
        has_type_ = has_shape_ = has_offsets_ = false;
        return true;
      case Where::tensor:
        field_ = std::move(key);
        return true;
      default:
        return true;  // of the metadata
    }
  }

  bool end_object() override {
    if (where_ == Where::tensor && !(has_type_ && has_shape_ && has_offsets_)) {
      return refuse(here(), "lacks ",
                    !has_type_    ? "dtype"
                    : !has_shape_ ? "shape"
                                  : "data_offsets");
    }
    where_ = where_ == Where::top ? Where::outside : Where::top;
    return true;
  }

  bool string(std::string& text) override {
    if (where_ == Where::metadata) return true;
    if (where_ != Where::tensor || field_ != "dtype") return unexpected("a string");
    if (std::exchange(has_type_, true)) return refuse(here(), "has dtype twice");
    for (const auto& [name, type] : kTypes) {
      if (text == name) {
        header.find(name_)->second.type = type;
        return true;
      }
    }
    return refuse_as(ErrorCode::unsupported, here(), "dtype is ", in_quotes(text),
                     ", expected a float of at least 16 bits, an integer or BOOL");
  }

  bool start_array(std::size_t) override {
    if (where_ != Where::tensor) return unexpected("an array");
    if (field_ == "shape") {
      where_ = Where::shape;
      return !std::exchange(has_shape_, true) || refuse(here(), "has shape twice");
    }
    if (field_ == "data_offsets") {
      where_ = Where::offsets;
      offsets_ = 0;
      return !std::exchange(has_offsets_, true) || refuse(here(), "has data_offsets twice");
    }
    return unexpected("an array");
  }

  bool end_array() override {
    if (where_ == Where::offsets && offsets_ != 2)
      return refuse(here(), "has ", offsets_, " data_offsets, expected 2");
    where_ = Where::tensor;
    return true;
  }

  bool number_unsigned(std::uint64_t number) override {
    if (where_ == Where::shape) {
      std::vector<std::int64_t>& shape = header.find(name_)->second.shape;
      if (shape.size() == kMaxDimensions)
        return refuse(here(), "has more than ", kMaxDimensions, " dimensions");
      if (!std::in_range<std::int64_t>(number))
        return refuse(here(), "has a dimension of ", number, ", expected less than 2^63");
      shape.push_back(static_cast<std::int64_t>(number));
      return true;
    }
    if (where_ == Where::offsets) {
      Entry& entry = header.find(name_)->second;
      if (offsets_ == 2) return refuse(here(), "has more than 2 data_offsets");
      (offsets_ == 0 ? entry.begin : entry.end) = number;
      ++offsets_;
      return true;
    }
    return unexpected("a number");
  }

  bool number_integer(std::int64_t number) override {
    return unexpected("the number " + std::to_string(number));
  }
  bool number_float(double, const std::string& text) override {
    return unexpected("the number " + printable(text, 32));
  }
  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("a bool"); }

 private:
  enum class Where { outside, top, metadata, tensor, shape, offsets };

  std::string here() const { return "tensor " + in_quotes(name_) + ": "; }

  bool unexpected(std::string_view what) {
    switch (where_) {
      case Where::outside:
        return refuse("is ", what, ", expected an object");
      case Where::top:
        return refuse("member ", in_quotes(name_), " is ", what, ", expected an object");
      case Where::metadata:
        return refuse("member '__metadata__' holds ", what, ", expected strings only");
      case Where::tensor:
        return refuse(here(), in_quotes(field_), " is ", what,
                      ", expected dtype, shape and data_offsets only, each of its kind");
      case Where::shape:
        return refuse(here(), "shape holds ", what, ", expected whole numbers from 0");
      case Where::offsets:
        return refuse(here(), "data_offsets hold ", what, ", expected whole numbers from 0");
    }
    return refuse("holds ", what);
  }

  Where where_ = Where::outside;
  std::string name_;   // of the current member of the top object
  std::string field_;  // of the current member of a tensor
  bool has_metadata_ = false;
  bool has_type_ = false;
  bool has_shape_ = false;
  bool has_offsets_ = false;
  int offsets_ = 0;  // seen so far
};

class IndexEvents final : public Events {
 public:
  Index index;
  bool has_map = false;

  bool start_object(std::size_t) override {
    if (depth_ == 1 && key_ == "weight_map") {
      if (std::exchange(has_map, true)) return refuse("names 'weight_map' twice");
      in_map_ = true;
      return enter();
    }
    return in_map_ ? unexpected() : enter();
  }
  bool end_object() override {
    in_map_ = false;
    return leave();
  }
  bool start_array(std::size_t) override { return depth_ == 0 || in_map_ ? unexpected() : enter(); }
  bool end_array() override { return leave(); }
  bool key(std::string& key) override {
    key_ = std::move(key);
    return true;
  }

  bool string(std::string& shard) override {
    if (!in_map_) return other();
    if (!is_plain_file_name(shard)) {
      return refuse("tensor ", in_quotes(key_), " is in shard ", in_quotes(shard),
                    ", expected the plain name of a .safetensors file beside the index");
    }
    auto found = shard_number_.find(shard);
    if (found == shard_number_.end()) {
      if (index.shards.size() == kMaxShards)
        return refuse("names more than ", kMaxShards, " shards");
      found = shard_number_.emplace(shard, static_cast<std::uint32_t>(index.shards.size())).first;
      index.shards.push_back(shard);
    }
    if (!index.shard_of.emplace(key_, found->second).second)
      return refuse("names tensor ", in_quotes(key_), " twice");
    return true;
  }

  bool null() override { return other(); }
  bool boolean(bool) override { return other(); }
  bool number_integer(std::int64_t) override { return other(); }
  bool number_unsigned(std::uint64_t) override { return other(); }
  bool number_float(double, const std::string&) override { return other(); }

 private:
  static bool is_plain_file_name(std::string_view name) {
    constexpr std::string_view kSuffix = ".safetensors";
    return name.size() > kSuffix.size() && name.size() <= 255 && name.ends_with(kSuffix) &&
           name.front() != '.' && name.find_first_of(std::string_view("/\\\0", 3)) == name.npos;
  }

  bool enter() { return ++depth_ <= kMaxDepth || refuse("is nested deeper than ", kMaxDepth); }
  bool leave() {
    --depth_;
    return true;
  }
  bool other() {
    return depth_ == 0 || in_map_ || (depth_ == 1 && key_ == "weight_map") ? unexpected() : true;
  }
  bool unexpected() {
    if (depth_ == 0) return refuse("is no object");
    return refuse(in_map_ ? "member of weight_map " : "member ", in_quotes(key_), " is no ",
                  in_map_ ? "string" : "object");
  }

  std::map<std::string, std::uint32_t, std::less<>> shard_number_;
  std::string key_;
  int depth_ = 0;
  bool in_map_ = false;
};

// nlohmann throws only when memory is exhausted (sax_parse reports the rest as events); no exception may cross this
// library's API.
Status parse(std::string_view json, Events& events) {
  try {
    nlohmann::json::sax_parse(json.begin(), json.end(), &events);
    return events.status();
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::out_of_memory, "needs more memory than there is");
  } catch (const std::exception& error) {
    return fail(ErrorCode::malformed, "is no valid JSON: ", printable(error.what()));
  }
}

}  // namespace

Result<Header> parse_header(std::string_view json) {
  HeaderEvents events;
  RUNNEL_CHECK_OK(parse(json, events));
  return std::move(events.header);
}

Result<Index> parse_index(std::string_view json) {
  IndexEvents events;
  RUNNEL_CHECK_OK(parse(json, events));
  if (!events.has_map) return fail(ErrorCode::malformed, "lacks weight_map");
  return std::move(events.index);
}

}  // namespace runnel::safetensors
