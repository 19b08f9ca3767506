// SPDX-License-Identifier: Apache-2.0
// OpenAI's interface: forms of answers, streams, many clients, what is refused.
#include <cstring>
#include <thread>

#include "runtime/sampling/logprobs.h"
#include "tests/serve/fixture.h"
#include "tests/support/chat_model.h"

namespace runnel {
namespace {

using test::Json;
using test::Reply;

class Serve : public test::Serving {};

TEST_F(Serve, AnswersAChatInOpenAisForm) {
  start();
  const Reply reply = chat("Hello");
  ASSERT_EQ(reply.status, 200) << reply.raw;
  EXPECT_EQ(reply.body.at("object"), "chat.completion");
  EXPECT_EQ(reply.body.at("model"), "tiny");
  const Json& choice = reply.body.at("choices").at(0);
  EXPECT_EQ(choice.at("message").at("role"), "assistant");
  EXPECT_EQ(choice.at("finish_reason"), "length");
  EXPECT_EQ(reply.body.at("usage").at("completion_tokens"), 8);
  EXPECT_EQ(reply.body.at("usage").at("prompt_tokens_details").at("cached_tokens"), 0);
}

TEST_F(Serve, CompletesAText) {
  start();
  const Reply reply =
      post("/v1/completions",
           {{"prompt", "abc"}, {"max_tokens", 5}, {"temperature", 0}, {"ignore_end", true}});
  ASSERT_EQ(reply.status, 200) << reply.raw;
  EXPECT_EQ(reply.body.at("object"), "text_completion");
  EXPECT_TRUE(reply.body.at("choices").at(0).at("text").is_string());
  EXPECT_EQ(reply.body.at("usage").at("prompt_tokens"), 3);
}

TEST_F(Serve, StreamsTheSameTextInEvents) {
  start();
  const std::string whole = text(chat("Hello", {{"max_tokens", 40}}));
  const Reply reply =
      chat("Hello",
           {{"max_tokens", 40}, {"stream", true}, {"stream_options", {{"include_usage", true}}}});
  ASSERT_EQ(reply.status, 200);
  EXPECT_TRUE(reply.raw.ends_with("data: [DONE]\n\n"));
  std::string streamed;
  const std::vector<Json> events = test::events(reply.raw);
  ASSERT_GE(events.size(), 4U);
  EXPECT_EQ(events.front().at("choices").at(0).at("delta").at("role"), "assistant");
  for (const Json& event : events) {
    for (const Json& choice : event.at("choices"))
      streamed += choice.at("delta").value("content", "");
  }
  EXPECT_EQ(streamed, whole);
  EXPECT_EQ(events[events.size() - 2].at("choices").at(0).at("finish_reason"), "length");
  EXPECT_EQ(events.back().at("usage").at("completion_tokens"), 40);
}

TEST_F(Serve, ManyClientsAtOnceGetWhatEachWouldGetAlone) {
  start({.parallel = 4});
  constexpr int kClients = 12;
  std::vector<std::string> alone(kClients), together(kClients);
  const auto ask = [&](int i) {
    return text(chat("question " + std::to_string(i),
                     {{"temperature", 0.9}, {"seed", i}, {"max_tokens", 20 + i}}));
  };
  for (int i = 0; i < kClients; ++i) alone[static_cast<std::size_t>(i)] = ask(i);
  std::vector<std::thread> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.emplace_back([&, i] { together[static_cast<std::size_t>(i)] = ask(i); });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(together, alone);
  EXPECT_TRUE(wait_for([](const Json& h) { return h.at("finished") == 2 * kClients; }));
}

TEST_F(Serve, RefusesByNameWhatItDoesNotSupport) {
  start();
  const std::vector<std::pair<const char*, Json>> fields = {
      {"functions", Json::array()},
      {"audio", Json::object()},
      {"reasoning_effort", "low"},
  };
  for (const auto& [name, value] : fields) {
    const Reply reply = chat("Hello", {{name, value}});
    EXPECT_EQ(reply.status, 400) << name;
    EXPECT_EQ(reply.body.at("error").at("param"), name);
    EXPECT_EQ(reply.body.at("error").at("code"), "unsupported_field");
    EXPECT_NE(reply.body.at("error").at("message").get<std::string>().find(name),
              std::string::npos);
  }
  EXPECT_EQ(
      chat("Hello", {{"response_format", {{"type", "text"}}}, {"n", 1}, {"tools", nullptr}}).status,
      200)
      << "values that ask for nothing";
}

TEST_F(Serve, RefusesValuesOutsideTheirRanges) {
  start();
  for (const Json& wrong : {Json{{"temperature", -1}},
                            Json{{"temperature", "warm"}},
                            Json{{"top_p", 0}},
                            Json{{"max_tokens", 0}},
                            Json{{"max_tokens", 1e18}},
                            Json{{"stop", 5}},
                            Json{{"stop", ""}},
                            Json{{"stream", "yes"}},
                            Json{{"logit_bias", {{"999999", 1}}}},
                            Json{{"logit_bias", {{"word", "much"}}}},
                            Json{{"logit_bias", {{1, 2, 3}}}},
                            Json{{"logit_bias", {{-1, 2}}}},
                            Json{{"logit_bias", {{"", 1}}}},
                            Json{{"top_n_sigma", -0.5}},
                            Json{{"typical_p", 0}},
                            Json{{"xtc_probability", 1.1}},
                            Json{{"xtc_threshold", -0.1}},
                            Json{{"dynatemp_range", -1}},
                            Json{{"dynatemp_exponent", "steep"}},
                            Json{{"mirostat", 1}},
                            Json{{"mirostat_tau", -1}},
                            Json{{"mirostat_eta", 2}},
                            Json{{"no_repeat_ngram_size", 1025}},
                            Json{{"banned_strings", {"a", ""}}},
                            Json{{"samplers", {"top_k", "top_q"}}},
                            Json{{"samplers", "top_k;top_k"}},
                            Json{{"samplers", Json::array()}},
                            Json{{"seed", 0.5}},
                            Json{{"messages", Json::array()}},
                            Json{{"conversation", "../up"}},
                            Json{{"dry_multiplier", -0.1}},
                            Json{{"dry_multiplier", 101}},
                            Json{{"dry_base", 0.9}},
                            Json{{"dry_allowed_length", 0}},
                            Json{{"dry_penalty_last_n", -2}},
                            Json{{"dry_penalty_last_n", 1025}},
                            Json{{"dry_sequence_breakers", {"\n", ""}}},
                            Json{{"dry_sequence_breakers", {1}}},
                            Json{{"dry_sequence_breakers", std::string(65, 'x')}},
                            Json{{"dry_sequence_breakers", std::vector<std::string>(17, "x")}}}) {
    const Reply reply = chat("Hello", wrong);
    EXPECT_EQ(reply.status, 400) << wrong << reply.raw;
    EXPECT_EQ(reply.body.at("error").at("param"), wrong.begin().key());
  }
  EXPECT_EQ(chat("Hello", {{"model", "gpt-4"}}).status, 404);
}

// What the library generates after `prompt` with `sampling`.
std::string generated(const std::shared_ptr<const Model>& model, const std::string& prompt,
                      const SamplingOptions& sampling, std::uint64_t tokens) {
  auto session = Session::create(model);
  const auto ids = model->encode(prompt);
  if (!session || !ids || !session->prefill(*ids)) return "the model cannot read";
  const auto result = generate(
      *session, {.sampling = sampling, .max_tokens = tokens, .stop = {}, .ignore_end = true});
  return result ? result->text + result->held_back : result.error().message;
}

TEST_F(Serve, DrawsWithDryAsARequestSays) {
  start();
  constexpr int kTokens = 60;
  Json body = {
      {"prompt", "abcabc"}, {"max_tokens", kTokens}, {"temperature", 0}, {"ignore_end", true}};
  const auto asked = [&] {
    const Reply reply = post("/v1/completions", body);
    return reply.status == 200 ? reply.body.at("choices").at(0).at("text").get<std::string>()
                               : reply.raw;
  };
  const std::string greedy = asked();
  EXPECT_EQ(greedy, generated(model(), "abcabc", {}, kTokens));
  body.update({{"dry_multiplier", 3},
               {"dry_base", 2},
               {"dry_allowed_length", 1},
               {"dry_penalty_last_n", -1},
               {"dry_sequence_breakers", Json::array()}});
  SamplingOptions sampling;
  sampling.dry_multiplier = 3.0F;
  sampling.dry_base = 2.0F;
  sampling.dry_allowed_length = 1;
  sampling.dry_range = SamplingOptions::kMaxPenaltyWindow;
  sampling.dry_breakers.clear();
  EXPECT_EQ(asked(), generated(model(), "abcabc", sampling, kTokens));
  EXPECT_NE(asked(), greedy) << "the case is not one in which DRY matters";
  body["dry_penalty_last_n"] = 7;
  sampling.dry_range = 7;
  EXPECT_EQ(asked(), generated(model(), "abcabc", sampling, kTokens));
  body["dry_sequence_breakers"] = {"a", "e"};
  sampling.dry_breakers = {"a", "e"};
  EXPECT_EQ(asked(), generated(model(), "abcabc", sampling, kTokens));
}

TEST_F(Serve, DrawsWithTheChainThatARequestSays) {
  start();
  constexpr int kTokens = 40;
  const Json body = {{"prompt", "abcabc"},
                     {"max_tokens", kTokens},
                     {"ignore_end", true},
                     {"temperature", 1},
                     {"seed", 5}};
  const auto asked = [&](const Json& more) {
    Json all = body;
    all.update(more);
    const Reply reply = post("/v1/completions", all);
    EXPECT_EQ(reply.status, 200) << reply.raw;
    return reply.status == 200 ? reply.body.at("choices").at(0).at("text").get<std::string>() : "";
  };
  SamplingOptions plain{.temperature = 1.0F, .seed = 5};
  const std::string usual = generated(model(), "abcabc", plain, kTokens);
  EXPECT_EQ(asked(Json::object()), usual);
  const auto with = [&plain](const auto& set) {
    SamplingOptions s = plain;
    set(s);
    return s;
  };
  const std::pair<Json, SamplingOptions> cases[] = {
      {{{"top_n_sigma", 1}}, with([](auto& s) { s.top_n_sigma = 1.0F; })},
      {{{"typical_p", 0.3}}, with([](auto& s) { s.typical_p = 0.3F; })},
      {{{"xtc_probability", 1}, {"xtc_threshold", 0.001}}, with([](auto& s) {
         s.xtc_probability = 1.0F;
         s.xtc_threshold = 0.001F;
       })},
      {{{"dynatemp_range", 0.9}, {"dynatemp_exponent", 9}}, with([](auto& s) {
         s.dynatemp_range = 0.9F;
         s.dynatemp_exponent = 9.0F;
       })},
      {{{"mirostat", 2}, {"mirostat_tau", 2}, {"mirostat_eta", 0.5}}, with([](auto& s) {
         s.mirostat = 2;
         s.mirostat_tau = 2.0F;
         s.mirostat_eta = 0.5F;
       })},
      {{{"no_repeat_ngram_size", 1}}, with([](auto& s) { s.no_repeat_ngram = 1; })},
      {{{"banned_strings", {"a", "e"}}}, with([](auto& s) {
         s.banned_texts = {"a", "e"};
       })},
      {{{"top_k", 3}, {"samplers", {"top_k"}}}, with([](auto& s) {
         s.top_k = 3;
         s.order = {ChainSampler::top_k};
       })},
  };
  for (const auto& [more, sampling] : cases) {
    const std::string text = generated(model(), "abcabc", sampling, kTokens);
    EXPECT_EQ(asked(more), text) << more;
    EXPECT_NE(text, usual) << more << ": not a case in which it matters";
  }
}

TEST_F(Serve, BiasesLogitsByIdAndByText) {
  start();
  const auto tokens = model()->encode("e");
  ASSERT_TRUE(tokens);
  ASSERT_EQ(tokens->size(), 1U);
  const std::string id = std::to_string(tokens->front());
  const auto asked = [&](const Json& bias) {
    const Reply reply =
        post("/v1/completions",
             {{"prompt", "abcabc"}, {"max_tokens", 4}, {"ignore_end", true}, {"logit_bias", bias}});
    EXPECT_EQ(reply.status, 200) << reply.raw;
    return reply.status == 200 ? reply.body.at("choices").at(0).at("text").get<std::string>() : "";
  };
  EXPECT_EQ(asked({{id, 1000}}), "eeee");
  EXPECT_EQ(asked({{"e", 1000}}), "eeee");
  EXPECT_EQ(asked(Json::array({Json::array({"e", 1000})})), "eeee");
  EXPECT_EQ(asked(Json::array({Json::array({tokens->front(), 1000})})), "eeee");
  EXPECT_EQ(asked(Json::array({Json::array({"e", 1000}), Json::array({tokens->front(), false})}))
                .find('e'),
            std::string::npos);
}

TEST_F(Serve, WhatARequestDoesNotSayIsTheServersDefault) {
  SamplingOptions sampling;
  sampling.repetition_penalty = 1.5F;
  sampling.dry_multiplier = 3.0F;
  sampling.dry_allowed_length = 1;
  start({.defaults = {.sampling = sampling}});
  constexpr int kTokens = 60;
  const Json body = {{"prompt", "abcabc"}, {"max_tokens", kTokens}, {"ignore_end", true}};
  const Reply reply = post("/v1/completions", body);
  ASSERT_EQ(reply.status, 200) << reply.raw;
  EXPECT_EQ(reply.body.at("choices").at(0).at("text"),
            generated(model(), "abcabc", sampling, kTokens));
}

TEST_F(Serve, ListsItsModel) {
  start();
  EXPECT_EQ(get("/v1/models").body.at("data").at(0).at("id"), "tiny");
  EXPECT_EQ(get("/v1/models/tiny").status, 200);
  EXPECT_EQ(get("/v1/models/other").status, 404);
  EXPECT_EQ(get("/nowhere").body.at("error").at("code"), "not_found");
}

TEST_F(Serve, AListOfPromptsIsAnsweredAsEachAlone) {
  start();
  const Json options = {{"max_tokens", 6}, {"temperature", 0}, {"ignore_end", true}};
  const auto ask = [&](const Json& prompt) {
    Json body = options;
    body["prompt"] = prompt;
    return post("/v1/completions", body);
  };
  const Json lists[] = {{"abc", "x", "a longer one"},
                        {{97, 98, 99}, {120}, "a longer one"},
                        {"a longer one", "abc", "abc"}};
  for (const Json& prompts : lists) {
    const Reply all = ask(prompts);
    ASSERT_EQ(all.status, 200) << all.raw;
    ASSERT_EQ(all.body.at("choices").size(), prompts.size());
    std::uint64_t read = 0;
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      const Reply alone = ask(prompts[i]);
      const Json& choice = all.body.at("choices").at(i);
      EXPECT_EQ(choice.at("index"), i);
      EXPECT_EQ(choice.at("text"), alone.body.at("choices").at(0).at("text")) << prompts[i];
      EXPECT_EQ(choice.at("finish_reason"), "length");
      read += alone.body.at("usage").at("prompt_tokens").get<std::uint64_t>();
    }
    EXPECT_EQ(all.body.at("usage").at("prompt_tokens"), read);
    EXPECT_EQ(all.body.at("usage").at("completion_tokens"), 6 * prompts.size());
  }
  EXPECT_EQ(ask({97, 98, 99}).body.at("choices"), ask("abc").body.at("choices")) << "one prompt";
}

TEST_F(Serve, AListOfPromptsIsStreamedWithTheIndexOfEach) {
  start();
  const Json body = {
      {"prompt", {"abc", "x", "y"}}, {"max_tokens", 5}, {"temperature", 0}, {"ignore_end", true}};
  Json streamed = body;
  streamed.update({{"stream", true}, {"stream_options", {{"include_usage", true}}}});
  const Reply whole = post("/v1/completions", body), stream = post("/v1/completions", streamed);
  ASSERT_EQ(stream.status, 200) << stream.raw;
  std::string texts[3];
  int ends[3] = {};
  Json usage;
  for (const Json& event : test::events(stream.raw)) {
    if (event.contains("usage")) usage = event.at("usage");
    for (const Json& choice : event.at("choices")) {
      const auto i = choice.at("index").get<std::size_t>();
      ASSERT_LT(i, 3U);
      EXPECT_EQ(ends[i], 0) << "no text after the end";
      texts[i] += choice.at("text").get<std::string>();
      ends[i] += choice.at("finish_reason").is_null() ? 0 : 1;
    }
  }
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(texts[i], whole.body.at("choices").at(i).at("text"));
    EXPECT_EQ(ends[i], 1);
  }
  EXPECT_EQ(usage, whole.body.at("usage"));
}

