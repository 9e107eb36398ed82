"""The manifest: what a built folder holds, and what it was built from.

It is written last, so a folder that has one is complete. It names every file with its sha256,
every config with the digest of its rows, and its own digest, so an edit is detected. It holds no
time, path or user name, so the same build gives the same bytes.
"""

import hashlib
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import TypeAdapter

from ruler_data.errors import RulerError, UsageError
from ruler_data.files import parse_json, read_text
from ruler_data.names import config_file, near, parse_config, quote
from ruler_data.tasks import TASKS, Task

#: Where files of a known name are from that were not compared with the pinned ones.
LOCAL_COPY = "a local folder"


@dataclass(frozen=True)
class TokenizerInfo:
    """The tokenizer that lengths are counted in.

    Attributes:
        name: registry name, or name of the folder.
        hub_id: id on the Hub; None for a local folder.
        revision: commit on the Hub, or version of the package that includes it.
        files: sha256 of each file that determines tokens or the chat template.
        template_reserve: tokens that the chat template adds around one user turn.
        extra_reserve: more tokens kept free (`--reserve`), e.g. for reasoning.
        engine: library and version that counted the finished prompts of the newest configs.
        identity: sha256 of what decides on the tokens of a prompt, however the files are written
            (`ruler_data.tokenizers.hf`); empty for other formats.
        mirror: repo and revision that `files` came from where the Hub gates `hub_id`, or
            `LOCAL_COPY`.
    """

    name: str
    hub_id: str | None
    revision: str | None
    files: dict[str, str]
    template_reserve: int
    extra_reserve: int
    engine: str
    identity: str = ""
    mirror: str = ""

    @property
    def fingerprint(self) -> str:
        """Return one sha256 for all files; tokenizers with the same fingerprint count alike."""
        return hashlib.sha256(json.dumps(self.files, sort_keys=True).encode()).hexdigest()

    @property
    def is_pinned(self) -> bool:
        """Whether the files are from the Hub or a package, and not of a folder."""
        return bool(self.revision) and self.mirror != LOCAL_COPY

    def counts_like(self, tokenizer: "TokenizerInfo") -> bool:
        """Whether two tokenizers give the same tokens, from the same files or from others."""
        return self.files == tokenizer.files or self.identity == tokenizer.identity != ""


@dataclass(frozen=True)
class SourceInfo:
    """A source: a text that rows are made of.

    Attributes:
        name: essays, squad, hotpotqa, words, associations, domain_NAME, or that of a user's file.
        title: what it is, in words.
        kind: `real`; `sample` for the small corpus in the package; `own` for the user's texts.
        url: where it comes from.
        sha256: of the bytes used (several files: of their names and hashes).
        licence: SPDX id where there is one.
        attribution: author to credit.
        pinned: whether the sha256 is the one that this version of the package expects.
        detail: what else determines the text, e.g. the sentence splitter.
    """

    name: str
    title: str
    kind: str
    url: str
    sha256: str
    licence: str
    attribution: str
    pinned: bool
    detail: str


@dataclass(frozen=True)
class Floor:
    """Scores of strategies that ignore the question or the context, by the task's headline score.

    Attributes:
        score: mean of the best strategy that ignores the key or the question, lists every
            candidate, or gives one constant answer, in [0, 1].
        strategy: its name, e.g. `first`: the first candidates, as many as there are gold answers;
            `any` if all score 0.
        listing: mean score of naming every candidate, as far as the answer's budget goes.
        rows: on which it was measured.
        blind: mean score of the best answer written without the context: a constant, the
            question's echo, nothing.
        blind_strategy: its name, or the constant; `any` if all score 0.
    """

    score: float
    strategy: str
    listing: float
    rows: int
    blind: float
    blind_strategy: str


@dataclass(frozen=True)
class ConfigInfo:
    """One config: its file, its rows and the result of their audit.

    Attributes:
        file: path within the folder.
        bytes: size of the file.
        sha256: of the file.
        rows: number of rows.
        digest: content digest of the rows (`ruler_data.row`).
        length_min: shortest row, in tokens, room for the answer included; likewise
            `length_mean` and `length_max`.
        fill_min: shortest row's share of the config's length; likewise `fill_mean`.
        question_digest: of the rows' questions, the same for every tokenizer and length
            (`ruler_data.row`).
        audit: result of the audit at build, check by check.
        exhausted: what ran out and was repeated, in words; empty if nothing was.
        floor: score of strategies that ignore the question; None for imported rows.
    """

    file: str
    bytes: int
    sha256: str
    rows: int
    digest: str
    length_min: int
    length_mean: float
    length_max: int
    fill_min: float
    fill_mean: float
    question_digest: str
    audit: dict[str, str] = field(default_factory=dict)
    exhausted: tuple[str, ...] = ()
    floor: Floor | None = None


@dataclass(frozen=True)
class FileInfo:
    """A file of the folder that holds no rows."""

    bytes: int
    sha256: str


