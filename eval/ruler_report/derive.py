"""Results are derived: made again from answers and rows, wherever these are there.

    run.json, answers-*.jsonl, rows  ─►  results, which results.json must agree with
    results.json alone               ─►  results that are claimed, and marked so everywhere

What was derived is kept in the user's cache, never in the run. Its key is the sha256 of what
decides on it: the run, its answers, the digests of the rows, and the code that scores.
"""

import hashlib
import json
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from os import PathLike
from pathlib import Path

from ruler_data.errors import RulerError, UsageError
from ruler_data.files import cache_dir, write_bytes
from ruler_data.names import quote
from ruler_eval import metrics, reasoning
from ruler_eval.data import Dataset
from ruler_eval.repeat import read_repeat
from ruler_eval.run_dir import ANSWER_FILES, RUN_FILE, STARTS, RunFolder, RunInfo, read_info
from ruler_eval.scoring import rows_of_run
from ruler_report import exact, failures, prediction_formats, predictions, results_file, scoring
from ruler_report.failures import PARAMETRIC
from ruler_report.results_file import FILENAME, ConfigResult, Results, Run, read_results

#: Modules that decide on a score.
SCORERS = (
    exact, failures, metrics, prediction_formats, predictions, reasoning, results_file, scoring,
)  # fmt: skip
#: What is compared of a config, in the words of a refusal.
CONFIG_FIELDS = {
    "digest": "the digest of the rows",
    "rows": "the number of rows",
    "questions": "what the rows ask",
    "question_digest": "what the rows ask",
    "scores": "the score",
    "exact": "the exact score",
    "f1": "the F1",
    "characters": "the length of the answer in characters",
    "tokens": "the length of the answer in tokens",
    "failed": "the rows with an error",
    "missing": "the rows without an answer",
    "truncated": "the rows that are cut off",
    "empty": "the rows with an empty answer",
    "headline": "the headline score",
    "samples": "the means of the samples",
    "depth": "the evidence by depth",
    "params": "the parameters of the task",
    "floor": "the floor",
    "family": "the family",
    "category": "the category",
    "metric": "the metric",
    "same_questions_as": "the task with the same questions",
}
#: Of them, what every version of this package computes alike.
LASTING = ("digest", "rows", "scores", "failed", "missing")


def derive_named(runs: Sequence[Run], names: Sequence[str], data: str | None) -> list[Results]:
    """Return the results of runs with the names that the user gives some of them.

    `names` are `NAME=PLACE`; places that are not among the runs follow them.
    """
    named: dict[str, str] = {}
    for entry in names:
        name, equals, place = entry.partition("=")
        if not (name and equals and place):
            msg = f"--name {quote(entry)}: give NAME=RUN, e.g. 'snapkv .5=runs/x'"
            raise UsageError(msg)
        named[place] = name
    places = [str(run) for run in runs]
    every = [*runs, *(place for place in named if place not in places)]
    return [replace(derive(run, data), name=named.get(str(run), "")) for run in every]


def derive(run: Run, data: str | None = None) -> Results:
    """Return the results of a run, made again from its answers and rows if these are there.

    Args:
        run: its folder, the path of its `results.json`, or its results.
        data: folder or Hub repo of the rows, if they are not where the run read them.

    Raises:
        UsageError: there is neither an answer nor a results.json.
        RulerError: something is damaged; or results.json says other than answers and rows do.
    """
    if not isinstance(run, str | PathLike):
        return read_results(run)
    place = Path(run)
    folder, file = (place, place / FILENAME) if place.is_dir() else (place.parent, place)
    claim = read_results(file) if file.is_file() else None
    if not (folder / RUN_FILE).is_file() or (claim and claim.predictions):
        return _of_predictions(folder, claim) if claim else read_results(place)
    info = read_info(folder)
    if not any(folder.glob(ANSWER_FILES)):
        if claim:
            return replace(claim, claimed="its answers are not beside it")
        msg = f"{quote(str(folder))}: has no {ANSWER_FILES}; no row was answered yet"
        raise UsageError(msg)
    if claim:
        if claim.fingerprint != info.fingerprint:
            msg = f"{file}: fingerprint: {claim.fingerprint} is claimed, {info.fingerprint} was run"
            raise RulerError(msg)
        _check_files(file, claim, folder)
    found = from_cache(key := key_of(info, folder))
    if found is None:
        try:
            rows = _rows(folder, info, data)
        except (RulerError, OSError) as error:
            if claim is None:
                raise
            return replace(claim, claimed=f"its rows cannot be read: {error}")
        _, answers = predictions.read_run(folder)
        found = scoring.results_of(info, answers, rows, partial=True)
        found = replace(found, window=window_of(folder))
        to_cache(key, found)
    found = replace(found, noise=noise_of(folder))
    return found if claim is None else _agreed(file, claim, found)


