"""The runs of a report or a board: their scores, the names that users give them, what limits them.

What limits a run is a note beside its numbers: rows without a score, prompts or sampling that are
not those of its protocol. Rows that flipped are right in one run and wrong in another.
"""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from math import isfinite, nan
from pathlib import Path
from typing import Any

from ruler_data.errors import RulerError, UsageError
from ruler_data.names import quote
from ruler_eval.answers import Answer
from ruler_eval.prompts import PROTOCOLS
from ruler_eval.results_file import Run
from ruler_eval.run_dir import RUN_FILE, RunFolder, RunInfo, read_info
from ruler_eval.run_rows import rows_of_run
from ruler_eval.scores import FILENAME, Scores
from ruler_eval.scoring import load_scores
from ruler_report.typesetting import shortened, visible

#: A prompt without a chat template.
PLAIN = "{content}{answer_prefix}"


def named_scores(
    runs: Sequence[Run], names: Sequence[str], data: str | None, attributes: Sequence[str] = ()
) -> list[Scores]:
    """Return the scores of runs with the names and attributes that the user gives some of them.

    `names` are `NAME=PLACE`; places that are not among the runs follow them. `attributes` are
    `KEY=NUMBER=PLACE`, or `KEY=NUMBER` for all runs.

    Raises:
        RulerError: as `load_scores`; or a run has no score at all.
    """
    by_folder, labels = _places(runs, names)
    numbers: dict[str, dict[str, float]] = {place: {} for place in by_folder}
    for entry in attributes:
        option = f"--attr {quote(entry)}"
        match = re.fullmatch(r"([^=]+)=([^=]+)(?:=(.+))?", entry)
        try:
            number = float(match[2]) if match else nan
        except ValueError:
            number = nan
        if match is None or not isfinite(number):
            raise UsageError(option, "give KEY=NUMBER=RUN, e.g. train_length=8192=runs/x")
        if match[3] and folder_of(match[3]) not in numbers:
            raise UsageError(option, f"{quote(match[3])} is not one of the runs")
        for place in [folder_of(match[3])] if match[3] else numbers:
            numbers[place][match[1]] = number
    results = [
        replace(load_scores(run, data), name=labels.get(place, ""), attributes=numbers[place])
        for place, run in by_folder.items()
    ]
    for run, result in zip(by_folder.values(), results, strict=True):
        if not result.scored:
            name = result.run.model if isinstance(run, Scores) else str(run)
            raise RulerError(
                quote(name, 200), "no row has a score; resume the run, or leave it out"
            )
    return results


def _places(runs: Sequence[Run], names: Sequence[str]) -> tuple[dict[str, Run], dict[str, str]]:
    """Return the distinct runs by their folder, and the names that the user gives them."""
    by_folder: dict[str, Run] = {
        folder_of(run): run for run in runs
    }  # one that is twice there is one
    labels: dict[str, str] = {}
    for entry in names:
        name, _, place = entry.rpartition("=")
        if not (name and place):
            option = f"--name {quote(entry)}"
            raise UsageError(option, "give NAME=RUN, e.g. 'snapkv .5=runs/x'")
        labels[folder_of(place)] = name
        by_folder[folder_of(place)] = place
    return by_folder, labels


def folders_of(runs: Sequence[Run], names: Sequence[str]) -> list[Path]:
    """Return the folders of runs, in the order of `named_scores`; none if one is not a path."""
    by_folder, _ = _places(runs, names)
    return (
        []
        if any(isinstance(run, Scores) for run in by_folder.values())
        else [*map(Path, by_folder)]
    )


def command_of(program: str, runs: Sequence[Run], options: Mapping[str, object]) -> str:
    """Return the command line with these options; empty if a run is not a path.

    >>> command_of("report", ["x"], {"--margin": 0, "--name": ["a b=y"], "-t": "", "-f": False})
    "report x --margin 0 --name 'a b=y'"
    """
    if any(isinstance(run, Scores) for run in runs):
        return ""
    words = [*program.split(), *map(str, runs)]
    for option, value in options.items():
        if value is True:
            words.append(option)
        elif value or (value == 0 and value is not False):
            values = value if isinstance(value, list | tuple) else [value]
            words += [word for item in values for word in (option, str(item))]
    return shlex.join(words)


