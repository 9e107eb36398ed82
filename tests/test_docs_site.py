"""The documentation: its commands are those of the programs and run, and it builds."""

import importlib
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from functools import wraps
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path

import pytest

import ruler_builders.__main__ as builder_program
import ruler_cli as evaluator_program
from ruler_data.signatures import declared, fitting
from tests.commands import PROGRAMS, call
from tests.conftest import ROOT

DOCS = ROOT / "docs"
#: Pages that tests write.
GENERATED = {"suites-rows.md", "cli.md", "modules.md", "tokenizers.md"}
#: Pages that people write.
PAGES = [
    ROOT / "README.md",
    *(page for page in sorted(DOCS.rglob("*.md")) if page.name not in GENERATED),
]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PACKAGES = ("ruler_data", "ruler_builders", "ruler_eval", "ruler_report", "ruler_audit")
SHELLS = ("sh", "console", "bash", "text")
PROGRAM = rf"(?:{'|'.join(PROGRAMS)})"
#: A command in a block, after variables of the environment, and one in a sentence.
IN_BLOCK = re.compile(rf"(?: *|\$ )(?:[A-Z_]+=\S+ )*({PROGRAM} .*)")
IN_SENTENCE = re.compile(rf"`({PROGRAM} [^`\n]+ [^`\n]+)`")
#: What ends a command in a line of shell.
ENDS = (">", "|", "&&", ";")


def blocks(page: Path, *languages: str) -> Iterator[str]:
    """Yield the code blocks of a page in some languages."""
    for language, text in BLOCK.findall(page.read_text(encoding="utf-8")):
        if language in languages:
            yield text


def in_blocks(page: Path) -> Iterator[list[str]]:
    """Yield the commands in the blocks of a page that are one of this package's programs."""
    for text in blocks(page, *SHELLS):
        for line in text.replace("\\\n", " ").splitlines():
            match = IN_BLOCK.match(line)
            if match:
                words = shlex.split(match[1], comments=True)
                yield [*takewhile(lambda word: word not in ENDS, words)]


def in_sentences(page: Path) -> Iterator[list[str]]:
    """Yield the commands with arguments that sentences of a page name."""
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    for command in IN_SENTENCE.findall(text):
        yield shlex.split(command)


def only_checked(function: Callable[..., object]) -> Callable[..., object]:
    """Return a command that checks its values as it does before it begins, and then ends."""

    @wraps(function)
    def command(**values: object) -> None:
        fitting(declared(function), values)

    return command


@pytest.fixture
def nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let both programs read and check a command line, and do nothing."""
    for module, name in ((builder_program, "table"), (evaluator_program, "commands")):
        functions = getattr(module, name)()
        checked = {command: only_checked(function) for command, function in functions.items()}
        monkeypatch.setattr(module, name, lambda checked=checked: checked)


@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_of_a_page_is_one_that_the_programs_take(page: Path) -> None:
    for program, *words in (*in_blocks(page), *in_sentences(page)):
        done = call(program, *words)
        assert done.returncode == 0, f"{shlex.join([program, *words])}\n{done.stderr}"


@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize(
    "words",
    [
        ("ruler-data", "build", "--strict"),
        ("ruler-data", "export", "dist/x", "--for", "nobody", "--out", "y"),
        ("ruler-data", "show"),
        ("ruler-eval", "run", "--data", "dist/x", "--data-parallel", "0", "--out", "y"),
        ("ruler-eval", "compare", "runs/x"),
    ],
)
def test_a_command_that_the_programs_refuse_would_be_noticed(words: tuple[str, ...]) -> None:
    assert call(*words).returncode == 2


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_target_of_make_that_a_page_names_is_one(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    text = page.read_text(encoding="utf-8")
    named = re.findall(r"^make ([a-z-]+)|`make ([a-z-]+)", text, re.MULTILINE)
    for target in (first or second for first, second in named):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


@pytest.mark.parametrize("package", PACKAGES)
def test_the_reference_has_every_name_of_the_api(package: str) -> None:
    text = (DOCS / "api-reference.md").read_text(encoding="utf-8")
    listed = set(re.findall(rf"^::: {package}\.(?:commands\.)?(\w+)$", text, re.MULTILINE))
    module = importlib.import_module(package)
    constants = {"TASKS", "DATA_VERSION", "__version__"}
    assert listed == set(module.__all__) - constants


#: Pages but the README, which begins with two, and the list of names of which the site is made.
BEGINNINGS = [page for page in PAGES[1:] if page.stem != "api-reference"]


@pytest.mark.parametrize("page", BEGINNINGS, ids=lambda page: page.stem)
def test_a_page_begins_with_a_command(page: Path) -> None:
    beginning = page.read_text(encoding="utf-8").partition("\n## ")[0]
    assert "```sh\n" in beginning


def test_every_page_for_readers_is_in_the_navigation() -> None:
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    assert set(re.findall(r"[\w/.-]+\.md", config)) == pages - {"suites-rows.md"}


def test_naming_the_owner_fills_in_every_address(tmp_path: Path) -> None:
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if files.returncode != 0:
        pytest.skip("not a checkout of git")
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["urls"]
    owner = urls["Repository"].split("/")[3]  # OWNER, or who it was filled in with
    address = re.compile(rf"github\.com/{owner}\b|\b{owner}\.github\.io")
    texts = {
        path: (ROOT / path).read_text("utf-8", errors="replace")
        for path in files.stdout.split()
        if not path.startswith("tests/") and (ROOT / path).is_file()
    }
    kept = [path for path, text in texts.items() if address.search(text)]
    assert set(kept) == {"pyproject.toml", "README.md", "docs/tutorial.md"}
    for path in kept:
        (tmp_path / path).parent.mkdir(exist_ok=True)
        before = address.sub(lambda found: found[0].replace(owner, "OWNER"), texts[path])
        (tmp_path / path).write_text(before, encoding="utf-8")
    script = Path(shutil.copytree(ROOT / ".ci", tmp_path / ".ci")) / "owner"
    assert subprocess.run([script], capture_output=True, check=False).returncode == 2
    for name in ("wrong", "acme"):
        subprocess.run([script, name], capture_output=True, check=True)
    blank = re.compile(r"github\.com/OWNER|OWNER\.github\.io")
    assert not [path for path in kept if blank.search((tmp_path / path).read_text("utf-8"))]
    text = (tmp_path / "pyproject.toml").read_text("utf-8")
    assert "OWNER" not in text and "wrong" not in text and "acme.github.io" in text


@pytest.mark.parametrize(
    "path", sorted((ROOT / ".github/workflows").iterdir()), ids=lambda p: p.name
)
def test_every_action_is_pinned_by_its_commit(path: Path) -> None:
    used = re.findall(r"uses: (\S+)(.*)", path.read_text(encoding="utf-8"))
    assert used and all(
        re.search(r"@[0-9a-f]{40}$", action) and re.fullmatch(r" # v[0-9.]+", version)
        for action, version in used
    )


@pytest.mark.slow
@pytest.mark.skipif(find_spec("zensical") is None, reason="the extra `docs` is not installed")
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, DOCS / "build_site.py", tmp_path], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    built = tmp_path / "site"
    assert "ruler_eval.run" in (built / "api-reference" / "index.html").read_text("utf-8")
