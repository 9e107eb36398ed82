"""The documentation: its commands exist and run, its messages are those of the code, it builds."""

import ast
import importlib
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.commands import PROGRAMS, call, succeeded
from tests.conftest import ROOT

DOCS = ROOT / "docs"
PAGES = [page for page in sorted(DOCS.rglob("*.md")) if page.name != "suites-rows.md"]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PACKAGES = ("ruler_data", "ruler_builders", "ruler_eval", "ruler_report")


def blocks(page: Path, *languages: str) -> Iterator[str]:
    """Yield the code blocks of a page in some languages."""
    for language, text in BLOCK.findall(page.read_text(encoding="utf-8")):
        if language in languages:
            yield text


def commands(page: Path, *languages: str) -> Iterator[list[str]]:
    """Yield the commands of a page that are one of this package's programs."""
    for text in blocks(page, *languages):
        for line in text.replace("\\\n", " ").splitlines():
            match = re.match(rf"(?: *|\$ )(?:[A-Z_]+=\S+ )*((?:{'|'.join(PROGRAMS)}) .*)", line)
            if match:
                yield shlex.split(match[1].replace("…", "etc"), comments=True)


@cache
def options(program: str, command: str) -> set[str]:
    """Return the options that the help of a command lists."""
    text = succeeded(call(program, command, "--help", env={"COLUMNS": "400"})).stdout
    return set(re.findall(r"(?<!\S)--[a-z][a-z-]*", text))


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md"], ids=lambda page: page.stem)
def test_every_option_in_a_command_of_the_documentation_exists(page: Path) -> None:
    for program, command, *words in commands(page, "sh", "console", "bash", "text"):
        used = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert used <= options(program, command), (page.name, command)


@pytest.mark.slow
def test_the_suite_of_ones_own_builds(tmp_path: Path) -> None:
    text, *_ = blocks(DOCS / "suites.md", "yaml")
    (tmp_path / "mine.yaml").write_text(text, encoding="utf-8")
    for program, *words in commands(DOCS / "suites.md", "sh"):
        if "mine.yaml" in words or "dist/mine" in words:
            succeeded(call(program, *words, cwd=tmp_path))


def messages() -> Iterator[str]:
    """Yield every text in the code, with … where a value is put in."""

    def text(node: ast.expr) -> str:
        if isinstance(node, ast.Constant):
            return node.value if isinstance(node.value, str) else "…"
        if isinstance(node, ast.JoinedStr):
            return "".join(map(text, node.values))
        if isinstance(node, ast.BinOp):
            return text(node.left) + text(node.right)
        return "…"

    for folder in ("ruler_data", "builders", "eval"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.JoinedStr | ast.Constant | ast.BinOp):
                    yield text(node)
                elif isinstance(node, ast.Call):  # an error takes where and what as parts
                    yield ": ".join(map(text, node.args))


@pytest.mark.slow
def test_the_messages_of_the_faq_are_those_of_the_code() -> None:
    known = set(messages())
    headings = re.findall(r"^#### `(.+)`$", (DOCS / "faq.md").read_text(encoding="utf-8"), re.M)
    assert len(headings) > 10
    for heading in headings:
        pattern = re.compile(".*".join(map(re.escape, heading.split("…"))), re.DOTALL)
        assert any(pattern.search(message) for message in known), heading


@pytest.mark.parametrize("package", PACKAGES)
def test_the_reference_has_every_name_of_the_api(package: str) -> None:
    text = (DOCS / "api-reference.md").read_text(encoding="utf-8")
    listed = set(re.findall(rf"^::: {package}\.(?:commands\.)?(\w+)$", text, re.MULTILINE))
    module = importlib.import_module(package)
    constants = {"TASKS", "DATA_VERSION", "__version__"}
    assert listed == set(module.__all__) - constants


def test_every_page_for_readers_is_in_the_navigation() -> None:
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    linked = {page for page in pages if page.startswith("decisions/")} | {"suites-rows.md"}
    assert set(re.findall(r"[\w/.-]+\.md", config)) == pages - linked


def test_make_owner_fills_in_every_address(tmp_path: Path) -> None:
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
    for path in (*kept, "Makefile"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        before = address.sub(lambda found: found[0].replace(owner, "OWNER"), texts[path])
        (tmp_path / path).write_text(before, encoding="utf-8")
    make = ["make", "-C", str(tmp_path), "owner"]
    assert subprocess.run(make, capture_output=True, check=False).returncode
    for name in ("wrong", "acme"):
        subprocess.run([*make, f"NAME={name}"], capture_output=True, check=True)
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
