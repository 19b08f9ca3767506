// SPDX-License-Identifier: Apache-2.0
// Commands that report: inspect, bench, perplexity, devices, snapshot, for people and as JSON.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "runnel/session.h"
#include "runtime/io/snapshot_data.h"
#include "runtime/model/model_impl.h"
#include "tests/cli/program.h"
#include "tests/support/chat_model.h"
#include "tests/support/initial_state.h"
#include "tests/support/loaded_model.h"
#include "tests/support/mixes.h"
#include "tests/support/model_files.h"

namespace runnel::test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using Json = nlohmann::json;

Json json_of(std::vector<std::string> arguments) {
  arguments.emplace_back("--json");
  const Outcome o = run_program(arguments);
  EXPECT_EQ(o.code, 0) << o.err;
  return Json::parse(o.out, nullptr, false);
}

TEST(Inspect, SaysConfigurationTensorsStateAndTokenizer) {
  const Json j = json_of({"inspect", chat_model()});
  EXPECT_EQ(j["config"]["vocab_size"], 264);
  EXPECT_EQ(j["tokenizer"]["entries"], 259);
  EXPECT_EQ(j["chat"]["style"], "chatml");
  EXPECT_EQ(j["chat"]["default_system_prompt"], "Be brief.");
  std::uint64_t bytes = 0;
  for (const Json& tensor : j["tensors"]) bytes += tensor["bytes"].get<std::uint64_t>();
  EXPECT_EQ(j["weight_bytes"], bytes);
  const auto model = *Model::load(chat_model());
  EXPECT_EQ(j["state_bytes"], engine_of(*model).layout().total_floats() * sizeof(float));
  EXPECT_EQ(j["parameters"], model->info().parameters);

  const Outcome o = run_program({"inspect", chat_model()});
  EXPECT_EQ(o.code, 0);
  EXPECT_THAT(o.out, HasSubstr("model.embeddings.weight"));
  EXPECT_THAT(o.out, HasSubstr("tiny"));
  EXPECT_THAT(o.out, testing::ContainsRegex("sampling +.*temp 0\\.[0-9]"));
}

Outcome example_chat(const std::string& chat_template) {
  return run_program({"inspect", chat_model(), "--chat", "--chat-template", chat_template});
}

std::string template_file(const std::string& source) {
  const auto file = scratch() / "example.jinja";
  std::ofstream(file) << source;
  return file.string();
}

TEST(InspectChat, RendersAnExampleAsTheModelReadsIt) {
  const Outcome o = run_program({"inspect", chat_model(), "--chat"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.out, HasSubstr("<|im_start|>user\nWhat is a river?<|im_end|>\n"));
  EXPECT_THAT(o.out, HasSubstr("stay as they were read"));
}

TEST(InspectChat, TakesAnotherFormatByNameAndATemplateFromAFile) {
  EXPECT_THAT(example_chat("plain").out, HasSubstr("User: And a lake?\nAssistant:"));
  const Outcome o = example_chat(template_file(
      "{% for m in messages %}<{{ m.content if loop.last else '(said)' }}>{% endfor %}"));
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.out, HasSubstr("<(said)><And a lake?>"));
  EXPECT_THAT(o.out, HasSubstr("laid out anew when others follow, here from message 1 on"));
}

TEST(InspectChat, SaysWhatIsWrongWithATemplate) {
  const std::pair<std::string, const char*> cases[] = {
      {"nosuch", "none of chatml, plain and rwkv, so a file): nosuch: cannot open"},
      {template_file("{{ raise_exception('No.') }}"), "chat template, line 1: No."}};
  for (const auto& [chosen, sentence] : cases) {
    const Outcome o = example_chat(chosen);
    EXPECT_EQ(o.code, 1);
    EXPECT_THAT(o.err, HasSubstr(sentence));
  }
  const Outcome endless =
      example_chat(template_file("{% for a in range(99999999) %}x{% endfor %}"));
  EXPECT_EQ(endless.code, 1);
  EXPECT_THAT(endless.err, HasSubstr("writes or copies more than"));
}

