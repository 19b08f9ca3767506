// SPDX-License-Identifier: Apache-2.0
// runnel inspect: what a model file holds. Nothing is loaded onto a device.
#include <algorithm>
#include <cstdio>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "app/cli/command.h"
#include "app/cli/model_options.h"
#include "app/cli/terminal.h"
#include "quant/formats.h"
#include "runtime/base/text.h"
#include "runtime/base/try.h"
#include "runtime/model/config_names.h"
#include "runtime/model/kept_weights.h"
#include "runtime/model/model_file.h"
#include "runtime/model/sampling_keys.h"
#include "runtime/model/state_layout.h"
#include "runtime/model/weight_table.h"
#include "runtime/model/window.h"
#include "runtime/text/chat_template.h"
#include "runtime/text/tokenizer.h"

namespace runnel::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Facts {
  std::string path;
  std::shared_ptr<const GgufFile> file;
  ModelFile model;
  std::shared_ptr<const Tokenizer> tokenizer;  // null: none
  ChatFormat chat;
  SamplingOptions sampling;
};

Status understand(Facts& facts, std::optional<std::int64_t> window) {
  RUNNEL_TRY(facts.model, ModelFile::from_gguf(facts.file));
  RUNNEL_CHECK_OK(choose_window(facts.model, window));
  RUNNEL_TRY(facts.tokenizer, Tokenizer::from_gguf(*facts.file, facts.model.config.vocab_size));
  RUNNEL_TRY(facts.chat, chat_format_from_gguf(*facts.file));
  RUNNEL_TRY(facts.sampling, sampling_from_gguf(*facts.file));
  return {};
}

Result<Facts> read(const std::string& path, std::optional<std::int64_t> window) {
  Facts facts;
  facts.path = path;
  RUNNEL_TRY(facts.file, GgufFile::open(path));
  const Status understood = understand(facts, window);
  if (!understood) return of_file(understood.error(), path);
  return facts;
}

std::string type_name(quant::BlockType type) { return std::string(quant::format_of(type).name); }

std::uint64_t elements(const GgufTensor& tensor) {
  std::uint64_t n = 1;
  for (const std::int64_t d : tensor.shape) n *= static_cast<std::uint64_t>(d);
  return n;
}

/// The keys that describe the computation, without their prefix: a value, or one per layer where layers differ.
Json config_json(const ModelConfig& c) {
  const std::string own = c.architecture + ".";
  Json json = Json::object();
  const auto put = [&json](const std::string& name, const auto& value) { json[name] = value; };
  for (const auto& [key, value] : config_keys(c)) {
    if (!key.starts_with("gsa.") && !key.starts_with(own)) continue;
    const std::string name = key.substr(key.find('.') + 1);
    if (const auto* array = std::get_if<GgufArray>(&value)) {
      std::visit([&](const auto& elements) { put(name, elements); }, *array);
    } else {
      std::visit(
          [&]<class T>(const T& scalar) {
            if constexpr (!std::is_same_v<T, GgufArray>) put(name, scalar);
          },
          value);
    }
  }
  return json;
}

/// Layers whose blocks are alike, by the first of them.
struct Block {
  const LayerSpec* layer;
  std::vector<std::int32_t> indices;
};

std::vector<Block> blocks_of(const ModelConfig& c) {
  std::vector<Block> blocks;
  for (const LayerSpec& layer : c.layers) {
    const auto known = std::find_if(blocks.begin(), blocks.end(),
                                    [&](const Block& b) { return alike(*b.layer, layer); });
    Block& block = known == blocks.end() ? blocks.emplace_back(Block{&layer, {}}) : *known;
    block.indices.push_back(layer.index);
  }
  return blocks;
}

/// What a layer keeps from token to token, as LayerState has it.
Json layer_state_json(const LayerSpec& layer) {
  const LayerState s = LayerState::of(layer);
  return {{"kv_heads", s.kv_heads},       {"rows", s.slots},
          {"key_columns", s.head_k_dim},  {"value_columns", s.head_v_dim},
          {"more_numbers", s.head_extra}, {"conv_taps", s.conv_size},
          {"mixer_shift", s.mixer_shift}, {"channel_shift", s.channel_shift}};
}

Json state_json(const ModelConfig& c) {
  const std::vector<Block> blocks = blocks_of(c);
  Json json = {{"layers", c.num_layers()},
               {"bytes", StateLayout::of(c).total_floats() * sizeof(float)}};
  if (blocks.size() == 1) {
    json.update(layer_state_json(c.layers.front()));
    return json;
  }
  for (const LayerSpec& layer : c.layers) json["by_layer"].push_back(layer_state_json(layer));
  return json;
}

