"""Needle in a haystack (`niah_*`): name the value or values of one key or of several keys.

    Some special magic numbers are hidden within the following text. Make sure to ...
    ... One of the special magic numbers for curved-ambition is: 4931724. ...
    What are all the special magic numbers for curved-ambition mentioned in the provided text?

Source: RULER, arXiv 2404.06654, section 3.1; configurations of its Table 5. Suites also have
needles in other words, in two places, and needles that resemble the queried one. All needles of
a row are drawn alike and have one wording, so only the key tells which is the right one.
Questions about the third value of a key are an idea of MRCR (arXiv 2409.12640), and keys that a
question describes and does not name one of NoLiMa (arXiv 2502.05167); wording and texts are new.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from random import Random

from ruler_builders import prompts
from ruler_builders.prompts import NEEDLES
from ruler_builders.rows.haystacks import (
    LEAST_FILLING,
    draw_distinct,
    draw_part,
    filled_up,
    needle_lines,
    passages,
)
from ruler_builders.rows.randomness import BELOW_ONE, depth, rng, shuffled
from ruler_builders.rows.row_template import Haystack, Needle, RowTemplate, insert_needles
from ruler_builders.rows.segments import count_segments
from ruler_builders.rows.tokenized_sources import TokenizedSources
from ruler_builders.sources.packaged import associations
from ruler_data.tasks import ORDINALS, Niah, PartType

#: The gold answer if no needle has the key.
NOTHING = "none"
REPEAT = "repeat within a row"


@dataclass(frozen=True)
class _Keys:
    """Keys with their values, those of the question first, and their names in the question."""

    keys: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]
    names: tuple[str, ...]


def draw(
    name: str, params: Niah, sources: TokenizedSources, index: int, length: int, budget: int
) -> RowTemplate:
    """Draw one row; see `ruler_builders.tasks.draw`."""
    seed = sources.seed
    taken: set[str] = set()
    drawn = _draw_keys(params, sources, rng(seed, name, index, "needles"), taken)
    needles = _needles(params, sources, name, index, drawn, taken)
    fill = _filler(params, sources, needles, (name, index), taken)
    place = ""
    outputs = tuple(v for values in drawn.values[: params.queries] for v in values)
    if params.none == "true":
        outputs = (NOTHING,)
    elif params.ordinal:
        number = rng(seed, name, index, "ordinal").randrange(params.values)
        first = sorted(range(params.values), key=lambda value: needles[value].depth)[number]
        place = ORDINALS[number]
        outputs = (outputs[first],)
    prompt = prompts.niah(params, _enumerate(drawn.names[: params.queries]), place)
    return RowTemplate(prompt, outputs, fill)


def _needles(
    params: Niah, sources: TokenizedSources, name: str, index: int, drawn: _Keys, taken: set[str]
) -> list[Needle]:
    """Return the needles to insert."""
    needles = list[Needle]()
    twins = index
    if params.residues:
        twins = index // 2  # rows that begin alike have their needles at the same depths
    for number, (key, value) in enumerate(_pairs(drawn, params)):
        is_evidence = key in drawn.keys[: params.queries]
        texts = _sentences(params, sources, (name, index, number), key, value, taken)
        for half, text in enumerate(texts):
            # A fixed distance between the halves would show which belong together.
            aspect = f"needle {number}"
            if half:
                aspect += " half"
            place = _depth(params, sources.seed, name, twins, aspect)
            needles.append(Needle(text, place, is_evidence))
    return needles


def _sentences(
    params: Niah,
    sources: TokenizedSources,
    place: tuple[str, int, int],
    key: str,
    value: str,
    taken: set[str],
) -> list[str]:
    """Return the sentences of a needle; `place` is the task's name, the row and the needle."""
    kind = params.value_type
    forms = NEEDLES[params.wording]
    if params.wording == "plain":
        return [forms[0].format(kind=kind, key=key, value=value)]
    name, index, number = place
    source = rng(sources.seed, name, index, f"wording {number}")
    alias = ""
    if params.wording == "split":
        alias = draw_distinct(lambda: draw_part(source, "words", sources), taken)
    elif len(forms) > 1:
        forms = (source.choice(forms),)
    values = {"kind": kind, "one": kind[:-1], "key": key, "value": value, "alias": alias}
    return [form.format(**values) for form in forms]


def _depth(params: Niah, seed: int, name: str, index: int, aspect: str) -> float:
    """Return the relative depth of a needle, on the grid if the task has one."""
    if params.depths and aspect == "needle 0":
        return min(index % params.depths / (params.depths - 1), BELOW_ONE)
    return depth(seed, name, index, aspect)


