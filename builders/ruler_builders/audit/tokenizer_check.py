"""The tokenizer of an audit: the one of the manifest, with a fast counter if that is exact."""

from ruler_builders.pipeline.build_context import PROBES
from ruler_data.errors import UsageError
from ruler_data.manifest import Manifest
from ruler_data.names import quote
from ruler_data.tokenizers import load_tokenizer
from ruler_data.tokenizers.counters import WORTHWHILE, CounterName
from ruler_data.tokenizers.protocol import template_reserve
from ruler_data.tokenizers.registry import find_by_fingerprint


def tokenizer_spec(spec: str | None, manifest: Manifest) -> str:
    """Return how to load the manifest's tokenizer: as given, or found by its files.

    Raises:
        UsageError: it is not available.
    """
    if spec is not None:
        return spec
    found = find_by_fingerprint(manifest.tokenizer)
    if found is None:
        msg = (
            f"tokenizer {quote(manifest.tokenizer.name)} with the files of the manifest is not "
            "available; give --tokenizer FOLDER, or --no-lengths to verify all but the lengths"
        )
        raise UsageError(msg)
    return found


def tokenizer_findings(spec: str, manifest: Manifest) -> list[str]:
    """Check that a tokenizer is the manifest's: its files, and the tokens of its template."""
    tokenizer, expected = load_tokenizer(spec), manifest.tokenizer
    findings = [
        f"tokenizer {expected.name}: {name} sha256 expected {sha256}, "
        f"found {tokenizer.info.files.get(name, 'no such file')}"
        for name, sha256 in expected.files.items()
        if tokenizer.info.files.get(name) != sha256 and not tokenizer.info.counts_like(expected)
    ]
    reserve = template_reserve(tokenizer)
    if reserve != expected.template_reserve:
        findings.append(
            f"tokenizer {expected.name}: template reserve expected {expected.template_reserve}, "
            f"found {reserve}"
        )
    return findings


def exact_counter(counter: CounterName, spec: str, manifest: Manifest) -> CounterName:
    """Return the counter to use: the fast one only if it is exact on the prompts of a build.

    Raises:
        UsageError: the counter that was named is not exact.
    """
    tokens = sum(info.rows * info.length_mean for info in manifest.configs.values())
    if counter == "tokenizers" or (counter == "auto" and tokens < WORTHWHILE):
        return "tokenizers"
    return "tokenizers" if load_tokenizer(spec).use(counter, PROBES) else counter