/// The layout in words, for one kv head of one layer.
std::string state_text(const LayerSpec& c) {
  const LayerState s = LayerState::of(c);
  const auto shape = [&s](std::int32_t columns) {
    return std::to_string(s.slots) + " x " + std::to_string(columns);
  };
  std::string text;
  if (s.head_k_dim > 0) text += "keys " + shape(s.head_k_dim) + ", values ";
  text += shape(s.head_v_dim);
  if (c.value_columns() > c.head_v_dim) text += " (the last column the sum of the keys)";
  if (s.head_extra > 0) text += " and " + std::to_string(s.head_extra) + " more";
  text += " numbers in each of " + std::to_string(s.kv_heads) + " kv heads of each layer";
  if (s.conv_size > 0) {
    text += ", and the last " + std::to_string(s.conv_size) + " inputs of the convolutions";
  }
  if (s.mixer_shift > 0) text += ", and the last input of the mixer";
  if (s.channel_shift > 0) text += " and of the channel mix";
  return text;
}

std::string mixer_text(const LayerSpec& layer) {
  switch (layer.kind()) {
    case Mixer::slots:
      return "gated slot attention";
    case Mixer::recurrence:
      break;
  }
  const RecurrenceSpec& c = layer.recurrence();
  std::string text = "gated recurrence, decay " + std::string(decay_name(c.decay));
  if (c.has_gate() && c.num_memory_slots == 0) {
    text += c.decay_on_values ? " along the values" : " along the keys";
  }
  switch (c.removal) {
    case Removal::none:
      break;
    case Removal::delta:
      text += ", delta rule";
      break;
    case Removal::own_key:
      text += ", delta rule with keys of its own";
      break;
  }
  if (c.num_memory_slots > 0) {
    text += " of " + std::to_string(c.num_memory_slots) + " slots, two passes";
  }
  return text;
}

std::string channel_mix_text(const LayerSpec& c) {
  switch (c.channel_mix) {
    case ChannelMix::swiglu:
      return ", SwiGLU " + std::to_string(c.intermediate_size);
    case ChannelMix::squared_relu:
      return ", squared ReLU " + std::to_string(c.intermediate_size);
    case ChannelMix::none:
      return ", no channel mix";
  }
  return "";
}

/// Tensors of one type.
struct TypeTotal {
  std::uint64_t tensors = 0;
  std::uint64_t bytes = 0;
  std::uint64_t kept_bytes = 0;  // in memory
  std::string kept_as;
};

struct Totals {
  std::uint64_t parameters = 0;
  std::uint64_t bytes = 0;
  std::uint64_t kept_bytes = 0;
  std::map<std::string, TypeTotal> types;  // by name
};

std::string kept_name(const GgufTensor& tensor) { return type_name(quant::kept_as(tensor.type)); }

/// "; in memory wide, 12.3 MB" where that is another type.
std::string kept_text(const std::string& type, const std::string& kept, std::uint64_t bytes) {
  return kept == type ? "" : "; in memory " + kept + ", " + format_bytes(bytes);
}

Totals total(const GgufFile& file) {
  Totals t;
  for (const GgufTensor& tensor : file.tensors()) {
    t.parameters += elements(tensor);
    t.bytes += tensor.data.size();
    t.kept_bytes += kept_bytes(tensor);
    TypeTotal& of_type = t.types[type_name(tensor.type)];
    ++of_type.tensors;
    of_type.bytes += tensor.data.size();
    of_type.kept_bytes += kept_bytes(tensor);
    of_type.kept_as = kept_name(tensor);
  }
  return t;
}

std::string fingerprint(const Facts& f) {
  char text[20];
  std::snprintf(text, sizeof(text), "%016llx",
                static_cast<unsigned long long>(f.model.fingerprint));
  return text;
}

/// How chats draw from the model unless told otherwise, by the names of the file's keys: the temperature and what is not
/// off.
Json sampling_json(const SamplingOptions& s) {
  const SamplingOptions off;
  Json json;
  const auto put = [&](std::string_view key, auto SamplingOptions::*member, bool always = false) {
    if (always || s.*member != off.*member)
      json[std::string(key.substr(kSamplingPrefix.size()))] = s.*member;
  };
  for (const SamplingFloat& k : kSamplingFloats)
    put(k.key, k.member, k.member == &SamplingOptions::temperature);
  for (const SamplingInt& k : kSamplingInts) put(k.key, k.member);
  put(kSamplingBreakers, &SamplingOptions::dry_breakers);
  return json;
}

