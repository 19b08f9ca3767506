// SPDX-License-Identifier: Apache-2.0
// runnel inspect: what a model file holds. Nothing is loaded onto a device.
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "app/cli/command.h"
#include "app/cli/terminal.h"
#include "quant/formats.h"
#include "runtime/base/try.h"
#include "runtime/model/model_file.h"
#include "runtime/model/state_layout.h"
#include "runtime/model/weight_table.h"
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
};

Result<Facts> read(const std::string& path) {
  Facts facts;
  facts.path = path;
  RUNNEL_TRY(facts.file, GgufFile::open(path));
  RUNNEL_TRY(facts.model, ModelFile::from_gguf(facts.file));
  RUNNEL_TRY(facts.tokenizer, Tokenizer::from_gguf(*facts.file, facts.model.config.vocab_size));
  RUNNEL_TRY(facts.chat, chat_format_from_gguf(*facts.file));
  return facts;
}

std::string type_name(quant::BlockType type) {
  const auto traits = quant::block_traits(type);
  return traits ? std::string(traits->name) : "?";
}

std::uint64_t elements(const GgufTensor& tensor) {
  std::uint64_t n = 1;
  for (const std::int64_t d : tensor.shape) n *= static_cast<std::uint64_t>(d);
  return n;
}

Json config_json(const ModelConfig& c) {
  Json json = {{"vocab_size", c.vocab_size},
               {"hidden_size", c.hidden_size},
               {"num_layers", c.num_layers},
               {"num_heads", c.num_heads},
               {"num_kv_heads", c.num_kv_heads},
               {"head_k_dim", c.head_k_dim},
               {"head_v_dim", c.head_v_dim},
               {"intermediate_size", c.intermediate_size},
               {"num_memory_slots", c.num_memory_slots},
               {"num_sink_slots", c.num_sink_slots},
               {"num_window_slots", c.num_window_slots},
               {"sink_distance", c.sink_distance},
               {"rope_theta", c.rope_theta},
               {"scale", c.scale},
               {"gate_normalizer", c.gate_normalizer},
               {"gate_log_min", c.gate_log_min},
               {"norm_eps", c.norm_eps},
               {"g_norm_eps", c.g_norm_eps},
               {"feature_map", std::string(feature_map_name(c.feature_map))},
               {"value_activation", std::string(activation_name(c.value_activation))},
               {"output_activation", std::string(activation_name(c.output_activation))},
               {"output_norm", c.output_norm},
               {"conv_size", c.conv_size}};
  if (c.mixer == Mixer::slots) return json;
  json.update({{"decay", std::string(decay_name(c.decay))},
               {"decay_on_values", c.decay_on_values},
               {"gate_rank", c.gate_rank},
               {"gate_logit_min", c.gate_logit_min},
               {"gate_logit_max", c.gate_logit_max},
               {"lower_bound", c.lower_bound},
               {"complement_keys", c.complement_keys},
               {"rotary", c.rotary},
               {"feature_norm_q", c.feature_norm_q},
               {"feature_norm_k", c.feature_norm_k},
               {"normalizer", c.normalizer},
               {"output_gate", c.output_gate},
               {"output_norm_heads", c.output_norm_heads},
               {"conv_silu", c.conv_silu}});
  return json;
}

/// What a layer keeps from token to token, as StateLayout has it.
Json state_json(const ModelConfig& c) {
  const StateLayout s = StateLayout::of(c);
  return {{"layers", s.layers},
          {"kv_heads", s.kv_heads},
          {"rows", s.slots},
          {"key_columns", s.head_k_dim},
          {"value_columns", s.head_v_dim},
          {"more_numbers", s.head_extra},
          {"conv_taps", s.conv_size},
          {"bytes", s.total_floats() * sizeof(float)}};
}

/// The layout in words, for one kv head of one layer.
std::string state_text(const ModelConfig& c) {
  const StateLayout s = StateLayout::of(c);
  const auto shape = [&s](std::int32_t columns) {
    return std::to_string(s.slots) + " x " + std::to_string(columns);
  };
  std::string text;
  if (s.head_k_dim > 0) text += "keys " + shape(s.head_k_dim) + ", values ";
  text += shape(s.head_v_dim);
  if (c.normalizer) text += " (the last column the sum of the keys)";
  if (s.head_extra > 0) text += " and " + std::to_string(s.head_extra) + " more";
  text += " numbers in each of " + std::to_string(s.kv_heads) + " kv heads of each layer";
  if (s.conv_size > 0) {
    text += ", and the last " + std::to_string(s.conv_size) + " inputs of the convolutions";
  }
  return text;
}

std::string mixer_text(const ModelConfig& c) {
  if (c.mixer == Mixer::slots) return "gated slot attention";
  std::string text =
      c.architecture + ": gated recurrence, decay " + std::string(decay_name(c.decay));
  if (c.has_gate() && c.num_memory_slots == 0) {
    text += c.decay_on_values ? " along the values" : " along the keys";
  }
  if (c.num_memory_slots > 0) {
    text += " of " + std::to_string(c.num_memory_slots) + " slots, two passes";
  }
  return text;
}

struct Totals {
  std::uint64_t parameters = 0;
  std::uint64_t bytes = 0;
  std::map<std::string, std::pair<std::uint64_t, std::uint64_t>> types;  // name → tensors, bytes
};

Totals total(const GgufFile& file) {
  Totals t;
  for (const GgufTensor& tensor : file.tensors()) {
    t.parameters += elements(tensor);
    t.bytes += tensor.data.size();
    auto& [count, bytes] = t.types[type_name(tensor.type)];
    ++count;
    bytes += tensor.data.size();
  }
  return t;
}

