"""Find the rows for a model: `index.json`, and the tokenizer that a model has.

    result = find("org/model", "org/ruler")
    result.release.repo, result.release.tag

A dataset repo holds one tokenizer. The first repo of an owner, `org/ruler`, also lists its siblings
in `index.json`, each with the fingerprint of its tokenizer and the tokens that its rows keep free.
A repo without an index lists its own newest release.
"""

import json
import re
import shlex
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ruler_data.errors import RulerError, UsageError
from ruler_data.files import parse_json, read_bytes
from ruler_data.manifest import Manifest, TokenizerInfo
from ruler_data.names import (
    check_name,
    check_repo,
    check_revision,
    parse_config,
    quote,
    released_version,
)

FILENAME = "index.json"
#: Largest index that is read, in bytes.
LARGEST = 4_000_000
#: Layout of the file; it rises only when an old reader would misread.
FORMAT = 1


@dataclass(frozen=True)
class Sibling:
    """A published dataset for one tokenizer.

    Attributes:
        repo: id on the Hub.
        tag: of its newest release.
        commit: that the tag is on.
        tokenizer: its name.
        fingerprint: of the tokenizer: its identity, or where it has none the sha256 of its files.
        models: Hub ids of models that are known to have it.
        configs: names of the release's configs.
        reserve: tokens that its rows keep free beside the answer, for reasoning.
    """

    repo: str
    tag: str
    commit: str
    tokenizer: str
    fingerprint: str
    models: tuple[str, ...] = ()
    configs: tuple[str, ...] = ()
    reserve: int = 0

    @classmethod
    def of(cls, repo: str, tag: str, commit: str, manifest: Manifest) -> "Sibling":
        """Return the entry of a release."""
        from ruler_data.tokenizers.registry import REGISTRY

        info = manifest.tokenizer
        entry = REGISTRY.get(info.name)
        models: tuple[str, ...] = ()
        if info.is_pinned and entry:
            models = tuple(entry.ids)
        elif info.is_pinned and info.hub_id:
            models = (info.hub_id,)
        return cls(
            repo=repo,
            tag=tag,
            commit=commit,
            tokenizer=info.name,
            fingerprint=info.identity or info.fingerprint,
            models=models,
            configs=tuple(manifest.configs),
            reserve=info.extra_reserve,
        )

    def check(self) -> None:
        """Refuse names with which an index from elsewhere could reach other files.

        Raises:
            UsageError: a name is not one of its kind.
            ValueError: commit, fingerprint or reserve is wrong.
        """
        check_repo(self.repo)
        check_revision(self.tag)
        check_name("tokenizer", self.tokenizer)
        hashes = f"{self.commit} {self.fingerprint}"
        if not re.fullmatch("[0-9a-f]{40} [0-9a-f]{64}", hashes) or self.reserve < 0:
            raise ValueError(f"{self.repo}: commit, fingerprint or reserve is wrong")
        for config in self.configs:
            parse_config(config)


@dataclass(frozen=True)
class Index:
    """The datasets that `index.json` lists."""

    siblings: tuple[Sibling, ...] = ()

    def of_tokenizer(self, info: TokenizerInfo, reserve: int = 0) -> Sibling | None:
        """Return the release for a tokenizer, or None; `reserve` as in `find`."""
        fingerprints = {info.identity, info.fingerprint}
        return _fitting(
            reserve, (sibling for sibling in self.siblings if sibling.fingerprint in fingerprints)
        )

    def of_model(self, model: str, reserve: int = 0) -> Sibling | None:
        """Return the release that lists a model's Hub id, or is of a tokenizer of this name.

        None if there is none; `reserve` as in `find`.
        """
        named = (
            sibling
            for sibling in self.siblings
            if model in sibling.models or model == sibling.tokenizer
        )
        return _fitting(reserve, named)

    def with_siblings(self, siblings: Iterable[Sibling]) -> "Index":
        """Return the index with siblings added; each replaces the earlier one of its repo."""
        by_repo = {sibling.repo: sibling for sibling in (*self.siblings, *siblings)}
        return Index(tuple(by_repo[repo] for repo in sorted(by_repo)))

    def to_json(self) -> str:
        """Return the text of `index.json`."""
        body = {"format": FORMAT, "siblings": [asdict(sibling) for sibling in self.siblings]}
        return json.dumps(body, indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, data: bytes, where: str) -> "Index":
        """Read an index; keys that this version does not know are ignored.

        Raises:
            RulerError: it is not an index of this format.
        """
        from pydantic import TypeAdapter

        try:
            body = parse_json(data)
            if body["format"] != FORMAT:
                problem = f"index format {body['format']!r}, this version reads {FORMAT}"
                raise RulerError(where, problem)
            siblings = TypeAdapter(tuple[Sibling, ...]).validate_python(body["siblings"])
            for sibling in siblings:
                sibling.check()
        except (ValueError, KeyError, TypeError, RecursionError, UsageError) as error:
            reason = f"{type(error).__name__}: {quote(str(error).splitlines()[0], 120)}"
            raise RulerError(where, f"not an index of ruler-data ({reason})") from error
        return cls(siblings)


