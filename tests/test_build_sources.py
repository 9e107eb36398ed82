"""Sources as users have them: damaged, changed, differently encoded, or not there at all."""

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ruler_builders.sources import Library
from ruler_data import RulerError
from tests.builds import run, snapshot
from tests.commands import Done, one_line, succeeded

Build = Callable[..., Done]

#: sha256 of SQuAD's own dev-v2.0.json and of HotpotQA's hotpot_dev_distractor_v1.json.
SQUAD = "80a5225e94905956a6446d296ca1093975c4d3b3260f1d6c8f68bc2ab77182d8"
HOTPOTQA = "4e9ecb5c8d3b719f624d66b60f8d56bf227f03914f5f0753d6fa1b359d7104ea"
TASK = {"squad.json": "qa_1", "hotpotqa.json": "qa_2", "essays.json": "niah_single_2"}
TEXT = "A harbour is a place. Ships come and go. " * 20
PORTS = ["Arvel", "Bodun", "Cimre", "Dolza", "Ervik", "Fontal"]


def squad(port: str = "Arvel", answer: str = "") -> bytes:
    """A small source in SQuAD 2.0 format; its first port may be spelt in any way."""
    paragraphs = [
        {
            "context": f"The harbour of {name} has {12 + i} cranes. " + "Ships come and go. " * i,
            "qas": [
                {
                    "question": f"How many cranes has the harbour of {name}?",
                    "answers": [{"text": answer or str(12 + i)}],
                    "is_impossible": False,
                }
            ],
        }
        for i, name in enumerate([port, *PORTS[1:]])
    ]
    body = {"version": "v2.0", "data": [{"title": "Harbours", "paragraphs": paragraphs}]}
    return json.dumps(body, indent=1).encode()


def hotpotqa(port: str = "Arvel", fact: str = "Arvel") -> bytes:
    """A small source in HotpotQA's distractor format."""
    items = [
        {
            "question": f"Who owns the harbour of {name}?",
            "answer": f"Duke {i}",
            "supporting_facts": [[fact if i == 0 else name, 0]],
            "context": [[name, [f"It belongs to Duke {i}."]], ["Tides", ["They come and go."]]],
        }
        for i, name in enumerate([port, *PORTS[1:]])
    ]
    return json.dumps(items).encode()


def essays(text: object = TEXT) -> bytes:
    return json.dumps({"text": text}).encode()


@pytest.fixture
def build(tiny: Path) -> Build:
    """Build the task that is made of a source, from the sources in a folder."""

    def built(folder: Path, file: str, *more: object) -> Done:
        order = ("--sources", folder, "--sources-kind", "real", "--tasks", TASK[file], "--rows", 2)
        tokens = ("--tokenizer", tiny, "--lengths", 1280)
        return run(*order, *tokens, "--out", folder.parent / "out", *more)

    return built


def rows_of(folder: Path) -> dict[str, bytes]:
    return {name: data for name, data in snapshot(folder).items() if name.endswith(".parquet")}


@pytest.fixture
def sources(tmp_path: Path, shared: Path) -> Path:
    """A folder for sources with the sentence model in it."""
    shutil.copytree(shared / "sources" / "nltk_data", tmp_path / "sources" / "nltk_data")
    return tmp_path / "sources"


GOOD = squad()
NOT_UTF8 = GOOD.replace(b"Ships", b"Sh\xefps", 1)
NUL = GOOD.replace(b"Ships", b"Sh\0ps", 1)


@pytest.mark.parametrize(
    ("file", "data", "said"),
    [
        ("squad.json", GOOD[:999], "not JSON at character 9"),
        ("squad.json", b"", "not JSON at character 0"),
        ("squad.json", b'{"data": 3}', "not in SQuAD 2.0 format"),
        ("squad.json", b"null", "not in SQuAD 2.0 format"),
        ("squad.json", hotpotqa(), "not in SQuAD 2.0 format"),
        ("squad.json", squad(answer=" "), "not in SQuAD 2.0 format"),
        ("squad.json", b'{"data": []}', "no answerable question"),
        ("squad.json", b"[" * 200_000, "nested"),
        ("squad.json", NOT_UTF8, f"not UTF-8 at byte {NOT_UTF8.index(0xEF)}:"),
        ("squad.json", GOOD.decode().encode("utf-16"), "not UTF-8 at byte 0:"),
        ("squad.json", NUL, f"NUL at byte {NUL.index(0)}"),
        ("squad.json", squad(port="Ar\0el"), "NUL at character 17"),
        ("squad.json", squad(port="\ud800"), "lone surrogate '\\ud800' at character 15"),
        ("squad.json", squad(answer="12\udfff"), "lone surrogate '\\udfff' at character 2"),
        ("hotpotqa.json", GOOD, "not in HotpotQA distractor format"),
        ("hotpotqa.json", hotpotqa(fact="Nowhere"), "not in HotpotQA distractor format"),
        ("hotpotqa.json", hotpotqa(port="\udc00", fact="\udc00"), "lone surrogate '\\udc00'"),
        ("essays.json", GOOD, "not in the essays format"),
        ("essays.json", essays(7), "not in the essays format"),
        ("essays.json", essays(""), "no sentence"),
        ("essays.json", essays("Ships.\ud800"), "lone surrogate '\\ud800' at character 6"),
        ("essays.json", b'{"text": ' + b"9" * 5000 + b"}", "essays.json"),
    ],
)
def test_a_damaged_source_is_refused_with_its_name_and_the_place(
    build: Build, sources: Path, file: str, data: bytes, said: str
) -> None:
    (sources / file).write_bytes(data)
    done = build(sources, file)
    warning, line = done.stderr.splitlines()
    assert done.returncode == 1
    assert line.startswith(f"ruler-data: {file}: ")
    assert said in line
    assert hashlib.sha256(data).hexdigest() in warning
    assert not (sources.parent / "out").exists()


