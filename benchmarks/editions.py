r"""Editions of upstream beside upstream itself: the same rows, and at what cost.

Upstream's scripts run as they are (`prepare.py` and what it starts), with two stand-ins: a module
`tokenizer`, and nemo's `write_manifest`. Each result is compared row by row with what
`ruler_builders.upstream` makes. The matrix runs them in one process (`upstream_server.py`); the
cases at 131,072 tokens of `--timed` run as a user starts them, a process each, with Hugging Face
`tokenizers` or sentencepiece as the counter.

    python benchmarks/editions.py --upstream CHECKOUT --sources DIR --tokenizers DIR \\
        --words DIR [--only TEXT] [--timed] [--out FILE.jsonl] [--table FILE.md]

CHECKOUT is a clone (or mirror) of NVIDIA/RULER; DIR of `--words` has a folder for each version, as
`pip install --target DIR/2.2.0 --no-deps wonderwords==2.2.0` puts it. Upstream's english_words.json
is in git-lfs; where it is missing a stand-in of made-up words is given to both sides. Cases that
stand in FILE.jsonl are not compared again.
"""

import argparse
import io
import json
import os
import random
import resource
import select
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import astuple, dataclass
from functools import cache
from itertools import chain, product
from pathlib import Path
from typing import Any

from ruler_builders.pipeline.build_context import PROBES
from ruler_builders.upstream import (
    EDITIONS,
    Arguments,
    UpstreamRow,
    UpstreamSources,
    model_template,
    replay,
)
from ruler_data.errors import RulerError
from ruler_data.tasks import TASKS
from ruler_data.tokenizers import load_tokenizer

STAND_INS = {
    "tokenizer.py": """
import tokenizers, sentencepiece

class HuggingFace:
    def __init__(self, path):
        self.tokenizer = tokenizers.Tokenizer.from_file(path + "/tokenizer.json")

    def text_to_tokens(self, text):
        return self.tokenizer.encode(text, add_special_tokens=False).tokens

class SentencePiece:
    def __init__(self, path):
        self.tokenizer = sentencepiece.SentencePieceProcessor(model_file=path)

    def text_to_tokens(self, text):
        return self.tokenizer.encode_as_pieces(text)

def select_tokenizer(tokenizer_type, tokenizer_path):
    return {"hf": HuggingFace, "nemo": SentencePiece}[tokenizer_type](tokenizer_path)
""",
    "nemo/collections/asr/parts/utils/manifest_utils.py": """
import json

def read_manifest(path):
    return [json.loads(line) for line in open(path, encoding="utf-8")]

def write_manifest(path, rows):
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\\n" for row in rows)
""",
}


#: In tokens.
LENGTHS = (4096, 8192, 16384, 32768, 65536, 131072)
#: Tokenizers, each with a chat template of upstream.
CHAT = {"llama3": "meta-llama3", "qwen2.5": "vicuna-chat", "mistral-v0.2": "meta-chat"}
WORDS = ("2.2.0", "3.0.1")
#: Tasks whose rows depend on wonderwords; a run of another one stands for both versions.
WORDY = [name for name, task in TASKS.items() if name == "cwe" or "words" in task.sources]


@dataclass(frozen=True)
class Case:
    """One config, for one edition, tokenizer, chat template and version of wonderwords."""

    edition: str
    task: str
    length: int
    tokenizer: str
    template: str
    words: str
    rows: int

    @property
    def name(self) -> str:
        """The case as one word."""
        return "-".join(map(str, astuple(self)))


def cases() -> Iterator[Case]:
    """Return what is compared.

    The scripts of 2024-04 are those of 2025-01 but for vt's (`git diff 041a952 ce84052`), so its
    other tasks are compared with one tokenizer at one length. It has no template for Llama 3 yet.
    The cases are dealt into rounds, each of which has a share of every value.
    """
    rounds: list[list[Case]] = [[] for _ in range(6)]
    oldest, first = next(iter(EDITIONS)), (LENGTHS[0], next(iter(CHAT)))
    for (a, edition), (b, length), (c, tokenizer), (d, template), (e, words), (f, task) in product(
        enumerate(EDITIONS),
        enumerate(LENGTHS),
        enumerate(CHAT),
        enumerate(("base", "chat")),
        enumerate(WORDS),
        enumerate(TASKS),
    ):
        if edition == oldest and task != "vt" and (length, tokenizer) != first:
            continue
        if words != WORDS[-1] and task not in WORDY:
            continue
        if template == "chat":
            template = "meta-chat" if edition == oldest else CHAT[tokenizer]
        case = Case(edition, task, length, tokenizer, template, words, 3 if length <= 16384 else 2)
        rounds[(a + b + c + d + e + f) % len(rounds)].append(case)
    return chain(*rounds)


