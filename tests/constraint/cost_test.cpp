// SPDX-License-Identifier: Apache-2.0
// Sources that would take much: each is compiled or given up within the limits of processor time and memory, for a
// vocabulary of bytes and for the default model's.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <initializer_list>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "runtime/constraint/grammar_engine.h"
#include "tests/support/slow.h"
#include "tests/text/tokenizer_fixture.h"

namespace runnel::test {
namespace {

using Kind = ConstraintKind;

double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Bytes of memory that this process has at most had since begin(); nothing where Linux does not say.
class PeakMemory {
 public:
  static PeakMemory begin() {
    malloc_trim(0);
    PeakMemory made;
    std::ofstream("/proc/self/clear_refs") << "5";  // the peak is what is resident now
    made.from_ = read("VmHWM:");
    const std::optional<std::size_t> now = read("VmRSS:");
    made.works_ = made.from_ && now && *made.from_ < *now + kSlack;
    return made;
  }
  std::optional<std::size_t> bytes() const {
    if (!works_) return {};
    return *read("VmHWM:") - *from_;
  }

 private:
  static constexpr std::size_t kSlack = std::size_t{1} << 20;
  static std::optional<std::size_t> read(const std::string& name) {
    std::ifstream status("/proc/self/status");
    for (std::string word; status >> word;) {
      std::size_t kib = 0;
      if (word == name && status >> kib) return kib << 10U;
    }
    return {};
  }
  std::optional<std::size_t> from_;
  bool works_ = false;
};

// ---- sources ----

void add(std::string& all, std::initializer_list<std::string_view> parts) {
  for (const std::string_view part : parts) all += part;
}

std::string repeated(int count, const auto& part, const std::string& between = "") {
  std::string all;
  for (int i = 0; i < count; ++i) all += (i == 0 ? "" : between) + part(i);
  return all;
}

std::string many_choices(int count) {
  return "[" +
         repeated(
             count, [](int i) { return "\"choice number " + std::to_string(i * 7919) + "\""; },
             ", ") +
         "]";
}

std::string wide_schema(int count) {
  return R"({"type": "object", "properties": {)" +
         repeated(
             count,
             [](int i) {
               return "\"p" + std::to_string(i) + R"(": {"type": "string", "maxLength": 200})";
             },
             ", ") +
         "}}";
}

std::string reference(int to) { return R"({"$ref": "#/$defs/p)" + std::to_string(to) + "\"}"; }

// Each part leads to the next one twice.
std::string doubling(int parts) {
  std::string all = R"({"$ref": "#/$defs/p0", "$defs": {)";
  for (int i = 0; i < parts; ++i) {
    const std::string next = reference(i + 1);
    add(all, {"\"p", std::to_string(i), R"(": {"anyOf": [)", next, ", ", next, "]}, "});
  }
  return all + "\"p" + std::to_string(parts) + R"(": {"type": "string"}}})";
}

// Recursive parts put together in ever new ways.
std::string meeting(int parts) {
  return R"({"allOf": [{"$ref": "#/$defs/p0"}, {"$ref": "#/$defs/p1"}], "$defs": {)" +
         repeated(
             parts,
             [parts](int i) {
               const auto to = [&](int step) { return reference((i * 7 + step) % parts); };
               return "\"p" + std::to_string(i) + R"(": {"type": "object", "properties": {"a": )" +
                      to(1) + R"(, "b": {"allOf": [)" + to(2) + ", " + to(3) + "]}}}";
             },
             ", ") +
         "}}";
}

std::string chain(int parts) {
  std::string all = R"({"$ref": "#/$defs/p0", "minimum": 1, "$defs": {)";
  for (int i = 0; i < parts; ++i)
    all += "\"p" + std::to_string(i) + R"(": {"minimum": 1, "$ref": "#/$defs/p)" +
           std::to_string(i + 1) + "\"}, ";
  return all + "\"p" + std::to_string(parts) + R"(": {"type": "integer"}}})";
}

// Every part holds every other, in lists and in objects.
std::string recursive(int parts) {
  return R"({"$ref": "#/$defs/p0", "$defs": {)" +
         repeated(
             parts,
             [parts](int i) {
               return "\"p" + std::to_string(i) + R"(": {"type": "object", "properties": {)" +
                      repeated(
                          parts,
                          [](int to) {
                            return "\"q" + std::to_string(to) +
                                   R"(": {"type": "array", "items": )" + reference(to) + "}";
                          },
                          ", ") +
                      "}}";
             },
             ", ") +
         "}}";
}

