"""Runs upstream's scripts in one process, one after another: `editions.py` starts it.

The scripts are upstream's files as they are, `prepare.py` and what it starts. To save hours of CPU,
this process gives them three things that cannot change a row:

- the fast counter of `ruler_data` behind `text_to_tokens` (`editions.py` counts the first row of
  each config again with the tokenizer's own library);
- `set` and `sorted` of lists longer than a million (niah's words, the same for every config), and
  nltk's sentences of a text, are remembered;
- interpreter and libraries are started once.

Each line of stdin is a JSON list: the folder of the scripts, the folder of wonderwords, and the
arguments of `prepare.py`. Each line of stdout is the CPU seconds, or an error as a text.
"""

import builtins
import json
import os
import random
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache, lru_cache
from pathlib import Path
from types import CodeType, SimpleNamespace
from typing import Any

import nltk.tokenize
import numpy as np

from ruler_builders.pipeline.build_context import PROBES
from ruler_data.tokenizers import load_tokenizer

MANY = 10**6
#: Modules that each script imports anew: upstream's, stand-ins, and one version of the words.
THEIRS = {"constants", "synthetic", "template", "manifest_utils", "tokenizer", "nemo"}
THEIRS |= {"wonderwords"}


@cache
def tokens(path: str) -> Callable[[str], range]:
    """Return what stands in for a tokenizer's `text_to_tokens`: as many items as tokens."""
    tokenizer = load_tokenizer("mistral-v0.2" if path.endswith(".v1") else path)
    print(path, tokenizer.use("auto", PROBES), tokenizer.info.engine, file=sys.stderr)
    return lambda text: range(tokenizer.count([text])[0])


def remembered(work: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that works on the same million items only once."""
    known: dict[tuple[object, ...], Any] = {}

    def call(items: Any = (), **more: object) -> Any:  # noqa: ANN401
        if more or not hasattr(items, "__len__") or len(items) <= MANY:
            return work(items, **more)
        some = random.Random(0).sample(range(len(items)), 1000) if isinstance(items, list) else ()
        key = (len(items), *(items[place] for place in some))
        if key not in known:
            known[key] = work(items)
        return known[key]

    return call


BUILTINS = {**vars(builtins), "set": remembered(set), "sorted": remembered(sorted)}
nltk.tokenize.sent_tokenize = lru_cache(maxsize=2000)(nltk.tokenize.sent_tokenize)


@cache
def code_of(path: Path) -> CodeType:
    """Return a script, compiled."""
    return compile(path.read_bytes(), str(path), "exec")


def run(script: Path, arguments: list[str]) -> None:
    """Run a script as `python script arguments` does."""
    for name in [name for name in sys.modules if name.partition(".")[0] in THEIRS]:
        del sys.modules[name]
    stand_in = SimpleNamespace(select_tokenizer=lambda _, path: _Tokenizer(path))
    sys.modules["tokenizer"] = stand_in  # type: ignore[assignment]
    sys.argv, kept = [str(script), *arguments], list(sys.path)
    sys.path.insert(0, str(script.parent))
    try:
        exec(code_of(script), {"__name__": "__main__", "__file__": str(script),
                               "__builtins__": BUILTINS})  # fmt: skip
    finally:
        sys.path[:] = kept


class _Tokenizer:
    def __init__(self, path: str) -> None:
        self.text_to_tokens = tokens(path)


def started(command: str, **_: object) -> SimpleNamespace:
    """Run the script that `prepare.py` wants a shell to run."""
    _python, script, *arguments = shlex.split(command)
    run(Path(script), arguments)
    return SimpleNamespace(returncode=0, stdout="", stderr="")


def main() -> None:
    """Serve until stdin ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    own = list(sys.path)
    for line in sys.stdin:
        scripts, words, arguments = json.loads(line)
        sys.path[:] = [words, *own]
        before = time.process_time()
        subprocess.run, kept = started, subprocess.run  # type: ignore[assignment]
        os.chdir(scripts)
        np.random.seed(0)
        try:
            run(Path(scripts) / "prepare.py", arguments)
            answer: float | str = time.process_time() - before
        except (Exception, SystemExit) as error:  # of their scripts, whatever it is
            answer = f"{type(error).__name__}: {error}"
        finally:
            subprocess.run = kept
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
