"""A release: a folder becomes one commit and one tag on the Hub, or nothing does.

    folder -> token and role -> plan, the Hub's check of the card -> proof -> repo, one commit
    -> its listing on the Hub is the one planned -> tag, read back

What can be refused is refused before anything is written. Each step first looks at what was done
before, so the same command completes an interrupted release, and after a success it sends nothing.
Several tokenizers (`siblings.py`) are a loop over the steps.
"""

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml

from ruler_builders.card import CARD_BYTES, OPEN_LICENCES, Address, card_files
from ruler_builders.listing import differences, hub_listing
from ruler_builders.pipeline.build import compared_inputs
from ruler_builders.pipeline.build_dir import BuildDir
from ruler_builders.publish.version import Change, Version, change
from ruler_builders.rebuild import verify
from ruler_data.errors import RulerError, UsageError
from ruler_data.files import read_bytes
from ruler_data.hub.client import NO_TOKEN, token
from ruler_data.hub.download import Snapshot, open_release
from ruler_data.hub.repo import (
    PushFile,
    changed,
    check_card,
    ensure_repo,
    head,
    missing,
    put_files,
    put_tag,
    tags,
    tree,
    whoami,
)
from ruler_data.index import FILENAME as INDEX
from ruler_data.manifest import FILENAME, ConfigInfo, Manifest, read_manifest
from ruler_data.names import check_repo, counted, parse_config, parse_names, quote
from ruler_data.parquet import read_packed
from ruler_data.row import digest_rows
from ruler_data.tasks import config_place, task_place
from ruler_data.version import __version__

#: Called with a line about each step.
Tell = Callable[[str], None]
#: Path of a config's file.
CONFIG_FILE = re.compile(r"[a-z0-9_]+_[1-9][0-9]*/test-00000-of-00001\.parquet")
#: Files that the Hub or a person may put into a repo before its first release.
TEXTS = re.compile(r"LICENSE|\.git(attributes|ignore)|[^/]+\.(md|txt)")
#: What the Hub adds, and the index, which is written after the release.
KEPT = (".gitattributes", INDEX)
#: What a dry run without a network does not check.
UNCHECKED = (
    "without the Hub this was not checked: whether the token may write, what the repo holds, which "
    "version this is, and the Hub's own check of the card"
)
#: What `--allow` consents to: reasons not to publish.
CONSENTS = {
    "sample": "holds rows of the sample corpus, whose scores are not RULER's; build with the real "
    "sources",
    "unpinned": "is built from copies of sources that are not the pinned ones, so rows differ from "
    "other people's; build with the pinned sources (`ruler-data list sources`)",
    "own-texts": "holds texts of your own (build --haystack), whose licence is unknown and which "
    "everybody could read; build without them",
    "private-seed": "is built from a private seed (build --fresh), which would become public, and "
    "models could be trained on its rows; build with the public seed",
    "fewer-rows": "configs have at most {rows} rows, and {repo} holds {before}",
    "unproved": "{note}",
}


def parse_consents(allow: str | Collection[str]) -> tuple[str, ...]:
    """Return the consents of `--allow`, comma-separated or one by one.

    Raises:
        UsageError: there is no such consent.
    """
    names = parse_names(allow)
    for name in names:
        if name not in CONSENTS:
            known = ", ".join(CONSENTS)
            raise UsageError(f"--allow {quote(name)}: no such consent; known: {known}")
    return names