/// The same in a line: "temp 0.3, min_p 0.1, …".
std::string sampling_text(const SamplingOptions& sampling) {
  std::string text;
  const Json json = sampling_json(sampling);
  for (const auto& [name, value] : json.items()) {
    std::ostringstream shown;  // as many digits as a float has
    if (value.is_number_float()) {
      shown << value.get<float>();
    } else {
      shown << value.dump();
    }
    text += (text.empty() ? "" : ", ") + name + " " + shown.str();
  }
  return text;
}

std::string as_json(const Facts& f) {
  const Totals totals = total(*f.file);
  const std::uint64_t state_bytes = StateLayout::of(f.model.config).total_floats() * sizeof(float);
  Json tensors = Json::array();
  for (const GgufTensor& tensor : f.file->tensors()) {
    tensors.push_back({{"name", tensor.name},
                       {"type", type_name(tensor.type)},
                       {"shape", tensor.shape},
                       {"bytes", tensor.data.size()},
                       {"memory_type", kept_name(tensor)},
                       {"memory_bytes", kept_bytes(tensor)}});
  }
  Json out = {{"file", f.path},
              {"files", f.file->num_parts()},
              {"name", f.model.config.name},
              {"architecture", f.model.config.architecture},
              {"mixer", std::string(mixer_name(f.model.config.layers.front().kind()))},
              {"parameters", totals.parameters},
              {"weight_bytes", totals.bytes},
              {"memory_weight_bytes", totals.kept_bytes},
              {"state_bytes", state_bytes},
              {"state", state_json(f.model.config)},
              {"fingerprint", fingerprint(f)},
              {"tied_embeddings", f.model.weights.tied()},
              {"config", config_json(f.model.config)}};
  if (f.tokenizer != nullptr) {
    const auto model = f.file->get_string("tokenizer.ggml.model", "");
    out["tokenizer"] = {{"model", model ? *model : ""},
                        {"entries", f.tokenizer->vocab_size()},
                        {"begin_token", f.tokenizer->begin_token()}};
    out["chat"] = {{"style", to_string(f.chat.style)},
                   {"default_system_prompt", f.chat.default_system_prompt},
                   {"sampling", sampling_json(f.sampling)}};
    if (!f.chat.reason.empty()) out["chat"]["reason"] = f.chat.reason;
  } else {
    out["tokenizer"] = nullptr;
    out["chat"] = nullptr;
  }
  out["tensors"] = std::move(tensors);
  return out.dump(2) + "\n";
}

/// The kind of tokenizer, for people.
std::string tokenizer_text(const GgufFile& file) {
  const auto model = file.get_string("tokenizer.ggml.model", "");
  if (model && *model == "gpt2") return "byte-level BPE";
  return model && *model == "rwkv" ? "RWKV World" : "sentencepiece";
}

/// A text of the file, whole and safe for a terminal.
std::string shown(const std::string& text) {
  return printable(text, std::numeric_limits<std::size_t>::max());
}

std::string row(const char* label, const std::string& value) {
  std::string line = label;
  line.resize(std::max<std::size_t>(13, line.size() + 1), ' ');
  return line + value + "\n";
}

std::string slots_text(const LayerSpec& layer) {
  const SlotSpec& c = layer.slots();
  std::string text = std::to_string(c.num_memory_slots) + " memory";
  if (c.num_window_slots > 0) text += " + " + std::to_string(c.num_window_slots) + " window";
  if (c.num_sink_slots > 0) text += " + " + std::to_string(c.num_sink_slots) + " sink";
  return text + " in each of " + std::to_string(layer.num_kv_heads) + " kv heads of each layer";
}

std::string positions_text(const LayerSpec& c) {
  std::string text = "rotary base " + format_number(c.common().rope_theta, 0);
  if (c.kind() == Mixer::slots && c.slots().num_sink_slots > 0) {
    text += ", sinks at most " + std::to_string(c.slots().sink_distance) + " away";
  }
  return text;
}

