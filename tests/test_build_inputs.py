"""What a build is asked for: done exactly, or refused in one line before anything is written."""

import json
import re
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ruler_data import TASKS
from ruler_data.tokenizers.registry import REGISTRY
from tests.builds import Asked, assert_same, run, snapshot
from tests.commands import one_line, succeeded

FILE = "test-00000-of-00001.parquet"
#: In a real tokenizer, the one that is loaded sooner.
MISTRAL = ("--sources", "sample", "--rows", 2, "--tokenizer", "mistral-v0.2")


@pytest.fixture(scope="session")
def sample(tiny: Path) -> Asked:
    """Two rows of the sample corpus."""
    return ("--sources", "sample", "--rows", 2, "--tokenizer", tiny)


@pytest.fixture(scope="session")
def two_tasks(sample: Asked) -> Asked:
    """Two configs; a length is to follow."""
    return (*sample, "--tasks", "vt,fwe", "--lengths")


@pytest.fixture(scope="module")
def small(two_tasks: Asked, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished build of two configs; not to be changed."""
    folder = tmp_path_factory.mktemp("small") / "out"
    succeeded(run(*two_tasks, 1280, "--out", folder))
    return folder


def test_the_least_length_of_each_task_is_named_and_suffices(tmp_path: Path) -> None:
    line = one_line(run(*MISTRAL, "--lengths", 16, "--out", tmp_path / "never"), code=2)
    minima = dict(re.findall(r"(\w+)_16 needs at least (\d+)", line))
    assert minima.keys() == TASKS.keys() and not (tmp_path / "never").exists()
    for task in ("vt", "qa_2"):  # of each task, `test_fit`
        order = ("--tasks", task, "--lengths", minima[task], "--out", tmp_path / "out", "--force")
        succeeded(run(*MISTRAL, *order))
        path = tmp_path / "out" / f"{task}_{minima[task]}"
        lengths = pq.read_table(path, columns=["length"])["length"].to_pylist()
        assert len(lengths) == 2 and max(lengths) <= int(minima[task])


@pytest.mark.parametrize("name", ["nosuch", "org/nosuch", "llama3", "./nosuch", "/no/such"])
def test_a_tokenizer_that_is_not_here_is_named(two_tasks: Asked, tmp_path: Path, name: str) -> None:
    line = one_line(run(*two_tasks, 1280, "--tokenizer", name, cwd=tmp_path), code=2)
    assert name in line
    expected = f"`ruler-data list tokenizers` lists all {len(REGISTRY)}"
    assert (expected if name not in REGISTRY else "it is not here: give its folder") in line
    assert snapshot(tmp_path) == {}


@pytest.mark.parametrize(
    ("file", "data"),
    [
        ("tokenizer.json", b""),
        ("tokenizer.json", b'{"version": "1.0", "model": {"type"'),
        ("tokenizer_config.json", b"{"),
        ("tokenizer_config.json", b"[]"),
        ("tokenizer_config.json", b"[" * 100_000),
        ("tokenizer_config.json", b'{"chat_template": "{% for %}"}'),
        ("tokenizer_config.json", b'{"chat_template": "{{ messages.__class__.__mro__[1]() }}"}'),
        ("tokenizer_config.json", b'{"chat_template": "{{ nosuch.deep.er }}"}'),
        ("tokenizer_config.json", b'{"chat_template": 7}'),
        ("chat_template.jinja", b"{{ messages[0]['content'] }}{{ ['a', 'a'] | random }}"),
        *[
            ("chat_template.jinja", b"{{ bos_token }}{{ messages[0]['content'][:%d] }}" % cut)
            for cut in (50, 20_000)
        ],
        *[
            ("tokenizer.json", json.dumps({"added_tokens": [], **stages}).encode())
            for stages in (
                {"pre_tokenizer": {"type": "Whitespace"},
                 "model": {"type": "WordLevel", "vocab": {"[UNK]": 0}, "unk_token": "[UNK]"}},
                {"model": {"type": "Unigram", "vocab": [["a", -1.0]], "unk_id": None}},
            )
        ],
    ],
)  # fmt: skip
def test_a_broken_tokenizer_folder_is_refused_in_one_line(
    two_tasks: Asked, tmp_path: Path, tiny: Path, file: str, data: bytes
) -> None:
    folder = tmp_path / "mine"
    shutil.copytree(tiny, folder)
    (folder / file).write_bytes(data)
    line = one_line(run(*two_tasks, 1280, "--tokenizer", folder, "--out", tmp_path / "out"), code=2)
    assert "mine" in line
    assert not (tmp_path / "out").exists()


def test_a_model_that_thinks_needs_a_reserve(two_tasks: Asked, tmp_path: Path, tiny: Path) -> None:
    folder = shutil.copytree(tiny, tmp_path / "mine")
    (folder / "chat_template.jinja").write_text("{{ messages[0]['content'] }}\n<think>\n")
    order = (*two_tasks, 1280, "--tokenizer", folder, "--out", tmp_path / "out")
    said = succeeded(run(*order)).stderr
    assert "opens a block of reasoning" in said and "--reserve 16384" in said
    assert "reasoning" not in succeeded(run(*order, "--reserve", 64, "--force")).stderr


HOSTILE = ("", "../x", "/etc", "two\nlines", "a" * 300, "-rf", "\x1b[31mred")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *[("--tasks", value) for value in (*HOSTILE, "vt,../x", "vt fwe")],
        *[("--tokenizer", value) for value in (*HOSTILE, "org/..", "~nobody-here/x")],
        *[("--lengths", value) for value in ("", "../x", "4096\n8192", "9" * 300, "-rf")],
        *[("--lengths", value) for value in ("0", "5", "4e3", "4096.5", "\u0664096")],
    ],
)
def test_hostile_names_are_refused(sample: Asked, tmp_path: Path, option: str, value: str) -> None:
    line = one_line(run(*sample, option, value, cwd=tmp_path), code=2)
    assert line.isprintable()
    assert len(line) < 1000
    assert snapshot(tmp_path) == {}


def test_a_build_of_other_inputs_is_refused_unless_force_replaces_it(
    sample: Asked, two_tasks: Asked, tmp_path: Path, small: Path
) -> None:
    out = tmp_path / "out"
    shutil.copytree(small, out)
    for option, value in (
        ("--rows", 3), ("--seed", 7), ("--tokenizer", "mistral-v0.2"), ("--reserve", 9),
    ):  # fmt: skip
        line = one_line(run(*two_tasks, 1280, "--out", out, option, value), code=2)
        assert option.strip("-") in line and str(value) in line
        assert_same(out, snapshot(small))
    other = (*sample, "--tasks", "vt", "--lengths", 1280, "--reserve", 9)
    succeeded(run(*other, "--out", out, "--force"))
    succeeded(run(*other, "--out", tmp_path / "fresh"))
    assert_same(out, snapshot(tmp_path / "fresh"))


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (("vt,fwe", "1280"), ("vt,fwe", "1536")),
        (("fwe", "1280,1536"), ("vt", "1280,1536")),
        (("qa_1", "1280,1536"), ("vt", "1280,1536")),
    ],
    ids=["another length", "another task", "a task of other sources"],
)
def test_what_is_added_to_a_finished_folder_leaves_the_old_configs_as_they_are(
    sample: Asked, tmp_path: Path, first: tuple[str, str], then: tuple[str, str]
) -> None:
    out = tmp_path / "out"
    for tasks, lengths in (first, then):
        order = (*sample, "--tasks", tasks, "--lengths", lengths, "--out", out)
        before = {path: path.stat().st_mtime_ns for path in out.rglob("*.parquet")}
        succeeded(run(*order))
        assert {path: path.stat().st_mtime_ns for path in before} == before
    tasks = ",".join(sorted({*first[0].split(","), *then[0].split(",")}))
    whole = (*sample, "--tasks", tasks, "--lengths", "1280,1536", "--out", tmp_path / "fresh")
    succeeded(run(*whole))
    assert_same(out, snapshot(tmp_path / "fresh"))


def test_a_finished_folder_is_repaired(two_tasks: Asked, tmp_path: Path, small: Path) -> None:
    names = ("README.md", "LICENSES.md", *(f"{one}_1280/{FILE}" for one in ("vt", "fwe")))
    for even in (True, False):  # every second one is lost, the others are changed
        out = tmp_path / str(even)
        shutil.copytree(small, out)
        for place, name in enumerate(names):
            data = bytearray((out / name).read_bytes())
            data[len(data) // 2] ^= 1
            (out / name).unlink() if place % 2 == even else (out / name).write_bytes(data)
        succeeded(run(*two_tasks, 1280, "--out", out))
        assert_same(out, snapshot(small))


def test_a_damaged_manifest_needs_force(two_tasks: Asked, tmp_path: Path, small: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(small, out)
    for data in (b"", b"{", b"\xff", b"[]", b'{"format": 9}'):
        (out / "manifest.json").write_bytes(data)
        before = snapshot(out)
        code = 2 if b"format" in data else 1  # of another version
        assert "manifest.json" in one_line(run(*two_tasks, 1280, "--out", out), code)
        assert_same(out, before)
    succeeded(run(*two_tasks, 1280, "--out", out, "--force"))
    assert_same(out, snapshot(small))
