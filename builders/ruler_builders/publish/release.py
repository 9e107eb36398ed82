"""A release: a folder becomes one commit and one tag on the Hub, or nothing does.

    folder -> token and role -> plan, the Hub's check of the card -> proof -> repo, one commit
    -> its listing on the Hub is the one planned -> tag, read back -> index

What can be refused is refused before anything is written. Each step first looks at what was done
before, so the same command completes an interrupted release, and after a success it sends nothing.
Several tokenizers are a loop over each step.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import yaml

from ruler_builders.card import CARD_BYTES
from ruler_builders.listing import differences, hub_listing
from ruler_builders.pipeline.build_dir import BuildDir
from ruler_builders.publish.plan import (
    CONFIG_FILE,
    CONSENTS,
    Dataset,
    Plan,
    closed_licences,
    source_notes,
)
from ruler_builders.publish.siblings import label, listed_repos, put_index
from ruler_builders.publish.version import Change, Version, choose_version
from ruler_builders.rebuild import Verdict
from ruler_data.errors import RulerError, UsageError
from ruler_data.files import read_bytes
from ruler_data.hub.client import HubDown, check_access
from ruler_data.hub.download import Snapshot, open_release
from ruler_data.hub.repo import (
    Tree,
    check_card,
    check_token,
    ensure_repo,
    head,
    missing,
    put_files,
    put_tag,
    tags,
    tree,
)
from ruler_data.index import FILENAME as INDEX
from ruler_data.index import Sibling, read_index
from ruler_data.manifest import FILENAME, Manifest, read_manifest
from ruler_data.names import check_repo, counted, quote
from ruler_data.terminal import warn
from ruler_data.version import __version__

#: Called with a line about each step.
Tell = Callable[[str], None]
#: Makes a folder again and compares it (`verify`).
Prove = Callable[[Path], Verdict]
#: What a dry run without a network does not check.
UNCHECKED = (
    "without the Hub this was not checked: whether the token may write, what the repo holds, which "
    "version this is, and the Hub's own check of the card"
)


class Releases(tuple["Release", ...]):
    """What was published for each repo, or would be."""

    def __str__(self) -> str:
        return "\n".join(map(str, self))

    def to_record(self) -> list[dict[str, object]]:
        """Return what was done for each as plain values."""
        return [release.to_record() for release in self]

    @property
    def notes(self) -> tuple[str, ...]:
        """What could not be checked."""
        return tuple(note for release in self for note in release.notes)

    @property
    def exit_status(self) -> int:
        """3: nothing wrong was found, but not all could be checked."""
        return max(release.exit_status for release in self)


def release(
    folders: Mapping[str, Path],
    *,
    prove: Prove,
    tell: Tell,
    version: Version | None = None,
    index: str = "",
    allowed: Collection[str] = (),
    private: bool = False,
    dry_run: bool = False,
) -> Releases:
    """Publish folders, each in its repo, and list them in an index; or complete such a release.

    Args:
        folders: of builds, by repo.
        prove: called once with each folder, before anything is written.
        tell: called with a line about each step.
        version: of all; None for the next one that fits the changes of each.
        index: repo whose `index.json` lists them; by default each repo's own, if it has one.
        allowed: consents, of `CONSENTS`.
        private: whether the repos have to be private.
        dry_run: whether to write nothing.

    Raises:
        UsageError: it cannot be done with these options; nothing was written.
        RulerError: a fault of a folder or the Hub; the same command continues.
    """
    releases = Releases(
        Release(folder, repo, version=version, allowed=allowed, private=private, tell=tell)
        for repo, folder in folders.items()
    )
    if dry_run:
        _try(releases, index, prove, tell)
        return releases
    check_access()
    if unasked := _plan(releases, index, tell):
        tell(f"note: {unasked}")
    for item in releases:
        item.tell_plan()
    for item in releases:
        item.prove(prove)
    indexes = _indexes(releases, index)
    for item in releases:
        item.publish()
    for repo in indexes:
        put_index(repo, [item.sibling() for item in releases if repo in (index, item.repo)], tell)
    return releases


def _try(releases: Releases, index: str, prove: Prove, tell: Tell) -> None:
    """Take releases through the steps that write nothing; without the Hub, the proof alone."""
    try:
        unasked = _plan(releases, index, tell)
    except HubDown:
        unasked = UNCHECKED
    for item in releases:
        item.prove(prove)
        item.unasked = unasked


def _plan(releases: Releases, index: str, tell: Tell) -> str:
    """Plan releases, each with the others and those of the index on its card.

    Returns:
        what could not be checked, in a sentence.
    """
    unasked = check_token([item.repo for item in releases], tell)
    for item in releases:
        item.find_repo()
    siblings = listed_repos(index, {item.repo for item in releases})
    if len(releases) > 1:
        siblings |= {item.repo: label(item.built.tokenizer) for item in releases}
    for item in releases:
        item.make_plan(siblings, keeps_unchanged=len(releases) > 1)
        if not item.planned.published:
            check_card(item.repo, item.planned.card)
    return unasked


def _indexes(releases: Releases, index: str) -> list[str]:
    """Return the repos whose index lists releases."""
    if index:
        return [index]
    return [item.repo for item in releases if item.head and read_index(item.repo)]


class Release:
    """A folder on its way to a repo: its methods are the steps, in this order.

    Args:
        folder: of a build.
        repo: on the Hub.
        version: to release; None for the next one that fits the changes.
        allowed: consents, of `CONSENTS`.
        private: whether the repo has to be private.
        tell: called with a line about each step.

    Raises:
        UsageError: the folder needs consent; nothing was sent.
        RulerError: the folder is damaged.
    """

    def __init__(
        self,
        folder: Path,
        repo: str,
        *,
        version: Version | None = None,
        allowed: Collection[str] = (),
        private: bool = False,
        tell: Tell = lambda _: None,
    ) -> None:
        self.folder = folder
        self.repo = check_repo(repo)
        self.wanted = version
        self.allowed = allowed
        self.private = private
        self.tell = tell
        self.built = self._checked_manifest()
        #: The repo's newest commit; None where there is no repo.
        self.head: str | None = None
        #: Set by `make_plan`; None in a dry run without the Hub.
        self.plan: Plan | None = None
        #: Commit that the tag is on, and the paths that were sent or removed.
        self.commit: str | None = None
        self.sent: tuple[str, ...] = ()
        #: What could not be checked, in a sentence.
        self.unasked = ""

    def _consent(self, name: str, **values: object) -> None:
        """Refuse a release for a reason that needs consent, unless it was given."""
        if name not in self.allowed:
            why = CONSENTS[name].format(**values)
            raise UsageError(self.folder, f"{why}, or give --allow {name}")

    def _checked_manifest(self) -> Manifest:
        """Return the manifest of the folder, checked as far as possible without the Hub."""
        folder = self.folder
        manifest = read_manifest(folder)
        for name, applies in {
            "sample": manifest.is_sample,
            "unpinned": manifest.has_unpinned,
            "own-texts": manifest.has_own_texts,
            "private-seed": manifest.is_private,
        }.items():
            if applies:
                self._consent(name)
        for name in BuildDir(folder).damaged(manifest):
            problem = f"verification failed: {name}: is missing or not as in the manifest"
            raise RulerError(folder, f"{problem}; build it again, then publish")
        card = read_bytes(folder / "README.md", CARD_BYTES).decode(errors="replace")
        try:
            yaml.safe_load(card.partition("\n---\n")[0])
        except yaml.YAMLError as error:
            fault = f"YAML: {' '.join(str(error).split())}"
            raise RulerError(folder, "README.md: the Hub would refuse the card", fault) from error
        return manifest

    def find_repo(self) -> None:
        """Look at the repo, under the name that the Hub has for it, which may have changed."""
        info = head(self.repo)
        if info is None:
            return
        self.head = str(info.sha)
        if info.id != self.repo:
            self.tell(f"note: {self.repo} is now {info.id}")
            self.repo = info.id
        if self.private and not info.private:
            problem = "is public, and --private is for new repos; make it private on the Hub first"
            raise UsageError(self.repo, problem)
        self.private = bool(info.private)

    @property
    def planned(self) -> Plan:
        """The plan, once it is made."""
        assert self.plan
        return self.plan

    def make_plan(self, siblings: Mapping[str, str], *, keeps_unchanged: bool = False) -> None:
        """Read the repo and plan the release; nothing is written.

        Args:
            siblings: repos for other tokenizers, with their names, for the card.
            keeps_unchanged: whether a repo that holds these rows keeps its version.

        Raises:
            UsageError: the version does not fit the changes, the repo holds something else, or the
                release may be an accident.
        """
        remote: Tree = {}
        base: Snapshot | None = None
        if self.head:
            remote = tree(self.repo, self.head)
            base = self._find_base(keeps_unchanged=keeps_unchanged)
        before = remote
        if base:
            before = tree(self.repo, base.commit)
        elif FILENAME not in remote:
            before = {}
        dataset = Dataset(self.repo, self.folder, self.built, base)
        manifest_before = dataset.manifest_before(self.head or "", remote)
        change, why = dataset.change()
        version = self._version(base, change, why, keeps_unchanged=keeps_unchanged)
        if change is Change.NONE:  # siblings alone are no release
            siblings = {}
        manifest, files = dataset.compose(version, siblings)
        self._refuse_accidents(manifest_before, manifest)
        if change is Change.MAJOR and self.wanted is None:
            remedy = f"name the new version: --version {version}"
            raise UsageError(self.repo, f"published rows change ({why}): {remedy}")
        self.plan = Plan(
            self.repo,
            self.private,
            base,
            version,
            change,
            why,
            manifest,
            files,
            before,
            remote,
        )

    def _version(
        self, base: Snapshot | None, change: Change, why: str, *, keeps_unchanged: bool
    ) -> Version:
        """Return the version of the release."""
        if base is None:
            return self.wanted or Version.parse(self.built.data_version)
        before = Version.parse(base.manifest.data_version)
        if change is Change.NONE and keeps_unchanged:
            return before
        return choose_version(before, change, why, self.wanted)

    def _find_base(self, *, keeps_unchanged: bool) -> Snapshot | None:
        """Return the release to extend: the one of the wanted version, or else the latest."""
        versions = dict[Version, str]()
        for tag, commit in tags(self.repo).items():
            if version := Version.of_tag(tag):
                versions[version] = commit
        if not versions:
            return None
        version = max(versions)
        if self.wanted in versions and not keeps_unchanged:
            version = self.wanted
        base = open_release(self.repo, versions[version])
        if base.manifest.data_version != str(version):
            problem = f"tag {version.tag} is on commit {base.commit}, whose manifest says"
            remedy = "it was changed after publication: repair that first"
            raise RulerError(self.repo, f"{problem} {base.manifest.data_version}; {remedy}")
        return replace(base, revision=version.tag)

    def _refuse_accidents(self, before: Manifest | None, now: Manifest) -> None:
        """Refuse configs of unequal rows, and fewer rows than before without consent."""
        rows = sorted({info.rows for info in now.configs.values()})
        if before:
            most = max(info.rows for info in before.configs.values())
            if most > rows[-1]:
                self._consent("fewer-rows", repo=self.repo, before=most, rows=rows[-1])
        if len(rows) > 1 and not now.is_imported:
            raise UsageError(
                self.folder,
                "all configs of a dataset have as many rows, and these have "
                f"{' or '.join(map(str, rows))}; build each with the same --rows, or publish into "
                "another repo",
            )

    def prove(self, prove: Prove) -> None:
        """Make the folder again; what is not equal to it is not published.

        Raises:
            RulerError: it differs, or it cannot be made here and there is no consent.
        """
        verdict = prove(self.folder)
        if verdict.findings:
            summary = f"{counted(len(verdict.findings), 'finding')}: {verdict.findings[0]}"
            remedy = "build it again, then publish"
            raise RulerError(self.folder, "verification failed", f"{summary}; {remedy}")
        for package, version, version_here in (
            ("ruler-data", self.built.package_version, __version__),
            ("pyarrow", self.built.pyarrow, pa.__version__),
        ):
            if version != version_here:
                problem = f"was written with {package} {version}, and here is {version_here}"
                remedy = f"pip install '{package}=={version}', then publish"
                raise RulerError(self.folder, f"{problem}, so it cannot be proved", remedy)
        if verdict.unproved and "unproved" not in self.allowed:
            remedy = "do that, or give --allow unproved"
            raise RulerError(self.folder, verdict.notes[0], remedy)
        checked = f"{counted(verdict.configs, 'config')}, {counted(verdict.rows, 'row')}"
        self.tell(f"{self.folder}: verified: {checked}")

    def publish(self) -> None:
        """Publish what is planned, or complete it; if it is published already, write nothing.

        Raises:
            RulerError: the Hub refuses, cannot be reached, or holds something else at the end.
        """
        plan = self.planned
        if plan.published:
            self.commit = plan.published
            self._check_commit(plan.published)
            return
        tag = plan.version.tag
        if not self.head:
            ensure_repo(self.repo, private=self.private)
        self.commit, sent = put_files(
            self.repo, plan.files, f"Release {tag}", remove=self._leftovers
        )
        self.sent = tuple(sent)
        self.tell(f"{self.repo}: commit {self.commit}, {len(sent)} files changed")
        self._check_commit(self.commit)
        put_tag(self.repo, tag, self.commit)

    def _leftovers(self, remote: Tree) -> list[str]:
        """Return the files to remove, if the head is still the one of the plan."""
        plan = self.planned
        is_other = remote.get(FILENAME) != plan.remote.get(FILENAME)
        if is_other and missing([plan.files[-1]], remote):
            remedy = "run the same command again to extend it"
            problem = "another release was committed meanwhile and was not changed"
            raise RulerError(self.repo, f"{problem}; {remedy}")
        leftovers = plan.strays(remote)
        for path in leftovers:
            if path not in plan.removed and not CONFIG_FILE.fullmatch(path):
                problem = f"{quote(path)} was committed meanwhile, which is no part of a release"
                raise RulerError(self.repo, f"{problem}; run the same command again to resume")
        return leftovers

    def _check_commit(self, commit: str) -> None:
        """Compare the listing of a commit on the Hub with what was planned."""
        listing = hub_listing(self.repo, commit)
        listing.pop(INDEX, None)
        made = {file.path: file for file in self.planned.files}
        for path, difference in differences(listing, made):
            problem = f"{path}: {difference}: not as uploaded; no tag was set"
            raise RulerError(f"{self.repo} at {commit}", problem)
        count = counted(len(made), "file")
        self.tell(f"{self.repo}: {count} at {commit} compared with the Hub's listing of hashes")

    def sibling(self) -> Sibling:
        """Return the entry of the release in an index."""
        plan = self.planned
        commit = self.commit or plan.published or ""
        return Sibling.of(self.repo, plan.version.tag, commit, plan.manifest)

    def lines(self) -> list[str]:
        """Return what changes in the repo, and what the sources ask of a publisher."""
        return [*self.planned.lines(), *source_notes(self.built)]

    def tell_plan(self) -> None:
        """Tell what will be done, if anything will."""
        if not self.planned.published:
            for line in self.lines():
                self.tell(line)

    def __str__(self) -> str:
        if self.plan is None:
            can_be = f"{self.repo}: {self.folder} can be released"
            return "\n".join([can_be, *source_notes(self.built)])
        plan = self.plan
        tag = plan.version.tag
        if plan.published:
            return f"{self.repo}: {tag} is published already, at {plan.published}; nothing sent"
        if self.commit:
            return f"{self.repo}: released {plan}, commit {self.commit}"
        intent = f"would release {plan}"
        if not self.head:
            intent = f"would be created; {intent}"
        files = [f"  {path}" for path in plan.to_send]
        to_send = f"{counted(len(files), 'file')} to send:"
        return "\n".join([*self.lines(), f"{self.repo}: {intent}", to_send, *files])

    def to_record(self) -> dict[str, object]:
        """Return what was done, or would be, as plain values."""
        record: dict[str, object] = {"repo": self.repo, "licences": [*closed_licences(self.built)]}
        if self.unasked:
            record["unasked"] = self.unasked
        if self.plan:
            record |= self.plan.to_record()
            record |= {"creates": not self.head, "commit": self.commit, "sent": list(self.sent)}
        return record

    @property
    def notes(self) -> tuple[str, ...]:
        """What could not be checked."""
        if not self.unasked:
            return ()
        return (f"{self.repo}: {self.unasked}",)

    @property
    def exit_status(self) -> int:
        """3: nothing wrong was found, but not all could be checked."""
        if self.unasked:
            return 3
        return 0


def next_card(folder: Path, repo: str) -> str:
    """Return the card that `publish` would write, without its last line feed.

    Without the Hub it is that of a first release.
    """
    release = Release(folder, repo, allowed=CONSENTS)
    try:
        release.find_repo()
        release.make_plan({})
    except HubDown as error:
        release.head = None
        release.make_plan({})
        warn(f"{error}; this is the card of a first release")
    return release.planned.card.removesuffix("\n")
