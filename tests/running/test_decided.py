"""`run --until-decided`: stops early, says what holds for all rows, and can be carried on."""

import json
import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

import ruler_eval
import ruler_report
from ruler_data.errors import RulerError, UsageError
from ruler_data.names import parse_config
from ruler_eval.running.engines import Request
from ruler_eval.running.sequential import order_of
from ruler_eval.scoring.derive import load_scores
from ruler_report.publication import compose
from tests.commands import succeeded
from tests.conftest import Cli, made_once, of_all_workers
from tests.running.processes import evaluate, keys
from tests.running.server import FakeServer, well
from tests.running.test_openai import status

LENGTHS, ROWS = (512, 1024), 60


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory, cli: Cli, tiny: Path) -> Path:
    """60 rows of three tasks at two lengths."""
    command = ("build", "--tokenizer", tiny, "--sources-kind", "sample", "--tasks",
             "niah_single_1,niah_single_2,niah_single_3", "--lengths",
             ",".join(map(str, LENGTHS)), "--rows", ROWS, "--counter", "tokenizers")  # fmt: skip
    return made_once(
        of_all_workers(tmp_path_factory) / "decided",
        lambda out: succeeded(cli(*command, "--out", out)),
    )


def model(**right: float) -> Callable[[Sequence[Request]], list[str]]:
    """Return a model that answers rightly with a chance by length, e.g. `_512=0.9`."""

    def generate(requests: Sequence[Request]) -> list[str]:
        texts = []
        for one in requests:
            length = parse_config(one.config)[1]
            is_right = random.Random(f"{one.config}/{one.row.index}").random() < right[f"_{length}"]
            texts.append(", ".join(one.row.outputs) if is_right else "I do not know.")
        return texts

    return generate


def run(data: Path, out: Path, until: str | None = None, **more: Any) -> ruler_eval.Run:  # noqa: ANN401
    return ruler_eval.run(data, out=out, until_decided=until, protocol="base", **more)


def means(data: Path, out: Path) -> dict[int, float]:
    scores = ruler_eval.score(out, data).configs
    return {
        length: 100 * fmean(fmean(s for s in scores[name].scores if s is not None)
                            for name in scores if name.endswith(f"_{length}"))
        for length in LENGTHS
    }  # fmt: skip


@pytest.fixture(scope="module")
def decided(data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ruler_eval.Run]:
    """A run that its effective length ended; not to be changed."""
    out = tmp_path_factory.mktemp("decided") / "run"
    return out, run(data, out, "effective", generate=model(_512=0.97, _1024=0.5))