TEST_F(Serve, ListsOfPromptsThatCannotBeAnsweredAreRefused) {
  start({.most_prompt = 100, .parallel = 2, .queue = 4});
  const Json many(7, "a"), more(65, "a");
  const Json cases[] = {{{"prompt", Json::array()}},
                        {{"prompt", {"a", ""}}},
                        {{"prompt", {"a", 1}}},
                        {{"prompt", {1, "a"}}},
                        {{"prompt", {1, -1}}},
                        {{"prompt", {1.5}}},
                        {{"prompt", {1, 999999}}},
                        {{"prompt", {1, 99999999999}}},
                        {{"prompt", {{"a"}}}},
                        {{"prompt", {Json::array(), "a"}}},
                        {{"prompt", {{"a", 1}}}},
                        {{"prompt", many}},
                        {{"prompt", more}},
                        {{"prompt", {std::string(60, 'x'), std::string(60, 'x')}}},
                        {{"prompt", {"a", "b"}}, {"conversation", "c"}}};
  for (const Json& body : cases) {
    const Reply reply = post("/v1/completions", body);
    EXPECT_EQ(reply.status, 400) << body << reply.raw;
    EXPECT_EQ(reply.body.at("error").at("param"), "prompt") << body;
  }
  EXPECT_EQ(post("/v1/completions", {{"prompt", Json(6, "a")}, {"max_tokens", 1}}).status, 200)
      << "as many as find room";
}

