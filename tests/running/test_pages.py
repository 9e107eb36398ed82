"""The suite `pages`, the test over residues, and `repeat --pages`."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

import ruler_builders
from ruler_data import RulerError, UsageError, load
from ruler_data.tokenizers import PromptTokenizer
from ruler_eval import Request, repeat
from ruler_eval.engine_check.pages import LINE, PageCheck, check_pages
from ruler_eval.engine_check.residues import ONLY, Sheet, first_look, second_look, suspects
from ruler_eval.running import python, runner
from ruler_eval.running.answers import Answer
from ruler_eval.running.config import EvalConfig
from ruler_eval.running.engine import prepare
from ruler_eval.running.runner import RunJob
from tests.running.processes import evaluate
from tests.running.server import Body, FakeServer

Engine = Callable[[Sequence[Request]], list[str | None]]
#: What is built; a second task would show no other residues.
SINGLE: dict[str, Any] = {"suite": "pages", "tasks": "niah_pages_single", "lengths": [1024]}


@pytest.fixture(scope="module", autouse=True)
def _trusted() -> Iterator[None]:
    """Thousands of short prompts are rendered in this process, and not in the child."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RULER_TRUST", "1")
        yield


@pytest.fixture(scope="module")
def rows(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("pages") / "rows"
    ruler_builders.build(str(tiny), **SINGLE, out=out)
    return out


def test_rows_end_at_every_residue_and_neighbours_begin_alike(rows: Path, tiny: Path) -> None:
    single = load(rows, "niah_pages_single_1024")
    assert [row.length for row in single] == [1024 - index % 128 for index in range(256)]
    for row, twin in zip(single[::2], single[1::2], strict=True):
        alike = min(row.evidence[0].start, twin.evidence[0].start) - 200  # within a line or two
        assert row.context[: max(alike, 0)] == twin.context[: max(alike, 0)]
        assert row.outputs != twin.outputs
    assert ruler_builders.verify(rows, rows=2, tokenizer=str(tiny), progress=False).clean


def test_a_first_look_at_sound_engines_is_right_19_times_in_20() -> None:
    tokens, alarms = np.arange(128), 0
    for simulation in range(30):
        rng = np.random.default_rng(simulation)
        lost = (rng.random((128, 4)) < 0.02) | (rng.random(128) < 0.03)[:, None]
        alarms += bool(first_look(Sheet(tokens, lost, rng.random((128, 4)) < 0.05)))
    assert alarms <= 2


@pytest.mark.parametrize("only", ["", "only in a batch", "only without a cache hit"])
def test_what_one_row_shows_is_a_suspect_that_other_questions_prove(only: str) -> None:
    tokens, lost = np.arange(128), np.zeros((128, 4), dtype=bool)
    lost[np.ix_([77], [*ONLY[only][0]])] = True
    sheet = Sheet(tokens, lost, np.zeros_like(lost))
    assert not first_look(sheet)
    others = np.concatenate([tokens, [77, 77]])
    fresh = Sheet(others, np.concatenate([lost, lost[[77, 77]]]), np.zeros((130, 4), dtype=bool))
    (fault,) = second_look(fresh, suspects(sheet))
    assert (str(fault.place), fault.only) == ("where prompt tokens are 77 mod 128", only)
    lost[np.ix_(tokens % 3 == 0, [*ONLY[only][0]])] = True
    found = first_look(Sheet(tokens, lost, np.zeros_like(lost)))
    anywhere = "at any number of prompt tokens"  # in every condition, the model is wrong there
    assert [(str(one.place), one.only) for one in found] == ([(anywhere, only)] if only else [])


def flawed(is_lost: Callable[[int, bool], bool], text: str | None = "") -> Engine:
    """Return an engine that is right but where a prompt's tokens, and a self-hit, say otherwise."""
    seen = set[tuple[int, ...]]()

    def generate(requests: Sequence[Request]) -> list[str | None]:
        texts = list[str | None]()
        for request in requests:
            prompt = tuple(request.ids)
            lost = is_lost(len(prompt), prompt in seen)
            seen.add(prompt)
            texts.append(text if lost else ", ".join(request.row.outputs))
        return texts

    return generate


@pytest.mark.slow
@pytest.mark.parametrize(
    ("is_lost", "text", "sentence"),
    [
        (lambda tokens, hit: tokens % 16 <= 8, "",
         "empty where prompt tokens are 0 to 8 mod 16: 72 of 72 against 0 of 56, p < 1e-6"),
        (lambda tokens, hit: hit and tokens % 128 == 4, "x",
         "lost where prompt tokens are 4 mod 128, only on a self-hit: 5 of 5 against 0 of 123"),
    ],
)  # fmt: skip
def test_a_fault_is_named(
    rows: Path, is_lost: Callable[[int, bool], bool], text: str | None, sentence: str
) -> None:
    check = repeat(pages=True, data=rows, generate=flawed(is_lost, text))
    assert isinstance(check, PageCheck)
    assert check.exit_status == 1 and f"answers are {sentence}" in str(check)


def test_a_sound_engine_shows_nothing(rows: Path, tiny: Path, tmp_path: Path) -> None:
    sound = repeat(pages=True, data=rows, generate=flawed(lambda *_: False))
    assert sound.exit_status == 0 and "nothing found in 128 rows of 1024 tokens, 128" in str(sound)
    ruler_builders.build(str(tiny), **SINGLE, rows=16, out=tmp_path)
    few = repeat(pages=True, data=tmp_path, generate=flawed(lambda *_: False))
    assert few.exit_status == 3 and str(few).startswith("cannot tell with 16 rows")
    with pytest.raises(UsageError, match="length '4096' is not in the manifest; it has 1024"):
        repeat(pages=True, data=rows, generate=flawed(lambda *_: False), length=4096)


@pytest.mark.slow
def test_a_row_that_an_engine_never_yields_is_unanswered(
    rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    predict = python._predict

    def lossy(function: Any, batch: list[Request], prompts: Any) -> Iterator[Answer]:  # noqa: ANN401
        return iter(()) if len(batch[0].ids) % 16 == 3 else predict(function, batch, prompts)

    monkeypatch.setattr(python, "_predict", lossy)
    check = repeat(pages=True, data=rows, generate=flawed(lambda *_: False))
    assert isinstance(check, PageCheck) and check.exit_status == 1
    assert "answers are unanswered where prompt tokens are 3 mod 16" in str(check)


@pytest.mark.slow
def test_vllm_is_loaded_once_for_both_looks_with_room_for_the_line_before_a_text(
    rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events, needs = list[str | int](), list[int]()

    def prepared(config: Any, model: Any, tokenizer: Any, longest: int) -> Any:  # noqa: ANN401
        events.append(longest)
        return prepare(config, model, tokenizer, longest)

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
    job = runner.open_job(EvalConfig(rows, generate=flawed(lambda *_: False)), LINE)
    object.__setattr__(job.config, "engine", "vllm")  # with a function it would be `python`
    check = check_pages(replace(job, engine=replace(job.engine, generate=staying)))
    assert (check.exit_status, check.kinds["cold"]["empty"]) == (0, 1)
    assert check.rows > 128 and len(needs) == 4 * check.rows
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
        repeat(pages=True, data=rows, generate=flawed(lambda *_: False))


@pytest.mark.parametrize("engine", ["transformers", "ray"])
def test_an_engine_without_a_cache_is_refused(engine: str) -> None:
    job = cast(RunJob, SimpleNamespace(config=SimpleNamespace(engine=engine)))
    with pytest.raises(UsageError, match=f"{engine}: keeps no cache from one prompt to the next"):
        check_pages(job)


@pytest.mark.slow
def test_rows_are_built_for_a_server(tiny: Path, tokenizer: PromptTokenizer) -> None:
    asked = set[str]()

    def say(body: Body) -> str:
        text = tokenizer.decode(body["prompt"])
        (key,) = set(re.findall(r"special magic number for ([\w-]+) mentioned", text))
        hit = text in asked
        asked.add(text)
        return (
            ""
            if hit and len(body["prompt"]) % 16 < 2
            else re.findall(f"for {key} is: (\\d+)", text)[0]
        )

    with FakeServer(say) as server:
        command = ("repeat", "--pages", "--base-url", server.url, "--model", "m", "--length", 1024)
        done = evaluate(*command, "--tokenizer", tiny)
    assert done.returncode == 1
    assert (
        "answers are empty where prompt tokens are 0 to 1 mod 16, only on a self-hit" in done.stdout
    )
