"""What `ruler-data` prints of rows, releases, procedures and verdicts: the whole text."""

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from ruler_builders.rebuild import Verdict
from ruler_builders.show import ProcedurePage, ShownRow, highlight, procedures
from ruler_data.errors import UsageError
from ruler_data.index import _API_MODELS, FindResult, Index, Sibling, find, releases_of
from ruler_data.manifest import TokenizerInfo
from ruler_data.procedures import procedures as known_procedures
from ruler_data.row import Row, Span
from ruler_data.tokenizers import load_tokenizer
from ruler_data.tokenizers.registry import REGISTRY
from tests.test_golden import compare
from tests.test_manifest import BASE


def printed(value: object) -> str:
    """Return what a terminal of 80 columns without colours shows."""
    console = Console(width=80, color_system=None, legacy_windows=False)
    with console.capture() as capture:
        console.print(value, crop=False)
    return re.sub(r" +$", "", capture.get(), flags=re.MULTILINE)


def test_the_page_of_each_procedure_and_their_table_are_golden() -> None:
    pages = [str(ProcedurePage(procedure)) for procedure in known_procedures().values()]
    compare("procedures.txt", "\n\n\n".join([printed(procedures()), *pages]) + "\n")


#: Letters of a context, its evidence, and the runs of letters that are shown of it.
EXCERPTS: list[tuple[str, list[tuple[int, int]], str]] = [
    ("a" * 480, [], "a480"),
    ("a" * 481, [], "a320 [1] a160"),
    ("a" * 1_700, [], "a320 [1,220] a160"),
    ("a" * 1_000 + "b" * 10 + "a" * 1_000, [(1_000, 1_010)],
     "a320 [520] a160 b10 a160 [680] a160"),
    ("a" * 481 + "b" * 10 + "a" * 322, [(481, 491)], "a320 [1] a160 b10 a160 [2] a160"),
    ("a" * 480 + "b" * 10 + "a" * 320, [(480, 490)], "a480 b10 a320"),
    ("b" * 10 + "a" * 700 + "b" * 10, [(0, 10), (710, 720)], "b10 a310 [230] a160 b10"),
    ("a" * 1_000 + "ba" * 13 + "a" * 987, [(1_000 + 2 * n, 1_001 + 2 * n) for n in range(13)],
     "a320 [520] a160 " + "b1 a1 " * 12 + "b1 a158 [670] a160"),
    ("a" * 1_000 + ("b" + "a" * 400) * 13, [(1_000 + 401 * n, 1_001 + 401 * n) for n in range(13)],
     "a320 [520] a160 b1 a160 [80] " + "a160 b1 a160 [80] " * 10 + "a160 b1 a160 [481] a160"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(EXCERPTS)))
def test_a_context_is_shown_at_its_ends_and_around_its_evidence(number: int) -> None:
    context, edges, expected = EXCERPTS[number]
    spans = tuple(Span(start, end) for start, end in edges)
    row = Row(0, "vt", context, "?", "", ("x",), 30, 40, spans)
    shown = highlight(row)
    found = re.sub(r" \[\.\.\. ([0-9,]+) characters \.\.\.\] ", r" [\1] ", shown.plain)
    found = re.sub(r"a+|b+", lambda run: f"{run[0][0]}{len(run[0])} ", found)
    assert found.replace("  ", " ").rstrip() == expected
    marked = [shown.plain[s.start : s.end] for s in shown.spans if s.style == "bold yellow"]
    assert "".join(marked) == "".join(letter for letter in shown.plain if letter == "b")
    assert highlight(row, full=True).plain == context


def test_a_row_is_shown_with_its_facts_and_parts() -> None:
    row = Row(
        7,
        "vt",
        "Some text\n" * 30,
        "What?\x07",
        " Answer:",
        ("one", "two\x1b"),
        30,
        4_090,
        (Span(0, 4),),
    )
    compare("row.txt", printed(ShownRow("vt_4096", row)))


