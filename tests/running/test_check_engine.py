"""The suite `pages`, the test over residues, and `check-engine`."""

import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from types import SimpleNamespace
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np
import pytest

import ruler_builders
import ruler_eval
from ruler_cli import _with_rows, pages_length
from ruler_data import RulerError, UsageError, load
from ruler_data.tokenizers import PromptTokenizer
from ruler_eval import Generation, Request
from ruler_eval.engine_check import check as engine_check
from ruler_eval.engine_check.check import EngineCheck
from ruler_eval.engine_check.conditions import LINE
from ruler_eval.engine_check.verdict import (
    CONDITIONS,
    ONLY,
    Sheet,
    first_look,
    second_look,
    suspects,
)
from ruler_eval.running import python, runner
from ruler_eval.running.answers import Answer
from ruler_eval.running.config import EvalConfig
from ruler_eval.running.engine import Engine, Setup, prepare
from ruler_eval.running.runner import RunJob
from tests.running.processes import evaluate
from tests.running.server import Body, FakeServer
from tests.serving import serving

#: What is built; a second task would show no other residues.
SINGLE: dict[str, Any] = {"suite": "pages", "tasks": "niah_pages_single", "lengths": [1024]}


@pytest.fixture(scope="module")
def rows(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("pages") / "rows"
    ruler_builders.build(str(tiny), **SINGLE, out=out)
    return out


@pytest.mark.slow
def test_rows_end_at_every_residue_and_neighbours_begin_alike(rows: Path, tiny: Path) -> None:
    single = load(rows, "niah_pages_single_1024")
    assert [row.length for row in single] == [1024 - index % 128 for index in range(256)]
    for row, twin in zip(single[::2], single[1::2], strict=True):
        alike = min(row.evidence[0].start, twin.evidence[0].start) - 200  # within a line or two
        assert row.context[: max(alike, 0)] == twin.context[: max(alike, 0)]
        assert row.outputs != twin.outputs
    assert ruler_builders.verify(rows, rows=2, tokenizer=str(tiny), progress=False).findings == ()


@pytest.mark.slow
def test_a_first_look_at_sound_engines_is_right_19_times_in_20() -> None:
    tokens, alarms = np.arange(128), 0
    for simulation in range(30):
        rng = np.random.default_rng(simulation)
        lost = (rng.random((128, 5)) < 0.02) | (rng.random(128) < 0.03)[:, None]
        alarms += bool(first_look(Sheet(tokens, lost, rng.random((128, 5)) < 0.05)))
    assert alarms <= 2


@pytest.mark.parametrize("miss", [0.05, 0.3])
def test_a_model_that_misses_by_the_line_before_a_text_accuses_no_engine(miss: float) -> None:
    tokens, alarms = np.arange(128), 0
    for simulation in range(20):
        rng = np.random.default_rng(simulation)
        lost = (rng.random((128, 5)) < miss)[:, [0, 0, 2, 3, 4]]  # cold and self-hit: one prompt
        alarms += bool(first_look(Sheet(tokens, lost, np.zeros_like(lost))))
    assert alarms <= 2


@pytest.mark.parametrize(
    "only",
    ["", "only in a batch", "only without a cache hit", "only on cache hits",
     "only where a part was cached"],
)  # fmt: skip
def test_what_one_row_shows_is_a_suspect_that_other_questions_prove(only: str) -> None:
    tokens, lost = np.arange(128), np.zeros((128, 5), dtype=bool)
    lost[np.ix_([77], [*ONLY[only][0]])] = True
    sheet = Sheet(tokens, lost, np.zeros_like(lost))
    assert not first_look(sheet)
    others = np.concatenate([tokens, [77, 77]])
    fresh = Sheet(others, np.concatenate([lost, lost[[77, 77]]]), np.zeros((130, 5), dtype=bool))
    (fault,) = second_look(fresh, suspects(sheet))
    assert (str(fault.place), fault.only) == ("where prompt tokens are 77 mod 128", only)
    lost[np.ix_(tokens % 3 == 0, [*ONLY[only][0]])] = True
    faults = first_look(Sheet(tokens, lost, np.zeros_like(lost)))
    anywhere = "at any number of prompt tokens"  # in every condition, the model is wrong there
    assert [(str(fault.place), fault.only) for fault in faults] == (
        [(anywhere, only)] if only else []
    )


class Computed(NamedTuple):
    """How an engine computed a prompt: its tokens, those cached, and with whom."""

    tokens: int
    cached: int
    shared: bool
    together: int


class CachedEngine:
    """An engine with a prefix cache of blocks, which loses answers where a fault is planted.

    Requests of one call are computed together: one may use a block that another one of the call
    is computing, as engines do that plan a step before they run it.
    """

    def __init__(
        self,
        fault: Callable[[Computed], bool] = lambda _: False,
        *,
        block: int = 16,
        text: str = "",
        reports: bool = True,
    ) -> None:
        self.fault = fault
        self.block = block
        self.text = text
        self.reports = reports
        self.blocks = set[bytes]()

    def __call__(self, requests: Sequence[Request]) -> list[Generation]:
        step = set[bytes]()
        return [self.answer(request, step, len(requests)) for request in requests]

    def answer(self, request: Request, step: set[bytes], together: int) -> Generation:
        """Answer one request; its new blocks are added to the cache, and to those of the step."""
        ends = range(self.block, len(request.ids), self.block)
        prefixes = [request.ids[:end].tobytes() for end in ends]
        held = 0
        is_shared = False
        for end, prefix in zip(ends, prefixes, strict=True):
            if prefix not in self.blocks:
                break
            held = end
            is_shared = is_shared or prefix in step
        step.update(prefix for prefix in prefixes if prefix not in self.blocks)
        self.blocks.update(prefixes)
        text = ", ".join(request.row.outputs)
        if self.fault(Computed(len(request.ids), held, is_shared, together)):
            text = self.text
        if not self.reports:
            time.sleep(0.001 if held else 0.1)
        return Generation(text, tokens=5, cached_tokens=held if self.reports else None)


def check(rows: Path, engine: CachedEngine, **options: Any) -> EngineCheck:  # noqa: ANN401
    """Check an engine that computes eight requests together."""
    settings = {"options": {"batch": 8}, **options}
    return ruler_eval.check_engine(rows, generate=engine, **settings)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "text", "sentence"),
    [
        (lambda it: it.tokens % 16 <= 8, "",
         "empty where prompt tokens are 0 to 8 mod 16: 72 of 72 against 0 of 56, p < 1e-6"),
        (lambda it: it.cached > it.tokens - 17 and it.together == 1 and it.tokens % 128 == 4, "x",
         "lost where prompt tokens are 4 mod 128, only on a self-hit: 5 of 5 against 0 of 123"),
        (lambda it: it.shared, "x",
         "lost at any number of prompt tokens, only together behind one prefix: 128 of 128"),
    ],
)  # fmt: skip
def test_a_fault_is_named(
    rows: Path, fault: Callable[[Computed], bool], text: str, sentence: str
) -> None:
    found = check(rows, CachedEngine(fault, text=text))
    assert found.exit_status == 1 and f"answers are {sentence}" in str(found)


