"""Needles as a reader finds them in a text, however they are worded."""

import re
from collections.abc import Iterator, Sequence

_OPENING = "One of the special magic "
_NEEDLE = re.compile(r"One of the special magic \w+ for (\S+) is: (\S+)\.(?=\s|$)")
#: The wordings of suites, read as a reader would; each behind its longest fixed words, which are
#: looked for first, since an expression reads a long text a hundred times more slowly.
_REWORDED = [
    (
        max(re.split(r"KEY|VALUE|\\w\+", form), key=len),
        re.compile(form.replace("KEY", r"(?P<key>\S+?)").replace("VALUE", r"(?P<value>\S+?)")),
    )
    for form in (
        r"Anyone who asks about KEY should be told that its special magic \w+ is VALUE\.(?=\s|$)",
        r"It was decided long ago that VALUE would be the special magic \w+ of KEY\.(?=\s|$)",
        r"The special magic \w+ assigned to KEY happens to be VALUE\.(?=\s|$)",
        r"Remember VALUE, which is the special magic \w+ that goes with KEY\.(?=\s|$)",
        r"If KEY ever comes up, the special magic \w+ to give is VALUE\.(?=\s|$)",
    )
]
_POINTER = re.compile(
    r"The special magic \w+ for (\S+) is the one that is filed under (\S+?)\.(?=\s|$)"
)
_FILED = re.compile(r"What is filed under (\S+) is (\S+?)\.(?=\s|$)")


def needles(context: str, keys: Sequence[str]) -> list[tuple[tuple[str, ...], str, str]]:
    """Return the needles of keys: each one's sentences in order, its key and its value."""
    found = [needle for key in dict.fromkeys(keys) for needle in _plain(context, key)]
    for words, form in _REWORDED:
        if words in context:
            said = (match for match in form.finditer(context) if match["key"] in keys)
            found += [((match[0],), match["key"], match["value"]) for match in said]
    if "filed under" not in context:
        return found
    filed = {match[1]: match for match in _FILED.finditer(context)}
    for match in _POINTER.finditer(context):
        if match[1] in keys and match[2] in filed:
            both = sorted((match, filed[match[2]]), key=re.Match.start)
            found.append((tuple(one[0] for one in both), match[1], filed[match[2]][2]))
    return found


def _plain(context: str, key: str) -> Iterator[tuple[tuple[str, ...], str, str]]:
    """Yield the needles of a key in the benchmark's own wording.

    The key is looked for first: a text may hold thousands of needles.
    """
    words = f" for {key} is: "
    place = context.find(words)
    while place >= 0:
        match = _NEEDLE.match(context, max(context.rfind(_OPENING, 0, place), 0))
        if match and match[1] == key and match.start(1) > place:
            yield (match[0],), key, match[2]
        place = context.find(words, place + 1)
