"""The inputs of a run: rows, model and tokenizer, opened and checked; no weights are loaded.

Whether every prompt fits the context window is settled here, before an engine loads, and never by
truncation.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from ruler_data.errors import RulerError, UsageError
from ruler_data.index import FILENAME, Index, read_index
from ruler_data.names import config_name, counted, is_repo, parse_config, quote
from ruler_data.terminal import warn
from ruler_data.tokenizers import PromptTokenizer, load_tokenizer
from ruler_data.tokenizers.counters import WORTHWHILE, Probes
from ruler_data.tokenizers.registry import find_by_fingerprint
from ruler_eval.data import Dataset, open_dataset
from ruler_eval.eval_config import EvalConfig, parse_names
from ruler_eval.models import Model, open_model, overridden
from ruler_eval.prompts import PromptFormat

#: Engines that need no files of the model.
SERVED = {"openai", "oracle", "python"}
#: Tokens by which a prompt may be longer than its frozen length where the protocol is not
#: `completion`: tokens merge differently where the parts meet, and a template may add an empty
#: block of reasoning.
SLACK = 16
#: Where another tokenizer counted the frozen lengths: rows of a config to count, and by how much
#: the others may be longer. Rows of a config are fitted to one length, so their counts in any
#: tokenizer are close together.
PROBES, MARGIN = 8, 1.05


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

    def longest_requests(self) -> dict[str, int]:
        """Return an upper bound for each config on the tokens of a prompt with its answer.

        With the data's own tokenizer, `completion` needs exactly a row's frozen length.
        """
        configs = self.data.rows
        if self.counts_alike:
            slack = 0 if self.prompts.protocol.name == "completion" else SLACK
            more = self.prompts.extra_tokens + slack
            return {name: self.data.manifest.configs[name].length_max + more for name in configs}
        probed = {name: islice(self._request_lengths(name), PROBES) for name in configs}
        return {name: int(max(lengths) * MARGIN) for name, lengths in probed.items()}

    def refuse_over_window(self, longest: Mapping[str, int], window: int | None) -> None:
        """Refuse a prompt over the window; rows are counted only where the bound is over it."""
        for config, bound in longest.items():
            if window is None or bound <= window:
                continue
            for index, length in enumerate(self._request_lengths(config)):
                if length > window:
                    msg = (
                        f"{config}/{index}: prompt and answer need {length} tokens, the model's "
                        f"window is {window}; leave {config} out with --configs, or extend the "
                        "window, e.g. with YaRN (docs/eval.md)"
                    )
                    raise UsageError(msg)

    def _request_lengths(self, config: str) -> Iterator[int]:
        """Yield the tokens of each row's prompt with its answer, by rendering the prompt."""
        for row in self.data.read(config):
            prompt = self.prompts.ids(self.tokenizer, row)
            yield len(prompt) + self.prompts.max_tokens(row.max_new_tokens)

    def use_fast_counter(self) -> None:
        """Render with the fast counter where it pays and gives the reference's ids.

        The parity check uses one row of each task, at the shortest length. Loading the fast counter
        takes longer than a small run saves.
        """
        rows, infos = self.data.rows, self.data.manifest.configs
        if sum(parse_config(name)[1] * number for name, number in rows.items()) < WORTHWHILE:
            return
        longest_first = sorted(map(parse_config, rows), key=lambda config: -config[1])
        names = [config_name(*config) for config in dict(longest_first).items()]
        digests = sorted(infos[name].digest for name in names)
        key = f"{self.prompts.protocol.name} {self.prompts.no_context} {digests}"

        def probes() -> list[tuple[str, str]]:
            return [self.prompts.parts(next(self.data.read(name))) for name in names]

        self.tokenizer.use("auto", Probes(probes, key))


def open_inputs(config: EvalConfig) -> Inputs:
    """Return the inputs that the options name; a mistyped name of data is refused first."""
    found = _find_data(config)
    model = _open_model(config)
    tokenizer = None
    if config.tokenizer is not None:
        tokenizer = load_tokenizer(str(config.tokenizer))
    elif model.folder is not None:
        tokenizer = model.tokenizer()
    data = found if isinstance(found, Dataset) else _of_index(found, config, model, tokenizer)
    data, asked = data.fetch(), config.first_rows
    for name, rows in data.rows.items():
        wanted = asked.get(parse_config(name)[1]) if isinstance(asked, dict) else asked
        if wanted and wanted > rows:
            warn(f"{name} has only {counted(rows, 'row')}, not {wanted}")
            break
    if tokenizer is None:
        spec = find_by_fingerprint(data.manifest.tokenizer)
        if spec is None:
            msg = (
                f"tokenizer {data.manifest.tokenizer.name} is not available, and the model's own "
                "is not known here; give its folder or Hub id with --tokenizer"
            )
            raise UsageError(msg)
        tokenizer = load_tokenizer(spec)
    config.prompts.variables(tokenizer)  # refuses a model without a template
    return Inputs(config, data, model, tokenizer)


def _find_data(config: EvalConfig) -> Dataset | Index:
    """Return the chosen rows; of a repo without a revision its index, of rows by model."""
    where = str(config.data)
    if config.revision is not None or Path(where).is_dir() or not is_repo(where):
        return _chosen(config, where, config.revision)
    try:
        index, reason = read_index(where), f"that repo has no {FILENAME}"
    except RulerError as error:
        index, reason = None, str(error)
    if index is None:
        data, found = f"data {quote(where)}", "since no index of rows by model was found there"
        remedy = f"to load the Hub repo of that name, give a revision, e.g. v1.0.0, {found}"
        raise UsageError(data, f"no such folder; {remedy} ({reason})")
    return index


def _of_index(
    index: Index, config: EvalConfig, model: Model, tokenizer: PromptTokenizer | None
) -> Dataset:
    """Return the chosen rows of the release for the model."""
    where, sibling = str(config.data), index.of_model(model.source)
    if tokenizer is not None:
        sibling = index.of_tokenizer(tokenizer.info) or sibling
    if sibling is None:
        msg = (
            f"{where}: has rows for {', '.join(one.tokenizer for one in index.siblings)}, and none "
            f"for the tokenizer of {model.name}; build them with `ruler-data build --tokenizer "
            f"{config.tokenizer or model.source}`, or give a revision to use rows that are counted "
            "in another tokenizer"
        )
        raise UsageError(msg)
    release = f"{sibling.repo} {sibling.tag}, commit {sibling.commit}"
    warn(f"{where}: rows for the tokenizer of {model.name}: {release}")
    return _chosen(config, sibling.repo, sibling.commit)


def _chosen(config: EvalConfig, where: str, revision: str | None) -> Dataset:
    names, tasks = parse_names(config.configs), parse_names(config.tasks)
    return open_dataset(where, revision).choose(names, config.first_rows, tasks)


def _open_model(config: EvalConfig) -> Model:
    """Return the model, with the options that change its config or its window."""
    model = open_model(
        str(config.model or "python"),
        served=bool({config.engine, config.engine_options.get("engine")} & SERVED),
        name=config.model_name,
        revision=config.model_revision,
    )
    overrides = config.engine_options.get("hf_overrides", {})
    if not isinstance(overrides, dict):
        option = f"--option hf_overrides={quote(str(overrides))}"
        raise UsageError(option, "is not a JSON object")
    limit = config.engine_options.get("max_model_len")
    limit = limit if isinstance(limit, int) else None
    return replace(model, config=overridden(model.config, overrides), limit=limit)
