"""`ruler-data export`: a dataset as another tool reads it, with everything that the tool needs.

    kvpress     4096/test-00000-of-00001.parquet, one file a length, column `answer`
    upstream    4096/data/vt/validation.jsonl, of an edition as its own script writes it
    jsonl       vt_4096.jsonl, the columns of the rows, with `id` and `prompt`
    lm-eval     one YAML a config, groups by length, the metric

`ruler.json` names the data, and for each config its limit, metric and digest. The last one reads
the rows where they are: on the Hub at the commit of the revision, or in the folder of the build.
"""

import json
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import groupby, islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from ruler_builders.exchange.layouts import new_folder
from ruler_builders.upstream import Arguments, edition_of, model_template
from ruler_builders.upstream.columns import written_rows
from ruler_data.dataset import Source, open_source, read_in_order
from ruler_data.errors import UsageError
from ruler_data.names import config_file, counted, parse_config, parse_lengths, parse_names, quote
from ruler_data.row import Row
from ruler_data.terminal import raise_if_interrupted
from ruler_data.tokenizers.registry import find_by_fingerprint, load_tokenizer

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
    lengths: str | Collection[int] | None = None,
) -> Path:
    """Write a dataset as another tool reads it, and return the new folder."""
    source = open_source(data, revision)
    names = source.manifest.select(
        parse_names(tasks, "--tasks"), parse_lengths(lengths, "--lengths")
    )
    for name in names if tool in _SCORES else ():
        task = source.manifest.table[parse_config(name)[0]]
        if task.metric not in ("all", "part"):
            option, metric = f"--for {tool}", f"{task.name} has {task.metric}, of RULER v2"
            what = f"scores whether answers hold strings, and {metric}"
            raise UsageError(option, f"{what}; use --for jsonl, and `ruler-eval score`")
    source.fetch(names)  # checks every file
    with new_folder(out) as folder:
        folder.mkdir()
        _write(tool, source, names, folder)
    return out