TEST(Inspect, SaysWhatEachTensorTakesInMemory) {
  const Mix& mix = llama_mixes().front();  // Q2_K: in these rows iq4_nl and q5_0
  const std::string file = (scratch() / "mixed.gguf").string();
  write_gguf(make_mixed_model(small_config(), mix, true, 3), file);
  const Json j = json_of({"inspect", file});
  std::uint64_t kept = 0;
  bool repacked = false;
  for (const Json& tensor : j["tensors"]) {
    const auto bytes = tensor["bytes"].get<std::uint64_t>();
    const auto in_memory = tensor["memory_bytes"].get<std::uint64_t>();
    kept += in_memory;
    if (tensor["type"] == "iq4_nl") {
      repacked = true;
      EXPECT_EQ(tensor["memory_type"], "q8_0");
      EXPECT_EQ(in_memory * 18, bytes * 34);
    } else {
      EXPECT_EQ(tensor["memory_type"], tensor["type"]);
      EXPECT_EQ(in_memory, bytes);
    }
  }
  EXPECT_TRUE(repacked);
  EXPECT_EQ(j["memory_weight_bytes"], kept);
  const std::string text = run_program({"inspect", file}).out;
  EXPECT_THAT(text, testing::ContainsRegex("weights +.* in memory"));
  EXPECT_THAT(text, testing::ContainsRegex("iq4_nl: .*; in memory q8_0, "));
}

TEST(Inspect, NamesTheKindOfTokenizer) {
  const std::string world = (scratch() / "world-to-inspect.gguf").string();
  write_world_chat_model(world);
  EXPECT_THAT(run_program({"inspect", world}).out, HasSubstr("tokenizer    RWKV World, "));
  EXPECT_THAT(run_program({"inspect", chat_model()}).out,
              HasSubstr("tokenizer    byte-level BPE, 259 entries"));
}

// Its one merge makes no token.
TEST(Inspect, OpensTheVocabularyOfAConvertersDummy) {
  const std::string file = (tiny_checkpoint("rnn") / "arwkv7" / "model.gguf").string();
  EXPECT_EQ(json_of({"inspect", file})["tokenizer"]["entries"], 163);
  const Outcome ids = run_program({"run", file, "--tokens", "1,2,3", "-n", "4", "--ignore-end"});
  EXPECT_EQ(ids.code, 0) << ids.err;
  EXPECT_EQ(std::count(ids.out.begin(), ids.out.end(), ','), 3) << ids.out;
  const Outcome text = run_program({"run", file, "-p", "Hi!\"", "-n", "4"});
  EXPECT_EQ(text.code, 0) << text.err;
}

TEST(Inspect, TextsOfTheFileAreSafeForATerminal) {
  const std::string file = (scratch() / "escape.gguf").string();
  write_chat_model(file, [](GgufWriter& writer) {
    writer.set("general.name", std::string("\x1b[31mred"));
    writer.set("gsa.chat.default_system_prompt", std::string("\x1b[2J"));
  });
  const Outcome o = run_program({"inspect", file});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.out, HasSubstr("name         \\x1b[31mred\n"));
  EXPECT_THAT(o.out, HasSubstr("system       \\x1b[2J\n"));
  EXPECT_EQ(o.out.find('\x1b'), std::string::npos);
  const Outcome timed = run_program({"bench", file, "-p", "1", "-n", "1", "-r", "1"});
  EXPECT_THAT(timed.out, HasSubstr("model    \\x1b[31mred, "));
}

