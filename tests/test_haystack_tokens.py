"""Special tokens spelled out in texts of one's own: refused where the tokenizer would read them."""

from pathlib import Path

import pytest

from ruler_data.tokenizers import load_tokenizer
from tests.builds import run
from tests.commands import one_line
from tests.test_haystack import TEXT, folder_of

#: Each tokenizer with what ends a turn of its model, and another model's.
TURNS = {
    "llama3": ("<|eot_id|>", "<|im_end|>"),
    "qwen2.5": ("<|im_end|>", "<|eot_id|>"),
    "tiny": ("</s>", "<|eot_id|>"),
}
ORDER = ("--suite", "domains", "--sources-kind", "sample", "--lengths", 1024, "--rows", 2)


@pytest.fixture
def spec(request: pytest.FixtureRequest, tiny: Path) -> str:
    name = request.param
    if name == "tiny":
        return str(tiny)
    return str(request.getfixturevalue("shared") / "tokenizers" / name)


def texts_with(folder: Path, token: str) -> Path:
    spoiled = TEXT.replace("Clause 7.", f"Clause 7{token}.", 1)
    return folder_of(folder, {"letters/a.txt": TEXT, "letters/old/b.md": spoiled})


@pytest.mark.parametrize(
    ("spec", "turn", "others"), [(k, *v) for k, v in TURNS.items()], indirect=["spec"], ids=[*TURNS]
)
def test_a_text_that_spells_a_special_token_is_refused_by_file_line_and_token(
    spec: str, turn: str, others: str, tmp_path: Path
) -> None:
    options = (*ORDER, "--tokenizer", spec, "--tasks", "niah_domain_letters")
    out = tmp_path / "out"
    spoiled = texts_with(tmp_path / "spoiled", turn)
    said = one_line(run(*options, "--haystack", spoiled, "--out", out), 2)
    assert f"domain letters: 'letters/old/b.md', line 15: '{turn}': " in said
    assert "would treat this text as a special token" in said
    assert "remove it or spell it differently" in said and not out.exists()
    # A task that does not hold the text, and another model's token, are no matter.
    elsewhere = (*options[:-1], "niah_domain_legal")
    assert run(*elsewhere, "--haystack", spoiled, "--out", tmp_path / "a").returncode == 0
    fine = texts_with(tmp_path / "fine", others)
    assert run(*options, "--haystack", fine, "--out", tmp_path / "b").returncode == 0


@pytest.mark.parametrize("spec", TURNS, indirect=True)
def test_what_is_called_special_is_one_token_wherever_it_stands(spec: str) -> None:
    tokenizer = load_tokenizer(spec)
    plain = tokenizer.count(["ab"])[0]
    assert tokenizer.special_tokens
    for token in tokenizer.special_tokens:
        assert tokenizer.count([f"a{token}b"])[0] <= plain + 2, token


@pytest.mark.parametrize("name", ["mistral", "mistral-v0.2"])
def test_the_library_of_mistral_reads_no_text_as_a_control_token(name: str) -> None:
    tokenizer = load_tokenizer(name)
    spelled = "".join(tokenizer.decode([number]) for number in range(20))
    assert "</s>" in spelled and tokenizer.special_tokens == ()
    assert min(tokenizer.prompt_ids(spelled, "", None)[1:]) > 20
