"""What is planned before anything is built or published: folders, suites, options and versions."""

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from ruler_builders.pipeline.build import BuiltManifest
from ruler_builders.pipeline.plan import (
    LONGEST,
    BuildPlan,
    check_options,
    default_folder,
    select_suite,
)
from ruler_builders.pipeline.pool import processes
from ruler_builders.publish.plan import CONSENTS, Dataset, Plan, parse_consents, source_notes
from ruler_builders.publish.version import Change, Version, change, choose_version
from ruler_builders.recorded import plan_of
from ruler_builders.sources.catalogue import ESSAYS, essays_of
from ruler_builders.upstream.sources import WORDS_VERSIONS, words_of
from ruler_data import Manifest, UsageError, memory
from ruler_data.hub.download import Snapshot
from ruler_data.manifest import FileInfo
from ruler_data.suites import load_suite
from tests.conftest import Builds
from tests.tampering import manifest_of
from tests.test_manifest import BASE, SQUAD, config
from tests.test_show import printed

FOLDERS: list[tuple[tuple[str, str, str], bool, bool, str]] = [
    (("llama3", "ruler", "balanced"), False, False, "dist/llama3"),
    (("/x/my-model", "hard", "balanced"), False, True, "dist/my-model-hard-sample"),
    (("org/m", "ruler", "upstream-2026-07"), True, False, "dist/m-upstream-2026-07-fresh"),
    (("m", "hard", "nemo"), True, True, "dist/m-hard-nemo-fresh-sample"),
]


@pytest.mark.parametrize("number", range(len(FOLDERS)))
def test_the_default_folder_says_what_is_in_it(number: int) -> None:
    names, fresh, sample, folder = FOLDERS[number]
    assert default_folder(*names, fresh=fresh, sample=sample) == Path(folder)


def test_a_suite_is_narrowed_to_what_is_asked_for() -> None:
    suite = select_suite("ruler", "cwe,vt", "8k,4096,8192", 7, None)
    assert ([*suite.tasks], suite.lengths, suite.rows) == (["vt", "cwe"], (4096, 8192), 7)
    whole = select_suite("ruler", None, None, None, None)
    assert whole == load_suite("ruler")
    assert select_suite("adversarial", "all", [LONGEST], None, None).rows == 100
    for tasks, lengths, said in (
        ("vt,cwee", None, "--tasks 'cwee': no such task; did you mean cwe; known: niah_single_1, "),
        ("vt", [4096, LONGEST + 1], f"--lengths {LONGEST + 1}: more than {LONGEST} tokens, up to "
         "which there are enough words for cwe and for haystacks of needles; use a shorter length"),
    ):  # fmt: skip
        with pytest.raises(UsageError) as refused:
            select_suite("ruler", tasks, lengths, None, None)
        assert str(refused.value).startswith(said)


def plan(**changes: Any) -> BuildPlan:  # noqa: ANN401 - of a plan's fields
    made = BuildPlan("x", load_suite("ruler"), Path("x"), 42, sources=None, haystack=None)
    return replace(made, **changes)


OLD = "upstream-2025-01"
#: What is changed of a plan, and the option that its edition does not have.
OPTIONS: list[tuple[dict[str, Any], bool, str]] = [
    ({"edition": "balanced", "reserve": 9, "haystack": "x"}, True, ""),
    ({"edition": OLD}, False, ""),
    ({"edition": OLD}, True, "--fresh"),
    ({"edition": OLD, "haystack": "x"}, False, "--haystack"),
    ({"edition": OLD, "sources_kind": "sample"}, False, "--sources sample"),
    ({"edition": OLD, "reserve": 9}, False, "--reserve 9"),
    ({"edition": "upstream-2026-07", "reserve": 9}, False, ""),
    ({"edition": OLD, "seed": 2**32 - 1}, False, ""),
    ({"edition": OLD, "seed": 2**32}, False, "--seed 4294967296"),
    ({"edition": OLD, "seed": 43}, False, ""),
    ({"edition": "upstream-2024-04", "seed": 43}, False, "--seed 43"),
    ({"edition": OLD, "suite": load_suite("depth")}, False, "--tasks niah_depth"),
]


