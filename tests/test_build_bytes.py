"""The same build gives the same bytes, whatever surrounds it, and tells nothing of where it was."""

import os
import re
import shutil
import socket
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ruler_data.tokenizers import load_tokenizer
from ruler_data.tokenizers.chat_template import TODAY
from tests.builds import Asked, assert_same, run, snapshot
from tests.commands import succeeded
from tests.conftest import ROOT

ALL = (
    "niah_single_1,niah_single_2,niah_single_3,niah_multikey_1,niah_multikey_2,niah_multikey_3,"
    "niah_multivalue,niah_multiquery,vt,cwe,fwe,qa_1,qa_2"
)

#: A locale that knows no UTF-8, and a Python that is told to believe it.
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@pytest.fixture(scope="session")
def asked(tiny: Path) -> Asked:
    """All 13 tasks, in a tokenizer that is loaded at once."""
    order = ("--sources", "sample", "--rows", 2, "--lengths", 1536)
    return (*order, "--tokenizer", tiny)


@pytest.fixture(scope="module")
def one_config(asked: Asked, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Every file of a build of one task."""
    folder = tmp_path_factory.mktemp("undisturbed") / "out"
    succeeded(run(*asked, "--tasks", "vt", "--out", folder))
    return snapshot(folder)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "env", "wrapper"),
    [
        (
            ("--workers", 3, "--tasks", f" {','.join(reversed(ALL.split(',')))} , vt,"),
            {"PYTHONHASHSEED": "0", "LC_ALL": "C", "TZ": "Pacific/Kiritimati", "COLUMNS": "20"}, (),
        ),
        (
            (), {"PYTHONHASHSEED": "4294967295", "PYTHONOPTIMIZE": "2", **ASCII},
            ("sh", "-c", 'umask 077; exec "$@"', "sh"),
        ),
    ],
    ids=["workers, order, locale, time zone", "optimized, ASCII, umask"],
)  # fmt: skip
def test_surroundings_leave_no_trace_in_any_byte(
    asked: Asked,
    tmp_path: Path,
    expected: dict[str, bytes],
    flags: tuple[object, ...],
    env: dict[str, str],
    wrapper: tuple[str, ...],
) -> None:
    succeeded(run(*asked, *flags, "--out", tmp_path / "out", env=env, wrapper=wrapper))
    assert_same(tmp_path / "out", expected)


@pytest.mark.slow
def test_a_task_alone_is_the_same(asked: Asked, tmp_path: Path, expected: dict[str, bytes]) -> None:
    succeeded(run(*asked, "--tasks", "qa_2", "--out", tmp_path / "out"))
    name = "qa_2_1536/test-00000-of-00001.parquet"
    assert (tmp_path / "out" / name).read_bytes() == expected[name]


@pytest.mark.parametrize(
    ("place", "env"),
    [
        ("~/ünïcode/$HOME", {}), pytest.param("ünïcode", ASCII, marks=pytest.mark.slow),
        ("-rf/a b;c", {}), ("file:x/[bold]/:100:", {}),
    ],
)  # fmt: skip
def test_a_folder_may_have_any_name(
    asked: Asked, tmp_path: Path, one_config: dict[str, bytes], place: str, env: dict[str, str]
) -> None:
    done = run(*asked, "--tasks", "vt", "--out", f"{place}/x", cwd=tmp_path, env=env)
    succeeded(done)
    assert_same(tmp_path / place / "x", one_config)
    assert env or f"{place}/x: 1 config" in done.stdout


def test_the_clock_decides_on_nothing(tiny: Path, tmp_path: Path) -> None:
    modules = [path for name in ("builders", "ruler_data") for path in (ROOT / name).rglob("*.py")]
    clock = re.compile(r"datetime|time\.(time|localtime|strftime)\b|\bclock_gettime")
    read = [path.name for path in modules if clock.search(path.read_text(encoding="utf-8"))]
    assert read == ["network.py"], "which waits until the day that a server names"
    shutil.copyfile(tiny / "tokenizer.json", tmp_path / "tokenizer.json")
    template = "{{ strftime_now('%Y') }}{{ messages[0]['content'] }}"
    (tmp_path / "chat_template.jinja").write_text(template, encoding="utf-8")
    assert load_tokenizer(str(tmp_path)).render("?", "") == f"{TODAY}?"


@pytest.mark.slow
def test_no_file_tells_of_a_path_a_user_or_a_machine(tmp_path: Path, shared: Path) -> None:
    home = tmp_path / "home" / "zq7user"
    home.mkdir(parents=True)
    for name in ("sources", "tokenizers/llama3"):
        shutil.copytree(shared / name, home / name, copy_function=shutil.copyfile)
    who = dict.fromkeys(("USER", "LOGNAME", "USERNAME"), "zq7user")
    order = ("--tasks", "niah_single_2,vt,qa_1,qa_2", "--rows", 2, "--lengths", 2048)
    done = run(
        *(*order, "--out", home / "out"),
        *("--sources", home / "sources", "--tokenizer", home / "tokenizers" / "llama3"),
        cwd=home,
        env={**who, "HOME": str(home)},
    )
    succeeded(done)
    files = {name: data for name, data in snapshot(home / "out").items() if data}
    assert len(files) == 4 + 3  # LICENSES.md, README.md, manifest.json
    for name in [name for name in files if name.endswith(".parquet")]:
        table = pq.read_table(home / "out" / name)
        files[name] += repr((table.schema.metadata, table.to_pylist())).encode()
    forbidden = ["zq7user", str(tmp_path), str(shared), sys.prefix, os.environ["RULER_CACHE"]]
    forbidden.append(os.getcwd())  # noqa: PTH109
    forbidden += [socket.gethostname()] if len(socket.gethostname()) > 5 else []
    told = [(name, word) for name in files for word in forbidden if word.encode() in files[name]]
    assert told == []