TEST(Inspect, WhatIsWrongWithAFileIsSaidOfItInEveryCommand) {
  const std::string tokenizer = (scratch() / "no-tokenizer.gguf").string();
  write_chat_model(tokenizer, [](GgufWriter& writer) {
    writer.set("tokenizer.ggml.pre", std::string("\x1b[31mred"));
  });
  const std::string key = (scratch() / "no-key.gguf").string();
  write_chat_model(key, [](GgufWriter& writer) { writer.set("gsa.of_tomorrow", true); });
  const std::string cut = (scratch() / "cut.gguf").string();
  std::ofstream(cut) << "GGUF";
  for (const std::string& file : {tokenizer, key, cut}) {
    for (const std::vector<std::string>& command : {std::vector<std::string>{"inspect", file},
                                                    {"run", file, "-p", "x"},
                                                    {"bench", file, "-p", "1", "-n", "1"}}) {
      const Outcome o = run_program(command);
      EXPECT_EQ(o.code, 1) << command[0];
      EXPECT_THAT(o.err, testing::StartsWith("runnel: " + file + ": ")) << command[0];
      EXPECT_EQ(o.err.find(file), o.err.rfind(file)) << "named twice: " << o.err;
      EXPECT_EQ(o.err.find('\x1b'), std::string::npos);
    }
  }
}

TEST(Inspect, AModelWithoutTokenizerSaysSo) {
  EXPECT_TRUE(json_of({"inspect", bare_model()})["tokenizer"].is_null());
  EXPECT_THAT(run_program({"inspect", bare_model()}).out, HasSubstr("token ids only"));
}

TEST(Inspect, NamesMixerStateAndBytesOfTheFamily) {
  struct Member {
    const char* checkpoint;
    const char* mixer;
    const char* state;  // of one kv head
  };
  const Member members[] = {
      {"gla", "gla: gated recurrence, decay log_sigmoid along the keys", "16 x 32 numbers"},
      {"gla_gqa", "gla: gated recurrence, decay log_sigmoid along the keys",
       "in each of 2 kv heads"},
      {"hgrn2_conv", "hgrn2: gated recurrence, decay log_sigmoid along the keys",
       "the last 4 inputs of the convolutions"},
      {"retnet", "retnet: gated recurrence, decay fixed", "16 x 32 numbers"},
      {"linear_attn", "linear_attn: gated recurrence, decay none", "32 x 32 numbers"},
      {"linear_attn_norm", "linear_attn: gated recurrence, decay none",
       "16 x 17 (the last column the sum of the keys)"},
      {"abc", "abc: gated recurrence, decay running_sum of 16 slots",
       "keys 16 x 16, values 16 x 32 and 16 more numbers"},
      {"regla", "regla: gated recurrence, decay refined along the values",
       "16 x 32 and 1 more numbers"},
      {"regla_key", "regla: gated recurrence, decay refined along the keys", "and 1 more numbers"},
  };
  for (const Member& m : members) {
    const std::string file = (scratch() / (std::string(m.checkpoint) + ".gguf")).string();
    const auto stored = convert_tensors(tiny_checkpoint("siblings") / m.checkpoint, file, {});
    ASSERT_TRUE(stored) << stored.error().message;
    const Json j = json_of({"inspect", file});
    EXPECT_EQ(j["mixer"], "recurrence") << m.checkpoint;
    const Json& s = j["state"];
    const auto number = [&s](const char* key) { return s[key].get<std::uint64_t>(); };
    const std::uint64_t of_head =
        number("rows") * (number("key_columns") + number("value_columns")) + number("more_numbers");
    const Json& c = j["config"];
    const std::uint64_t channels =
        c["num_heads"].get<std::uint64_t>() * c["head_k_dim"].get<std::uint64_t>() +
        c["num_kv_heads"].get<std::uint64_t>() *
            (c["head_k_dim"].get<std::uint64_t>() + c["head_v_dim"].get<std::uint64_t>());
    const std::uint64_t numbers =
        number("layers") * (number("kv_heads") * of_head + number("conv_taps") * channels);
    EXPECT_EQ(number("bytes"), numbers * sizeof(float)) << m.checkpoint;
    EXPECT_EQ(j["state_bytes"], s["bytes"]) << m.checkpoint;
    const Outcome o = run_program({"inspect", file});
    EXPECT_EQ(o.code, 0) << o.err;
    EXPECT_THAT(o.out, HasSubstr(m.mixer));
    EXPECT_THAT(o.out, HasSubstr(m.state));
    EXPECT_THAT(o.out, HasSubstr("a session, whatever its length"));
  }
}

