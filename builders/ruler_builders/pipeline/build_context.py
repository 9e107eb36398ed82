"""The build context: a tokenizer with its counter, and the sources counted in it."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from ruler_builders.pipeline.fit import Target, make_row
from ruler_builders.pipeline.plan import BuildPlan
from ruler_builders.pipeline.pool import silent
from ruler_builders.rows.tokenized_sources import TokenizedSources
from ruler_builders.sources import Library
from ruler_builders.upstream import UpstreamSources, edition_of
from ruler_data.errors import UsageError
from ruler_data.manifest import BALANCED, SourceInfo, TokenizerInfo
from ruler_data.row import utf8
from ruler_data.tasks import TASKS, Task
from ruler_data.tokenizers import PromptTokenizer, load_tokenizer
from ruler_data.tokenizers.counters import Text
from ruler_data.tokenizers.protocol import template_reserve

#: Tokens of a build from which loading a fast counter (half a second) saves more than it costs.
WORTHWHILE = 2**18
#: Bytes of each prompt that a fast counter is tested on.
PROBE_LENGTH = 8192
#: A user's turn, which a chat template must neither repeat nor rewrite nor cut. It is longer than
#: rows below 4,096 tokens, whose fill has no bound.
TURN = "HowLongIsThis?" * 5000
#: What a chat template must show as it stands in a user's turn.
SHOWN = {
    "digits": "0 1 23 456 789",
    "the case of letters": "One TWO three",
    "line feeds": "one\ntwo\n\nthree",
    "spaces": "one  two\tthree",
    "punctuation": "<a> & \"b\" 'c' {d} [e] $f `g` **h** #i \\j -> k: l, m!",
    "letters that are not ASCII": "naïve 東京 Ωmega",
}


@dataclass(frozen=True)
class BuildContext:
    """A tokenizer, the sources counted in it, and the sources of editions of upstream.

    `tokenizer_info` is the tokenizer as the manifest names it, with both reserves.
    """

    tokenizer: PromptTokenizer
    tokenizer_info: TokenizerInfo
    sources: TokenizedSources
    upstream: UpstreamSources

    def target(self, length: int) -> Target:
        """Return what rows of a config of this length (tokens) are fitted to."""
        info = self.tokenizer_info
        return Target(length, info.template_reserve, info.extra_reserve)

    def source_infos(self, task: Task, edition: str) -> list[SourceInfo]:
        """Return what the manifest says of the sources of a task; this reads them."""
        if edition != BALANCED:
            return self.upstream.infos(task, edition_of(edition))
        return [self.sources.library.info(name) for name in task.sources]


def open_context(plan: BuildPlan, warn: Callable[[str], None] = silent) -> BuildContext:
    """Find the sources of a build, load its tokenizer and choose the counter.

    Raises:
        UsageError: sources or tokenizer are not available, or the counter named is not exact.
    """
    library = Library(
        plan.sources,
        plan.sources_kind,
        strict=plan.strict_sources,
        warn=warn,
        haystack=plan.haystack,
        samples=plan.samples,
        network=plan.network,
        essays=plan.essays,
    )
    tokenizer = load_tokenizer(plan.tokenizer)
    where = f"tokenizer {tokenizer.info.name}"
    for feature, text in SHOWN.items():
        if not shows(tokenizer, text):
            why = f"its chat template changes {feature} in the user's text ({text!r}), so that no "
            raise UsageError(where, f"{why}prompt is as its row has it; give it another template")
    if (times := tokenizer.render(TURN, "").count(TURN)) != 1:
        problem = f"its chat template shows the user's text {times} times, and not once as it is"
        msg = f"tokenizer {tokenizer.info.name}: {problem}; no row can be fitted with it"
        raise UsageError(msg)
    if len({*tokenizer.prompt_ids(TURN, "", None)} - {tokenizer.bos_id}) < 2:
        msg = f"tokenizer {tokenizer.info.name}: it reads all words of a text as one token"
        raise UsageError(msg)
    tokenizer.check_bos()
    reserve = template_reserve(tokenizer)
    is_small = plan.counter == "auto" and plan.tokens < WORTHWHILE
    tokenizer.use("tokenizers" if is_small else plan.counter, probes)
    return BuildContext(
        tokenizer,
        replace(tokenizer.info, template_reserve=reserve, extra_reserve=plan.reserve),
        TokenizedSources(plan.seed, library, tokenizer),
        UpstreamSources(library.folder, network=plan.network),
    )


def shows(tokenizer: PromptTokenizer, text: str, answer_prefix: str = "") -> bool:
    """Whether a prompt holds a user's text whole, and then ends in the prefix.

    A template may strip a turn. The one of mistral-common is of the package, and its text is
    decoded.
    """
    from ruler_data.tokenizers.hf import HfTokenizer

    if not isinstance(tokenizer, HfTokenizer):
        return True
    prompt = tokenizer.render(text, answer_prefix)
    return text.strip() in prompt and prompt.endswith(answer_prefix)


@lru_cache(maxsize=1)
def worker_context(plan: BuildPlan) -> BuildContext:
    """Open the context of a build in a worker process, once; its parent has downloaded all."""
    os.environ["RULER_OFFLINE"] = "1"
    os.environ["HF_HUB_OFFLINE"] = "1"
    return open_context(plan)


class ByteCounter:
    """Counts bytes, where rows are drawn without a tokenizer."""

    def count(self, texts: Sequence[str]) -> list[int]:
        """Return the bytes of each text."""
        return [len(utf8(text)) for text in texts]

    def count_prompt(self, content: Text, answer_prefix: str) -> int:
        """Return the bytes of a prompt without a template."""
        return len(utf8(content)) + len(utf8(answer_prefix))


def probes() -> Iterator[tuple[str, str]]:
    """Yield one prompt of every task (content and answer prefix), made of the sample corpus.

    A fast counter is used only if it gives the ids of the reference on all of them.
    """
    sample = TokenizedSources(0, Library(kind="sample"), ByteCounter())
    for task in TASKS.values():
        row = make_row(task, sample, 0, Target(PROBE_LENGTH, 0)).unpack()
        yield row.context + row.question, row.answer_prefix