@pytest.mark.parametrize("number", range(len(OPTIONS)))
def test_options_that_an_edition_lacks_are_refused(number: int) -> None:
    changes, fresh, option = OPTIONS[number]
    made = plan(**changes)
    if not option:
        check_options(made, fresh=fresh)
        return
    with pytest.raises(UsageError) as refused:
        check_options(made, fresh=fresh)
    edition = changes["edition"]
    assert str(refused.value) == f"{option}: not possible with --edition {edition}; leave it out"


def test_only_editions_of_upstream_have_a_template() -> None:
    check_options(plan(edition=OLD, template="meta-llama3"), fresh=False)
    with pytest.raises(UsageError, match=r"^--template: only for --edition upstream-"):
        check_options(plan(template="meta-llama3"), fresh=False)


def test_a_plan_counts_its_configs_and_tokens() -> None:
    made = plan(suite=select_suite("ruler", "vt,cwe", "4k,8k", 3, None))
    assert [*made.configs] == ["vt_4096", "cwe_4096", "vt_8192", "cwe_8192"]
    assert made.configs["cwe_8192"][1] == 8192 and made.tokens == 3 * 2 * (4096 + 8192)


@pytest.mark.parametrize(
    ("workers", "tokens", "most", "count"),
    [(3, 1, None, 3), (3, 1, 3, 3), (3, 1, 2, 2), (0, (1 << 25) - 1, None, 1),
     (0, 1 << 25, None, 2), (0, 1 << 30, 3, 3), (0, 1 << 30, None, 8), (0, 0, None, 1)],
)  # fmt: skip
def test_there_are_as_many_processes_as_work_memory_and_cores_allow(
    workers: int, tokens: int, most: int | None, count: int, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    monkeypatch.setattr(memory, "most_workers", lambda longest: most)
    monkeypatch.setattr(memory, "limit", lambda: 4 << 30)
    assert processes(workers, tokens, 4096) == count
    said = ""
    if 0 < count < workers:
        said = (
            "warning: --workers 3: 2 are used, as each needs 2 of the 4 GiB for all; "
            "RULER_MEMORY=8 for more\n"
        )
    assert capsys.readouterr().err == said


BUILT = BuiltManifest(
    **{field.name: getattr(BASE, field.name) for field in fields(Manifest)},
    folder=Path("dist/x"), seconds={"vt_4096": 1.25, "vt_8192": 0.0},
)  # fmt: skip
TOTAL = "dist/x: 3 configs, 0.0 MB"
SAMPLE = (replace(SQUAD, kind="sample"),)
NOT = "dist/x is NOT RULER but a SAMPLE build:"
CLOSING: list[tuple[Mapping[str, Any], list[str]]] = [
    ({}, [f"{TOTAL}, checked"]),
    ({"seconds": {}}, [f"{TOTAL}: complete, nothing to do"]),
    ({"suite": "hard"}, ["dist/x: 3 configs of the suite hard, 0.0 MB, checked"]),
    ({"edition": OLD}, [f"{TOTAL}, the rows of {OLD} with its known defects"]),
    ({"seed": 2**63},
     [f"{TOTAL}, checked", "dist/x: built from a private seed, which its manifest contains: do not "
      "share the folder; the same command resumes with this seed"]),
    ({"seed": 2**63, "seconds": {}}, [f"{TOTAL}: complete, nothing to do"]),
    ({"sources": SAMPLE},
     [f"{TOTAL}, checked",
      f"{NOT} its texts are the sample corpus of this package; scores cannot be compared"]),
    ({"sources": SAMPLE, "lacking": "no network"},
     [f"{TOTAL}, checked",
      f"{NOT} the real sources are not available (no network); or give --sources DIR with it; the "
      "same command then builds RULER beside it"]),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(CLOSING)))