TEST(Inspect, SaysTheStateOfASmallerWindow) {
  const Json whole = json_of({"inspect", chat_model()});
  const Json j = json_of({"inspect", chat_model(), "--window", "2"});
  EXPECT_EQ(j["config"]["num_window_slots"], 2);
  EXPECT_LT(j["state_bytes"], whole["state_bytes"]);
  EXPECT_NE(j["fingerprint"], whole["fingerprint"]);
  EXPECT_NE(run_program({"inspect", chat_model(), "--window", "99"}).code, 0);
}

TEST(Bench, ReportsEachTestAtEachDepth) {
  const Json j = json_of({"bench", bare_model(), "-p", "16", "-n", "4", "--depth", "0", "--depth",
                          "40", "-r", "2", "-t", "1"});
  ASSERT_EQ(j["results"].size(), 4U);
  EXPECT_EQ(j["results"][0]["test"], "prefill");
  EXPECT_EQ(j["results"][0]["tokens"], 16);
  EXPECT_EQ(j["results"][1]["test"], "decode");
  EXPECT_EQ(j["results"][3]["depth"], 40);
  for (const Json& result : j["results"]) {
    EXPECT_GT(result["tokens_per_second"].get<double>(), 0.0);
    EXPECT_EQ(result["repetitions"].size(), 2U);
  }
  EXPECT_GT(j["state_bytes"].get<std::uint64_t>(), 0U);
  EXPECT_GT(j["peak_memory_bytes"].get<std::uint64_t>(), 0U);
  EXPECT_EQ(j["threads"], 1);
  EXPECT_GT(j["read_bandwidth_bytes_per_second"].get<double>(), 0.0);
  EXPECT_GT(j["int8_operations_per_second"].get<double>(), 0.0);
  EXPECT_GT(j["results"][0]["int8_share"].get<double>(), 0.0);
  EXPECT_GT(j["results"][1]["bandwidth_share"].get<double>(), 0.0);
}

TEST(Bench, SaysWhetherTokensAreDrawnAheadAndWhyNot) {
  const Json j = json_of({"bench", bare_model(), "-p", "0", "-n", "2", "-r", "1", "-t", "1",
                          "--device", "cpu", "--mirostat", "2"});
  ASSERT_EQ(j["results"].size(), 2U) << j;
  EXPECT_EQ(j["results"][1]["test"], "sampled");
  EXPECT_EQ(j["results"][1]["drawn_ahead"], false);
  EXPECT_EQ(j["results"][1]["not_drawn_ahead"], "cpu draws on the host");
}

// From the library's own logits, straight from the definition.
TEST(Perplexity, IsTheMeanOverAllTokensButTheFirst) {
  const std::string file = (scratch() / "text.txt").string();
  std::string text;
  for (int i = 0; i < 25; ++i)
    text += "The river runs " + std::to_string(i) + " miles.<|im_end|>\n";
  std::ofstream(file) << text;
  const Json j = json_of({"perplexity", chat_model(), "--text", file, "-t", "1"});

  const auto model = *Model::load(chat_model(), {.device = "auto", .threads = 1, .progress = {}});
  const std::vector<TokenId> tokens = *model->encode(text, true);
  Session session = *Session::create(model);
  const std::vector<float> logits = *session.score(tokens);
  const std::size_t vocab = 264;
  double total = 0.0;
  for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
    double sum = 0.0;
    for (std::size_t k = 0; k < vocab; ++k) sum += std::exp(double{logits[i * vocab + k]});
    total += std::log(sum) - double{logits[i * vocab + static_cast<std::size_t>(tokens[i + 1])]};
  }
  const double nll = total / static_cast<double>(tokens.size() - 1);
  constexpr double kRounding = 1e-5;
  EXPECT_EQ(j["tokens"], tokens.size());
  EXPECT_NEAR(j["nll"].get<double>(), nll, kRounding);
  EXPECT_NEAR(j["perplexity"].get<double>(), std::exp(nll), kRounding * std::exp(nll));
}