TEST_F(Serve, ChatsComeWithLogprobs) {
  start();
  const Json more = {
      {"logprobs", true}, {"top_logprobs", 3}, {"max_tokens", 6}, {"ignore_end", true}};
  const Reply reply = chat("Hello", more);
  ASSERT_EQ(reply.status, 200) << reply.raw;
  const Json content = reply.body["choices"][0]["logprobs"]["content"];
  ASSERT_EQ(content.size(), 6U);
  for (const Json& at : content) {
    ASSERT_EQ(at["top_logprobs"].size(), 3U);
    EXPECT_EQ(at["logprob"], at["top_logprobs"][0]["logprob"]) << "greedy takes the likeliest";
    EXPECT_LT(at["logprob"].get<double>(), 0);
    EXPECT_GE(at["top_logprobs"][1]["logprob"], at["top_logprobs"][2]["logprob"]);
    EXPECT_FALSE(at["bytes"].empty());
  }
  Json streamed = more;
  streamed["stream"] = true;
  Json gathered = Json::array();
  for (const Json& event : test::events(chat("Hello", streamed).raw)) {
    const Json& logprobs = event["choices"][0]["logprobs"];
    if (logprobs.is_null()) continue;
    for (const Json& at : logprobs["content"]) gathered.push_back(at);
  }
  EXPECT_EQ(gathered, content);
  Json drawn = more;
  drawn["post_sampling_probs"] = true;
  const Reply certain = chat("Hello", drawn);
  ASSERT_EQ(certain.status, 200) << certain.raw;
  for (const Json& at : certain.body["choices"][0]["logprobs"]["content"])
    EXPECT_EQ(at["logprob"], 0.0) << "greedy";
  EXPECT_EQ(chat("Hello", {{"post_sampling_probs", true}}).status, 400);
  EXPECT_TRUE(chat("Hello").body["choices"][0]["logprobs"].is_null());
  EXPECT_EQ(chat("Hello", {{"top_logprobs", 3}}).status, 400);
  EXPECT_EQ(chat("Hello", {{"logprobs", true}, {"top_logprobs", 21}}).status, 400);
}

