"""The steps of a release, in the only order in which a tag can be trusted.

Verify here → plan → repo → one commit → verify there → tag → read the tag. Each step looks at
what is there first, so the same command after any interruption completes the same release, and
after a success it sends nothing.

What is published only by somebody who says that it is meant.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ruler_builders.audit.verify import VerifyConfig, verify
from ruler_builders.card import CROISSANT_CONFIGS, card_faults
from ruler_builders.pipeline.build_dir import BuildDir
from ruler_builders.pipeline.pool import Progress
from ruler_builders.publish.merge import Built, Dataset
from ruler_builders.publish.plan import Plan, PublishConfig, leftovers, make_plan
from ruler_data.errors import RulerError, UsageError
from ruler_data.files import offline
from ruler_data.hub import ensure_repo, missing, open_release, put_files, put_tag, tags, token, tree
from ruler_data.manifest import FILENAME, Manifest
from ruler_data.names import check_repo

#: What is told of each step, one line at a time.
Tell = Callable[[str], None]


@dataclass(frozen=True)
class ReleaseOutcome:
    """What was done.

    Attributes:
        plan: what was to be done.
        commit: of the release; None for a dry run.
        sent: paths that were sent or removed.
    """

    plan: Plan
    commit: str | None
    sent: tuple[str, ...]


def publish(order: PublishConfig, progress: Progress, tell: Tell) -> ReleaseOutcome:
    """Publish a folder as a release, or complete one that was interrupted.

    Raises:
        UsageError: it cannot be published as asked; nothing was written.
        RulerError: a fault of the folder or the Hub; what was uploaded is not sent again.
    """
    check_repo(order.repo)
    if offline():
        msg = "publishing needs the Hub, and RULER_OFFLINE or HF_HUB_OFFLINE is set"
        raise UsageError(msg)
    if not order.dry_run and token() is None:
        msg = "no token: log in with `hf auth login`, or set HF_TOKEN to one with write access"
        raise RulerError(msg)
    built = _verified(order, progress, tell)
    plan = make_plan(order, built)
    for note in _notes(plan):
        tell(f"note: {note}")
    if plan.published is not None:
        _check_held(order, plan.dataset, plan.published)
        return ReleaseOutcome(plan, plan.published, ())
    if order.dry_run:
        return ReleaseOutcome(plan, None, ())
    return _release(order, plan, tell)


def _release(order: PublishConfig, plan: Plan, tell: Tell) -> ReleaseOutcome:
    """Commit, verify what the Hub then holds, tag, and read the tag back."""
    if plan.creates:
        ensure_repo(order.repo, private=order.private)
    commit, sent = put_files(
        order.repo,
        plan.dataset.files,
        f"Release {plan.version.tag}",
        remove=lambda held: _leftovers(order, plan, held),
    )
    tell(f"{order.repo}: commit {commit}, {len(sent)} files sent")
    _check_held(order, plan.dataset, commit)
    tell(f"{order.repo}: {len(plan.dataset.files)} files verified at {commit}")
    put_tag(order.repo, plan.version.tag, commit)
    if tags(order.repo).get(plan.version.tag) != commit:
        msg = f"{order.repo}: tag {plan.version.tag} cannot be read back; run the command again"
        raise RulerError(msg)
    return ReleaseOutcome(plan, commit, tuple(sent))


def _leftovers(order: PublishConfig, plan: Plan, held: Mapping[str, Any]) -> list[str]:
    """Return what is to go, if the head is still the one that was planned for.

    Raises:
        RulerError: another release came in between, which the plan knows nothing of.
    """
    now = held.get(FILENAME)
    ours = next(file for file in plan.dataset.files if file.path == FILENAME)
    if (now.blob_id if now else None) != plan.manifest_then and not ours.is_held(now):
        msg = (
            f"{order.repo}: another release was committed meanwhile; nothing of it was touched: "
            "run the same command again, which takes it in"
        )
        raise RulerError(msg)
    return leftovers(plan.dataset, held)


def _notes(plan: Plan) -> Iterator[str]:
    """Say what the publisher should know before it happens."""
    configs = len(plan.dataset.manifest.configs)
    if configs > CROISSANT_CONFIGS:
        yield (
            f"{configs} configs; the Hub's Croissant metadata takes in the first "
            f"{CROISSANT_CONFIGS}"
        )
    if plan.replaced and plan.published is None:
        yield (
            f"changed on the Hub since {plan.since}: {', '.join(plan.replaced)}; this release "
            "replaces it, and the history keeps it"
        )


def _verified(order: PublishConfig, progress: Progress, tell: Tell) -> Built:
    """Verify the folder; the Hub is not asked before it is clean.

    Raises:
        RulerError: it is not.
        UsageError: it holds what is published only if that is said to be meant.
    """
    report = verify(
        VerifyConfig(order.folder, tokenizer=order.tokenizer, workers=order.workers), progress
    )
    for finding in report.findings:
        tell(finding)
    if report.findings:
        msg = f"{order.folder}: {len(report.findings)} findings; build it again, then publish"
        raise RulerError(msg)
    manifest = BuildDir(order.folder).manifest()
    assert manifest is not None  # verify has read it
    refuse(str(order.folder), manifest, order.allowed)
    card = (order.folder / "README.md").read_text(encoding="utf-8")
    if faults := list(card_faults(card, manifest)):
        msg = f"{order.folder}: README.md: {faults[0]}; the Hub would refuse it: build it again"
        raise RulerError(msg)
    tell(f"{order.folder}: verified: {report.configs} configs, {report.rows} rows")
    return Built(order.folder, manifest)


def _check_held(order: PublishConfig, dataset: Dataset, commit: str) -> None:
    """Compare what the Hub holds at a commit with the manifest, file by file.

    The Hub names every file by its hash; the manifest itself is downloaded and read.

    Raises:
        RulerError: a file is missing or another one.
    """
    wrong = missing(dataset.files, tree(order.repo, commit))
    if wrong:
        names = ", ".join(file.path for file in wrong)
        msg = f"{order.repo} at {commit}: is not what was sent: {names}; nothing is tagged"
        raise RulerError(msg)
    if open_release(order.repo, commit).manifest != dataset.manifest:
        msg = f"{order.repo} at {commit}: the manifest is not the one sent; nothing is tagged"
        raise RulerError(msg)


@dataclass(frozen=True)
class Guard:
    """A reason not to publish, and the option that overrules it.

    Attributes:
        option: of the command, without dashes.
        applies: whether a dataset gives the reason.
        why: the reason, and what else to do.
    """

    option: str
    applies: Callable[[Manifest], bool]
    why: str


CONSENTS = (
    Guard(
        "allow-sample",
        lambda manifest: manifest.is_sample,
        "holds rows of the sample corpus, whose scores are not RULER's; build with the real "
        "sources",
    ),
    Guard(
        "allow-own-texts",
        lambda manifest: manifest.has_own_texts,
        "holds texts of your own (build --haystack), whose licence nobody here knows and which "
        "everybody could read; build without them",
    ),
    Guard(
        "allow-private-seed",
        lambda manifest: manifest.is_private,
        "is built from a private seed (build --fresh), which would be private no more, and models "
        "could learn its rows; build with the public seed",
    ),
)


def refuse(where: str, manifest: Manifest, allowed: frozenset[str]) -> None:
    """Refuse to publish what nobody said is meant.

    Raises:
        UsageError: gives the reason and the option.
    """
    for one in CONSENTS:
        if one.applies(manifest) and one.option not in allowed:
            msg = f"{where}: {one.why}, or say --{one.option}"
            raise UsageError(msg)
