"""Version numbers of releases, and how a release changes what was published before."""

from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

from ruler_data.errors import UsageError
from ruler_data.manifest import ConfigInfo, Manifest
from ruler_data.names import quote, released_version


class Change(IntEnum):
    """How a release changes what was published before, in rising order."""

    NONE = 0
    PATCH = 1  # same rows, other bytes
    MINOR = 2  # rows only added
    MAJOR = 3  # rows changed

    @property
    def about(self) -> str:
        """The change in words."""
        return {
            Change.NONE: "nothing changes",
            Change.PATCH: "other bytes of the same rows",
            Change.MINOR: "rows are only added",
            Change.MAJOR: "rows change",
        }[self]


class Version(NamedTuple):
    """A version number.

    >>> Version.parse("1.4.2").after(Change.MINOR)
    Version(major=1, minor=5, patch=0)
    """

    major: int
    minor: int
    patch: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"

    @property
    def tag(self) -> str:
        """The name of its tag."""
        return f"v{self}"

    @classmethod
    def parse(cls, text: str) -> "Version":
        """Read a version."""
        version = cls.of_tag(f"v{text}")
        if version is None:
            raise UsageError(f"version {quote(text)}: write MAJOR.MINOR.PATCH, e.g. 1.0.0")
        return version

    @classmethod
    def of_tag(cls, tag: str) -> "Version | None":
        """Return the version that a tag names, or None for any other tag."""
        text = released_version(tag)
        return cls(*map(int, text.split("."))) if text else None

    def after(self, change: Change) -> "Version":
        """Return the next version after a change."""
        if change is Change.MAJOR:
            return Version(self.major + 1, 0, 0)
        if change is Change.MINOR:
            return Version(self.major, self.minor + 1, 0)
        if change is Change.PATCH:
            return Version(self.major, self.minor, self.patch + 1)
        return self

    def says(self, before: "Version") -> Change | None:
        """Return the change that this version states since another; None if it is not later.

        Numbers may be skipped, so that repos of several tokenizers can share a version.

        >>> Version(1, 3, 0).says(Version(1, 0, 4)), Version(1, 3, 1).says(Version(1, 0, 4))
        (<Change.MINOR: 2>, None)
        """
        if self == before:
            return Change.NONE
        if self < before:
            return None
        if self[:2] == before[:2]:
            return Change.PATCH
        if self.patch:
            return None
        if self.major == before.major:
            return Change.MINOR
        if self.minor:
            return None
        return Change.MAJOR


def choose_version(before: Version, change: Change, why: str, wanted: Version | None) -> Version:
    """Return the version after another: the wanted one, or the next that fits the change.

    Raises:
        UsageError: the wanted version does not state this change, whose first difference is `why`.
    """
    fitting = before.after(change)
    version = wanted or fitting
    if version.says(before) is change:
        return version
    reason = f"since {before.tag}: {change.about}"
    if why:
        reason += f" ({why})"
    if version == before:
        reason = f"is published with other content, and a tag is never moved; {reason}"
        reason = f"{version.tag} {reason}"
    elif version < before:
        reason = f"{before.tag} is published already; {reason}"
    remedy = f"there is nothing to release after {before}"
    if change:
        remedy = f"this is {fitting}"
    raise UsageError(f"version {version}: {reason}; {remedy}")


def change(
    before: Manifest, after: Manifest, digest_of_first: Callable[[ConfigInfo, int], str]
) -> tuple[Change, str]:
    """Return the change between two manifests of one version number, and its first difference.

    `after` has all configs of `before`. `digest_of_first` returns the digest of so many rows of one
    of its configs, its first ones: a config to whose rows others are added keeps those that it had.
    """
    added = [name for name in after.configs if name not in before.configs]
    for name, info in before.configs.items():
        now = after.configs[name]
        if now.rows > info.rows and digest_of_first(now, info.rows) == info.digest:
            added.append(f"{name} ({info.rows} rows, now {now.rows})")
        elif (now.digest, now.rows) != (info.digest, info.rows):
            return Change.MAJOR, f"other rows in {name}"
    if added:
        return Change.MINOR, f"new: {', '.join(added)}"
    return _changed_bytes(before, after)


def _changed_bytes(before: Manifest, after: Manifest) -> tuple[Change, str]:
    """Return the change between two manifests of the same rows, and its first difference."""
    for name, info in before.configs.items():
        if after.configs[name] != info:
            return Change.PATCH, f"other bytes of {name}"
    for file, entry in after.files.items():
        if before.files.get(file) != entry:
            return Change.PATCH, f"other {file}"
    if after != before:
        return Change.PATCH, "other facts in the manifest"
    return Change.NONE, ""