def noise_of(folder: Path) -> float:
    """Return the variance of a row's score between repetitions of a run; 0 without one.

    Of two answers to a row each has half of the variance of their difference, which for scores in
    [0, 1] is at most the mean change.
    """
    again = read_repeat(folder)
    return again.points / 200 if again else 0.0


def _rows(folder: Path, info: RunInfo, data: str | None) -> Dataset:
    """Return the rows of a run: where it read them, else those of `data`."""
    if data:
        with suppress(RulerError, OSError):
            return rows_of_run(folder, info)
    return rows_of_run(folder, info, data)


def _of_predictions(folder: Path, claim: Results) -> Results:
    """Return the results of predictions that are no run, if this machine has derived them."""
    if not claim.predictions:
        return claim
    names = [folder, *folder.iterdir()]
    place = next((path for path in names if scoring.name_of(path) == claim.predictions), None)
    found = from_cache(key_of(claim.run, place)) if place else None
    if found is None:
        why = "its predictions or its rows are not known here; score them again"
        return replace(claim, claimed=why)
    return _agreed(folder / FILENAME, claim, found)


def _agreed(file: Path, claim: Results, found: Results) -> Results:
    """Return derived results, unless what the file claims contradicts them."""
    if problem := next(contradictions(claim, found), None):
        msg = f"{file}: {problem}; its answers and rows give another; score the run again"
        raise RulerError(msg)
    if claim.validity and claim.validity.partial:
        found = replace(found, validity=claim.validity)
    configs = {
        name: _with_parametric(one, claim.configs[name]) for name, one in found.configs.items()
    }
    return replace(found, configs=configs)


def _with_parametric(found: ConfigResult, claim: ConfigResult) -> ConfigResult:
    """Return a config with the kinds of failure that only a run without context can tell."""
    kinds = {index: kind for kind, rows in found.failures.items() for index in rows}
    told = set(claim.failures.get(PARAMETRIC, ())) & kinds.keys()
    kinds |= dict.fromkeys(told, PARAMETRIC)
    failures_by_kind = {
        kind: tuple(sorted(index for index, one in kinds.items() if one == kind))
        for kind in sorted({*kinds.values()})
    }
    return replace(found, failures=failures_by_kind)


def contradictions(claim: Results, found: Results) -> Iterator[str]:
    """Yield what results claim that answers and rows do not give."""
    for name in ("fingerprint", "run"):
        if getattr(claim, name) != getattr(found, name):
            theirs = _first_difference(claim.run, found.run) or claim.fingerprint
            ours = _first_difference(found.run, claim.run) or found.fingerprint
            yield f"{name}: {theirs} is claimed, {ours} was run"
    if differing := sorted(claim.configs.keys() ^ found.configs.keys()):
        yield f"{differing[0]}: is in only one of the file and the run"
    same_version = claim.package_version == found.package_version
    for name, one in claim.configs.items():
        if name in found.configs:
            yield from _config_contradictions(name, one, found.configs[name], whole=same_version)
    if same_version and claim.validity and found.validity:
        rests, stands = (replace(v, partial=False) for v in (claim.validity, found.validity))
        if rests != stands:
            yield f"{rests.line} is claimed, {stands.line} was found"


