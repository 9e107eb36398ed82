"""Siblings: released together, listed in one index, and found by a model's tokenizer."""

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from ruler_builders.publish.siblings import label, sibling_builds
from ruler_data import RulerError, UsageError
from ruler_data.index import LARGEST, Index, Sibling
from ruler_data.manifest import TokenizerInfo
from ruler_data.tokenizers import load_tokenizer
from tests import commands, forks
from tests.commands import Done, call_in, one_line, succeeded
from tests.hub import WRITE, Hub, running
from tests.publishing import Site
from tests.running import tiny as models

COMMIT, TAG, INDEX = "POST .*/commit/", "POST .*/tag/", "index.json"
ROWS = ("--tasks", "vt,fwe", "--lengths", "2048", "--rows", "3", "--sources", "sample")


class Owner:
    """Who releases siblings: a Hub, two tokenizers and a folder for the builds."""

    def __init__(self, hub: Hub, root: Path) -> None:
        self.hub, self.root = hub, root
        hub.orgs += ["acme", "broken", "dry", "own", "plain", "think"]
        other = models.make_model(root / "models" / "other")
        models.make_tokenizer(other, models.QWEN3, bos=None, adds_bos=False)
        self.models = [models.make_model(root / "models" / "tiny"), other]
        self.env = {**hub.env(), "HF_HOME": str(root / "hf"), "HF_TOKEN": WRITE}
        self.pool = forks.pool({**os.environ, **self.env})
        reads = {"HF_TOKEN": "", "HF_HOME": str(root / "reader")}
        self.readers = forks.pool({**os.environ, **self.env, **reads})

    def arguments(self, org: str, *more: object, version: str = "1.0.0") -> list[object]:
        names = ",".join(map(str, self.models))
        options = ["--repo", f"{org}/ruler", "--version", version, "--tokenizers", names]
        return ["publish", *options, "--allow", "sample", *more]

    def release(self, org: str, *more: object) -> Done:
        for model in self.models:
            self.build(model, self.root / "dist" / model.name)
        return self.call(*self.arguments(org, *more))

    def build(self, model: Path, out: Path, *more: object) -> None:
        succeeded(self.call("build", "--tokenizer", model, *ROWS, "--out", out, *more))

    def call(self, *arguments: object) -> Done:
        return call_in(self.pool, "ruler-data", *arguments, cwd=self.root)

    def reader(self, program: str, *arguments: object) -> Done:
        return call_in(self.readers, program, *arguments, cwd=self.root)

    def index(self, org: str) -> list[dict[str, Any]]:
        text = self.hub.repos[f"{org}/ruler"].files("main")[INDEX].data
        siblings: list[dict[str, Any]] = json.loads(text)["siblings"]
        return siblings


@pytest.fixture(scope="module")
def owner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Owner]:
    with running() as hub:
        owner = Owner(hub, tmp_path_factory.mktemp("owner"))
        with owner.pool, owner.readers:
            yield owner


@pytest.fixture(scope="module")
def released(owner: Owner) -> str:
    """The owner of a release."""
    succeeded(owner.release("acme"))
    return "acme"


def test_a_card_names_a_sibling_with_the_thousands_of_tokens_that_it_keeps_free() -> None:
    info = TokenizerInfo("tiny", None, None, {}, 0, 16_384, engine="tokenizers 0")
    assert label(info) == "tiny, 16,384 tokens kept free"
    assert label(replace(info, extra_reserve=0)) == "tiny"


@pytest.mark.slow
def test_siblings_have_one_version_and_one_list(owner: Owner, released: str) -> None:
    repos = [f"{released}/ruler", f"{released}/ruler-other"]
    index = owner.index(released)
    assert [one["repo"] for one in index] == repos
    for one in index:
        assert one["tag"] == "v1.0.0"
        assert owner.hub.repos[one["repo"]].tags == {"v1.0.0": one["commit"]}
    assert len({one["fingerprint"] for one in index}) == 2
    files = (owner.hub.repos[repo].files("v1.0.0") for repo in repos)
    first, other = (held["README.md"].data.decode() for held in files)
    assert "| tiny | this one |" in first and "| other | this one |" in other
    assert f"| other | [{repos[1]}](https://hugg" in first
    assert f"find --model MODEL --in {repos[0]}`" in other
    owner.hub.requests.clear()
    again = succeeded(owner.release(released))
    assert owner.hub.writes() == []
    assert again.stdout.count("is published already") == 2


