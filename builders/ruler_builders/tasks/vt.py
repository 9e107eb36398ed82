"""Variable tracking (`vt`): name every variable that holds one value.

    VAR QZKRA = 48213
    The grass is green. The sky is blue. ...
    VAR PLMEW = VAR QZKRA

Source: RULER, arXiv 2404.06654, section 3.2; configuration of its Table 5: 1 chain, 4 hops.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from string import ascii_uppercase

from ruler_builders.rows.haystacks import noise
from ruler_builders.rows.insert_needles import insert_needles
from ruler_builders.rows.randomness import depth, rng
from ruler_builders.rows.row_template import NOISE, Needle, RowTemplate
from ruler_builders.rows.tokenized_sources import TokenizedSources
from ruler_data.tasks import Vt

_HEAD = "Memorize and track the chain(s) of variable assignment hidden in the following text.\n\n"
_QUESTION = "Question: Find all variables that are assigned the value {value} in the text above."
_PREFIX = (
    " Answer: According to the chain(s) of variable assignment in the text above, {count} "
    "variables are assigned the value {value}, they are: "
)

#: Noise lines and letters of a name in the in-context example (upstream's for most tokenizers).
EXAMPLE_NOISE, EXAMPLE_LETTERS = 16, 3
LETTERS = 5


@dataclass(frozen=True)
class _Chain:
    names: tuple[str, ...]
    value: str

    @property
    def lines(self) -> list[str]:
        """Assignments in order; all but the first end in a space, as upstream's do."""
        first, *later = self.names
        pairs = zip(self.names, later, strict=False)
        return [f"VAR {first} = {self.value}", *(f"VAR {b} = VAR {a} " for a, b in pairs)]

    @property
    def question(self) -> str:
        return _QUESTION.format(value=self.value)

    @property
    def prefix(self) -> str:
        return _PREFIX.format(count=len(self.names), value=self.value)


def draw(
    name: str, params: Vt, sources: TokenizedSources, index: int, length: int, budget: int
) -> RowTemplate:
    """Draw one row; see `ruler_builders.tasks.draw`."""
    seed = sources.seed
    taken: set[str] = set()
    names = rng(seed, name, index, "chains")
    chains = [_draw_chain(names, params.hops, LETTERS, taken) for _ in range(params.chains)]
    needles = [
        Needle(line, place, is_evidence=number == 0)
        for number, chain in enumerate(chains)
        for line, place in zip(chain.lines, _depths(seed, name, index, number, chain), strict=True)
    ]
    tokens = int(sources.line_costs([needle.text for needle in needles]).sum())
    example = _draw_example(rng(seed, name, index, "example"), params.hops, taken)
    return RowTemplate(
        head=example + _HEAD,
        tail="\n",
        question=chains[0].question,
        answer_prefix=chains[0].prefix,
        outputs=chains[0].names,
        fill=lambda room: insert_needles(noise(sources, room), needles, tokens, room, joiner="\n"),
    )


def _depths(seed: int, name: str, index: int, number: int, chain: _Chain) -> list[float]:
    """Return rising depths, since a variable is assigned before it is used."""
    parts = range(len(chain.names))
    return sorted(depth(seed, name, index, f"chain {number} line {part}") for part in parts)


def _draw_chain(source: Random, hops: int, letters: int, taken: set[str]) -> _Chain:
    """Draw a chain whose names and value are not in `taken`."""
    return _Chain(
        tuple(
            _distinct(lambda: "".join(source.choices(ascii_uppercase, k=letters)), taken)
            for _ in range(hops + 1)
        ),
        _distinct(lambda: str(source.randint(10_000, 99_999)), taken),
    )


def _draw_example(source: Random, hops: int, taken: set[str]) -> str:
    """Draw the in-context example: a small prompt and its answer."""
    chain = _draw_chain(source, min(hops, 10), EXAMPLE_LETTERS, taken)
    lines = [NOISE] * EXAMPLE_NOISE
    places = sorted(source.sample(range(EXAMPLE_NOISE), len(chain.lines)))
    for done, (place, line) in enumerate(zip(places, chain.lines, strict=True)):
        lines.insert(place + done, line)
    text = "\n".join(lines)
    answer = " ".join(chain.names)
    return f"{_HEAD}{text}\n{chain.question}{chain.prefix} {answer}\n\n"


def _distinct(draw_one: Callable[[], str], taken: set[str]) -> str:
    while (one := draw_one()) in taken:
        pass
    taken.add(one)
    return one