class Release:
    """A folder on its way to a repo: its methods are the steps, in this order.

    Args:
        folder: of a build.
        repo: on the Hub.
        version: to release; None for the next one that fits the changes.
        allowed: consents, of `CONSENTS`.
        private: whether the repo has to be private.
        proof: options of `verify`: where sources and tokenizer are, and how many workers.
        tell: called with a line about each step.

    Raises:
        UsageError: the folder needs consent; nothing was sent.
        RulerError: the folder is damaged.
    """

    #: Repos for other tokenizers, with their names, for the card.
    siblings: Mapping[str, str] = {}
    #: Whether a repo that holds these rows already keeps its version, whatever is asked.
    keeps_unchanged = False

    def __init__(
        self,
        folder: Path,
        repo: str,
        *,
        version: Version | None = None,
        allowed: Collection[str] = (),
        private: bool = False,
        proof: Mapping[str, Any] | None = None,
        tell: Tell = lambda _: None,
    ) -> None:
        self.folder = folder
        self.repo = check_repo(repo)
        self.wanted = version
        self.allowed = allowed
        self.private = private
        self.proof = proof or {}
        self.tell = tell
        self.built = self._checked_manifest()
        #: What could not be checked, in a sentence.
        self.unasked = ""
        #: Set by `plan`: the release, how it changes the one before, and what it sends.
        self.is_planned = False
        self.creates = False
        self.base: Snapshot | None = None
        self.version = version or Version.parse(self.built.data_version)
        self.manifest = self.built
        self.change = Change.MINOR
        self.why = "new"
        self.files: tuple[PushFile, ...] = ()
        self.to_send: tuple[str, ...] = ()
        self.removed: tuple[str, ...] = ()
        self.replaced: tuple[str, ...] = ()
        self.manifest_then: str | None = None
        #: Commit that the tag is on, if it was published before this or by it; and what was sent.
        self.published: str | None = None
        self.commit: str | None = None
        self.sent: tuple[str, ...] = ()

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
        """Take the name that the Hub has for the repo, which may have been renamed."""
        info = head(self.repo)
        if info is None:
            self.creates = True
            return
        if info.id != self.repo:
            self.tell(f"note: {self.repo} is now {info.id}")
            self.repo = info.id
        if self.private and not info.private:
            problem = "is public, and --private is for new repos; make it private on the Hub first"
            raise UsageError(self.repo, problem)
        self.private = bool(info.private)

    def plan(self, *, check: bool = True) -> None:
        """Read the repo and plan the release; nothing is written.

        `check` lets the Hub check the card.

        Raises:
            UsageError: the version does not fit the changes, the repo holds something else, or the
                release may be an accident.
            RulerError: the Hub refuses the card.
        """
        remote = dict[str, Any]()
        before = None
        info = None
        if not self.creates:
            info = head(self.repo)
        if info:
            commit = str(info.sha)
            remote = tree(self.repo, commit)
            self.base = self._find_base()
            if self.base:
                before = self.base.manifest
            else:
                before = self._unfinished(commit, remote)
        self._choose_version()
        if self.change is Change.NONE:  # siblings alone are no release
            self.siblings = {}
        self.manifest, self.files = self._compose(self.version, self.siblings)
        self._refuse_accidents(before)
        if self.base and self.change is Change.NONE:
            self.published = self.base.commit
        self._compare(remote)
        self.is_planned = True
        if check and self.published is None:
            check_card(self.repo, self.card)

    @property
    def card(self) -> str:
        """The card that is published."""
        (card,) = (file.read() for file in self.files if file.path == "README.md")
        return card.decode()

    def _compare(self, remote: Mapping[str, Any]) -> None:
        """Set which files of the repo's newest commit are sent, removed and replaced."""
        paths = {*(file.path for file in self.files), *KEPT}
        self.to_send = tuple(file.path for file in missing(self.files, remote))
        self.removed = tuple(sorted(remote.keys() - paths))
        manifest = remote.get(FILENAME)
        self.manifest_then = manifest and manifest.blob_id
        if self.base:
            differing = changed(tree(self.repo, self.base.commit), remote)
        elif FILENAME in remote:  # left by an unfinished release
            differing = []
        else:
            differing = list(remote)
        self.replaced = tuple(path for path in differing if path in self.to_send)

    def _find_base(self) -> Snapshot | None:
        """Return the release to extend: the one of the wanted version, or else the latest."""
        versions = dict[Version, str]()
        for tag, commit in tags(self.repo).items():
            if version := Version.of_tag(tag):
                versions[version] = commit
        if not versions:
            return None
        version = max(versions)
        if self.wanted in versions and not self.keeps_unchanged:
            version = self.wanted
        base = open_release(self.repo, versions[version])
        if base.manifest.data_version != str(version):
            problem = f"tag {version.tag} is on commit {base.commit}, whose manifest says"
            remedy = "it was changed after publication: repair that first"
            raise RulerError(self.repo, f"{problem} {base.manifest.data_version}; {remedy}")
        return replace(base, revision=version.tag)

    def _unfinished(self, commit: str, remote: Collection[str]) -> Manifest | None:
        """Return the manifest of an unfinished release, if the repo holds one."""
        if FILENAME in remote:
            manifest = open_release(self.repo, commit).manifest
            self._check_tokenizer(f"{self.repo}, an unfinished release,", manifest)
            return manifest
        for path in sorted(remote):
            if not TEXTS.fullmatch(path):
                problem = f"{self.repo} holds {quote(path)} and no release of ruler-data"
                raise UsageError(f"{problem}; publish into a new repo")
        return None

    def _choose_version(self) -> None:
        """Set the version, the kind of change, and the first difference.

        Raises:
            UsageError: the wanted version does not state this change.
        """
        if self.base is None:
            return
        before = Version.parse(self.base.manifest.data_version)
        now, _ = self._compose(before, {})
        self.change, self.why = change(self.base.manifest, now, self._digest_of_first)
        fitting = before.after(self.change)
        self.version = self.wanted or fitting
        if self.change is Change.NONE and self.keeps_unchanged:
            self.version = before
        if self.version.says(before) is self.change:
            return
        reason = f"since {before.tag}: {self.change.about}"
        if self.why:
            reason += f" ({self.why})"
        if self.version == before:
            reason = f"is published with other content, and a tag is never moved; {reason}"
            reason = f"{self.version.tag} {reason}"
        elif self.version < before:
            reason = f"{before.tag} is published already; {reason}"
        remedy = f"there is nothing to release after {before}"
        if self.change:
            remedy = f"this is {fitting}"
        raise UsageError(f"version {self.version}: {reason}; {remedy}")

    def _digest_of_first(self, info: ConfigInfo, rows: int) -> str:
        """Return the digest of the first rows of a config of the folder."""
        return digest_rows(islice(read_packed(self.folder / info.file), rows))

    def _compose(
        self, version: Version, siblings: Mapping[str, str]
    ) -> tuple[Manifest, tuple[PushFile, ...]]:
        """Return the dataset with all configs that were published before or are in the folder.

        A config that was built again replaces the published one; none is removed.

        Returns:
            the manifest, and all files, the manifest last.

        Raises:
            UsageError: the two cannot be one dataset.
        """
        built = self.built
        base = self.base
        before = replace(built, siblings={})
        if base is not None:
            before = base.manifest
            self._check_same_inputs(base, list(before.configs.keys() - built.configs.keys()))
        configs = before.configs | built.configs
        tasks = before.tasks | built.tasks
        sources = {source.name: source for source in (*before.sources, *built.sources)}
        manifest = replace(
            built,
            data_version=str(version),
            package_version=__version__,
            sources=tuple(sources[name] for name in sorted(sources)),
            configs={name: configs[name] for name in sorted(configs, key=config_place)},
            files={},
            tasks={name: tasks[name] for name in sorted(tasks, key=task_place)},
            siblings={**before.siblings, **siblings},
        )

        def locate(file: str) -> Path:
            config = file.split("/")[0]
            if base and config not in built.configs:
                return base.fetch([config]) / file
            return self.folder / file

        beside = card_files(manifest, locate, Address(self.repo, version.tag))
        manifest = manifest.with_files(beside)
        files = list[PushFile]()
        for info in manifest.configs.values():
            source = partial(locate, info.file)
            files.append(PushFile(info.file, info.bytes, info.sha256, source))
        for name, data in {**beside, FILENAME: manifest.to_json().encode()}.items():
            files.append(PushFile.of_bytes(name, data))
        return manifest, tuple(files)

    def _check_tokenizer(self, where: str, before: Manifest) -> None:
        if before.tokenizer.counts_like(self.built.tokenizer):
            return
        names = f"the tokenizer {before.tokenizer.name}, this folder {self.built.tokenizer.name}"
        raise UsageError(
            f"{where} holds {names} (other files); a repo holds one tokenizer, since loading a "
            "config downloads all of its splits: publish into another repo"
        )

    def _check_same_inputs(self, base: Snapshot, names: list[str]) -> None:
        """Refuse to mix configs of other tokenizers or other inputs."""
        before = base.manifest
        where = f"{base.repo} at {base.revision}"
        self._check_tokenizer(where, before)
        used = {source for name in names for source in before.table[parse_config(name)[0]].sources}
        sources = tuple(source for source in before.sources if source.name in used)
        before = replace(before, sources=sources)
        inputs = [*compared_inputs(before, self.built)]
        major = Version.parse(before.data_version).major
        major_now = Version.parse(self.built.data_version).major
        if major < major_now:  # a release may have a higher one, e.g. after another seed
            inputs.insert(0, ("rows of MAJOR data version", major, major_now))
        for name, value, value_now in inputs:
            if names and value != value_now:
                raise UsageError(
                    f"{where} was built with {name} {value}, this folder with {value_now}; build "
                    f"all of its configs again (this folder has no {names[0]}), or publish into "
                    "another repo"
                )

    def _refuse_accidents(self, before: Manifest | None) -> None:
        """Refuse configs of unequal rows, and without consent what may be an accident."""
        rows = sorted({info.rows for info in self.manifest.configs.values()})
        if before:
            most = max(info.rows for info in before.configs.values())
            if most > rows[-1]:
                self._consent("fewer-rows", repo=self.repo, before=most, rows=rows[-1])
        if len(rows) > 1 and not self.manifest.is_imported:
            raise UsageError(
                self.folder,
                "all configs of a dataset have as many rows, and these have "
                f"{' or '.join(map(str, rows))}; build each with the same --rows, or publish into "
                "another repo",
            )
        if self.change is Change.MAJOR and self.wanted is None:
            remedy = f"name the new version: --version {self.manifest.data_version}"
            raise UsageError(self.repo, f"published rows change ({self.why}): {remedy}")

    def prove(self) -> None:
        """Make the folder again; what is not equal to it is not published.

        Raises:
            RulerError: it differs, or it cannot be made here and there is no consent.
        """
        verdict = verify(self.folder, **self.proof)
        if verdict.findings:
            summary = f"{counted(len(verdict.findings), 'finding')}: {verdict.findings[0]}"
            remedy = "build it again, then publish"
            raise RulerError(self.folder, "verification failed", f"{summary}; {remedy}")
        self._check_versions()
        if verdict.unproved and "unproved" not in self.allowed:
            remedy = "do that, or give --allow unproved"
            raise RulerError(self.folder, verdict.notes[0], remedy)
        checked = f"{counted(verdict.configs, 'config')}, {counted(verdict.rows, 'row')}"
        self.tell(f"{self.folder}: verified: {checked}")

    def _check_versions(self) -> None:
        """Refuse a folder of other versions: what they write is not proved here."""
        built = self.built
        for package, version, version_here in (
            ("ruler-data", built.package_version, __version__),
            ("pyarrow", built.pyarrow, pa.__version__),
        ):
            if version != version_here:
                problem = f"was written with {package} {version}, and here is {version_here}"
                remedy = f"pip install '{package}=={version}', then publish"
                raise RulerError(self.folder, f"{problem}, so it cannot be proved", remedy)

    def publish(self) -> None:
        """Publish what is planned, or complete it; if it is published already, write nothing.

        Raises:
            RulerError: the Hub refuses, cannot be reached, or holds something else at the end.
        """
        if self.published is not None:
            self.commit = self.published
            self._check_commit(self.commit)
            return
        tag = self.version.tag
        if self.creates:
            ensure_repo(self.repo, private=self.private)
        self.commit, sent = put_files(
            self.repo, self.files, f"Release {tag}", remove=self._leftovers
        )
        self.sent = tuple(sent)
        self.tell(f"{self.repo}: commit {self.commit}, {len(sent)} files sent")
        self._check_commit(self.commit)
        put_tag(self.repo, tag, self.commit)

    def _leftovers(self, remote: Mapping[str, Any]) -> list[str]:
        """Return the files to remove, if the head is still the one of the plan."""
        manifest = self.files[-1]
        now = remote.get(FILENAME)
        if (now and now.blob_id) != self.manifest_then and not manifest.is_held(now):
            remedy = "run the same command again to extend it"
            problem = "another release was committed meanwhile and was not changed"
            raise RulerError(self.repo, f"{problem}; {remedy}")
        paths = {*(file.path for file in self.files), *KEPT}
        strays = [path for path in remote if path not in paths]
        for path in strays:
            if path not in self.removed and not CONFIG_FILE.fullmatch(path):
                problem = f"{quote(path)} was committed meanwhile, which is no part of a release"
                raise RulerError(self.repo, f"{problem}; run the same command again to resume")
        return strays

    def _check_commit(self, commit: str) -> None:
        """Compare the listing of a commit on the Hub with what was planned."""
        listing = hub_listing(self.repo, commit)
        listing.pop(INDEX, None)
        made = {file.path: file for file in self.files}
        for path, difference in differences(listing, made):
            problem = f"{path}: {difference}: not as uploaded; no tag was set"
            raise RulerError(f"{self.repo} at {commit}", problem)
        count = counted(len(made), "file")
        self.tell(f"{self.repo}: {count} at {commit} compared with the Hub's listing of hashes")

    @property
    def since(self) -> Version | None:
        """Version of the previous release, if there is one."""
        if self.base is None:
            return None
        return Version.parse(self.base.manifest.data_version)

    def configs(self) -> list[tuple[str, ConfigInfo | None, ConfigInfo]]:
        """Return each config with its entry in the previous release, if any, and in this one."""
        before = self.base.manifest.configs if self.base else {}
        return [(name, before.get(name), now) for name, now in self.manifest.configs.items()]

    def lines(self) -> Iterator[str]:
        """Return the plan as text: what changes in each config, the sum, notes and licences."""
        if self.published is not None:
            return
        width = max(map(len, self.manifest.configs))
        visibility = "private" if self.private else "public"
        since = self.since.tag if self.since else "no release"
        yield f"{self.repo} ({visibility}): {since} -> {self.version.tag}"
        yield f"  {'config':<{width}} {'rows':>19} {'bytes':>29}"
        unchanged = 0
        sums = [0, 0, 0, 0]
        for name, before, now in self.configs():
            figures = [0, now.rows, 0, now.bytes]
            kind = "new"
            if before:
                figures = [before.rows, now.rows, before.bytes, now.bytes]
                kind = "other bytes"
                if before.digest != now.digest:
                    kind = "other rows"
            sums = [total + figure for total, figure in zip(sums, figures, strict=True)]
            if before and (before.digest, before.sha256) == (now.digest, now.sha256):
                unchanged += 1
            else:
                yield f"  {name:<{width}} {_arrow(*figures)}  {kind}"
        if unchanged:
            yield f"  {counted(unchanged, 'config')} unchanged"
        yield f"  {'all':<{width}} {_arrow(*sums)}  {counted(len(self.manifest.configs), 'config')}"
        yield from self._notes()

    def _notes(self) -> Iterator[str]:
        """Yield what is replaced or removed on the Hub, and what the sources ask of a publisher."""
        if self.replaced:
            when = ""
            if self.since:
                when = f" since {self.since}"
            note = f"changed on the Hub{when}: {', '.join(self.replaced)}"
            yield f"note: {note}; this release replaces it; the history keeps the old content"
        removed = [path for path in self.removed if not CONFIG_FILE.fullmatch(path)]
        if removed:
            note = f"no part of a release: {', '.join(map(quote, removed))}"
            yield f"note: {note}; this release removes it; the history keeps it"
        yield from unpinned_sources(self.built)
        yield from closed_licences(self.built)

    def __str__(self) -> str:
        if not self.is_planned:
            sources = (*unpinned_sources(self.built), *closed_licences(self.built))
            return "\n".join([f"{self.repo}: {self.folder} can be released", *sources])
        tag = self.version.tag
        if self.published is not None:
            return f"{self.repo}: {tag} is published already, at {self.published}; nothing sent"
        about = f"{tag}: {counted(len(self.manifest.configs), 'config')}"
        if self.since:
            about += f", since {self.since.tag}: {self.change.about} ({self.why})"
        if self.commit is not None:
            return f"{self.repo}: released {about}, commit {self.commit}"
        plan = f"would release {about}"
        if self.creates:
            plan = f"would be created; {plan}"
        files = f"{counted(len(self.to_send), 'file')} to send:"
        lines = [*self.lines(), f"{self.repo}: {plan}", files]
        lines += [f"  {path}" for path in self.to_send]
        return "\n".join(lines)

    def to_record(self) -> dict[str, object]:
        """Return what was done, or would be, as plain values."""
        record: dict[str, object] = {"repo": self.repo, "licences": [*closed_licences(self.built)]}
        if self.unasked:
            record["unasked"] = self.unasked
        if not self.is_planned:
            return record
        configs = {}
        for name, before, now in self.configs():
            configs[name] = {
                "rows": [before.rows if before else None, now.rows],
                "bytes": [before.bytes if before else None, now.bytes],
            }
        return record | {
            "version": str(self.version),
            "tag": self.version.tag,
            "since": str(self.since) if self.since else None,
            "change": self.change.name,
            "why": self.why,
            "commit": self.commit,
            "published_before": self.published is not None,
            "creates": self.creates,
            "to_send": list(self.to_send),
            "removed": list(self.removed),
            "sent": list(self.sent),
            "configs": configs,
        }

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


