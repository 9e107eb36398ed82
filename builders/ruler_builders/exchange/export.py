"""`ruler-data export`: a dataset as another tool reads it, with everything that the tool needs.

    kvpress     4096/test-00000-of-00001.parquet, a config for each length, column `answer`
    nemo        llama3_4096/vt/test.jsonl and __init__.py (NeMo-Skills, Evaluator), and for Gym
                llama3_4096.jsonl
    self-long   vt_4k/validation-00000-of-00001.parquet, a config for each, column `answers`
    blacklist   blacklist.txt: hashes of questions, needles and answers, for decontamination;
                texts/*.parquet: these texts, as id and text
    jsonl       vt_4096.jsonl, the columns of the rows, with `id` and `prompt`
    lm-eval     one YAML a config, groups by length, the metric

`ruler.json` names the data, and for each config its limit, metric and digest. lm-eval reads
the rows where they are: on the Hub at the commit of the revision, or in the folder of the build.
"""

import json
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import groupby, islice
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from ruler_builders.exchange import check_blacklist
from ruler_builders.exchange.layouts import new_folder
from ruler_data.dataset import Source, open_source, read_in_order
from ruler_data.errors import UsageError
from ruler_data.names import config_file, counted, parse_config, parse_lengths, parse_names
from ruler_data.row import Row
from ruler_data.terminal import raise_if_interrupted

#: Rows of a row group for kvpress.
ROWS_AT_ONCE = 50

#: Writes the files of a tool, from the rows and the content of `ruler.json`.
Write = Callable[[Source, Mapping[str, Any], Path], None]


def export(
    data: Path | str,
    tool: str,
    out: Path,
    revision: str | None = None,
    tasks: str | Collection[str] | None = None,
    lengths: str | Collection[int | str] | None = None,
) -> Path:
    """Write a dataset as another tool reads it, and return the new folder."""
    source = open_source(data, revision)
    names = source.manifest.select(
        parse_names(tasks, "--tasks"), parse_lengths(lengths, "--lengths")
    )
    for name in names if tool in _SCORES else ():
        task = source.manifest.table[parse_config(name)[0]]
        if task.metric not in ("all", "part"):
            option = f"--for {tool}"
            metric = f"{task.name} has {task.metric}, of RULER v2"
            problem = f"scores whether answers hold strings, and {metric}"
            raise UsageError(option, f"{problem}; use --for jsonl, and `ruler-eval score`")
    source.fetch(names)  # checks every file
    with new_folder(out) as folder:
        folder.mkdir()
        _write(tool, source, names, folder)
    return out