// As tool_constraint() writes it.
std::string tools(int count) {
  nlohmann::json tags = nlohmann::json::array();
  for (int i = 0; i < count; ++i) {
    const std::string n = std::to_string(i);
    nlohmann::json properties;
    for (const char* name : {"city", "unit", "days", "note"})
      properties[name + n] = {{"type", "string"}, {"description", "Something that is told"}};
    properties["level"] = {{"type", "integer"}, {"minimum", 0}, {"maximum", 100}};
    properties["kind"] = {{"enum", {"small", "large", "other " + n}}};
    tags.push_back({{"name", "tool_" + n},
                    {"begin", "tool_" + n + "\", \"arguments\": "},
                    {"schema",
                     {{"type", "object"},
                      {"properties", properties},
                      {"required", {"city" + n, "kind"}},
                      {"additionalProperties", false}}},
                    {"strict", false}});
  }
  return nlohmann::json{{"free", "before"},
                        {"trigger", "<tool_call>"},
                        {"begin", "<tool_call>\n{\"name\": \""},
                        {"tags", tags},
                        {"between", "}\n</tool_call>\n<tool_call>\n{\"name\": \""},
                        {"end", "}\n</tool_call>"}}
      .dump();
}

constexpr int kMillion = 1'000'000;

std::string many_rules(int bytes) {
  std::string all = "root ::= r0\n";
  for (int i = 0; static_cast<int>(all.size()) < bytes - 100; ++i) {
    const std::string n = std::to_string(i), next = std::to_string(i + 1);
    add(all, {"r", n, " ::= \"a", n, "\" | \"b\" r", next, " | [x-z] r", next, "\n"});
    if (static_cast<int>(all.size()) >= bytes - 100) add(all, {"r", next, " ::= \"end\"\n"});
  }
  return all;
}

struct Source {
  const char* name;
  Kind kind;
  std::string text;
  bool fits = false;   // it has to be compiled
  bool words = false;  // how long it takes depends on the vocabulary, too
};

