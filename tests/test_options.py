"""Options that are declared once: arguments of a function and of a command."""

import inspect
from collections.abc import Collection, Mapping
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from ruler_data.errors import UsageError
from ruler_data.options import JsonFlag, Option, command, others_to, takes_options


@dataclass(frozen=True)
class CopyConfig:
    source: Annotated[str | Path, Option("Folder to copy.", argument=True)]
    _: KW_ONLY
    rows: Annotated[int | None, Option("Rows of each config.", min=1)] = None
    lengths: Annotated[str | Collection[int], Option("Lengths in tokens.")] = "all"
    options: Annotated[list[str] | Mapping[str, Any] | None, Option("More.", "--option")] = None
    hook: Annotated[object, Option("Called at the end.", command=False)] = None


@takes_options(CopyConfig)
def copy(config: CopyConfig) -> CopyConfig:
    """Copy a folder.

    Raises:
        UsageError: there is none.
    """
    return config


def copied(*arguments: str, without: Collection[str] = ()) -> tuple[str, list[CopyConfig]]:
    """Return what a command prints, and the options that it got."""
    got: list[CopyConfig] = []

    @command(without)
    def copy_command(
        config: CopyConfig,
        fast: Annotated[bool, Option("Be quick.", after="source")] = False,
        as_json: JsonFlag = False,
    ) -> None:
        """Copy a folder."""
        typer.echo(f"{fast} {as_json}")
        got.append(config)

    app = typer.Typer(rich_markup_mode=None, add_completion=False)
    app.command()(copy_command)
    return CliRunner().invoke(app, arguments).output, got


def test_a_function_takes_the_fields_and_documents_them() -> None:
    assert copy("a", lengths=[8]) == CopyConfig("a", lengths=[8])
    assert str(inspect.signature(copy)).startswith("(source: str | pathlib.Path, *, rows: int | ")
    lines = (copy.__doc__ or "").splitlines()
    assert lines[:4] == ["Copy a folder.", "", "Args:", "    source: Folder to copy."]
    assert lines[-2:] == ["Raises:", "    UsageError: there is none."]
    with pytest.raises(TypeError, match="nonsense"):
        copy("a", nonsense=1)  # type: ignore[call-arg]


def test_further_arguments_become_one_field() -> None:
    call = others_to("options")(copy)
    assert call("a", rows=2, dtype="x") == CopyConfig("a", rows=2, options={"dtype": "x"})
    assert call("a") == CopyConfig("a")


def test_a_command_passes_the_first_type_of_each_field() -> None:
    output, got = copied("a", "--rows", "3", "--lengths", "8,16", "--option", "x=1", "--fast")
    assert output == "True False\n"
    assert got == [CopyConfig("a", rows=3, lengths="8,16", options=["x=1"])]
    assert "Invalid value for '--rows'" in copied("a", "--rows", "0")[0]
    assert "No such option: --hook" in copied("a", "--hook", "x")[0]


def test_a_command_orders_its_options_and_leaves_some_out() -> None:
    help_text, _ = copied("--help", without=["lengths"])
    listed = [line.split()[0] for line in help_text.splitlines() if line.startswith("  --")]
    assert listed == ["--fast", "--rows", "--option", "--json", "--help"]


@dataclass(frozen=True)
class NoteConfig:
    note: Annotated[str | None, Option("A note.")] = None


def test_the_value_of_an_unset_variable_is_not_taken_for_the_default() -> None:
    @command()
    def noted(config: NoteConfig) -> None:
        typer.echo(config.note)

    app = typer.Typer()
    app.command()(noted)
    assert CliRunner().invoke(app, ["--note", "x"]).output == "x\n"
    error = CliRunner().invoke(app, ["--note", ""]).exception
    assert isinstance(error, UsageError) and str(error).startswith("--note: is empty")