def _arrow(rows: int, rows_now: int, size: int, size_now: int) -> str:
    return f"{rows:>8,} -> {rows_now:>7,} {size:>13,} -> {size_now:>12,}"


def unpinned_sources(built: Manifest) -> Iterator[str]:
    """Yield a line for each copy of a source that is not the pinned one."""
    for source in built.sources:
        if source.kind == "real" and not source.pinned:
            yield f"unpinned: {source.title}: sha256 {source.sha256} is not the pinned one"


def closed_licences(built: Manifest) -> Iterator[str]:
    """Yield a line for each licence that is not open: the publisher is responsible."""
    for source in built.sources:
        if source.licence not in OPEN_LICENCES:
            about = f"{source.title}: {source.licence}"
            duty = "publishing these texts is your responsibility (docs/howto/publish-rows.md)"
            yield f"licence: {about}; {duty}"


def check_token(repos: Iterable[str], tell: Tell) -> str:
    """Check the token's account and role before anything else; return what remains unknown.

    Raises:
        RulerError: the token may not write.
    """
    if token() is None:  # of a dry run
        return NO_TOKEN
    if resource := os.environ.get("HF_OIDC_RESOURCE"):  # a token of an hour for one repo
        tell(f"note: the token is of a trusted publisher of {resource}; its role was not checked")
        return ""
    about = whoami()
    unasked = ""
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
    if access.get("role") == "fineGrained":
        scopes = (access.get("fineGrained") or {}).get("scoped")
        if isinstance(scopes, list) and "repo.write" not in _permissions(scopes, owner):
            yield f"the token may write to no repo of {owner}; give it write access to them"
    roles = {org.get("name"): org.get("roleInOrg") for org in about.get("orgs") or ()}
    if roles.get(owner) == "read":
        yield f"the token's owner may only read in {owner}; ask for the role `write` there"


def _permissions(scopes: Iterable[Mapping[str, Any]], owner: str) -> set[str]:
    """Return what scopes of a fine-grained token permit in an owner's repos."""
    permissions = set[str]()
    for scope in scopes:
        name = str((scope.get("entity") or {}).get("name"))
        if name.partition("/")[0] == owner:
            permissions.update(scope.get("permissions") or ())
    return permissions