TEST(Devices, ListsAtLeastOne) {
  const Json j = json_of({"devices"});
  ASSERT_GE(j.size(), 1U);
  for (const Json& device : j) EXPECT_FALSE(device["id"].get<std::string>().empty());
  EXPECT_EQ(run_program({"devices"}).code, 0);
}

TEST(SnapshotInspect, SaysPositionModelAndSampling) {
  const std::string file = (scratch() / "inspect.snap").string();
  ASSERT_EQ(run_program({"run", bare_model(), "--tokens", "1,2,3", "-n", "4", "--seed", "9",
                         "--save", file})
                .code,
            0);
  const Json j = json_of({"snapshot", "inspect", file});
  EXPECT_EQ(j["position"], 7);
  EXPECT_EQ(j["sampler"]["seed"], 9);
  EXPECT_EQ(j["model_fingerprint"], json_of({"inspect", bare_model()})["fingerprint"]);
  EXPECT_THAT(run_program({"snapshot", "inspect", file}).out, HasSubstr("7 tokens"));
}

class SnapshotsOfPacks : public ::testing::Test {
 protected:
  void SetUp() override {
    model_ = *Model::load(chat_model(), {.device = "cpu", .threads = 1});
    initial_ = data_of(random_initial_state(model_)).state;
  }
  // Of the same messages and the same state after them.
  std::string pack(const std::string& name, const std::vector<float>& initial) const {
    auto data = std::make_shared<SnapshotData>(data_of(random_initial_state(model_)));
    data->position = 3;
    data->logits.resize(static_cast<std::size_t>(model_->info().vocab_size));
    data->context = {.messages = {{"user", "Hello"}}, .tokens = {1, 2, 3}};
    data->initial_state = initial;
    const std::string file = (scratch() / name).string();
    EXPECT_TRUE(make_snapshot(std::move(data)).save(file));
    return file;
  }

  std::shared_ptr<const Model> model_;
  std::vector<float> initial_;
};

TEST_F(SnapshotsOfPacks, DifferWhereTheirInitialStatesDo) {
  const std::string one = pack("one.rnlpack", initial_), none = pack("none.rnlpack", {});
  EXPECT_EQ(run_program({"snapshot", "diff", one, one}).out, "equal\n");
  const Outcome without = run_program({"snapshot", "diff", one, none});
  EXPECT_EQ(without.code, 1);
  EXPECT_THAT(without.out, StartsWith("began from     initial state "));
  EXPECT_THAT(without.out, HasSubstr(" | the empty state\n"));
  initial_[5] += 1.0F;
  const Outcome other = run_program({"snapshot", "diff", one, pack("other.rnlpack", initial_)});
  EXPECT_EQ(other.code, 1);
  EXPECT_THAT(other.out, HasSubstr("began from     initial state "));
  EXPECT_THAT(other.out, HasSubstr("\ninitial state  1 of "));
}

TEST_F(SnapshotsOfPacks, AreShownWithWhatTheyBeganFrom) {
  const std::string one = pack("one.rnlpack", initial_), none = pack("none.rnlpack", {});
  EXPECT_THAT(run_program({"snapshot", "inspect", none}).out,
              HasSubstr("began from     the empty state\n"));
  EXPECT_FALSE(json_of({"snapshot", "inspect", none}).contains("initial_state"));
  EXPECT_THAT(run_program({"snapshot", "inspect", one}).out,
              HasSubstr("began from     initial state " +
                        json_of({"snapshot", "inspect", one})["initial_state"].get<std::string>()));
}

}  // namespace
}  // namespace runnel::test
