"""Texts of one's own: `--haystack DIR`, from a build to a refusal to publish it."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ruler_builders.sources.domains import find_user_texts
from ruler_data import UsageError
from ruler_data.tokenizers import load_tokenizer
from tests.builds import run
from tests.commands import OF_A_FOLDER, one_line
from tests.conftest import Cli
from tests.publishing import Publisher

TEXT = "\n".join(f"Clause {n}. The party of part {n} shall mend {n} fences.\n" for n in range(300))
COMMON = ("--tokenizer", "mistral-v0.2", "--sources", "sample")
ORDER = ("--suite", "domains", *COMMON, "--lengths", 1024, "--rows", 3)


def folder_of(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    files = {"contracts/a.txt": TEXT, "contracts/old/b.md": TEXT.upper(), "letters/c.py": TEXT * 2}
    hidden = {".git/config": "secret", "letters/.DS_Store": "\0"}
    return folder_of(tmp_path_factory.mktemp("texts") / "mine", files | hidden)


@pytest.fixture(scope="module")
def built(texts: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("own") / "out"
    tasks = "niah_domain_contracts,niah_domain_letters,niah_domain_all"
    done = run(*ORDER, "--haystack", texts, "--tasks", tasks, "--out", out, "--workers", 2)
    assert done.returncode == 0, done.stderr
    return out


def test_each_sub_folder_is_a_domain(texts: Path, tmp_path: Path) -> None:
    found = find_user_texts(texts).domains
    assert found == {
        "contracts": ("contracts/a.txt", "contracts/old/b.md"),
        "letters": ("letters/c.py",),
    }
    alone = find_user_texts(folder_of(tmp_path / "memos", {"a.txt": "x"}))
    assert alone.domains == {"memos": ("a.txt",)}


def test_texts_are_named_by_hash_and_not_by_path(built: Path, texts: Path) -> None:
    body = json.loads((built / "manifest.json").read_text(encoding="utf-8"))
    [letters] = [one for one in body["sources"] if one["name"] == "domain_letters"]
    assert (letters["kind"], letters["pinned"], letters["licence"]) == ("own", False, "unknown")
    assert body["tasks"]["niah_domain_letters"]["params"]["domains"] == ["letters"]
    for path in built.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            assert str(texts).encode() not in data and b"c.py" not in data
    assert "unknown" in (built / "LICENSES.md").read_text(encoding="utf-8")
    assert "Texts of unknown licence" in (built / "README.md").read_text(encoding="utf-8")


def test_other_texts_are_told_apart(built: Path, texts: Path, tmp_path: Path, cli: Cli) -> None:
    same = cli("verify", built, "--haystack", texts)
    assert same.returncode == 0, same.stdout
    without = cli("verify", built)
    assert without.returncode == 3 and "give --haystack DIR" in without.stderr
    other = shutil.copytree(texts, tmp_path / "other")
    (other / "letters" / "c.py").write_text(TEXT, encoding="utf-8")
    changed = cli("verify", built, "--haystack", other)
    assert changed.returncode == 3 and "here has sha256" in changed.stderr, changed.stdout


def test_texts_of_ones_own_need_consent(
    publisher: Publisher, built: Path, texts: Path, repo: str
) -> None:
    refused = publisher(built, repo)
    assert refused.code == 2 and "--allow own-texts" in refused.said
    done = publisher(built, repo, allowed=["own-texts"], haystack=texts)
    licences = [line for line in done.said.splitlines() if line.startswith("licence: ")]
    assert done.code == 0 and len(licences) == 2 and "your responsibility" in licences[0]


def sparse(folder: Path) -> None:
    with (folder / "huge.txt").open("wb") as file:
        file.truncate(10_000_000_000)


HOSTILE: dict[str, tuple[Callable[[Path], object], str]] = {
    "nothing": (lambda _: None, "holds no files"),
    "an empty sub-folder": (lambda f: (f / "a").mkdir(), "holds no files"),
    "only white space": (lambda f: (f / "a.txt").write_text(" \n\n\t\n"), "its files hold no text"),
    "a picture": (
        lambda f: (f / "a.png").write_bytes(b"\x89PNG\r\n"),
        "a.png: not UTF-8 at byte 0",
    ),
    "a NUL": (lambda f: (f / "a.bin").write_bytes(b"ab\0c"), "a.bin: NUL at byte 2"),
    "Latin-1": (lambda f: (f / "a.txt").write_bytes(b"caf\xe9"), "a.txt: not UTF-8 at byte 3"),
    "a loop": (lambda f: (f / "round").symlink_to(f), "holds no files"),
    "a pipe": (lambda f: os.mkfifo(f / "pipe.txt"), "holds no files"),
    "a huge file": (sparse, "holds more than 64,000,000 bytes"),
    "a name with a space": (
        lambda f: folder_of(f, {"My Docs/a": "x"}),
        "'My Docs' is not a name of a",
    ),
    "a name of an option": (
        lambda f: folder_of(f, {"-rf/a": "x"}),
        "'-rf' is not a name of a domain",
    ),
    "a name of two lines": (lambda f: folder_of(f, {"a\nb/c": "x"}), "'a\\nb' is not a name of a"),
    "a name of ours": (
        lambda f: folder_of(f, {"legal/a": "x"}),
        "'legal' is a name of the package",
    ),
    "the mixture's name": (
        lambda f: folder_of(f, {"all/a": "x"}),
        "'all' is a name of the package",
    ),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_folder_that_is_no_haystack_is_refused_in_one_line(what: str, tmp_path: Path) -> None:
    spoil, said = HOSTILE[what]
    folder = tmp_path / "texts"
    folder.mkdir()
    spoil(folder)
    with pytest.raises(UsageError) as caught:
        found = find_user_texts(folder)
        for name in found.domains:
            found.domain(name)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_the_command_refuses_what_it_cannot_read_before_it_writes(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "texts", {"a.txt": "x"})
    (folder / "b.txt").write_bytes(b"\xff")
    out = tmp_path / "out"
    assert "b.txt: not UTF-8" in one_line(run(*ORDER, "--haystack", folder, "--out", out), 2)
    missing = run(*ORDER, "--haystack", tmp_path / "none", "--out", out)
    assert "cannot be read: No such file or directory" in one_line(missing, 2)
    other = run(*COMMON, "--haystack", folder, "--out", out)
    assert "no haystack of the suite ruler is of domains" in one_line(other, 2)
    assert not out.exists()


def test_a_suite_mixes_domains_with_ones_own(texts: Path, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        "name: mine\nabout: Mine.\nlengths: [1024]\nrows: 2\ntasks:\n"
        "  niah_both: {family: niah, haystack: domains, domains: [legal, letters]}\n",
        encoding="utf-8",
    )
    options = ("--suite", file, *COMMON)
    lacking = one_line(run(*options, "--out", tmp_path / "a"), 2)
    assert "domain 'letters' does not exist; known:" in lacking
    done = run(*options, "--haystack", texts, "--out", tmp_path / "b")
    assert done.returncode == 0, done.stderr
    assert "1 config of the suite mine" in done.stdout  # and none that it does not name


#: Each tokenizer with what ends a turn of its model, and another model's.
TURNS = {
    "llama3": ("<|eot_id|>", "<|im_end|>"),
    "tiny": ("</s>", "<|eot_id|>"),
}
TOKEN_ORDER = ("--suite", "domains", "--sources", "sample", "--lengths", 1024, "--rows", 2)


@pytest.fixture
def spec(request: pytest.FixtureRequest, tiny: Path) -> str:
    name = request.param
    if name == "tiny":
        return str(tiny)
    return str(request.getfixturevalue("shared") / "tokenizers" / name)


def texts_with(folder: Path, token: str) -> Path:
    spoiled = TEXT.replace("Clause 7.", f"Clause 7{token}.", 1)
    return folder_of(folder, {"letters/a.txt": TEXT, "letters/old/b.md": spoiled})


@pytest.mark.parametrize(
    ("spec", "turn", "others"), [(k, *v) for k, v in TURNS.items()], indirect=["spec"], ids=[*TURNS]
)
def test_a_special_token_is_refused(spec: str, turn: str, others: str, tmp_path: Path) -> None:
    options = (*TOKEN_ORDER, "--tokenizer", spec, "--tasks", "niah_domain_letters")
    out = tmp_path / "out"
    spoiled = texts_with(tmp_path / "spoiled", turn)
    said = one_line(run(*options, "--haystack", spoiled, "--out", out), 2, OF_A_FOLDER)
    assert f"domain letters: 'letters/old/b.md', line 15: '{turn}': " in said
    assert "would treat this text as a special token" in said
    assert "remove it or spell it differently" in said and not out.exists()
    # A task that does not hold the text, and another model's token, are no matter.
    elsewhere = (*options[:-1], "niah_domain_legal")
    assert run(*elsewhere, "--haystack", spoiled, "--out", tmp_path / "a").returncode == 0
    fine = texts_with(tmp_path / "fine", others)
    assert run(*options, "--haystack", fine, "--out", tmp_path / "b").returncode == 0


@pytest.mark.parametrize("spec", TURNS, indirect=True)
def test_what_is_called_special_is_one_token_wherever_it_stands(spec: str) -> None:
    tokenizer = load_tokenizer(spec)
    plain = tokenizer.count(["ab"])[0]
    assert tokenizer.special_tokens
    for token in tokenizer.special_tokens:
        assert tokenizer.count([f"a{token}b"])[0] <= plain + 2, token


@pytest.mark.parametrize("name", ["mistral", "mistral-v0.2"])
def test_the_library_of_mistral_reads_no_text_as_a_control_token(name: str) -> None:
    tokenizer = load_tokenizer(name)
    spelled = "".join(tokenizer.decode([number]) for number in range(20))
    assert "</s>" in spelled and tokenizer.special_tokens == ()
    assert min(tokenizer.prompt_ids(spelled, "", None)[1:]) > 20