def folder_of(run: Run) -> str:
    """Return what tells a run from others: its folder, however it is written."""
    if isinstance(run, Scores):
        return f"results {id(run)}"
    path = Path(run)
    return str((path.parent if path.name == FILENAME else path).resolve())


def join(names: Sequence[str]) -> str:
    """Return names as a list in a sentence."""
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]


def shortfall(run: Scores) -> Iterator[str]:
    """Yield how many rows have no score, and what that does; nothing if all have one."""
    if run.scored < run.rows:
        text = f"{run.scored:,} of {run.rows:,} rows scored; the others count as wrong"
        open_ones = any(None in config.scores for config in run.configs.values())
        yield text + " in one end of its intervals and as right in the other" * open_ones


def labels_of(runs: Sequence[Scores]) -> list[str]:
    """Return a distinct name for each run: the user's, or its model; what is claimed is marked.

    Where names repeat, the options or the revision that differ follow, or else a number.
    """
    own_names = [
        _quoted(shortened(run.name or run.run.model, 80)) + " without context" * run.run.no_context
        for run in runs
    ]
    alike: dict[str, list[RunInfo]] = {}
    for name, run in zip(own_names, runs, strict=True):
        alike.setdefault(name, []).append(run.run)
    labels: list[str] = []
    for name, run in zip(own_names, runs, strict=True):
        name += _apart(run.run, alike[name])
        mark = " [claimed]" * bool(run.claimed)
        names = (name + f" ({number})" * (number > 1) + mark for number in count(1))
        labels.append(next(label for label in names if label not in labels))
    return labels


def _quoted(name: str) -> str:
    """Return a name in quotes if it could be read as a part of a sentence.

    >>> _quoted("org/model-7B"), _quoted("a; it is better than every other run")
    ('org/model-7B', '"a; it is better than every other run"')
    """
    return name if re.fullmatch(r"[\w./+@:=…-]*", name) else '"{}"'.format(name.replace('"', "'"))


def options_of(run: RunInfo) -> Mapping[str, Any]:
    """Return the options of a run's engine, or the arguments of its function."""
    return run.engine_info.get("arguments") or run.engine_info.get("options") or {}


def _apart(run: RunInfo, runs: Sequence[RunInfo]) -> str:
    """Return in brackets what tells a run from others of its name; empty if that is long."""
    options = {
        key: {str(options_of(run_alike).get(key)) for run_alike in runs} for key in options_of(run)
    }
    differing = [
        f"{key} {options_of(run)[key]}" for key, values in options.items() if len(values) > 1
    ]
    if (
        not differing
        and run.model_revision
        and len({run_alike.model_revision for run_alike in runs}) > 1
    ):
        differing = [f"revision {run.model_revision[:12]}"]
    text = visible(", ".join(differing))
    return f" ({text})" if 0 < len(text) <= 60 else ""


def caveats(run: RunInfo) -> Iterator[str]:
    """Yield in what prompts or answers were not those that the rows and the protocol promise."""
    if run.model_tokenizer not in (None, run.data.tokenizer_fingerprint):
        yield "prompts rendered with other tokenizer files than those that the rows are counted in"
    if run.protocol == "completion" and run.frame == PLAIN:
        yield "the tokenizer has no chat template, so completion is plain text, as in base"
    usual = PROTOCOLS[run.protocol].extra_tokens if run.protocol in PROTOCOLS else 0
    extra = run.sampling.get("extra_tokens", usual)
    if extra != usual:
        yield f"answers could be {extra} tokens longer than the rows say, by the protocol {usual}"
    if run.refused:
        yield f"the server refused {', '.join(run.refused)}; its own values applied"
    if temperature := run.sampling.get("temperature"):
        yield f"answers sampled at temperature {temperature}; the default is greedy"


def attributed(notes: Iterable[tuple[str, str]], runs: int) -> Iterator[str]:
    """Yield each note once, after the runs that it is about; `found` are labels with notes."""
    about: dict[str, list[str]] = {}
    for label, note in notes:
        about.setdefault(note, []).append(label)
    for note, names in about.items():
        whose = "all runs" if len(names) == runs > 2 else join(names)
        yield f"{whose}: {note}"


