"""RULER v2 of NVIDIA-NeMo/Gym beside ours: prompts, scores, and the rows of both generators.

    git clone https://github.com/NVIDIA-NeMo/Gym && git -C Gym checkout 07d6b0d07
    pip install inflect editdistance
    python benchmarks/ruler2.py --gym Gym --sources DIR --tokenizer DIR/llama3     # -> a page
    python benchmarks/ruler2.py --gym Gym --freeze tests/golden/ruler2-prompts.json

Their generators run as they are; only what loads data is replaced: `datasets.load_dataset` gives
the local files, and `transformers.AutoTokenizer` a local `tokenizer.json`. If the sources lack
MMLU's auxiliary_train, their haystack is, as ours, of the test questions that are not asked for.

Prompts: each of their rows is taken apart into labels, texts and what is asked, put together again
with our prompts, and compared. Scores: right, wrong and damaged answers to our rows, by both.
`--freeze` writes what their rows of the sample corpus draw, with the sha256 of their `question`.
"""

import argparse
import hashlib
import importlib.util
import json
import os
import random
import subprocess
import sys
import tempfile
import types
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from ruler_builders import prompts as prompts
from ruler_builders.checks.ruler2_rows import EXAMPLE, labelled_texts, query_of, task_of_prompt
from ruler_builders.pipeline.fit import Target, make_rows
from ruler_builders.rows.tokenized_sources import TokenizedSources
from ruler_builders.sources import Library
from ruler_builders.sources.packaged import packaged_files
from ruler_data.row import Row, Span
from ruler_data.suites import load_suite
from ruler_data.tasks import Ruler2
from ruler_data.tokenizers import load_tokenizer
from ruler_data.tokenizers.protocol import template_reserve
from ruler_eval.running.oracle import gold_text
from ruler_eval.scoring.metrics import SCORERS

SUITE = load_suite("ruler2")
#: Attempts of a generator of theirs that ends with an error.
ATTEMPTS = 5
#: Stand-ins for the two modules that load data; both read files that the environment names.
_DATASETS = """
import json, os
def load_dataset(name, *_):
    return json.load(open(os.environ["RULER2_DATA"]))["mmlu" if "mmlu" in name else "hotpotqa"]
"""
_TRANSFORMERS = """
from tokenizers import Tokenizer
class AutoTokenizer:
    @classmethod
    def from_pretrained(cls, path, **_):
        self = cls(); self.counter = Tokenizer.from_file(path + "/tokenizer.json"); return self
    def tokenize(self, text):
        return self.counter.encode(text, add_special_tokens=False).tokens
"""


