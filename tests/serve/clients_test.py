# SPDX-License-Identifier: Apache-2.0
"""litellm, langchain-openai and pydantic-ai against a running server: clients_test.py BASE_URL."""
import os
import sys

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # no list of prices from the network

import litellm
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

base = sys.argv[1]
litellm.suppress_debug_info = True
litellm.telemetry = False
checks = 0


class Sum(BaseModel):
    a: int
    b: int


def check(condition, what):
    global checks
    assert condition, what
    checks += 1


def lite(**options):
    return litellm.completion(model="openai/default", api_base=base, api_key="none", max_tokens=8, temperature=0,
                              messages=[{"role": "user", "content": "Name a colour."}], **options)


answer = lite(logprobs=True, top_logprobs=2)
content = answer.choices[0].logprobs.content
check(answer.choices[0].message.content and all(len(t.top_logprobs) == 2 and t.logprob <= 0 for t in content), "litellm: logprobs")
check(len(lite(n=3).choices) == 3, "litellm: three answers")
made = litellm.embedding(model="openai/default", api_base=base, api_key="none", input=["a cat", "a dog"], encoding_format="float")
check(len(made.data) == 2 and len(made.data[0]["embedding"]) > 100, "litellm: embeddings")

chat = ChatOpenAI(model="default", base_url=base, api_key="none", temperature=0, max_tokens=8, logprobs=True, top_logprobs=2)
message = chat.invoke("Name a colour.")
scored = message.response_metadata["logprobs"]["content"]
check(message.content and [t["token"] for t in scored] == [t.token for t in content], "langchain: logprobs")
# For a server that is not OpenAI's it must not cut texts into tokens by OpenAI's tables.
embeddings = OpenAIEmbeddings(model="default", base_url=base, api_key="none", check_embedding_ctx_length=False)
vectors = embeddings.embed_documents(["a cat", "a dog"])
check(len(vectors) == 2 and abs(sum(v * v for v in vectors[0]) - 1) < 1e-4, "langchain: embeddings")
check(len(embeddings.embed_query("a cat")) == len(vectors[0]), "langchain: a query")


@tool
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


talk = [HumanMessage("What is 2 plus 3?")]
bound = ChatOpenAI(model="default", base_url=base, api_key="none", temperature=0, max_tokens=100).bind_tools([add], tool_choice="add")
talk.append(bound.invoke(talk))
check(len(talk[1].tool_calls) == 1 and talk[1].tool_calls[0]["name"] == "add", "langchain: a call of a tool")
talk.append(add.invoke(talk[1].tool_calls[0]))
check(chat.bind_tools([add], tool_choice="none").invoke(talk).content, "langchain: an answer after its result")

agent = Agent(OpenAIChatModel("default", provider=OpenAIProvider(base_url=base, api_key="none")), output_type=Sum,
              model_settings={"temperature": 0, "max_tokens": 100})
check(isinstance(agent.run_sync("What is 2 plus 3?").output, Sum), "pydantic-ai: an answer by a tool of its own")
print(f"{checks} passed, 0 failed")