def _write(tool: str, source: Source, names: Collection[str], folder: Path) -> None:
    write, module, usage = _TOOLS[tool]
    about = _about(source, names)
    if module:
        shutil.copyfile(Path(__file__).parent / module, folder / Path(module).name)
    if write:
        write(source, about, folder)
    (folder / "ruler.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    where = "a local folder"
    if source.release:
        where = f"{about['data']} at {about['revision']}"
    text = (
        f"# RULER for {tool}\n\n{counted(len(names), 'config')} of {where}: "
        f"edition {about['edition']}, tokenizer {about['tokenizer']}.\n"
        "`ruler.json` has their limits, metrics and digests. Decode greedily.\n\n"
        f"```sh\n{_filled(usage, names, about['tokenizer'])}\n```\n"
    )
    (folder / "README.md").write_text(_front(folder) + text, encoding="utf-8")


def _about(source: Source, names: Iterable[str]) -> dict[str, Any]:
    """Return what `ruler.json` says of the rows."""
    manifest = source.manifest
    configs = {}
    for name in names:
        info = manifest.configs[name]
        task = manifest.table[parse_config(name)[0]]
        limits = {"max_new_tokens": task.max_new_tokens, "metric": task.metric}
        configs[name] = {"rows": info.rows, **limits, "digest": info.digest}
    data = str(source.folder.resolve())
    revision = None
    if source.release:
        data = source.release.repo
        revision = source.release.commit
    return {
        "data": data,
        "revision": revision,
        "edition": manifest.edition,
        "tokenizer": manifest.tokenizer.name,
        "data_version": manifest.data_version,
        "configs": configs,
    }


def _filled(usage: str, names: Iterable[str], tokenizer: str) -> str:
    """Return the usage of a tool with the names of the longest config."""
    longest = max(names, key=lambda name: parse_config(name)[1])
    task, length = parse_config(longest)
    # lm-eval's API models cut a prompt that is longer than max_length - 1 - its answer.
    words = {
        "CONFIG": longest,
        "TASK": task,
        "LENGTH": str(length),
        "MORE": str(length + 1),
        "SETUP": f"{tokenizer}_{length}",
        "SHORT": short_name(longest),
    }
    for word, value in words.items():
        usage = usage.replace(word, value)
    return usage


def _front(folder: Path) -> str:
    """Return the YAML with which the Hub shows the parquet files; empty if there are none."""
    configs = []
    for file in sorted(folder.glob("*/*.parquet")):
        name = file.parent.name
        split = file.name.partition("-")[0]
        files = [{"split": split, "path": f"{name}/*"}]
        configs.append({"config_name": name, "data_files": files})
    if not configs:
        return ""
    return f"---\n{yaml.safe_dump({'configs': configs}, sort_keys=False)}---\n\n"


def _rows(source: Source, name: str) -> Iterator[Row]:
    rows = source.manifest.configs[name].rows
    for row in read_in_order(source.folder / config_file(name), name, rows):
        raise_if_interrupted()
        yield row


def _by_length(about: Mapping[str, Any]) -> list[tuple[int, list[str]]]:
    def length_of(name: str) -> int:
        return parse_config(name)[1]

    names = sorted(about["configs"], key=length_of)
    return [(length, list(group)) for length, group in groupby(names, length_of)]


def _write_kvpress(source: Source, about: Mapping[str, Any], folder: Path) -> None:
    """Write a file a length, which `load_dataset(repo, "4096")` and `data_dir="4096"` read."""
    text = ("config", "task", "context", "question", "answer_prefix")
    kinds = {**dict.fromkeys(text, pa.string()), "answer": pa.list_(pa.string())}
    schema = pa.schema({**kinds, "max_new_tokens": pa.int64(), "index": pa.int64()})
    for length, names in _by_length(about):
        records = (
            {**row.to_record(), "config": name, "answer": row.outputs}
            for name in names
            for row in _rows(source, name)
        )
        _write_parquet(folder / str(length) / "test-00000-of-00001.parquet", schema, records)


def _write_self_long(source: Source, about: Mapping[str, Any], folder: Path) -> None:
    """Write a file for each config, as `load_dataset(repo, "vt_4k", split="validation")` reads."""
    schema = pa.schema(
        {
            "index": pa.int64(),
            "input": pa.string(),
            "answers": pa.list_(pa.string()),
            "length": pa.int64(),
        }
    )
    for name in about["configs"]:
        records = (
            {"index": row.index, "input": row.prompt, "answers": row.outputs, "length": row.length}
            for row in _rows(source, name)
        )
        file = folder / short_name(name) / "validation-00000-of-00001.parquet"
        _write_parquet(file, schema, records)


def short_name(config: str) -> str:
    """Return a config's name with its length as self-long writes it.

    >>> short_name("vt_4096"), short_name("vt_1048576"), short_name("vt_4000")
    ('vt_4k', 'vt_1M', 'vt_4000')
    """
    task, length = parse_config(config)
    for unit, size in (("M", 2**20), ("k", 2**10)):
        if length % size == 0:
            return f"{task}_{length // size}{unit}"
    return config


def _write_parquet(path: Path, schema: pa.Schema, records: Iterator[Mapping[str, Any]]) -> None:
    path.parent.mkdir()
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        while batch := list(islice(records, ROWS_AT_ONCE)):
            writer.write_table(pa.Table.from_pylist(batch, schema))


def _write_nemo(source: Source, about: Mapping[str, Any], folder: Path) -> None:
    """Write a set-up for each length as `ns prepare_data ruler` does, and a file for NeMo Gym."""
    for length, names in _by_length(about):
        setup = f"{about['tokenizer']}_{length}"
        benchmarks: dict[str, object] = {
            f"ruler.{setup}.{parse_config(name)[0]}": {} for name in names
        }
        _write_module(
            folder / setup,
            IS_BENCHMARK_GROUP=True,
            SCORE_MODULE="nemo_skills.dataset.ruler.ruler_score",
            BENCHMARKS=benchmarks,
        )
        with _lines_at(folder / f"{setup}.jsonl") as gym:
            for name in names:
                task = parse_config(name)[0]
                info = about["configs"][name]
                _write_module(
                    folder / setup / task,
                    DATASET_GROUP="long-context",
                    METRICS_TYPE="ruler",
                    GENERATION_ARGS="++prompt_config=generic/default ++eval_type=ruler "
                    f"++eval_config.match_type={info['metric']} "
                    f"++inference.tokens_to_generate={info['max_new_tokens']} "
                    "++start_assistant_response_key=generation ++inference.endpoint_type=text",
                )
                with _lines_at(folder / setup / task / "test.jsonl") as skills:
                    for row in _rows(source, name):
                        skills.write(json.dumps(_as_skills(row)) + "\n")
                        gym.write(json.dumps(_as_gym(row)) + "\n")


def _write_module(folder: Path, **values: object) -> None:
    folder.mkdir()
    text = "".join(f"{name} = {value!r}\n" for name, value in values.items())
    (folder / "__init__.py").write_text(text, encoding="utf-8")


def _lines_at(path: Path) -> TextIO:
    return path.open("w", encoding="utf-8", newline="\n")


def _as_skills(row: Row) -> Mapping[str, Any]:
    """Return a row for NeMo-Skills; it takes the space before the answer prefix away."""
    return {
        "index": row.index,
        "question": row.context + row.question,
        "expected_answer": row.outputs,
        "length": row.length,
        "generation": row.answer_prefix.strip(),
    }


def _as_gym(row: Row) -> Mapping[str, Any]:
    """Return a row for NeMo Gym: a user message without the answer prefix."""
    message = {"role": "user", "content": row.context + row.question}
    request = {"input": [message], "max_output_tokens": row.max_new_tokens}
    columns = {"outputs": row.outputs, "length": row.length, "subset": row.task}
    return {"responses_create_params": request, **columns}


def _write_blacklist(source: Source, about: Mapping[str, Any], folder: Path) -> None:
    """Write what is asked, what answers it, and the answers: as hashes, and as texts with an id."""
    entries = set[str]()
    texts: dict[str, str] = {}  # by id; a text that several rows have stands once
    seen = set[str]()
    for name in about["configs"]:
        for row in _rows(source, name):
            for kind, number, text in _telling_texts(row):
                entry = check_blacklist.entry(text, last=kind == "question")
                if not entry:
                    continue
                entries.add(f"{entry} {kind} {row.task}")
                if text not in seen:
                    seen.add(text)
                    texts[f"{name}/{row.index}/{kind}/{number}"] = text
    lines = "".join(f"{entry}\n" for entry in sorted(entries))
    (folder / "blacklist.txt").write_text(lines, encoding="utf-8")
    schema = pa.schema({"id": pa.string(), "text": pa.string()})
    records = ({"id": place, "text": text} for place, text in texts.items())
    _write_parquet(folder / "texts" / "blacklist-00000-of-00001.parquet", schema, records)


def _telling_texts(row: Row) -> Iterator[tuple[str, int, str]]:
    """Yield the texts of a row that a corpus should not hold: kind, number and text."""
    yield "question", 0, row.question
    for number, span in enumerate(row.evidence):
        yield "needle", number, row.context[span.start : span.end]
    for number, output in enumerate(row.outputs):
        yield "answer", number, output


def _write_jsonl(source: Source, about: Mapping[str, Any], folder: Path) -> None:
    """Write a file of lines for each config: the columns of the rows, with id and prompt."""
    for name in about["configs"]:
        with _lines_at(folder / f"{name}.jsonl") as file:
            for row in _rows(source, name):
                record = {"id": f"{name}/{row.index}", "prompt": row.prompt, **row.to_record()}
                file.write(json.dumps(record) + "\n")


def _write_lm_eval(_: Source, about: Mapping[str, Any], folder: Path) -> None:
    """Write a task `ruler_CONFIG` for each config, and a group `ruler_LENGTH` for each length."""

    def write(name: object, body: dict[str, Any], more: str = "") -> None:
        text = yaml.safe_dump(body, sort_keys=False, width=100)
        (folder / f"ruler_{name}.yaml").write_text(text + more, encoding="utf-8")

    for name, info in about["configs"].items():
        body = {
            "task": f"ruler_{name}",
            "dataset_path": about["data"],
            "dataset_name": name,
            "dataset_kwargs": {"revision": about["revision"]} if about["revision"] else {},
            "test_split": "test",
            "output_type": "generate_until",
            "doc_to_text": "{{context}}{{question}}",
            "gen_prefix": "{{answer_prefix}}",
            "target_delimiter": "",
            "doc_to_target": "{{outputs}}",
            "generation_kwargs": {
                "until": [],
                "max_gen_toks": info["max_new_tokens"],
                "do_sample": False,
                "temperature": 0.0,
            },
            "metric_list": [{"metric": "ruler", "aggregation": "mean", "higher_is_better": True}],
            "metadata": {"version": about["data_version"]},
        }
        write(name, body, "process_results: !function ruler_metric.process_results\n")
    for length, names in _by_length(about):
        tasks = [f"ruler_{name}" for name in names]
        means = [{"metric": "ruler", "weight_by_size": False}]
        write(length, {"group": f"ruler_{length}", "task": tasks, "aggregate_metric_list": means})


_SCORE = "\nruler-eval score {} --data DATA --model NAME --protocol {}"
#: Tools that score the answers themselves.
_SCORES = ("kvpress", "lm-eval", "nemo")
#: For each tool: what writes its files, the module beside them, and how it is used (TASK and LENGTH
#: of the longest CONFIG, with the words of `_write`).
_TOOLS: Mapping[str, tuple[Write | None, str, str]] = {
    "kvpress": (
        _write_kvpress,
        "tools/ruler_kvpress.py",
        "cd kvpress/evaluation\npython EXPORT/ruler_kvpress.py --data_dir LENGTH --model MODEL "
        "--press_name knorm --compression_ratio 0.5" + _SCORE.format("results/RUN", "completion"),
    ),
    "nemo": (
        _write_nemo,
        "",
        "mkdir -p DATA_DIR/ruler && cp -r EXPORT/SETUP DATA_DIR/ruler/\nns eval --benchmarks="
        "ruler.SETUP --data_dir=DATA_DIR --model=MODEL --output_dir=OUT --server_type=vllm "
        "++inference.temperature=0.0\n# NeMo Evaluator: ns_ruler with ruler.data_dir and "
        "ruler.setup=SETUP; NeMo Gym: EXPORT/SETUP.jsonl as benchmarks/ruler/data/ruler.jsonl"
        + _SCORE.format("OUT", "PROTOCOL"),
    ),
    "self-long": (
        _write_self_long,
        "",
        '# load_dataset("EXPORT", "SHORT", split="validation"): input, answers; no chat template'
        + _SCORE.format("predictions.jsonl", "PROTOCOL"),
    ),
    "blacklist": (
        _write_blacklist,
        "check_blacklist.py",
        "python EXPORT/check_blacklist.py corpus.txt more/*.jsonl  # 1: a question, needle or "
        "answer of the release was found",
    ),
    "lm-eval": (
        _write_lm_eval,
        "tools/ruler_metric.py",
        "lm-eval run --model hf --model_args pretrained=MODEL,max_length=MORE --tasks "
        "ruler_LENGTH --include_path EXPORT --log_samples --output_path OUT"
        + _SCORE.format("OUT", "base"),
    ),
    "jsonl": (
        _write_jsonl,
        "",
        '# write {"id": ..., "prediction": ...} for each line'
        + _SCORE.format("predictions.jsonl", "PROTOCOL"),
    ),
}