INFO = TokenizerInfo("llama3", "org/llama", "main", {"tokenizer.json": "0" * 64}, 17, 0, "x")
RELEASE = Sibling(
    "org/ruler", "v1.0.0", "c" * 40, "llama3", "f" * 64, configs=("vt_8192", "cwe_8192")
)
LOAD = '  load_dataset("org/ruler", "vt_8192", split="test", revision="v1.0.0")'
RUN = "  ruler-eval run --data org/ruler --revision v1.0.0 --model"
BUILD = "ruler-data build --tokenizer llama3"
FOUND: list[tuple[FindResult, list[str]]] = [
    (FindResult("/my model", "org/ruler", INFO, RELEASE, BUILD),
     [f"tokenizer of /my model: {INFO.fingerprint}", f"org/ruler v1.0.0, commit {'c' * 40}",
      LOAD, f"{RUN} '/my model' --out runs/llama3"]),
    (FindResult("llama3", "org/ruler", replace(INFO, identity="e" * 64), RELEASE, BUILD),
     [f"tokenizer of llama3: {'e' * 64}", f"org/ruler v1.0.0, commit {'c' * 40}",
      LOAD, f"{RUN} MODEL --out runs/llama3"]),
    (FindResult("llama3.1", "org/ruler", None, replace(RELEASE, configs=(), reserve=16_384), BUILD),
     ["tokenizer of llama3.1: not available; the index lists the model",
      f"org/ruler v1.0.0, commit {'c' * 40}, 16,384 tokens kept free",
      LOAD.replace("8192", "4096"), f"{RUN} MODEL --protocol thinking --out runs/llama3"]),
    (FindResult("gpt-5", "org/ruler", None, RELEASE, BUILD, "no public tokenizer"),
     ["gpt-5: no public tokenizer", f"org/ruler v1.0.0, commit {'c' * 40}", LOAD,
      f"{RUN} gpt-5 --protocol chat --option api=chat --tokenizer llama3 --base-url ADDRESS "
      "--out runs/llama3"]),
    (FindResult("m", "org/ruler", INFO, None, BUILD),
     [f"tokenizer of m: {INFO.fingerprint}", "org/ruler: no rows for it; build them:",
      f"  {BUILD}"]),
    (FindResult("m", None, INFO, None, BUILD),
     [f"tokenizer of m: {INFO.fingerprint}",
      "no repo to look in (--in org/ruler); build them:", f"  {BUILD}"]),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(FOUND)))
def test_what_find_says_is_what_loads_runs_or_builds_the_rows(number: int) -> None:
    result, lines = FOUND[number]
    assert str(result).split("\n") == lines
    record = result.to_record()
    assert [record["build"], record["model"]] == [BUILD, result.model]
    assert [record["load"], record["run"]] == [line.strip() for line in lines[2:]] or not record[
        "release"
    ]
    assert (record["release"] or {}).get("tag") == (result.release and "v1.0.0")
    assert record["fingerprint"] == (result.tokenizer and lines[0].partition(": ")[2])


VERDICTS: list[tuple[Verdict, int, str, list[str], list[str]]] = [
    (Verdict("out", stated=("a", "b"), configs=1, rows=2, made=2), 0, "", [],
     ["stated by the folder: a", "stated by the folder: b",
      "out: proved; 1 config, 2 rows, 2 made again"]),
    (Verdict("out", ("x: missing",), {"vt_4096": "no"}, ("a",), 2, 1, 0), 1,
     "out: verification failed: 1 finding", ["not proved: vt_4096: no"], ["x: missing"]),
    (Verdict("out", ("x", "y\n")), 1, "out: verification failed: 2 findings", [],
     ["x", "y\\n"]),
    (Verdict("out", (), {"a": "no", "b": "never", "c": "no"}, (), 3, 9, 6), 3,
     "out: nothing wrong found, but not all proved",
     ["not proved: a, c: no", "not proved: b: never"],
     ["out: not all proved; 3 configs, 9 rows, 6 made again"]),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(VERDICTS)))
def test_a_verdict_says_all_that_was_found_or_what_is_stated(number: int) -> None:
    verdict, status, failure, notes, lines = VERDICTS[number]
    assert (verdict.exit_status, verdict.failure) == (status, failure)
    assert [*verdict.notes] == notes
    assert printed(verdict).splitlines() == lines
    record = verdict.to_record()
    assert (record["exit_status"], record["made"]) == (status, verdict.made)


