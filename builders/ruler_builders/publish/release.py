"""Release folders on the Hub: of one or of many, each with a commit and a tag that never moves.

    read each folder -> token and role -> plan each repo -> the Hub's check of each card
    -> proof of each folder -> for each: create the repo, one commit, compare the hashes that the
    Hub lists of it, tag, read the tag back -> index.json

What can be refused is refused before anything is written. Each step first checks what was done
before, so the same command completes an interrupted release, and after a success it sends nothing.
`GUARDS` are reasons not to publish that need an explicit option.
"""

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from ruler_builders.card import CARD_BYTES
from ruler_builders.folder_proof import proved
from ruler_builders.pipeline.build_dir import BuildDir
from ruler_builders.proof import verify
from ruler_builders.publish.plan import (
    Plan,
    Target,
    Version,
    closed_licences,
    make_plan,
    unpinned_sources,
)
from ruler_builders.publish.siblings import label, listed_repos, put_index
from ruler_data.errors import RulerError, UsageError
from ruler_data.files import read_bytes
from ruler_data.hub.client import NO_TOKEN, check_access, is_reachable, token
from ruler_data.hub.repo import (
    PushFile,
    check_card,
    ensure_repo,
    missing,
    put_files,
    put_tag,
    tree,
    whoami,
)
from ruler_data.index import Sibling, read_index
from ruler_data.manifest import FILENAME, Manifest, read_manifest
from ruler_data.names import check_repo, counted
from ruler_data.network import offline

#: Path of a config's file; one that no manifest names is left from an unfinished release.
CONFIG_FILE = re.compile(r"[a-z0-9_]+_[1-9][0-9]*/test-00000-of-00001\.parquet")
#: Called with a line about each step.
Tell = Callable[[str], None]
#: What a dry run without a network does not check.
UNCHECKED = (
    "without the Hub this was not checked: whether the token may write, what the repo holds, which "
    "version this is, and the Hub's own check of the card"
)


@dataclass(frozen=True)
class ReleaseOutcome:
    """What was done for one repo.

    Attributes:
        target: what was to be released, and where.
        plan: of the release; None for a dry run that did not reach the Hub.
        commit: that the tag is on; None for a dry run.
        sent: paths sent or removed.
        unasked: what could not be checked, in a sentence.
    """

    target: Target
    plan: Plan | None = None
    commit: str | None = None
    sent: tuple[str, ...] = ()
    unasked: str = ""

    def __str__(self) -> str:
        plan, repo = self.plan, self.target.repo
        if plan is None:
            built = self.target.built
            sources = (*unpinned_sources(built), *closed_licences(built))
            return "\n".join([f"{repo}: {self.target.folder} can be released", *sources])
        about = f"{plan.version.tag}: {counted(len(plan.manifest.configs), 'config')}"
        if plan.since:
            about += f", since {plan.since.tag}: {plan.change.about} ({plan.why})"
        if plan.published is not None:
            done = f"{plan.version.tag} is published already, at {plan.published}; nothing sent"
            return f"{repo}: {done}"
        if self.commit is not None:
            return f"{repo}: released {about}, commit {self.commit}"
        creates = "would be created; " if plan.creates else ""
        return "\n".join(
            [
                *plan.lines(),
                f"{repo}: {creates}would release {about}",
                f"{counted(len(plan.send), 'file')} to send:",
                *(f"  {path}" for path in plan.send),
            ]
        )

    def to_record(self) -> dict[str, object]:
        """Return the outcome as plain values."""
        plan, target = self.plan, self.target
        about: dict[str, object] = {
            "repo": target.repo,
            "licences": list(closed_licences(target.built)),
        }
        if self.unasked:
            about["unasked"] = self.unasked
        if plan is None:
            return about
        return {
            **about,
            "version": str(plan.version),
            "tag": plan.version.tag,
            "since": str(plan.since) if plan.since else None,
            "change": plan.change.name,
            "why": plan.why,
            "commit": self.commit,
            "published_before": plan.published is not None,
            "creates": plan.creates,
            "to_send": list(plan.send),
            "sent": list(self.sent),
            "configs": {
                name: {
                    "rows": [old.rows if old else None, now.rows],
                    "bytes": [old.bytes if old else None, now.bytes],
                }
                for name, old, now in plan.configs()
            },
        }

    @property
    def notes(self) -> tuple[str, ...]:
        """What could not be checked."""
        return (f"{self.target.repo}: {self.unasked}",) if self.unasked else ()

    @property
    def exit_status(self) -> int:
        """3: nothing wrong was found, but not all could be checked."""
        return 3 if self.unasked else 0


class Releases(tuple[ReleaseOutcome, ...]):
    """The outcomes of a release of several tokenizers."""

    def __str__(self) -> str:
        return "\n".join(map(str, self))

    def to_record(self) -> list[dict[str, object]]:
        """Return the outcomes as plain values."""
        return [outcome.to_record() for outcome in self]

    @property
    def notes(self) -> tuple[str, ...]:
        """What could not be checked."""
        return self[0].notes if self else ()

    @property
    def exit_status(self) -> int:
        """The highest of all."""
        return max((outcome.exit_status for outcome in self), default=0)