@pytest.mark.slow
def test_a_sound_engine_shows_nothing(rows: Path, tiny: Path, tmp_path: Path) -> None:
    sound = check(rows, CachedEngine())
    assert sound.exit_status == 0 and "nothing found in 128 rows of 1024 tokens, 128" in str(sound)
    assert sound.block == 16 and "the cache's block of 16 tokens" in str(sound)
    ruler_builders.build(str(tiny), **SINGLE, rows=16, out=tmp_path)
    few = check(tmp_path, CachedEngine())
    assert few.exit_status == 3 and str(few).startswith("cannot tell with 16 rows")
    with pytest.raises(UsageError, match="length '4096' is not in the manifest; it has 1024"):
        check(rows, CachedEngine(), length=4096)


def test_a_wrong_answer_that_ends_at_its_limit_is_cut_off(tiny: Path, tmp_path: Path) -> None:
    ruler_builders.build(str(tiny), **SINGLE, rows=2, out=tmp_path)

    def answer(requests: Sequence[Request]) -> list[Generation]:
        return [Generation("x", "length" if one.row.index else "stop") for one in requests]

    found = ruler_eval.check_engine(tmp_path, generate=answer)
    assert found.kinds == {condition: {"wrong": 1, "cut off": 1} for condition in CONDITIONS}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("block", "only", "number"),
    [
        (16, "prefix-hit", 128),
        (32, "self-hit", 128),
        (1600, "shared", 128),
        (2096, "nothing", 32),
        (8320, "nothing", 16),
    ],
)
def test_each_condition_is_met_at_two_blocks_and_its_fault_named(
    tiny: Path, tmp_path: Path, block: int, only: str, number: int
) -> None:
    """Prompts have two blocks of the cache and a bit; a fault is at 5 to 8 mod 16."""
    length = pages_length(block) if block > 1000 else 1024
    out = tmp_path / "rows"
    ruler_builders.build(str(tiny), **{**SINGLE, "lengths": [length]}, rows=number, out=out)

    def lost(it: Computed) -> bool:
        whole = (it.tokens - 1) // block * block
        is_met = {
            "nothing": False,
            "self-hit": it.together == 1 and it.cached == whole and not it.shared,
            "prefix-hit": it.together == 1 and it.cached > 0,
            "shared": it.shared,
        }
        return is_met[only] and 5 <= it.tokens % 16 <= 8

    found = check(out, CachedEngine(lost, block=block, text="x"))
    assert not found.not_tested, str(found)
    if only == "nothing":
        assert not found.faults
        return
    assert found.exit_status == 1, str(found)
    assert {str(fault.place) for fault in found.faults} == {"where prompt tokens are 5 to 8 mod 16"}
    if only == "shared":
        assert [fault.only for fault in found.faults] == ["only together behind one prefix"]