def test_the_newest_release_is_the_greatest_number_and_not_the_last_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def opened(repo: str, revision: str) -> SimpleNamespace:
        return SimpleNamespace(revision=revision, commit="c" * 40, manifest=BASE)

    names = ("v1.9.0", "v1.10.0", "v1.2.11", "draft", "v2")
    monkeypatch.setattr("ruler_data.index.read_index", lambda repo, revision: None)
    monkeypatch.setattr("ruler_data.hub.repo.tags", lambda repo: dict.fromkeys(names, "c" * 40))
    monkeypatch.setattr("ruler_data.hub.download.open_release", opened)
    (release,) = releases_of("org/ruler").siblings
    assert release.tag == "v1.10.0"


def test_find_says_what_is_known_of_models_that_an_api_serves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    listed = Index((replace(RELEASE, models=("org/m",)), replace(RELEASE, tokenizer="gpt-4o")))
    monkeypatch.setattr("ruler_data.index.releases_of", lambda repo: listed)
    openai, anthropic, google = (note for _, _, note in _API_MODELS)
    for model, tokenizer, note in (
        ("gpt-5-mini", "gpt-4o", openai), ("openai/gpt-4.1", "gpt-4o", openai),
        ("o3", "gpt-4o", openai), ("o1-pro", "gpt-4o", openai),
        ("chatgpt-4o-latest", "gpt-4o", openai),
        ("claude-opus-5", "gpt-4o", anthropic), ("google/gemini-3", "gpt-4o", google),
    ):  # fmt: skip
        found = find(model)
        assert (found.build, found.note) == (f"ruler-data build --tokenizer {tokenizer}", note)
        assert found.release is None and found.model == model
    for model in ("gpt-3.5", "gpt-4", "o10x", "my-claude-2", "gpt-oss-20b"):
        with pytest.raises(UsageError):
            find(model)
    with pytest.raises(UsageError):
        find("org/other", "org/ruler")
    found = find("org/m", "org/ruler", reserve=0)
    assert (found.tokenizer, found.release) == (None, listed.siblings[0])
    assert found.build == "ruler-data build --tokenizer org/m"
    with pytest.raises(UsageError):
        find("org/m", "org/ruler", reserve=9)  # no release keeps so much free


def test_a_model_whose_tokenizer_is_not_the_one_that_its_release_has_is_told(
    tiny: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    info = load_tokenizer(str(tiny)).info
    other = replace(RELEASE, models=(str(tiny),))
    own = replace(RELEASE, repo="org/own", fingerprint=info.identity or info.fingerprint)
    for siblings, repo, warned in (((other, own), "org/own", 0), ((other,), "org/ruler", 1)):
        index = Index(siblings)
        monkeypatch.setattr("ruler_data.index.releases_of", lambda repo, index=index: index)
        found = find(tiny, "org/ruler", reserve=0)
        assert found.release and found.release.repo == repo and found.tokenizer
        said = capsys.readouterr().err
        assert said.count(f"org/ruler lists {tiny}, but its rows are counted in a tok") == warned
    assert find(tiny, reserve=512).build.endswith(f"--tokenizer {tiny} --reserve 512")


def test_an_index_keeps_one_release_of_each_repo_and_the_entry_says_what_it_holds() -> None:
    newer = replace(RELEASE, tag="v1.1.0")
    index = Index((replace(RELEASE, repo="org/z"), RELEASE)).with_siblings([newer])
    assert [(s.repo, s.tag) for s in index.siblings] == [
        ("org/ruler", "v1.1.0"),
        ("org/z", "v1.0.0"),
    ]
    pinned = replace(BASE, tokenizer=replace(INFO, extra_reserve=7))
    local = replace(BASE, tokenizer=replace(INFO, revision=None))
    strange = replace(BASE, tokenizer=replace(INFO, name="mine"))
    for manifest, models in (
        (pinned, tuple(REGISTRY["llama3"].ids)), (local, ()), (strange, ("org/llama",)),
    ):  # fmt: skip
        entry = Sibling.of("org/r", "v1.0.0", "c" * 40, manifest)
        assert entry.models == models and entry.configs == tuple(BASE.configs)
        assert entry.tokenizer == manifest.tokenizer.name
        assert entry.fingerprint == manifest.tokenizer.fingerprint
    assert Sibling.of("org/r", "v1.0.0", "c" * 40, pinned).reserve == 7
