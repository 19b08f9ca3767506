# SPDX-License-Identifier: Apache-2.0
"""OpenAI's Python client against a running server: openai_test.py BASE_URL."""
import concurrent.futures
import json
import sys
import time

import openai

client = openai.OpenAI(base_url=sys.argv[1], api_key="none", max_retries=0)
MODEL = client.models.list().data[0].id
checks = 0


def check(condition, what):
    global checks
    assert condition, what
    checks += 1


def ask(words, **options):
    return client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": words}], **options)


answer = ask("Name a colour.", max_tokens=20, temperature=0)
check(answer.choices[0].message.content and answer.usage.completion_tokens > 0, "a chat is answered")

streamed = "".join(c.choices[0].delta.content or "" for c in ask("Name a colour.", max_tokens=20, temperature=0, stream=True))
check(streamed == answer.choices[0].message.content, "a stream says the same")

last = list(ask("Hi", max_tokens=4, stream=True, stream_options={"include_usage": True}))[-1]
check(last.usage.completion_tokens <= 4, "usage ends a stream")

text = client.completions.create(model=MODEL, prompt="The capital of France is", max_tokens=4, temperature=0)
check("Paris" in text.choices[0].text, "a completion")

stopped = ask("Count from one to ten.", max_tokens=40, temperature=0, stop=[" "])
check(" " not in stopped.choices[0].message.content and stopped.choices[0].finish_reason == "stop", "stop strings")

# Log-probabilities, several answers, embeddings.
scored = ask("Name a colour.", max_tokens=8, temperature=0, logprobs=True, top_logprobs=3).choices[0].logprobs.content
check(scored and all(len(t.top_logprobs) == 3 and t.logprob == t.top_logprobs[0].logprob <= 0 for t in scored), "logprobs of a chat")
check(b"".join(bytes(t.bytes) for t in scored).decode().startswith(answer.choices[0].message.content[:8]), "their bytes are the text")
flowed = [t for c in ask("Name a colour.", max_tokens=8, temperature=0, logprobs=True, stream=True)
          if c.choices[0].logprobs for t in c.choices[0].logprobs.content]
check([t.token for t in flowed] == [t.token for t in scored], "logprobs of a stream")
prompt = client.completions.create(model=MODEL, prompt="The capital of France is Paris", max_tokens=0, echo=True, logprobs=2).choices[0]
check(prompt.text == "The capital of France is Paris" and prompt.logprobs.token_logprobs[0] is None
      and prompt.logprobs.token_logprobs[-1] > -3 and " Paris" in prompt.logprobs.top_logprobs[-1], "a prompt is scored")
many = ask("Name a colour.", max_tokens=12, temperature=1, seed=5, n=4)
check([c.index for c in many.choices] == [0, 1, 2, 3] and many.usage.prompt_tokens == answer.usage.prompt_tokens, "four answers, one prompt")
alone = ask("Name a colour.", max_tokens=12, temperature=1, seed=7)
check(many.choices[2].message.content == alone.choices[0].message.content, "the third is that of its seed")
best = client.completions.create(model=MODEL, prompt="Once", max_tokens=8, temperature=1, seed=5, n=2, best_of=5)
check(len(best.choices) == 2, "the best of five")
vectors = client.embeddings.create(model=MODEL, input=["A cat sleeps.", "A kitten is asleep.", "Interest rates rose."])
a, b, c = (v.embedding for v in vectors.data)
floats = client.embeddings.create(model=MODEL, input="A cat sleeps.", encoding_format="float", dimensions=len(a)).data[0].embedding
dot = lambda x, y: sum(p * q for p, q in zip(x, y))
check(abs(dot(a, a) - 1) < 1e-4 and dot(a, b) > dot(a, c), "texts alike have vectors alike")
check(len(floats) == len(a) and max(abs(p - q) for p, q in zip(a, floats)) < 1e-3, "base64 is the same vector")