@pytest.fixture(scope="module")
def base(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of all rows, right in nine of ten; not to be changed."""
    out = tmp_path_factory.mktemp("base") / "run"
    run(data, out, generate=model(_512=0.9, _1024=0.9))
    return out


@pytest.mark.slow
def test_an_effective_length_takes_few_rows_and_holds_for_all(
    data: Path, decided: tuple[Path, ruler_eval.Run], tmp_path: Path
) -> None:
    (kept, found), says = decided, model(_512=0.97, _1024=0.5)
    out = shutil.copytree(kept, tmp_path / "run")
    assert found.failure is None and found.decision is not None
    answer = "effective length of the mean of these 3 tasks at 85.6: 512, after "
    assert found.decision["answer"].startswith(answer)
    lengths = found.decision["lengths"]
    assert lengths["1024"]["side"] == "below" and lengths["512"]["side"] == "above"
    assert 0 < lengths["1024"]["rows_of_a_task"] < ROWS and found.answered < found.rows
    shown = evaluate("status", out)
    assert found.decision["answer"] in " ".join(shown.stdout.split())
    first = order_of("niah_single_1", ROWS)[0]
    assert ("niah_single_1_1024", first) in keys(out)
    assert run(data, out, "effective", generate=says).answered == found.answered  # nothing more
    whole = run(data, out, generate=says)  # the one change of rows that a folder allows
    assert whole.complete and len(keys(out)) == found.rows
    for length, mean in means(data, out).items():
        low, high = lengths[str(length)]["bounds"]
        assert low <= mean <= high and (mean >= 85.6) == (length == 512)
    assert whole.decision is None and "effective length" not in evaluate("status", out).stdout
    assert not any("effective length" in note for note in load_scores(out).notes)


@pytest.mark.slow
def test_what_was_decided_follows_from_the_answers(
    decided: tuple[Path, ruler_eval.Run], tmp_path: Path
) -> None:
    out, found = shutil.copytree(decided[0], tmp_path / "run"), decided[1]
    assert found.decision is not None
    line = f"{found.decision['answer']}; {found.decision['guarantee']}"
    assert line in load_scores(out).notes  # nothing is scored yet
    assert line in ruler_report.results(out, partial=True).results.notes
    assert load_scores(out).notes.count(line) == 1
    page = ruler_report.report([out], tmp_path / "page", pictures=False)
    files = compose(out, "org/p")
    (verdict,) = (said for said in page.verdict if "effective length" in said.lower())
    assert verdict.endswith(f": {line}.")
    for published in (files["README.md"], files["every_eval_ever.json"]):
        assert line in published.decode()
    bounds = {length: one["bounds"] for length, one in found.decision["lengths"].items()}
    assert bounds["1024"][1] < 85.6 <= bounds["512"][0]  # those that the verdict is read from
    starts, (journal,) = out / "starts.jsonl", out.glob("answers-*")
    true = starts.read_text()
    for question, said in (("within=1", "no length yet"), ("speed=3", "cannot be told")):
        starts.write_text(true + json.dumps({"until_decided": question}) + '\n{"until_deci')
        forged = ruler_eval.status(out).decision
        assert forged and not forged["decided"] and said in forged["answer"]
    starts.write_text(true)
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:6]))
    fewer = ruler_eval.status(out).decision
    assert fewer and not fewer["decided"] and "cannot tell at 1,024, 512" in fewer["answer"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"protocol": "chat"}, "the protocols differ: chat and base"),
        ({"no_context": True}, "the contexts differ: left out and given"),
        ({"configs": "niah_single_1_512"}, "it lacks rows of niah_single_1_1024 and 4 more"),
        ({"rows": 59}, "it lacks rows of niah_single_1_512 and 5 more"),
        ({"seed": 7}, "the seeds differ, so that no question is shared"),
    ],
)
def test_a_baseline_that_cannot_be_compared_is_refused_before_the_first_row(
    change: dict[str, Any], message: str, data: Path, base: Path, tmp_path: Path
) -> None:
    place, says = tmp_path / "base", model(_512=0.9, _1024=0.9)
    if change.keys() & {"configs", "rows"}:
        run(data, place, generate=says, **change)
    else:
        body = json.loads((shutil.copytree(base, place) / "run.json").read_text())
        del body["fingerprint"]
        assert change.keys() <= {*body, *body["data"]}
        for holder in (body, body["data"]):
            holder.update({name: value for name, value in change.items() if name in holder})
        (place / "run.json").write_text(json.dumps(body))
    with pytest.raises(UsageError, match=message):
        run(data, tmp_path / "run", "not-worse", baseline=place, generate=says)
    assert not (tmp_path / "run").exists()


def test_not_worse_is_decided_on_the_questions_of_the_baseline(
    data: Path, base: Path, tmp_path: Path
) -> None:
    asks: dict[str, Any] = {"baseline": base}
    same = run(data, tmp_path / "same", "not-worse=5", generate=model(_512=0.9, _1024=0.9), **asks)
    assert same.decision and same.decision["answer"].startswith(
        "not worse at any length or in any category than"
    )
    assert same.answered < same.rows
    asks["generate"] = model(_512=0.4, _1024=0.9)
    worse = run(data, tmp_path / "worse", "not-worse=5", **asks)
    assert worse.decision and worse.decision["answer"].startswith("worse at 512 tokens than")
    assert ruler_eval.status(tmp_path / "worse").decision == worse.decision
    assert worse.decision["categories"].keys() == {"retrieval"} and worse.answered < same.rows


def test_only_answers_on_disk_decide(data: Path, tmp_path: Path) -> None:
    with FakeServer(lambda body: "x", lambda n, b: well(n, b) if n <= 5 else status(400)) as server:
        how: dict[str, Any] = {"model": "m", "base_url": server.url, "concurrency": 1}
        with pytest.raises(RulerError, match="2 rows failed, one after the other"):
            run(data, tmp_path, "effective", **how)
        (journal,) = tmp_path.glob("answers-*")
        journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:5]))
        server.fault, server.names = well, lambda body: {"model": "other"}
        assert "answered by 'm'" in (run(data, tmp_path, "effective", **how).failure or "")
        assert run(data, tmp_path, "effective", **how).failure is None


def test_a_mean_is_known_within_the_points_that_were_asked(data: Path, tmp_path: Path) -> None:
    out, says = tmp_path / "run", model(_512=1.0, _1024=0.8)
    found = run(data, out, "within=8", generate=says)
    assert found.decision and found.decision["decided"] and found.answered < found.rows
    run(data, out, generate=says)
    for length, mean in means(data, out).items():
        low, high = found.decision["lengths"][str(length)]["bounds"]
        assert low <= mean <= high <= low + 16


@pytest.mark.parametrize(
    ("until", "more", "message"),
    [
        ("speed=3", {}, "not a question; give one of effective=85.6, not-worse=1, within=1"),
        ("within=0", {}, "not a question"),
        ("not-worse=1", {}, "--baseline is for --until-decided not-worse, which needs it"),
        ("within=1", {"shard": "0/2"}, "is for one process"),
        ("within=1", {"samples": 2}, "is for one process"),
        ("within=1", {"rows": "512:10"}, None),
        ("within=1", {"configs": "niah_single_1_512,niah_single_2_512", "rows": 5}, None),
    ],
)
def test_what_cannot_be_decided_is_refused(
    until: str, more: dict[str, Any], message: str | None, data: Path, tmp_path: Path
) -> None:
    says = model(_512=1.0, _1024=1.0)
    if message is None:
        assert run(data, tmp_path / "run", until, generate=says, **more).failure is None
        return
    with pytest.raises(UsageError, match=message.replace(".", r"\.")):
        run(data, tmp_path / "run", until, generate=says, **more)
    assert not (tmp_path / "run").exists()
