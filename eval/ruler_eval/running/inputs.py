"""The inputs of a run: rows, model and tokenizer, opened and checked; no weights are loaded.

Whether every prompt fits the context window is settled here, before an engine loads, and never by
truncation.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from ruler_data.dataset import no_folder
from ruler_data.errors import RulerError, UsageError
from ruler_data.index import Index, Sibling, releases_of
from ruler_data.manifest import IMPORTED
from ruler_data.names import config_name, is_repo, parse_config, quote
from ruler_data.procedures import Procedure, find_procedure
from ruler_data.row import Row
from ruler_data.terminal import warn
from ruler_data.tokenizers import PromptTokenizer, load_tokenizer
from ruler_data.tokenizers.protocol import WORTHWHILE, Ids
from ruler_data.tokenizers.registry import find_by_fingerprint
from ruler_eval.running.config import EvalConfig
from ruler_eval.running.data import Dataset, open_dataset
from ruler_eval.running.models import Model, open_model
from ruler_eval.running.prompts import PromptFormat

#: Tokens by which a prompt may be longer than its frozen length where the protocol is not
#: `completion`: tokens merge differently where the parts meet, and a template may add an empty
#: block of reasoning.
SLACK = 16
#: Rows of a config to count where another tokenizer counted the frozen lengths.
PROBES = 8
#: By how much the others may be longer: rows of a config are fitted to one length, so their counts
#: in any tokenizer are close together.
MARGIN = 1.05
#: Bytes of each prompt that a fast counter is tested on.
PROBE_LENGTH = 8192


@dataclass(frozen=True)
class Inputs:
    """What requests are made from."""

    config: EvalConfig
    data: Dataset
    model: Model
    tokenizer: PromptTokenizer

    @property
    def prompts(self) -> PromptFormat:
        """How rows are formatted."""
        return self.config.prompts

    @property
    def counts_alike(self) -> bool:
        """Whether the data's lengths were counted with this very tokenizer."""
        return self.tokenizer.info.counts_like(self.data.manifest.tokenizer)

    def tokenizer_difference(self) -> str | None:
        """Return that another tokenizer counted the data's lengths, and what to do; None if not."""
        if self.counts_alike:
            return None
        info = self.tokenizer.info
        of_data = self.data.manifest.tokenizer
        config = next(iter(self.data.rows))
        row = next(self.data.read(config))
        length = len(self.ids(row)) + row.max_new_tokens
        return (
            f"{info.name} ({info.fingerprint[:16]}) is not that of the data, {of_data.name} "
            f"({of_data.fingerprint[:16]}): {config}/0 has {length} tokens, the data says "
            f"{row.length}; use rows for this tokenizer (`ruler-data find`, or `ruler-data build "
            "--tokenizer`), or name it with --tokenizer if you want these rows all the same"
        )

    def ids(self, row: Row) -> Ids:
        """Return the token ids of a row's prompt."""
        return self.prompts.ids(self.tokenizer, row)

    def room(self, row: Row) -> int:
        """Return the tokens that the answer to a row may take."""
        return row.max_new_tokens + self.prompts.extra_tokens

    def length_errors(self, row: Row, ids: Ids, window: int | None) -> dict[str, str]:
        """Return what is wrong with the length of a row's prompt, and what to do; by name."""
        prompts = self.prompts
        errors = dict[str, str]()
        length = len(ids) + row.max_new_tokens
        need = len(ids) + self.room(row)
        exact = prompts.protocol.name == "completion" and not prompts.no_context
        if exact and self.counts_alike and length != row.length:
            lengths = f"prompt and answer are {length} tokens, the data says {row.length}"
            errors["length"] = f"{lengths}, counted with the same tokenizer; verify the data"
        if window is not None and need > window:
            lengths = f"prompt and answer need {need} tokens, the model's window is {window}"
            remedy = "leave its length out with --lengths, or extend the window, e.g. with YaRN"
            if prompts.protocol.name == "thinking":
                room = "take rows with room for reasoning: the sibling of the data named …-r16k"
                build = f"`ruler-data build --reserve {prompts.extra_tokens}`"
                remedy = f"{room}, or {build}; or {remedy}"
            errors["window"] = f"{lengths}; {remedy} (docs/howto/report-a-number.md)"
        return errors

    def longest_requests(self) -> dict[str, int]:
        """Return an upper bound for each config on the tokens of a prompt with its answer.

        With the data's own tokenizer, `completion` needs exactly a row's frozen length.
        """
        if self.counts_alike:
            more = self.prompts.extra_tokens
            if self.prompts.protocol.name != "completion":
                more += SLACK
            configs = self.data.manifest.configs
            return {name: configs[name].length_max + more for name in self.data.rows}
        longest = {}
        for name in self.data.rows:
            probed = islice(self.data.read(name), PROBES)
            longest[name] = int(MARGIN * max(len(self.ids(row)) + self.room(row) for row in probed))
        return longest

    def refuse_over_window(self, longest: Mapping[str, int], window: int | None) -> None:
        """Refuse a prompt over the window; rows are counted only where the bound is over it."""
        for config, bound in longest.items():
            if window is None or bound <= window:
                continue
            for row in self.data.read(config):
                if reason := self.length_errors(row, self.ids(row), window).get("window"):
                    name = f"{config}/{row.index}"
                    raise UsageError(name, reason)

    def use_fast_counter(self) -> None:
        """Render with the fast counter where it gives the reference's ids, and the run is large.

        The parity check uses the beginning of one row of each task, at the shortest length: the
        reference takes half a second for a prompt of 131,072 tokens.
        """
        rows = self.data.rows
        if sum(parse_config(name)[1] * number for name, number in rows.items()) < WORTHWHILE:
            return
        longest_first = sorted(map(parse_config, rows), key=lambda config: -config[1])
        names = [config_name(*config) for config in dict(longest_first).items()]

        def probes() -> Iterator[tuple[str, str]]:
            for name in names:
                content, prefix = self.prompts.parts(next(self.data.read(name)))
                yield content.encode()[:PROBE_LENGTH].decode(errors="ignore"), prefix

        self.tokenizer.use("auto", probes)