def _write(tool: str, source: Source, names: Collection[str], folder: Path) -> None:
    write, module, usage = _TOOLS[tool]
    manifest, release, configs = source.manifest, source.release, {}
    for name in names:
        info, task = manifest.configs[name], manifest.table[parse_config(name)[0]]
        limits = {"max_new_tokens": task.max_new_tokens, "metric": task.metric}
        configs[name] = {"rows": info.rows, **limits, "digest": info.digest}
    about = {
        "data": release.repo if release else str(source.folder.resolve()),
        "revision": release.commit if release else None,
        "edition": manifest.edition,
        "tokenizer": manifest.tokenizer.name,
        "data_version": manifest.data_version,
        "configs": configs,
    }
    if module:
        shutil.copyfile(Path(__file__).parent / "tools" / module, folder / module)
    if write:
        write(source, about, folder)
    (folder / "ruler.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    where = f"{about['data']} at {about['revision']}" if release else "a local folder"
    longest = max(names, key=lambda name: parse_config(name)[1])
    of, length = parse_config(longest)
    for word, value in (("CONFIG", longest), ("TASK", of), ("LENGTH", str(length))):
        usage = usage.replace(word, value)
    text = (
        f"# RULER for {tool}\n\n{counted(len(names), 'config')} of {where}: "
        f"edition {manifest.edition}, tokenizer {manifest.tokenizer.name}.\n"
        "`ruler.json` has their limits, metrics and digests. Decode greedily.\n\n"
        f"```sh\n{usage}\n```\n"
    )
    (folder / "README.md").write_text(text, encoding="utf-8")


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
    """Write a file a length, as `load_dataset(repo, data_dir="4096", split="test")` reads it."""
    text = ("config", "task", "context", "question", "answer_prefix")
    kinds = {**dict.fromkeys(text, pa.string()), "answer": pa.list_(pa.string())}
    schema = pa.schema({**kinds, "max_new_tokens": pa.int64(), "index": pa.int64()})
    for length, names in _by_length(about):
        path = folder / str(length) / "test-00000-of-00001.parquet"
        path.parent.mkdir()
        with pq.ParquetWriter(path, schema, compression="zstd") as writer:
            for name in names:
                rows = _rows(source, name)
                while some := [row.to_record() for row in islice(rows, ROWS_AT_ONCE)]:
                    records = [{**one, "config": name, "answer": one["outputs"]} for one in some]
                    writer.write_table(pa.Table.from_pylist(records, schema))


def _lines(path: str, records: Callable[[Source, str], Iterator[Mapping[str, Any]]]) -> Write:
    """Return a writer of a file of lines for each config, at a path with TASK and LENGTH."""

    def write(source: Source, about: Mapping[str, Any], folder: Path) -> None:
        for name in about["configs"]:
            task, length = parse_config(name)
            place = folder / path.replace("TASK", task).replace("LENGTH", str(length))
            place.parent.mkdir(parents=True, exist_ok=True)
            with place.open("w", encoding="utf-8", newline="\n") as file:
                file.writelines(json.dumps(one) + "\n" for one in records(source, name))

    return write


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


def _upstream(source: Source, name: str) -> Iterator[Mapping[str, Any]]:
    """Yield what upstream's scripts write; of other rows, what `call_api.py` of every commit reads.

    Raises:
        UsageError: the tokenizer of an edition, in which upstream counts, is not available.
    """
    manifest, rows = source.manifest, _rows(source, name)
    if not manifest.is_upstream:
        for row in rows:
            columns = {"index": row.index, "input": row.prompt, "outputs": row.outputs}
            yield {**columns, "length": row.length}
        return
    (task, length), tokenizer = parse_config(name), manifest.tokenizer
    spec = find_by_fingerprint(tokenizer)
    if spec is None:
        where, what = f"tokenizer {quote(tokenizer.name)}", "upstream's lengths are counted in it"
        raise UsageError(where, f"{what}, and it is not available; set RULER_TOKENIZERS")
    arguments = Arguments(
        edition_of(manifest.edition),
        manifest.table[task],
        length,
        manifest.configs[name].rows,
        manifest.seed,
        model_template(manifest.chat_template or "base"),
        tokenizer.extra_reserve,
    )
    yield from written_rows(rows, arguments, load_tokenizer(spec, allow_download=False))


def _plain(source: Source, name: str) -> Iterator[Mapping[str, Any]]:
    for row in _rows(source, name):
        yield {"id": f"{name}/{row.index}", "prompt": row.prompt, **row.to_record()}


_SCORE = "\nruler-eval score {} --data DATA --model NAME --protocol {}"
#: Tools that score the answers themselves.
_SCORES = ("kvpress", "lm-eval")
#: For each tool: what writes its files, the module beside them, and how it is used (TASK and LENGTH
#: of the longest CONFIG).
_TOOLS: Mapping[str, tuple[Write | None, str, str]] = {
    "kvpress": (
        _write_kvpress,
        "ruler_kvpress.py",
        "cd kvpress/evaluation\npython EXPORT/ruler_kvpress.py --data_dir LENGTH --model MODEL "
        "--press_name knorm --compression_ratio 0.5" + _SCORE.format("results/RUN", "completion"),
    ),
    "lm-eval": (
        _write_lm_eval,
        "ruler_metric.py",
        "lm-eval run --model hf --model_args pretrained=MODEL,max_length=LENGTH --tasks "
        "ruler_LENGTH --include_path EXPORT --log_samples --output_path OUT"
        + _SCORE.format("OUT", "base"),
    ),
    "upstream": (
        _lines("LENGTH/data/TASK/validation.jsonl", _upstream),
        "",
        "python pred/call_api.py --data_dir EXPORT/LENGTH/data --save_dir OUT/LENGTH/pred "
        "--benchmark synthetic --task TASK --temperature 0.0 --top_k 1 ..."
        + _SCORE.format("OUT", "base"),
    ),
    "jsonl": (
        _lines("TASK_LENGTH.jsonl", _plain),
        "",
        '# write {"id": ..., "prediction": ...} for each line'
        + _SCORE.format("predictions.jsonl", "PROTOCOL"),
    ),
}
