# SPDX-License-Identifier: Apache-2.0
"""LangChain through `runnel serve`: a chain that streams, and a conversation that is kept by the server.

    pip install langchain-openai
    runnel serve --port 8080 &
    python langchain_notes.py http://127.0.0.1:8080/v1
"""
import sys

from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_openai import ChatOpenAI


def main(base: str) -> None:
    model = ChatOpenAI(model="default", base_url=base, api_key="none", temperature=0, max_completion_tokens=40)

    # A chain: a prompt, the model, the text of its answer, piece by piece.
    prompt = ChatPromptTemplate.from_messages([("system", "You answer in one sentence."), ("user", "What is {thing}?")])
    chain = prompt | model | StrOutputParser()
    for piece in chain.stream({"thing": "a lighthouse"}):
        print(piece, end="", flush=True)
    print()

    # A conversation: the server keeps its state, so that each request holds the new message alone.
    talk = model.bind(extra_body={"conversation": "notes"})
    for text in ("My sister Mara keeps bees.", "What does my sister keep?"):
        answer = talk.invoke(text)
        usage = answer.response_metadata["token_usage"]
        print(f"{answer.content} ({usage['prompt_tokens_details']['cached_tokens']} tokens kept)")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080/v1")
