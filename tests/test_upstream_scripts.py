"""Editions beside upstream's own scripts, where `RULER_UPSTREAM` names a clone of NVIDIA/RULER."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ruler_builders.sources.words import wonderwords_assets
from ruler_builders.upstream import EDITIONS, TEMPLATES, Edition

ROOT = Path(__file__).resolve().parents[1]
UPSTREAM = os.environ.get("RULER_UPSTREAM", "")

pytestmark = pytest.mark.skipif(not UPSTREAM, reason="RULER_UPSTREAM names no clone")


def test_rows_are_those_of_the_scripts(shared: Path, tmp_path: Path) -> None:
    """Tasks without needles: for those upstream sorts six million words, which takes a minute."""
    (tmp_path / "words" / "3.0.1").mkdir(parents=True)
    (tmp_path / "words" / "3.0.1" / "wonderwords").symlink_to(wonderwords_assets().parent)
    command: list[str | Path] = [
        sys.executable,
        ROOT / "benchmarks" / "editions.py",
        "--upstream",
        UPSTREAM,
    ]
    command += ["--sources", shared / "sources", "--tokenizers", shared / "tokenizers"]
    command += ["--words", tmp_path / "words", "--scratch", tmp_path / "scratch"]
    for case in ("2026-07-vt-4096-llama3-base-3.0.1", "2025-01-vt-4096-qwen2.5-base-3.0.1",
                 "2024-04-vt-4096-llama3-meta-chat-3.0.1", "2026-07-qa_1-4096-llama3-base-3.0.1",
                 "2025-01-fwe-8192-qwen2.5-base", "2026-07-cwe-4096-llama3-base-3"):  # fmt: skip
        subprocess.run([*command, "--out", tmp_path / "out", "--only", case], check=True)
    records = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    assert len(records) >= 6 and all(record["finished"] for record in records)
    assert {record["difference"] for record in records} == {""}


@pytest.mark.parametrize("edition", EDITIONS.values(), ids=EDITIONS)
def test_chat_templates_are_upstreams(edition: Edition, tmp_path: Path) -> None:
    command = ["git", "-C", UPSTREAM, "show", f"{edition.commit}:scripts/data/template.py"]
    path = tmp_path / "template.py"
    path.write_bytes(subprocess.run(command, check=True, capture_output=True).stdout)
    spec = importlib.util.spec_from_file_location("template", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.Templates.items() <= TEMPLATES.items()
