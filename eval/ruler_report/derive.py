"""Results are derived: made again from answers and rows, wherever these are there.

    run.json, answers-*.jsonl, rows  ─►  results, which results.json must agree with
    results.json alone               ─►  results that are claimed, and marked so everywhere

What was derived is kept in the user's cache, never in the run. Its key is the sha256 of what
decides on it: the run, its answers, the digests of the rows, and the code that scores.
"""

import hashlib
import json
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from math import isfinite, nan
from os import PathLike
from pathlib import Path
from typing import Any

from ruler_data import reasoning
from ruler_data.errors import RulerError, UsageError
from ruler_data.files import cache_dir, sha256_file, write_bytes
from ruler_data.names import quote
from ruler_eval import answers, journal, metrics, metrics_ruler2, run_dir
from ruler_eval import scoring as official
from ruler_eval.data import Dataset
from ruler_eval.decide import decision_of
from ruler_eval.repetition import Pair, Repeat, read_repeats
from ruler_eval.run_dir import ANSWER_FILES, RUN_FILE, STARTS, RunFolder, RunInfo, read_info
from ruler_eval.scoring import rows_of_run
from ruler_report import (
    exact,
    failures,
    prediction_formats,
    predictions,
    results_file,
    scoring,
    wording,
)
from ruler_report.failures import PARAMETRIC
from ruler_report.results_file import FILENAME, ConfigResult, Results, Run, read_results

#: Modules that decide on a score.
SCORERS = (
    answers, exact, failures, journal, metrics, metrics_ruler2, official, prediction_formats,
    predictions, reasoning, results_file, run_dir, scoring, wording,
)  # fmt: skip
#: What every version of this package computes alike, and the words for some of it.
LASTING = ("digest", "rows", "scores", "failed", "missing")


def derive_named(
    runs: Sequence[Run], names: Sequence[str], data: str | None, attributes: Sequence[str] = ()
) -> list[Results]:
    """Return the results of runs with the names and attributes that the user gives some of them.

    `names` are `NAME=PLACE`; places that are not among the runs follow them. `attributes` are
    `KEY=NUMBER=PLACE`, or `KEY=NUMBER` for all runs.

    Raises:
        RulerError: as `derive`; or a run has no score at all.
    """
    every: dict[str, Run] = {folder_of(run): run for run in runs}  # one that is twice there is one
    labels: dict[str, str] = {}
    for entry in names:
        name, _, place = entry.rpartition("=")
        if not (name and place):
            option = f"--name {quote(entry)}"
            raise UsageError(option, "give NAME=RUN, e.g. 'snapkv .5=runs/x'")
        labels[folder_of(place)] = name
        every[folder_of(place)] = place
    numbers: dict[str, dict[str, float]] = {place: {} for place in every}
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
        replace(derive(run, data), name=labels.get(place, ""), attributes=numbers[place])
        for place, run in every.items()
    ]
    for run, one in zip(every.values(), results, strict=True):
        if not one.scored:
            name = one.run.model if isinstance(run, Results) else str(run)
            raise RulerError(
                quote(name, 200), "no row has a score; resume the run, or leave it out"
            )
    return results


def folder_of(run: Run) -> str:
    """Return what tells a run from others: its folder, however it is written."""
    if isinstance(run, Results):
        return f"results {id(run)}"
    path = Path(run)
    return str((path.parent if path.name == FILENAME else path).resolve())


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
    if claim and claim.predictions:
        return _of_predictions(file, claim)
    if not (folder / RUN_FILE).is_file():
        return claim or read_results(place)
    info = read_info(folder)
    if claim and not any(folder.glob(ANSWER_FILES)):
        return replace(claim, claimed="its answers are not beside it")
    if claim:
        for problem in _differences("fingerprint", claim.fingerprint, info.fingerprint):
            raise RulerError(file, f"{problem} in {RUN_FILE}")
        _check_files(file, claim)
    results = from_cache(key := key_of(info, folder))
    if results is None:
        _, records = predictions.read_run(folder)
        try:
            rows = _rows(folder, info, data)
        except (RulerError, OSError) as error:
            if claim is None:
                raise
            return replace(claim, claimed=f"its rows cannot be read: {error}")
        results = scoring.results_of(info, records, rows, partial=True)
        results = replace(results, window=window_of(folder))
        to_cache(key, results)
    notes = (*results.notes, *decided_by(folder, lambda *run: _rows(run[0], run[1], data)))
    results = replace(results, noise=_noise(folder, results), notes=notes)
    return results if claim is None else _reconcile(file, claim, results)