std::string fingerprint(const Facts& f) {
  char text[20];
  std::snprintf(text, sizeof(text), "%016llx",
                static_cast<unsigned long long>(f.model.fingerprint));
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
                       {"bytes", tensor.data.size()}});
  }
  Json out = {{"file", f.path},
              {"name", f.model.config.name},
              {"architecture", f.model.config.architecture},
              {"mixer", std::string(mixer_name(f.model.config.mixer))},
              {"parameters", totals.parameters},
              {"weight_bytes", totals.bytes},
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
                   {"default_system_prompt", f.chat.default_system_prompt}};
    if (!f.chat.reason.empty()) out["chat"]["reason"] = f.chat.reason;
  } else {
    out["tokenizer"] = nullptr;
    out["chat"] = nullptr;
  }
  out["tensors"] = std::move(tensors);
  return out.dump(2) + "\n";
}

std::string row(const char* label, const std::string& value) {
  std::string line = label;
  line.resize(std::max<std::size_t>(13, line.size() + 1), ' ');
  return line + value + "\n";
}

std::string slots_text(const ModelConfig& c) {
  std::string text = std::to_string(c.num_memory_slots) + " memory";
  if (c.num_window_slots > 0) text += " + " + std::to_string(c.num_window_slots) + " window";
  if (c.num_sink_slots > 0) text += " + " + std::to_string(c.num_sink_slots) + " sink";
  return text + " in each of " + std::to_string(c.num_kv_heads) + " kv heads of each layer";
}

std::string as_text(const Facts& f) {
  const ModelConfig& c = f.model.config;
  const Totals totals = total(*f.file);
  const std::uint64_t state_bytes = StateLayout::of(c).total_floats() * sizeof(float);

  std::string text = row("name", c.name.empty() ? "(none)" : c.name);
  text += row("model", mixer_text(c) + ", " + format_count(totals.parameters) + " parameters");
  text +=
      row("layers", std::to_string(c.num_layers) + " of width " + std::to_string(c.hidden_size) +
                        ", SwiGLU " + std::to_string(c.intermediate_size));
  text += row("heads", std::to_string(c.num_heads) + " query, " + std::to_string(c.num_kv_heads) +
                           " kv; key " + std::to_string(c.head_k_dim) + ", value " +
                           std::to_string(c.head_v_dim));
  if (c.mixer == Mixer::slots) text += row("slots", slots_text(c));
  if (c.rotary) text += row("positions", "rotary base " + format_number(c.rope_theta, 0));
  if (c.num_positional_slots() > 0) {
    text +=
        row("positions", "rotary base " + format_number(c.rope_theta, 0) +
                             (c.num_sink_slots > 0
                                  ? ", sinks at most " + std::to_string(c.sink_distance) + " away"
                                  : ""));
  }
  text += row("activations",
              std::string("queries and keys ") + std::string(feature_map_name(c.feature_map)) +
                  ", values " + std::string(activation_name(c.value_activation)) + ", output " +
                  std::string(activation_name(c.output_activation)) +
                  (c.output_norm ? " and norm" : "") +
                  (c.output_norm_heads ? " of each head" : "") + (c.output_gate ? ", gated" : ""));
  if (c.conv_size > 0)
    text +=
        row("convolutions", "of " + std::to_string(c.conv_size) + " taps on queries, keys, values");
  text += row("vocabulary", format_count(static_cast<std::uint64_t>(c.vocab_size)) +
                                (f.model.weights.tied() ? ", head tied to the embeddings" : ""));
  text += row("weights", format_bytes(totals.bytes));
  for (const auto& [type, sum] : totals.types) {
    text += row("", type + ": " + std::to_string(sum.first) +
                        (sum.first == 1 ? " tensor, " : " tensors, ") + format_bytes(sum.second));
  }
  text += row("state", format_bytes(state_bytes) + " a session, whatever its length (" +
                           format_count(state_bytes) + " bytes)");
  if (c.mixer != Mixer::slots) text += row("", state_text(c));
  if (f.tokenizer != nullptr) {
    const auto model = f.file->get_string("tokenizer.ggml.model", "");
    text +=
        row("tokenizer", (model && *model == "gpt2" ? "byte-level BPE, " : "sentencepiece, ") +
                             format_count(static_cast<std::uint64_t>(f.tokenizer->vocab_size())) +
                             " entries");
    text += row("chat format",
                to_string(f.chat.style) + (f.chat.reason.empty() ? "" : ": " + f.chat.reason));
    if (!f.chat.default_system_prompt.empty()) text += row("system", f.chat.default_system_prompt);
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
    std::snprintf(line, sizeof(line), "  %-5s %16s %10s\n", type_name(tensor.type).c_str(),
                  shape.c_str(), format_bytes(tensor.data.size()).c_str());
    std::string name = tensor.name;
    name.resize(widest, ' ');
    text += name + line;
  }
  return text;
}

Result<int> inspect(const std::string& path, bool json) {
  RUNNEL_TRY(const Facts facts, read(path));
  return write_out(json ? as_json(facts) : as_text(facts)) ? kOk : kFailed;
}

}  // namespace

Command add_inspect(CLI::App& program) {
  struct Options {
    std::string file;
    bool json = false;
  };
  CLI::App* parser = program.add_subcommand("inspect", "Show what a model file holds");
  parser->footer("Example:\n  runnel inspect model.gguf");
  auto o = std::make_shared<Options>();
  parser->add_option("FILE", o->file, "Model file (GGUF)")->required();
  parser->add_flag("--json", o->json, "Print JSON");
  return {parser, [o] {
            const Result<int> code = inspect(o->file, o->json);
            return code ? *code : report(code.error());
          }};
}

}  // namespace runnel::cli