TEST_F(Serve, AnEchoedPromptIsScored) {
  start();
  const std::string prompt = "Hello there, and more than one piece of it";
  const Reply reply = post(
      "/v1/completions", {{"prompt", prompt}, {"echo", true}, {"logprobs", 1}, {"max_tokens", 0}});
  ASSERT_EQ(reply.status, 200) << reply.raw;
  const Json& choice = reply.body["choices"][0];
  EXPECT_EQ(choice["text"], prompt);
  const Json& logprobs = choice["logprobs"];
  const auto tokens = model()->encode(prompt);
  auto session = Session::create(model());
  ASSERT_TRUE(tokens && session);
  const auto logits = session->score(*tokens);
  ASSERT_TRUE(logits);
  ASSERT_EQ(logprobs["token_logprobs"].size(), tokens->size());
  EXPECT_TRUE(logprobs["token_logprobs"][0].is_null());
  EXPECT_TRUE(logprobs["top_logprobs"][0].is_null());
  const std::size_t vocab = logits->size() / tokens->size();
  for (std::size_t i = 1; i < tokens->size(); ++i) {
    const auto row = std::span(*logits).subspan((i - 1) * vocab, vocab);
    EXPECT_NEAR(logprobs["token_logprobs"][i].get<double>(),
                token_logprobs(row, (*tokens)[i], 0).chosen.logprob, 1e-4);
    EXPECT_EQ(logprobs["text_offset"][i], i) << "a token for every byte";
  }
}

