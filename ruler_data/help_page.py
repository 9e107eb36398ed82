"""The help of a command: its options in four groups, a line each where it fits.

    What:
      --data DATA          Frozen rows: a folder, or a Hub repo.  [required]
      --tasks TASKS        Tasks, e.g. vt,cwe.  [default: all]

One table says where an option stands, in every command that has it.
"""

from collections import Counter
from pathlib import Path
from typing import Any

from typer.core import TyperArgument, TyperCommand, TyperOption

from ruler_data.errors import UsageError

#: The groups in their order, with the parameters of all commands.
GROUPS: dict[str, tuple[str, ...]] = {
    "What": (
        "data", "run", "runs", "first", "second", "folder", "config", "index", "predictions",
        "kind", "name", "tool", "card", "model", "tokenizer", "tokenizers", "procedure", "suite",
        "tasks", "lengths", "length", "rows", "check", "revision", "version", "board", "baseline",
        "margin", "score",
    ),
    "Where": (
        "out", "repo", "private", "sources", "haystack", "download", "base_url",
    ),
    "How": (
        "engine", "protocol", "options", "extra_tokens", "samples", "temperature", "top_p",
        "seed", "edition", "template", "reserve", "workers", "tensor_parallel", "data_parallel",
        "shard", "prices", "budget", "budget_tokens", "dry_run", "full", "partial",
        "as_json",
    ),
    "Advanced": (
        "fresh", "force", "allow", "claimed", "skip_bad", "files", "block",
        "no_context", "model_name", "model_revision", "pictures", "against", "attr",
    ),
}  # fmt: skip
#: Types and last words of options whose values are not called as the option is.
VALUES = {
    "int": "N", "int range": "N", "float": "X", "float range": "X",
    "REVISION": "TAG", "PROCEDURE": "NAME", "OUT": "PATH", "SOURCES": "DIR", "TOKENIZERS": "NAMES",
}  # fmt: skip
#: Options whose values are lists with commas.
LISTS = ("tasks", "lengths", "tokenizers", "allow")
#: Columns of the names; a longer name has a line of its own.
NAMES = 25


class HelpPage(TyperCommand):
    """A command with its help as above; a list with commas is given once."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - as below
        """Refuse a second list of one option, which would silently replace the first."""
        _, _, parameters = self.make_parser(ctx).parse_args(args=[*args])
        for parameter, number in Counter(parameters).items():
            if number > 1 and parameter.name in LISTS:
                raise UsageError(f"{parameter.opts[0]} is given {number} times: write one list")
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ANN401 - typer exports no type
        """Return what the first line says behind the command's name."""
        arguments = [param for param in self.params if isinstance(param, TyperArgument)]
        return ["[OPTIONS]", *map(_argument, arguments)]

    def format_options(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - as above
        """Write the groups that have options, without empty lines between them."""
        groups: dict[str, list[tuple[str, str]]] = {group: [] for group in GROUPS}
        for parameter in sorted(self.params, key=_place_of):
            line = (_name_of(parameter, ctx), _text_of(parameter, ctx))
            groups[group_of(parameter.name)].append(line)
        names = [name for lines in groups.values() for name, _ in lines]
        width = max(len(name) for name in names if len(name) <= NAMES)
        formatter.write_paragraph()
        for group, lines in groups.items():
            if lines:
                formatter.write_heading(group)
                formatter.indent()
                formatter.write_dl([(name.ljust(width), text) for name, text in lines], NAMES)
                formatter.dedent()


def group_of(name: str) -> str:
    """Return the group of a parameter.

    >>> group_of("tasks"), group_of("as_json")
    ('What', 'How')
    """
    for group, names in GROUPS.items():
        if name in names:
            return group
    raise ValueError(f"{name} is in no group of help")


def _place_of(parameter: Any) -> tuple[bool, int]:  # noqa: ANN401 - an argument or an option
    """Return what sorts a group: arguments as they are given, then options as in the table."""
    if isinstance(parameter, TyperArgument):
        return False, 0
    return True, GROUPS[group_of(parameter.name)].index(parameter.name)


def _argument(argument: TyperArgument) -> str:
    """Return how an argument is written on a command line."""
    text = argument.name.upper()
    if argument.nargs != 1:
        text += "..."
    if argument.required:
        return text
    return f"[{text}]"


def _name_of(parameter: Any, ctx: Any) -> str:  # noqa: ANN401 - an argument or an option
    """Return a parameter's name, with that of its value if it takes one."""
    if isinstance(parameter, TyperArgument):
        return _argument(parameter)
    if parameter.secondary_opts:  # a switch that is on by default is named by what turns it off
        return str(parameter.secondary_opts[0])
    name = str(parameter.opts[0])
    if parameter.is_flag:
        return name
    last_word = name.rpartition("-")[2].upper()
    value = parameter.metavar or VALUES.get(_kind(parameter, ctx), VALUES.get(last_word, last_word))
    return f"{name} {value}"


def _kind(parameter: Any, ctx: Any) -> str:  # noqa: ANN401 - an argument or an option
    """Return the type of a value, in typer's words; of a choice all values."""
    return str(parameter.display_type(ctx)).strip("<>")


def _text_of(parameter: Any, ctx: Any) -> str:  # noqa: ANN401 - an argument or an option
    """Return what a parameter is for, its choices and its default."""
    notes = list[str]()
    if "|" in _kind(parameter, ctx):
        notes.append(_kind(parameter, ctx))
    if isinstance(parameter, TyperOption) and parameter.required:
        notes.append("required")
    default = parameter.default
    is_told = isinstance(default, str | int | float | Path) and not isinstance(default, bool)
    if parameter.show_default and is_told and default != "":
        notes.append(f"default: {default}")
    if not notes:
        return str(parameter.help)
    return f"{parameter.help} [{'; '.join(notes)}]"
