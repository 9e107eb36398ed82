"""`verify`: build a folder again from the inputs that its manifest records, and compare all of it.

    manifest -> plan -> the same build in a scratch folder -> files, rows, manifest, card, licences

What a build with these inputs would not have made is a finding: with the manifest's pyarrow every
byte of a file, with another its rows and columns. A config that cannot be made here, for want of
sources or tokenizer, is *unproved*, and the few fields that nothing here decides on (`CLAIMED`) are
*claimed*. What is proved is noted in the user's cache (`proved`).
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from html import escape
from itertools import islice, zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Group
from rich.text import Text

from ruler_builders.card import address_of
from ruler_builders.checks.defects import measure_defects
from ruler_builders.checks.solvers import column_findings, row_findings
from ruler_builders.folder_proof import (
    Obstacle,
    as_recorded,
    claims_of,
    differing_values,
    findings_beside,
    input_findings,
    manifest_findings,
    rebuilt_manifest,
    receipt,
    sources_and_obstacles,
    strays,
)
from ruler_builders.pipeline.build_dir import row_figures
from ruler_builders.pipeline.build_one import BuildContext, build_one, open_context, worker_context
from ruler_builders.pipeline.plan import BuildPlan
from ruler_builders.pipeline.pool import Progress, processes, run_jobs
from ruler_builders.sources.catalogue import essays_of
from ruler_builders.upstream.columns import prompt_tokens
from ruler_builders.upstream.sources import words_of
from ruler_data.dataset import open_source
from ruler_data.errors import BudgetError, RulerError, UsageError
from ruler_data.files import sha256_file, write_file
from ruler_data.manifest import BALANCED, ConfigInfo, Manifest
from ruler_data.names import (
    counted,
    parse_config,
    parse_lengths,
    parse_names,
    quote,
    released_version,
)
from ruler_data.parquet import CANARY, SCHEMA, UNREADABLE, opened, read_packed
from ruler_data.progress import progress as progress_bar
from ruler_data.row import Row, RowDigest, serialize
from ruler_data.suites import Suite
from ruler_data.terminal import visible_line
from ruler_data.tokenizers.counters import CounterName
from ruler_data.tokenizers.registry import find_by_fingerprint
from ruler_data.version import __version__
from ruler_data.views import html_table


@dataclass(frozen=True, repr=False)
class Verdict:
    """The result of `verify`.

    Attributes:
        where: the folder, or the release and its commit.
        findings: what is wrong, each with file, row and value.
        unproved: why a config or file could not be made again, by its name.
        claimed: fields of the manifest that nothing here decides on, with their values.
        configs: number of configs that were compared.
        rows: number of rows in them.
        made: number of rows that were made again.
    """

    where: str
    findings: tuple[str, ...]
    unproved: Mapping[str, str]
    claimed: tuple[str, ...]
    configs: int
    rows: int
    made: int

    @property
    def clean(self) -> bool:
        """Whether nothing wrong was found; what is unproved may still be wrong."""
        return not self.findings

    @property
    def exit_status(self) -> int:
        """0: proved; 1: a finding; 3: nothing wrong found, but not all could be proved."""
        return 1 if self.findings else 3 if self.unproved else 0

    @property
    def failure(self) -> str:
        """Why the status is not 0, in a line."""
        if self.findings:
            return f"{self.where}: verification failed: {counted(len(self.findings), 'finding')}"
        return f"{self.where}: nothing wrong found, but not all proved" if self.unproved else ""

    @property
    def notes(self) -> tuple[str, ...]:
        """What could not be proved, and why."""
        by_reason: dict[str, list[str]] = {}
        for name, why in self.unproved.items():
            by_reason.setdefault(why, []).append(name)
        return tuple(f"not proved: {', '.join(names)}: {why}" for why, names in by_reason.items())

    def to_record(self) -> dict[str, object]:
        """Return the verdict as plain values."""
        return {"exit_status": self.exit_status, "clean": self.clean, **asdict(self)}

    def to_records(self) -> list[dict[str, str]]:
        """Return one record for each finding: where it is and what is wrong."""
        split_findings = (finding.partition(": ") for finding in self.findings)
        return [{"where": where, "finding": finding} for where, _, finding in split_findings]

    def __rich__(self) -> Group:
        lines = list(self.findings)
        if not lines:
            lines = [*(f"claimed: {claim}" for claim in self.claimed), repr(self)[1:-1]]
        texts = (Text(visible_line(line), no_wrap=True, overflow="ignore") for line in lines)
        return Group(*texts)

    def __repr__(self) -> str:
        result = {0: "proved", 1: counted(len(self.findings), "finding"), 3: "not all proved"}
        checked = f"{counted(self.configs, 'config')}, {counted(self.rows, 'row')}"
        return f"<{self.where}: {result[self.exit_status]}; {checked}, {self.made} made again>"

    def _repr_html_(self) -> str:
        findings = ([*record.values()] for record in self.to_records())
        return f"<p>{escape(repr(self)[1:-1])}</p>{html_table(('where', 'finding'), findings)}"


def verify(
    data: Path | str,
    *,
    revision: str = "",
    tasks: str | Collection[str] | None = None,
    lengths: str | Collection[int | str] | None = None,
    rows: int | None = None,
    tokenizer: str | None = None,
    sources: Path | str | None = None,
    haystack: Path | str | None = None,
    workers: int = 1,
    counter: CounterName = "auto",
    show: Callable[[int], AbstractContextManager[Progress]] = progress_bar,
) -> Verdict:
    """Make a folder or release again, and cache that it was proved; see `ruler_data verify`.

    `show` returns what reports progress over so many tokens.
    """
    from ruler_data.hub.client import HubDown

    selection = parse_names(tasks, "--tasks"), parse_lengths(lengths, "--lengths")
    try:
        source = open_source(data, revision or None)
        release, manifest, folder, where = source.release, source.manifest, source.folder, str(data)
        names = manifest.select(*selection)
        if release is not None:
            where = f"{data} at {revision} (commit {release.commit})"
            folder = release.fetch(names, files=manifest.files)
    except HubDown as error:  # nothing was found wrong
        raise UsageError(*error.args) from error
    findings = [*input_findings(manifest)]
    if findings:  # the rest cannot be interpreted
        return Verdict(where, tuple(findings), {}, (), len(names), 0, 0)
    spec = tokenizer or find_by_fingerprint(manifest.tokenizer)
    present = [config for config in names if (folder / manifest.configs[config].file).is_file()]
    findings += [f"{manifest.configs[config].file}: missing" for config in {*names} - {*present}]
    with TemporaryDirectory(prefix="ruler-data-") as scratch:
        plan = _plan(manifest, Path(scratch), spec or "", sources, haystack, counter)
        context = open_context(plan) if spec is not None else None
        infos, obstacles = sources_and_obstacles(manifest, context)
        job = partial(_prove, folder, manifest, rows, obstacles, plan)
        tokens = sum(manifest.configs[name].rows * parse_config(name)[1] for name in present)
        with show(tokens) as progress:
            longest_first = sorted(present, key=lambda name: -parse_config(name)[1])
            longest = parse_config(longest_first[0])[1] if longest_first else 0
            in_process = partial(job, context=context)
            count = processes(workers, tokens, longest)
            done = run_jobs(job, longest_first, count, progress, in_process)
            proofs = {proof.name: proof for proof in done}
    findings += [finding for name in present for finding in proofs[name].findings]
    unproved = {name: proofs[name].unproved for name in present if proofs[name].unproved}
    configs = {**manifest.configs, **{name: proof.info for name, proof in proofs.items()}}
    address = address_of(folder)
    if release and address:
        tag = revision if released_version(revision) else address.revision  # else a commit
        if (address.repo, address.revision) != (release.repo, tag):
            findings.append(f"README.md: is the card of {address.repo} at {address.revision}")
    again = rebuilt_manifest(manifest, context, infos, configs, address)
    if has_bytes := len(proofs) == len(configs) and all(
        proof.has_bytes for proof in proofs.values()
    ):
        again = replace(again, pyarrow=pa.__version__)
    beside, unrendered = findings_beside(folder, manifest, again, address)
    findings += [*beside, *manifest_findings(folder, manifest, again)]
    unproved |= unrendered
    if release is None:
        findings += strays(folder, manifest)
    if address is None and len({info.rows for info in configs.values()}) > 1:
        most = max(info.rows for info in configs.values())
        findings += [
            f"{name}: {counted(info.rows, 'row')}, and other configs have {most}"
            for name, info in configs.items()
            if info.rows < most
        ]
    verdict = Verdict(
        where,
        tuple(dict.fromkeys(findings)),
        {} if findings else unproved,
        tuple(
            claims_of(
                manifest, context, address, has_bytes=has_bytes, is_release=release is not None
            )
        ),
        len(present),
        sum(manifest.configs[name].rows for name in names),
        sum(proof.made for proof in proofs.values()),
    )
    if verdict.exit_status == 0 and len(names) == len(manifest.configs):
        with suppress(OSError, RulerError):  # without it, the next command proves it again
            write_file(receipt(folder), f"{__version__}\n")
    return verdict


def _plan(
    manifest: Manifest,
    folder: Path,
    spec: str,
    sources: Path | str | None,
    haystack: Path | str | None,
    counter: CounterName,
) -> BuildPlan:
    """Return the plan of the build whose inputs a manifest records."""
    tasks, lengths = zip(*map(parse_config, manifest.configs), strict=True)
    table = {name: manifest.table[name] for name in tasks}
    rows = max(info.rows for info in manifest.configs.values())
    return BuildPlan(
        spec,
        Suite(manifest.suite, "", table, tuple(sorted(set(lengths))), rows),
        folder,
        manifest.seed,
        sources=sources,
        haystack=haystack,
        sources_kind="real",
        samples=frozenset(source.name for source in manifest.sources if source.kind == "sample"),
        edition=manifest.edition,
        template=manifest.chat_template or "base",
        reserve=manifest.tokenizer.extra_reserve,
        counter=counter,
        network=False,
        essays=essays_of(manifest),
        words=words_of(manifest),
    )


@dataclass(frozen=True)
class _Proof:
    """A config built again: its entry, what differs, and why it was not proved.

    `has_bytes`: whether the file is the built one to the byte.
    """

    name: str
    info: ConfigInfo
    findings: list[str]
    unproved: str = ""
    made: int = 0
    has_bytes: bool = False


def _prove(
    folder: Path,
    manifest: Manifest,
    limit: int | None,
    obstacles: Mapping[str, Obstacle],
    plan: BuildPlan,
    name: str,
    progress: Progress,
    context: BuildContext | None = None,
) -> _Proof:
    """Build a config again in the scratch folder of the plan, and compare its file and its rows.

    What cannot be built has its rows solved and their tokens counted.
    """
    if context is None and plan.tokenizer:  # in a worker
        context = worker_context(replace(plan, folder=Path()))
    info = manifest.configs[name]
    obstacle = obstacles.get("", obstacles.get(parse_config(name)[0]))
    path, findings, why = folder / info.file, list[str](), obstacle.why if obstacle else ""
    entry = replace(info, bytes=path.stat().st_size, sha256=sha256_file(path))
    rows = info.rows if limit is None else min(limit, info.rows)
    made: ConfigInfo | None = None
    if context and rows and (obstacle is None or obstacle.may_give_rows):
        try:
            short = replace(plan, suite=replace(plan.suite, rows=rows))
            made = build_one(short, context, name, progress)[1]
        except BudgetError as error:
            findings.append(f"{name}: cannot be made: {error}")
        except RulerError as error:
            why = str(error)
    else:
        progress(name, info.rows)
    if made and made.sha256 == entry.sha256:
        entry = replace(entry, **as_recorded(manifest, name, vars(made), made))
        return _Proof(name, entry, [], "", rows, has_bytes=True)
    try:
        findings += _file_findings(manifest, info, path)
        if made and (differences := [*_row_differences(manifest, plan, name, path, made)]):
            findings += [] if why else differences
            made = None if why else made
        elif made:
            why = ""
        if rows < info.rows:
            why = why or f"made again were {rows} rows of each config (--rows)"
        if why:
            findings += _solved(manifest, plan, context, name, path)
        whole = made if rows == info.rows else None
        entry = replace(entry, **as_recorded(manifest, name, _read(manifest, name, path), whole))
        if whole and not (findings or why):
            findings += _container_findings(manifest, path, plan.folder / whole.file)
    except UNREADABLE as error:
        text = str(error).strip().partition("\n")[0] or type(error).__name__
        findings.append(f"{info.file}: cannot be read: {text}")
    return _Proof(name, entry, findings, why, rows if made else 0)


def _file_findings(manifest: Manifest, info: ConfigInfo, path: Path) -> Iterator[str]:
    """Yield what is wrong with the columns and the metadata of a file."""
    with opened(path) as file:
        schema, writer = file.metadata.schema.to_arrow_schema(), file.metadata.created_by
        metadata = dict(file.metadata.metadata or {})
    if not re.fullmatch(WRITER, writer or ""):
        yield f"{info.file}: created_by expected {WRITER}, found {quote(writer, 90)}"
    sides = [{field.name: field.type for field in fields} for fields in (SCHEMA, schema)]
    if [*sides[0].items()] != [*sides[1].items()]:
        texts = (", ".join(f"{name}: {kind}" for name, kind in side.items()) for side in sides)
        msg = "columns expected {}, found {}".format(*texts)
        raise ValueError(msg)
    if names := [field.name for field in schema if field.nullable and field not in SCHEMA]:
        yield f"{info.file}: columns may lack values: {', '.join(names)}"
    for more in (schema.metadata, *(field.metadata for field in schema)):
        metadata |= more or {}
    metadata.pop(b"ARROW:schema", None)  # the same in another notation
    if metadata != {b"canary": CANARY.encode()} and manifest.package_version == __version__:
        yield f"{info.file}: metadata expected the canary, found {metadata!r:.200}"


def _row_differences(
    manifest: Manifest, plan: BuildPlan, name: str, path: Path, made: ConfigInfo
) -> Iterator[str]:
    """Yield how the rows of a file differ from those made again, which may be fewer."""
    whole = made.rows == manifest.configs[name].rows
    rows = zip_longest(read_packed(path), read_packed(plan.folder / made.file))
    for place, (packed, row_made) in enumerate(rows if whole else islice(rows, made.rows)):
        if packed is None or row_made is None:
            yield f"{name}/{place}: {'is missing' if row_made else 'no build makes it'}"
        elif serialize(packed) != serialize(row_made):
            difference = _difference(packed.unpack(), row_made.unpack())
            yield f"{name}/{packed.index}: differs from the row made again: {difference}"
        elif packed.haystack != row_made.haystack:  # it is in no digest
            yield f"{name}/{place}: haystack is {packed.haystack}, made again {row_made.haystack}"


def _container_findings(manifest: Manifest, path: Path, made: Path) -> Iterator[str]:
    """Yield where a file of the right rows is not what its pyarrow writes; others are claimed."""
    metadata = [pq.read_metadata(file).to_dict() for file in (path, made)]
    writers = [side["created_by"] for side in metadata]
    is_here = manifest.pyarrow == pa.__version__ or writers[0] == writers[1]
    if manifest.package_version != __version__ or not is_here:
        return
    place, actual, expected = next(
        differing_values(*metadata), (("bytes",), "others", "those of the rows")
    )
    difference = (
        f"{'.'.join(place)} expected {quote(str(expected), 90)}, found {quote(str(actual), 90)}"
    )
    where = f"{path.parent.name}/{path.name}"
    yield f"{where}: holds its rows, but not as pyarrow writes them: {difference}"


def _solved(
    manifest: Manifest, plan: BuildPlan, context: BuildContext | None, name: str, path: Path
) -> Iterator[str]:
    """Yield what the prompts alone, and the tokenizer, say against the rows of a file."""
    task, length = manifest.table[parse_config(name)[0]], parse_config(name)[1]
    for place, packed in enumerate(read_packed(path)):
        row = packed.unpack()
        if manifest.edition == BALANCED:
            flaws = [*row_findings(task, length - plan.reserve, place, row)]
        else:
            flaws = [*column_findings(task, place, row, any_budget=manifest.is_imported)]
        if row.haystack is None and not manifest.is_imported:
            flaws.append("column haystack has no value")
        if context is not None:
            content = b"".join((packed.context, row.question.encode()))
            has_template = plan.template != "base"
            tokens = prompt_tokens(context.tokenizer, content, row.answer_prefix, has_template)
            if (needs := tokens + row.max_new_tokens) != row.length:
                flaws.append(f"length says {row.length}, the tokenizer counts {needs}")
        yield from (f"{name}/{row.index}: {flaw}" for flaw in flaws)


def _read(manifest: Manifest, name: str, path: Path) -> dict[str, Any]:
    """Return what a manifest states of the rows in a file."""
    digest, lengths, info = RowDigest(), list[int](), manifest.configs[name]
    for packed in read_packed(path):
        digest.add(packed)
        lengths.append(packed.length)
    figures: dict[str, Any] = {"rows": 0}
    if lengths:
        figures = row_figures(digest, lengths, parse_config(name)[1])
    if manifest.edition != BALANCED:
        rows = (packed.unpack() for packed in read_packed(path))
        figures["audit"] = {**info.audit} if manifest.is_imported else {}
        figures["audit"] |= measure_defects(manifest.table[parse_config(name)[0]], rows)
    return figures


#: What pyarrow states of itself in a file.
WRITER = r"parquet-cpp-arrow version [0-9.]+"


def _difference(row: Row, row_made: Row) -> str:
    """Return the first column in which two rows differ, and its values."""
    for (name, actual), expected in zip(
        row.to_record().items(), row_made.to_record().values(), strict=True
    ):
        if actual == expected:
            continue
        if not (isinstance(actual, str) and isinstance(expected, str)):
            return f"{name} is {actual!r:.200}, made again {expected!r:.200}"
        pairs = enumerate(zip(actual, expected, strict=False))
        at = next((place for place, (a, b) in pairs if a != b), min(len(actual), len(expected)))
        at = max(at - 20, 0)
        return f"{name} has {actual[at : at + 60]!r}, made again {expected[at : at + 60]!r}"
    return "in its bytes"