HITS = {"self-hit", "prefix-hit", "shared"}


@pytest.mark.parametrize(
    ("engine", "options", "conditions", "reason"),
    [
        pytest.param(
            CachedEngine(block=8320), {}, HITS, "seen in 0 of 128 by cached tokens",
            id="no hit", marks=pytest.mark.slow,
        ),
        pytest.param(
            CachedEngine(block=8320), {"block": 8320}, HITS, "shorter than 2 blocks of 8320",
            id="long block", marks=pytest.mark.slow,
        ),
        pytest.param(
            CachedEngine(block=600), {}, HITS, "shorter than 2 blocks of 600",
            id="one block", marks=pytest.mark.slow,
        ),
        pytest.param(
            CachedEngine(), {"options": {}}, {"batched", "shared"}, "one request at a time",
            id="one by one", marks=pytest.mark.slow,
        ),
    ],
)  # fmt: skip
def test_a_condition_that_was_never_met_is_not_tested(
    rows: Path, engine: CachedEngine, options: dict[str, Any], conditions: set[str], reason: str
) -> None:
    found = check(rows, engine, **options)
    assert found.exit_status == 3 and {*found.not_tested} == conditions
    assert all(reason in why for why in found.not_tested.values())
    assert str(found).startswith("nothing found where") and "not tested: " in str(found)


@pytest.mark.slow
def test_a_cache_that_nobody_reports_is_seen_by_the_time_of_answers(
    tiny: Path, tmp_path: Path
) -> None:
    ruler_builders.build(str(tiny), **SINGLE, rows=16, out=tmp_path)
    found = check(tmp_path, CachedEngine(reports=False))
    assert found.seen["self-hit"].by == "time" and found.seen["self-hit"].cached is None
    assert "self-hit" not in found.not_tested
    uncached = check(tmp_path, CachedEngine(reports=False, block=8320))
    assert uncached.exit_status == 3 and "self-hit" in uncached.not_tested


class StreamHandler(BaseHTTPRequestHandler):
    """A server that streams two words in a tenth of a second; the first comes late unless cached.

    It counts no cached tokens.
    """

    protocol_version = "HTTP/1.1"
    seen: ClassVar = set[tuple[int, ...]]()
    lock = Lock()

    def log_message(self, *_: object) -> None: ...

    def do_GET(self) -> None:
        self.send(b'{"data": []}')

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        ids = tuple(body["prompt"])
        prefixes = {ids[:end] for end in range(16, len(ids), 16)}
        with self.lock:
            is_hit = len(prefixes & self.seen) > 2
            self.seen.update(prefixes)
        waits = (0.01, 0.09) if is_hit else (0.09, 0.01)
        usage = {"prompt_tokens": len(ids), "completion_tokens": 2}
        choices = [{"text": "none", "finish_reason": None}, {"text": " ", "finish_reason": "stop"}]
        events = [json.dumps({"model": "m", "choices": [choice]}) for choice in choices]
        events.append(json.dumps({"choices": [], "usage": usage}))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for event, wait in zip(events, (*waits, 0.0), strict=True):
            time.sleep(wait)
            self.wfile.write(f"data: {event}\n\n".encode())
        self.close_connection = True

    def send(self, content: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@pytest.mark.slow
def test_a_cache_is_seen_by_the_time_to_the_first_token_of_a_stream(
    tiny: Path, tmp_path: Path
) -> None:
    """Whole answers take equally long with a hit and without."""
    ruler_builders.build(str(tiny), **SINGLE, rows=16, out=tmp_path)
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), StreamHandler)) as server:
        address = f"http://127.0.0.1:{server.server_port}/v1"
        options = {"stream": True, "concurrency": 8}
        found = ruler_eval.check_engine(
            tmp_path, "m", base_url=address, tokenizer=tiny, options=options
        )
    assert found.seen["self-hit"].by == "time to the first token"
    assert {*found.not_tested} <= {"shared"}  # two threads may be put into one step or not


