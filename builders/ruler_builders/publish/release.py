"""The steps of a release, in an order that makes its tag trustworthy.

    verify the folder -> plan -> create the repo -> one commit -> compare the commit's listing
    -> download what is new and compare its bytes -> tag -> read the tag back

Each step first checks what was done before, so the same command completes an interrupted release,
and after a success it sends nothing. `GUARDS` are reasons not to publish that need an explicit
option.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ruler_builders.audit.verify import verify
from ruler_builders.card import CROISSANT_CONFIGS, EVAL
from ruler_builders.pipeline.pool import Progress
from ruler_builders.publish.merge import Dataset, without
from ruler_builders.publish.plan import Plan, PublishConfig, make_plan
from ruler_data.errors import RulerError, UsageError
from ruler_data.files import offline
from ruler_data.hub.download import check_blobs, open_release
from ruler_data.hub.repo import ensure_repo, missing, put_files, put_tag, tree
from ruler_data.hub.retry import check_network, status, token
from ruler_data.manifest import FILENAME, Manifest, read_manifest
from ruler_data.names import counted

#: Path of a config's file; one that no manifest names is left from an unfinished release.
CONFIG_FILE = re.compile(r"[a-z0-9_]+_[1-9][0-9]*/test-00000-of-00001\.parquet")
#: Called with a line about each step.
Tell = Callable[[str], None]


@dataclass(frozen=True)
class ReleaseOutcome:
    """The result of `publish`: the commit, None for a dry run, and the paths sent or removed."""

    plan: Plan
    commit: str | None
    sent: tuple[str, ...]


def publish(config: PublishConfig, progress: Progress, tell: Tell) -> ReleaseOutcome:
    """Publish a folder as a release, or complete one that was interrupted.

    Raises:
        UsageError: it cannot be published with these options; nothing was written.
        RulerError: a fault of the folder or the Hub; a repeated command does not send twice.
    """
    check_access(dry_run=config.dry_run)
    return carry_out(*prepare(config, progress, tell), tell)


def check_access(*, dry_run: bool) -> None:
    """Refuse to begin where publishing cannot succeed."""
    if offline():
        msg = "publishing needs the Hub, and RULER_OFFLINE or HF_HUB_OFFLINE is set"
        raise UsageError(msg)
    if not dry_run and token() is None:
        msg = "no token: log in with `hf auth login`, or set HF_TOKEN to one with write access"
        raise RulerError(msg)
    check_network("publish")


def prepare(
    config: PublishConfig, progress: Progress, tell: Tell, *, keep_unchanged: bool = False
) -> tuple[PublishConfig, Plan]:
    """Verify the folder and plan the release; nothing is written.

    With `keep_unchanged`, a repo that holds these rows already keeps its version; the options
    returned say so.
    """
    built = _verified(config, progress, tell)
    if keep_unchanged and make_plan(unversioned := replace(config, version=""), built).published:
        config = unversioned
    plan = make_plan(config, built)
    for line in (*_table(config.repo, plan), *_notes(plan)):
        tell(line)
    for reason in plan.refusals:
        raise UsageError(config.repo, reason)
    return config, plan


def carry_out(config: PublishConfig, plan: Plan, tell: Tell) -> ReleaseOutcome:
    """Publish what is planned; for a dry run, or if it is published already, write nothing."""
    if plan.published is not None:
        _check_held(config, plan.dataset, plan.published, tell)
        return ReleaseOutcome(plan, plan.published, ())
    if config.dry_run:
        return ReleaseOutcome(plan, None, ())
    return _release(config, plan, tell)


def _release(config: PublishConfig, plan: Plan, tell: Tell) -> ReleaseOutcome:
    """Commit, verify the commit on the Hub, tag it, and read the tag back."""
    if plan.creates:
        ensure_repo(config.repo, private=config.private)
    try:
        commit, sent = _commit(config, plan)
    except RulerError as error:
        # The Hub checks `eval.yaml` when it is pushed; the rows do not depend on it.
        refused = error.__cause__ is not None and status(error.__cause__) == 400
        if not refused or EVAL not in plan.dataset.manifest.files:
            raise
        plan = replace(plan, dataset=without(plan.dataset, EVAL), new=plan.new - {EVAL})
        try:
            commit, sent = _commit(config, plan)
        except RulerError:
            raise error from error.__cause__
        tell(f"note: {EVAL} is left out, because the Hub refuses it: {error}")
    tell(f"{config.repo}: commit {commit}, {len(sent)} files sent")
    _check_held(config, plan.dataset, commit, tell)
    new = {file.path: file.sha256 for file in plan.dataset.files if file.path in plan.new}
    check_blobs(config.repo, commit, new)
    tell(f"{config.repo}: {counted(len(new), 'new file')} downloaded, and their bytes compared")
    put_tag(config.repo, plan.version.tag, commit)
    return ReleaseOutcome(plan, commit, tuple(sent))


def _commit(config: PublishConfig, plan: Plan) -> tuple[str, list[str]]:
    return put_files(
        config.repo,
        plan.dataset.files,
        f"Release {plan.version.tag}",
        remove=lambda held: _leftovers(config, plan, held),
    )


def _leftovers(config: PublishConfig, plan: Plan, held: Mapping[str, Any]) -> list[str]:
    """Return the files to remove, if the head is still the one of the plan."""
    now = held.get(FILENAME)
    manifest = next(file for file in plan.dataset.files if file.path == FILENAME)
    if (now.blob_id if now else None) != plan.manifest_then and not manifest.is_held(now):
        remedy = "run the same command again to extend it"
        what = "another release was committed meanwhile and was not changed"
        raise RulerError(config.repo, f"{what}; {remedy}")
    paths = {file.path for file in plan.dataset.files}
    return [path for path in held if CONFIG_FILE.fullmatch(path) and path not in paths]


def _table(repo: str, plan: Plan) -> Iterator[str]:
    """Return the plan as a table: what changes in each config, and the sum of all."""
    if plan.published is not None:
        return
    before, width = plan.since, max(map(len, plan.dataset.manifest.configs))
    yield f"{repo}: {before.tag if before else 'no release'} -> {plan.version.tag}"
    yield f"  {'config':<{width}} {'rows':>19} {'bytes':>29}"
    same, sums = 0, [0, 0, 0, 0]
    for name, old, now in plan.configs():
        figures = [old.rows if old else 0, now.rows, old.bytes if old else 0, now.bytes]
        sums = [*map(sum, zip(sums, figures, strict=True))]
        if old and (old.digest, old.sha256) == (now.digest, now.sha256):
            same += 1
            continue
        kind = "new" if old is None else "other bytes" if old.digest == now.digest else "other rows"
        yield f"  {name:<{width}} {_arrow(*figures)}  {kind}"
    if same:
        yield f"  {counted(same, 'config')} unchanged"
    yield f"  {'all':<{width}} {_arrow(*sums)}  {counted(len(plan.configs()), 'config')}"


def _arrow(rows: int, rows_now: int, size: int, size_now: int) -> str:
    return f"{rows:>8,} -> {rows_now:>7,} {size:>13,} -> {size_now:>12,}"


def _notes(plan: Plan) -> Iterator[str]:
    """Return what the publisher should know before anything is sent."""
    configs = len(plan.dataset.manifest.configs)
    if configs > (most := CROISSANT_CONFIGS):
        yield f"note: {configs} configs; the Hub's Croissant metadata includes the first {most}"
    if plan.replaced and plan.published is None:
        changed = f"changed on the Hub since {plan.since}: {', '.join(plan.replaced)}"
        yield f"note: {changed}; this release replaces it; the history keeps the old content"


def _verified(config: PublishConfig, progress: Progress, tell: Tell) -> Manifest:
    """Verify the folder before any request to the Hub, and return its manifest."""
    report = verify(
        config.folder, tokenizer=config.tokenizer, workers=config.workers, progress=progress
    )
    for finding in report.findings:
        tell(finding)
    if not report.clean:
        found = f"{counted(len(report.findings), 'finding')}: {report.findings[0]}"
        remedy = "build it again, then publish"
        raise RulerError(config.folder, "verification failed", f"{found}; {remedy}")
    manifest = read_manifest(config.folder)
    for option, applies, why in GUARDS:
        if getattr(manifest, applies) and not getattr(config, option):
            raise UsageError(config.folder, f"{why}, or give --{option.replace('_', '-')}")
    checked = f"{counted(report.configs, 'config')}, {counted(report.rows, 'row')}"
    tell(f"{config.folder}: verified: {checked}")
    return manifest


def _check_held(config: PublishConfig, dataset: Dataset, commit: str, tell: Tell) -> None:
    """Compare a commit on the Hub, which lists the hash of every file, with what was planned."""
    where, wrong = f"{config.repo} at {commit}", missing(dataset.files, tree(config.repo, commit))
    if wrong:
        names = ", ".join(file.path for file in wrong)
        raise RulerError(where, f"missing, or not as uploaded: {names}; no tag was set")
    if open_release(config.repo, commit).manifest != dataset.manifest:
        raise RulerError(where, "the manifest is not as uploaded; no tag was set")
    count = counted(len(dataset.files), "file")
    tell(f"{config.repo}: {count} at {commit} compared with the Hub's listing of hashes")


#: The option that overrules a reason not to publish, the property of a manifest to which the
#: reason applies, and the reason with its alternative.
GUARDS = (
    (
        "allow_sample",
        "is_sample",
        "holds rows of the sample corpus, whose scores are not RULER's; build with the real "
        "sources",
    ),
    (
        "allow_own_texts",
        "has_own_texts",
        "holds texts of your own (build --haystack), whose licence is unknown and which "
        "everybody could read; build without them",
    ),
    (
        "allow_private_seed",
        "is_private",
        "is built from a private seed (build --fresh), which would become public, and models "
        "could be trained on its rows; build with the public seed",
    ),
)