def test_a_build_ends_with_what_it_is(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    changes, lines = CLOSING[number]
    monkeypatch.delenv("RULER_MAKE", raising=False)
    assert printed(replace(BUILT, **changes)).splitlines()[-len(lines) :] == lines


def test_a_build_shows_each_config_and_how_long_it_took() -> None:
    assert [line.split() for line in printed(BUILT).splitlines()[:-1]] == [
        ["config", "rows", "fill", "mean", "fill", "min", "MB", "seconds"],
        ["vt_4096", "3", "1.0000", "0.9900", "0.00", "1.2"],
        ["vt_8192", "3", "1.0000", "0.9900", "0.00", "0.0"],
        ["qa_1_8192", "3", "1.0000", "0.9900", "0.00", "kept"],
    ]
    record = BUILT.to_record()
    assert record["folder"] == "dist/x" and record["configs"]["vt_4096"]["seconds"] == 1.25
    assert record["configs"]["qa_1_8192"]["seconds"] is None
    assert (BUILT == BASE, replace(BASE, seed=1) == BUILT) == (True, False)


VERSIONS: list[tuple[str, Change, str | None, str]] = [
    ("1.2.3", Change.NONE, None, "1.2.3"), ("1.2.3", Change.PATCH, None, "1.2.4"),
    ("1.2.3", Change.MINOR, None, "1.3.0"), ("1.2.3", Change.MAJOR, None, "2.0.0"),
    ("1.2.3", Change.PATCH, "1.2.9", "1.2.9"), ("1.2.3", Change.MINOR, "1.9.0", "1.9.0"),
    ("1.2.3", Change.MAJOR, "4.0.0", "4.0.0"), ("1.2.3", Change.NONE, "1.2.3", "1.2.3"),
    ("1.2.3", Change.PATCH, "1.3.0",
     "version 1.3.0: since v1.2.3: other bytes of the same rows (why); this is 1.2.4"),
    ("1.2.3", Change.MINOR, "1.3.1",
     "version 1.3.1: since v1.2.3: rows are only added (why); this is 1.3.0"),
    ("1.2.3", Change.MAJOR, "2.1.0",
     "version 2.1.0: since v1.2.3: rows change (why); this is 2.0.0"),
    ("1.2.3", Change.MINOR, "1.2.3",
     "version 1.2.3: v1.2.3 is published with other content, and a tag is never moved; since "
     "v1.2.3: rows are only added (why); this is 1.3.0"),
    ("1.2.3", Change.MINOR, "1.1.0",
     "version 1.1.0: v1.2.3 is published already; since v1.2.3: rows are only added (why); this is "
     "1.3.0"),
    ("1.2.3", Change.NONE, "1.2.4",
     "version 1.2.4: since v1.2.3: nothing changes (why); there is nothing to release after 1.2.3"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(VERSIONS)))
def test_a_version_says_how_a_release_changes_the_one_before(number: int) -> None:
    before, kind, wanted, expected = VERSIONS[number]
    number_wanted = Version.parse(wanted) if wanted else None
    try:
        found = str(choose_version(Version.parse(before), kind, "why", number_wanted))
    except UsageError as error:
        found = str(error)
    assert found == expected


VT = BASE.configs["vt_4096"]
CHANGES: list[tuple[dict[str, Any], tuple[Change, str]]] = [
    ({}, (Change.NONE, "")),
    ({"configs": {**BASE.configs, "vt_4096": replace(VT, digest="x")}},
     (Change.MAJOR, "other rows in vt_4096")),
    ({"configs": {**BASE.configs, "vt_4096": replace(VT, rows=2)}},
     (Change.MAJOR, "other rows in vt_4096")),
    ({"configs": {**BASE.configs, "vt_4096": replace(VT, rows=4, digest="more")}},
     (Change.MINOR, "new: vt_4096 (3 rows, now 4)")),
    ({"configs": {**BASE.configs, "vt_4096": replace(VT, rows=4, digest="other")}},
     (Change.MAJOR, "other rows in vt_4096")),
    ({"configs": {**BASE.configs, **dict([config("cwe_4096"), config("fwe_4096")])}},
     (Change.MINOR, "new: cwe_4096, fwe_4096")),
    ({"configs": {**BASE.configs, "vt_8192": replace(VT, sha256="x")}},
     (Change.PATCH, "other bytes of vt_8192")),
    ({"files": {"README.md": FileInfo(2, "")}}, (Change.PATCH, "other README.md")),
    ({"files": {**BASE.files, "LICENSES.md": FileInfo(2, "")}},
     (Change.PATCH, "other LICENSES.md")),
    ({"pyarrow": "25.0.0"}, (Change.PATCH, "other facts in the manifest")),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(CHANGES)))