def _config_contradictions(
    name: str, claim: ConfigResult, found: ConfigResult, *, whole: bool
) -> Iterator[str]:
    for field, what in CONFIG_FIELDS.items():
        theirs, ours = getattr(claim, field), getattr(found, field)
        if theirs == ours or not (whole or field in LASTING):
            continue
        if isinstance(theirs, tuple) and len(theirs) == len(ours) == found.rows:
            row = next(at for at in range(found.rows) if theirs[at] != ours[at])
            yield f"{name}/{row}: {what} is {theirs[row]} in the file, not {ours[row]}"
        else:
            yield f"{name}: {what} is not that of the run"
    if whole:
        sets = [{i for kind, rows in one.failures.items() for i in rows} for one in (claim, found)]
        kinds = {(k, i) for k, rows in claim.failures.items() for i in rows if k != PARAMETRIC}
        right = {(k, i) for k, rows in found.failures.items() for i in rows}
        if sets[0] != sets[1] or not kinds <= right:
            yield f"{name}: the kinds of failure are not those of the answers"


def _first_difference(one: RunInfo, other: RunInfo) -> str:
    """Return the first field of a run that differs, e.g. `model 'x'`."""
    for name, value in vars(one).items():
        if value != getattr(other, name):
            return f"{name} {quote(str(value), 80)}"
    return ""


def window_of(folder: Path) -> tuple[int | None, int | None]:
    """Return the declared and the trained window of a run's model, as its last start recorded."""
    last = next(iter([*RunFolder(folder).starts()][::-1]), {})
    declared, trained = (last.get(name) for name in ("window", "trained_window"))
    return (
        declared if isinstance(declared, int) else None,
        trained if isinstance(trained, int) else None,
    )


def files_of(place: Path) -> dict[str, tuple[int, str]]:
    """Return bytes and sha256 of each file that answers are read from, by name."""
    if (place / RUN_FILE).is_file():
        paths = [*sorted(place.glob(ANSWER_FILES)), place / STARTS]
    else:
        kinds = {".jsonl", ".yaml", *prediction_formats.READERS}
        found = [path for path in sorted(place.rglob("*")) if path.suffix in kinds]
        paths = found if place.is_dir() else [place]
    return {
        path.relative_to(place if place.is_dir() else place.parent).as_posix(): (
            path.stat().st_size,
            hashlib.sha256(path.read_bytes()).hexdigest(),
        )
        for path in paths
        if path.is_file() and path.name != FILENAME
    }


def _check_files(file: Path, claim: Results, folder: Path) -> None:
    """Check that the files of a run are those that results were made of, or longer."""
    for name, (size, digest) in claim.files.items():
        path = folder / name
        body = path.read_bytes() if path.is_file() and folder in path.parents else b""
        if hashlib.sha256(body[:size]).hexdigest() != digest:
            msg = f"{folder / name}: was changed after {file.name} was made; score the run again"
            raise RulerError(msg)
        if name != STARTS and len(body) != size:
            msg = f"{folder / name}: answers were added after {file.name}; score the run again"
            raise RulerError(msg)
    added = {path.name for path in folder.glob(ANSWER_FILES)} - claim.files.keys()
    if claim.files and added:
        msg = f"{folder / min(added)}: was added after {file.name} was made; score the run again"
        raise RulerError(msg)


def key_of(info: RunInfo, place: Path) -> str:
    """Return the key of what is derived from answers at a place."""
    files = {name: file for name, file in files_of(place).items() if name != STARTS}
    data = [info.data.digests, info.data.rows, info.data.edition, info.data.suite]
    body = json.dumps([info.fingerprint, info.protocol, info.model, data, files, _scorer()])
    return hashlib.sha256(body.encode()).hexdigest()


@cache
def _scorer() -> str:
    """Return the digest of the code that scores."""
    sources = (Path(str(module.__file__)).read_bytes() for module in SCORERS)
    return hashlib.sha256(b"".join(sources)).hexdigest()


def from_cache(key: str) -> Results | None:
    """Return what was derived before; None if it is not in the cache."""
    path = cache_dir("results") / f"{key}.json.zz"
    try:
        return results_file.parse(zlib.decompress(path.read_bytes()))
    except (OSError, zlib.error, RulerError):
        return None


def to_cache(key: str, results: Results) -> None:
    """Keep what was derived."""
    body = results_file.to_json(results, {}).encode()
    write_bytes(cache_dir("results") / f"{key}.json.zz", zlib.compress(body, 1))