TEST_F(Serve, SeveralAnswersComeFromOneReadingOfThePrompt) {
  start({.parallel = 2});
  const Json sampled = {{"temperature", 1.2}, {"max_tokens", 12}, {"ignore_end", true}};
  Json several = sampled;
  several["n"] = 4;
  several["seed"] = 40;
  const Reply reply = chat("Hello", several);
  ASSERT_EQ(reply.status, 200) << reply.raw;
  ASSERT_EQ(reply.body["choices"].size(), 4U);
  std::uint64_t prompt = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    Json alone = sampled;
    alone["seed"] = 40 + i;
    const Reply single = chat("Hello", alone);
    prompt = single.body["usage"]["prompt_tokens"];
    EXPECT_EQ(reply.body["choices"][i]["index"], i);
    EXPECT_EQ(reply.body["choices"][i]["message"], single.body["choices"][0]["message"]);
  }
  EXPECT_EQ(reply.body["usage"]["prompt_tokens"], prompt);
  EXPECT_EQ(reply.body["usage"]["completion_tokens"], 48U);
  EXPECT_EQ(chat("Hello", {{"n", 2}, {"conversation", "a"}}).status, 400);
  EXPECT_EQ(chat("Hello", {{"n", 17}}).status, 400);
}

TEST_F(Serve, TheBestOfSeveralIsTheLikeliest) {
  start();
  const Json asked = {{"prompt", "Hello"}, {"temperature", 1.5}, {"seed", 3},
                      {"max_tokens", 8},   {"ignore_end", true}, {"logprobs", 0}};
  const auto mean = [](const Json& choice) {
    double sum = 0;
    for (const Json& one : choice["logprobs"]["token_logprobs"]) sum += one.get<double>();
    return sum / static_cast<double>(choice["logprobs"]["token_logprobs"].size());
  };
  Json all = asked, best = asked;
  all["n"] = 5;
  best["best_of"] = 5;
  const Reply many = post("/v1/completions", all);
  const Reply one = post("/v1/completions", best);
  ASSERT_EQ(many.status, 200) << many.raw;
  ASSERT_EQ(one.status, 200) << one.raw;
  ASSERT_EQ(one.body["choices"].size(), 1U);
  double likeliest = -1e9;
  for (const Json& choice : many.body["choices"]) likeliest = std::max(likeliest, mean(choice));
  EXPECT_DOUBLE_EQ(mean(one.body["choices"][0]), likeliest);
  best["n"] = 6;
  EXPECT_EQ(post("/v1/completions", best).status, 400);
  best["n"] = 1;
  best["stream"] = true;
  EXPECT_EQ(post("/v1/completions", best).status, 400);
}

