"""Texts of one's own travel to machines that have no file of ours."""

from pathlib import Path

import pytest

from ruler_builders.pipeline.build_context import open_context, worker_context
from ruler_builders.pipeline.fit import make_row
from ruler_builders.pipeline.plan import BuildPlan
from ruler_builders.pipeline.ray_build import pack, unpack
from ruler_data.suites import RULER, load_suite, with_own_domains
from tests.test_haystack import TEXT, folder_of

FILES = {
    "a folder that is a domain": {"a.txt": TEXT, "b.md": TEXT.upper()},
    "sub-folders": {"letters/a.txt": TEXT, "letters/2020/b.txt": TEXT.upper(), "notes/c.txt": TEXT},
}


@pytest.mark.parametrize("what", FILES)
def test_rows_made_from_a_bundle_are_those_made_here(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RULER_CACHE", str(tmp_path / "cache"))  # unpacking sets another
    folder = folder_of(tmp_path / "memos", FILES[what])
    plan = BuildPlan(
        "mistral-v0.2", RULER, tmp_path / "out", 42, sources_kind="sample", haystack=folder
    )
    here = open_context(plan)
    own = here.sources.library.own
    assert own
    suite = with_own_domains(load_suite("domains"), tuple(own.domains))
    tasks = [suite.tasks[f"niah_domain_{name}"] for name in own.domains]
    made = [make_row(task, here.sources, 0, here.target(1024)).unpack() for task in tasks]
    bundle = pack(plan, here)
    folder.rename(tmp_path / "gone")
    monkeypatch.setenv("RULER_OFFLINE", "1")  # a worker sets both, which are to end with the test
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    there = worker_context(unpack(bundle))
    again = [make_row(task, there.sources, 0, there.target(1024)) for task in tasks]
    assert [row.unpack() for row in again] == made
    assert all("fences" in row.context.lower() for row in made)
    named = (bundle[0].tokenizer, bundle[0].sources, bundle[0].haystack)
    assert str(tmp_path) not in repr(named)
