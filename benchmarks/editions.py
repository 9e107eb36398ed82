r"""Editions of upstream beside upstream itself: the same rows, and at what cost.

Upstream's scripts run as they are (`prepare.py` and what it starts), with two stand-ins: a module
`tokenizer` that counts with Hugging Face `tokenizers` or with sentencepiece, and nemo's
`write_manifest`. Each result is compared row by row with what `ruler_builders.upstream` makes.

    python benchmarks/editions.py --upstream CHECKOUT --sources DIR --tokenizers DIR \\
        --words-2 DIR [--only TEXT] [--out FILE.jsonl] [--table FILE.md]

CHECKOUT is a clone (or mirror) of NVIDIA/RULER; DIR of `--words-2` has wonderwords 2.2.0, as
`pip install --target DIR --no-deps wonderwords==2.2.0` puts it. Upstream's english_words.json is in
git-lfs; where it is missing a stand-in of made-up words is given to both sides.
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
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass
from functools import cache
from itertools import cycle, product
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
    """Yield what is compared, the cheap ones first."""
    oldest, old, new = EDITIONS
    chat = {"llama3": "meta-llama3", "qwen2.5": "vicuna-chat", "mistral-v0.2": "meta-chat"}
    first = [
        (new, 4096, "llama3", "base", "2.2.0"),
        (old, 4096, "llama3", "base", "2.2.0"),
        (oldest, 4096, "llama3", "base", "2.2.0"),
        (new, 131072, "llama3", "base", "3.0.1"),
        (new, 4096, "qwen2.5", "chat", "3.0.1"),
        (old, 4096, "mistral-v0.2", "chat", "3.0.1"),
        (oldest, 4096, "llama3", "chat", "3.0.1"),
        (new, 8192, "mistral-v0.2", "base", "2.2.0"),
        (old, 4096, "qwen2.5", "chat", "3.0.1"),
        (old, 131072, "llama3", "base", "2.2.0"),
        (new, 2048, "llama3", "chat", "3.0.1"),
        (old, 2048, "qwen2.5", "base", "3.0.1"),
        (new, 4096, "mistral-v0.2", "chat", "3.0.1"),
        (old, 8192, "llama3", "chat", "3.0.1"),
        (new, 16384, "qwen2.5", "base", "2.2.0"),
        (old, 16384, "mistral-v0.2", "base", "2.2.0"),
        (new, 131072, "qwen2.5", "chat", "2.2.0"),
        (new, 131072, "mistral-v0.2", "base", "3.0.1"),
    ]
    rest = product((new, old), (4096,), chat, ("base", "chat"), ("2.2.0", "3.0.1"))
    # Upstream sorts six million words for each niah case: beyond the first combinations, one of the
    # eight tasks a time, in turns.
    needles = cycle(task for task in TASKS if task.startswith("niah"))
    others = [task for task in TASKS if not task.startswith("niah")]
    for place, (edition, length, tokenizer, template, words) in enumerate((*first, *rest)):
        rows = 4 if length <= 4096 else 2 if length <= 16384 else 1
        tasks = TASKS if place < 2 else [next(needles), *others]
        for task in tasks:
            named = chat[tokenizer] if template == "chat" else template
            if edition == oldest and template == "chat":
                named = "meta-chat"  # the others are newer
            yield Case(edition, task, length, tokenizer, named, words, rows)


@dataclass(frozen=True)
class Places:
    """Where things are, and how long upstream may take for a case, in CPU seconds."""

    upstream: Path
    sources: Path
    tokenizers: Path
    words_2: Path
    scratch: Path
    limit: int


def upstream_rows(case: Case, places: Places) -> tuple[list[dict[str, object]] | None, float]:
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
        rows = None if lines is None else [json.loads(line) for line in lines]
        return rows, _children() - before


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


def difference(theirs: list[dict[str, object]] | None, ours: list[UpstreamRow] | str) -> str:
    """Return where rows differ; empty where they are the same, or neither has any."""
    if theirs is None or isinstance(ours, str):
        return (
            "" if theirs is None and isinstance(ours, str) else f"only one has rows: {ours!s:.90}"
        )
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
    paths = [sources / "stand-ins"] + [places.words_2] * (case.words == "2.2.0")
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
    assets = places.words_2 / "wonderwords" / "assets" if words == "2.2.0" else None
    return UpstreamSources(_source_files(places), assets)


def _children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def table(records: list[dict[str, Any]]) -> str:
    """Return the results as Markdown: a line for each combination, and each task at 131,072."""
    groups: dict[tuple[object, ...], list[dict[str, Any]]] = {}
    for record in records:
        keys = ("edition", "length", "tokenizer", "template", "words")
        groups.setdefault(tuple(record[key] for key in keys), []).append(record)
    lines = [
        "# Editions beside upstream's own scripts",
        "",
        "Written by `benchmarks/editions.py`. `index`, `input`, `outputs`, `length` and "
        "`answer_prefix` of every row are compared with what the unmodified scripts write. CPU "
        "seconds are of whole configs: upstream's process with its start, and the replay in a "
        "process that has tokenizer and words open. Essays are cut once a process, which is part "
        "of the first case that needs them. HotpotQA is a sample of 298 questions, and "
        "english_words.json a stand-in of made-up words (upstream's file is in git-lfs).",
        "",
        "| edition | length | tokenizer | template | wonderwords | configs | rows | same | "
        "upstream s | replay s |",
        "|---|--:|---|---|---|--:|--:|--:|--:|--:|",
    ]
    for key, found in sorted(groups.items(), key=lambda item: tuple(map(str, item[0]))):
        lines.append(
            "| "
            + " | ".join(map(str, key))
            + f" | {len(found)} | {sum(record['rows'] for record in found)} "
            + f"| {sum(not record['difference'] for record in found)} "
            + f"| {sum(record['upstream'] for record in found):.1f} "
            + f"| {sum(record['ours'] for record in found):.2f} |"
        )
    lines += [
        "",
        "Each config at 131,072 tokens:",
        "",
        "| edition | tokenizer | task | rows | upstream s | replay s | times less |",
        "|---|---|---|--:|--:|--:|--:|",
    ]
    lines += [
        f"| {record['edition']} | {record['tokenizer']} | {record['task']} | {record['rows']} | "
        f"{record['upstream']:.1f} | {record['ours']:.2f} | "
        f"{record['upstream'] / max(record['ours'], 0.001):.0f} |"
        for record in records
        if record["length"] == 131072 and record["finished"]
    ]
    unfinished = [record for record in records if not record["finished"]]
    lines += ["", f"Configs that neither side finishes: {len(unfinished)}."]
    lines += [f"- {record['name']}: {record['error']}" for record in unfinished]
    different = [record for record in records if record["difference"]]
    lines += ["", f"Configs that differ: {len(different)}."]
    lines += [f"- {record['name']}: {record['difference']}" for record in different]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Compare the cases that were not compared yet, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("upstream", "sources", "tokenizers", "words-2"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--scratch", type=Path, default=Path(tempfile.gettempdir()) / "editions")
    parser.add_argument("--limit", type=int, default=900, help="CPU seconds of upstream a case")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--out", type=Path, default=Path("editions.jsonl"))
    parser.add_argument("--table", type=Path, help="write the records so far as Markdown, and end")
    given = parser.parse_args()
    places = Places(
        given.upstream, given.sources, given.tokenizers, given.words_2, given.scratch, given.limit
    )
    records = given.out.read_text().splitlines() if given.out.is_file() else []
    if given.table:
        given.table.write_text(table([json.loads(line) for line in records]))
        return
    done = {json.loads(line)["name"] for line in records}
    for case in cases():
        if case.name in done or given.only not in case.name:
            continue
        done.add(case.name)
        theirs, spent = upstream_rows(case, places)
        ours, own = our_rows(case, places)
        record = {
            **{"name": case.name, **vars(case), "upstream": spent, "ours": own},
            "finished": theirs is not None,
            "error": ours if isinstance(ours, str) else "",
            "difference": difference(theirs, ours),
        }
        with given.out.open("a") as file:
            file.write(json.dumps(record) + "\n")
        verdict = record["difference"] or record["error"] or "same"
        print(f"{case.name}: {verdict}; {spent:.1f} s and {own:.2f} s", flush=True)


if __name__ == "__main__":
    main()