def test_the_change_of_a_release_is_that_of_its_rows_bytes_or_facts(number: int) -> None:
    changes, expected = CHANGES[number]
    after = replace(BASE, **changes)
    firsts = {"more": VT.digest, "other": "x"}
    assert change(BASE, after, lambda info, rows: firsts[info.digest]) == expected


def test_a_plan_tells_other_rows_from_other_bytes_of_the_same_rows() -> None:
    again = {"vt_4096": replace(VT, digest="x"), "vt_8192": replace(VT, bytes=10)}
    now = replace(BASE, configs={**BASE.configs, **again})
    before = Snapshot("org/ruler", "v1.0.0", "c" * 40, Path("x"), BASE)
    major = Version.parse("2.0.0")
    made = Plan("org/ruler", False, before, major, Change.MAJOR, "why", now, (), {}, {})
    assert [*made.lines()] == [
        "org/ruler (public): v1.0.0 -> v2.0.0",
        "  vt_4096: other rows, 3 -> 3 rows, 9 -> 9 bytes",
        "  vt_8192: other bytes, 3 -> 3 rows, 9 -> 10 bytes",
        "  1 config unchanged",
    ]


def test_a_release_names_siblings_as_they_are_now_and_keeps_the_others(builds: Builds) -> None:
    built = manifest_of(builds())
    named = replace(built, siblings={"org/a": "a", "org/b": "b"})
    before = Snapshot("org/ruler", "v1.0.0", "c" * 40, builds(), named)
    dataset = Dataset("org/ruler", builds(), built, before)
    now, _ = dataset.compose(Version.parse("1.1.0"), {"org/b": "b, 9 tokens kept free"})
    assert now.siblings == {"org/a": "a", "org/b": "b, 9 tokens kept free"}


def test_consents_are_known_by_name() -> None:
    assert parse_consents("sample,unpinned") == ("sample", "unpinned")
    with pytest.raises(UsageError) as refused:
        parse_consents("sample,all-of-it")
    known = ", ".join(CONSENTS)
    assert str(refused.value) == f"--allow 'all-of-it': no such consent; known: {known}"


def test_a_copy_of_a_real_source_that_is_not_pinned_is_told_and_ones_own_text_is_not() -> None:
    for source, is_told in (
        (SQUAD, False), (replace(SQUAD, pinned=False), True),
        (replace(SQUAD, kind="own", pinned=False), False),
    ):  # fmt: skip
        notes = source_notes(replace(BASE, sources=(source,)))
        assert any(note.startswith("unpinned: ") for note in notes) is is_told


def test_words_and_essays_are_known_by_the_hashes_in_a_manifest() -> None:
    for sha256, version in [*WORDS_VERSIONS.items(), ("0" * 64, "")]:
        words = replace(SQUAD, name="words", sha256=sha256)
        with_words = replace(BASE, sources=(SQUAD, words))
        assert words_of(with_words) == version
        assert plan_of(with_words, Path("x"), "mistral", None, None).words == version
        assert words_of(replace(BASE, sources=(replace(words, name="essays"),))) == ""
    for name, spec in ESSAYS.items():
        essays = replace(SQUAD, name="essays", sha256=min(spec.pinned))
        with_essays = replace(BASE, sources=(SQUAD, essays))
        assert essays_of(with_essays) == name
        assert plan_of(with_essays, Path("x"), "mistral", None, None).essays == name
        assert essays_of(replace(BASE, sources=(replace(essays, name="squad"),))) == "nvidia"
