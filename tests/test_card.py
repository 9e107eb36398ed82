"""The card: printed, written anew; and what the Hub would refuse in it."""

import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from difflib import ndiff
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml
from jinja2 import UndefinedError
from markdown_it import MarkdownIt

from ruler_builders import show
from ruler_builders.card import Address, _example, card_files, excerpt, front_matter
from ruler_builders.sources import CATALOGUE
from ruler_data import TASKS, load
from ruler_data.card_templates import template
from ruler_data.dataset import open_source
from ruler_data.manifest import LOCAL_COPY, Manifest, SourceInfo
from ruler_data.parquet import CANARY, read_rows, to_table
from tests.conftest import Builds, Cli
from tests.tampering import copy_of, manifest_of
from tests.test_golden import compare

#: The lengths of the paper.
LENGTHS = (4096, 8192, 16384, 32768, 65536, 131072)


#: What the Hub accepts in a card's metadata, as far as ours has it (huggingface/hub-docs,
#: `datasetcard.md` and `repositories-licenses.md`): by key, the form of each value.
FORMS = {
    "pretty_name": ".+",
    "language": "[a-z]{2,3}|multilingual|code",
    "license": r"apache-2\.0|mit|cc0-1\.0|cc-by(-nc)?(-sa)?-[234]\.0|unknown|other",
    "license_name": "[a-z0-9][a-z0-9.-]*",
    "license_link": r"LICENSE(\.md)?|https://[^/\s]+/\S*",  # the name of no other file
    "source_datasets": r"[\w-]+/[\w-]+",
    "task_categories": "question-answering|text-generation|text-retrieval|multiple-choice|other",
    "annotations_creators": "(crowdsourc|expert-generat|machine-generat)ed|found|no-annotation",
    "tags": ".{1,100}",
    "size_categories": "n<1K|1K<n<10K|10K<n<100K|100K<n<1M",
}


def card_faults(head: str) -> Iterator[str]:
    """Yield what the Hub would refuse in the YAML of a card."""
    body = yaml.safe_load(head.removeprefix("---\n"))
    for key, form in FORMS.items():
        values = body.get(key, [])
        for value in values if isinstance(values, list) else [values]:
            if not re.fullmatch(form, value):
                yield f"{key}: {value!r}"
    names = [config["config_name"] for config in body["configs"]]
    if len({*names}) < len(names) or not all(re.fullmatch(r"\w[\w.-]*", name) for name in names):
        yield f"configs: {names}"
    if "other" in body["license"] and "license_name" not in body:
        yield "license_name is missing"


def with_configs(manifest: Manifest, names: list[str]) -> Manifest:
    info = next(iter(manifest.configs.values()))
    return replace(manifest, configs=dict.fromkeys(names, info))


def test_a_card_is_printed_and_written_again(builds: Builds, tmp_path: Path, cli: Cli) -> None:
    copy = copy_of(builds(), tmp_path)
    text = (copy / "README.md").read_text(encoding="utf-8")
    assert cli("show", copy, "--card").stdout == text
    changed = text.replace("## How it was made", "## How it came about")
    (copy / "README.md").write_text(changed, encoding="utf-8")
    edited = cli("verify", copy)
    assert edited.returncode == 1 and "README.md: line " in edited.stdout
    options = ("--tokenizer", "mistral-v0.2", "--tasks", "vt,fwe", "--lengths", 1024, "--rows", 3)
    again = cli("build", *options, "--sources", "sample", "--out", copy)
    assert again.returncode == 0, again.stderr
    assert (copy / "README.md").read_text(encoding="utf-8") == text
    assert cli("verify", copy).returncode == 0
    released = cli("show", copy, "--card", "--repo", "org/ruler").stdout
    assert 'load_dataset("org/ruler", "vt_1024", split="test", revision="v1.0.0")' in released
    assert "ruler-data verify org/ruler --revision v1.0.0" in released
    assert "| Data version | 1.0.0 |" in released
    without = cli("show", copy, "--repo", "org/ruler")
    assert without.returncode == 2 and "--repo: --card shows the card" in without.stderr


