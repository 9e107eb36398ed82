"""Procedures: how published RULER numbers were measured, by name.

A number is rows, protocol, sampling and budget. `procedures.toml` has them for each procedure, with
the sources of every fact, what edition and words rest on, and what the sources leave open. `build`,
`run` and `report` take a name: the first two set its options and refuse what contradicts it; the
last prints what still differs.

    >>> find_procedure("nemo-evaluator").lengths[0]
    4000
"""

import hashlib
import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from ruler_data.errors import UsageError
from ruler_data.names import quote

FILE = Path(__file__).with_name("procedures.toml")
#: The day on which all sources were read.
READ_ON = "2026-11-28"


@dataclass(frozen=True)
class Citation:
    """Where a fact stands: its address, the date of the text there, and what it says."""

    address: str
    date: str
    says: str


@dataclass(frozen=True)
class Difference:
    """An item in which a run is not as the source of a published number."""

    item: str
    theirs: str
    ours: str


@dataclass(frozen=True)
class Evidence:
    """Gold answers that were published with the numbers of a procedure, as a digest.

    Attributes:
        config: that they are of.
        rows: how many, from the first.
        tokenizer: of the rows.
        digest: sha256 of `gold_digest`.
        source: address and commit.
    """

    config: str
    rows: int
    tokenizer: str
    digest: str
    source: str


def gold_digest(answers: Iterable[Sequence[str]]) -> str:
    """Return the sha256 of the gold answers of rows in order, as compact JSON."""
    text = json.dumps([list(outputs) for outputs in answers], separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class Procedure:
    """How a published number was measured; None where the source leaves it open."""

    name: str
    about: str
    edition: str
    rows: int
    lengths: tuple[int, ...]  # in tokens
    protocols: tuple[str, ...]  # the first is the default
    metric: str
    sources: tuple[Citation, ...]
    open: tuple[str, ...]
    differs: tuple[Difference, ...]
    derived: str  # what edition and words rest on
    evidence: tuple[Evidence, ...] = ()
    suite: str = "ruler"
    words: str = ""  # version of wonderwords; empty where no source shows it
    template: str | None = None  # of upstream, in the rows
    reserve: int = 0  # tokens
    prefix: Literal["", "turn"] = ""  # `turn`: the answer prefix ends the user's message
    temperature: float | None = None
    top_p: float | None = None
    extra_tokens: int | None = None
    published: str = ""  # the table of published scores

    def settle(self, chosen: Mapping[str, Any], **fixed: object) -> dict[str, Any]:
        """Return the options of a command as the procedure sets them.

        `chosen` are the user's, None where an option was left out; of `fixed` every value but None
        is the procedure's, and a tuple is a choice of which the first is the default.

        Raises:
            UsageError: an option contradicts the procedure.
        """
        options = dict(chosen)
        for name, value in fixed.items():
            choice = (value,)
            if isinstance(value, tuple):
                choice = value
            if value is None or chosen[name] in choice:
                continue
            if chosen[name] is not None:
                option = f"--{name.replace('_', '-')} {quote(str(chosen[name]))}"
                allowed = " or ".join(map(str, choice))
                raise UsageError(option, f"procedure {self.name} has {allowed}; leave it out")
            options[name] = choice[0]
        return options

    def to_record(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        return asdict(self)


@cache
def procedures() -> Mapping[str, Procedure]:
    """Return all procedures by name."""
    tables = tomllib.loads(FILE.read_text(encoding="utf-8"))
    return {name: _procedure(name, table) for name, table in tables.items()}


def _procedure(name: str, table: dict[str, Any]) -> Procedure:
    sources = tuple(Citation(**source) for source in table.pop("sources"))
    differs = tuple(Difference(**difference) for difference in table.pop("differs"))
    evidence = tuple(Evidence(**entry) for entry in table.pop("evidence", ()))
    for key, value in table.items():
        if isinstance(value, list):
            table[key] = tuple(value)
    return Procedure(name=name, sources=sources, differs=differs, evidence=evidence, **table)


def find_procedure(name: str) -> Procedure:
    """Return the procedure of a name.

    Raises:
        UsageError: there is none.
    """
    if name not in procedures():
        names = ", ".join(procedures())
        raise UsageError(f"--procedure {quote(name)}: not known; known: {names}")
    return procedures()[name]