try:
    ask("Hi", extra_body={"audio": {}})
    check(False, "audio")
except openai.BadRequestError as error:
    check(error.param == "audio" and error.code == "unsupported_field", "audio is refused by name")

# A loop over a tool: the call, its result, an answer; then the same call as a stream.
add = {"type": "function", "function": {"name": "add", "description": "Adds two numbers", "parameters": {
    "type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]}}}
talk = [{"role": "user", "content": "What is 2 plus 3? Use the tool."}]
tools = {"model": MODEL, "tools": [add], "temperature": 0, "max_tokens": 100}
called = client.chat.completions.create(messages=talk, tool_choice="required", parallel_tool_calls=False, **tools).choices[0]
call = called.message.tool_calls[0]
numbers = json.loads(call.function.arguments)
check(called.finish_reason == "tool_calls" and call.function.name == "add" and set(numbers) == {"a", "b"}, "a call of a tool")
talk += [called.message.model_dump(exclude_none=True), {"role": "tool", "tool_call_id": call.id, "content": str(numbers["a"] + numbers["b"])}]
told = client.chat.completions.create(messages=talk, tool_choice="none", **tools).choices[0]
check(told.message.content and not told.message.tool_calls, "an answer after its result")
parts = {"id": "", "name": "", "arguments": ""}
for chunk in client.chat.completions.create(messages=talk[:1], tool_choice={"type": "function", "function": {"name": "add"}}, stream=True, **tools):
    for part in chunk.choices[0].delta.tool_calls or []:
        parts["id"] += part.id or ""
        parts["name"] += part.function.name or ""
        parts["arguments"] += part.function.arguments or ""
check(parts["id"].startswith("call_") and parts["name"] == "add" and json.loads(parts["arguments"]).keys() == numbers.keys(), "a call in a stream")
try:
    client.chat.completions.create(messages=talk[:1], tool_choice="required", model=MODEL)
    check(False, "a call without tools")
except openai.BadRequestError as error:
    check(error.param == "tool_choice", "a call without tools is refused")
try:
    client.chat.completions.create(model="gpt-4o", messages=[{"role": "user", "content": "Hi"}])
    check(False, "another model")
except openai.NotFoundError:
    check(True, "another model is not found")

# A conversation with a kept state: the client sends all of it, the server reads what is new.
keep = {"extra_body": {"conversation": "talk"}, "max_tokens": 16, "temperature": 0}
messages = [{"role": "user", "content": "My name is Ada."}]
first = client.chat.completions.create(model=MODEL, messages=messages, **keep)
messages += [{"role": "assistant", "content": first.choices[0].message.content}, {"role": "user", "content": "Who am I?"}]
second = client.chat.completions.create(model=MODEL, messages=messages, **keep)
check(second.usage.prompt_tokens_details.cached_tokens == first.usage.total_tokens, "0 tokens are read again")
client.post("/states/fork", body={"conversation": "talk", "into": "other"}, cast_to=object)
client.post("/states/save", body={"conversation": "talk"}, cast_to=object)
client.post("/states/delete", body={"conversation": "talk"}, cast_to=object)
other = client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "Go on."}],
                                       extra_body={"conversation": "other"}, max_tokens=4)
check(other.usage.prompt_tokens_details.cached_tokens == second.usage.total_tokens, "a fork goes on")

# Tokens a second: one client, then eight at once.
def rate(clients, tokens=192):
    def run(i):
        return ask(f"Tell me story {i}.", max_tokens=tokens, temperature=0.8, seed=i,
                   extra_body={"ignore_end": True}).usage.completion_tokens
    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        done = sum(pool.map(run, range(clients)))
    return done / (time.monotonic() - begin)


rate(1)
one, eight = rate(1), rate(8)
print(f"tokens a second, prompts included: {one:.0f} for one client, {eight:.0f} for eight, {eight / one:.2f} times")
check(eight > 2 * one, "eight clients share the readings of the weights")
print(f"{checks} passed, 0 failed")
