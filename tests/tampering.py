"""Damage to a built folder, and the repairs that hide it from everything but the audit.

Files are read and written with pyarrow alone; of the project only the contract is used, `Row`,
`Manifest` and the digest, the renderer of the card and the measured floor, so that a forged folder
is consistent.
"""

import hashlib
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ruler_builders.card import card_files
from ruler_data import Manifest, Row, digest_rows
from ruler_data.manifest import _self_digest, layout
from ruler_data.tasks import Task

Edit = Callable[[list[Row]], list[Row]]
Change = Callable[[Row], Row]

MANIFEST = "manifest.json"


def question_digest(rows: list[Row]) -> str:
    """Return the digest of what rows ask, computed by hand."""

    def framed(*fields: str | bytes) -> bytes:
        data = [field if isinstance(field, bytes) else field.encode() for field in fields]
        return b"".join(b"%d:%s," % (len(field), field) for field in data)

    asked = (
        framed(
            str(row.index),
            row.question,
            row.answer_prefix,
            framed(*row.outputs),
            str(row.max_new_tokens),
        )
        for row in rows
    )
    data = b"ruler-questions/1\n" + b"".join(map(framed, asked))
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def file_of(config: str) -> str:
    """Return where a config's file lies, as the contract has it."""
    return f"{config}/test-00000-of-00001.parquet"


def copy_of(folder: Path, tmp_path: Path) -> Path:
    """Return a copy of a build that may be damaged."""
    return Path(shutil.copytree(folder, tmp_path / "copy"))


def manifest_of(folder: Path) -> Manifest:
    """Return a folder's manifest."""
    return Manifest.from_json((folder / MANIFEST).read_text(encoding="utf-8"))


def sealed(body: dict[str, Any]) -> str:
    """Return the text of a manifest with this content, whatever it is."""
    body = {name: value for name, value in body.items() if name != "digest"}
    return layout({"digest": _self_digest(body), **body})


def edit_manifest(folder: Path, **changes: Any) -> None:  # noqa: ANN401 - forged values of any type
    """Change a manifest and the digest that it carries of itself."""
    manifest = replace(manifest_of(folder), **changes)
    (folder / MANIFEST).write_text(manifest.to_json(), encoding="utf-8", newline="\n")


def retype_manifest(folder: Path, before: str, after: str) -> None:
    """Replace text of a manifest, and repair nothing."""
    text = (folder / MANIFEST).read_text(encoding="utf-8")
    assert before in text
    (folder / MANIFEST).write_text(text.replace(before, after, 1), encoding="utf-8")


def edit_config(folder: Path, config: str, **changes: Any) -> None:  # noqa: ANN401 - as above
    """Change what the manifest says of one config, and the manifest's digest."""
    edit_configs(folder, {config: changes})


def edit_configs(folder: Path, changes: Mapping[str, Mapping[str, Any]]) -> None:
    """Change what the manifest says of configs, and the manifest's digest."""
    configs = dict(manifest_of(folder).configs)
    for config, values in changes.items():
        configs[config] = replace(configs[config], **values)
    edit_manifest(folder, configs=configs)


def write_file(folder: Path, config: str, data: bytes) -> dict[str, Any]:
    """Replace a config's file, and return what the manifest has to say of its bytes."""
    (folder / file_of(config)).write_bytes(data)
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def edit_file(folder: Path, config: str, data: bytes) -> None:
    """Replace a config's file, and repair what the manifest says of its bytes."""
    edit_config(folder, config, **write_file(folder, config, data))


def table_of(folder: Path, config: str) -> pa.Table:
    """Return a config's rows as a table."""
    with pq.ParquetFile(folder / file_of(config)) as file:
        return file.read()


def rows_of(folder: Path, config: str) -> list[Row]:
    """Return a config's rows."""
    return [Row.from_record(record) for record in table_of(folder, config).to_pylist()]


def bytes_of(table: pa.Table) -> bytes:
    """Return the file of a table."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
    return bytes(sink.getvalue().to_pybytes())


def edit_table(folder: Path, config: str, table: pa.Table) -> None:
    """Replace a config's table, and repair what the manifest says of its file."""
    edit_file(folder, config, bytes_of(table))


def forge(folder: Path, config: str, edit: Edit) -> None:
    """Edit rows, and repair all that file, manifest and card say of them."""
    forge_all(folder, {config: edit})


def forge_all(folder: Path, edits: Mapping[str, Edit]) -> None:
    """Edit rows of configs, and repair all that files, manifest and card say of them."""
    tasks = manifest_of(folder).table
    edit_configs(
        folder, {config: _forged(folder, config, edits[config], tasks) for config in edits}
    )
    render(folder)


def _forged(folder: Path, config: str, edit: Edit, tasks: Mapping[str, Task]) -> dict[str, Any]:
    """Edit the rows of a config, and return what the manifest has to say of them."""
    table = table_of(folder, config)
    rows = edit([Row.from_record(record) for record in table.to_pylist()])
    table = pa.Table.from_pylist([row.to_record() for row in rows], table.schema)
    lengths = [row.length for row in rows]
    limit = int(config.rpartition("_")[2])
    mean = sum(lengths) / len(lengths)
    return {
        **write_file(folder, config, bytes_of(table)),
        "rows": len(rows),
        "digest": digest_rows(rows),
        "question_digest": question_digest(rows),
        "length_min": min(lengths),
        "length_mean": round(mean, 3),
        "length_max": max(lengths),
        "fill_min": round(min(lengths) / limit, 6),
        "fill_mean": round(mean / limit, 6),
    }


def render(folder: Path) -> None:
    """Write card, licences and registration again, and the manifest's hashes of them."""
    manifest = manifest_of(folder)
    texts = card_files(manifest, folder.joinpath)
    for name, text in texts.items():
        (folder / name).write_bytes(text)
    edit_manifest(folder, files=manifest.with_files(texts).files)


def at(index: int, change: Change) -> Edit:
    """Return the edit that changes one row."""
    return lambda rows: [change(row) if row.index == index else row for row in rows]


def insert(row: Row, place: int, text: str) -> Row:
    """Put text into a context; evidence behind it moves along."""
    moved = tuple(
        span._replace(start=span.start + len(text), end=span.end + len(text))
        if span.start >= place
        else span
        for span in row.evidence
    )
    context = row.context[:place] + text + row.context[place:]
    return replace(row, context=context, evidence=moved)


def flip(data: bytes, place: int, bit: int) -> bytes:
    """Return bytes with one bit the other way round."""
    flipped = bytearray(data)
    flipped[place] ^= 1 << bit
    return bytes(flipped)


def must_find(done: subprocess.CompletedProcess[str], *words: str) -> list[str]:
    """Return the findings; they must name the words, and the command must fail in good order."""
    report = f"{done.stdout}\n{done.stderr}"
    assert done.returncode == 1, report
    assert "Traceback" not in report, report
    assert len(done.stderr.splitlines()) == 1, report
    for word in words:
        assert word in report, f"{word!r} is not named in: {report}"
    return done.stdout.splitlines()


def edit_card(folder: Path, before: str, after: str) -> None:
    """Replace text of the card, and repair what the manifest says of its bytes."""
    card = folder / "README.md"
    data = card.read_bytes().replace(before.encode(), after.encode())
    card.write_bytes(data)
    files = manifest_of(folder).files
    entry = replace(files[card.name], bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
    edit_manifest(folder, files={**files, card.name: entry})