def open_inputs(config: EvalConfig) -> Inputs:
    """Return the inputs that the options name; a mistyped name of data is refused first."""
    if not config.model and config.engine != "python":
        raise UsageError(
            f"--model is missing: engine {config.engine} needs a folder, a Hub id or a name"
        )
    where = str(config.data)
    index = None
    if config.revision is None and not Path(where).is_dir() and is_repo(where):
        index = _read_index(where)
    else:
        data = open_dataset(where, config.revision).choose(*config.selection)
    model = open_model(config)
    tokenizer = _tokenizer_of(config, model)
    if index is not None:
        release = release_for(index, config, model, tokenizer)
        label = f"{release.repo} {release.tag}, commit {release.commit}"
        warn(f"{where}: rows for the tokenizer of {model.name}: {label}")
        data = open_dataset(release.repo, release.commit).choose(*config.selection)
    if config.procedure is not None:
        _refuse_other_rows(find_procedure(config.procedure), data)
    data.fetch()
    if tokenizer is None:
        tokenizer = _tokenizer_of_data(config, data, model)
    if config.settings.get("api") != "chat":  # else the server renders
        config.prompts.refuse(tokenizer)
    return Inputs(config, data, model, tokenizer)


def _tokenizer_of(config: EvalConfig, model: Model) -> PromptTokenizer | None:
    """Return the tokenizer that an option names, else the model's; None if that is not known."""
    if config.tokenizer is not None:
        return load_tokenizer(str(config.tokenizer))
    if model.folder is not None:
        return model.tokenizer()
    if config.engine == "openai":
        with suppress(UsageError):  # a server's name for its model may be any
            return model.tokenizer()
    return None


def _tokenizer_of_data(config: EvalConfig, data: Dataset, model: Model) -> PromptTokenizer:
    """Return the tokenizer that counted the rows."""
    spec = find_by_fingerprint(data.manifest.tokenizer)
    if spec is None:
        raise UsageError(
            f"tokenizer {data.manifest.tokenizer.name} is not available, and the model's own is "
            "not known here; give its folder or Hub id with --tokenizer"
        )
    tokenizer = load_tokenizer(spec)
    if config.engine == "openai":
        warn(
            f"rendered with {tokenizer.info.name} (the data's): the tokenizer of {model.name} "
            "is not known here; give --tokenizer"
        )
    return tokenizer


def _refuse_other_rows(procedure: Procedure, data: Dataset) -> None:
    """Refuse rows that the procedure was not measured on; imported ones are the user's to know."""
    manifest = data.manifest
    if manifest.edition == IMPORTED:
        return
    rows = {
        "edition": manifest.edition,
        "suite": manifest.suite,
        "template": manifest.chat_template or "base",
        "reserve": manifest.tokenizer.extra_reserve,
    }
    for name, value in rows.items():
        required = getattr(procedure, name)
        if required is not None and value != required:
            problem = f"rows of {name} {required}, and the data have {value}"
            build = f"build them with `ruler-data build --procedure {procedure.name}`"
            raise UsageError(f"--procedure {procedure.name}", f"{problem}; {build}")


def _read_index(where: str) -> Index:
    try:
        return releases_of(where)
    except RulerError as error:
        reason = f"{no_folder(where)}; and as a Hub repo: {error}"
        raise UsageError(f"data {quote(where)}", reason) from error


def release_for(
    index: Index, config: EvalConfig, model: Model, tokenizer: PromptTokenizer | None
) -> Sibling:
    """Return the release with the rows for a model; in `thinking`, with room if there is one."""
    room = config.prompts.extra_tokens if config.protocol == "thinking" else 0
    release = None
    for reserve in (room, 0):
        if tokenizer is not None:
            release = release or index.of_tokenizer(tokenizer.info, reserve)
        release = release or index.of_model(model.source, reserve)
    if release is None:
        tokenizers = ", ".join(sibling.tokenizer for sibling in index.siblings)
        build = f"`ruler-data build --tokenizer {config.tokenizer or model.source}`"
        remedy = f"build them with {build}, or give a revision to use rows that are counted in "
        why = f"none for the tokenizer of {model.name}; {remedy}another tokenizer"
        if tokenizer is None:
            why = f"the tokenizer of {model.name} is not known here; give --tokenizer"
        raise UsageError(str(config.data), f"has rows for {tokenizers}, and {why}")
    return release
