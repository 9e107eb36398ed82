"""Variable tracking, as upstream draws it (`variable_tracking.py`).

A row opens with a solved example: 3 letters a name, made once for all rows by the same script at a
limit of 500 tokens, its names drawn anew for each row (2025-01) and its value too (2026-07).

Known defects, kept: the example of 2024-04 and 2025-01 loses the last word of its instruction and
the line feeds (without a chat template only in 2024-04), and is counted before its names change.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from string import ascii_uppercase

from ruler_builders import prompts
from ruler_builders.prompts import NOISE
from ruler_builders.upstream.sources import UpstreamSources
from ruler_builders.upstream.state import Draft, State, UpstreamRow, texts
from ruler_data.tasks import Vt

TEMPLATE, PREFIX = texts(prompts.vt(Vt(), "{query}", "{num_v}"))
#: The spelling of the prefix until 2025-05.
OLD_PREFIX = PREFIX.replace("assigned", "assgined")

#: Tokens of the example at most.
EXAMPLE_LIMIT = 500
#: Value in it until one is drawn.
EXAMPLE_VALUE = "12345"
EXAMPLE_STEP = 5


def replay(state: State, _: UpstreamSources) -> Iterator[UpstreamRow]:
    """Yield the rows of a task."""
    arguments = state.arguments
    draws = _Rows(state)
    bisects = arguments.edition.bisects
    renames = arguments.edition.renames
    budget = arguments.task.max_new_tokens
    room = budget
    if bisects:
        room = 0
    trial = state.within(EXAMPLE_LIMIT, 1, room)
    size = trial.size(draws.example, EXAMPLE_STEP)
    (solved,) = trial.rows(draws.example, size, EXAMPLE_STEP, PREFIX, shrink=renames)
    example = f"{solved.prompt} {' '.join(solved.outputs)}\n" + "\n" * (not bisects)
    if bisects:  # the example is drawn and counted with the row
        step = 10
        if arguments.length < 4096:
            step = 5
        size = state.size(draws.row, step, example=state.count(example))

        def draw(used: int, _index: int) -> Draft:
            draft = draws.row(used)
            text = draws.rename(example) + "\n"
            return draft._replace(prompt=_with_example(draft.prompt, text))

        yield from state.rows(draw, size, step, PREFIX)
        return
    # The example is added once a row fits beside it.
    run = state.within(arguments.length, arguments.rows, budget + state.count(example))
    size = run.size(draws.row, 10)
    for row in run.rows(draws.row, size, 10, OLD_PREFIX, shrink=renames):
        text = " " + example
        if renames:
            text = draws.rename(example)
        yield replace(row, input=_with_example(row.input, text + "\n\n"))


def _with_example(prompt: str, example: str) -> str:
    """Return a prompt with the example before its instruction, after the template's opening."""
    start = prompt.index(TEMPLATE[:20])
    return prompt[:start] + example + prompt[start:]


class _Rows:
    def __init__(self, state: State) -> None:
        params = state.arguments.task.params
        assert isinstance(params, Vt)
        self._state = state
        self._params = params
        edition = state.arguments.edition
        self._since_2025_06 = edition.bisects
        prefix = OLD_PREFIX
        if edition.bisects:
            prefix = PREFIX
        template = state.arguments.prompt(TEMPLATE, prefix)
        solved = TEMPLATE + prefix
        if not edition.bisects and not (edition.renames and template == solved):
            # Meant to take off the chat template, whose end may hang on the last word.
            start = template.index(TEMPLATE[:20])
            end = template.index(prefix[:10])
            solved = " ".join(template[start:end].split()[:-1]) + template[end:]
        #: Draw a row without example, or an example, among so many lines of noise.
        self.row = partial(self._draw, template, 5)
        self.example = partial(self._draw, solved, 3)

    def rename(self, example: str) -> str:
        """Return the example with other names, and another value (since 2025-06)."""
        state = self._state
        if self._since_2025_06:
            names = example.strip().split()[-self._params.hops - 1 :]
        else:
            end = PREFIX[-10:]
            names = example[example.index(end) + len(end) :].split()
        for name in names:
            example = example.replace(name, state.letters(ascii_uppercase, len(name)))
        if self._since_2025_06:
            example = example.replace(EXAMPLE_VALUE, self._value())
        return example

    def _value(self) -> str:
        return str(self._state.numpy.randint(10000, 99999))

    def _draw(self, template: str, letters: int, size: int, _index: int = 0) -> Draft:
        names, chains = self._chains(letters)
        context = self._context(chains, size).replace(". \n", ".\n")
        value = chains[0][0].split("=")[-1].strip()
        prompt = template.format(context=context, query=value, num_v=self._params.hops + 1)
        return Draft(prompt, names, [line.strip() for line in chains[0]])

    def _chains(self, letters: int) -> tuple[list[str], list[list[str]]]:
        """Draw the names of the first chain, and the lines of all.

        Raises:
            IndexError: a name was drawn twice, which leaves a chain that is too short.
        """
        hops = self._params.hops
        state = self._state
        total = (hops + 1) * self._params.chains
        names = [state.letters(ascii_uppercase, letters) for _ in range(total)]
        while len(set(names)) < total:
            names.append(state.letters(ascii_uppercase, letters))
        chains = []
        for start in range(0, len(names), hops + 1):
            chain_names = names[start : start + hops + 1]
            if letters == 3 and self._since_2025_06:
                value = EXAMPLE_VALUE
            else:
                value = self._value()
            chain = [f"VAR {chain_names[0]} = {value}"]
            chain += [
                f"VAR {chain_names[hop + 1]} = VAR {chain_names[hop]} " for hop in range(hops)
            ]
            chains.append(chain)
        return names[: hops + 1], chains

    def _context(self, chains: list[list[str]], size: int) -> str:
        """Return lines of noise with the chains between them."""
        noise = NOISE + "\n"
        separator = " "
        if self._since_2025_06:
            noise = NOISE
            separator = "\n"
        lines = [noise] * size
        if not self._since_2025_06 and size <= len(chains[0]):
            # Too few lines: cut at every full stop, the line feeds left alone.
            pieces = [piece for line in lines for piece in line.split(".")]
            lines = [piece + "." if piece.strip() else piece for piece in pieces]
        for chain in chains:
            places = sorted(self._state.random.sample(range(len(lines)), len(chain)))
            for shift, (place, line) in enumerate(zip(places, chain, strict=True)):
                lines.insert(place + shift, line)
        return separator.join(lines)