TEST_F(Serve, ThoughtsOfATemplateAreReasoningContent) {
  use_template(test::kThinkingTemplate);
  start();
  // The model's noise never closes its thought.
  const Reply thinking = chat("Hello", {{"max_tokens", 8}});
  ASSERT_EQ(thinking.status, 200) << thinking.raw;
  const Json& message = thinking.body.at("choices").at(0).at("message");
  EXPECT_EQ(message.at("content"), "");
  EXPECT_FALSE(message.at("reasoning_content").get<std::string>().empty());

  const Json off = {{"conversation", "talk"}, {"max_tokens", 8}, {"enable_thinking", false}};
  const Reply first = chat("Hello", off);
  ASSERT_EQ(first.status, 200) << first.raw;
  EXPECT_FALSE(first.body.at("choices").at(0).at("message").contains("reasoning_content"));
  EXPECT_NE(text(first), "");
  Json again = off;
  again["messages"] = {{{"role", "user"}, {"content", "Hello"}},
                       {{"role", "assistant"}, {"content", text(first)}},
                       {{"role", "user"}, {"content", "And now?"}}};
  const Reply second = post("/v1/chat/completions", again);
  ASSERT_EQ(second.status, 200) << second.raw;
  EXPECT_FALSE(second.body.contains("warnings")) << second.raw;
  Json whole = again;
  whole.erase("conversation");
  EXPECT_EQ(text(second), text(post("/v1/chat/completions", whole)));
}

TEST_F(Serve, StreamsSeveralAnswersWithTheirOffsets) {
  start();
  const Json asked = {
      {"prompt", "Hello"}, {"n", 3},       {"temperature", 1.2}, {"seed", 5},
      {"logprobs", 2},     {"echo", true}, {"max_tokens", 6},    {"ignore_end", true}};
  const Reply whole = post("/v1/completions", asked);
  ASSERT_EQ(whole.status, 200) << whole.raw;
  Json streamed = asked;
  streamed["stream"] = true;
  std::vector<Json> gathered(3, {{"text", ""},
                                 {"tokens", Json::array()},
                                 {"token_logprobs", Json::array()},
                                 {"text_offset", Json::array()}});
  for (const Json& event : test::events(post("/v1/completions", streamed).raw)) {
    const Json& choice = event["choices"][0];
    Json& to = gathered[choice["index"].get<std::size_t>()];
    to["text"] = to["text"].get<std::string>() + choice["text"].get<std::string>();
    if (choice["logprobs"].is_null()) continue;
    for (const char* list : {"tokens", "token_logprobs", "text_offset"}) {
      for (const Json& one : choice["logprobs"][list]) to[list].push_back(one);
    }
  }
  for (std::size_t i = 0; i < 3; ++i) {
    const Json& choice = whole.body["choices"][i];
    EXPECT_EQ(gathered[i]["text"], choice["text"]);
    EXPECT_EQ(choice["logprobs"]["tokens"].size(), 11U) << "five of the prompt, six more";
    for (const char* list : {"tokens", "token_logprobs", "text_offset"})
      EXPECT_EQ(gathered[i][list], choice["logprobs"][list]) << list;
  }
}

