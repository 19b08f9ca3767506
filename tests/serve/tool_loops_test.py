# SPDX-License-Identifier: Apache-2.0
"""A loop over a tool with the clients that people use: tool_loops_test.py BASE_URL.

Each of openai, litellm, langchain-openai, pydantic-ai and instructor has a call made, gives its result and gets an answer."""
import os
import sys

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # no list of prices from the network

import instructor
import litellm
import openai
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel, Field
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

base = sys.argv[1]
litellm.suppress_debug_info = True
litellm.telemetry = False
client = openai.OpenAI(base_url=base, api_key="none", max_retries=0)
name = client.models.list().data[0].id
QUESTION = "What is 2 plus 3? Use the tool."
limits = {"temperature": 0, "max_tokens": 100}
checks = 0


def check(condition, what):
    global checks
    assert condition, what
    checks += 1


class Sum(BaseModel):
    """Adds two numbers."""

    a: int = Field(ge=0, le=99)
    b: int = Field(ge=0, le=99)


ADD = {"type": "function", "function": {"name": "add", "description": "Adds two numbers", "parameters": Sum.model_json_schema()}}


def result_of(call):
    numbers = Sum.model_validate_json(call.function.arguments)
    check(call.function.name == "add" and call.id, "the call has a name and an id")
    return {"role": "tool", "tool_call_id": call.id, "content": str(numbers.a + numbers.b)}


def loop(who, create):
    """OpenAI's own loop: at once, as a stream, and left to the model."""
    talk = [{"role": "user", "content": QUESTION}]
    said = create(messages=talk, tools=[ADD], tool_choice="required", parallel_tool_calls=False, **limits).choices[0]
    check(said.finish_reason == "tool_calls" and len(said.message.tool_calls) == 1, f"{who}: a call")
    talk += [said.message.model_dump(exclude_none=True), result_of(said.message.tool_calls[0])]
    told = create(messages=talk, tools=[ADD], tool_choice="none", **limits).choices[0]
    check(told.message.content and not told.message.tool_calls, f"{who}: an answer after its result")
    free = create(messages=talk, tools=[ADD], **limits).choices[0]
    check(free.message.content or free.message.tool_calls, f"{who}: the model's choice")
    chosen, arguments = None, ""
    for chunk in create(messages=talk[:1], tools=[ADD], tool_choice={"type": "function", "function": {"name": "add"}}, stream=True, **limits):
        for part in chunk.choices[0].delta.tool_calls or []:
            chosen = part.function.name or chosen
            arguments += part.function.arguments or ""
    check(chosen == "add" and Sum.model_validate_json(arguments), f"{who}: a call as a stream")


loop("openai", lambda **options: client.chat.completions.create(model=name, **options))
loop("litellm", lambda **options: litellm.completion(model="openai/default", api_base=base, api_key="none", **options))

strict = {"type": "function", "function": {**ADD["function"], "strict": True}}
strict["function"]["parameters"] = {**ADD["function"]["parameters"], "additionalProperties": False}
parsed = client.chat.completions.parse(model=name, messages=[{"role": "user", "content": QUESTION}], tools=[strict], tool_choice="required", **limits)
check(set(parsed.choices[0].message.tool_calls[0].function.parsed_arguments) == {"a", "b"}, "openai: arguments that it parses")


@tool
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


chat = ChatOpenAI(model="default", base_url=base, api_key="none", **limits)
talk = [HumanMessage(QUESTION)]
talk.append(chat.bind_tools([add], tool_choice="any").invoke(talk))
check([call["name"] for call in talk[1].tool_calls] == ["add"] * len(talk[1].tool_calls), "langchain: calls")
talk += [add.invoke(call) for call in talk[1].tool_calls]
check(chat.bind_tools([add], tool_choice="none").invoke(talk).content, "langchain: an answer after their results")
gathered = None
for piece in chat.bind_tools([add], tool_choice="add").stream(talk[:1]):
    gathered = piece if gathered is None else gathered + piece
check(len(gathered.tool_calls) == 1 and set(gathered.tool_calls[0]["args"]) == {"a", "b"}, "langchain: a call as a stream")
check(isinstance(chat.with_structured_output(Sum, method="function_calling").invoke(QUESTION), Sum), "langchain: an object by a call")

added = []
agent = Agent(OpenAIChatModel("default", provider=OpenAIProvider(base_url=base, api_key="none")), retries=0,
              model_settings=lambda context: {**limits, "tool_choice": ["add_numbers"] if context.run_step <= 1 else "none"})


@agent.tool_plain
def add_numbers(a: int, b: int) -> int:
    """Adds two numbers."""
    added.append(a + b)
    return a + b


said = agent.run_sync(QUESTION)
check(added and said.output, "pydantic-ai: an answer after its own tool")
check(sum(part.part_kind == "tool-return" for message in said.all_messages() for part in message.parts) == len(added),
      "pydantic-ai: every call had its result")

for mode in (instructor.Mode.TOOLS, instructor.Mode.TOOLS_STRICT):
    patched = instructor.from_openai(client, mode=mode)
    found, raw = patched.chat.completions.create_with_completion(
        model=name, messages=[{"role": "user", "content": QUESTION}], response_model=Sum, max_retries=0, **limits)
    check(isinstance(found, Sum), f"instructor: {mode}")
    call = raw.choices[0].message.tool_calls[0]
    answer = client.chat.completions.create(model=name, messages=[
        {"role": "user", "content": QUESTION}, raw.choices[0].message.model_dump(exclude_none=True),
        {"role": "tool", "tool_call_id": call.id, "content": str(found.a + found.b)}], **limits)
    check(answer.choices[0].message.content, "instructor: an answer after the result")
print(f"{checks} passed, 0 failed")
