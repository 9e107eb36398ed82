"""CPU of the client of engine `openai` beside the client loop of `vllm bench serve`, in one run.

    python benchmarks/client.py --vllm-python PYTHON [--pairs 5] [--concurrency 16]

PYTHON is an interpreter that has vLLM (its package for CPUs will do). Each client is a process of
its own and sends the same prompts, so many at once, to one server on this machine, which streams
fixed replies. CPU seconds are those of the loop alone, after a first round that opens connections;
which client goes first changes from pair to pair. By default this project asks for replies that are
not streamed, so that is measured, too.
"""

import argparse
import asyncio
import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any

#: Tokens of the prompts, and rows of a length in each half of a pair.
ROWS = {4096: 256, 131_072: 32}
#: How prompts are sent, and the address under the server's own.
APIS = {"completions": "/v1/completions", "chat": "/v1/chat/completions"}
#: Tokens of an answer, each an event of the stream, and seconds between two of them.
ANSWER, INTERVAL = 32, 0.005
#: Distinct prompts of a length; each is sent several times.
PROMPTS = 8
MODEL = "fixed"


def prompts(api: str, tokens: int) -> list[Any]:
    """Return prompts: lists of token ids, or of a chat texts of about as many tokens."""
    numbers = (random.Random(place).choices(range(100_000), k=tokens) for place in range(PROMPTS))
    if api == "completions":
        return list(numbers)
    return [" ".join(f"w{number % 1000}" for number in text) for text in numbers]


class Server:
    """Answers each request with the same words."""

    def __init__(self, tokens: int) -> None:
        """Say that each prompt has so many tokens."""
        self.usage = {
            "prompt_tokens": tokens,
            "completion_tokens": ANSWER,
            "total_tokens": tokens + ANSWER,
        }

    async def serve(self) -> None:
        """Print the port, and answer until the process ends."""
        server = await asyncio.start_server(self.answer, "127.0.0.1", 0, limit=2**24)
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of a connection."""
        while True:
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except (asyncio.IncompleteReadError, ConnectionError):
                writer.close()
                return
            body = b""
            for line in head.decode("latin-1").split("\r\n"):
                name, _, value = line.partition(":")
                if name.lower() == "content-length":
                    body = await reader.readexactly(int(value))
            is_chat = b"chat" in head.split(b" ", 2)[1]
            ends = (body[:1000] + body[-1000:]).replace(b" ", b"")
            if not body:
                _send(writer, b'{"data":[]}')
            elif b'"stream":true' in ends:
                await self.stream(writer, is_chat=is_chat)
            else:
                _send(writer, json.dumps(self.whole(is_chat=is_chat)).encode())
            await writer.drain()

    def event(self, choices: list[Any], usage: object = None) -> dict[str, Any]:
        """Return a reply, or an event of one."""
        return {"id": "1", "object": "x", "model": MODEL, "choices": choices, "usage": usage}

    def whole(self, *, is_chat: bool) -> dict[str, Any]:
        """Return the reply that is not streamed."""
        choice: dict[str, Any] = {"index": 0, "finish_reason": "length"}
        text = "word " * ANSWER
        choice |= {"message": {"role": "assistant", "content": text}} if is_chat else {"text": text}
        return self.event([choice], self.usage)

    async def stream(self, writer: asyncio.StreamWriter, *, is_chat: bool) -> None:
        """Send an event for each token, one with the usage, and the end."""
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        for place in range(ANSWER):
            finish = "length" if place == ANSWER - 1 else None
            choice: dict[str, Any] = {"index": 0, "finish_reason": finish}
            choice |= {"delta": {"content": "word "}} if is_chat else {"text": "word "}
            _chunk(writer, json.dumps(self.event([choice])))
            await writer.drain()
            await asyncio.sleep(INTERVAL)
        _chunk(writer, json.dumps(self.event([], self.usage)))
        _chunk(writer, "[DONE]")
        writer.write(b"0\r\n\r\n")


def _send(writer: asyncio.StreamWriter, body: bytes) -> None:
    head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: "
    writer.write(f"{head}{len(body)}\r\n\r\n".encode() + body)


def _chunk(writer: asyncio.StreamWriter, data: str) -> None:
    event = f"data: {data}\n\n".encode()
    writer.write(f"{len(event):x}\r\n".encode() + event + b"\r\n")


def ask_here(address: str, api: str, tokens: int, concurrency: int, *, stream: bool) -> float:
    """Return the CPU seconds of this project's client for the rows of a length."""
    import numpy as np

    from ruler_data.row import Row
    from ruler_data.tokenizers import load_tokenizer
    from ruler_eval.running.config import EvalConfig
    from ruler_eval.running.engine import Request, Setup
    from ruler_eval.running.models import Model
    from ruler_eval.running.openai import prepare

    config = EvalConfig(
        "rows",
        model=MODEL,
        base_url=f"{address}/v1",
        protocol="chat" if api == "chat" else "completion",
        options={"api": api, "concurrency": concurrency, "stream": stream},
    )
    engine = prepare(Setup(config, Model(MODEL, MODEL), load_tokenizer("mistral"), tokens))
    texts = prompts(api, tokens)
    ids = [np.zeros(tokens, dtype=np.uint32)] * PROMPTS
    if api == "completions":
        ids = [np.array(text, dtype=np.uint32) for text in texts]
        texts = [""] * PROMPTS

    def requests(number: int) -> Iterator[Request]:
        for index in range(number):
            place = index % PROMPTS
            row = Row(index, "vt", texts[place], "", "", ("x",), ANSWER, tokens, ())
            yield Request(f"vt_{tokens}", row, ids[place], ANSWER)

    def ask(number: int) -> None:
        for answer in engine.generate(requests(number)):
            if answer.error is not None:
                sys.exit(f"not answered: {answer.error}")

    ask(concurrency)
    begun = time.process_time()
    ask(ROWS[tokens])
    return time.process_time() - begun


