"""Retrieval before reading: BM25 picks pieces of the context, and a model reads only those.

    PYTHONPATH=docs/recipes ruler-eval run --data dist/llama3 --protocol chat --engine python \
        --option function=bm25_generate:generate --option url=http://127.0.0.1:8000/v1 \
        --option served=llama-8b --model-name llama-8b-bm25 --option top=8 --out runs/bm25

Needs rank-bm25 and a server with an OpenAI-compatible API. The journal records calls and tokens of
each answer, and `ruler-eval report` shows them beside the score.
"""

import os
import re
from collections.abc import Iterator, Sequence
from typing import Any

from rank_bm25 import BM25Okapi

import ruler_eval
from ruler_data.hub.library import http

PROTOCOL = "a user turn is sent, which no prefix of the answer follows: use --protocol chat"


def generate(
    requests: Sequence[ruler_eval.Request], url: str, served: str, words: int = 100, top: int = 8
) -> Iterator[ruler_eval.Generation]:
    """Answer from the `top` best pieces of so many words each, in the order of the text."""
    for request in requests:
        row = request.row
        if row.answer_prefix:
            raise ValueError(PROTOCOL)
        instruction, example, haystack, closing = row.parts
        text = haystack.split(" ")
        pieces = [" ".join(text[at : at + words]) for at in range(0, len(text), words)]
        scores = BM25Okapi([terms(piece) for piece in pieces]).get_scores(terms(row.question))
        best = sorted(range(len(pieces)), key=lambda at: (-scores[at], at))[:top]
        kept = "\n...\n".join(pieces[at] for at in sorted(best))
        prompt = f"{instruction}{example}{kept}{closing}{row.question}"
        reply = ask(url, served, prompt, request.max_tokens)
        choice, usage = reply["choices"][0], reply["usage"]
        yield ruler_eval.Generation(
            choice["message"]["content"],
            choice["finish_reason"],
            tokens=usage["completion_tokens"],
            calls=1,
        )


def terms(text: str) -> list[str]:
    """Return what BM25 compares: words and numbers in lower case."""
    return re.findall(r"[\w-]+", text.lower())


def ask(url: str, served: str, prompt: str, limit: int) -> dict[str, Any]:
    """Return the reply of the server to one user turn."""
    messages = [{"role": "user", "content": prompt}]
    body = {"model": served, "messages": messages, "max_tokens": limit, "temperature": 0.0}
    key = {"Authorization": f"Bearer {os.environ.get('OPENAI_API_KEY', 'none')}"}
    reply = http.post(f"{url}/chat/completions", json=body, headers=key, timeout=600)
    found: dict[str, Any] = reply.raise_for_status().json()
    return found