@pytest.mark.slow
def test_a_dry_run_of_what_is_published_leaves_the_index_as_it_is(owner: Owner) -> None:
    succeeded(owner.release("dry"))
    first, folder = "dry/ruler", owner.root / "dist" / "other"
    owner.hub.foreign_commit(first, INDEX, Index().to_json().encode())
    owner.hub.requests.clear()
    asked = ("publish", folder, "--repo", "dry/ruler-other", "--version", "1.0.0")
    more = ("--allow", "sample", "--index", first)
    done = succeeded(owner.call(*asked, *more, "--dry-run"))
    assert "is published already" in done.stdout and owner.hub.writes() == []
    assert owner.index("dry") == []
    owner.hub.create("dry/foreign")
    owner.hub.foreign_commit("dry/foreign", "data.csv")
    for repo, why in (("none", "the Hub does not have it"), ("foreign", "has no index.json and")):
        refused = owner.call(*asked, *more[:-1], f"dry/{repo}")
        assert refused.returncode == 1 and why in refused.stderr, refused.stderr
    assert owner.hub.writes() == []
    done = succeeded(owner.call(*asked, *more))
    assert [one["repo"] for one in owner.index("dry")] == ["dry/ruler-other"]


@pytest.mark.slow
def test_a_repo_with_an_index_lists_what_is_published_into_it_alone(owner: Owner) -> None:
    succeeded(owner.release("own"))
    first, grown = "own/ruler", owner.root / "grown"
    ours = ("--tokenizer", owner.models[0], "--tasks", "vt,fwe", "--lengths", "2048", "--rows", "4")
    succeeded(owner.call("build", *ours, "--sources", "sample", "--out", grown))
    again = ("publish", grown, "--repo", first, "--allow", "sample")
    succeeded(owner.call(*again))
    assert {one["repo"]: one["tag"] for one in owner.index("own")} == {
        first: "v1.1.0",
        "own/ruler-other": "v1.0.0",
    }


def test_each_tokenizer_of_a_release_has_a_folder_and_a_repo() -> None:
    builds = sibling_builds("acme/ruler", "llama3,org/qwen3")
    assert [(build.tokenizer, build.repo, str(build.folder)) for build in builds] == [
        ("llama3", "acme/ruler", "dist/llama3"),
        ("org/qwen3", "acme/ruler-qwen3", "dist/qwen3"),
    ]
    with pytest.raises(UsageError, match=r"name each tokenizer once.*llama3\.3 is llama3"):
        sibling_builds("acme/ruler", "llama3,llama3.3")


def test_find_tells_rows_with_room_for_reasoning_from_the_plain_ones() -> None:
    info = TokenizerInfo("tiny", None, None, {"a": "b"}, 0, 0, "x")
    known = info.fingerprint
    index = Index(
        tuple(
            Sibling(f"org/{name}", "v1.0.0", "c" * 40, "tiny", known, ("org/m",), (), reserve)
            for name, reserve in (("ruler", 0), ("ruler-r16k", 16384), ("ruler-r8k", 8192))
        )
    )
    for reserve, name in ((0, "ruler"), (1, "ruler-r8k"), (8193, "ruler-r16k"), (16385, None)):
        for found in (index.of_tokenizer(info, reserve), index.of_model("org/m", reserve)):
            assert (found.repo if found else None) == (f"org/{name}" if name else None)
    assert index.of_tokenizer(replace(info, files={})) is None


def test_an_index_that_is_named_goes_before_that_of_the_first_repo(
    site: Site, tmp_path: Path
) -> None:
    shutil.copytree(site.builds(), tmp_path / "dist" / "mistral-v0.2")
    asked = ("publish", "--tokenizers", "mistral-v0.2", "--repo", site.repo, "--dry-run")
    pool, env = site.publisher.pool, site.publisher.env()
    succeeded(call_in(pool, "ruler-data", *asked, cwd=tmp_path, env=env))
    more = ("--index", "org/none")
    said = one_line(call_in(pool, "ruler-data", *asked, *more, cwd=tmp_path, env=env), 1)
    assert said.startswith("ruler-data: org/none at main: index.json: the Hub does not have it")