def decided_by(folder: Path, rows_of: Callable[[Path, RunInfo], Dataset]) -> list[str]:
    """Return a line on what the answers of a run decide, if it had `--until-decided`."""
    one = decision_of(folder, rows_of)
    return [] if one is None else ["; ".join(filter(None, (one["answer"], one["guarantee"])))]


def _noise(folder: Path, results: Results) -> float:
    """Return the variance of a row's score, from all repetitions together.

    A row that was repeated twice counts twice. Of two answers to a row each has half of the
    variance of their difference, which for scores in [0, 1] is at most the mean change.
    """
    pairs: list[Pair] = []
    for path, again in read_repeats(folder):
        for pair in again.pairs:
            config, _, index = pair.row.rpartition("/")
            scores = results.configs[config].scores if config in results.configs else ()
            is_row = index.isdecimal() and int(index) < len(scores)
            # The score of a row with several samples is their mean.
            if not is_row or (results.run.samples == 1 and scores[int(index)] != pair.before):
                what = f"the run has no row {quote(pair.row)} with the score {pair.before}"
                raise RulerError(path, f"{what}; remove it, and repeat again")
        pairs += again.pairs
    return Repeat(tuple(pairs)).points / 200


def _rows(folder: Path, info: RunInfo, data: str | None) -> Dataset:
    """Return the rows of a run: where it read them, else those of `data`."""
    if data:
        with suppress(RulerError, OSError):
            return rows_of_run(folder, info)
    return rows_of_run(folder, info, data)


def _of_predictions(file: Path, claim: Results) -> Results:
    """Return the results of predictions that are no run, if this machine has derived them."""
    places = [file.parent, *file.parent.iterdir()]
    place = next((path for path in places if scoring.name_of(path) == claim.predictions), None)
    results = from_cache(key_of(claim.run, place)) if place else None
    if results is None:
        why = "its predictions or its rows are not known here; score them again"
        return replace(claim, claimed=why)
    return _reconcile(file, claim, results)


def _reconcile(file: Path, claim: Results, derived: Results) -> Results:
    """Return derived results, unless what the file claims contradicts them.

    Only two things are taken from the file, because answers and rows do not tell them: that the
    user accepted missing rows, and which answers were the same without the context.
    """
    configs = {
        name: _with_parametric(one, claim.configs[name].failures.get(PARAMETRIC, ()))
        if name in claim.configs
        else one
        for name, one in derived.configs.items()
    }
    derived = replace(derived, configs=configs)
    if claim.validity and derived.validity:
        partial = claim.validity.partial
        derived = replace(derived, validity=replace(derived.validity, partial=partial))
    if problem := next(contradictions(claim, derived), None):
        msg = f"{file}: {problem} by its answers and rows; score the run again"
        raise RulerError(msg)
    return derived


def _with_parametric(config: ConfigResult, marked: Sequence[int]) -> ConfigResult:
    """Return a config whose marked rows, if they score 0, failed as without the context."""
    moved = {row for row in marked if 0 <= row < config.rows and config.scores[row] == 0}
    if not moved:
        return config
    kinds = {kind: tuple(row for row in rows if row not in moved)
             for kind, rows in config.failures.items()}  # fmt: skip
    kinds[PARAMETRIC] = tuple(sorted(moved))
    return replace(config, failures={kind: kinds[kind] for kind in sorted(kinds) if kinds[kind]})


