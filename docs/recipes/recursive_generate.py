"""A reader that never sees the whole context: notes on each piece, then notes on the notes.

    PYTHONPATH=docs/recipes ruler-eval run --data dist/llama3 --protocol chat --engine python \
        --option function=recursive_generate:generate --option url=http://127.0.0.1:8000/v1 \
        --option served=llama-8b --model-name llama-8b-recursive --out runs/recursive

Needs a server with an OpenAI-compatible API. Calls and tokens of each answer are recorded.
"""

import os
from collections.abc import Iterator, Sequence
from typing import Any

import ruler_eval
from ruler_data.hub.library import http

NOTE = "Copy every line of this part of a text that may help to answer, word for word, or say NONE."
PROTOCOL = "a user turn is sent, which no prefix of the answer follows: use --protocol chat"


def generate(
    requests: Sequence[ruler_eval.Request], url: str, served: str, words: int = 1000
) -> Iterator[ruler_eval.Generation]:
    """Answer from notes of at most so many words, which a call took from as many each."""
    for request in requests:
        row, usages = request.row, list[dict[str, int]]()
        if row.answer_prefix:
            raise ValueError(PROTOCOL)
        instruction, example, text, closing = row.parts
        before = 0
        while words < len(parts := text.split(" ")) != before:  # until it fits, or stops shrinking
            notes, before = [], len(parts)
            for at in range(0, len(parts), words):
                piece = " ".join(parts[at : at + words])
                reply = ask(url, served, f"{NOTE}\n{row.question}\n\n{piece}", words)
                usages.append(reply["usage"])
                note = reply["choices"][0]["message"]["content"] or ""
                notes += [note] if note.strip(" .\n") not in ("", "NONE") else []
            text = "\n".join(notes)
        read = " ".join(text.split(" ")[:words])
        prompt = f"{instruction}{example}{read}{closing}{row.question}"
        reply = ask(url, served, prompt, request.max_tokens)
        usages.append(reply["usage"])
        choice = reply["choices"][0]
        yield ruler_eval.Generation(
            choice["message"]["content"],
            choice["finish_reason"],
            tokens=usages[-1]["completion_tokens"],
            calls=len(usages),
        )


def ask(url: str, served: str, prompt: str, limit: int) -> dict[str, Any]:
    """Return the reply of the server to one user turn."""
    messages = [{"role": "user", "content": prompt}]
    body = {"model": served, "messages": messages, "max_tokens": limit, "temperature": 0.0}
    key = {"Authorization": f"Bearer {os.environ.get('OPENAI_API_KEY', 'none')}"}
    reply = http.post(f"{url}/chat/completions", json=body, headers=key, timeout=600)
    found: dict[str, Any] = reply.raise_for_status().json()
    return found
