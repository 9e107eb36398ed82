"""Documentation: every command documented, every promise of the package metadata kept."""

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

import ruler_data
from ruler_builders.__main__ import table
from ruler_builders.card import excerpt
from ruler_cli import commands
from ruler_data import TASKS, Row
from ruler_data.signatures import options_of
from ruler_data.suites import Suite, packaged
from ruler_data.tasks import Task
from ruler_data.tokenizers.registry import ALIASES, REGISTRY
from ruler_eval.scoring.summary import schema
from tests.commands import PROGRAMS, call, succeeded
from tests.conftest import ROOT
from tests.rows import make
from tests.test_golden import compare

RESULTS = ROOT / "benchmarks" / "results"
TABLES: dict[str, Mapping[str, Any]] = {"ruler-data": table(), "ruler-eval": commands()}


def help_of(program: str, command: str = "") -> str:
    """Return what a program or one of its commands says of itself."""
    done = call(program, *command.split(), "--help", env={"COLUMNS": "100"})
    text = succeeded(done).stdout.strip()
    return f"## {program} {command}".rstrip() + f"\n\n```text\n{text}\n```\n"


def test_the_command_reference_is_what_the_commands_say() -> None:
    parts = ["# Commands\n\nWritten by `make regold` from `--help`.\n"]
    for program in PROGRAMS:
        parts.append(help_of(program))
        for command in sorted(TABLES[program]):
            parts.append(help_of(program, command))
            assert re.search(rf"^ +{program} {command}\b", parts[-1], re.M), "has an example"
    compare("../../docs/cli.md", "\n".join(parts))


def test_commands_have_few_options_each_written_once_and_a_help_of_one_screen() -> None:
    number = 0
    for program in PROGRAMS:
        for command, function in TABLES[program].items():
            number += len(options_of(function))
            done = call(program, command, "--help", env={"COLUMNS": "80"})
            lines = succeeded(done).stdout.splitlines()
            assert len(lines) <= 40 and max(map(len, lines)) <= 80, (program, command)
            names = re.findall(r"^  (--[a-z-]+)", done.stdout, re.M)
            assert len({*names}) == len(names), (program, command)
    assert number <= 150


def test_the_table_of_tokenizers_is_the_registry() -> None:
    cell = "| {} | `{}` | {} |"
    lines = [
        "# Tokenizers by model\n",
        "Written by `make regold` from the registry. For other models give",
        "a folder with `tokenizer.json`, or a Hub id.\n",
        "| models | `TOKENIZER` | note |\n|---|---|---|",
    ]
    for name, known in REGISTRY.items():
        names = [name, *(alias for alias, of in ALIASES.items() if of == name)]
        lines.append(cell.format(known.family, "`, `".join(names), known.note))
    compare("../../docs/tokenizers.md", "\n".join(lines) + "\n")


def test_the_schema_of_results_is_what_the_code_reads() -> None:
    text = json.dumps(schema(), indent=1) + "\n"
    compare("../../docs/results.schema.json", text)


def test_relative_links_of_the_documentation_lead_somewhere() -> None:
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *RESULTS.glob("*.md")]:
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


#: Pages of results but the one that is of an earlier commit's script.
MEASURED = sorted({*RESULTS.glob("*.md")} - {RESULTS / "build-upstream.md"})


