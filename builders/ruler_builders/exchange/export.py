"""`ruler-data export`: a dataset as another tool reads it, with everything that the tool needs.

    kvpress     4096/test-00000-of-00001.parquet, one file a length, column `answer`
    upstream    4096/data/vt/validation.jsonl, the answer prefix at the end of `input`
    jsonl       vt_4096.jsonl, the columns of the rows, with `id` and `prompt`
    lm-eval     one YAML a config, groups by length, the metric
    inspect, lighteval   one module for all configs

`ruler.json` names the data, and for each config its limit, metric and digest. The last three read
the rows where they are: on the Hub at the commit of the revision, or in the folder of the build.
"""

import json
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing
from dataclasses import KW_ONLY, dataclass
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from ruler_builders.pipeline.build_config import parse_lengths, parse_tasks
from ruler_builders.pipeline.write_parquet import GROUP_BYTES
from ruler_data.dataset import Source, open_source, read_in_order
from ruler_data.errors import RulerError, UsageError
from ruler_data.names import config_file, parse_config, quote
from ruler_data.options import Option, takes_options
from ruler_data.row import Row

Tool = Literal["kvpress", "lm-eval", "inspect", "lighteval", "upstream", "jsonl"]


@dataclass(frozen=True)
class ExportConfig:
    """The options of an export."""

    data: Annotated[
        str | Path, Option("Folder of a build, or a repo with --revision.", argument=True)
    ]
    _: KW_ONLY
    tool: Annotated[Tool, Option("Tool that is to read it.", "--for")]
    out: Annotated[Path | str, Option("New folder to write.")]
    revision: Annotated[str | None, Option("Tag or commit of a release on the Hub.")] = None
    tasks: Annotated[str | Collection[str] | None, Option("Only these, comma-separated.")] = "all"
    lengths: Annotated[str | Collection[int] | None, Option("Only these (tokens).")] = "all"


