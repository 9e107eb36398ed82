"""Names that users give: configs, lengths, shards, repos, revisions; what is said of others."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ruler_builders.pipeline.build_dir import BuildDir
from ruler_data import RulerError, UsageError, names
from ruler_data.manifest import FILENAME, STATE
from ruler_data.tokenizers.chat_template import TODAY, TemplateError, run_template
from tests.test_manifest import BASE
from tests.test_sources import said_of

LENGTH = "not a number of tokens from 1 to 99999999, e.g. 4096 or 4k"
SHARD = "not a shard; write I/N with I from 0 to N-1, e.g. 0/8"
SAFE = (
    "is not a valid name; use letters, digits, '.', '_' and '-', at most 96 characters, beginning "
    "with a letter or a digit"
)
REPO = "is not a repo of the Hub; name one as OWNER/NAME, e.g. org/ruler"
#: A reader of names, a text, and what it is, or why it is none.
READ: list[tuple[Callable[[str], object], str, object]] = [
    (names.parse_config, "niah_single_1_4096", ("niah_single_1", 4096)),
    (names.parse_config, "vt_04096", "'vt_04096' is not a config; a config is named TASK_LENGTH, "
     "e.g. vt_4096"),
    (names.parse_config, "vt_4096 ", "'vt_4096 ' is not a config; a config is named TASK_LENGTH, "
     "e.g. vt_4096"),
    (names.parse_length, "1", 1), (names.parse_length, "99999999", 99_999_999),
    (names.parse_length, "95m", 95 << 20), (names.parse_length, "4K", 4096),
    (names.parse_length, "96m", f"--lengths '96m': {LENGTH}"),
    (names.parse_length, "0", f"--lengths '0': {LENGTH}"),
    (names.parse_length, "4kk", f"--lengths '4kk': {LENGTH}"),
    (names.parse_shard, "7/8", (7, 8)), (names.parse_shard, "0/1", (0, 1)),
    (names.parse_shard, "8/8", f"--shard '8/8': {SHARD}"),
    (names.parse_shard, "0/0", f"--shard '0/0': {SHARD}"),
    (names.check_repo, "org/ruler-qwen2.5", "org/ruler-qwen2.5"),
    *((names.check_repo, repo, f"repo {repo!r} {REPO}")
      for repo in ("ruler", "/ruler", "org/", "o/r.git", "o/r.ipynb", "o/r-", "o/r.", "o/a--b")),
    (names.check_repo, "o/a/b", f"repo 'a/b' {SAFE}"),
    (names.check_repo, "-o/r", f"repo '-o' {SAFE}"),
    (names.check_revision, "refs/pr/1", "refs/pr/1"),
    (names.check_revision, "a/../b", f"revision '..' {SAFE}"),
    (names.check_revision, "a..b", f"revision 'a..b' {SAFE}"),
    (lambda text: names.check_name("x", text), "a" * 96, "a" * 96),
    (lambda text: names.check_name("x", text), "a" * 97, f"x {'a' * 59!r}... {SAFE}"
     .replace("'... ", "...' ")),
    (names.released_version, "v1.20.3", "1.20.3"), (names.released_version, "v999999.0.0",
                                                    "999999.0.0"),
    *((names.released_version, tag, None)
      for tag in ("1.0.0", "v1.0", "v01.0.0", "v1.0.0-rc1", "v1.0.0\n", "v1000000.0.0")),
    (names.is_repo, "org/x", True), (names.is_repo, "org", False), (names.is_repo, "a/b/c", False),
    (lambda text: names.parse_names(text, "--tasks"), "vt, ,cwe", ("vt", "cwe")),
    (lambda text: names.parse_names(text, "--tasks"), "vt,all", ()),
    (names.parse_names, "vt,all", ("vt", "all")), (names.parse_names, ",", ()),
    (lambda text: names.parse_names(text, "--tasks"), ",",
     "--tasks is empty; give names, or `all`"),
    (lambda text: names.short_length(int(text)), "1024", "1K"),
    (lambda text: names.short_length(int(text)), "1025", "1,025"),
    (lambda text: names.near(text, ["vt_4096", "Cwe"]), "vt_4k", "; did you mean vt_4096"),
    (lambda text: names.near(text, ["vt_4096", "Cwe"]), "CWE", "; did you mean Cwe"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(READ)))
def test_a_name_is_read_or_refused_in_full(number: int) -> None:
    read, text, expected = READ[number]
    try:
        found = read(text)
    except UsageError as error:
        found = str(error)
    assert found == expected


def test_what_a_user_gave_is_quoted_in_one_short_line() -> None:
    assert names.quote("a" * 58) == repr("a" * 58)
    assert names.quote("a" * 59) == "'" + "a" * 59 + "...'"
    assert names.counted(0, "row") == "0 rows" and names.counted(1, "row") == "1 row"
    assert names.parse_names(None, "--x") == () and names.parse_names([1, "a "]) == ("1", "a")
    assert names.parse_lengths(["4k", 9], "--lengths") == (4096, 9)


#: A chat template, its variables, and what it renders or why it does not.
TEMPLATES: list[tuple[str, dict[str, object] | None, str]] = [
    ("{{ a }}\n{% if true %}\n b\n  {% endif %}c", {"a": 1}, "1\n b\nc"),
    ("{{ strftime_now('%d') }}", {}, TODAY),
    ('{{ {"a": "é"} | tojson }}', {}, '{"a": "é"}'),
    ("{% for x in [1, 2, 3] %}{% if x == 2 %}{% break %}{% endif %}{{ x }}{% endfor %}", {}, "1"),
    ("{{ a }}", None, ""),
    ("{% if %}", None, "it does not compile: Expected an expression, got 'end of statement block'"),
    ("{{ 1 / 0 }}", {}, "it fails: division by zero"),
    ("{{ raise_exception('no\ntwo') }}", {}, "it refuses one user turn: no\ntwo"),
    ("{{ [1] | random }}", {}, "it draws at random, so that no prompt is sent as it was counted"),
    ("{{ lipsum() }}", {}, "it draws at random, so that no prompt is sent as it was counted"),
    ("{{ a }}", {"a": "\ud800"}, "it renders '\\ud800', which is not Unicode text"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(TEMPLATES)))
def test_a_template_renders_as_in_transformers_or_says_why_not(number: int) -> None:
    source, variables, expected = TEMPLATES[number]
    try:
        found = run_template(source, variables)
    except TemplateError as error:
        found = str(error)
    assert found == expected


def test_a_folder_takes_a_build_if_it_is_empty_or_holds_one(tmp_path: Path) -> None:
    where = f"--out {str(tmp_path)!r}"
    BuildDir(tmp_path).check()
    BuildDir(tmp_path / "new").check()
    assert not (tmp_path / "new").exists()
    (tmp_path / "notes").touch()
    assert said_of(BuildDir(tmp_path).check) == (
        f"{where}: holds 'notes' and no build; name a new or empty folder"
    )
    assert said_of(BuildDir(tmp_path / "notes").check) == (
        f"--out {str(tmp_path / 'notes')!r}: is a file; name a folder"
    )
    for name in (STATE, FILENAME):
        (tmp_path / name).mkdir()
        BuildDir(tmp_path).check()
        (tmp_path / name).rmdir()


def test_a_seed_is_chosen_once_for_a_folder(tmp_path: Path) -> None:
    folder = BuildDir(tmp_path)
    assert folder.choose_seed(None, fresh=False) == 42 and folder.choose_seed(7, fresh=False) == 7
    drawn = {folder.choose_seed(None, fresh=True) for _ in range(8)}
    assert len(drawn) == 8 and all(2**127 <= seed < 2**128 for seed in drawn)
    for seed, again in ((2**63 + 5, True), (7, False)):
        (tmp_path / FILENAME).write_text(replace(BASE, seed=seed).to_json())
        assert (folder.choose_seed(None, fresh=True) == seed) == again


def test_a_build_locks_its_folder_and_leaves_no_part(tmp_path: Path) -> None:
    (tmp_path / "vt_4096").mkdir()
    for part in (tmp_path / "a.partial", tmp_path / "vt_4096" / "b.partial"):
        part.touch()
    with BuildDir(tmp_path).locked():
        assert not list(tmp_path.rglob("*.partial"))
        with pytest.raises(RulerError) as locked, BuildDir(tmp_path).locked():
            pass
        assert str(locked.value).startswith(
            f"{str(tmp_path)!r}: another build is running in this folder (process "
        ) and str(locked.value).endswith("); wait for it")
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot be written"), BuildDir(tmp_path / "file").locked():
        pass