def timed_cases() -> Iterator[Case]:
    """Yield the cases whose cost is measured: a row of each family at the greatest length."""
    _, old, new = EDITIONS
    for edition, task in (
        *product((new,), ("niah_single_2", "vt", "cwe", "fwe", "qa_1", "qa_2")),
        *product((old,), ("fwe", "qa_1")),
    ):
        yield Case(edition, task, LENGTHS[-1], "llama3", "base", WORDS[-1], 1)


@dataclass(frozen=True)
class Places:
    """Where things are, and how long upstream may take for a case, in seconds."""

    upstream: Path
    sources: Path
    tokenizers: Path
    words: Path
    scratch: Path
    limit: int


Lines = list[dict[str, Any]]


def upstream_rows(
    case: Case, places: Places, server: "Server | None"
) -> tuple[Lines | None, float]:
    """Run upstream; return its rows, None where it did not finish, and its CPU seconds."""
    checkout = _checkout(EDITIONS[case.edition].commit, places)
    with tempfile.TemporaryDirectory(dir=places.scratch) as scratch:
        kind, path = _tokenizer(case.tokenizer, places)
        arguments = [
            *("--save_dir", scratch, "--benchmark", "synthetic"),
            *("--task", case.task, "--tokenizer_type", kind, "--tokenizer_path", path),
            *("--max_seq_length", str(case.length), "--num_samples", str(case.rows)),
            *("--model_template_type", case.template),
        ]
        scripts = checkout / "scripts" / "data"
        if server:
            spent = server.run(scripts, places.words / case.words, arguments)
        else:
            spent = _alone(scripts, arguments, _environment(case, places), places.limit)
        file = Path(scratch) / case.task / "validation.jsonl"
        lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else None
        return None if lines is None else [json.loads(line) for line in lines], spent