@pytest.mark.parametrize("page", MEASURED, ids=lambda page: page.stem)
def test_a_page_of_results_names_its_script_with_options_that_it_has(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    commands = re.findall(r"benchmarks/(\w+\.py)([^`\n]*)", text)
    assert commands
    for name, arguments in commands:
        script = (ROOT / "benchmarks" / name).read_text(encoding="utf-8")
        for option in re.findall(r"(?<!\S)--[a-z-]+", arguments):
            assert f'"{option}"' in script, f"{name} {option}"


#: Folders of modules, from the contract up.
PACKAGES = (
    "ruler_data", "builders/ruler_builders", "eval/ruler_eval", "eval/ruler_report",
    "eval/ruler_audit",
)  # fmt: skip


def about(path: Path) -> str:
    """Return the sentence with which a module begins."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return " ".join(text.partition("\n\n")[0].split())


def test_the_page_of_modules_is_what_they_say_of_themselves() -> None:
    lines = [
        "# Modules\n",
        "Written by `make regold` from the first sentence of each; [Architecture](ARCHITECTURE.md)",
        "says how they work together.",
    ]
    for package in PACKAGES:
        lines.append(f"\n## `{package}`\n\n| module | |\n|---|---|")
        modules = sorted((ROOT / package).rglob("*.py"), key=lambda path: (path.parent, path))
        for path in modules:
            if path.name in ("__init__.py", "__main__.py"):
                continue
            name = path.relative_to(ROOT / package).with_suffix("").as_posix()
            link = f"[`{name}`](../{path.relative_to(ROOT).as_posix()})"
            lines.append(f"| {link} | {about(path).replace('|', chr(92) + '|')} |")
    compare("../../docs/modules.md", "\n".join(lines) + "\n")


def test_the_walks_through_the_code_name_modules_that_are_there() -> None:
    text = (ROOT / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8")
    names = {name for name in re.findall(r"`([a-z_]+/[a-z_]+)`", text)} - {*PACKAGES}
    assert len(names) > 20
    for name in names:
        assert any((ROOT / package / f"{name}.py").is_file() for package in PACKAGES), name


def test_versions_agree() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    data, package = changes.split("## Package")
    assert project["version"] == ruler_data.__version__
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == ruler_data.__version__
    versions = re.findall(r"^### (\S+)", package, re.MULTILINE)
    assert versions[0] == ruler_data.__version__
    assert re.findall(r"^### (\S+)", data, re.MULTILINE)[0] == ruler_data.DATA_VERSION


@pytest.mark.parametrize("path", sorted((ROOT / ".github").rglob("*.yml")), ids=lambda p: p.name)
def test_workflows_and_forms_are_yaml_and_name_targets_of_make(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert yaml.safe_load(text)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for targets in re.findall(r"run: make ([a-z -]+)", text):
        assert all(re.search(rf"^{name}:", makefile, re.MULTILINE) for name in targets.split())


def test_the_locked_wheels_are_the_tested_versions_of_everything_that_is_needed() -> None:
    def lines(name: str) -> list[str]:
        text = (ROOT / name).read_text(encoding="utf-8")
        return [line for line in text.splitlines() if not line.startswith("#")]

    def plain(name: str) -> str:
        return re.sub(r"[-_.]+", "-", name).lower()

    tested = {
        plain(name): version
        for name, _, version in (x.partition("==") for x in lines("constraints.txt"))
    }
    form = re.compile(r"(\S+)==(\S+) --hash=sha256:[0-9a-f]{64}")
    locked = {
        plain(match[1]): match[2]
        for match in map(form.fullmatch, lines("constraints.sha256"))
        if match
    }
    assert len(locked) == len(lines("constraints.sha256"))
    assert {name: tested[name] for name in locked} == locked
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["build"], *extras["test"], *extras["dev"]]
    names = {plain(re.split(r"[ \[<>=;]", one)[0]) for one in wanted} - {"ruler-data"}
    assert names <= locked.keys()


def test_the_long_description_has_no_relative_link() -> None:
    command = [sys.executable, "-m", "hatchling", "metadata"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    metadata = json.loads(said.stdout)
    text = metadata["readme"]["text"]
    assert "/blob/main/docs/tutorial.md)" in text
    assert re.findall(r"\]\((?!https://)", text) == []


@pytest.mark.slow
def test_the_wheel_holds_five_packages_and_the_templates(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-q"]
    environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    subprocess.run([*command, "-w", str(tmp_path), str(ROOT)], check=True, env=environment)
    wheel = zipfile.ZipFile(next(tmp_path.glob("*.whl")))
    names = wheel.namelist()
    metadata = next(name for name in names if name.endswith(".dist-info/METADATA"))
    assert "Description-Content-Type: text/markdown" in wheel.read(metadata).decode()
    tops = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    packages = {"ruler_data", "ruler_builders", "ruler_eval", "ruler_report", "ruler_audit"}
    assert tops == {*packages, "ruler_cli.py"}
    assert "ruler_data/cards/dataset.md.j2" in names
    assert any(name.startswith("ruler_builders/sample/essays/") for name in names)
    assert "ruler_builders/sources/essays.sha256" in names
    for domain in ("code", "legal", "technical", "tables"):
        assert any(name.startswith(f"ruler_builders/domains/{domain}/") for name in names)
    assert "ruler_report/published/paper-2024-08.csv" in names
    assert "ruler_report/templates/report.html.j2" in names


SUITES = {name: suite for name, suite in packaged().items() if name != "ruler"}
LENGTH = 4096
#: Characters around what matters.
AROUND = 90

TOP = """\
# A row of each suite

Written by `make regold` from built rows: row 0 at 4,096 tokens, with the sample corpus and the
`mistral` tokenizer. `[...]` marks omitted text. Of `paper`, only the last task is shown.
[suites.md](suites.md) says what each suite is for.
"""


def shown(suite: Suite) -> list[Task]:
    """Return the tasks that tell what a suite is about."""
    own = [task for task in suite.tasks.values() if task.name not in TASKS]
    return (own[-1:] if suite.name == "paper" else own) or [*suite.tasks.values()][:1]


def example(task: Task, row: Row) -> str:
    """Return a row, shortened, as Markdown that nothing in it can break."""
    text = excerpt(row, AROUND) + row.question + row.answer_prefix
    answers = ", ".join(f"`{output}`" for output in row.outputs)
    fenced = text.replace("```", "``")
    return f"### {task.name}\n\n{task.about}\n\n```text\n{fenced}\n```\n\nGold answers: {answers}\n"


def section(suite: Suite) -> str:
    """Return what the page says of a suite."""
    tasks = shown(suite)
    command = (
        f"ruler-data build --suite {suite.name}\n"
        f"ruler-data show dist/mistral-{suite.name} {tasks[0].name}_{LENGTH} 0"
    )
    parts = [f"## {suite.name}\n\n{suite.about}\n\n```sh\n{command}\n```\n"]
    parts += [example(task, make("mistral", task.name, 0, LENGTH)) for task in tasks]
    return "\n".join(parts)


def test_the_examples_of_suites_are_rows_as_they_are_built() -> None:
    page = "\n".join([TOP, *map(section, SUITES.values())])
    lines = (line.rstrip() for line in page.splitlines())
    compare("../../docs/suites-rows.md", "\n".join(lines) + "\n")