def _fitting(reserve: int, siblings: Iterable[Sibling]) -> Sibling | None:
    """Return the release with the smallest reserve >= `reserve`; for 0, the one without any."""
    fitting = (
        sibling
        for sibling in siblings
        if sibling.reserve >= reserve and bool(sibling.reserve) == bool(reserve)
    )
    return min(fitting, key=lambda sibling: sibling.reserve, default=None)


def releases_of(repo: str, revision: str = "main") -> Index:
    """Return what a repo's index lists, or its own newest release if it has no index.

    Args:
        repo: id of a dataset repo.
        revision: branch or commit whose index is read.

    Raises:
        UsageError: the repo's id is not valid.
        RulerError: the repo is not available, or holds neither an index nor a release.
    """
    from ruler_data.hub.download import open_release
    from ruler_data.hub.repo import tags

    if (index := read_index(repo, revision)) is not None:
        return index
    by_number = dict[tuple[int, ...], str]()
    for tag in tags(repo):
        if version := released_version(tag):
            by_number[tuple(map(int, version.split(".")))] = tag
    if not by_number:
        remedy = "`ruler-data publish` makes releases"
        raise RulerError(repo, f"has no {FILENAME} and no release; {remedy}")
    release = open_release(repo, by_number[max(by_number)])
    return Index((Sibling.of(repo, release.revision, release.commit, release.manifest),))


def read_index(repo: str, revision: str = "main") -> Index | None:
    """Return the index of a dataset repo, or None if the repo has none.

    Raises:
        UsageError: the repo's id is not valid.
        RulerError: the repo is not available, or the index is damaged.
    """
    from ruler_data.hub.download import fetch_file

    where = f"{repo}: {FILENAME}"
    if (path := fetch_file(check_repo(repo), FILENAME, revision)) is None:
        return None
    try:
        return Index.from_json(read_bytes(path, LARGEST, where), where)
    except RulerError:  # the cache would keep a damaged download for ever
        path = fetch_file(repo, FILENAME, revision, again=True) or path
        return Index.from_json(read_bytes(path, LARGEST, where), where)


@dataclass(frozen=True)
class FindResult:
    """Where the rows for a model are, or how to build them.

    Attributes:
        model: as it was given.
        repo: that was looked in; None for no repo.
        tokenizer: of the model; None if it is not available and an index lists the model's id.
        release: that holds the rows; None if there is none.
        build: command that builds rows for it.
        note: what is known of the tokenizer of a model that an API serves.
    """

    model: str
    repo: str | None
    tokenizer: TokenizerInfo | None
    release: Sibling | None
    build: str
    note: str = ""

    @property
    def fingerprint(self) -> str | None:
        """By which an index knows the tokenizer."""
        if self.tokenizer is None:
            return None
        return self.tokenizer.identity or self.tokenizer.fingerprint

    def to_record(self) -> dict[str, Any]:
        """Return the release and its snippets."""
        names = ("model", "fingerprint", "load", "run", "build", "note")
        release = self.release and asdict(self.release)
        return {"release": release, **{name: getattr(self, name) for name in names}}

    def __str__(self) -> str:
        release = self.release
        fingerprint = self.fingerprint or "not available; the index lists the model"
        head = f"tokenizer of {self.model}: {fingerprint}"
        if self.note:
            head = f"{self.model}: {self.note}"
        if release:
            where = f"{release.repo} {release.tag}, commit {release.commit}"
            if release.reserve:
                where += f", {release.reserve:,} tokens kept free"
            return "\n".join([head, where, f"  {self.load}", f"  {self.run}"])
        none = "no repo to look in (--in org/ruler)"
        if self.repo:
            none = f"{self.repo}: no rows for it"
        return "\n".join([head, f"{none}; build them:", f"  {self.build}"])

    @property
    def load(self) -> str:
        """Python that loads the rows; empty if there is no release."""
        if (release := self.release) is None:
            return ""
        config = next(iter(release.configs), "vt_4096")
        return f'load_dataset("{release.repo}", "{config}", split="test", revision="{release.tag}")'

    @property
    def run(self) -> str:
        """Command that runs the model on the rows; empty if there is no release."""
        from ruler_data.tokenizers.registry import ALIASES, REGISTRY

        if (release := self.release) is None:
            return ""
        model = shlex.quote(self.model)
        if self.model in REGISTRY or self.model in ALIASES:
            model = "MODEL"
        command = f"ruler-eval run --data {release.repo} --revision {release.tag} --model {model}"
        if release.reserve:
            command += " --protocol thinking"
        elif self.note:
            command += " --protocol chat"
        if self.note:
            command += f" --option api=chat --tokenizer {release.tokenizer} --base-url ADDRESS"
        return f"{command} --out runs/{release.tokenizer}"