std::string activations_text(const LayerSpec& c) {
  const Activation values =
      c.kind() == Mixer::slots ? c.slots().value_activation : c.recurrence().value_activation;
  std::string text = "queries and keys " + std::string(feature_map_name(c.common().feature_map)) +
                     ", values " + std::string(activation_name(values)) + ", output " +
                     std::string(activation_name(c.output_activation));
  switch (c.output_norm) {
    case OutputNorm::none:
      break;
    case OutputNorm::channels:
      text += " and norm";
      break;
    case OutputNorm::heads:
      text += " and norm of each head";
      break;
    case OutputNorm::groups:
      text += " and LayerNorm of each head";
      break;
  }
  return text + (c.output_gate ? ", gated" : "");
}

/// The rows about layers of one kind.
std::string block_text(const LayerSpec& c) {
  std::string text =
      row("heads", std::to_string(c.num_heads) + " query, " + std::to_string(c.num_kv_heads) +
                       " kv; key " + std::to_string(c.head_k_dim) + ", value " +
                       std::to_string(c.head_v_dim));
  if (c.kind() == Mixer::slots) text += row("slots", slots_text(c));
  if (c.rotates()) text += row("positions", positions_text(c));
  text += row("activations", activations_text(c));
  if (c.norm.kind == Norm::layer) text += row("norms", "LayerNorm with bias");
  if (c.qkv_bias) text += row("biases", "of queries, keys, values");
  if (c.conv_size > 0)
    text +=
        row("convolutions", "of " + std::to_string(c.conv_size) + " taps on queries, keys, values");
  return text;
}

std::string layers_text(const ModelConfig& c, const Block& block) {
  std::string text = std::to_string(block.indices.size());
  if (static_cast<std::int32_t>(block.indices.size()) != c.num_layers()) {
    text += " of " + std::to_string(c.num_layers()) + " (";
    for (const std::int32_t i : block.indices) {
      text += (i == block.indices.front() ? "" : ", ") + std::to_string(i);
    }
    text += "): " + mixer_text(*block.layer);
  }
  return text + " of width " + std::to_string(c.hidden_size) + channel_mix_text(*block.layer);
}

std::string model_text(const ModelConfig& c, const std::vector<Block>& blocks) {
  if (blocks.size() > 1)
    return c.architecture + ": layers of " + std::to_string(blocks.size()) + " kinds";
  const LayerSpec& layer = c.layers.front();
  return (layer.kind() == Mixer::slots ? "" : c.architecture + ": ") + mixer_text(layer);
}

std::string as_text(const Facts& f) {
  const ModelConfig& c = f.model.config;
  const Totals totals = total(*f.file);
  const std::uint64_t state_bytes = StateLayout::of(c).total_floats() * sizeof(float);
  const std::vector<Block> blocks = blocks_of(c);

  std::string text = row("name", c.name.empty() ? "(none)" : shown(c.name));
  text +=
      row("model", model_text(c, blocks) + ", " + format_count(totals.parameters) + " parameters");
  for (const Block& block : blocks) {
    text += row("layers", layers_text(c, block)) + block_text(*block.layer);
  }
  text += row("vocabulary", format_count(static_cast<std::uint64_t>(c.vocab_size)) +
                                (f.model.weights.tied() ? ", head tied to the embeddings" : ""));
  const std::size_t files = f.file->num_parts();
  text += row(
      "weights",
      format_bytes(totals.bytes) + (files > 1 ? " in " + std::to_string(files) + " files" : "") +
          (totals.kept_bytes != totals.bytes ? ", " + format_bytes(totals.kept_bytes) + " in memory"
                                             : ""));
  for (const auto& [type, sum] : totals.types) {
    text += row("", type + ": " + std::to_string(sum.tensors) +
                        (sum.tensors == 1 ? " tensor, " : " tensors, ") + format_bytes(sum.bytes) +
                        kept_text(type, sum.kept_as, sum.kept_bytes));
  }
  text += row("state", format_bytes(state_bytes) + " a session, whatever its length (" +
                           format_count(state_bytes) + " bytes)");
  for (const Block& block : blocks) {
    if (block.layer->kind() != Mixer::slots) text += row("", state_text(*block.layer));
  }
  if (f.tokenizer != nullptr) {
    text +=
        row("tokenizer", tokenizer_text(*f.file) + ", " +
                             format_count(static_cast<std::uint64_t>(f.tokenizer->vocab_size())) +
                             " entries");
    text += row("chat format",
                to_string(f.chat.style) + (f.chat.reason.empty() ? "" : ": " + f.chat.reason));
    if (!f.chat.default_system_prompt.empty())
      text += row("system", shown(f.chat.default_system_prompt));
    text += row("sampling", sampling_text(f.sampling));
  } else {
    text += row("tokenizer", "none: takes token ids only");
  }
  text += row("fingerprint", fingerprint(f));

  std::size_t widest = 0;
  for (const GgufTensor& tensor : f.file->tensors()) widest = std::max(widest, tensor.name.size());
  text += "\n";
  for (const GgufTensor& tensor : f.file->tensors()) {
    std::string shape;
    for (const std::int64_t d : tensor.shape)
      shape += (shape.empty() ? "" : " x ") + std::to_string(d);
    char line[96];
    std::snprintf(line, sizeof(line), "  %-6s %16s %10s", type_name(tensor.type).c_str(),
                  shape.c_str(), format_bytes(tensor.data.size()).c_str());
    std::string name = tensor.name;
    name.resize(widest, ' ');
    text += name + line + kept_text(type_name(tensor.type), kept_name(tensor), kept_bytes(tensor)) +
            "\n";
  }
  return text;
}

