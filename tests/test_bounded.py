"""What strangers write is bounded: templates, parquet files, and texts with terminal escapes."""

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ruler_builders
from ruler_data import UsageError, load
from ruler_data.errors import RulerError
from ruler_data.parquet import LARGEST_GROUP, UNREADABLE, opened
from ruler_data.tokenizers import load_tokenizer
from ruler_data.tokenizers.hf import HfTokenizer, Origin
from tests.conftest import Builds, Cli
from tests.running import tiny
from tests.tampering import MANIFEST, copy_of, edit_file, file_of, manifest_of, table_of

TEMPLATES = {
    "loops": "{% for i in range(99999) %}{% for j in range(99999) %}x{% endfor %}{% endfor %}",
    "multiplies": "{{ 'a' * 10**11 }}",
    "is folded when it is compiled": "{% if false %}{{ 'a' * 10**11 }}{% endif %}",
    "is long": "{{ 'a' * 20000000 }}",
}


def strangers(folder: Path) -> HfTokenizer:
    """Return a tokenizer as it is loaded from a Hub id that the registry does not name."""
    return HfTokenizer(folder, "x", Origin("org/x", "0" * 40, is_strangers=True))


@pytest.mark.slow
@pytest.mark.parametrize("name", TEMPLATES)
def test_a_strangers_template_without_end_is_stopped_and_the_next_one_runs(
    name: str, tmp_path: Path
) -> None:
    model = tiny.make_model(tmp_path / "model")
    for template, fails in ((TEMPLATES[name], True), ("{{ messages[0]['content'] }}!", False)):
        (model / "chat_template.jinja").write_text(template, encoding="utf-8")
        if fails and name != "is folded when it is compiled":
            with pytest.raises(UsageError, match="its chat template cannot be used"):
                strangers(model).render("hello", "")
        elif fails:
            strangers(model)
        else:
            assert strangers(model).render("hello", "") == "hello!"


def test_a_template_that_is_vouched_for_runs_in_this_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny.make_model(tmp_path / "model")
    (model / "chat_template.jinja").write_text("{{ messages[0]['content'] }}!", encoding="utf-8")
    monkeypatch.setattr("ruler_data.tokenizers.chat_template._child", None)
    assert load_tokenizer(str(model)).render("hello", "") == "hello!"
    with pytest.raises(TypeError):
        strangers(model)


@pytest.mark.parametrize("shown", ["messages[0]['content'] | upper", "messages[0]['content'] * 2"])
def test_a_template_that_rewrites_the_users_text_is_refused_with_that_cause(
    shown: str, tmp_path: Path
) -> None:
    model = tiny.make_model(tmp_path / "model")
    (model / "chat_template.jinja").write_text(f"{{{{ {shown} }}}}", encoding="utf-8")
    with pytest.raises(UsageError, match=r"shows the user's text [02] times, and not once as it"):
        ruler_builders.build(str(model), out=tmp_path / "out", tasks="vt", lengths="1024", rows=1)
    assert not (tmp_path / "out" / "manifest.json").exists()


def bomb(folder: Path) -> int:
    """Write a small file of few rows that are gigabytes once decoded; return its bytes."""
    table = table_of(folder, "vt_1024")
    long = pa.array(["a" * (LARGEST_GROUP // 64)])
    column = pa.chunked_array([long] * 100)
    rows = pa.concat_tables([table.slice(0, 1)] * 100)
    place = table.schema.get_field_index("context")
    path = folder / file_of("vt_1024")
    pq.write_table(
        rows.set_column(place, table.schema.field("context"), column.cast(pa.string())), path,
        compression="zstd", use_dictionary=False, row_group_size=100,
    )  # fmt: skip
    return path.stat().st_size


@pytest.mark.slow
def test_a_small_file_that_holds_gigabytes_is_refused_before_it_is_read(
    builds: Builds, tmp_path: Path
) -> None:
    copy = copy_of(builds(), tmp_path)
    assert bomb(copy) < 1_000_000
    edit_file(copy, "vt_1024", (copy / file_of("vt_1024")).read_bytes())
    before = pa.total_allocated_bytes()
    pa.default_memory_pool().release_unused()
    with pytest.raises(RulerError, match="holds up to"):
        list(load(copy, "vt_1024"))
    found = ruler_builders.verify(copy).findings
    assert any("cannot be read: row group 0 holds up to" in line for line in found)
    assert pa.total_allocated_bytes() - before < LARGEST_GROUP // 64


@given(at=st.integers(0, 3000), byte=st.integers(0, 255))
@settings(max_examples=100)
def test_a_byte_changed_anywhere_is_read_or_refused(
    at: int, byte: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "byte.parquet"
    table = pa.table({"a": ["text"] * 30, "b": range(30), "c": [["x", "y"]] * 30})
    pq.write_table(table, path, write_page_checksum=True)
    data = bytearray(path.read_bytes())
    data[at % len(data)] = byte
    path.write_bytes(data)
    try:
        with opened(path) as file:
            file.read()
    except UNREADABLE as error:
        assert str(error)


def test_a_column_that_contradicts_its_own_statistics_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"a": ["text"] * 30}), path)
    data = path.read_bytes()
    optional, required = b"%\x02\x18\x01a", b"%\x00\x18\x01a"  # how often, and the name
    assert data.count(optional) == 1
    path.write_bytes(data.replace(optional, required))
    # pyarrow aborts the process when it is asked for the column's description.
    with pytest.raises(UNREADABLE, match="histogram size"), opened(path) as file:
        file.read()


ESCAPE = "\x1b]0;owned\x07\x1b[2J\x9b31m"


@pytest.mark.parametrize("command", ["card", "show", "verify"])
def test_escapes_in_a_sealed_manifest_never_reach_the_terminal(
    command: str, builds: Builds, tmp_path: Path, cli: Cli
) -> None:
    copy = copy_of(builds("vt,niah_single_2", length=1536), tmp_path)
    manifest = manifest_of(copy)
    source = replace(manifest.sources[0], title=ESCAPE, licence="MIT" + ESCAPE)
    info = replace(manifest.configs["vt_1536"], question_digest=ESCAPE, digest="[/bold]" + ESCAPE)
    hostile = replace(
        manifest, suite="ruler" + ESCAPE, sources=(source, *manifest.sources[1:]),
        configs={**manifest.configs, "vt_1536": info},
    )  # fmt: skip
    (copy / MANIFEST).write_text(hostile.to_json(), encoding="utf-8")
    done = cli(command, copy, *(["--repo", "org/ruler"] if command == "card" else []))
    assert done.stdout + done.stderr
    assert not {"\x1b", "\x07", "\x9b"} & {*(done.stdout + done.stderr)}
    assert "Traceback" not in done.stderr
    if command == "verify":
        assert "sources.0.title expected" in done.stdout
        assert "sources.0.licence expected" in done.stdout
    as_json = cli("show", copy, "--json")
    assert json.loads(as_json.stdout)["vt_1536"]["question_digest"] == ESCAPE
