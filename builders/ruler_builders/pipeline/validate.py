"""Limits: lengths, rows and texts that cannot be built, found before anything is written."""

from ruler_builders.pipeline.build_config import BuildConfig
from ruler_builders.pipeline.build_context import BuildContext
from ruler_builders.pipeline.fit import need
from ruler_builders.sources import Library
from ruler_builders.sources.domains import PREFIX
from ruler_builders.sources.user_texts import absent
from ruler_data.errors import UsageError
from ruler_data.names import quote
from ruler_data.tasks import TASKS, Niah, Task

#: Below this length (tokens) a task may not fit, so every row is tried before any is written.
ALWAYS_FITS = 4096


def check_domains(order: BuildConfig, library: Library) -> None:
    """Refuse domains that are neither the package's nor the user's, before any text is read.

    Raises:
        UsageError: names the first, where its suite has it, and the domains that there are.
    """
    for name in order.tasks:
        params = order.suite.tasks[name].params
        for domain in params.domains if isinstance(params, Niah) else ():
            if wrong := absent(domain, library.own):
                where = order.suite.places.get(name, order.suite.name)
                msg = f"{where}: tasks.{name}.domains: {wrong}"
                raise UsageError(msg)


def check_lengths(order: BuildConfig, context: BuildContext) -> None:
    """Refuse lengths at which a row of a task does not fit.

    Raises:
        UsageError: names every such task and its minimum.
    """
    short = [
        f"{config} needs at least {least} tokens"
        for config, (task, length) in order.configs.items()
        if (tried := _rows_to_try(order, task, length))
        and (
            least := max(
                need(task, context.sources, index, context.target(length)) for index in range(tried)
            )
        )
        > length
    ]
    if short:
        msg = f"too short: {'; '.join(short)}; use a greater length or leave the task out"
        raise UsageError(msg)


def check_rows(order: BuildConfig, context: BuildContext) -> None:
    """Refuse more rows than questions where nothing but the question tells rows apart.

    Raises:
        UsageError: names the first such task.
    """
    for name in order.tasks:
        task = order.suite.tasks[name]
        if task.fills:
            continue
        source = task.sources[0]
        asked = len(context.sources.corpus(source).questions)
        if order.rows > asked:
            msg = (
                f"{name}: {source} has {asked} questions here, and without documents a question "
                f"asked again is the same row; use --rows {asked} or fewer"
            )
            raise UsageError(msg)


def check_texts(order: BuildConfig, context: BuildContext) -> None:
    """Refuse texts of the user's own that spell a special token of the tokenizer.

    Nobody who hides a needle in a text means that text to end the turn in which it stands.

    Raises:
        UsageError: names the first file, its line and the token.
    """
    own = context.sources.library.own
    if own is None:
        return
    used = {source for name in order.tasks for source in order.suite.tasks[name].sources}
    for domain in (name for name in own.domains if PREFIX + name in used):
        spelled = own.spelled(domain, context.tokenizer.special_tokens)
        if spelled is not None:
            file, line, token = spelled
            msg = (
                f"--haystack: domain {domain}: {quote(file)}, line {line}: {quote(token)} is a "
                f"special token of {context.tokenizer.info.name}, which would read it as one; take "
                "it out or spell it differently"
            )
            raise UsageError(msg)


def _rows_to_try(order: BuildConfig, task: Task, length: int) -> int:
    """Return how many rows show whether a task fits: all where it is close, else a few.

    The thirteen are known to fit from `ALWAYS_FITS` tokens on; a suite may ask for anything.
    """
    if length - order.recipe.extra_reserve < ALWAYS_FITS:
        return order.rows
    return 0 if task.name in TASKS else min(order.rows, 8)
