"""A stranger's card: hostile YAML is named, quickly, and nothing in it is obeyed."""

from pathlib import Path

import pytest

from tests.conftest import Cli
from tests.tampering import copy_of, edit_card, must_find

LEVELS = 40
BOMB = "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, LEVELS))
FIRST = "- config_name: niah_single_1_4096\n  version: 1.0.0\n"

CARDS = {
    "an alias bomb": (
        FIRST,
        f"- config_name: *a{LEVELS - 1}\n  version: 1.0.0\n",
        ("configs:\n", f"a0: &a0 [x, x]\n{BOMB}configs:\n"),
    ),
    "a Python object": (
        FIRST,
        "- config_name: !!python/object/apply:os.system ['touch obeyed']\n  version: 1.0.0\n",
        None,
    ),
    "a key twice": (FIRST, FIRST + "  version: 1.0.0\n", None),
    "a version that YAML takes for a number": (FIRST, FIRST.replace("1.0.0", "1.10"), None),
    "a name that YAML takes for false": (FIRST, FIRST.replace("niah_single_1_4096", "no"), None),
    "nested without end": (FIRST, "- config_name: " + "[" * 20_000 + "\n", None),
    "configs once more": ("configs:\n", "configs:\nconfigs:\n", None),
    "no end": ("\n---\n\n# RULER", "\n\n# RULER", None),
}


@pytest.mark.parametrize("name", CARDS)
def test_hostile_yaml_in_a_card_is_named(
    name: str, sample_build: Path, tmp_path: Path, cli: Cli
) -> None:
    before, after, more = CARDS[name]
    copy = copy_of(sample_build, tmp_path)
    for old, new in filter(None, [(before, after), more]):
        assert old in (copy / "README.md").read_text(encoding="utf-8")
        edit_card(copy, old, new)
    must_find(cli("verify", copy), "README.md: line ")
    assert not list(tmp_path.rglob("obeyed")) and not Path("obeyed").exists()
