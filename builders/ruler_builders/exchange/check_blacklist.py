"""Look for questions, needles and answers of a RULER release in texts: a training corpus, say.

    python check_blacklist.py corpus.txt more.jsonl      # exit 1: something was found

`blacklist.txt` beside this file has a line for each: the number of words, the hash of the words,
what it is, and its task. Words are letters and digits in lower case; a question is hashed by its
last 13 words and a needle by its first 13, so texts that are cut or wrapped are found too. What is
shorter than five words is left out, unless it holds a number of five digits or more.
"""

import hashlib
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

#: Words of a text that are hashed.
MOST = 13
#: Fewest words that tell something.
LEAST = 5
_WORD = re.compile(r"[^\W_]+")


def entry(text: str, *, last: bool = False) -> str:
    """Return number and hash of the words of a text, the last or the first; empty if too short.

    >>> entry("One of the special magic numbers for red-fox is: 4812345.")
    '11 7972cfce016f1302'
    """
    words = _WORD.findall(text.lower())
    if len(words) < LEAST and not any(re.search(r"\d{5}", word) for word in words):
        return ""
    words = words[-MOST:] if last else words[:MOST]
    return f"{len(words)} {_hash(words)}"


def _hash(words: Iterable[str]) -> str:
    return hashlib.blake2b(" ".join(words).encode(), digest_size=8).hexdigest()


def find(text: str, blacklist: dict[str, str]) -> Iterator[str]:
    """Yield what a text holds of a blacklist, whose keys are the entries, with its place."""
    matches = list(_WORD.finditer(text.lower()))
    words = [match[0] for match in matches]
    for count in sorted({int(key.partition(" ")[0]) for key in blacklist}):
        for start in range(len(words) - count + 1):
            key = f"{count} {_hash(words[start : start + count])}"
            if key in blacklist:
                line = text.count("\n", 0, matches[start].start()) + 1
                yield f"line {line}: {blacklist[key]}"


def main(files: list[str]) -> int:
    """Print what files hold, and return the exit status."""
    lines = Path(__file__).with_name("blacklist.txt").read_text(encoding="utf-8").splitlines()
    blacklist = {" ".join(line.split()[:2]): " of ".join(line.split()[2:]) for line in lines}
    finds = 0
    for name in files:
        text = Path(name).read_text(encoding="utf-8", errors="replace")
        for entry in find(text, blacklist):
            print(f"{name}: {entry}")  # noqa: T201 - the output of a script
            finds += 1
    return int(finds > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