def release(
    folders: Mapping[str, Path],
    *,
    prove: Callable[[Path], str],
    tell: Tell,
    version: str = "",
    index: str = "",
    allowed: Collection[str] = (),
    private: bool = False,
    dry_run: bool = False,
) -> Releases:
    """Release folders, each in its repo, and list them in an index; or complete such a release.

    Args:
        folders: of builds, by repo. Where there are several, one whose rows do not change keeps its
            version.
        prove: called with each folder before anything is written; returns a line, or raises.
        tell: called with a line about each step.
        version: of all; by default the next one that fits the changes.
        index: repo whose `index.json` lists them; by default each repo's own, if it has one.
        allowed: options that overrule a refusal (`GUARDS`, `plan`).
        private: whether new repos are private.
        dry_run: whether to write nothing.

    Raises:
        UsageError: it cannot be done with these options; nothing was written.
        RulerError: a fault of a folder or the Hub; the same command continues.
    """
    number = Version.parse(version) if version else None
    for repo in folders:
        check_repo(repo)
    if not dry_run:
        check_access()
    targets = [
        Target(
            *(repo, folder, _checked_manifest(folder, allowed), number, allowed),
            private=private,
        )
        for repo, folder in folders.items()
    ]
    if dry_run and (offline() or not is_reachable()):
        for target in targets:
            tell(prove(target.folder))
        return Releases(ReleaseOutcome(target, unasked=UNCHECKED) for target in targets)
    unasked = _check_token(folders, tell)
    if unasked and not dry_run:
        tell(f"note: {unasked}")
    several = len(targets) > 1
    siblings = listed_repos(index, folders) if index else {}
    if several:
        infos = {target.repo: target.built.tokenizer for target in targets}
        siblings |= {repo: label(info.name, info.extra_reserve) for repo, info in infos.items()}
    plans = [
        _plan(replace(target, siblings=siblings, keeps_unchanged=several), tell, dry_run=dry_run)
        for target in targets
    ]
    for target in targets:
        tell(prove(target.folder))
    repos = [plan.target.repo for plan in plans if not plan.creates]
    lists = [index] if index else [repo for repo in repos if read_index(repo)]
    outcomes = [_carry_out(plan, tell, dry_run=dry_run) for plan in plans]
    entries = [
        Sibling.of(
            outcome.target.repo,
            outcome.plan.version.tag,
            outcome.commit or "",
            outcome.plan.manifest,
        )
        for outcome in outcomes
        if outcome.plan
    ]
    for repo in lists:
        fitting = [entry for entry in entries if index or entry.repo == repo]
        put_index(repo, fitting, tell, dry_run=dry_run)
    return Releases(
        replace(outcome, unasked=unasked) if dry_run else outcome for outcome in outcomes
    )


def prover(
    *, tokenizer: str | None = None, workers: int = 1, allow_unproved: bool = False
) -> Callable[[Path], str]:
    """Return a function that proves a folder and returns a line, or raises what is wrong."""

    def prove(folder: Path) -> str:
        if proved(folder):
            return f"{folder}: proved before"
        verdict = verify(folder, tokenizer=tokenizer, workers=workers)
        if verdict.findings:
            summary = f"{counted(len(verdict.findings), 'finding')}: {verdict.findings[0]}"
            remedy = "build it again, then publish"
            raise RulerError(folder, "verification failed", f"{summary}; {remedy}")
        if verdict.unproved and not allow_unproved:
            raise RulerError(folder, verdict.notes[0], "prove it, or give --allow-unproved")
        checked = f"{counted(verdict.configs, 'config')}, {counted(verdict.rows, 'row')}"
        return f"{folder}: verified: {checked}"

    return prove


def _checked_manifest(folder: Path, allowed: Collection[str]) -> Manifest:
    """Return the manifest of a folder, checked as far as possible without the Hub."""
    manifest = read_manifest(folder)
    for option, applies, why in GUARDS:
        if getattr(manifest, applies) and option not in allowed:
            raise UsageError(folder, f"{why}, or give --{option.replace('_', '-')}")
    for name in BuildDir(folder).damaged(manifest):
        problem = f"verification failed: {name}: is missing or not as in the manifest"
        raise RulerError(folder, f"{problem}; build it again, then publish")
    readme = read_bytes(folder / "README.md", CARD_BYTES).decode(errors="replace")
    try:
        yaml.safe_load(readme.partition("\n---\n")[0])
    except yaml.YAMLError as error:
        fault = f"YAML: {' '.join(str(error).split())}"
        raise RulerError(folder, "README.md: the Hub would refuse the card", fault) from error
    return manifest


