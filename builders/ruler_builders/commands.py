"""The commands of `ruler-data`: each function is a command, and what the package exports.

Bodies import what they need, so that `--help` and a listing load no builder.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from typer import Argument, Option

from ruler_data.names import MOST_ROWS, quote
from ruler_data.progress import progress as progress_bar
from ruler_data.signatures import checked
from ruler_data.terminal import warn

if TYPE_CHECKING:
    from ruler_builders.exchange.identify import Identities
    from ruler_builders.exchange.imports import Imported
    from ruler_builders.pipeline.build import BuiltManifest
    from ruler_builders.publish.release import Release, Releases
    from ruler_builders.publish.siblings import SiblingBuild
    from ruler_builders.rebuild import Verdict
    from ruler_builders.show import Listing, ProcedurePage, ShownConfigs, ShownRow
    from ruler_builders.sources.catalogue import Downloads
    from ruler_data.index import FindResult
    from ruler_data.suites import Suite
    from ruler_data.tokenizers.protocol import CounterName

#: Called with the name of a config and the rows that were finished since the last call.
Progress = Callable[[str, int], None]

#: Comma-separated, or one by one.
Names: TypeAlias = str | Collection[str]
Lengths: TypeAlias = str | Collection[int | str]

Sources = Annotated[
    Path | str | None, Option(help="Folder with real sources [default: RULER_SOURCES].")
]
BuildSources = Annotated[
    Path | str | None,
    Option(
        help="auto (the real ones if available; the default), pinned (these alone), sample (not "
        "RULER), or a folder [RULER_SOURCES]."
    ),
]
Haystack = Annotated[
    Path | str | None, Option(help="Your own texts, for suites of domains.", metavar="DIR")
]
Workers = Annotated[
    int,
    Option(help="Processes; 0: as many as are worth it.", min=0, max=1024),
]
Tasks = Annotated[Names | None, Option(help="Comma-separated, e.g. vt,cwe.")]
SomeTasks = Annotated[Names | None, Option(help="Only these, e.g. vt,cwe.")]
SomeLengths = Annotated[Lengths | None, Option(help="Only these, e.g. 4k,8k.")]
Folder = Annotated[Path | str, Argument(help="Folder of a build, or a repo with --revision.")]
Tokenizer = Annotated[
    str | None,
    Option(help="Folder or Hub id, if the manifest leads to none."),
]
Data = Annotated[str, Argument(help="Folder of a build, or a repo with --revision.")]
Revision = Annotated[str | None, Option(help="Tag or commit of a release on the Hub.")]
Rows = Annotated[Path | str, Argument(help="File, folder or Hub repo of rows.")]
Branch = Annotated[str | None, Option(help="Revision of the repo (default: main).")]
Files = Annotated[str, Option(help="Pattern of the files to read.")]
Length = Annotated[
    str | int | None, Option(help="Length in tokens, if no name tells, e.g. 4k.", metavar="N")
]
DryRun = Annotated[bool, Option(help="Check, and say what would be published.")]
Private = Annotated[bool, Option(help="Create repos as private.")]
Allow = Annotated[
    Names,
    Option(
        help="Consent to sample, unpinned, own-texts, private-seed, fewer-rows, "
        "unproved (sources or a tokenizer are absent)."
    ),
]


@checked
def build(
    tokenizer: Annotated[
        str, Option(help="Registry name (`list tokenizers`), folder or Hub id.")
    ] = "mistral",
    *,
    procedure: Annotated[
        str | None,
        Option(help="Rows of a published number (`list procedures`)."),
    ] = None,
    suite: Annotated[
        str | Path | Suite | None,
        Option(help="Name (`list suites`) or YAML file [default: ruler]."),
    ] = None,
    lengths: Annotated[
        Lengths | None,
        Option(help="In tokens, e.g. 4096 or 4k,128k [default: the suite's]."),
    ] = None,
    tasks: Tasks = "all",
    rows: Annotated[
        int | None,
        Option(help="Rows of each config [default: the suite's, 500].", min=1, max=MOST_ROWS),
    ] = None,
    seed: Annotated[
        int | None, Option(help="Seed of all draws [default: 42, as published data].", min=0)
    ] = None,
    fresh: Annotated[bool, Option(help="Draw a private seed, kept in the folder.")] = False,
    sources: BuildSources = None,
    haystack: Haystack = None,
    out: Annotated[
        Path | str | None,
        Option(help="Folder to build [default: dist/TOKENIZER[-SUITE]].", metavar="DIR"),
    ] = None,
    edition: Annotated[
        str | None,
        Option(
            help="balanced (default), or upstream's rows, byte for byte: upstream-2026-07, "
            "upstream-2025-01, upstream-2024-04."
        ),
    ] = None,
    template: Annotated[
        str | None,
        Option(help="Upstream's chat template, e.g. meta-llama3 [default: base]."),
    ] = None,
    workers: Workers = 1,
    reserve: Annotated[
        int | None, Option(help="Tokens to keep free, e.g. for reasoning [default: 0].", min=0)
    ] = None,
    force: Annotated[bool, Option(help="Replace a build of other inputs.")] = False,
    counter: CounterName = "auto",
    progress: bool | Progress = True,
) -> BuiltManifest:
    """Build a folder of frozen configs; resume an interrupted build.

    The same options give the same bytes, on any machine and with any number of workers.

        ruler-data build --tokenizer llama3
        ruler-data build --tokenizer llama3 --lengths 4k,8k --tasks vt,cwe
        ruler-data build --tokenizer llama3 --procedure nemo-evaluator

    In Python, a script that sets `workers` needs the guard `if __name__ == "__main__":`, since
    workers import it. `counter="tokenizers"` counts by the slower reference alone.

    Raises:
        UsageError: it cannot be built with these options; nothing was written.
        RulerError: a fault of disk, sources or workers; finished configs are kept.
    """
    from ruler_builders.pipeline.build import build_folder
    from ruler_builders.pipeline.build_dir import BuildDir
    from ruler_builders.pipeline.plan import (
        BuildPlan,
        check_options,
        default_folder,
        sampled_sources,
        select_suite,
    )
    from ruler_builders.sources.library import chosen_sources, sample_option, sources_option
    from ruler_data.errors import UsageError
    from ruler_data.manifest import BALANCED
    from ruler_data.procedures import find_procedure

    options: dict[str, Any] = {
        "suite": suite,
        "edition": edition,
        "template": template,
        "reserve": reserve,
    }
    words = ""
    if procedure is not None:
        source = find_procedure(procedure)
        words = source.words
        options = source.settle(options, **{name: getattr(source, name) for name in options})
        lengths = lengths or source.lengths
        rows = rows or source.rows
    defaults: dict[str, Any] = {
        "suite": "ruler",
        "edition": BALANCED,
        "template": "base",
        "reserve": 0,
    }
    settled = defaults | {name: value for name, value in options.items() if value}
    selection = select_suite(settled["suite"], tasks, lengths, rows, haystack)
    edition = settled["edition"]
    name = procedure or edition
    choice = chosen_sources(sources)
    samples: dict[str, str] = {}
    if edition == BALANCED:
        samples = sampled_sources(selection, choice)
    lacking = next(iter(samples.values()), "")
    if lacking and out:
        raise UsageError(
            f"the real sources are not available: {', '.join(samples)} ({lacking}); give "
            f"{sources_option()}, or {sample_option()} for a sample, which is not RULER"
        )
    if out:
        folder = Path(out)
    else:
        folder = default_folder(tokenizer, selection.name, name, fresh=fresh, sample=bool(samples))
    plan = BuildPlan(
        tokenizer,
        selection,
        folder,
        BuildDir(folder).choose_seed(seed, fresh=fresh),
        sources=choice.folder,
        haystack=haystack,
        sources_kind=choice.kind,
        strict_sources=choice.strict,
        edition=edition,
        template=settled["template"],
        reserve=settled["reserve"],
        counter=counter,
        samples=frozenset(samples),
        lacking=lacking,
        essays=BuildDir(folder).choose_essays(),
        words=words,
    )
    check_options(plan, fresh=fresh)
    with _reporter(progress, plan.tokens) as advance:
        return build_folder(plan, workers=workers, force=force, progress=advance, warn=warn)


@checked
def verify(
    data: Folder,
    *,
    revision: Revision = None,
    tasks: SomeTasks = "all",
    lengths: SomeLengths = "all",
    rows: Annotated[
        int | None, Option(help="Make only N rows of each config again.", min=0)
    ] = None,
    tokenizer: Tokenizer = None,
    sources: Sources = None,
    haystack: Haystack = None,
    workers: Workers = 1,
    progress: bool | Progress = True,
) -> Verdict:
    """Make a folder or a release again and compare it; exit 0 only if the two are equal.

    Exit 1: a finding. 3: nothing wrong was found, but not all could be made here: no sources, no
    tokenizer, --tasks, --lengths, --rows, another pyarrow, or another version of this package.
    2: it could not run.

        ruler-data verify dist/llama3
        ruler-data verify org/ruler --revision v1.0.0 --tasks vt

    Raises:
        UsageError: the folder does not exist, or it has no such task or length; there is no
            manifest, or it is of a newer format.
        RulerError: the manifest is damaged.
    """
    from ruler_builders.rebuild import verify as prove

    return prove(
        data,
        revision=revision,
        tasks=tasks,
        lengths=lengths,
        rows=rows,
        tokenizer=tokenizer,
        sources=sources,
        haystack=haystack,
        workers=workers,
        show=lambda tokens: _reporter(progress, tokens),
    )


@checked
def show(
    data: Data,
    config: Annotated[str, Argument(help="E.g. vt_4096; none: list all with their digests.")] = "",
    index: Annotated[int, Argument(help="Row, from 0.", min=0)] = 0,
    *,
    revision: Revision = None,
    full: Annotated[bool, Option(help="Print the whole context.")] = False,
    card: Annotated[bool, Option(help="Print the card.")] = False,
    repo: Annotated[
        str, Option(help="With --card: as `publish` would write it into this repo.")
    ] = "",
) -> ShownRow | ShownConfigs | str:
    """Print one row: context shortened, evidence highlighted; or the configs, or the card.

        ruler-data show dist/llama3                # the configs and their digests
        ruler-data show dist/llama3 vt_4096 17
        ruler-data show dist/llama3 --card --repo org/ruler

    Raises:
        UsageError: there is no such config or row, or the options contradict each other.
        RulerError: the folder has no card.
    """
    from ruler_builders import show
    from ruler_data.dataset import open_source
    from ruler_data.errors import UsageError

    if not card and not repo:
        return show.show(data, config, index, revision, full=full)
    if config or not card:
        option = config or "--repo"
        raise UsageError(f"{option}: --card shows the card of a dataset")
    source = open_source(data, revision)
    if not repo:
        return show.card(source)
    if source.release:
        raise UsageError("--repo is for a folder; a release has its card")
    from ruler_builders.publish.release import next_card

    return next_card(source.folder, repo)


@checked
def publish(
    folder: Annotated[
        Path | str | None,
        Argument(help="Folder of a build; none with --tokenizers."),
    ] = None,
    *,
    repo: Annotated[str, Option(help="Dataset repo on the Hub, OWNER/NAME.")],
    version: Annotated[str, Option(help="MAJOR.MINOR.PATCH [default: as the changes ask].")] = "",
    index: Annotated[
        str,
        Option(help="Repo whose index.json is to list it [default: REPO, if it has one]."),
    ] = "",
    dry_run: DryRun = False,
    private: Private = False,
    allow: Allow = "",
    tokenizers: Annotated[
        str,
        Option(
            help="Publish dist/NAME of each, built where it is missing: the first into REPO, the "
            "others into REPO-NAME."
        ),
    ] = "",
    sources: BuildSources = None,
    haystack: Haystack = None,
    tokenizer: Tokenizer = None,
    workers: Workers = 1,
) -> Release | Releases:
    """Publish a folder on the Hub: one commit, verified there, then a tag that never moves.

        ruler-data publish dist/llama3 --repo org/ruler --version 1.0.0 --dry-run
        ruler-data publish --tokenizers llama3,qwen3 --repo org/ruler

    Raises:
        UsageError: it cannot be published with these options; nothing was written.
        RulerError: a fault of the folder or the Hub; a repeated command does not send twice.
    """
    from ruler_builders.publish.plan import parse_consents
    from ruler_builders.publish.release import release
    from ruler_builders.publish.siblings import sibling_builds
    from ruler_builders.publish.version import Version
    from ruler_builders.rebuild import verify as prove
    from ruler_builders.sources.library import chosen_sources
    from ruler_data.errors import UsageError
    from ruler_data.terminal import tell

    if (folder is None) == (not tokenizers):
        raise UsageError("name a folder to publish, or --tokenizers to build and publish")
    allowed = parse_consents(allow)
    number: Version | None = None
    if version:
        number = Version.parse(version)
    folders = {repo: Path(folder or "")}
    if tokenizers:
        builds = sibling_builds(repo, tokenizers)
        _build_missing(builds, sources, workers)
        folders = {sibling.repo: sibling.folder for sibling in builds}
        index = index or repo
    library = chosen_sources(sources).folder
    releases = release(
        folders,
        prove=partial(
            prove, tokenizer=tokenizer, sources=library, haystack=haystack, workers=workers
        ),
        tell=tell,
        version=number,
        index=index,
        allowed=allowed,
        private=private,
        dry_run=dry_run,
    )
    if tokenizers:
        return releases
    return releases[0]


def _build_missing(builds: list[SiblingBuild], sources: Path | str | None, workers: int) -> None:
    """Build the folders that are not there yet."""
    from ruler_data.manifest import FILENAME
    from ruler_data.terminal import tell
    from ruler_data.tokenizers import load_tokenizer

    missing = [sibling for sibling in builds if not (sibling.folder / FILENAME).is_file()]
    for sibling in missing:
        load_tokenizer(sibling.tokenizer)  # a mistyped name is refused before hours of building
    for sibling in missing:
        manifest = build(sibling.tokenizer, sources=sources, out=sibling.folder, workers=workers)
        tell(f"{sibling.folder}: {len(manifest.configs)} configs")


@checked
def find(
    model: Annotated[str, Option(help="Folder or Hub id, or a tokenizer's registry name.")],
    repo: Annotated[
        str | None, Option("--in", help="Repo whose index.json lists datasets, e.g. org/ruler.")
    ] = None,
) -> FindResult:
    """Find the published rows for a model's tokenizer, or the command that builds them.

        ruler-data find --model Qwen/Qwen2.5-7B-Instruct --in org/ruler

    Raises:
        UsageError: the model's tokenizer is not available, and no release lists the model.
        RulerError: the repo is not available, or has no release.
    """
    from ruler_data.index import find as find_rows

    return find_rows(model, repo)


@checked
def identify(
    data: Rows,
    revision: Branch = None,
    files: Files = "**/*",
    length: Length = None,
    seed: Annotated[int, Option(help="That upstream's scripts were started with.", min=0)] = 42,
    tokenizer: Annotated[
        str | None, Option(help="Try only this: registry name, folder or Hub id.")
    ] = None,
    sources: Sources = None,
    *,
    out: Annotated[
        Path | str | None,
        Option(help="Freeze the rows in this folder, counted in --tokenizer."),
    ] = None,
    skip_bad: Annotated[
        bool, Option(help="With --out: leave out rows that cannot be read.")
    ] = False,
) -> Identities | Imported:
    """Say which edition, tokenizer, words and template made anybody's rows; or freeze them.

        ruler-data identify somebody/rows --length 4k
        ruler-data identify somebody/rows --tokenizer llama3 --out dist/theirs

    Raises:
        UsageError: there are no rows, or the folder or the tokenizer cannot be used.
        RulerError: a file cannot be read, or none of its rows; with `out`, rows are bad and
            `skip_bad` is not set, and nothing was written.
    """
    from ruler_data.errors import UsageError

    if out is None:
        from ruler_builders.exchange.identify import identify as identify_rows

        if skip_bad:
            raise UsageError("--skip-bad", "is for rows that are written; give --out")
        return identify_rows(data, revision, files, length, seed, tokenizer, sources)
    from ruler_builders.exchange.imports import import_rows

    if tokenizer is None:
        raise UsageError("--out", "lengths are counted in a tokenizer; give --tokenizer")
    return import_rows(
        data,
        tokenizer=tokenizer,
        out=Path(out),
        revision=revision,
        files=files,
        length=length,
        sources=sources,
        skip_bad=skip_bad,
    )


@checked
def export(
    data: Folder,
    *,
    tool: Annotated[
        Literal["nemo", "kvpress", "lm-eval", "self-long", "jsonl", "blacklist"],
        Option("--for", help="Tool that is to read it."),
    ],
    out: Annotated[Path | str, Option(help="New folder to write.")],
    revision: Revision = None,
    tasks: SomeTasks = "all",
    lengths: SomeLengths = "all",
) -> Path:
    """Write a dataset as another tool reads it, with everything that the tool needs.

        ruler-data export dist/llama3 --for lm-eval --tasks vt,cwe --out exported

    Raises:
        UsageError: there is no such dataset, or the folder exists.
        RulerError: a file is damaged, or cannot be written.
    """
    from ruler_builders.exchange import export as exports

    return exports.export(data, tool, Path(out), revision, tasks, lengths)


@checked
def list_known(
    kind: Annotated[
        Literal["suites", "procedures", "sources", "tokenizers"], Argument(help="What to list.")
    ],
    name: Annotated[str, Argument(help="A procedure, for all its facts.")] = "",
    *,
    download: Annotated[
        Path | str | None,
        Option(help="With `sources`: download all into this folder, checked.", metavar="DIR"),
    ] = None,
) -> Listing | ProcedurePage | Downloads:
    """List what this package knows: suites, procedures, sources or tokenizers.

    Each name is a value of an option: `--suite`, `--procedure`, `--tokenizer`. Of sources and
    tokenizers it says which are available, from where and with which hash.

        ruler-data list tokenizers
        ruler-data list procedures nemo-evaluator
        ruler-data list sources --download DIR    # for one without a network

    Raises:
        UsageError: there is no such procedure, or an option is of another kind.
        RulerError: a source has other content than the pinned one.
    """
    from ruler_builders import show
    from ruler_data.errors import UsageError

    if name and kind != "procedures":
        raise UsageError(f"{kind} {quote(name)}: only a procedure has a page; leave the name out")
    if download and kind != "sources":
        raise UsageError(f"--download is for `list sources`, not {kind}")
    if kind == "suites":
        return show.suites()
    if kind == "procedures":
        return show.procedure(name) if name else show.procedures()
    if kind == "tokenizers":
        return show.tokenizers()
    if download is not None:
        from ruler_builders.sources.catalogue import download_sources

        return download_sources(download)
    return show.sources()


def _reporter(progress: bool | Progress, tokens: int | None) -> AbstractContextManager[Progress]:
    """Return the progress callback: a bar over `tokens`, the caller's function, or a no-op."""
    if progress is True:
        return progress_bar(tokens)
    return nullcontext(progress or (lambda *_: None))