@pytest.mark.parametrize("file", list(TASK))
@pytest.mark.parametrize("kind", ["folder", "dangling link", "two files", "none"])
def test_a_source_that_is_no_one_file_is_refused_in_one_line(
    build: Build, sources: Path, file: str, kind: str
) -> None:
    if kind == "folder":
        (sources / file).mkdir()
    elif kind == "dangling link":
        (sources / file).symlink_to("nowhere")
    elif kind == "two files":
        for name in (file, file.replace(".", "-2.")):
            (sources / name).write_bytes(GOOD)
    done = build(sources, file)
    assert file.removesuffix(".json") in one_line(done, done.returncode)
    assert done.returncode in (1, 2)
    assert not (sources.parent / "out").exists()


@pytest.mark.parametrize(
    ("file", "clean", "other"),
    [
        ("squad.json", GOOD, b"\xef\xbb\xbf" + GOOD),
        ("squad.json", GOOD, GOOD.replace(b"\n", b"\r\n")),
        ("squad.json", GOOD, GOOD.replace(b"\n", b"\r")),
        ("squad.json", squad("\U0001f6a2"), squad("!").replace(b"!", "\U0001f6a2".encode())),
        ("essays.json", essays(), b"\xef\xbb\xbf" + essays(TEXT.replace(" ", " \r\n"))),
    ],
    ids=["BOM", "CR LF", "CR", "escaped surrogate pair", "essays"],
)
def test_the_same_text_in_another_encoding_gives_the_same_rows(
    build: Build, sources: Path, file: str, clean: bytes, other: bytes
) -> None:
    rows = []
    for data in (clean, other):
        (sources / file).write_bytes(data)
        succeeded(build(sources, file))
        rows.append(rows_of(sources.parent / "out"))
        shutil.rmtree(sources.parent / "out")
    assert len(rows[0]) == 1
    assert rows[0] == rows[1]


@pytest.mark.parametrize(
    ("local", "file", "pin"),
    [
        ("squad-dev-v2.0.json", "squad.json", SQUAD),
        ("hotpotqa-distractor-sample.json", "hotpotqa.json", HOTPOTQA),
    ],
)
def test_one_flipped_bit_is_told_by_both_hashes_and_strict_sources_refuses_it(
    build: Build, sources: Path, shared: Path, local: str, file: str, pin: str
) -> None:
    data = bytearray((shared / "sources" / local).read_bytes())
    data[data.index(b"the ", len(data) // 2)] ^= 1  # a letter of some text becomes another
    (sources / file).write_bytes(data)
    found = hashlib.sha256(data).hexdigest()
    strict = one_line(build(sources, file, "--strict-sources"), code=1)
    assert not (sources.parent / "out").exists()
    done = build(sources, file)
    succeeded(done)
    for said in (strict, *done.stderr.splitlines()):
        assert re.search(rf"{file}: .* sha256 expected {pin}.*, found {found};", said)
    used = json.loads((sources.parent / "out" / "manifest.json").read_bytes())["sources"]
    assert [(one["sha256"], one["pinned"]) for one in used] == [(found, False)]


def test_a_folder_built_from_another_version_of_a_source_is_refused_with_both_hashes(
    build: Build,
    sources: Path,
) -> None:
    for data in (GOOD, squad("Arwel")):
        (sources / "squad.json").write_bytes(data)
        done = build(sources, "squad.json")
    line = done.stderr.splitlines()[-1]
    before, now = (hashlib.sha256(data).hexdigest() for data in (GOOD, squad("Arwel")))
    assert done.returncode == 2
    assert f"source squad {before}, now {now}" in line


def test_a_folder_that_lacks_a_wanted_source_is_an_error_that_says_what_was_sought(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RULER_OFFLINE", "1")
    monkeypatch.setenv("RULER_CACHE", str(tmp_path / "cache"))
    (tmp_path / "sources").mkdir()
    with pytest.raises(RulerError, match=r"sources \(squad\*\.json or dev-v2\.0\*\.json\)"):
        Library(tmp_path / "sources").corpus("squad")
    Library(tmp_path / "sources", "sample").corpus("squad")
