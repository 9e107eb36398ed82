"""Variable tracking (`vt`): name every variable that holds one value.

    VAR QZKRA = 48213
    The grass is green. The sky is blue. ...
    VAR PLMEW = VAR QZKRA

Source: RULER, arXiv 2404.06654, section 3.2; configuration of its Table 5: 1 chain, 4 hops. Suites
also scramble the assignments, so that a chain cannot be followed in one pass.
"""

from dataclasses import dataclass, replace
from random import Random
from string import ascii_uppercase

from ruler_builders import prompts
from ruler_builders.prompts import NOISE
from ruler_builders.rows.haystacks import draw_distinct
from ruler_builders.rows.randomness import depth, rng, shuffled
from ruler_builders.rows.row_template import Haystack, Needle, RowTemplate, insert_needles
from ruler_builders.rows.tokenized_sources import TokenizedSources
from ruler_data.tasks import Vt

#: Letters of a name.
LETTERS = 5
#: Letters of a name in the in-context example.
EXAMPLE_LETTERS = 3
#: Lines of noise in the in-context example (upstream's for most tokenizers).
EXAMPLE_NOISE = 16


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


def draw(
    name: str, params: Vt, sources: TokenizedSources, index: int, length: int, budget: int
) -> RowTemplate:
    """Draw one row; see `ruler_builders.tasks.draw`."""
    seed = sources.seed
    taken: set[str] = set()
    source = rng(seed, name, index, "chains")
    chains = [_draw_chain(source, params.hops, LETTERS, taken) for _ in range(params.chains)]
    needles = [
        Needle(line, place, is_evidence=number == 0)
        for number, chain in enumerate(chains)
        for line, place in zip(chain.lines, _depths(params, seed, name, index, number), strict=True)
    ]
    tokens = int(sources.line_costs([needle.text for needle in needles]).sum())
    prompt = prompts.vt(params, chains[0].value, len(chains[0].names))
    if params.example:
        example = _draw_example(rng(seed, name, index, "example"), params, taken)
        prompt = replace(prompt, head=example + prompt.head)

    def fill(room: int) -> Haystack:
        return insert_needles(sources.noise.repeated(room), needles, tokens, room, joiner="\n")

    return RowTemplate(prompt, chains[0].names, fill)


def _depths(params: Vt, seed: int, name: str, index: int, number: int) -> list[float]:
    """Return depths, rising unless scrambled: a variable is assigned before it is used."""
    hops = range(params.hops + 1)
    depths = [depth(seed, name, index, f"chain {number} line {hop}") for hop in hops]
    if params.order == "rising":
        depths.sort()
    return depths


def _draw_chain(source: Random, hops: int, letters: int, taken: set[str]) -> _Chain:
    """Draw a chain whose names, of so many letters, and value are not in `taken`."""
    return _Chain(
        tuple(
            draw_distinct(lambda: "".join(source.choices(ascii_uppercase, k=letters)), taken)
            for _ in range(hops + 1)
        ),
        draw_distinct(lambda: str(source.randint(10_000, 99_999)), taken),
    )


def _draw_example(source: Random, params: Vt, taken: set[str]) -> str:
    """Draw the in-context example: a small prompt and its answer."""
    chain = _draw_chain(source, min(params.hops, 10), EXAMPLE_LETTERS, taken)
    lines = [NOISE] * EXAMPLE_NOISE
    assignments = chain.lines
    places = sorted(source.sample(range(EXAMPLE_NOISE), len(assignments)))
    if params.order == "scrambled":
        assignments = shuffled(source, assignments)
    for done, (place, line) in enumerate(zip(places, assignments, strict=True)):
        lines.insert(place + done, line)
    prompt = prompts.vt(params, chain.value, len(chain.names))
    text = "\n".join(lines)
    return f"{prompt.head}{text}\n{prompt.question}{prompt.prefix} {' '.join(chain.names)}\n\n"