async def ask_vllm(address: str, api: str, tokens: int, concurrency: int) -> float:
    """Return the CPU seconds of vLLM's request functions, called as its own benchmark does."""
    import aiohttp  # type: ignore[import-not-found]  # vLLM's
    from vllm.benchmarks.lib import endpoint_request_func as functions

    if api == "chat":
        function = functions.async_request_openai_chat_completions
    else:
        function = functions.async_request_openai_completions
    texts = prompts(api, tokens)
    places = asyncio.Semaphore(concurrency)
    # The settings of the session in vLLM's `serve.py`.
    connector = aiohttp.TCPConnector(limit=concurrency, limit_per_host=concurrency)
    timeout = aiohttp.ClientTimeout(total=21_600)
    async with aiohttp.ClientSession(
        connector=connector, trust_env=True, timeout=timeout
    ) as session:

        async def ask_row(index: int) -> None:
            text = texts[index % PROMPTS]
            request = functions.RequestFuncInput(
                prompt=text,
                api_url=address + APIS[api],
                prompt_len=tokens,
                output_len=ANSWER,
                model=MODEL,
            )
            async with places:
                output = await function(request, session)
            if not output.success or output.output_tokens != ANSWER:
                sys.exit(f"not answered: {output.error}")

        async def ask(number: int) -> None:
            await asyncio.gather(*(ask_row(index) for index in range(number)))

        await ask(concurrency)
        begun = time.process_time()
        await ask(ROWS[tokens])
        return time.process_time() - begun


def spent(python: str, *arguments: object) -> float:
    """Return the milliseconds of CPU for a row, as a client in a process of its own tells."""
    command = [python, __file__, *map(str, arguments)]
    seconds, rows = map(float, subprocess.check_output(command, text=True).split()[-2:])
    return 1000 * seconds / rows


def compare(options: argparse.Namespace, api: str, tokens: int) -> Sequence[object]:
    """Return the line of the table for one way to send prompts of one length."""
    command = [sys.executable, __file__, "--role", "server", "--tokens", str(tokens)]
    pairs = list[tuple[float, float]]()
    whole = list[float]()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            address = f"http://127.0.0.1:{server.stdout.readline().strip()}"
            settings = ["--address", address, "--api", api, "--tokens", tokens]
            settings += ["--concurrency", options.concurrency]
            for number in range(options.pairs):
                if number % 2:
                    theirs = spent(options.vllm_python, "--role", "vllm", *settings)
                    here = spent(sys.executable, "--role", "stream", *settings)
                else:
                    here = spent(sys.executable, "--role", "stream", *settings)
                    theirs = spent(options.vllm_python, "--role", "vllm", *settings)
                pairs.append((here, theirs))
                whole.append(spent(sys.executable, "--role", "whole", *settings))
        finally:
            server.terminate()
    loops = [theirs for _, theirs in pairs]
    streamed = [here for here, _ in pairs]
    return (
        api,
        tokens,
        ROWS[tokens],
        median(streamed),
        median(loops),
        _ratio(streamed, loops),
        median(whole),
        _ratio(whole, loops),
    )


def _ratio(here: Sequence[float], loops: Sequence[float]) -> str:
    ratios = sorted(first / second for first, second in zip(here, loops, strict=True))
    return f"{median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"


def main() -> None:
    """Measure and print; or be one of the processes."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--vllm-python", help="an interpreter that has vLLM")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--role", help=argparse.SUPPRESS)
    parser.add_argument("--address", help=argparse.SUPPRESS)
    parser.add_argument("--api", choices=list(APIS), help="measure this one alone")
    parser.add_argument("--tokens", type=int, choices=list(ROWS), help="likewise")
    options = parser.parse_args()
    settings = (options.address, options.api, options.tokens, options.concurrency)
    if options.role == "server":
        asyncio.run(Server(options.tokens).serve())
    elif options.role == "vllm":
        print(asyncio.run(ask_vllm(*settings)), ROWS[options.tokens])
    elif options.role is not None:
        print(ask_here(*settings, stream=options.role == "stream"), ROWS[options.tokens])
    elif options.vllm_python is None:
        parser.error("--vllm-python is missing: an interpreter that has vLLM")
    else:
        _print_table(options)


def _print_table(options: argparse.Namespace) -> None:
    from measuring import about, facts, table

    code = "import aiohttp, vllm; print(vllm.__version__, aiohttp.__version__)"
    command = [options.vllm_python, "-c", code]
    vllm, aiohttp = subprocess.check_output(command, text=True).split()[-2:]
    setting: dict[str, object] = {
        "vllm": vllm,
        "aiohttp": aiohttp,
        "pairs": options.pairs,
        "requests at once": options.concurrency,
        "tokens of an answer": ANSWER,
    }
    lines = [
        compare(options, api, tokens)
        for api in APIS
        for tokens in ROWS
        if options.api in (None, api) and options.tokens in (None, tokens)
    ]
    heads = (
        "api",
        "tokens",
        "rows",
        "here, streamed, ms a row",
        "vLLM's loop, ms a row",
        "here / vLLM's, streamed, median (range)",
        "here by default, ms a row",
        "here by default / vLLM's, median (range)",
    )
    print(*facts(about("ruler-data", "httpx2") | setting), "", *table(heads, lines), sep="\n")


if __name__ == "__main__":
    main()