#: Whose rows a model without a public tokenizer takes.
API_ROWS = "gpt-4o"
#: Tokenizers of models that are served by an API alone, by their names: of the registry, or none,
#: and what is known of them.
_API_MODELS: tuple[tuple[str, str, str], ...] = (
    (
        r"(openai/)?(gpt-(4o|4\.[1-9]|[5-9])|chatgpt-4o|o[1-9](-|$))",
        "gpt-4o",
        "OpenAI's o200k_base, which tiktoken names for GPT-4o, GPT-4.1, o1 to o4 and GPT-5; for a "
        "newer model the API's own count of each prompt says whether it still holds",
    ),
    (
        r"(anthropic/)?claude-",
        "",
        "Anthropic publishes no tokenizer of Claude 3 and later: run the rows of another one, and "
        "read the lengths in the API's count of prompt tokens (docs/howto/api-model.md)",
    ),
    (
        r"(google/)?gemini-",
        "",
        "Google publishes no tokenizer of Gemini: run the rows of another one, and read the "
        "lengths in the API's count of prompt tokens (docs/howto/api-model.md)",
    ),
)


def _of_api(model: str) -> tuple[str, str] | None:
    """Return the tokenizer of an API's model and what is known of it; None for other names.

    >>> _of_api("gpt-5.5")[0], _of_api("claude-opus-5")[0], _of_api("gpt-oss-20b")
    ('gpt-4o', '', None)
    """
    names = ((name, note) for form, name, note in _API_MODELS if re.match(form, model))
    return next(names, None)


def find(model: str | Path, repo: str | None = None, *, reserve: int = 0) -> FindResult:
    """Return where the rows for a model's tokenizer are published, or how to build them.

    Args:
        model: folder, Hub id, or name of a tokenizer in the registry.
        repo: dataset repo whose `index.json` lists releases, e.g. `org/ruler`; None for no repo.
        reserve: tokens that the rows must keep free beside the answer, for the protocol `thinking`:
            of the releases with at least so many, the one with the fewest; 1 takes any. 0 for the
            plain rows.

    Raises:
        UsageError: the model's tokenizer is not available, and no release lists the model.
        RulerError: the repo is not available, or has no release.
    """
    from ruler_data.tokenizers.protocol import template_reserve
    from ruler_data.tokenizers.registry import known_name, load_tokenizer_of

    model = str(model)
    index = Index()
    if repo:
        index = releases_of(repo)
    served, note = _of_api(model) or (model, "")
    served = served or API_ROWS
    build = f"ruler-data build --tokenizer {shlex.quote(known_name(served) or served)}"
    if reserve:
        build += f" --reserve {reserve}"
    listed = index.of_model(model, reserve)
    try:
        tokenizer = load_tokenizer_of(served, allow_download=listed is None)
        info = replace(tokenizer.info, template_reserve=template_reserve(tokenizer))
    except UsageError:
        if listed is None and not note:
            raise
        return FindResult(model, repo, None, listed, build, note)
    release = index.of_tokenizer(info, reserve)
    if release is None and listed is not None:
        from ruler_data.terminal import warn

        release = listed

        warn(
            f"{release.repo} lists {model}, but its rows are counted in a tokenizer or with a chat "
            "template that is not the model's; `ruler-eval run --check` says by how many tokens"
        )
    return FindResult(model, repo, info, release, build, note)
