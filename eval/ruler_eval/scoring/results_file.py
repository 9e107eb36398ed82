"""`results.json`: the scores of a run as a file, and when it is believed.

It holds a score for each row, and of the rows' text only a few shortened examples, so it can be
sent and compared without data and predictions. docs/scoring.md describes its fields;
docs/results.schema.json is generated from its classes. On the machine that wrote it, it is the
cache of its answers; of others it is a claim.
"""

import gzip
import hashlib
import hmac
import json
import math
import re
import secrets
from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from os import PathLike
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from ruler_data.errors import RulerError, UsageError
from ruler_data.files import cache_dir, cached_bytes, read_bytes, write_bytes
from ruler_data.manifest import FILENAME as MANIFEST
from ruler_data.names import quote
from ruler_eval.running.run_dir import A_DATASET, RUN_FILE, why_no_run
from ruler_eval.scoring.results import (
    BINS,
    FILENAME,
    FORMAT,
    SCORER_VERSION,
    ConfigScores,
    Scores,
)

#: Bytes of a file that are read; one of 39,000 rows has 1.5 million.
LARGEST = 1 << 26

#: Identifies the schema of the format; nothing is downloaded from it.
SCHEMA_ID = f"urn:ruler-data:results:{FORMAT}"

_SCORES = TypeAdapter(Scores)


def to_json(scores: Scores) -> bytes:
    """Return the bytes of the file; `means` is for other readers and is not read back."""
    body = {**_SCORES.dump_python(scores, mode="json"), "means": scores.to_records()}
    text = json.dumps(body, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode()
    return b'{"seal":"%b",%b\n' % (_seal(text[1:]).encode(), text[1:])


def write_results(path: Path, scores: Scores) -> None:
    """Write the file atomically, compressed if it ends in `.gz`."""
    body = to_json(scores)
    write_bytes(path, gzip.compress(body, 6, mtime=0) if path.suffix == ".gz" else body)


def _seal(text: bytes) -> str:
    """Return what only this machine can write: results of others are derived again, or claimed."""
    key = cached_bytes(cache_dir("seal"), lambda: secrets.token_bytes(32))
    return hmac.new(key, text, hashlib.sha256).hexdigest()


def kept_results(
    file: Path, files: Mapping[str, tuple[int, str]], fingerprint: str | None = None
) -> Scores | None:
    """Return scores that this machine derived from these answers before; None if it did not."""
    try:
        match = re.fullmatch(rb'\{"seal":"(\w{64})",(.*)\n', read_bytes(file, LARGEST))
        is_sealed = match and hmac.compare_digest(match[1], _seal(match[2]).encode())
        scores = parse(b"{" + match[2]) if match and is_sealed else None
    except (OSError, RulerError):
        return None
    if scores is None or scores.scorer != SCORER_VERSION or scores.files != files:
        return None
    return scores if fingerprint in (None, scores.fingerprint) else None


def contradiction(claim: Scores, derived: Scores) -> str | None:
    """Return what results claim that answers and rows do not give; None if nothing.

    Results of another scorer must agree in official scores, which never change.
    """
    if claim.fingerprint != derived.fingerprint:
        return f"fingerprint {claim.fingerprint} is claimed, {derived.fingerprint} was found"
    if claim.files and claim.files != derived.files:
        return None  # it is of fewer answers
    columns = ("scores", "exact", "f1") if claim.scorer == derived.scorer else ("scores",)
    for name, column in product(derived.configs, columns):
        config, true = claim.configs.get(name), getattr(derived.configs[name], column)
        said = getattr(config, column) if config else ()
        if said != true:
            unlike = (n for n, (x, y) in enumerate(zip(said, true, strict=False)) if x != y)
            place = next(unlike, 0)
            first, second = (values[place] if values else None for values in (said, true))
            return f"configs.{name}.{column}.{place}: {first} is claimed, {second} was found"
    return None


#: A run: its folder, the path of its `results.json`, or its results (also as `results` of it).
Run = str | Path | Scores | Any


def read_results(run: Run) -> Scores:
    """Return the results of a run, read from its file unless they are given.

    Raises:
        UsageError: the file does not exist.
        RulerError: its content is damaged, or of another format.
    """
    run = getattr(run, "results", run)
    if isinstance(run, Scores):
        return run
    if not isinstance(run, str | PathLike):
        msg = f"{quote(str(run))}: a run is given as its folder, its {FILENAME} or its scores"
        raise UsageError(msg)
    path = Path(run) / FILENAME if Path(run).is_dir() else Path(run)
    if (path.parent / MANIFEST).exists():
        raise UsageError(quote(str(run)), A_DATASET)
    if not path.is_file():
        if not (path.parent / RUN_FILE).is_file():
            raise UsageError(quote(str(run)), why_no_run(Path(run)))
        msg = f"{quote(str(path))}: does not exist; create it with `ruler-eval score`"
        raise UsageError(msg)
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            body = file.read(LARGEST + 1)
        if len(body) > LARGEST:
            msg = f"holds more than {LARGEST:,} bytes"
            raise RulerError(msg)
        results = parse(body)
    except (RulerError, OSError, EOFError) as error:
        msg = f"{path}: {error}; score the run again"
        raise RulerError(msg) from error
    return replace(results, claimed=f"only {FILENAME} was read")


def parse(body: bytes) -> Scores:
    """Return the results that a file holds.

    Raises:
        RulerError: its content is damaged, or of another format.
    """
    try:
        results = _SCORES.validate_json(body, extra="ignore")
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"])) or "the file"
        msg = f"not a results file: {field}: {first['msg']}"
        raise RulerError(msg) from error
    if problem := _problem(results):
        raise RulerError(problem)
    return replace(results, claimed="", name="", attributes={})


def _problem(results: Scores) -> str | None:
    """Return why results cannot be used; None if they can."""
    if results.format != FORMAT:
        return f"format {results.format}, this version reads {FORMAT}"
    for name, config in results.configs.items():
        if problem := _inconsistency(config):
            return f"{name}: {problem}"
    return None if results.scored else "no row has a score"


def _inconsistency(config: ConfigScores) -> str | None:
    """Return what contradicts the rest of a config's results; None if nothing does."""
    if len(config.questions) not in (0, 16 * config.rows):
        return f"{config.rows} rows, {len(config.questions)} characters of questions"
    for column in ("scores", "characters", "tokens", "exact", "f1"):
        count = len(getattr(config, column))
        if count != config.rows and (count or column not in ("exact", "f1")):
            return f"{config.rows} rows, {count} {column}"
    if config.scored and None not in config.scores and None in config.headline_scores:
        return f"the headline is {config.headline}, and there are no such scores"
    if config.scores.count(None) != len(config.failed) + len(config.missing):
        return "the rows without a score are not the failed and missing ones"
    if not all(isinstance(value, str) or math.isfinite(value) for value in config.params.values()):
        return "a parameter is not a finite number"
    if (depth := config.depth) and {*map(len, (depth.pieces, depth.shown, depth.rows))} != {BINS}:
        return f"depth does not have {BINS} cells"
    return None


def schema() -> dict[str, Any]:
    """Return the JSON schema of the file."""
    body = _SCORES.json_schema()
    means = {"type": "array", "items": {"type": "object"}}
    properties = {"seal": {"type": "string"}, **body.pop("properties"), "means": means}
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": SCHEMA_ID}
    return {**head, **body, "properties": properties}
