r"""Editions of upstream beside upstream itself: the same rows, and at what cost.

Upstream's scripts run as they are, a process for each config (`prepare.py` and what it starts),
with two stand-ins: a module `tokenizer`, which counts with Hugging Face `tokenizers` or
sentencepiece, and nemo's `write_manifest`. Each result is compared row by row with what
`ruler_builders.upstream` makes with the fast counter.

    python benchmarks/editions.py --upstream CHECKOUT --sources DIR --tokenizers DIR \\
        --words DIR [--only TEXT] [--out FILE.jsonl] [--table FILE.md]

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
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import astuple, dataclass
from functools import cache
from itertools import chain, product
from pathlib import Path
from typing import Any

from measuring import table as markdown

from ruler_builders.pipeline.build_one import probes
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


def upstream_rows(case: Case, places: Places) -> tuple[Lines | None, float]:
    """Run upstream; return its rows, None where it did not finish, and its CPU seconds."""
    checkout = _checkout(EDITIONS[case.edition].commit, places)
    with tempfile.TemporaryDirectory(dir=places.scratch) as scratch:
        kind, path = _tokenizer(case.tokenizer, places)
        command = [
            *(sys.executable, "prepare.py", "--save_dir", scratch, "--benchmark", "synthetic"),
            *("--task", case.task, "--tokenizer_type", kind, "--tokenizer_path", path),
            *("--max_seq_length", str(case.length), "--num_samples", str(case.rows)),
            *("--model_template_type", case.template),
        ]
        before = _children()
        # A process group, so that a script that never ends can be ended with what started it.
        process = subprocess.Popen(
            command,
            cwd=checkout / "scripts" / "data",
            env=_environment(case, places),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (places.limit,) * 2),
        )
        try:
            process.wait(timeout=4 * places.limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        file = Path(scratch) / case.task / "validation.jsonl"
        lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else None
        found = None if lines is None else [json.loads(line) for line in lines]
        return found, _children() - before


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
    said = tokenizer.use("auto", probes)
    print(f"{name}: counted by {tokenizer.info.engine} {said}", file=sys.stderr)
    return lambda text: tokenizer.count([text])[0]


@cache
def _sources(words: str, places: Places) -> UpstreamSources:
    return UpstreamSources(_source_files(places), places.words / words / "wonderwords" / "assets")


def _children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def table(records: list[dict[str, Any]]) -> str:
    """Return the results as Markdown: the matrix, what differs, and the costs."""
    compared = {_key(record): record for record in records}
    planned = {_key(vars(case)): vars(case) for case in cases()}
    lengths = [f"{length:,}" for length in LENGTHS]
    counts = Counter((record["task"], record["length"]) for record in compared.values())
    by_task = [[task, *(counts[task, length] for length in LENGTHS)] for task in TASKS]
    lines = [
        HEADER,
        *markdown(
            ("edition", "tokenizer", "template", "wonderwords", *lengths),
            _matrix(planned, compared),
        ),
        "",
        *_summary(records, planned, compared),
        "\nBy task:\n",
        *markdown(("task", *lengths), by_task),
        f"\n## Cost at {LENGTHS[-1]:,} tokens\n",
        "CPU seconds: upstream's processes with their start, and the replay in a process that has "
        "tokenizer, words and sources open.\n",
        *markdown(("task", "configs", "upstream", "replay", "times less"), _costs(records)),
    ]
    return "\n".join(lines) + "\n"


Records = Mapping[tuple[Any, ...], Mapping[str, Any]]


def _matrix(planned: Records, compared: Records) -> list[list[object]]:
    """Return a line for each edition, tokenizer, template and words: how many are the same."""
    groups: dict[tuple[Any, ...], dict[int, list[int]]] = {}
    for key, record in {**planned, **compared}.items():
        counts = groups.setdefault(key[:4], {}).setdefault(record["length"], [0, 0])
        counts[1] += 1
        if key in compared and not compared[key]["difference"]:
            counts[0] += 1
    lines = []
    for group, by_length in sorted(groups.items()):
        line: list[object] = [*group]
        for length in LENGTHS:
            same, number = by_length.get(length, (0, 0))
            line.append(f"{same or '-'} of {number}" if number else "")
        lines.append(line)
    return lines


def _summary(records: list[dict[str, Any]], planned: Records, compared: Records) -> Iterator[str]:
    """Yield what was compared, and what differs or did not finish."""
    rows = sum(record["rows"] for record in compared.values())
    different = [record for record in records if record["difference"]]
    unfinished = [record for record in records if not record["finished"]]
    missing = len(planned.keys() - compared.keys())
    yield (
        f"Compared: {len(compared):,} configs, {rows:,} rows, of every task. Not compared yet: "
        f"{missing:,} of {len(planned.keys() | compared.keys()):,} configs. "
        f"Configs that differ: {len(different)}. "
        f"Configs that neither side finishes: {len(unfinished)}."
    )
    for record in different:
        yield f"- {record['name']}: {record['difference']}"
    for record in unfinished:
        yield f"- {record['name']}: {record['error']}"


def _costs(records: list[dict[str, Any]]) -> Iterator[tuple[object, ...]]:
    """Yield the CPU seconds of both sides at the greatest length, by task."""
    longest = [
        record for record in records if record["length"] == LENGTHS[-1] and record["finished"]
    ]
    for task in (*TASKS, "all"):
        chosen = [record for record in longest if task in (record["task"], "all")]
        if chosen:
            theirs = sum(record["upstream"] for record in chosen)
            ours = sum(record["ours"] for record in chosen)
            yield (task, len(chosen), theirs, ours, round(theirs / max(ours, 0.001)))


def _key(one: Mapping[str, Any]) -> tuple[Any, ...]:
    template = "base" if one["template"] == "base" else f"chat ({one['template']})"
    return (one["edition"], one["tokenizer"], template, one["words"], one["length"], one["task"])


HEADER = """# Editions beside upstream's own scripts

