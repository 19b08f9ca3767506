# SPDX-License-Identifier: Apache-2.0
"""LlamaIndex through `runnel serve`: a question about documents of one's own, and a chat that streams.

    pip install llama-index-llms-openai-like llama-index-embeddings-openai-like
    runnel serve --port 8080 &
    python llama_index_notes.py http://127.0.0.1:8080/v1
"""
import sys

from llama_index.core import Document, VectorStoreIndex
from llama_index.core.llms import ChatMessage
from llama_index.embeddings.openai_like import OpenAILikeEmbedding
from llama_index.llms.openai_like import OpenAILike

NOTES = ("Mara keeps bees on the roof.", "The lighthouse is forty metres high.", "The ferry leaves at nine.")


def main(base: str) -> None:
    model = OpenAILike(model="default", api_base=base, api_key="none", is_chat_model=True, context_window=32768, temperature=0,
                       max_tokens=40)
    embedding = OpenAILikeEmbedding(model_name="default", api_base=base, api_key="none")

    # Notes are found by their vectors, and the model answers with them before it.
    index = VectorStoreIndex.from_documents([Document(text=note) for note in NOTES], embed_model=embedding)
    answer = index.as_query_engine(llm=model, similarity_top_k=1).query("How high is the lighthouse?")
    print(answer.source_nodes[0].text, "->", answer)

    for piece in model.stream_chat([ChatMessage(role="user", content="Say hello to Mara.")]):
        print(piece.delta, end="", flush=True)
    print()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080/v1")