def main() -> None:
    """Compare prompts and scores, measure the rows of both, and print a page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--gym", type=Path, required=True, help="checkout of NVIDIA-NeMo/Gym")
    parser.add_argument("--sources", type=Path, help="folder with MMLU and HotpotQA")
    parser.add_argument("--tokenizer", help="folder with tokenizer.json, or a registry name")
    parser.add_argument("--lengths", default="4096,16384")
    parser.add_argument("--tasks", default=",".join(SUITE.tasks))
    parser.add_argument("--rows", type=int, default=50)
    parser.add_argument("--predictions", type=int, default=3000)
    parser.add_argument("--freeze", type=Path, help="write the drawn parts of sample rows instead")
    options = parser.parse_args()
    if options.freeze:
        freeze(options.gym, options.tokenizer, options.freeze)
        return
    comparison = Comparison(options)
    lines = list[str]()
    for name in options.tasks.split(","):
        for length in comparison.lengths:
            lines += comparison.measure(name, length)
    same = comparison.same
    print(
        f"Prompts of theirs put together again by ours: {same} of {comparison.prompts} are equal.\n"
    )
    first, again = comparison.theirs("qa_hard"), comparison.theirs("qa_hard")
    same = sum(row["question"] == twin["question"] for row, twin in zip(first, again, strict=True))
    print(f"Their qa_hard made twice with one seed: {same} of {len(first)} prompts are equal.\n")
    scores = compared(options.gym, comparison.sources, comparison.reserve, options.predictions)
    print(f"{scores}\n")
    print(_HEAD + "\n".join(lines))


class Comparison:
    """Rows of both generators, side by side."""

    def __init__(self, options: argparse.Namespace) -> None:
        """Open tokenizer and sources."""
        self.options = options
        self.lengths = [int(length) for length in options.lengths.split(",")]
        tokenizer = load_tokenizer(options.tokenizer)
        tokenizer.use("auto")
        self.sources = TokenizedSources(42, Library(options.sources, "real"), tokenizer)
        self.reserve = template_reserve(tokenizer)
        self.data = data_of(options.sources)
        questions = self.data["hotpotqa"]["validation"]
        self.gold = {item["question"]: documents_of(item) for item in questions}
        self.same = 0  # of their prompts, those that ours are equal to
        self.prompts = 0

    def theirs(self, name: str, length: int | None = None) -> list[dict[str, Any]]:
        """Return rows of their generator, by default at the first length."""
        options = self.options
        place = length or self.lengths[0]
        return theirs(options.gym, name, options.tokenizer, place, options.rows, self.data)

    def measure(self, name: str, length: int) -> list[str]:
        """Return a line for each generator, and count the prompts that are equal."""
        task = SUITE.tasks[name]
        drawn = self.theirs(name, length)
        self.same += sum(rebuilt(task.params, row) == row["question"] for row in drawn)
        self.prompts += len(drawn)
        rows = [as_row(name, row, self.gold) for row in drawn]
        # They count neither template nor answer.
        used = [row.length + self.reserve + task.max_new_tokens for row in rows]
        target = Target(length, self.reserve)
        indices = range(self.options.rows)
        ours = [row.unpack() for row in make_rows(task, self.sources, indices, target)]
        return [
            measured(name, length, "theirs", rows, used),
            measured(name, length, "ours", ours, [row.length for row in ours]),
        ]


_HEAD = (
    "| task | length | rows | fill, mean | fill, least | too long | depth, KS | ambiguous |\n"
    "|---|--:|---|--:|--:|--:|--:|--:|\n"
)


def data_of(folder: Path | None) -> dict[str, Any]:
    """Return MMLU and HotpotQA of a folder, or of the sample corpus, as `load_dataset` would."""
    file = next(folder.glob("mmlu*.jsonl")) if folder else packaged_files("mmlu")[0]
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").strip("\n").split("\n")]
    tests = [row for row in rows if row["split"] == "test"]
    others = [row for row in rows if row["split"] != "test"]
    mmlu = {"test": tests[::2], "auxiliary_train": tests[1::2] + others}
    if folder:
        items = json.loads(next(folder.glob("hotpot*.json")).read_text(encoding="utf-8"))
    else:
        items = list(_sample_questions())
    questions = list(map(_as_loaded, items))
    return {"mmlu": mmlu, "hotpotqa": {"train": questions[::2], "validation": questions[1::2]}}


def _sample_questions() -> Iterator[dict[str, Any]]:
    """Yield the two-hop questions of the sample corpus in HotpotQA's form."""
    for path in packaged_files("squad"):
        article = json.loads(path.read_text(encoding="utf-8"))
        context = [[part["title"], [part["text"]]] for part in article["paragraphs"]]
        for item in article["two_hop"]:
            facts = [[title, 0] for title in item["titles"]]
            yield {**item, "supporting_facts": facts, "context": context}


def _as_loaded(item: dict[str, Any]) -> dict[str, Any]:
    """Return a question of HotpotQA's file as `load_dataset` gives it."""
    return {
        "question": item["question"],
        "answer": item["answer"],
        "supporting_facts": {"title": [title for title, _ in item["supporting_facts"]]},
        "context": {
            "title": [title for title, _ in item["context"]],
            "sentences": [sentences for _, sentences in item["context"]],
        },
    }


