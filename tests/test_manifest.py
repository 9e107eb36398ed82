"""The manifest: what is read of it, and each statement that no build can have made."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ruler_builders.recorded import (
    expected_tokenizer,
    input_findings,
    plan_of,
    stated_of_tokenizer,
)
from ruler_data import TASKS, Manifest, RulerError, UsageError
from ruler_data.manifest import (
    FILENAME,
    LOCAL_COPY,
    ConfigInfo,
    FileInfo,
    SourceInfo,
    TokenizerInfo,
    layout,
    read_manifest,
)
from ruler_data.tasks import Fwe, Niah, task_of

INFO = TokenizerInfo("tiny", None, None, {"tokenizer.json": "1" * 64}, 17, 0, "tokenizers 1.0")
SQUAD = SourceInfo("squad", "SQuAD", "real", "", "5" * 64, "CC", "", pinned=True, detail="")


def config(name: str, **changes: object) -> tuple[str, ConfigInfo]:
    info = ConfigInfo(
        f"{name}/test-00000-of-00001.parquet", 9, "2" * 64, 3, "sha256:3", 4, 5.0, 6, 0.99, 1.0, "q"
    )
    return name, replace(info, **changes)  # type: ignore[arg-type]


BASE = Manifest(
    "1.0.0", "1.0.0", 42, "ruler", INFO, (SQUAD,),
    dict(map(config, ("vt_4096", "vt_8192", "qa_1_8192"))),
    {"README.md": FileInfo(1, "4" * 64)}, "24.0.0",
)  # fmt: skip
OWN = {"mine_x": task_of("mine_x", Niah("noise"), "Mine.")}
#: A folder of one config of that task, with the source that it needs.
MINE: dict[str, object] = {
    "tasks": OWN, "configs": dict([config("mine_x_4096")]),
    "sources": (replace(SQUAD, name="words"),),
}  # fmt: skip

#: What is changed of a manifest, and what no build can have then.
INPUTS: list[tuple[Mapping[str, object], Sequence[str]]] = [
    ({}, []),
    *(({"package_version": version}, [f"package_version {version!r} is no version of ruler-data"])
      for version in ("0.9.0", "1.0", "01.0.0", "1.00.0", "1.0.01", "1.0.0.0", "1.0.0 ", "x")),
    *(({"package_version": version}, []) for version in ("10.0.0", "1.20.3")),
    *(({"pyarrow": version}, [f"pyarrow {version!r} is no version of pyarrow"])
      for version in ("24", "24.", "24.0.0.0.0", "24.0 --index-url x", "")),
    *(({"pyarrow": version}, []) for version in ("24.0", "24.0.0.1")),
    ({"configs": {}}, ["names no config"]),
    ({"edition": "upstream-2030-01"}, ["edition 'upstream-2030-01' is not known"]),
    ({"edition": "upstream-2026-07"}, []),
    ({"edition": "imported"}, []),
    ({"tasks": {"fwe_x": task_of("fwe_x", Fwe(vocabulary=4), "x")}},
     ["task 'fwe_x': vocabulary: 4 words are too few to ask for 3"]),
    (MINE, ["suite ruler has no task 'mine_x'"]),
    (MINE | {"suite": "mine"}, []),
    (MINE | {"suite": "mine", "sources": (SQUAD,)}, ["does not name the source words"]),
    (MINE | {"suite": "mine", "sources": (SQUAD,), "edition": "imported"}, []),
    (MINE | {"tasks": {"mine_x": task_of("mine_x", Niah("domains", domains=("texts",)), "Mine.")},
             "sources": (replace(SQUAD, name="words"),
                         replace(SQUAD, name="domain_texts", kind="own"))}, []),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(INPUTS)))
def test_inputs_that_no_build_has_are_named(number: int) -> None:
    changes, findings = INPUTS[number]
    manifest = replace(BASE, **changes)  # type: ignore[arg-type]
    assert [*input_findings(manifest)] == [f"{FILENAME}: {finding}" for finding in findings]


def test_the_plan_of_a_manifest_is_that_of_its_build(tmp_path: Path) -> None:
    made = replace(
        BASE,
        tokenizer=replace(INFO, extra_reserve=512),
        sources=(replace(SQUAD, kind="sample"), replace(SQUAD, name="words")),
        configs=dict([config("qa_1_8192", rows=9), config("vt_4096")]),
        seed=7,
    )
    plan = plan_of(made, tmp_path, "spec", "real", "mine")
    assert (plan.tokenizer, plan.folder, plan.seed, plan.reserve) == ("spec", tmp_path, 7, 512)
    assert (plan.sources, plan.haystack, plan.sources_kind) == ("real", "mine", "real")
    assert (plan.samples, plan.network, plan.edition) == (frozenset({"squad"}), False, "balanced")
    suite = plan.suite
    assert (suite.name, suite.lengths, suite.rows) == ("ruler", (4096, 8192), 9)
    assert suite.tasks == {name: TASKS[name] for name in ("qa_1", "vt")}
    for edition, given, template in (
        ("balanced", "meta-llama3", "base"), ("upstream-2026-07", "meta-llama3", "meta-llama3"),
        ("upstream-2026-07", "", "base"),
    ):  # fmt: skip
        asked = replace(made, edition=edition, chat_template=given)
        assert plan_of(asked, tmp_path, "", None, None).template == template


@pytest.mark.parametrize(
    ("changes", "tasks", "lengths", "names"),
    [
        ({}, None, None, ["vt_4096", "vt_8192", "qa_1_8192"]),
        ({}, ["vt"], None, ["vt_4096", "vt_8192"]),
        ({}, None, [8192], ["vt_8192", "qa_1_8192"]),
        ({}, ["qa_1", "vt"], [8192, 4096], ["vt_4096", "vt_8192", "qa_1_8192"]),
        ({}, ["qa_1"], [4096], "no config has one of these tasks at one of these lengths"),
        ({}, ["vt1"], None, "task 'vt1' is not in the manifest; did you mean vt; it has qa_1, vt"),
        ({}, None, [99], "length '99' is not in the manifest; it has 4096, 8192"),
    ],
)
def test_configs_are_selected_by_task_and_length(
    changes: dict[str, object], tasks: list[str], lengths: list[int], names: list[str] | str
) -> None:
    if isinstance(names, list):
        assert BASE.select(tasks, lengths) == tuple(names)
        return
    with pytest.raises(UsageError) as refused:
        BASE.select(tasks, lengths)
    assert str(refused.value) == names


#: What is changed of a manifest from elsewhere, and why it is refused.
FORGED: list[tuple[dict[str, object], str]] = [
    ({"configs": dict([config("vt_1x")])}, "x: 'vt_1x' is not a config"),
    ({"configs": dict([config("niah_9_4096")])}, "x: config 'niah_9_4096' has no known task"),
    ({"configs": dict([config("vt_4096", file="vt_8192/test-00000-of-00001.parquet")])},
     "x: config vt_4096 names the file 'vt_8192/test-00000-of-00001.parquet'"),
    ({"configs": dict([config("vt_4096", rows=0)])}, "x: config vt_4096 has no rows"),
    ({"configs": dict([config("vt_4096", rows=1)])}, ""),
    ({"files": {"../x.md": FileInfo(1, "")}},
     "x: names the file '../x.md', which is not of this dataset"),
    ({"files": {"x.md/../../y.md": FileInfo(1, "")}},
     "x: names the file 'x.md/../../y.md', which is not of this dataset"),
    ({"files": {"a-B_9.md": FileInfo(1, ""), "LICENSE": FileInfo(1, "")}}, ""),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(FORGED)))
def test_names_with_which_a_manifest_could_reach_other_files_are_refused(number: int) -> None:
    changes, said = FORGED[number]
    manifest = replace(BASE, **changes)  # type: ignore[arg-type]
    if not said:
        manifest.check("x")
        return
    with pytest.raises(RulerError, match=re.escape(said)):
        manifest.check("x")


def test_a_manifest_is_read_as_it_was_written_and_no_other_text_is(tmp_path: Path) -> None:
    text = BASE.to_json()
    assert Manifest.from_json(text) == BASE
    digest = re.findall(r"sha256:[0-9a-f]{64}", text)[0]
    for before, after, said in (
        ('"seed": 42', '"seed": 43', f"edited after it was written: it says {digest}, its content"),
        ('"suite": "ruler"', '"suite":  "ruler"', "edited after it was written: not the layout of"),
        ('"seed": 42', '"seed": "x"', "not a manifest: seed: Input should be a valid integer; bui"),
        ('"format": 1', '"format": 2',
         "has the manifest format '2' of version '1.0.0' of ruler-data, and this version reads 1: "
         "pip install -U ruler-data"),
        ('"format": 1', '"form": 1', "not a manifest (KeyError: 'format'); build it again"),
    ):  # fmt: skip
        assert before in text
        (tmp_path / FILENAME).write_text(text.replace(before, after))
        with pytest.raises((RulerError, UsageError)) as refused:
            read_manifest(tmp_path)
        assert str(refused.value).startswith(f"{FILENAME}: {said}")
    assert layout({"a": "é"}) == '{\n "a": "é"\n}\n'


def test_a_folder_without_a_manifest_is_named_with_what_it_is(tmp_path: Path) -> None:
    where = f"{str(tmp_path / 'x')!r}: holds no finished build: "
    unfinished = (
        "it has no manifest.json: run `ruler-data build` with the same options to finish it"
    )
    for make, said in (
        ((), "there is no such folder"), (("",), "it has no manifest.json"),
        (("vt_4096",), "it has no manifest.json"), ((".build",), unfinished),
        (("vt_4096", "vt_4096/a.parquet"), unfinished),
        (("run.json",), "it is a run; `ruler-eval status` shows it"),
    ):  # fmt: skip
        for name in make:
            (tmp_path / "x" / name).mkdir(parents=True, exist_ok=True)
        with pytest.raises(UsageError) as refused:
            read_manifest(tmp_path / "x")
        assert str(refused.value) == where + said
        if said == unfinished and ".build" in make:
            (tmp_path / "x" / ".build").rmdir()


def test_rows_are_told_by_their_sources_seed_and_edition() -> None:
    sample = replace(SQUAD, kind="sample", pinned=False)
    own = replace(SQUAD, kind="own", pinned=False)
    loose = replace(SQUAD, pinned=False)
    for sources, facts in (
        ((), (False, False, False)), ((SQUAD,), (False, False, False)),
        ((SQUAD, sample), (True, False, False)), ((SQUAD, loose), (False, True, False)),
        ((own, SQUAD), (False, False, True)),
    ):  # fmt: skip
        made = replace(BASE, sources=sources)
        assert (made.is_sample, made.has_unpinned, made.has_own_texts) == facts
    assert not replace(BASE, seed=2**63 - 1).is_private and replace(BASE, seed=2**63).is_private
    for edition, facts_of_edition in (
        ("balanced", (False, False)), ("imported", (False, True)), ("upstream-x", (True, False)),
    ):  # fmt: skip
        made = replace(BASE, edition=edition)
        assert (made.is_upstream, made.is_imported) == facts_of_edition
    roomy = replace(BASE, tokenizer=replace(INFO, extra_reserve=1))
    assert (BASE.protocol, roomy.protocol) == ("completion", "thinking")
    assert replace(roomy, chat_template="x").protocol == "base"
    assert repr(replace(BASE, seed=2**63)) == (
        "<Manifest 1.0.0, balanced, suite ruler, seed a private one, tokenizer tiny: "
        "vt_4096, vt_8192, qa_1_8192>"
    )


HUB = replace(INFO, name="llama3", hub_id="org/copy", revision="r" * 40, identity="9" * 64)
OTHER = {"tokenizer.json": "7" * 64}


def test_a_tokenizer_from_elsewhere_may_have_other_files_of_the_same_tokens() -> None:
    here = replace(HUB, files=OTHER, template_reserve=18, engine="gigatoken 1")
    # From the same place, other hashes are wrong.
    assert expected_tokenizer(HUB, here).files == OTHER
    # From another place, they are as recorded if the tokens are the same.
    for there in (replace(here, mirror=LOCAL_COPY), replace(here, revision="s" * 40)):
        found = expected_tokenizer(HUB, there)
        assert (found.files, found.template_reserve, found.engine) == (HUB.files, 18, HUB.engine)
        assert (found.name, found.revision, found.mirror) == ("llama3", HUB.revision, HUB.mirror)
        assert expected_tokenizer(HUB, replace(there, identity="8" * 64)).files == OTHER
        strange = replace(HUB, files={"x.model": "7" * 64})
        assert expected_tokenizer(strange, there).files == OTHER
    # The registry's own id and name stand for a copy's; another folder's name is stated.
    assert expected_tokenizer(HUB, here).hub_id == "meta-llama/Llama-3.1-8B-Instruct"
    assert expected_tokenizer(replace(HUB, name="qwen3"), here).name == "llama3"
    assert expected_tokenizer(replace(HUB, name="mine"), here).name == "mine"


def test_tokenizers_count_alike_by_their_files_or_by_an_identity_that_is_known() -> None:
    other = replace(HUB, files=OTHER)
    assert HUB.counts_like(other) and HUB.counts_like(replace(HUB, identity=""))
    assert not HUB.counts_like(replace(other, identity="8" * 64))
    assert not replace(HUB, identity="").counts_like(replace(other, identity=""))


def test_what_decides_no_row_is_stated_of_a_tokenizer() -> None:
    engine = "tokenizer.engine: tokenizers 1.0"
    assert [*stated_of_tokenizer(HUB, HUB)] == [
        engine, "tokenizer.hub_id: org/copy", f"tokenizer.revision: {'r' * 40}"
    ]  # fmt: skip
    assert [*stated_of_tokenizer(INFO, replace(INFO, files=OTHER))] == [
        engine,
        "tokenizer.name: tiny",
        f"tokenizer.files: tokenizer.json {'1' * 64} (those here give the same tokens)",
    ]
    renamed = [*stated_of_tokenizer(HUB, replace(HUB, name="qwen3"))]
    assert renamed[-1] == "tokenizer.name: llama3"