def _alone(scripts: Path, arguments: list[str], env: Mapping[str, str], limit: int) -> float:
    """Run `prepare.py` in a process of its own; return the CPU seconds of all that it starts."""
    before = _children()
    # A process group, so that a script that never ends can be ended with what started it.
    process = subprocess.Popen(
        [sys.executable, "prepare.py", *arguments],
        cwd=scripts,
        env=env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (limit,) * 2),
    )
    try:
        process.wait(timeout=4 * limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return _children() - before


class Server:
    """The process that runs upstream's scripts; see `upstream_server.py`."""

    def __init__(self, env: Mapping[str, str], limit: int) -> None:
        self._env, self._limit = env, limit
        self._process: subprocess.Popen[str] | None = None

    def run(self, scripts: Path, words: Path, arguments: list[str]) -> float:
        """Run `prepare.py` and return its CPU seconds; after the limit the process is ended."""
        if self._process is None:
            command = [sys.executable, str(Path(__file__).with_name("upstream_server.py"))]
            self._process = subprocess.Popen(
                command, env=self._env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )  # fmt: skip
        process = self._process
        assert process.stdin and process.stdout
        print(json.dumps([str(scripts), str(words), arguments]), file=process.stdin, flush=True)
        if not select.select([process.stdout], [], [], self._limit)[0]:
            process.kill()
        answer = process.stdout.readline()
        if not answer:
            process.wait()
            self._process = None
            return float(self._limit)
        found = json.loads(answer)
        if isinstance(found, str):
            print(found, file=sys.stderr)
            return 0.0
        return float(found)


def our_rows(case: Case, places: Places) -> tuple[list[UpstreamRow] | str, float]:
    """Replay; return the rows, or why there are none, and the CPU seconds."""
    count, sources = _count(case.tokenizer, places.tokenizers), _sources(case.words, places)
    arguments = Arguments(
        EDITIONS[case.edition],
        TASKS[case.task],
        case.length,
        case.rows,
        template=model_template(case.template),
    )
    before = time.process_time()
    try:
        rows: list[UpstreamRow] | str = list(replay(arguments, sources, count))
    except RulerError as error:
        rows = str(error)
    return rows, time.process_time() - before


def difference(theirs: Lines | None, ours: list[UpstreamRow] | str) -> str:
    """Return where rows differ; empty where they are the same, or neither has any."""
    if theirs is None or isinstance(ours, str):
        both = theirs is None and isinstance(ours, str)
        return "" if both else f"only one has rows: {ours!s:.90}"
    if len(theirs) != len(ours):
        return f"{len(theirs)} rows and {len(ours)}"
    for place, (row, our) in enumerate(zip(theirs, ours, strict=True)):
        for field in ("index", "input", "outputs", "length", "answer_prefix"):
            if row.get(field, "") != getattr(our, field):
                return f"row {place}: {field}"
    return ""


def miscount(case: Case, row: dict[str, Any], places: Places) -> str:
    """Return where the fast counter and the tokenizer's own library differ on a row, or nothing."""
    text = row["input"] + row.get("answer_prefix", "")
    kind, path = _tokenizer(case.tokenizer, places)
    own, fast = _library(kind, path)(text), _count(case.tokenizer, places.tokenizers)(text)
    return "" if own == fast else f"counted {fast} tokens, the library {own}"


@cache
def _library(kind: str, path: str) -> Callable[[str], int]:
    if kind == "hf":
        import tokenizers

        tokenizer = tokenizers.Tokenizer.from_file(path + "/tokenizer.json")
        return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(model_file=path)
    return lambda text: len(processor.encode(text))


@cache
def _checkout(commit: str, places: Places) -> Path:
    """Return upstream's files at a commit, the sources where its scripts look for them."""
    folder = places.scratch / f"upstream-{commit}"
    if folder.is_dir():
        return folder
    command = ["git", "-C", str(places.upstream), "archive", commit, "scripts"]
    packed = subprocess.run(command, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    files = folder / "scripts" / "data" / "synthetic" / "json"
    for name in ("PaulGrahamEssays.json", "squad.json", "hotpotqa.json", "english_words.json"):
        shutil.copy(_source_files(places) / name, files / name)
    return folder


@cache
def _source_files(places: Places) -> Path:
    """Return a folder with the sources under upstream's names."""
    folder = places.scratch / "sources"
    if not folder.is_dir():
        folder.mkdir(parents=True)
        for pattern, name in (
            ("PaulGrahamEssays*.json", "PaulGrahamEssays.json"),
            ("squad*.json", "squad.json"),
            ("hotpot*.json", "hotpotqa.json"),
            ("english_words.json", "english_words.json"),
        ):
            for found in sorted(places.sources.glob(pattern)):
                shutil.copy(found, folder / name)
        shutil.copytree(places.sources / "nltk_data", folder / "nltk_data")
        (folder / "nltk_data" / "tokenizers" / "punkt").mkdir()  # prepare.py looks for it
        if not (folder / "english_words.json").is_file():
            draw = random.Random(0)
            made_up = {"".join(draw.choices("abcdefghijklmnop", k=7)) for _ in range(60000)}
            words = {str(number): word for number, word in enumerate(sorted(made_up))}
            (folder / "english_words.json").write_text(json.dumps(words))
        for name, text in STAND_INS.items():
            path = folder / "stand-ins" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return folder


def _environment(case: Case, places: Places) -> dict[str, str]:
    sources = _source_files(places)
    paths = [sources / "stand-ins", places.words / case.words, *sys.path]
    return {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "NLTK_DATA": str(sources / "nltk_data"),
        "TOKENIZERS_PARALLELISM": "false",
    }


def _tokenizer(name: str, places: Places) -> tuple[str, str]:
    """Return upstream's type and path of a tokenizer."""
    if name != "mistral-v0.2":
        return "hf", str(places.tokenizers / name)
    import mistral_common

    return "nemo", str(Path(mistral_common.__file__).parent / "data" / "tokenizer.model.v1")


@cache
def _count(name: str, folder: Path) -> Callable[[str], int]:
    tokenizer = load_tokenizer(name if name == "mistral-v0.2" else str(folder / name))
    said = tokenizer.use("auto", PROBES)
    print(f"{name}: counted by {tokenizer.info.engine} {said}", file=sys.stderr)
    return lambda text: tokenizer.count([text])[0]


@cache
def _sources(words: str, places: Places) -> UpstreamSources:
    return UpstreamSources(_source_files(places), places.words / words / "wonderwords" / "assets")


def _children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def table(records: list[dict[str, Any]]) -> str:
    """Return the results as Markdown: the matrix, the costs, and what differs."""
    matrix = {_key(one): one for one in records if not one["timed"]}
    planned = {_key(vars(case)): vars(case) for case in cases()}
    groups: dict[tuple[Any, ...], dict[int, list[int]]] = {}
    for key, one in (planned | matrix).items():
        cell = groups.setdefault(key[:4], {}).setdefault(one["length"], [0, 0])
        cell[0] += key in matrix and not matrix[key]["difference"]
        cell[1] += 1
    heads = ("edition", "tokenizer", "template", "wonderwords", *(f"{n:,}" for n in LENGTHS))
    lines = [HEADER, f"| {' | '.join(heads)} |", "|---" * 4 + "|--:" * len(LENGTHS) + "|"]
    for group, found in sorted(groups.items()):
        shares = (found.get(length, [0, 0]) for length in LENGTHS)
        cells = (f"{same or '-'} of {whole}" if whole else "" for same, whole in shares)
        lines.append(f"| {' | '.join((*group, *cells))} |")
    todo = len(planned.keys() - matrix.keys())
    rows = sum(one["rows"] for one in matrix.values())
    different = [record for record in records if record["difference"] or record["miscount"]]
    unfinished = [record for record in records if not record["finished"]]
    lines += [
        "",
        f"Compared: {len(matrix):,} configs, {rows:,} rows, of every task. Not "
        f"compared yet: {todo:,} of {len(planned | matrix):,} configs. "
        f"Configs that differ: {len(different)}. "
        f"Configs that neither side finishes: {len(unfinished)}.",
        *(f"- {one['name']}: {one['difference'] or one['miscount']}" for one in different),
        *(f"- {one['name']}: {one['error']}" for one in unfinished),
        "",
        "By task:",
        "",
        f"| task | {' | '.join(f'{n:,}' for n in LENGTHS)} |",
        "|---" + "|--:" * len(LENGTHS) + "|",
    ]
    for task in TASKS:
        counts = [
            sum((one["task"], one["length"]) == (task, length) for one in matrix.values())
            for length in LENGTHS
        ]
        lines.append(f"| {task} | {' | '.join(map(str, counts))} |")
    lines += [
        "",
        "## Cost at 131,072 tokens",
        "",
        "One row a config, CPU seconds: upstream's process with its start, and the replay in a "
        "process that has tokenizer, words and sources open, all in one run, on a busy machine.",
        "",
        "| edition | task | upstream | replay | times less |",
        "|---|---|--:|--:|--:|",
    ]
    timed = [record for record in records if record["timed"] and record["finished"]]
    total = [sum(record[side] for record in timed) for side in ("upstream", "ours")]
    for one in timed:
        cost = one["upstream"], one["ours"]
        lines.append(f"| {one['edition']} | {one['task']} | {_costs(*cost)} |")
    lines.append(f"| all | | {_costs(*total)} |" if timed else "")
    return "\n".join(lines) + "\n"


def _key(one: Mapping[str, Any]) -> tuple[Any, ...]:
    template = "base" if one["template"] == "base" else f"chat ({one['template']})"
    return (one["edition"], one["tokenizer"], template, one["words"], one["length"], one["task"])


def _costs(theirs: float, ours: float) -> str:
    return f"{theirs:.1f} | {ours:.2f} | {theirs / max(ours, 0.001):.0f}"


HEADER = """# Editions beside upstream's own scripts

Written by `benchmarks/editions.py`. `index`, `input`, `outputs`, `length` and `answer_prefix` of
every row (2 or 3 a config) are compared with what upstream's unmodified scripts write. A cell says
how many configs are compared and the same in every row, of how many in the matrix. A config is one
task: all 13 with wonderwords 3.0.1; with 2.2.0 the 8 whose rows depend on words. The scripts of
2024-04 are those of 2025-01 but for vt's, so the other tasks are compared at 4,096 tokens with
Llama 3's tokenizer alone. HotpotQA is a sample of 298 questions, and english_words.json a stand-in
of made-up words (upstream's file is in git-lfs). The scripts' token counts come from the fast
counter; the first row of every config is counted again with Hugging Face `tokenizers` or
sentencepiece.
"""


def main() -> None:
    """Compare the cases that were not compared yet, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("upstream", "sources", "tokenizers", "words"):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--scratch", type=Path, default=Path(tempfile.gettempdir()) / "editions")
    parser.add_argument("--limit", type=int, default=900, help="seconds of upstream a case")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--timed", action="store_true", help="measure the cost at 131,072 tokens")
    parser.add_argument("--out", type=Path, default=Path("editions.jsonl"))
    parser.add_argument("--table", type=Path, help="write the records so far as Markdown, and end")
    given = parser.parse_args()
    lines = given.out.read_text().splitlines() if given.out.is_file() else []
    records = [json.loads(line) for line in lines]
    if given.table:
        given.table.write_text(table(records))
        return
    places = Places(given.upstream, given.sources, given.tokenizers, given.words, given.scratch,
                    given.limit)  # fmt: skip
    done = {record["name"] for record in records if record["timed"] == given.timed}
    todo = [one for one in (timed_cases() if given.timed else cases()) if one.name not in done]
    chosen = [case for case in todo if given.only in case.name]
    server = None
    if chosen and not given.timed:
        server = Server(_environment(chosen[0], places), given.limit)
    for case in chosen:
        ours, own = our_rows(case, places)
        theirs, spent = upstream_rows(case, places, server)
        record = {
            **{"name": case.name, **vars(case), "timed": given.timed},
            **{"upstream": spent, "ours": own},
            "finished": theirs is not None,
            "error": ours if isinstance(ours, str) else "",
            "difference": difference(theirs, ours),
            "miscount": miscount(case, theirs[0], places) if theirs else "",
        }
        with given.out.open("a") as file:
            file.write(json.dumps(record) + "\n")
        verdict = record["difference"] or record["error"] or record["miscount"] or "same"
        print(f"{case.name}: {verdict}; {spent:.1f} s and {own:.2f} s", flush=True)


if __name__ == "__main__":
    main()
