"""What an audit counts tokens with: the manifest's tokenizer, and a fast counter if it is exact."""

from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path

from ruler_builders.audit.file_checks import name_findings
from ruler_data.errors import UsageError
from ruler_data.manifest import Manifest
from ruler_data.names import parse_config, quote
from ruler_data.parquet import UNREADABLE, read_rows
from ruler_data.tokenizers import load_tokenizer
from ruler_data.tokenizers.counters import CounterName, Probes
from ruler_data.tokenizers.protocol import template_reserve
from ruler_data.tokenizers.registry import find_by_fingerprint

#: Tokens from which loading and testing a fast counter takes less time than it saves.
WORTHWHILE = 3_000_000


def tokenizer_spec(asked: str | None, manifest: Manifest) -> str:
    """Return how to load the manifest's tokenizer: as asked, or else found by its files.

    Raises:
        UsageError: it is not at hand.
    """
    if asked is not None:
        return asked
    found = find_by_fingerprint(manifest.tokenizer)
    if found is None:
        info = manifest.tokenizer
        msg = (
            f"tokenizer {quote(info.name)} with the files of the manifest is not at hand; give "
            "--tokenizer FOLDER, or --no-lengths to verify all but the lengths"
        )
        raise UsageError(msg)
    return found


def tokenizer_findings(spec: str, manifest: Manifest) -> list[str]:
    """Check that a tokenizer is the manifest's: its files, and what its chat template takes."""
    tokenizer, said = load_tokenizer(spec), manifest.tokenizer
    findings = [
        f"tokenizer {said.name}: {name} sha256 expected {sha256}, "
        f"found {tokenizer.info.files.get(name, 'no such file')}"
        for name, sha256 in said.files.items()
        if tokenizer.info.files.get(name) != sha256
    ]
    reserve = template_reserve(tokenizer)
    if reserve != said.template_reserve:
        findings.append(
            f"tokenizer {said.name}: template reserve expected {said.template_reserve}, "
            f"found {reserve}"
        )
    return findings


def exact_counter(asked: CounterName, spec: str, folder: Path, manifest: Manifest) -> CounterName:
    """Return the counter to use: a fast one only if it is exact on the first row of each task.

    Raises:
        UsageError: the counter that was named is not.
    """
    tokens = sum(info.rows * info.length_mean for info in manifest.configs.values())
    if asked == "tokenizers" or (asked == "auto" and tokens < WORTHWHILE):
        return "tokenizers"
    tokenizer = load_tokenizer(spec)
    if tokenizer.use(asked, Probes(lambda: _probes(folder, manifest))):
        return "tokenizers"
    return asked


def _probes(folder: Path, manifest: Manifest) -> Iterator[tuple[str, str]]:
    """Yield the first prompt of every task's shortest config, as far as it can be read."""
    shortest: dict[str, tuple[int, str]] = {}
    for name, info in manifest.configs.items():
        if name_findings(name, info, manifest) == []:
            task, length = parse_config(name)
            shortest[task] = min(shortest.get(task, (length, info.file)), (length, info.file))
    for _, file in shortest.values():
        with suppress(*UNREADABLE), closing(read_rows(folder / file)) as rows:
            for row in islice(rows, 1):
                yield row.context + row.question, row.answer_prefix