#: Rows that are shown of each direction, and characters of a text.
SHOWN, LONGEST = 3, 300


@dataclass(frozen=True)
class Flip:
    """A row that one run answers right and the other wrong.

    Attributes:
        row: `vt_4096/17`, of the first run.
        scores: of both runs, in percent.
        texts: the answers of both runs.
    """

    row: str
    question: str
    outputs: tuple[str, ...]
    scores: tuple[float, float]
    texts: tuple[str, str]


@dataclass(frozen=True)
class Flips:
    """How many rows of two runs flipped, and some of them."""

    labels: tuple[str, str]
    lost: int
    won: int
    rows: tuple[Flip, ...]

    @property
    def title(self) -> str:
        """How many rows flipped each way."""
        first, second = self.labels
        return (
            f"Rows that flipped: {self.lost:,} right in {first} alone, {self.won:,} right in "
            f"{second} alone"
        )


def flips(
    labels: tuple[str, str],
    runs: tuple[Scores, Scores],
    places: tuple[Path, Path],
    data: str | None,
) -> Flips:
    """Return the rows of two runs that ask the same and that one alone answers right.

    Those shown differ most, in the order of the configs; none where rows or answers are not there.
    """
    flipped = sorted(_flipped(*runs), key=lambda flip: -abs(flip[1]))
    lost, won = (
        [flip for flip in flipped if (flip[1] < 0) == is_lost] for is_lost in (True, False)
    )
    chosen = [*lost[:SHOWN], *won[:SHOWN]]
    try:
        texts = [_texts(place, [pair[at] for pair, _ in chosen], data)
                 for at, place in enumerate(places)]  # fmt: skip
    except (RulerError, OSError):
        texts = [{}, {}]
    rows = []
    for pair, _ in chosen:
        if pair[0] in texts[0] and pair[1] in texts[1]:
            question, outputs, first = texts[0][pair[0]]
            *_, second = texts[1][pair[1]]
            (config, index), scores = pair[0], [_score(*x) for x in zip(runs, pair, strict=True)]
            pair_of_scores = (scores[0], scores[1])
            rows.append(
                Flip(f"{config}/{index}", question, outputs, pair_of_scores, (first, second))
            )
    return Flips(labels, len(lost), len(won), tuple(rows))


#: A config and the index of a row.
_Key = tuple[str, int]


def _flipped(first: Scores, second: Scores) -> Iterator[tuple[tuple[_Key, _Key], float]]:
    """Yield rows that ask the same in the same config, and how much the score rose."""
    for config, scores in first.configs.items():
        config_after = second.configs.get(config)
        if config_after is None:
            continue
        places = {digest: index for index, digest in enumerate(config_after.question_ids.tolist())}
        for index, digest in enumerate(scores.question_ids.tolist()):
            place = places.get(digest)
            if place is None:
                continue
            before, after = scores.headline_scores[index], config_after.headline_scores[place]
            if before is not None and after is not None and (before == 1) != (after == 1):
                yield ((config, index), (config, place)), after - before


def _score(run: Scores, key: _Key) -> float:
    return 100 * (run.configs[key[0]].headline_scores[key[1]] or 0.0)


def _texts(
    place: Path, keys: list[_Key], data: str | None
) -> dict[_Key, tuple[str, tuple[str, ...], str]]:
    """Return question, gold answers and text of rows of a run."""
    folder = place if place.is_dir() else place.parent
    if not (folder / RUN_FILE).is_file():
        return {}
    dataset = rows_of_run(folder, read_info(folder), data)
    dataset.fetch()
    answers = RunFolder(folder).answers([])
    texts = {}
    for config in dict.fromkeys(config for config, _ in keys):
        indexes = {index for name, index in keys if name == config}
        for row in dataset.question_rows(config):
            answer: Answer | None = answers.get((config, row.index, 0))
            if row.index in indexes and answer is not None:
                texts[config, row.index] = (
                    row.question[-LONGEST:], row.outputs, (answer.text or "")[:LONGEST]
                )  # fmt: skip
    return texts
