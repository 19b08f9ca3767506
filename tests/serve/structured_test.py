# SPDX-License-Identifier: Apache-2.0
"""Structured output of a running server through the clients that people use: structured_test.py BASE_URL.

openai, litellm, langchain-openai, pydantic-ai and instructor each ask for an object of a Pydantic model in their own way
and give one back, whatever the model would have said."""
import enum
import json
import os
import sys

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # no list of prices from the network

import instructor
import litellm
import openai
from langchain_openai import ChatOpenAI
from pydantic import BaseModel, Field
from pydantic_ai import Agent, NativeOutput
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

base = sys.argv[1]
litellm.suppress_debug_info = True
litellm.telemetry = False
checks = 0


def check(condition, what):
    global checks
    assert condition, what
    checks += 1


class Size(str, enum.Enum):
    small = "small"
    large = "large"


class Part(BaseModel):
    name: str = Field(max_length=12)
    count: int = Field(ge=1, le=9)


class Thing(BaseModel):
    """A thing with its parts."""

    colour: str = Field(max_length=12)
    size: Size
    price: float | None = Field(ge=0, le=1000)
    parts: list[Part] = Field(min_length=1, max_length=2)


WORDS = [{"role": "user", "content": "Describe a red toy car as JSON."}]
common = {"temperature": 0, "max_tokens": 200}
client = openai.OpenAI(base_url=base, api_key="none", max_retries=0)
name = client.models.list().data[0].id

parsed = client.chat.completions.parse(model=name, messages=WORDS, response_format=Thing, **common).choices[0]
check(isinstance(parsed.message.parsed, Thing) and parsed.finish_reason == "stop", "openai: parse")
with client.chat.completions.stream(model=name, messages=WORDS, response_format=Thing, **common) as stream:
    for _ in stream:
        pass
    check(stream.get_final_completion().choices[0].message.parsed == parsed.message.parsed, "openai: a parsed stream says the same")
loose = client.chat.completions.create(model=name, messages=WORDS, response_format={"type": "json_object"}, temperature=0, max_tokens=400)
check(loose.choices[0].finish_reason == "length" or isinstance(json.loads(loose.choices[0].message.content), dict), "openai: json_object")
guided = client.chat.completions.create(model=name, messages=WORDS, extra_body={"guided_choice": ["red", "blue"]}, **common)
check(guided.choices[0].message.content in ("red", "blue"), "openai: guided_choice")
try:
    client.chat.completions.create(model=name, messages=WORDS, response_format={
        "type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "array", "uniqueItems": True}}})
    check(False, "openai: an unsupported keyword is refused")
except openai.BadRequestError as error:
    check("uniqueItems" in str(error), "openai: the refusal names the keyword")

answer = litellm.completion(model="openai/default", api_base=base, api_key="none", messages=WORDS, response_format=Thing, **common)
check(Thing.model_validate_json(answer.choices[0].message.content) == parsed.message.parsed, "litellm: response_format")

for method in ("json_schema", "json_mode"):
    chat = ChatOpenAI(model="default", base_url=base, api_key="none", temperature=0, max_tokens=400)
    if method == "json_schema":
        found = chat.with_structured_output(Thing, method=method).invoke("Describe a red toy car as JSON.")
        check(isinstance(found, Thing), "langchain: json_schema")
    else:
        found = chat.with_structured_output(None, method=method, include_raw=True).invoke("Describe a red toy car as a short JSON object.")
        check(isinstance(found["parsed"], dict) or found["raw"].response_metadata["finish_reason"] == "length", "langchain: json_mode")

agent = Agent(OpenAIChatModel("default", provider=OpenAIProvider(base_url=base, api_key="none")),
              output_type=NativeOutput(Thing, strict=True), retries=0)
check(isinstance(agent.run_sync("Describe a red toy car as JSON.", model_settings={"temperature": 0, "max_tokens": 200}).output, Thing),
      "pydantic-ai: native output")

patched = instructor.from_openai(client, mode=instructor.Mode.JSON_SCHEMA)
check(isinstance(patched.chat.completions.create(model=name, messages=WORDS, response_model=Thing, max_retries=0, **common), Thing),
      "instructor: JSON_SCHEMA")
print(f"{checks} passed, 0 failed")