@takes_options(ExportConfig)
def export(config: ExportConfig) -> Path:
    """Write a dataset as another tool reads it, and return the new folder.

    Raises:
        UsageError: there is no such dataset, or the folder exists.
        RulerError: a file is damaged, or cannot be written.
    """
    source = open_source(config.data, config.revision)
    names = source.manifest.select(parse_tasks(config.tasks), parse_lengths(config.lengths))
    out = Path(config.out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        msg = f"--out {quote(str(out), 200)}: exists already; name a new folder"
        raise UsageError(msg)
    source.fetch(names)  # checks every file
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as partial:
            folder = Path(partial) / "export"
            folder.mkdir()
            _write(config.tool, source, names, folder)
            folder.replace(out)
    except OSError as error:
        msg = f"--out {quote(str(out), 200)}: cannot be written: {error.strerror or error}"
        raise RulerError(msg) from error
    return out


def _write(tool: Tool, source: Source, names: Collection[str], folder: Path) -> None:
    write, modules, usage = _TOOLS[tool]
    for module in modules:
        shutil.copyfile(Path(__file__).parent / "tools" / module, folder / module)
    if write is not None:
        write(source, names, folder)
    about = _about(source, names)
    (folder / "ruler.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    where = f"{about['data']} at {about['revision']}" if source.release else "a local folder"
    text = (
        f"# RULER for {tool}\n\n{len(names)} configs of {where}: edition {about['edition']}, "
        f"tokenizer {about['tokenizer']}.\n`ruler.json` has their limits, metrics and digests. "
        f"Decode greedily.\n\n```sh\n{usage}\n```\n"
    )
    (folder / "README.md").write_text(text, encoding="utf-8")


def _about(source: Source, names: Collection[str]) -> dict[str, Any]:
    manifest, release = source.manifest, source.release
    return {
        "data": release.repo if release else str(source.folder.resolve()),
        "revision": release.commit if release else None,
        "edition": manifest.edition,
        "tokenizer": manifest.tokenizer.name,
        "data_version": manifest.data_version,
        "configs": {
            name: {
                "rows": manifest.configs[name].rows,
                "max_new_tokens": manifest.table[parse_config(name)[0]].max_new_tokens,
                "metric": manifest.table[parse_config(name)[0]].metric,
                "digest": manifest.configs[name].digest,
            }
            for name in names
        },
    }


def _rows(source: Source, name: str) -> Iterator[Row]:
    rows = source.manifest.configs[name].rows
    with closing(read_in_order(source.folder / config_file(name), name, rows)) as found:
        yield from found


def _write_kvpress(source: Source, names: Collection[str], folder: Path) -> None:
    """Write a file a length, as `load_dataset(repo, data_dir="4096", split="test")` reads it."""
    text = ("config", "task", "context", "question", "answer_prefix")
    kinds = {**dict.fromkeys(text, pa.string()), "answer": pa.list_(pa.string())}
    schema = pa.schema({**kinds, "max_new_tokens": pa.int64(), "index": pa.int64()})
    for length, configs in groupby(sorted(names, key=_length), key=_length):
        path = folder / str(length) / "test-00000-of-00001.parquet"
        path.parent.mkdir()
        with pq.ParquetWriter(path, schema, compression="zstd") as writer:
            for name in configs:
                held, size = list[dict[str, Any]](), 0
                for row in _rows(source, name):
                    record = row.to_record()
                    held.append({**record, "config": name, "answer": record["outputs"]})
                    size += len(row.context)
                    if size > GROUP_BYTES:
                        writer.write_table(pa.Table.from_pylist(held, schema))
                        held, size = [], 0
                writer.write_table(pa.Table.from_pylist(held, schema))


def _write_upstream(source: Source, names: Collection[str], folder: Path) -> None:
    """Write `LENGTH/data/TASK/validation.jsonl`, which `call_api.py` of every commit reads."""
    for name in names:
        task, length = parse_config(name)
        records = (
            {"index": row.index, "input": row.prompt, "outputs": row.outputs, "length": row.length}
            for row in _rows(source, name)
        )
        _write_lines(folder / str(length) / "data" / task / "validation.jsonl", records)


def _write_jsonl(source: Source, names: Collection[str], folder: Path) -> None:
    for name in names:
        rows = _rows(source, name)
        records = (
            {"id": f"{name}/{row.index}", "prompt": row.prompt, **row.to_record()} for row in rows
        )
        _write_lines(folder / f"{name}.jsonl", records)


def _write_lines(path: Path, records: Iterator[Mapping[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for record in records:
            file.write(json.dumps(record, ensure_ascii=False) + "\n")


class _Function(str):
    """A function of a module beside a YAML file of the harness."""


yaml.SafeDumper.add_representer(
    _Function, lambda dumper, name: dumper.represent_scalar("!function", str(name))
)


def _write_lm_eval(source: Source, names: Collection[str], folder: Path) -> None:
    """Write a task `ruler_CONFIG` for each config, and a group `ruler_LENGTH` for each length."""
    about = _about(source, names)
    for name in names:
        info = about["configs"][name]
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
            "process_results": _Function("ruler_metric.process_results"),
            "generation_kwargs": {
                **{"until": [], "max_gen_toks": info["max_new_tokens"]},
                **{"do_sample": False, "temperature": 0.0},
            },
            "metric_list": [{"metric": "ruler", "aggregation": "mean", "higher_is_better": True}],
            "metadata": {"version": about["data_version"]},
        }
        _write_yaml(folder / f"ruler_{name}.yaml", body)
    for length, configs in groupby(sorted(names, key=_length), key=_length):
        group = {
            "group": f"ruler_{length}",
            "task": [f"ruler_{name}" for name in configs],
            "aggregate_metric_list": [{"metric": "ruler", "weight_by_size": False}],
        }
        _write_yaml(folder / f"ruler_{length}.yaml", group)


def _write_yaml(path: Path, body: Mapping[str, Any]) -> None:
    path.write_text(yaml.safe_dump(dict(body), sort_keys=False, width=100), encoding="utf-8")


def _length(name: str) -> int:
    return parse_config(name)[1]


_SCORE = "ruler-eval score {} --data DATA --model NAME --protocol {}"
#: For each tool: what writes its files, the modules beside them, and how it is used.
_TOOLS: Mapping[
    Tool,
    tuple[Callable[[Source, Collection[str], Path], None] | None, tuple[str, ...], str],
] = {
    "kvpress": (
        _write_kvpress,
        ("ruler_kvpress.py",),
        "cd kvpress/evaluation\npython EXPORT/ruler_kvpress.py --data_dir 4096 --model MODEL "
        "--press_name knorm --compression_ratio 0.5\n" + _SCORE.format("results/RUN", "completion"),
    ),
    "lm-eval": (
        _write_lm_eval,
        ("ruler_metric.py",),
        "lm-eval run --model hf --model_args pretrained=MODEL,max_length=131072 --tasks "
        "ruler_131072 --include_path EXPORT --log_samples --output_path OUT\n"
        + _SCORE.format("OUT", "base"),
    ),
    "inspect": (
        None,
        ("ruler_inspect.py",),
        "inspect eval EXPORT/ruler_inspect.py --model MODEL -T configs=vt_4096,cwe_4096 "
        "--log-dir OUT\n" + _SCORE.format("OUT", "chat"),
    ),
    "lighteval": (
        None,
        ("ruler_lighteval.py",),
        "lighteval accelerate model_name=MODEL ruler_vt_4096 --custom-tasks "
        "EXPORT/ruler_lighteval.py --save-details --output-dir OUT\n"
        + _SCORE.format("OUT", "base"),
    ),
    "upstream": (
        _write_upstream,
        (),
        "python pred/call_api.py --data_dir EXPORT/4096/data --save_dir OUT/4096/pred --benchmark "
        "synthetic --task vt --temperature 0.0 --top_k 1 ...\n" + _SCORE.format("OUT", "base"),
    ),
    "jsonl": (
        _write_jsonl,
        (),
        '# write {"id": ..., "prediction": ...} for each line\n'
        + _SCORE.format("predictions.jsonl", "PROTOCOL"),
    ),
}