def test_the_card_of_a_release_needs_no_rows(
    builds: Builds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    commit = "c" * 40
    cached = tmp_path / "datasets--org--ruler" / "snapshots" / commit
    cached.mkdir(parents=True)
    for name in ("manifest.json", "README.md"):
        (cached / name).write_bytes((builds() / name).read_bytes())
    text = (builds() / "README.md").read_text(encoding="utf-8")
    assert f"{show.card(open_source('org/ruler', commit))}\n" == text


def test_a_text_with_a_code_fence_stays_within_the_example(builds: Builds, tmp_path: Path) -> None:
    folder = builds()
    manifest = manifest_of(folder)
    file = next(iter(manifest.configs.values())).file
    with closing(read_rows(folder / file)) as rows:
        row = replace(
            next(rows), context="one\n```\n# two\n````\n# three\n", evidence=(), haystack=None
        )
    pq.write_table(to_table([row]), path := tmp_path / "rows.parquet")
    text = card_files(manifest, lambda _: path)["README.md"].decode()
    assert "\n# two\n" in text and "\n# three\n" in text
    headings = [token.map for token in MarkdownIt().parse(text) if token.type == "heading_open"]
    lines = text.splitlines()
    shown = [lines[place[0]] for place in headings if place]
    assert "# two" not in shown and "# three" not in shown


@pytest.mark.parametrize(
    ("rows", "size"),
    [(999, "n<1K"), (1_000, "1K<n<10K"), (10_000, "10K<n<100K"), (10**5, "100K<n<1M")],
)
def test_the_size_on_the_hub_is_that_of_all_rows(rows: int, size: str, builds: Builds) -> None:
    manifest = manifest_of(builds())
    first, *others = manifest.configs
    configs = dict.fromkeys(others, replace(manifest.configs[first], rows=0))
    configs[first] = replace(manifest.configs[first], rows=rows)
    body = yaml.safe_load(front_matter(replace(manifest, configs=configs)))
    assert body["size_categories"] == [size]


def test_the_metadata_name_licences_and_origins(builds: Builds) -> None:
    manifest = manifest_of(builds())
    real = [
        SourceInfo(one.name, one.title, "real", one.url, "0" * 64, one.licence, "", True, "")
        for one in CATALOGUE.values()
    ]
    released = replace(manifest, sources=tuple(real))
    body = yaml.safe_load(front_matter(released, Address("org/ruler", "v1.2.0")))
    assert (
        body["license"] == ["apache-2.0", "cc-by-sa-4.0", "mit", "other"] and body["license_name"]
    )
    page = "https://huggingface.co/datasets/org/ruler/blob/v1.2.0/LICENSES.md"
    assert body["license_link"] == page, "the Hub refuses the name of a file"
    assert "license_link" not in yaml.safe_load(front_matter(released)), "a folder has no address"
    assert body["source_datasets"] == ["rajpurkar/squad_v2", "hotpotqa/hotpot_qa"]
    assert not {"license_name", "source_datasets"} & yaml.safe_load(front_matter(manifest)).keys()


def test_parts_of_an_example_begin_with_a_sentence(builds: Builds) -> None:
    folder = builds("niah_single_2", length=1536)
    for row in load(folder, "niah_single_2_1536"):
        first, *parts = excerpt(row, 150).split(" [...] ")
        assert row.context.startswith(first) and parts
        for part in parts:
            place = row.context.index(part)
            assert row.context[:place].rstrip()[-1] in ".!?'\")" and part[0].isupper(), part


def test_a_card_of_the_papers_configs_is_read_in_minutes(builds: Builds) -> None:
    folder = builds()
    names = [f"{task}_{length}" for task in TASKS for length in LENGTHS]
    manifest = replace(with_configs(manifest_of(folder), names), data_version="1.2.0")
    path = folder / manifest.configs["vt_4096"].file
    files = card_files(manifest, lambda _: path, Address("org/ruler", "v1.2.0", ""))
    head, _, text = files["README.md"].decode().partition("\n---\n")
    assert list(card_faults(head)) == []
    assert list(card_faults(f"{head}\nlanguage: [English]")) == ["language: 'English'"]
    assert len(head.splitlines()) <= len(names) + 30, "a line for each config"
    assert [config["config_name"] for config in yaml.safe_load(head)["configs"]] == names
    assert "make example" not in text and "in the repository of" not in text
    assert len(text.splitlines()) <= 250 and len(text.encode()) <= 13 * 1024
    for said in (
        "[org](https://huggingface.co/org)", "datasets/org/ruler/discussions",
        "| Code | ruler-data ", "version      = {1.2.0}", "doi          = {}", CANARY,
    ):  # fmt: skip
        assert said in text


def test_a_published_card_links_the_code_once_its_owner_is_named(builds: Builds) -> None:
    folder, manifest = builds(), manifest_of(builds())
    address = "https://github.com/acme/ruler-data"
    for place, linked in ((Address("org/ruler", "v1.0.0", address), True), (None, False)):
        card = card_files(manifest, folder.joinpath, place)["README.md"].decode()
        assert (f"[ruler-data]({address})" in card, f"git+{address}" in card) == (linked, linked)


def test_what_a_card_says_of_other_datasets_is_golden(builds: Builds) -> None:
    """Each line in which it differs from the card of a plain build."""
    folder = builds("vt,fwe")
    built = manifest_of(folder)
    infos = {name: replace(info, bytes=10_000, digest=name) for name, info in built.configs.items()}
    plain = replace(built, configs=infos, data_version="1.0.0", package_version="1.0.0")
    tokenizer = replace(plain.tokenizer, engine="x", files={}, identity="")
    source = SourceInfo(
        "squad", "SQuAD", "real", "https://s", "5" * 64, "CC-BY-SA-4.0", "A", True, "d"
    )
    more = replace(
        infos["vt_1024"], rows=2_000, exhausted=("essays repeat",), audit={"defect": "1"}
    )
    published = Address("org/ruler", "v1.2.3", "https://code.example/x")
    changes: dict[str, dict[str, object]] = {
        "published": {},
        "published with siblings": {"siblings": {"org/ruler": "llama3", "org/ruler-x": "x"}},
        "an edition": {"edition": "upstream-2025-01"},
        "an edition with a template": {
            "edition": "upstream-2026-07", "chat_template": "meta-llama3",
        },
        "imported": {"edition": "imported", "sources": (source,)},
        "a private seed": {"seed": 2**63},
        "room for reasoning": {"tokenizer": replace(tokenizer, extra_reserve=4096)},
        "a mirror": {
            "tokenizer": replace(tokenizer, hub_id="o/t", revision="r", mirror="m/t at 1"),
        },
        "a local copy": {"tokenizer": replace(tokenizer, name="llama3", mirror=LOCAL_COPY)},
        "a real source": {"sources": (source,)},
        "a sample": {"sources": (replace(source, kind="sample"),)},
        "texts of a user": {"sources": (replace(source, kind="own", licence="unknown"),)},
        "a source not pinned": {"sources": (replace(source, pinned=False, detail="other"),)},
        "more rows": {"configs": {**infos, "vt_1024": more}},
        "a suite": {"suite": "mine"},
    }  # fmt: skip
    plain = replace(plain, tokenizer=tokenizer)
    before = card_files(plain, folder.joinpath)
    lines = list[str]()
    for name, changed in changes.items():
        address = published if name.startswith("published") else None
        changed_manifest = replace(plain, **changed)  # type: ignore[arg-type]
        files = card_files(changed_manifest, folder.joinpath, address)
        for file, data in files.items():
            old, new = (text.decode().splitlines() for text in (before[file], data))
            different = [line for line in ndiff(old, new) if line[0] in "+-"]
            lines += [f"## {name}: {file}", *different, ""]
    compare("cards.txt", "\n".join(lines))


def test_the_example_of_a_task_is_the_first_row_of_its_shortest_config(builds: Builds) -> None:
    folders = [builds("vt", length=length) for length in (2048, 1024)]
    infos = [manifest_of(folder).configs for folder in folders]
    (long,), (short,) = (list(configs.values()) for configs in infos)
    asked = list[str]()

    def locate(file: str) -> Path:
        asked.append(file)
        return folders[1] / file

    shown = _example(TASKS["vt"], [(2048, long), (1024, short)], locate)
    assert asked == [short.file]
    assert next(iter(load(folders[1], "vt_1024"))).question in str(shown["question"])


def test_a_card_is_not_rendered_without_one_of_its_facts() -> None:
    with pytest.raises(UndefinedError, match="is undefined"):
        template("dataset.md.j2").environment.from_string("{{ fact }}").render()