const std::vector<Source> kSources = {
    {"ten_thousand_choices", Kind::choice, many_choices(10'000), false, true},
    {"ten_thousand_values", Kind::json_schema,
     "{\"type\": \"string\", \"enum\": " + many_choices(10'000) + "}"},
    {"nested_repetition", Kind::regex, "(((a{1,1000}){1,1000}){1,1000}){1,1000}"},
    {"doubt", Kind::regex, "(a|aa)*(a|b)*(a*b*)*c", true},
    {"nested_stars", Kind::regex, "(((((a*)*)*)*)*)*b", true},
    {"far_behind", Kind::regex, "[ab]*a[ab]{25}", false, true},
    {"many_repetitions", Kind::regex, "([a-z]{0,400}[0-9]{0,400}){0,400}", false, true},
    {"many_alternatives", Kind::regex,
     repeated(
         20'000, [](int i) { return "w" + std::to_string(i) + ".*"; }, "|")},
    {"pattern_of_a_schema", Kind::json_schema,
     R"({"type": "string", "pattern": "^([a-z]*[0-9]*){0,300}(x+x+)+y$"})"},
    {"wide_schema", Kind::json_schema, wide_schema(300), false, true},
    {"doubling_references", Kind::json_schema, doubling(40)},
    {"meeting_references", Kind::json_schema, meeting(60)},
    {"deep_references", Kind::json_schema, chain(5'000)},
    {"recursive_parts", Kind::json_schema, recursive(24)},
    {"a_recursive_tree", Kind::json_schema,
     R"({"type": "object", "properties": {"value": {"type": "integer"}, "left": {"$ref": "#"}, "right": {"$ref": "#"}}})",
     true},
    {"a_million_bytes_of_a_schema", Kind::json_schema,
     R"({"enum": [)" +
         repeated(
             60'000, [](int i) { return "\"value " + std::to_string(i) + "\""; }, ",") +
         "]}"},
    {"a_million_bytes_of_a_text", Kind::gbnf, "root ::= \"" + std::string(kMillion, 'x') + "\""},
    {"a_million_bytes_of_rules", Kind::gbnf, many_rules(kMillion), false, true},
    {"a_million_bytes_of_alternatives", Kind::gbnf,
     "root ::= " + repeated(
                       70'000, [](int i) { return "\"word " + std::to_string(i) + "\""; }, "|")},
    {"a_million_bytes_of_classes", Kind::gbnf,
     "root ::= " + repeated(
                       160'000, [](int) { return std::string("[a-z]"); }, " ")},
    {"a_million_bytes_of_a_class", Kind::gbnf, "root ::= [" + std::string(kMillion, 'x') + "]"},
    {"a_million_bytes_of_one_rule", Kind::gbnf,
     "root ::= a\n" + repeated(100'000, [](int) { return std::string("a ::= a\n"); })},
    {"a_million_bytes_of_an_expression", Kind::regex,
     repeated(100'000, [](int) { return std::string("(a|b|c)*"); })},
    {"a_hundred_tools", Kind::tags, tools(100), true, true},
};

// ---- vocabularies ----

enum class Words : std::uint8_t { bytes, default_model };

GrammarVocabulary vocabulary(Words words) {
  GrammarVocabulary all;
  if (words == Words::bytes) {
    for (int b = 0; b < 256; ++b) all.pieces.emplace_back(1, static_cast<char>(b));
    all.pieces.emplace_back();
    all.ends = {256};
    return all;
  }
  const auto tokenizer = load_tokenizer(qwen2_metadata(), kQwen2Rows);
  if (!tokenizer) return all;
  all.pieces.resize(static_cast<std::size_t>(kQwen2Rows));
  for (TokenId t = 0; t < (*tokenizer)->vocab_size(); ++t)
    all.pieces[static_cast<std::size_t>(t)] = (*tokenizer)->piece(t, false, false);
  all.ends = {65526, 65527};
  for (const TokenId end : all.ends) all.pieces[static_cast<std::size_t>(end)].clear();
  return all;
}

const GrammarCompiler& compiler_of(Words words) {
  static std::shared_ptr<const GrammarCompiler> made[2];
  auto& one = made[static_cast<std::size_t>(words)];
  if (one == nullptr) {
    auto compiler = runnel_grammar_engine()->compiler(vocabulary(words));
    if (!compiler) throw std::runtime_error(compiler.error().message);
    one = *std::move(compiler);
  }
  return *one;
}

class Costly : public ::testing::TestWithParam<std::tuple<Words, Source>> {};

std::vector<std::tuple<Words, Source>> cases() {
  std::vector<std::tuple<Words, Source>> all;
  for (const Source& source : kSources) {
    all.emplace_back(Words::bytes, source);
    if (source.words) all.emplace_back(Words::default_model, source);
  }
  return all;
}

TEST_P(Costly, StaysWithinTheLimits) {
  const auto& [words, source] = GetParam();
  ASSERT_LE(source.text.size(), ConstraintSource::kMostBytes);
  constexpr std::size_t kMuch = 300'000;
  if (kSlowBuild && (words != Words::bytes || source.text.size() > kMuch))
    GTEST_SKIP() << "each would take its 16 seconds, which is what they may here";
  const GrammarCompiler& compiler = compiler_of(words);
  const PeakMemory peak = PeakMemory::begin();
  const double start = processor_seconds();
  const auto made = compiler.compile({.kind = source.kind, .text = source.text});
  const double seconds = processor_seconds() - start;
  const std::optional<std::size_t> bytes = peak.bytes();
  const double mebibytes = static_cast<double>(bytes.value_or(0)) / (1U << 20U);
  std::printf("%s: %.2f s, %.1f MiB: %s\n", source.name, seconds, mebibytes,
              made ? "compiled" : made.error().message.c_str());
  if (!made) {
    EXPECT_FALSE(made.error().message.empty());
    EXPECT_FALSE(source.fits) << made.error().message;
  }
  if (kSlowBuild) return;  // other limits, and the sanitizer's own memory
  EXPECT_LT(seconds, Constraint::kCompileSeconds);
  EXPECT_LT(bytes.value_or(0), Constraint::kCompileBytes);
}

INSTANTIATE_TEST_SUITE_P(, Costly, ::testing::ValuesIn(cases()), [](const auto& test) {
  return std::string(std::get<0>(test.param) == Words::bytes ? "bytes_" : "default_model_") +
         std::get<1>(test.param).name;
});

}  // namespace
}  // namespace runnel::test