Written by `benchmarks/editions.py`. `index`, `input`, `outputs`, `length` and `answer_prefix` of
every row (2 or 3 a config) are compared with what upstream's unmodified scripts write. A cell says
how many configs are compared and the same in every row, of how many in the matrix. A config is one
task: all 13 with wonderwords 3.0.1; with 2.2.0 the 8 whose rows depend on words. The scripts of
2024-04 are those of 2025-01 but for vt's, so the other tasks are compared at 4,096 tokens with
Llama 3's tokenizer alone. HotpotQA is a sample of 298 questions, and english_words.json a stand-in
of made-up words (upstream's file is in git-lfs). The scripts count tokens with Hugging Face
`tokenizers` or sentencepiece, the replay with the fast counter.
"""


def main() -> None:
    """Compare the cases that were not compared yet, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("upstream", "sources", "tokenizers", "words"):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--scratch", type=Path, default=Path(tempfile.gettempdir()) / "editions")
    parser.add_argument("--limit", type=int, default=900, help="seconds of upstream a case")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--out", type=Path, default=Path("editions.jsonl"))
    parser.add_argument("--table", type=Path, help="write the records so far as Markdown, and end")
    options = parser.parse_args()
    lines = options.out.read_text().splitlines() if options.out.is_file() else []
    records = [json.loads(line) for line in lines]
    if options.table:
        options.table.write_text(table(records))
        return
    places = Places(
        options.upstream, options.sources, options.tokenizers, options.words, options.scratch,
        options.limit,
    )  # fmt: skip
    done = {record["name"] for record in records}
    for case in cases():
        if case.name in done or options.only not in case.name:
            continue
        ours, own = our_rows(case, places)
        theirs, spent = upstream_rows(case, places)
        record = {
            **{"name": case.name, **vars(case), "upstream": spent, "ours": own},
            "finished": theirs is not None,
            "error": ours if isinstance(ours, str) else "",
            "difference": difference(theirs, ours),
        }
        with options.out.open("a") as file:
            file.write(json.dumps(record) + "\n")
        verdict = record["difference"] or record["error"] or "same"
        print(f"{case.name}: {verdict}; {spent:.1f} s and {own:.2f} s", flush=True)


if __name__ == "__main__":
    main()