@pytest.mark.slow
def test_rows_with_room_for_reasoning_are_a_sibling_that_an_index_lists(owner: Owner) -> None:
    model, first = owner.models[0], "think/ruler"
    owner.build(model, owner.root / "dist" / model.name)
    named = ("--version", "1.0.0", "--allow", "sample")
    succeeded(owner.call("publish", "--tokenizers", model, "--repo", first, *named))
    roomy = owner.root / "dist" / "tiny-r512"
    owner.build(model, roomy, "--reserve", 512)
    more = ("--repo", "think/ruler-r512", "--index", first)
    succeeded(owner.call("publish", roomy, *more, *named))
    assert {one["repo"]: one["reserve"] for one in owner.index("think")} == {
        first: 0,
        "think/ruler-r512": 512,
    }
    wanted = ("find", "--model", model, "--in", first)
    assert f"\n{first} v1.0.0, commit" in succeeded(owner.reader("ruler-data", *wanted)).stdout


@pytest.mark.slow
def test_a_repo_that_a_plain_publish_made_is_found_without_an_index(owner: Owner) -> None:
    folder, repo = owner.root / "dist" / "tiny", "plain/rows"
    rows = ("--tokenizer", owner.models[0], *ROWS, "--out", folder)
    succeeded(owner.call("build", *rows))
    succeeded(
        owner.call("publish", folder, "--repo", repo, "--version", "1.0.0", "--allow", "sample")
    )
    wanted = ("find", "--model", owner.models[0], "--in", repo)
    assert f"{repo} v1.0.0, commit" in succeeded(owner.reader("ruler-data", *wanted)).stdout
    owner.hub.requests.clear()
    by_name = succeeded(owner.reader("ruler-data", "find", "--model", "tiny", "--in", repo))
    assert f"{repo} v1.0.0, commit" in by_name.stdout
    assert not [line for line in owner.hub.requests if repo not in line]
    owner.hub.create("plain/empty")
    missing = owner.reader("ruler-data", *wanted[:-1], "plain/empty")
    assert missing.returncode == 1 and "has no index.json and no release" in missing.stderr


@pytest.mark.slow
def test_a_repo_that_lists_a_sibling_leads_to_its_own_rows_as_before(owner: Owner) -> None:
    first, options = "plain/first", ("--version", "1.0.0", "--allow", "sample")
    for model, repo, more in zip(
        owner.models, (first, "plain/second"), ((), ("--index", first)), strict=True
    ):
        folder = owner.root / "dist" / model.name
        succeeded(owner.call("build", "--tokenizer", model, *ROWS, "--out", folder))
        succeeded(owner.call("publish", folder, "--repo", repo, *options, *more))
    for model, repo in zip(owner.models, (first, "plain/second"), strict=True):
        wanted = ("find", "--model", model, "--in", first)
        assert f"\n{repo} v1.0.0, commit" in succeeded(owner.reader("ruler-data", *wanted)).stdout


@pytest.mark.slow
def test_a_damaged_index_stops_a_release_before_anything_is_sent(owner: Owner) -> None:
    owner.hub.create("broken/ruler")
    for data, why in (
        (b"[]", "not an index of ruler-data"),
        (b" " * (LARGEST + 1), f"holds {LARGEST + 1:,} bytes"),
    ):
        owner.hub.foreign_commit("broken/ruler", INDEX, data)
        owner.hub.requests.clear()
        done = owner.release("broken")
        assert done.returncode == 1 and why in done.stderr, done.stderr
        assert owner.hub.writes() == []


