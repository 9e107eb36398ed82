"""`ruler-data release`: the same data for several tokenizers, as sibling repos of one version.

    build all -> verify and plan all -> publish each -> index.json of the first repo

Every step first checks what was done before, so the same command completes an interrupted release.
Nothing is published before everything is built, verified and planned.
"""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from ruler_builders.commands import build
from ruler_builders.pipeline.build_config import SourcesOption, WorkersOption
from ruler_builders.publish.plan import FewerRowsOption, PublishConfig, UnequalRowsOption
from ruler_builders.publish.release import ReleaseOutcome, Tell, carry_out, check_access, prepare
from ruler_builders.publish.version_rules import Version
from ruler_builders.sources.library import Kind
from ruler_data.errors import UsageError
from ruler_data.hub.repo import PushFile, head, put_files
from ruler_data.index import FILENAME, Index, Sibling, read_index
from ruler_data.names import check_name, check_repo
from ruler_data.options import Option
from ruler_data.terminal import progress
from ruler_data.tokenizers.registry import ALIASES, REGISTRY


@dataclass(frozen=True)
class LockstepConfig:
    """The options of a release of several tokenizers."""

    _: KW_ONLY
    org: Annotated[str, Option("Owner of the repos on the Hub.")]
    version: Annotated[str, Option("MAJOR.MINOR.PATCH, the same for all repos.")]
    tokenizers: Annotated[
        str, Option("Registry names, folders or Hub ids, comma-separated; the first is NAME's.")
    ]
    lengths: Annotated[str | None, Option("Lengths in tokens, e.g. 4k,128k.")] = None
    tasks: Annotated[str, Option("Tasks, comma-separated, or `all`.")] = "all"
    rows: Annotated[int | None, Option("Rows of each config.", min=1)] = None
    suite: Annotated[str, Option("Set of tasks.")] = "ruler"
    name: Annotated[str, Option("Name of the first repo; the others are NAME-TOKENIZER.")] = "ruler"
    sources: SourcesOption = None
    sources_kind: Annotated[Kind, Option("As for `build`.")] = "auto"
    out: Annotated[Path, Option("Folder that holds a folder for each tokenizer.")] = Path("dist")
    dry_run: Annotated[bool, Option("Build and verify, and report what would be published.")] = (
        False
    )
    private: Annotated[bool, Option("Create repos as private.")] = False
    allow_sample: Annotated[bool, Option("Publish rows of the sample corpus.")] = False
    allow_fewer_rows: FewerRowsOption = False
    allow_unequal_rows: UnequalRowsOption = False
    workers: WorkersOption = 1

    def __post_init__(self) -> None:
        _ = Version.parse(self.version), self.repos

    @cached_property
    def repos(self) -> dict[str, str]:
        """The repo of each tokenizer, by its name, folder or Hub id."""
        specs = [spec.strip() for spec in self.tokenizers.split(",") if spec.strip()]
        names = [check_name("tokenizer", Path(spec).name) for spec in specs]
        if not names or len({ALIASES.get(name, name) for name in names}) < len(names):
            same = ", ".join(f"{alias} is {name}" for alias, name in ALIASES.items())
            given = f"--tokenizers {self.tokenizers}"
            raise UsageError(given, f"name each tokenizer once, comma-separated ({same})")
        repos = [self.name, *(f"{self.name}-{name}" for name in names[1:])]
        return dict(zip(specs, (check_repo(f"{self.org}/{repo}") for repo in repos), strict=True))

    @property
    def first(self) -> str:
        """The repo that holds the index."""
        return next(iter(self.repos.values()))

    def folder(self, spec: str) -> Path:
        """Return the folder of a tokenizer's rows."""
        return self.out / Path(spec).name

    def shared(self, other: type[PublishConfig]) -> dict[str, Any]:
        """Return the options that a publication has too."""
        names = {one.name for one in fields(self)} & {one.name for one in fields(other)}
        return {name: getattr(self, name) for name in names}


def release(config: LockstepConfig, tell: Tell) -> dict[str, ReleaseOutcome]:
    """Build, verify and publish the data of all tokenizers; return the outcome of each repo.

    Raises:
        UsageError: it cannot be done with these options.
        RulerError: a fault of disk, sources or Hub; the same command continues.
    """
    check_access(dry_run=config.dry_run)
    siblings = listed(config.first)
    siblings |= {repo: Path(spec).name for spec, repo in config.repos.items()}
    for spec in config.repos:
        manifest = build(
            spec,
            suite=config.suite,
            lengths=config.lengths,
            tasks=config.tasks,
            rows=config.rows,
            sources=config.sources,
            sources_kind=config.sources_kind,
            out=config.folder(spec),
            workers=config.workers,
        )
        tell(f"{config.folder(spec)}: {len(manifest.configs)} configs")
    shared = config.shared(PublishConfig) | {"siblings": siblings}
    with progress(None) as advance:
        # A repo whose rows do not change keeps its version.
        ready = {
            repo: prepare(
                PublishConfig(config.folder(spec), repo, **shared),
                advance,
                tell,
                keep_unchanged=True,
            )
            for spec, repo in config.repos.items()
        }
        done = {repo: carry_out(*planned, tell) for repo, planned in ready.items()}
    if not config.dry_run:
        put_index(config.first, [sibling_of(repo, outcome) for repo, outcome in done.items()], tell)
    return done


def sibling_of(repo: str, outcome: ReleaseOutcome) -> Sibling:
    """Return what the index says about a release."""
    manifest, commit = outcome.plan.dataset.manifest, outcome.commit
    assert commit is not None  # only a dry run has none
    info = manifest.tokenizer
    known = REGISTRY.get(info.name)
    return Sibling(
        repo=repo,
        tag=f"v{manifest.data_version}",
        commit=commit,
        tokenizer=info.name,
        fingerprint=info.identity or info.fingerprint,
        models=known.ids if known else tuple(filter(None, [info.hub_id])),
        configs=tuple(manifest.configs),
    )


def listed(repo: str) -> dict[str, str]:
    """Return the repos that a repo's index lists, each with the name of its tokenizer.

    A release calls it before anything is sent, since it changes the index last.
    """
    index = read_index(repo) if head(repo) else None
    return {one.repo: one.tokenizer for one in (index or Index()).siblings}


def put_index(repo: str, siblings: Sequence[Sibling], tell: Tell) -> None:
    """List releases in a repo's index; what others list meanwhile is kept."""

    def files(commit: str) -> list[PushFile]:
        index = (read_index(repo, commit) or Index()).with_siblings(siblings)
        return [PushFile.of_bytes(FILENAME, index.to_json().encode())]

    names = ", ".join(f"{one.repo} {one.tag}" for one in siblings)
    commit, sent = put_files(repo, files, f"Index: {names}")
    tell(f"{repo}: {FILENAME} {'updated, commit ' + commit if sent else 'is up to date'}")
