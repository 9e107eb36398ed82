"""Needle in a haystack (`niah_*`): name the value or values of one key or of several keys.

    Some special magic numbers are hidden within the following text. Make sure to ...
    ... One of the special magic numbers for curved-ambition is: 4931724. ...
    What are all the special magic numbers for curved-ambition mentioned in the provided text?

Source: RULER, arXiv 2404.06654, section 3.1; configurations of its Table 5. Suites also have
needles in other words, in two places, and needles that look like the one asked for.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from random import Random

from ruler_builders.rows.haystacks import draw_distinct, essays, needle_lines, noise, passages
from ruler_builders.rows.insert_needles import insert_needles
from ruler_builders.rows.randomness import BELOW_ONE, depth, rng
from ruler_builders.rows.row_template import Haystack, Needle, RowTemplate
from ruler_builders.rows.segments import count_segments
from ruler_builders.rows.tokenized_sources import Passages, TokenizedSources
from ruler_data.tasks import Niah, PartType

PLAIN = "One of the special magic {kind} for {key} is: {value}."

#: The same in other words; `{one}` is the kind in the singular.
PARAPHRASES = (
    "Anyone who asks about {key} should be told that its special magic {one} is {value}.",
    "It was decided long ago that {value} would be the special magic {one} of {key}.",
    "The special magic {one} assigned to {key} happens to be {value}.",
    "Remember {value}, which is the special magic {one} that goes with {key}.",
    "If {key} ever comes up, the special magic {one} to give is {value}.",
)

#: The same in two places: what the value is filed under, and the value.
SPLIT = (
    "The special magic {one} for {key} is the one that is filed under {alias}.",
    "What is filed under {alias} is {value}.",
)

_HEX = "0123456789abcdef"


def near_miss(
    source: Random, part: str, kind: PartType, sources: TokenizedSources, taken: set[str]
) -> str:
    """Return a key or value that differs from `part` in one digit or in one of its two words.

    It is not in `taken`, and is added to it.
    """
    while True:
        if kind == "words":
            first, _, second = part.partition("-")
            other, _, last = draw_distinct(source, "words", sources, set()).partition("-")
            near = f"{first}-{last}" if source.random() < 0.5 else f"{other}-{second}"
        else:
            digits = _HEX if kind == "uuids" else _HEX[:10]
            place = source.randrange(1, 7)  # not a number's first digit, nor a UUID's fixed ones
            near = part[:place] + source.choice(digits) + part[place + 1 :]
        if near not in taken:
            taken.add(near)
            return near


_HEAD = (
    "Some special magic {kind} are hidden within the following text. Make sure to memorize it. "
    "I will quiz you about the {kind} afterwards.\n"
)
_QUESTION = "What are all the special magic {kind} for {query} mentioned in the provided text?"
_PREFIX = " The special magic {kind} for {query} mentioned in the provided text are"

# With one value to return, upstream rewrites its template word by word to the singular.
_HEAD_ONE = (
    "A special magic {kind} is hidden within the following text. Make sure to memorize it. "
    "I will quiz you about the {kind} afterwards.\n"
)
_QUESTION_ONE = "What is the special magic {kind} for {query} mentioned in the provided text?"
_PREFIX_ONE = " The special magic {kind} for {query} mentioned in the provided text is"

#: Suites may append this to the question; and the gold answer if no needle has the key.
_NONE = " If the provided text does not mention it, answer: none."
NOTHING = "none"


@dataclass(frozen=True)
class _Drawn:
    """Keys with their values; the first `queries` keys are asked for."""

    keys: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]


def draw(
    name: str, params: Niah, sources: TokenizedSources, index: int, length: int, budget: int
) -> RowTemplate:
    """Draw one row; see `ruler_builders.tasks.draw`."""
    seed = sources.seed
    taken: set[str] = set()
    drawn = _draw_keys(params, sources, rng(seed, name, index, "needles"), taken)
    needles = _needles(params, sources, name, index, drawn, taken)
    fill = _filler(params, sources, needles, (name, index), taken)
    single = params.queries * params.values == 1
    kind = params.value_type[:-1] if single else params.value_type
    query = _enumerate(drawn.keys[: params.queries])
    head, question, prefix = (
        (_HEAD_ONE, _QUESTION_ONE, _PREFIX_ONE) if single else (_HEAD, _QUESTION, _PREFIX)
    )
    return RowTemplate(
        head=head.format(kind=kind),
        tail="\n",
        question=question.format(kind=kind, query=query) + (_NONE if params.none != "no" else ""),
        answer_prefix=prefix.format(kind=kind, query=query),
        outputs=(
            (NOTHING,)
            if params.none == "true"
            else tuple(value for values in drawn.values[: params.queries] for value in values)
        ),
        fill=fill,
    )


def _needles(
    params: Niah, sources: TokenizedSources, name: str, index: int, drawn: _Drawn, taken: set[str]
) -> list[Needle]:
    """Return the needles to insert: those of the keys, then those that look alike."""
    seed, needles = sources.seed, list[Needle]()
    for number, (key, value) in enumerate(_pairs(drawn)):
        is_queried = number < params.queries * params.values
        if is_queried and params.none == "true":
            continue
        place = _depth(params, seed, name, index, number)
        for part, text in enumerate(
            _sentences(params, sources, (name, index, number), key, value, taken)
        ):
            needles.append(Needle(text, (place + part / 2) % 1.0, is_queried))
    for number in range(params.lookalikes):
        near = rng(seed, name, index, f"lookalike {number}")
        key = near_miss(near, drawn.keys[0], params.key_type, sources, taken)
        value = near_miss(near, drawn.values[0][0], params.value_type, sources, taken)
        text = PLAIN.format(kind=params.value_type, key=key, value=value)
        needles.append(Needle(text, depth(seed, name, index, f"lookalike {number}"), False))
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
    if params.wording == "plain":
        return [PLAIN.format(kind=kind, key=key, value=value)]
    name, index, number = place
    source = rng(sources.seed, name, index, f"wording {number}")
    forms: tuple[str, ...] = ()
    alias = ""
    if params.wording == "paraphrased":
        forms = (source.choice(PARAPHRASES),)
    elif params.wording == "split":
        forms, alias = SPLIT, draw_distinct(source, "words", sources, taken)
    values = {"kind": kind, "one": kind[:-1], "key": key, "value": value, "alias": alias}
    return [form.format(**values) for form in forms]


def _depth(params: Niah, seed: int, name: str, index: int, number: int) -> float:
    """Return the relative depth of a needle, on the grid if the task has one."""
    if params.depths:
        return min(index % params.depths / (params.depths - 1), BELOW_ONE)
    return depth(seed, name, index, f"needle {number}")


def _draw_keys(params: Niah, sources: TokenizedSources, source: Random, taken: set[str]) -> _Drawn:
    """Draw distinct keys and values, so that no key has two answers and no value two keys."""
    keys, values = [], []
    for _ in range(params.keys):
        keys.append(draw_distinct(source, params.key_type, sources, taken))
        values.append(
            tuple(
                draw_distinct(source, params.value_type, sources, taken)
                for _ in range(params.values)
            )
        )
    return _Drawn(tuple(keys), tuple(values))


def _pairs(drawn: _Drawn) -> Iterator[tuple[str, str]]:
    for key, values in zip(drawn.keys, drawn.values, strict=True):
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
        return partial(_among_essays, sources, needles, int(costs.sum()))
    tokens = int(sources.line_costs(texts).sum())
    if params.haystack == "domains":
        source = rng(sources.seed, *row, "haystack")
        text, first = passages(sources, source, params.domains)
        return partial(_among_passages, text, first, needles, tokens)
    if params.haystack == "noise":
        return lambda room: insert_needles(noise(sources, room), needles, tokens, room, joiner="\n")
    form = PLAIN.format(kind=params.value_type, key="{key}", value="{value}")
    lines = needle_lines(sources, form, (params.key_type, params.value_type))

    def among_needles(room: int) -> Haystack:
        segments, numbers = lines.stretch(row[1], room, taken)
        return insert_needles(segments, needles, tokens, room, joiner="\n", numbers=numbers)

    return among_needles


def _among_essays(
    sources: TokenizedSources, needles: list[Needle], tokens: int, room: int
) -> Haystack:
    segments = essays(sources, room)
    haystack = insert_needles(segments, needles, tokens, room, joiner=" ")
    is_repeated = haystack.cost - tokens > sources.essays.total
    return replace(haystack, exhausted="essays") if is_repeated else haystack


def _among_passages(
    text: Passages, first: int, needles: list[Needle], tokens: int, room: int
) -> Haystack:
    segments = text.stretch(room - tokens, first)
    haystack = insert_needles(segments, needles, tokens, room, joiner="\n")
    is_repeated = int(segments.costs.sum()) > text.fresh
    return replace(haystack, exhausted="texts of a domain") if is_repeated else haystack


def _enumerate(queries: tuple[str, ...]) -> str:
    """Return `a` or `a, and b` or `a, b, and c`, as upstream does."""
    return queries[0] if len(queries) == 1 else f"{', '.join(queries[:-1])}, and {queries[-1]}"