@pytest.mark.slow
def test_a_row_that_an_engine_never_yields_is_unanswered(
    rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    predict = python._predict

    def lossy(function: Any, batch: list[Request], prompts: Any) -> Iterator[Answer]:  # noqa: ANN401
        return iter(()) if len(batch[0].ids) % 16 == 3 else predict(function, batch, prompts)

    monkeypatch.setattr(python, "_predict", lossy)
    found = check(rows, CachedEngine(), options={})
    assert found.exit_status == 1
    assert "answers are unanswered where prompt tokens are 3 mod 16" in str(found)


@pytest.mark.slow
def test_vllm_is_loaded_once_for_both_looks_with_room_for_the_line_before_a_text(
    rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events, needs = list[str | int](), list[int]()

    def prepared(setup: Setup) -> Engine:
        events.append(setup.longest)
        return prepare(setup)

    def staying(requests: Iterator[Request | None]) -> Iterator[Answer]:
        """Answer one row whenever there is nothing new, as vLLM does; miss the first one."""
        held = list[Request]()
        events.append("load")
        for request in requests:
            if request is not None:
                needs.append(len(request.ids) + request.max_tokens)
                held.append(request)
            elif held:
                text = "" if len(needs) == 1 else ", ".join(held[0].row.outputs)
                yield held.pop(0).answered(text, "stop", 1, 0.0)

    monkeypatch.setattr(runner, "prepare", prepared)
    job = runner.open_job(EvalConfig(rows, generate=CachedEngine()), LINE)
    object.__setattr__(job.config, "engine", "vllm")  # with a function it would be `python`
    found = engine_check.check_engine(replace(job, engine=replace(job.engine, generate=staying)))
    assert not found.faults and found.kinds["cold"]["empty"] == 1
    assert found.rows > 128 and len(needs) == 7 * found.rows
    longest, *loads = events
    assert loads == ["load"] and 1024 < max(needs) <= cast(int, longest)


def test_an_engine_that_breaks_says_so_in_one_line(
    rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> Iterator[Answer]:
        msg = "no kernel image\nat all"
        raise RuntimeError(msg)

    monkeypatch.setattr(python, "_predict", broken)
    line = "^engine python failed .RuntimeError: no kernel image.$"
    with pytest.raises(RulerError, match=line):
        check(rows, CachedEngine())


@pytest.mark.parametrize("engine", ["transformers", "ray"])
def test_an_engine_without_a_cache_is_refused(engine: str) -> None:
    job = cast(RunJob, SimpleNamespace(config=SimpleNamespace(engine=engine)))
    with pytest.raises(UsageError, match=f"{engine}: keeps no cache from one prompt to the next"):
        engine_check.check_engine(job)


@pytest.mark.parametrize(
    ("options", "tokenizer", "length"),
    [
        ({}, "org/m", 4096),
        ({"tokenizer": "llama3"}, "llama3", 4096),
        ({"block": 8320}, "org/m", 17152),
        ({"block": 8320, "length": 8192}, "org/m", 8192),
    ],
)
def test_rows_have_two_blocks_of_the_cache_in_the_tokenizer_that_is_named(
    options: dict[str, Any], tokenizer: str, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = list[tuple[str, list[int]]]()

    def build(name: str, *, suite: str, lengths: list[int], out: str) -> None:
        assert suite == "pages" and out.endswith("/pages")
        built.append((name, lengths))

    def check(
        data: str | None = None,
        model: str = "",
        *,
        length: int | None = None,
        block: int | None = None,
        tokenizer: str | None = None,
    ) -> int | None:
        return length

    def refuse(name: str, **_: object) -> None:
        raise UsageError(f"tokenizer {name}: is not here")

    monkeypatch.setattr("ruler_builders.build", refuse)
    with pytest.raises(UsageError) as refused:
        _with_rows(check)(model="org/m", **options)
    assert ("name the tokenizer of" in str(refused.value)) is ("tokenizer" not in options)
    monkeypatch.setattr("ruler_builders.build", build)
    assert _with_rows(check)(model="org/m", **options) == length
    assert built == [(tokenizer, [length])]


@pytest.mark.slow
def test_rows_are_built_for_a_server(tiny: Path, tokenizer: PromptTokenizer) -> None:
    asked = set[str]()

    def say(body: Body) -> str:
        text = tokenizer.decode(body["prompt"])
        (key,) = set(re.findall(r"special magic number for ([\w-]+) mentioned", text))
        hit = text in asked
        asked.add(text)
        if hit and len(body["prompt"]) % 16 < 2:
            return ""
        return ", ".join(re.findall(f"for {key} is: (\\d+)", text))  # a part may lack it

    with FakeServer(say) as server:
        command = ("check-engine", "--base-url", server.url, "--model", "m", "--length", 1024)
        done = evaluate(*command, "--tokenizer", tiny)
    assert done.returncode == 1
    assert (
        "answers are empty where prompt tokens are 0 to 1 mod 16, only on a self-hit" in done.stdout
    )