TEST_F(Serve, ATokenThatIsNoTextIsShownByItsBytes) {
  start();
  TokenId half = 0;  // the first byte of a character
  while (*model()->decode(std::span(&half, 1)) != "\xc3") ++half;
  const Reply reply = post(
      "/v1/completions",
      {{"prompt", Json::array({half, half})}, {"echo", true}, {"logprobs", 0}, {"max_tokens", 0}});
  ASSERT_EQ(reply.status, 200) << reply.raw;
  EXPECT_EQ(reply.body["choices"][0]["logprobs"]["tokens"],
            Json::array({"bytes:\\xc3", "bytes:\\xc3"}));
}

TEST_F(Serve, MakesEmbeddings) {
  start();
  const Json texts = {"Hello there", "Another text", "x"};
  const Reply reply = post("/v1/embeddings", {{"input", texts}, {"model", "tiny"}, {"user", "a"}});
  ASSERT_EQ(reply.status, 200) << reply.raw;
  EXPECT_EQ(reply.body["object"], "list");
  EXPECT_EQ(reply.body["model"], "tiny");
  ASSERT_EQ(reply.body["data"].size(), 3U);
  std::uint64_t tokens = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    const Json& one = reply.body["data"][i];
    EXPECT_EQ(one["object"], "embedding");
    EXPECT_EQ(one["index"], i);
    const auto ids = model()->encode(texts[i].get<std::string>());
    tokens += ids->size();
    const auto expected = Session::create(model())->embedding(*ids);
    ASSERT_TRUE(expected);
    ASSERT_EQ(one["embedding"].size(), expected->size());
    for (std::size_t k = 0; k < expected->size(); ++k)
      EXPECT_EQ(one["embedding"][k].get<float>(), (*expected)[k]);
  }
  EXPECT_EQ(reply.body["usage"]["prompt_tokens"], tokens);
  EXPECT_EQ(reply.body["usage"]["total_tokens"], tokens);
}

TEST_F(Serve, EmbeddingsComeAsBase64AndOfTokens) {
  start();
  const auto ids = model()->encode("Hello there");
  const Reply floats =
      post("/v1/embeddings", {{"input", *ids}, {"pooling", "last"}, {"normalize", false}});
  const Reply packed = post("/v1/embeddings", {{"input", "Hello there"},
                                               {"pooling", "last"},
                                               {"normalize", false},
                                               {"encoding_format", "base64"}});
  ASSERT_EQ(floats.status, 200) << floats.raw;
  ASSERT_EQ(packed.status, 200) << packed.raw;
  const auto text = packed.body["data"][0]["embedding"].get<std::string>();
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  for (std::size_t at = 0; at < text.size(); at += 4) {
    std::uint32_t word = 0;
    for (std::size_t i = 0; i < 4; ++i)
      word = word << 6 |
             (text[at + i] == '=' ? 0 : static_cast<std::uint32_t>(digits.find(text[at + i])));
    for (int shift = 16; shift >= 0; shift -= 8) bytes += static_cast<char>(word >> shift & 255);
  }
  const Json& expected = floats.body["data"][0]["embedding"];
  ASSERT_GE(bytes.size(), 4 * expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    float value = 0;
    std::memcpy(&value, bytes.data() + 4 * i, 4);  // both little-endian
    EXPECT_EQ(value, expected[i].get<float>());
  }
}

TEST_F(Serve, EmbeddingsRefuseByNameWhatTheyCannotDo) {
  start();
  const auto width = model()->info().hidden_size;
  EXPECT_EQ(post("/v1/embeddings", {{"input", "a"}, {"dimensions", width}}).status, 200);
  const std::vector<std::pair<const char*, Json>> wrong = {
      {"input", ""},
      {"input", Json::array({"a", ""})},
      {"input", Json::array({Json::array({1, 999})})},
      {"input", 7},
      {"dimensions", width - 1},
      {"encoding_format", "int8"},
      {"pooling", "max"},
      {"normalize", "yes"},
      {"stream", true}};
  for (const auto& [name, value] : wrong) {
    Json asked = {{"input", "a"}};
    asked[name] = value;
    const Reply reply = post("/v1/embeddings", asked);
    EXPECT_EQ(reply.status, 400) << name;
    EXPECT_EQ(reply.body["error"]["param"], name) << reply.raw;
  }
  EXPECT_EQ(post("/v1/embeddings", {{"input", "a"}, {"model", "another"}}).status, 404);
}