def theirs(
    gym: Path, task: str, tokenizer: str, length: int, rows: int, data: dict[str, Any]
) -> list[dict[str, Any]]:
    """Return the rows that their generator writes for a task."""
    prepare = load_module(gym / "benchmarks" / "ruler2" / "prepare.py")
    script, extra = prepare.TASK_TO_ARGS[task]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "datasets.py").write_text(_DATASETS, encoding="utf-8")
        (Path(folder) / "transformers.py").write_text(_TRANSFORMERS, encoding="utf-8")
        (Path(folder) / "data.json").write_text(json.dumps(data), encoding="utf-8")
        path = os.pathsep.join([folder, *filter(None, [os.environ.get("PYTHONPATH")])])
        command = [
            *(sys.executable, "-m", f"sources.{script}", "--output_folder", folder),
            *("--tokenizer_type", "hf", "--tokenizer_path", str(Path(tokenizer).resolve())),
            *("--max_seq_length", str(length), "--num_samples", str(rows)),
            *("--random_seed", "42", *extra),
        ]
        env = {**os.environ, "PYTHONPATH": path, "RULER2_DATA": f"{folder}/data.json"}
        cwd = gym / "benchmarks" / "ruler2"
        for _ in range(ATTEMPTS):  # in some processes a row of qa comes out too long, and it ends
            done = subprocess.run(
                command, check=False, capture_output=True, text=True, cwd=cwd, env=env
            )
            if done.returncode == 0:
                break
        else:
            sys.exit(f"{task}: {done.stderr}")
        text = (Path(folder) / "test.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.strip("\n").split("\n")]


def load_module(path: Path) -> Any:  # noqa: ANN401 - a module of theirs
    """Import a file of theirs; packages of Gym that only its server needs are left empty."""
    for name in ("base_resources_server", "reward_profile"):
        stub = types.ModuleType(f"nemo_gym.{name}")
        stub.__getattr__ = lambda _: type("Stub", (), {})  # type: ignore[method-assign]
        sys.modules.setdefault("nemo_gym", types.ModuleType("nemo_gym"))
        sys.modules.setdefault(stub.__name__, stub)
    spec = importlib.util.spec_from_file_location(f"theirs_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def documents_of(question: dict[str, Any]) -> set[str]:
    """Return the texts of the gold documents of a question of HotpotQA."""
    context, titles = question["context"], question["supporting_facts"]["title"]
    pairs = zip(context["title"], context["sentences"], strict=True)
    return {f"{title}\n{''.join(sentences)}" for title, sentences in pairs if title in titles}


def as_row(name: str, row: dict[str, Any], gold: dict[str, set[str]]) -> Row:
    """Return a row of theirs in our columns, with its evidence."""
    _, context, asked = task_of_prompt(row["question"])
    expected = row["expected_answer"]
    outputs = tuple(expected) if isinstance(expected, list) else (str(expected),)
    params = SUITE.tasks[name].params
    assert isinstance(params, Ruler2)
    bare = Row(0, name, context, asked, "", outputs, 0, row["length"], ())
    query, _ = query_of(params, bare)
    labels, texts = {query, *outputs}, gold.get(query, ())
    found = [
        one.whole for one in labelled_texts(context) if one.label in labels or one.text in texts
    ]
    places = sorted((context.find(whole), len(whole)) for whole in found)
    return replace(bare, evidence=tuple(Span(at, at + size) for at, size in places))


def rebuilt(params: object, row: dict[str, Any]) -> str:
    """Return a prompt of theirs, put together again by our prompts from what it draws."""
    assert isinstance(params, Ruler2)
    _, context, asked = task_of_prompt(row["question"])
    return joined(params, drawn_parts(params, Row(0, "", context, asked, "", ("x",), 0, 0, ())))


def drawn_parts(params: Ruler2, row: Row) -> dict[str, Any]:
    """Return what a prompt draws: labels with texts, the query, the place, the examples."""
    query, place = query_of(params, row)
    texts = [[one.label, one.text] for one in labelled_texts(row.context)]
    examples = [list(one) for one in EXAMPLE.findall(row.question)]
    return {"texts": texts, "query": query, "place": place, "examples": examples}


def joined(params: Ruler2, parts: dict[str, Any]) -> str:
    """Return the prompt of drawn parts, by our prompts alone."""
    examples = [prompts.Example(*one) for one in parts["examples"]]
    frame = prompts.ruler2(params, parts["query"], parts["place"], examples)
    basic = params.level == "basic" and params.kind != "qa"
    label = prompts.KEY if basic else prompts.DOCUMENT if params.kind == "qa" else prompts.QUESTION
    end = prompts.PERIOD if basic else prompts.EMPTY_LINE
    texts = (f"{label.format(name)}{text}{end}" for name, text in parts["texts"])
    return f"{frame.head}{''.join(texts)}{frame.tail}{frame.question}{frame.prefix}"


def measured(name: str, length: int, who: str, rows: list[Row], used: list[int]) -> str:
    """Return a line of the table: how full rows are, and where their needles stand."""
    depths = sorted(depth for row in rows for depth in depths_of(row))
    size = len(depths)
    distance = max(
        (max((at + 1) / size - depth, depth - at / size) for at, depth in enumerate(depths)),
        default=float("nan"),
    )
    again = sum(is_repeated(row) for row in rows)
    over = sum(one > length for one in used)
    shown = f"{distance:.2f}" if size else "-"
    return (
        f"| `{name}` | {length:,} | {who} | {fmean(used) / length:.3f} "
        f"| {min(used) / length:.3f} | {over} | {shown} | {again} |"
    )


def depths_of(row: Row) -> Iterator[float]:
    """Yield the relative depth of each needle among the texts of the haystack."""
    places = {one.whole: at for at, one in enumerate(labelled_texts(row.context))}
    for span in row.evidence:
        yield (places[row.context[span.start : span.end]] + 0.5) / len(places)


def is_repeated(row: Row) -> bool:
    """Whether a gold answer stands where no evidence is, or a gold label at another text."""
    held = {row.context[span.start : span.end] for span in row.evidence}
    rest = [one for one in labelled_texts(row.context) if one.whole not in held]
    if row.outputs[0] in ("yes", "no", "A", "B", "C", "D"):
        return False
    is_label = row.outputs[0].isdigit() and len(row.outputs[0]) == 7
    if is_label:
        return any(one.label in row.outputs for one in rest)
    return any(output.lower() in one.text.lower() for output in row.outputs for one in rest)


def compared(gym: Path, sources: TokenizedSources, reserve: int, count: int) -> str:
    """Score answers with both, and return how many scores agree."""
    app = load_module(gym / "resources_servers" / "ruler2" / "app.py")
    functions = {
        "soft_all": app.string_match_all_single,
        "soft_part": app.string_match_part_single,
        "soft_last": app.string_match_2steps_single,
        "letter": lambda text, outputs: float(app.extract_mcq_letter(text) == outputs[0]),
    }
    source, scores = random.Random(0), list[bool]()
    for task in SUITE.tasks.values():
        theirs_of, ours_of = functions[task.metric], SCORERS[task.metric]
        for packed in make_rows(task, sources, range(20), Target(4096, reserve)):
            row = packed.unpack()
            for text in said(row, source, count // 240 + 1):
                scores.append(ours_of(text, row.outputs) == theirs_of(text, list(row.outputs)))
    return f"Scores of {len(scores):,} answers: {sum(scores):,} are equal to the last digit."


def said(row: Row, source: random.Random, count: int) -> Iterator[str]:
    """Yield right, wrong and damaged answers to a row."""
    texts = labelled_texts(row.context)
    gold = gold_text(row)
    wrong = source.choice(texts)
    forms: list[Callable[[], str]] = [
        lambda: gold,
        lambda: gold.swapcase(),
        lambda: wrong.whole,
        lambda: f"{wrong.whole}\n\n{gold}\n\n",
        lambda: f"{gold}\n\n{wrong.whole}",
        lambda: " ".join(word for word in gold.split() if source.random() < 0.8),
        lambda: f"The final answer is {source.choice('ABCD')}",
        lambda: f"**Answer:** {source.choice('abcd')}",
        lambda: f"\\boxed{{\\text{{{source.choice('ABCD')}}}}}",
        lambda: "\t".join(gold.split()),
        lambda: "".join(source.sample(gold, len(gold))),
        lambda: "",
    ]
    for _ in range(count):
        yield source.choice(forms)()


def freeze(gym: Path, tokenizer: str, out: Path) -> None:
    """Write what a row of theirs of each task draws from the sample corpus, and its sha256."""
    frozen = {}
    for name, task in SUITE.tasks.items():
        assert isinstance(task.params, Ruler2)
        length = 3000 if task.params.kind == "qa" else 1500  # the least at which theirs work
        row = theirs(gym, name, tokenizer, length, 2, data_of(None))[-1]
        _, context, asked = task_of_prompt(row["question"])
        parts = drawn_parts(task.params, Row(0, name, context, asked, "", ("x",), 0, 0, ()))
        assert joined(task.params, parts) == row["question"], name
        frozen[name] = {"sha256": hashlib.sha256(row["question"].encode()).hexdigest(), **parts}
    out.write_text(json.dumps(frozen, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