@pytest.mark.slow
def test_a_model_finds_its_rows_and_a_run_takes_them(owner: Owner, released: str) -> None:
    model, repo = owner.models[1], f"{released}/ruler"
    found = json.loads(
        succeeded(
            owner.reader("ruler-data", "find", "--model", model, "--in", repo, "--json")
        ).stdout
    )
    assert found["release"]["repo"] == f"{released}/ruler-other"
    code = found["load"].replace('load_dataset("', 'load("').replace(', split="test"', "")
    assert code == f'load("{released}/ruler-other", "vt_2048", revision="v1.0.0")'
    out = owner.root / "run"
    run = ("run", "--data", repo, "--model", model, "--engine", "oracle", "--out", out)
    done = succeeded(owner.reader("ruler-eval", *run))
    assert f"rows for the tokenizer of other: {released}/ruler-other v1.0.0" in done.stderr
    recorded = json.loads((out / "run.json").read_text(encoding="utf-8"))["data"]
    assert recorded["repo"] == f"{released}/ruler-other"
    assert recorded["revision"] == found["release"]["commit"]
    scored = succeeded(owner.reader("ruler-eval", "score", out, "--data", repo))
    assert "100" in scored.stdout


def test_a_tokenizer_that_was_saved_again_is_the_same(tiny: Path, tmp_path: Path) -> None:
    again = Tokenizer.from_file(str(tiny / "tokenizer.json"))
    again.add_special_tokens(["<|pad|>"])
    again.save(str(tmp_path / "tokenizer.json"), pretty=True)
    config = (tiny / "tokenizer_config.json").read_bytes()
    (tmp_path / "tokenizer_config.json").write_bytes(config + b"\n")
    first, second = (load_tokenizer(str(folder)).info for folder in (tiny, tmp_path))
    assert first.identity == second.identity != "" and first.files != second.files


@pytest.mark.slow
def test_without_rows_the_command_to_build_is_named(owner: Owner, released: str) -> None:
    repo = f"{released}/ruler"
    done = succeeded(owner.reader("ruler-data", "find", "--model", "mistral", "--in", repo))
    assert "ruler-data build --tokenizer mistral" in done.stdout
    model = models.make_model(owner.root / "models" / "third")
    models.make_tokenizer(model, models.GEMMA)
    run = ("run", "--data", repo, "--model", model, "--engine", "oracle", "--out", "third")
    refused = owner.reader("ruler-eval", *run)
    assert refused.returncode == 2 and "none for the tokenizer of third" in refused.stderr


def test_an_index_of_a_stranger_is_checked_before_it_is_used() -> None:
    sibling = Sibling("org/ruler", "v1.0.0", "c" * 40, "llama3", "f" * 64, ("org/model",))
    text = Index((sibling,)).to_json()
    assert Index.from_json(text.encode(), "x") == Index((sibling,))
    newer = text.replace('"repo"', '"later": 1, "repo"')
    assert Index.from_json(newer.encode(), "x") == Index((sibling,))
    for wrong in (
        text.replace('"format": 1', '"format": 2'), text.replace("org/ruler", "../x/y"),
        text.replace("v1.0.0", "a b"), text.replace("c" * 40, "main"),
        text.replace("llama3", "a b"),
        "[" * 100_000, "{}", "\xff",
    ):  # fmt: skip
        with pytest.raises(RulerError, match="index") as error:
            Index.from_json(wrong.encode(), "org/ruler: index.json")
        assert "\n" not in str(error.value)


def test_a_tokenizer_that_is_not_there_is_named_before_another_is_built(tmp_path: Path) -> None:
    model = models.make_model(tmp_path / "here")
    command = ("publish", "--repo", "org/ruler", "--version", "1.0.0", "--sources", "sample")
    done = commands.call(
        "ruler-data", *command, "--tokenizers", f"{model},{tmp_path / 'nosuch'}", cwd=tmp_path
    )
    assert done.returncode == 2 and "is not a registry name" in done.stderr, done.stderr
    assert [*tmp_path.iterdir()] == [model]


@pytest.mark.parametrize(
    "options",
    [
        ("--tokenizers", "mistral,mistral"), ("--tokenizers", ","), ("--version", "1.0"),
        ("--repo", "a/b/ruler"), ("--tokenizers", "a/.."), ("--tokenizers", "mistral,mistal"),
    ],
)  # fmt: skip
def test_impossible_releases_are_refused_at_once(options: tuple[str, str], tmp_path: Path) -> None:
    given = {"--repo": "org/ruler", "--version": "1.0.0", "--tokenizers": "mistral"} | dict(
        [options]
    )
    done = commands.call("ruler-data", "publish", *(x for pair in given.items() for x in pair))
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done.stderr