TEST_F(Serve, EmbeddingsAreMadeBesideRunningAnswers) {
  start({.parallel = 2});
  std::string input;
  for (int i = 0; i < 100; ++i) input += "So it goes on and on. ";
  const Reply alone = post("/v1/embeddings", {{"input", input}});
  const Reply quiet = chat("Hello", {{"max_tokens", 60}, {"ignore_end", true}});
  Reply answer;
  std::thread client([&] { answer = chat("Hello", {{"max_tokens", 60}, {"ignore_end", true}}); });
  const Reply beside = post("/v1/embeddings", {{"input", input}});
  client.join();
  EXPECT_EQ(text(answer), text(quiet));
  ASSERT_EQ(beside.status, 200) << beside.raw;
  const Json &a = alone.body["data"][0]["embedding"], &b = beside.body["data"][0]["embedding"];
  constexpr double kPieceTolerance = 1e-4;  // pieces of other lengths sum in another order
  for (std::size_t i = 0; i < a.size(); ++i)
    EXPECT_NEAR(a[i].get<double>(), b[i].get<double>(), kPieceTolerance);
}

TEST_F(Serve, TurnsThatATemplateLaysOutAnewAreReadAgainAndItIsSaid) {
  use_template(
      "{% for m in messages %}<|im_start|>{{ m.role }}\n"
      "{{ m.content if m.role == 'user' else '(said)' }}<|im_end|>\n{% endfor %}"
      "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}");
  start();
  const Json keep = {{"conversation", "talk"}, {"max_tokens", 5}};
  const Reply first = chat("Hello", keep);
  ASSERT_EQ(first.status, 200) << first.raw;
  Json again = keep;
  again["messages"] = {{{"role", "user"}, {"content", "Hello"}},
                       {{"role", "assistant"}, {"content", text(first)}},
                       {{"role", "user"}, {"content", "And now?"}}};
  const Reply second = post("/v1/chat/completions", again);
  ASSERT_EQ(second.status, 200) << second.raw;
  ASSERT_EQ(second.body["warnings"].size(), 1U) << second.raw;
  EXPECT_NE(second.body["warnings"][0].get<std::string>().find("before its last answer"),
            std::string::npos);
  EXPECT_EQ(second.body["usage"]["prompt_tokens_details"]["cached_tokens"],
            first.body["usage"]["prompt_tokens"])
      << "what was read before the answer is not read again";
  Json whole = again;
  whole.erase("conversation");
  EXPECT_EQ(text(second), text(post("/v1/chat/completions", whole)));

  again["messages"].push_back({{"role", "assistant"}, {"content", text(second)}});
  again["messages"].push_back({{"role", "user"}, {"content", "And then?"}});
  const Reply third = post("/v1/chat/completions", again);
  ASSERT_EQ(third.status, 200) << third.raw;
  EXPECT_EQ(third.body["usage"]["prompt_tokens_details"]["cached_tokens"],
            second.body["usage"]["prompt_tokens"]);
  whole["messages"] = again["messages"];
  EXPECT_EQ(text(third), text(post("/v1/chat/completions", whole)));
}

TEST_F(Serve, WhereNoMessageStaysAsItWasAConversationIsReadFromItsBeginning) {
  use_template(test::kLastAloneTemplate);
  start();
  Json talk = {{"conversation", "talk"}, {"max_tokens", 5}};
  const Reply first = chat("Hello", talk);
  ASSERT_EQ(first.status, 200) << first.raw;
  talk["messages"] = {{{"role", "user"}, {"content", "Hello"}},
                      {{"role", "assistant"}, {"content", text(first)}},
                      {{"role", "user"}, {"content", "And now?"}}};
  const Reply second = post("/v1/chat/completions", talk);
  ASSERT_EQ(second.status, 200) << second.raw;
  ASSERT_EQ(second.body["warnings"].size(), 1U) << second.raw;
  EXPECT_NE(second.body["warnings"][0].get<std::string>().find("its beginning"), std::string::npos);
  EXPECT_EQ(second.body["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
  talk.erase("conversation");
  EXPECT_EQ(text(second), text(post("/v1/chat/completions", talk)));
}

}  // namespace
}  // namespace runnel