def _check_token(repos: Iterable[str], tell: Tell) -> str:
    """Check the token's account and role before anything else; return what remains unknown.

    Raises:
        RulerError: the token may not write.
    """
    if token() is None:  # of a dry run
        return NO_TOKEN
    if resource := os.environ.get("HF_OIDC_RESOURCE"):  # a token of an hour for one repo
        tell(f"note: the token is of a trusted publisher of {resource}; its role was not checked")
        return ""
    about, unasked = whoami(), ""
    for repo in repos:
        owner = repo.partition("/")[0]
        for refusal in token_faults(about, owner):
            raise RulerError(repo, refusal)
        members = {about.get("name"), *(member.get("name") for member in about.get("orgs") or ())}
        if owner not in members:
            problem = f"the token is of {about.get('name')}, who is not seen to belong to {owner}"
            unasked = f"{problem}, so whether it may write is not known"
    return unasked


def token_faults(about: Mapping[str, Any], owner: str) -> Iterator[str]:
    """Yield why a token may not write to an owner's repos; `about` is the answer of `whoami`.

    A fine-grained token may write to what its scopes name: an owner, or a repo of an owner.

    >>> list(token_faults({"auth": {"accessToken": {"role": "read"}}}, "org"))
    ['the token can only read; use one with write access']
    >>> scope = {"entity": {"name": "me"}, "permissions": ["repo.write"]}
    >>> token = {"role": "fineGrained", "fineGrained": {"scoped": [scope]}}
    >>> list(token_faults({"auth": {"accessToken": token}}, "org"))
    ['the token may write to no repo of org; give it write access to them']
    """
    access = (about.get("auth") or {}).get("accessToken") or {}
    if access.get("role") == "read":
        yield "the token can only read; use one with write access"
    scopes = (access.get("fineGrained") or {}).get("scoped")
    if access.get("role") == "fineGrained" and isinstance(scopes, list):
        granted = {
            permission
            for scope in scopes
            if str((scope.get("entity") or {}).get("name")).partition("/")[0] == owner
            for permission in scope.get("permissions") or ()
        }
        if "repo.write" not in granted:
            yield f"the token may write to no repo of {owner}; give it write access to them"
    for org in about.get("orgs") or ():
        if org.get("name") == owner and org.get("roleInOrg") == "read":
            yield f"the token's owner may only read in {owner}; ask for the role `write` there"


def _plan(target: Target, tell: Tell, *, dry_run: bool) -> Plan:
    """Return the plan of a release whose card the Hub has checked."""
    plan = make_plan(target)
    for line in () if dry_run else plan.lines():  # a dry run prints them as its outcome
        tell(line)
    if plan.published is None:
        (card,) = (file.read() for file in plan.files if file.path == "README.md")
        check_card(target.repo, card.decode())
    return plan


def _carry_out(plan: Plan, tell: Tell, *, dry_run: bool) -> ReleaseOutcome:
    """Publish what is planned; for a dry run, or if it is published already, write nothing."""
    target, repo = plan.target, plan.target.repo
    if plan.published is not None:
        _check_listing(repo, plan.files, plan.published, tell)
        return ReleaseOutcome(target, plan, plan.published)
    if dry_run:
        return ReleaseOutcome(target, plan)
    if plan.creates:
        ensure_repo(repo, private=target.private)
    message = f"Release {plan.version.tag}"
    commit, sent = put_files(repo, plan.files, message, remove=partial(_leftovers, plan))
    tell(f"{repo}: commit {commit}, {len(sent)} files sent")
    _check_listing(repo, plan.files, commit, tell)
    put_tag(repo, plan.version.tag, commit)
    return ReleaseOutcome(target, plan, commit, tuple(sent))


def _leftovers(plan: Plan, remote: Mapping[str, Any]) -> list[str]:
    """Return the files to remove, if the head is still the one of the plan."""
    now = remote.get(FILENAME)
    manifest = next(file for file in plan.files if file.path == FILENAME)
    if (now.blob_id if now else None) != plan.manifest_then and not manifest.is_held(now):
        remedy = "run the same command again to extend it"
        problem = "another release was committed meanwhile and was not changed"
        raise RulerError(plan.target.repo, f"{problem}; {remedy}")
    paths = {file.path for file in plan.files}
    return [path for path in remote if CONFIG_FILE.fullmatch(path) and path not in paths]


def _check_listing(repo: str, files: Sequence[PushFile], commit: str, tell: Tell) -> None:
    """Compare a commit on the Hub, which lists the hash of every file, with what was planned."""
    where = f"{repo} at {commit}"
    if differing := missing(files, tree(repo, commit)):
        names = ", ".join(file.path for file in differing)
        raise RulerError(where, f"missing, or not as uploaded: {names}; no tag was set")
    count = counted(len(files), "file")
    tell(f"{repo}: {count} at {commit} compared with the Hub's listing of hashes")


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
        "allow_unpinned",
        "has_unpinned",
        "is built from copies of sources that are not the pinned ones, so rows differ from other "
        "people's; build with the pinned sources (`ruler-data list sources`)",
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
