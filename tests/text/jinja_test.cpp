// SPDX-License-Identifier: Apache-2.0
// Templates beside Python's jinja2, limits against hostile ones, and where their text came from.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <filesystem>

#include "runtime/text/jinja/template.h"
#include "tests/support/slow.h"
#include "tests/text/jinja_fixture.h"
#include "tests/text/tokenizer_fixture.h"

namespace runnel {
namespace {

using jinja::Limits;
using jinja::Template;
using test::jinja_now;
using test::jinja_variables;
using test::OrderedJson;

OrderedJson read(const std::string& name) {
  return OrderedJson::parse(test::read_data("chat_templates/" + name));
}

Result<MarkedText> render(const std::string& source, const OrderedJson& variables = {},
                          Limits limits = {}) {
  Result<Template> parsed = Template::parse(source);
  if (!parsed) return parsed.error();
  return parsed->render(jinja_variables(variables, true), jinja_now(), limits);
}

/// The text, or the error's message.
std::string shown(const std::string& source, const OrderedJson& variables = {},
                  Limits limits = {}) {
  const Result<MarkedText> text = render(source, variables, limits);
  return text ? bytes_of(*text) : text.error().message;
}

void expect_like_python(const std::string& source, const OrderedJson& variables,
                        const OrderedJson& expected) {
  const Result<MarkedText> text = render(source, variables);
  if (expected.contains("error")) {
    EXPECT_FALSE(text.has_value())
        << "Python: " << expected["error"] << "\nhere: " << bytes_of(*text);
  } else {
    ASSERT_TRUE(text.has_value()) << text.error().message;
    EXPECT_EQ(bytes_of(*text), expected["text"].get<std::string>());
  }
}

TEST(Jinja, PublishedTemplatesWriteWhatPythonWrites) {
  const OrderedJson cases = read("cases.json");
  const OrderedJson expected = read("expected.json");
  int templates = 0;
  for (const auto& [name, renderings] : expected.items()) {
    if (name == "snippets") continue;
    ++templates;
    const std::string source = test::read_data("chat_templates/" + name + ".jinja");
    for (const auto& [conversation, variables] : cases.items()) {
      SCOPED_TRACE(name + ", " + conversation);
      expect_like_python(source, variables, renderings[conversation]);
    }
  }
  EXPECT_EQ(templates, 21);
  EXPECT_EQ(cases.size(), 17U);
}

TEST(Jinja, SmallTemplatesWriteWhatPythonWrites) {
  const OrderedJson snippets = read("snippets.json");
  const OrderedJson expected = read("expected.json")["snippets"];
  ASSERT_GT(snippets["templates"].size(), 130U);
  for (const auto& source : snippets["templates"]) {
    SCOPED_TRACE(source.get<std::string>());
    expect_like_python(source, snippets["variables"], expected[source.get<std::string>()]);
  }
}

TEST(Jinja, WhatIsExpectedIsWhatPythonWritesToday) {
  if (std::system("python3 -c 'import jinja2' 2>/dev/null") != 0)
    GTEST_SKIP() << "SKIPPED: no Python with jinja2 (python3-jinja2) on this machine";
  const test::TemporaryDirectory directory;
  const std::string data = RUNNEL_TEST_DATA;
  const std::string out = (directory.path() / "expected.json").string();
  ASSERT_EQ(std::system(("python3 " + data + "/../text/jinja_reference.py " + data +
                         "/chat_templates > " + out)
                            .c_str()),
            0);
  std::ifstream file(out);
  EXPECT_EQ(OrderedJson::parse(file), read("expected.json"));
}

TEST(Jinja, ATemplatesOwnErrorNamesItsLineAndItsWords) {
  const auto raised = render("a\n\n{{ raise_exception('Roles must alternate\\x1b') }}");
  ASSERT_FALSE(raised.has_value());
  EXPECT_EQ(raised.error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(raised.error().message, "chat template, line 3: Roles must alternate\\x1b");
}

TEST(Jinja, ErrorsSayWhatAndWhere) {
  EXPECT_EQ(shown("\n{{ missing.x }}"), "chat template, line 2: 'missing' is undefined");
  EXPECT_EQ(shown("\n\n{{ 1 | nofilter }}"),
            "chat template, line 3: the filter 'nofilter' is not known here");
  EXPECT_EQ(render("{{ 1 | nofilter }}").error().code, ErrorCode::unsupported);
  EXPECT_EQ(shown("{{ [1] | map }}"), "chat template, line 1: expected a text, found undefined");
  EXPECT_EQ(shown("{% include 'x' %}"),
            "chat template, line 1: the statement 'include' is not known here");
  EXPECT_EQ(shown("{{ '\n' }}{{ 1 + }}"),
            "chat template, line 2: expected an expression, found the end of the tag");
  EXPECT_NE(shown("{{ '\xff' }}").find("UTF-8"), std::string::npos);
  EXPECT_NE(shown(std::string(Template::kMostBytes + 1, 'x')).find("bytes"), std::string::npos);
}

/// The most memory that this process had, in bytes.
std::size_t peak_memory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::size_t>(usage.ru_maxrss) * 1024;
}

TEST(Jinja, HostileTemplatesEndSoonInLittleMemoryWithASentence) {
  const std::size_t memory = peak_memory();
  std::string deep_sum = "{{ 1";
  for (int i = 0; i < 20000; ++i) deep_sum += "+1";
  std::vector<std::pair<std::string, std::string>> cases = {
      {"{% for a in range(100000) %}{% for b in [1, 2, 3, 4, 5, 6, 7, 8, 9, 10] %}{% set c = a "
       "%}{% endfor %}{% endfor %}",
       "steps"},
      {"{% for a in range(999999999) %}x{% endfor %}", "bytes"},
      {"{{ 'x' * 1000000000 }}", "large"},
      {"{{ 'x' * 9223372036854775807 }}", "large"},
      {"{% set ns = namespace(x='xxxxxxxxxxxxxxxx') %}{% for i in range(99) %}"
       "{% set ns.x = ns.x + ns.x %}{% endfor %}",
       "bytes"},
      {"{% set ns = namespace(x='x' * 9000) %}{% for i in range(99) %}"
       "{% set ns.x = ns.x.replace('x', ns.x) %}{% endfor %}",
       "bytes"},
      {"{% set ns = namespace(x=['x' * 9000]) %}{% for i in range(99) %}"
       "{% set ns.x = ns.x + ns.x %}{% endfor %}",
       "bytes"},
      {"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "deeper than"},
      {"{% set ns = namespace(x=1) %}{% for i in range(100000) %}{% set ns.x = [ns.x] %}{% endfor "
       "%}",
       "deeper than"},
      {"{{ " + std::string(30000, '(') + "1" + std::string(30000, ')') + " }}", "deeper than"},
      {"{{ " + std::string(30000, '-') + "1 }}", "deeper than"},
      {"{{ " + std::string(30000, '[') + std::string(30000, ']') + " }}", "deeper than"},
      {deep_sum + " }}", "deeper than"},
      {"{{ 9223372036854775807 + 1 }}", "64 bits"},
      {"{{ 4611686018427387904 * 4 }}", "64 bits"},
  };
  // A list that holds a list twice that holds a list twice …: few bytes in memory, 2^60 when written or compared.
  const std::string doubled =
      "{% set ns = namespace(x=['a']) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% "
      "endfor %}{{ ns.x";
  for (const char* use : {"", " == ns.x", " | tojson", " | string | length", " in [ns.x]"})
    cases.emplace_back(doubled + use + " }}", "bytes");
  const std::string large = "{% set b = 'x' * 1000000 %}{% for i in range(1000000) %}{% set c = ";
  for (const char* use : {"'a'.replace(b, '')", "'a'.startswith(b)", "b | trim", "b[0]", "b == b"})
    cases.emplace_back(large + use + " %}{% endfor %}", "bytes");
  std::string many;
  for (int i = 0; i < 9000; ++i) many += std::to_string(i) + ":0,";
  cases.emplace_back("{% set d = {" + many + "} %}{{ d == d }}", "bytes");
  cases.emplace_back("{{ range(90000) | list | tojson(indent=1000) }}", "bytes");
  for (const auto& [source, sentence] : cases) {
    SCOPED_TRACE(source.substr(0, 80));
    const auto start = std::chrono::steady_clock::now();
    EXPECT_NE(shown(source).find(sentence), std::string::npos) << shown(source).substr(0, 200);
    EXPECT_LT(std::chrono::steady_clock::now() - start,
              std::chrono::seconds(test::kSlowBuild ? 300 : 60));
  }
  // A sanitizer keeps what was freed for a while.
  if (!test::kSlowBuild) {
    EXPECT_LT(peak_memory() - memory, std::size_t{1} << 30);
  }
}

TEST(Jinja, ALongTemplateIsNoDeepOne) {
  const auto repeated = [](const std::string& part) {
    std::string out;
    for (int i = 0; i < 300; ++i) out += part;
    return out;
  };
  EXPECT_EQ(shown(repeated("{% set x = 1, 2 %}{% if x %}{% endif %}") + "{{ x }}"), "(1, 2)");
  EXPECT_EQ(shown("{% if 0 %}" + repeated("{% elif (0, 1)[0] %}a{{ x.y|z(1) }}") + "{% endif %}"),
            "");
  EXPECT_EQ(shown("{{ [" + repeated("-1 + 2 if x else 3, ") + "] | length }}"), "300");
}

TEST(Jinja, ANamespaceInItselfIsNoLeak) {
  EXPECT_EQ(
      shown("{% set a = namespace() %}{% set a.a = a %}{% set a.l = [a] %}{{ a.a.l | length }}"),
      "1");
}

TEST(Jinja, LimitsAreTheCallers) {
  EXPECT_EQ(shown("{% for i in range(50) %}{{ i }}{% endfor %}", {}, {.steps = 100}),
            "chat template, line 1: takes more than 100 steps");
  EXPECT_EQ(shown("{{ 'abc' * 5 }}", {}, {.bytes = 20}),
            "chat template, line 1: writes or copies more than 20 bytes");
}

// The bytes of `text` that were given, others as dots.
std::string given(const MarkedText& text) {
  const std::string bytes = bytes_of(text);
  std::string out(bytes.size(), '.');
  for (const ByteRange& range : given_in(text))
    for (std::size_t i = range.begin; i < range.end; ++i) out[i] = bytes[i];
  return out;
}

TEST(Jinja, GivenTextStaysGivenThroughWhatATemplateDoes) {
  const OrderedJson variables = {{"m", " <a> b</t> c "}, {"d", {{"k", "v"}}}};
  const std::pair<std::string, std::string> cases[] = {
      {"x{{ m }}y", ". <a> b</t> c ."},
      {"<{{ m | trim }}>", ".<a> b</t> c."},
      {"{{ 'u:' + m.split('</t>')[-1].lstrip() ~ '!' }}", "..c ."},
      {"{{ (m ~ 'zz')[1:4] | upper }}", "<A>"},
      {"{{ m.replace('<a>', '<q>') }}", " ... b</t> c "},
      {"{{ d | tojson }}", "{\"k\": \"v\"}"},
      {"{{ [1] | tojson }}", "..."},
      {"{{ [m, 'w'] | join('+') }}", " <a> b</t> c .."},
      {"{% set b %}[{{ m }}]{% endset %}{{ b | reverse }}", ". c >t/<b >a< ."},
      {"{{ d }}", "{'k': 'v'}"},
      {"{% for c in m %}{{ c }}-{% endfor %}", " .<.a.>. .b.<./.t.>. .c. ."},
      {"{{ '%' ~ m.title() }}", ". <A> B</T> C "},
  };
  for (const auto& [source, expected] : cases) {
    const Result<MarkedText> text = render(source, variables);
    ASSERT_TRUE(text.has_value()) << text.error().message;
    EXPECT_EQ(given(*text), expected) << source;
  }
}

}  // namespace
}  // namespace runnel