/// A conversation as the model reads it, and whether turns stay as they were read when others follow.
Result<std::string> chat_example(const Facts& facts, const std::string& chat_template) {
  if (facts.tokenizer == nullptr)
    return fail(ErrorCode::unsupported, facts.path, ": has no tokenizer, so it cannot chat");
  ChatFormat format = facts.chat;
  if (!chat_template.empty()) {
    RUNNEL_TRY(format, chat_format_named(chat_template, *facts.file));
  }
  std::vector<ChatMessage> talk = {
      {"system", "You answer briefly."},
      {"user", "What is a river?"},
      {"assistant", "<think>\nThey ask for a word.\n</think>\n\nWater that runs to the sea."},
      {"user", "And a lake?"}};
  Result<MarkedText> text = lay_out_chat(format, talk, true);
  if (!text) {
    talk.erase(talk.begin());  // some have no system prompt
    const Error with_system = std::move(text).error();
    text = lay_out_chat(format, talk, true);
    if (!text) return with_system;
  }
  // If a model's thoughts are told apart, its answer is what follows them.
  RUNNEL_TRY(const AnswerForm form, answer_form(format, Thinking::as_trained));
  if (form.thinks) talk[talk.size() - 2].content = "Water that runs to the sea.";
  RUNNEL_TRY(const ChatReading reading,
             read_chat(*facts.tokenizer, format, talk,
                       {.messages = talk.size() - 1, .closed = true, .unread = {}}));
  const bool stays = reading.kept + 1 == talk.size();
  const ToolFormat tools = tool_format(format);
  return bytes_of(*text) + "\n\n" + row("chat format", to_string(format.style)) +
         row("tools", tools.style == ToolStyle::none
                          ? "none: " + tools.reason
                          : "calls are " + std::string(to_string(tools.style)) + ": " +
                                tools.begin + "NAME" + tools.middle + "{…}" + tools.end) +
         row("turns", stays ? "stay as they were read"
                            : "are laid out anew when others follow, here from message " +
                                  std::to_string(reading.kept + 1) +
                                  " on: conversations are read again from there");
}

Result<int> inspect(const ModelChoice& choice, bool json, bool chat) {
  RUNNEL_TRY(const Facts facts, read(choice.file, choice.window));
  if (chat) {
    RUNNEL_TRY(const std::string example, chat_example(facts, choice.chat_template));
    return write_out(example) ? kOk : kFailed;
  }
  return write_out(json ? as_json(facts) : as_text(facts)) ? kOk : kFailed;
}

}  // namespace

Command add_inspect(CLI::App& program) {
  struct Options {
    ModelChoice model;
    bool json = false;
    bool chat = false;
  };
  CLI::App* parser = program.add_subcommand("inspect", "Show what a model file holds");
  parser->footer("Example:\n  runnel inspect model.gguf");
  auto o = std::make_shared<Options>();
  parser->add_option("FILE", o->model.file, "Model file (GGUF)")->required();
  add_window_option(*parser, o->model);
  CLI::Option* json = parser->add_flag("--json", o->json, "Print JSON");
  CLI::Option* chat =
      parser->add_flag("--chat", o->chat, "Print an example conversation as the model reads it");
  chat->excludes(json);
  add_chat_template_option(*parser, o->model);
  parser->get_option("--chat-template")->needs(chat);
  return {parser, [o] {
            const Result<int> code = inspect(o->model, o->json, o->chat);
            return code ? *code : report(code.error());
          }};
}

}  // namespace runnel::cli