def _draw_keys(params: Niah, sources: TokenizedSources, source: Random, taken: set[str]) -> _Keys:
    """Draw distinct keys and values, so that no key has two answers and no value two keys.

    If a key may be missing, there is one more than there are needles.
    """
    value_type = params.value_type
    count = params.values
    number = params.keys + params.lookalikes + (params.none != "no")
    if params.lookalikes:
        all_keys = _draw_grid(source, params.key_type, number, sources, taken)
        flat = _draw_grid(source, value_type, number * count, sources, taken)
        groups = (tuple(flat[start : start + count]) for start in range(0, len(flat), count))
        return _Keys(all_keys, tuple(groups), all_keys)
    descriptions: list[tuple[str, tuple[str, ...]]] = []
    if params.wording == "associated":
        descriptions = source.sample([*associations().items()], params.keys)
    draw_key = partial(draw_part, source, params.key_type, sources)
    draw_value = partial(draw_part, source, value_type, sources)
    keys = list[str]()
    values = list[tuple[str, ...]]()
    names = list[str]()
    for place in range(number):
        if descriptions:
            description, members = descriptions[place]
            keys.append(source.choice(members))
            names.append(f"the {description}")
        else:
            keys.append(draw_distinct(draw_key, taken))
        values.append(tuple(draw_distinct(draw_value, taken) for _ in range(count)))
    return _Keys(tuple(keys), tuple(values), tuple(names or keys))


def _draw_grid(
    source: Random,
    kind: PartType,
    size: int,
    sources: TokenizedSources,
    taken: set[str],
) -> tuple[str, ...]:
    """Draw keys or values from a grid: all combinations of a few beginnings and a few ends.

    So each has equally many others with its beginning and with its end. Near misses of one of them
    would show which it is: the one that agrees with the majority at every position.
    """
    rows = next(rows for rows in range(math.isqrt(size), 0, -1) if size % rows == 0)
    firsts = dict[str, None]()
    seconds = dict[str, None]()
    while len(firsts) < rows or len(seconds) < size // rows:
        text = draw_part(source, kind, sources)
        cut = {"words": text.find("-"), "numbers": len(text) // 2, "uuids": len("8888-8888-4888")}
        firsts.setdefault(text[: cut[kind]])
        seconds.setdefault(text[cut[kind] :])
    grid = [a + b for a in [*firsts][:rows] for b in [*seconds][: size // rows]]
    if not taken.isdisjoint(grid):
        return _draw_grid(source, kind, size, sources, taken)
    taken.update(grid)
    return tuple(shuffled(source, grid))


def _pairs(drawn: _Keys, params: Niah) -> Iterator[tuple[str, str]]:
    """Yield keys and values of the needles, without the queried key if it must be missing."""
    chosen = slice(params.keys + params.lookalikes)
    if params.none == "true":
        chosen = slice(1, None)
    for key, values in zip(drawn.keys[chosen], drawn.values[chosen], strict=True):
        for value in values:
            yield key, value


def _filler(
    params: Niah,
    sources: TokenizedSources,
    needles: list[Needle],
    row: tuple[str, int],
    taken: set[str],
) -> Callable[[int], Haystack]:
    """Return what fills a room with the task's haystack and these needles.

    `row` is the task's name and the row's index.
    """
    texts = [needle.text for needle in needles]
    if params.haystack == "essays":
        costs = count_segments(sources.tokenizer, [" " + text for text in texts], ".", " The")
        tokens = int(costs.sum())
    else:
        tokens = int(sources.line_costs(texts).sum())

    def among_noise(room: int) -> Haystack:
        return insert_needles(sources.noise.repeated(room), needles, tokens, room, joiner="\n")

    def among_essays(room: int) -> Haystack:
        haystack = insert_needles(sources.essays.repeated(room), needles, tokens, room, joiner=" ")
        is_repeated = haystack.cost - tokens > sources.essays.total
        if is_repeated:
            haystack = replace(haystack, exhausted=f"essays {REPEAT}")
        return haystack

    def among_twin_passages(room: int) -> Haystack:
        source = rng(sources.seed, row[0], row[1] // 2, "haystack")
        text, first = passages(sources, source, params.domains)
        segments = filled_up(text.run(room - tokens - LEAST_FILLING, first), room - tokens, sources)
        return insert_needles(segments, needles, tokens, room, joiner="\n")

    def among_passages(room: int) -> Haystack:
        if params.residues:
            return among_twin_passages(room)
        source = rng(sources.seed, *row, "haystack")
        text, first = passages(sources, source, params.domains)
        segments = text.stretch(room - tokens, first)
        haystack = insert_needles(segments, needles, tokens, room, joiner="\n")
        if segments.total > text.fresh:
            haystack = replace(haystack, exhausted=f"texts of a domain {REPEAT}")
        return haystack

    def among_needles(room: int) -> Haystack:
        form = NEEDLES["plain"][0].format(kind=params.value_type, key="{key}", value="{value}")
        types = (params.key_type, params.value_type)
        lines = needle_lines(sources, form, types)
        segments, numbers = lines.stretch(row[1], room, taken)
        return insert_needles(segments, needles, tokens, room, joiner="\n", numbers=numbers)

    return {
        "noise": among_noise,
        "essays": among_essays,
        "domains": among_passages,
        "needles": among_needles,
    }[params.haystack]


def _enumerate(queries: tuple[str, ...]) -> str:
    """Return `a` or `a, and b` or `a, b, and c`, as upstream does."""
    if len(queries) == 1:
        return queries[0]
    return f"{', '.join(queries[:-1])}, and {queries[-1]}"
