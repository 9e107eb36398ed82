"""Checks of a build's options, before anything is written.

Each raises a UsageError that names what is refused; `--strict-sources` raises a RulerError.
"""

from collections.abc import Callable, Sequence

from ruler_builders.pipeline.build_context import BuildContext
from ruler_builders.pipeline.fit import need
from ruler_builders.pipeline.plan import BuildPlan
from ruler_builders.sources.domains import PREFIX
from ruler_builders.sources.user_texts import absent
from ruler_builders.upstream import edition_of, model_template
from ruler_data.errors import BudgetError, RulerError, UsageError
from ruler_data.manifest import BALANCED, SourceInfo
from ruler_data.names import quote
from ruler_data.tasks import OWN_FILE, TASKS, Niah
from ruler_data.version import DEFAULT_SEED

#: Length (tokens) from which the thirteen tasks are known to fit in every known tokenizer.
ALWAYS_FITS = 4096
#: Seeds from this one on are refused by numpy, from which editions of upstream draw.
LARGEST_SEED = 2**32


def check_options(plan: BuildPlan, *, fresh: bool) -> None:
    """Refuse options that exclude each other or that an edition of upstream does not have."""
    if plan.edition == BALANCED:
        if plan.template != "base":
            msg = "--template: only for --edition upstream-...; balanced prompts contain none"
            raise UsageError(msg)
        return
    edition = edition_of(plan.edition)
    model_template(plan.template)
    added = next((name for name in plan.suite.tasks if name not in TASKS), None)
    refused = {
        f"--tasks {added}": added is not None,
        "--fresh": fresh,
        "--haystack": plan.haystack is not None,
        "--sources-kind sample": plan.sources_kind == "sample",
        f"--reserve {plan.reserve}": plan.reserve and not edition.bisects,
        f"--seed {plan.seed}": plan.seed >= LARGEST_SEED
        or (edition.ignores_seed and plan.seed != DEFAULT_SEED),
    }
    if given := next((option for option, is_given in refused.items() if is_given), None):
        msg = f"{given}: not possible with --edition {edition.name}; leave it out"
        raise UsageError(msg)


def check_domains(plan: BuildPlan, context: BuildContext) -> None:
    """Refuse domains that neither the package nor the user provides; no text is read yet."""
    for name, task in plan.suite.tasks.items():
        for domain in task.params.domains if isinstance(task.params, Niah) else ():
            if wrong := absent(domain, context.sources.library.own):
                msg = f"suite {plan.suite.name}: tasks.{name}.domains: {wrong}"
                raise UsageError(msg)


def check_inputs(
    plan: BuildPlan,
    context: BuildContext,
    sources: Sequence[SourceInfo],
    warn: Callable[[str], None],
) -> None:
    """Refuse what cannot be built of these sources with this tokenizer."""
    if plan.edition == BALANCED:
        _check_texts(plan, context)
        _check_lengths(plan, context)
        _check_rows(plan, context)
        return
    for source in (source for source in sources if not source.pinned):
        msg = f"source {source.name}: sha256 {source.sha256} is not a known file of upstream"
        if plan.strict_sources:
            raise RulerError(msg)
        warn(f"{msg}; rows are upstream's for this file, and the manifest says pinned: false")


def _check_texts(plan: BuildPlan, context: BuildContext) -> None:
    """Refuse user texts that contain a special token of the tokenizer.

    A needle hidden in such a text would stand before or after the end of the user's turn.
    """
    own = context.sources.library.own
    used = {source for task in plan.suite.tasks.values() for source in task.sources}
    tokens = context.tokenizer.special_tokens
    for domain in own.domains if own else ():
        if own and PREFIX + domain in used and (spelled := own.spelled(domain, tokens)):
            file, line, token = spelled
            where = f"--haystack: domain {domain}: {quote(file)}, line {line}"
            raise _special(context, where, token)
    for name in sorted(filter(OWN_FILE.fullmatch, used)):
        corpus = context.sources.corpus(name)
        for text in (*corpus.documents, *(question.text for question in corpus.questions)):
            if found := next((token for token in tokens if token and token in text), None):
                raise _special(context, f"source {name}: {quote(text)}", found)


def _special(context: BuildContext, where: str, token: str) -> UsageError:
    """Return the error for a text that contains a special token."""
    tokenizer = context.tokenizer_info.name
    what = f"{quote(token)}: {tokenizer} would treat this text as a special token"
    return UsageError(f"{where}: {what}; remove it or spell it differently")


def _check_lengths(plan: BuildPlan, context: BuildContext) -> None:
    """Refuse lengths at which a row of a task does not fit."""
    short: dict[str, tuple[str, int, int]] = {}
    for name, (task, length) in plan.configs.items():
        # All rows show whether a task fits where it is close, a few elsewhere.
        tried = plan.suite.rows
        if length - plan.reserve >= ALWAYS_FITS:
            tried = 0 if task.name in TASKS else min(tried, 8)
        target = context.target(length)
        needs = (need(task, context.sources, index, target) for index in range(tried))
        least = max(needs, default=0)
        if least > length:
            short[name] = task.name, least, length
    if short:
        every = (f"{name} needs at least {least} tokens" for name, (_, least, _) in short.items())
        msg = f"too short: {'; '.join(every)}; use a greater length or leave the task out"
        raise BudgetError(*next(iter(short.values())), msg)


def _check_rows(plan: BuildPlan, context: BuildContext) -> None:
    """Refuse more rows than questions for tasks whose rows differ in nothing but the question."""
    for name, task in plan.suite.tasks.items():
        if task.fills:
            continue
        source = task.sources[0]
        questions = len(context.sources.corpus(source).questions)
        if plan.suite.rows > questions:
            msg = (
                f"{name}: {source} has {questions} questions, and without documents, a repeated "
                f"question gives an identical row; use --rows {questions} or fewer"
            )
            raise UsageError(msg)