@cache
def reader_of(kind: type) -> "TypeAdapter[Any]":
    """Return the reader of a type's JSON; making it takes longer than reading."""
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


#: Names of files that hold no rows.
FILE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*(\.[a-z]+)?")

#: Version of the manifest's own layout.
FORMAT = 1
FILENAME = "manifest.json"
#: Folder of a build that is not finished, inside its folder.
STATE = ".build"
#: Largest manifest that is read, in bytes; one of 480 configs has 400,000.
LARGEST = 16_000_000

#: The edition of rows that this project draws itself; other editions are upstream's own rows.
BALANCED = "balanced"
#: The edition of rows that somebody else made (`ruler-data import`).
IMPORTED = "imported"

#: Seeds of at least this value are private: drawn for one build (`build --fresh`).
PRIVATE_SEEDS = 2**63


@dataclass(frozen=True, repr=False)
class Manifest:
    """What proves a folder: versions, tokenizer, sources, configs and files.

    Attributes:
        data_version: of this dataset; for a release, that of its tag.
        package_version: of the package that built or released it.
        seed: of all draws; private if it is at least `PRIVATE_SEEDS`.
        suite: that the configs belong to.
        tokenizer: that lengths are counted in.
        sources: that rows are made of.
        configs: by name, in the order of the table of tasks, then by length.
        files: that hold no rows, by path.
        pyarrow: version that wrote the newest configs.
        tasks: of the suite, without the thirteen, so that a reader needs no suite.
        edition: `balanced`, `imported`, or the edition of upstream whose rows these are.
        chat_template: that the prompts contain, by upstream's name or `another`; empty for none.
        siblings: repos of the same release for other tokenizers, with the tokenizers' names.
        format: of the manifest itself.
    """

    data_version: str
    package_version: str
    seed: int
    suite: str
    tokenizer: TokenizerInfo
    sources: tuple[SourceInfo, ...]
    configs: dict[str, ConfigInfo]
    files: dict[str, FileInfo]
    pyarrow: str
    tasks: dict[str, Task] = field(default_factory=dict)
    edition: str = BALANCED
    chat_template: str = ""
    siblings: dict[str, str] = field(default_factory=dict)
    format: int = FORMAT

    def __repr__(self) -> str:
        about = f"{self.data_version}, {self.edition}, suite {self.suite}"
        inputs = f"seed {shown_seed(self.seed)}, tokenizer {self.tokenizer.name}"
        return f"<Manifest {about}, {inputs}: {', '.join(self.configs)}>"

    @property
    def is_upstream(self) -> bool:
        """Whether the rows are those of an edition of upstream."""
        return self.edition not in (BALANCED, IMPORTED)

    @property
    def is_imported(self) -> bool:
        """Whether somebody else made the rows (`ruler-data import`)."""
        return self.edition == IMPORTED

    @property
    def table(self) -> dict[str, Task]:
        """All tasks that configs may have: the thirteen, and those of the suite."""
        return {**self.tasks, **TASKS}

    @property
    def is_private(self) -> bool:
        """Whether the rows are drawn from a private seed, so that no model was trained on them."""
        return self.seed >= PRIVATE_SEEDS

    @property
    def has_own_texts(self) -> bool:
        """Whether any row holds texts of the user who built it, with an unknown licence."""
        return any(source.kind == "own" for source in self.sources)

    @property
    def has_unpinned(self) -> bool:
        """Whether any row is made of a copy of a source that is not the pinned one."""
        return any(source.kind == "real" and not source.pinned for source in self.sources)

    @property
    def is_sample(self) -> bool:
        """Whether any row is made of the bundled sample corpus instead of the real source."""
        return any(source.kind == "sample" for source in self.sources)

    @property
    def protocol(self) -> str:
        """The protocol of `ruler-eval` that these rows are made for."""
        if self.chat_template:
            return "base"
        if self.tokenizer.extra_reserve:
            return "thinking"
        return "completion"

    def select(
        self, tasks: Collection[str] | None = None, lengths: Collection[int] | None = None
    ) -> tuple[str, ...]:
        """Return the names of the configs with these tasks and lengths (tokens); none for all.

        Raises:
            UsageError: no config has one of the tasks, or one of the lengths, or both.
        """
        if not tasks and not lengths:
            return tuple(self.configs)
        places = {name: parse_config(name) for name in self.configs}
        all_tasks = {task for task, _ in places.values()}
        all_lengths = {length for _, length in places.values()}
        _check_choices("task", tasks, all_tasks)
        _check_choices("length", lengths, all_lengths)
        wanted_tasks = tasks or all_tasks
        wanted_lengths = lengths or all_lengths
        names = [
            name
            for name, (task, length) in places.items()
            if task in wanted_tasks and length in wanted_lengths
        ]
        if not names:
            raise UsageError("no config has one of these tasks at one of these lengths")
        return tuple(names)

    def check(self, where: str) -> None:
        """Refuse names with which a manifest from elsewhere could reach other files.

        Raises:
            RulerError: a config has an unknown task, or a file is not where it must be.
        """
        for name, info in self.configs.items():
            try:
                task, _ = parse_config(name)
            except UsageError as error:
                raise RulerError(where, str(error)) from error
            if task not in self.table:
                raise RulerError(where, f"config {quote(name)} has no known task")
            if info.file != config_file(name):
                raise RulerError(where, f"config {name} names the file {quote(info.file)}")
            if info.rows < 1:
                raise RulerError(where, f"config {name} has no rows")
        for name in self.files:
            if not FILE_NAME.fullmatch(name):
                problem = f"names the file {quote(name)}, which is not of this dataset"
                raise RulerError(where, problem)

    def with_files(self, files: Mapping[str, bytes]) -> "Manifest":
        """Return the manifest of a folder with these files besides its configs."""
        infos = {n: FileInfo(len(b), hashlib.sha256(b).hexdigest()) for n, b in files.items()}
        return replace(self, files=infos)

    def to_json(self) -> str:
        """Return the manifest as JSON; `digest` is the digest of everything else."""
        values = asdict(self)
        body = {field.name: values[field.name] for field in fields(Manifest)}
        return layout({"digest": _self_digest(body), **body})

    @classmethod
    def from_json(cls, text: str, where: str = FILENAME) -> "Manifest":
        """Read a manifest; fields of later versions, which are not known here, are ignored.

        Raises:
            UsageError: it has another format.
            RulerError: it is not a manifest, or it was edited.
        """
        from pydantic import ValidationError

        try:
            body = parse_json(text)
            if body["format"] != FORMAT:
                kind, writer = (quote(str(body.get(key))) for key in ("format", "package_version"))
                written = f"has the manifest format {kind} of version {writer} of ruler-data"
                remedy = f"and this version reads {FORMAT}: pip install -U ruler-data"
                raise UsageError(where, f"{written}, {remedy}")
            manifest: Manifest = reader_of(Manifest).validate_json(text, strict=True)
            is_laid_out = text == layout(body)  # otherwise it may hold a key twice
            digest = body.pop("digest")
            computed = _self_digest(body)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            problem = f"{first['msg']}; build it again"
            raise RulerError(where, "not a manifest", place, problem) from error
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            cause = f"not a manifest ({type(error).__name__}: {error}); build it again"
            raise RulerError(where, cause) from error
        problem = "edited after it was written"
        if digest != computed:
            raise RulerError(where, problem, f"it says {digest}, its content is {computed}")
        if not is_laid_out:
            raise RulerError(where, problem, "not the layout of a manifest")
        return manifest


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest of a folder.

    Raises:
        UsageError: there is no such folder, or no finished build in it.
        RulerError: the manifest is damaged or cannot be read.
    """
    where = f"{quote(str(folder), 200)}: holds no finished build"
    if not folder.is_dir():
        raise UsageError(where, "there is no such folder")
    if not (folder / FILENAME).exists():
        if (folder / "run.json").exists():
            raise UsageError(where, "it is a run; `ruler-eval status` shows it")
        problem = f"it has no {FILENAME}"
        if (folder / STATE).exists() or any(folder.glob("*/*.parquet")):
            remedy = "run `ruler-data build` with the same options to finish it"
            raise UsageError(where, problem, remedy)
        raise UsageError(where, problem)
    return read_manifest_file(folder / FILENAME, FILENAME)


def read_manifest_file(path: Path, where: str) -> Manifest:
    """Return the manifest in a file; `where` names it in errors.

    Raises:
        RulerError: it is damaged or cannot be read.
    """
    try:
        text = read_text(path, LARGEST, where)
    except (OSError, UnicodeDecodeError) as error:
        raise RulerError(where, f"cannot be read: {error}") from error
    return Manifest.from_json(text, where)


def _check_choices(kind: str, values: Collection[Any] | None, choices: Collection[Any]) -> None:
    for value in values or ():
        if value not in choices:
            names = [str(choice) for choice in sorted(choices)]
            hint = near(str(value), names)
            problem = f"is not in the manifest{hint}; it has {', '.join(names)}"
            raise UsageError(f"{kind} {quote(str(value))} {problem}")


def shown_seed(seed: int) -> str:
    """Return a seed for display; a private one is not revealed.

    >>> shown_seed(42), shown_seed(2**63)
    ('42', 'a private one')
    """
    if seed >= PRIVATE_SEEDS:
        return "a private one"
    return str(seed)


def layout(body: Mapping[str, Any]) -> str:
    """Return a manifest's values as its file has them."""
    return json.dumps(body, indent=1, ensure_ascii=False) + "\n"


def _self_digest(body: Mapping[str, Any]) -> str:
    text = json.dumps(body, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()