def contradictions(claim: Results, derived: Results) -> Iterator[str]:
    """Yield what results claim that answers and rows do not give.

    Results of another version of this package must agree in what every version computes alike.
    """
    yield from _differences("fingerprint", claim.fingerprint, derived.fingerprint)
    yield from _differences("run", vars(claim.run), vars(derived.run))
    same_version = claim.package_version == derived.package_version
    columns = [
        {
            name: {key: value for key, value in vars(one).items() if same_version or key in LASTING}
            for name, one in each.configs.items()
        }
        for each in (claim, derived)
    ]
    yield from _differences("configs", *columns)
    if same_version:
        yield from _differences("validity", claim.validity, derived.validity)


def _differences(where: str, claimed: Any, derived: Any) -> Iterator[str]:  # noqa: ANN401
    """Yield the places at which two JSON values differ, with both values."""
    if claimed == derived:
        return
    if isinstance(claimed, dict) and isinstance(derived, dict):
        for name in sorted(claimed.keys() | derived.keys()):
            one, other = (values.get(name, "nothing") for values in (claimed, derived))
            yield from _differences(f"{where}.{name}", one, other)
    elif isinstance(claimed, tuple) and isinstance(derived, tuple) and len(claimed) == len(derived):
        for place, (one, other) in enumerate(zip(claimed, derived, strict=True)):
            yield from _differences(f"{where}.{place}", one, other)
    else:
        one, other = (quote(str(value), 200) for value in (claimed, derived))
        yield f"{where}: {one} is claimed, {other} was found"


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
    folder = place if place.is_dir() else place.parent
    if (place / RUN_FILE).is_file():
        paths = [*sorted(place.glob(ANSWER_FILES)), place / STARTS]
    elif place.is_dir():
        kinds = {".jsonl", ".yaml", *prediction_formats.READERS}
        paths = [path for path in sorted(place.rglob("*")) if path.suffix in kinds]
    else:
        paths = [place]
    return {
        path.relative_to(folder).as_posix(): (path.stat().st_size, sha256_file(path))
        for path in paths
        if path.is_file() and path.name != FILENAME
    }


def _check_files(file: Path, claim: Results) -> None:
    """Check that the files of a run are those that results were made of; a run may start again."""
    there = files_of(file.parent) if claim.files else {}
    for name in sorted(claim.files.keys() | there.keys()):
        size, digest = claim.files.get(name, (0, ""))
        if name == STARTS and name in there and name in claim.files:
            start = (file.parent / name).read_bytes()[:size]
            is_changed = hashlib.sha256(start).hexdigest() != digest
        else:
            is_changed = name != STARTS and there.get(name) != (size, digest)
        if is_changed:
            how = "changed" if name in claim.files else "added"
            msg = f"{file.parent / name}: was {how} after {file.name} was made; score the run again"
            raise RulerError(msg)


def key_of(info: RunInfo, place: Path) -> str:
    """Return the key of what is derived from answers at a place."""
    files = {name: file for name, file in files_of(place).items() if name != STARTS}
    data = [info.data.digests, info.data.rows, info.data.edition, info.data.suite]
    body = json.dumps([info.fingerprint, info.protocol, info.model, data, files, _scorer()])
    return hashlib.sha256(body.encode()).hexdigest()


@cache
def _scorer() -> str:
    """Return the digest of the code that scores, and of the words that it reads answers by."""
    sources = [Path(str(module.__file__)).read_bytes() for module in SCORERS]
    return hashlib.sha256(b"".join([*sources, repr(wording.WORDING).encode()])).hexdigest()


def from_cache(key: str) -> Results | None:
    """Return what was derived before; None if it is not in the cache."""
    path = cache_dir("results") / f"{key}.json.zz"
    try:
        return results_file.parse(zlib.decompress(path.read_bytes()))
    except (OSError, zlib.error, RulerError):
        return None


def to_cache(key: str, results: Results) -> None:
    """Keep what was derived; a cache that cannot be written costs time and nothing else."""
    body = results_file.to_json(results, {}).encode()
    with suppress(RulerError):
        write_bytes(cache_dir("results") / f"{key}.json.zz", zlib.compress(body, 1))
