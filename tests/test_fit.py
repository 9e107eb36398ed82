"""Fitting: as long as allowed, never longer, as the model will see it."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from mistral_common.protocol.instruct.messages import UserMessage
from mistral_common.protocol.instruct.request import ChatCompletionRequest
from mistral_common.tokens.tokenizers.mistral import MistralTokenizer

from ruler_builders.checks.solvers import fill_finding
from ruler_builders.pipeline import fit
from ruler_builders.pipeline.fit import Target, answer_need, make_row, need
from ruler_builders.rows.tokenized_sources import TokenizedSources
from ruler_builders.sources import Library
from ruler_data import TASKS, BudgetError, RulerError, UsageError
from ruler_data.manifest import TokenizerInfo
from ruler_data.names import config_file
from ruler_data.parquet import read_rows
from ruler_data.row import utf8
from ruler_data.suites import load_suite
from ruler_data.tasks import Qa, task_of
from ruler_data.tokenizers.protocol import Text, decoded
from tests.builds import run
from tests.commands import one_line, succeeded
from tests.conftest import Cli
from tests.rows import counted, make, target

LLAMA3 = (
    "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\n{content}<|eot_id|>"
    "<|start_header_id|>assistant<|end_header_id|>\n\n{prefix}"
)


class Letters:
    """A tokenizer whose units do not add up: three bytes a token, counted over the whole text."""

    info = TokenizerInfo("letters", None, None, {}, 0, 0, "none")
    special_tokens: tuple[str, ...] = ()

    def count(self, texts: Sequence[Text]) -> list[int]:
        return [-(-len(utf8(text)) // 3) for text in texts]

    def count_prompt(self, content: Text, answer_prefix: str) -> int:
        return self.count([decoded(content) + answer_prefix])[0] + 7

    def recount_prompt(self, content: str, answer_prefix: str) -> int:
        return self.count_prompt(content, answer_prefix)

    def use(self, counter: str, probes: object) -> str:
        return ""


@pytest.fixture(scope="module")
def llama3_oracle(llama3: str) -> tokenizers.Tokenizer:
    return tokenizers.Tokenizer.from_file(f"{llama3}/tokenizer.json")


@pytest.fixture(scope="module")
def tekken_oracle() -> MistralTokenizer[Any, Any, Any, Any, Any]:
    return MistralTokenizer.v3(is_tekken=True)


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_the_length_is_that_of_the_prompt_as_llama_3_sees_it(
    task: str, llama3: str, llama3_oracle: tokenizers.Tokenizer
) -> None:
    for index in range(3):
        row = make(llama3, task, index)
        text = LLAMA3.format(content=row.context + row.question, prefix=row.answer_prefix)
        tokens = llama3_oracle.encode(text, add_special_tokens=False).ids
        assert row.length == len(tokens) + row.max_new_tokens
        assert tokens.count(tokens[0]) == 1, "one BOS"


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_the_length_is_that_of_the_prompt_as_tekken_sees_it(
    task: str, tekken_oracle: MistralTokenizer[Any, Any, Any, Any, Any]
) -> None:
    row = make("mistral", task, 0)
    message = UserMessage(content=row.context + row.question)
    turn = tekken_oracle.encode_chat_completion(ChatCompletionRequest(messages=[message]))
    vendor = tekken_oracle.instruct_tokenizer.tokenizer
    prefix = vendor.encode(row.answer_prefix, bos=False, eos=False)
    assert row.length == len(turn.tokens) + len(prefix) + row.max_new_tokens


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", ["llama3", "qwen2.5", "mistral", "mistral-v0.2"])
def test_rows_are_full_and_never_over(task: str, name: str, shared: Path) -> None:
    folder = f"{shared}/tokenizers/{name}"
    tokenizer = name if name.startswith("mistral") else folder
    rows = [make(tokenizer, task, index) for index in range(8)]
    fills = [row.length / 4096 for row in rows]
    assert max(fills) <= 1
    assert min(fills) >= 0.99
    assert sum(fills) / len(fills) >= 0.995


@pytest.mark.parametrize("task", TASKS)
def test_a_tokenizer_whose_units_do_not_add_up_is_fitted_all_the_same(task: str) -> None:
    strange = TokenizedSources(42, Library(kind="sample"), Letters())
    row = make_row(TASKS[task], strange, 0, Target(4096, 7))
    assert 0.98 * 4096 <= row.length <= 4096


@pytest.mark.parametrize(
    ("length", "error", "said"), [(640, UsageError, "at least 1024"), (1024, RulerError, "report")]
)
def test_exact_rows_that_no_text_fits_say_from_where_on_they_do(
    length: int, error: type[RulerError], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fit, "ATTEMPTS", 0)
    task = load_suite("pages").tasks["niah_pages_single"]
    sources = TokenizedSources(42, Library(kind="sample"), Letters())
    with pytest.raises(error, match=f"row 0 cannot be fitted into {length} tokens.*{said}"):
        make_row(task, sources, 0, Target(length, 7))


@pytest.mark.parametrize("task", TASKS)
def test_a_row_fits_at_its_need_and_not_below(task: str) -> None:
    context, wide = counted("mistral"), target("mistral", 1000)
    least = need(TASKS[task], context, 0, wide)
    length = make_row(TASKS[task], context, 0, replace(wide, length=least)).length
    assert length <= least
    reserved = replace(wide, length=1300, extra_reserve=300)
    assert need(TASKS[task], context, 0, reserved) == least + 300
    for shorter, fits in ((wide, least), (reserved, least + 300)):
        with pytest.raises(BudgetError) as refused:
            make_row(TASKS[task], context, 0, replace(shorter, length=fits - 1))
        assert refused.value.task == task
        assert refused.value.need >= fits


@pytest.mark.parametrize("task", TASKS)
def test_a_row_with_a_reserve_is_the_row_of_a_length_that_is_so_much_less(task: str) -> None:
    reserved = replace(target("mistral", 5096), extra_reserve=1000)
    made = make_row(TASKS[task], counted("mistral"), 3, reserved)
    assert made.unpack() == make("mistral", task, 3, 4096)


@pytest.mark.parametrize("task", TASKS)
def test_every_task_reaches_a_quarter_of_a_million_tokens(task: str) -> None:
    row = make("mistral", task, 0, 262_144)
    assert 0.999 * 262_144 <= row.length <= 262_144


@pytest.mark.parametrize(("suite", "name"), [("ruler", "qa_1"), ("ruler2", "qa_easy")])
def test_an_answer_needs_room_for_one_gold_answer_where_one_is_enough(
    suite: str, name: str
) -> None:
    task = load_suite(suite).tasks[name]
    tokens = counted("mistral").tokenizer.count(make("mistral", name, 0).outputs)
    assert answer_need(task, counted("mistral"), 0, target("mistral", 4096)) == min(tokens)


def test_exact_rows_with_a_reserve_end_so_many_tokens_earlier(tmp_path: Path) -> None:
    order = ("--suite", "pages", "--tasks", "niah_pages_single", "--lengths", 2048, "--rows", 3)
    inputs = ("--tokenizer", "mistral", "--sources", "sample", "--reserve", 100)
    succeeded(run(*order, *inputs, "--out", tmp_path / "out"))
    rows = read_rows(tmp_path / "out" / config_file("niah_pages_single_2048"))
    task = load_suite("pages").tasks["niah_pages_single"]
    assert [row.length for row in rows] == [1948 - task.below(index) for index in range(3)]


#: Lines of 160 characters and 600 tokens and more: no haystack of them ends close to 4,096.
GLYPHS = "\N{ALCHEMICAL SYMBOL FOR AIR}\N{ALCHEMICAL SYMBOL FOR FIRE}" * 80 + "\n"
ORDER = (
    "--suite", "domains", "--tokenizer", "mistral", "--sources", "sample",
    "--tasks", "niah_domain_glyphs", "--rows", 2,
)  # fmt: skip


@pytest.fixture(scope="module")
def glyphs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    (folder / "glyphs").mkdir()
    (folder / "glyphs" / "signs.txt").write_text(GLYPHS * 9, encoding="utf-8")
    return folder


def test_texts_too_coarse_are_refused(glyphs: Path, tmp_path: Path, cli: Cli) -> None:
    order = (*ORDER, "--haystack", glyphs)
    said = one_line(run(*order, "--lengths", 4096, "--out", tmp_path / "a"), 1)
    assert "niah_domain_glyphs_4096/" in said and "at least 4056 are needed" in said
    assert "use a greater length, or texts with more and shorter lines" in said
    assert not list(tmp_path.glob("a/*/*.parquet")) and not (tmp_path / "a/manifest.json").exists()
    # What is shorter promises no fill, and what keeps room free promises none of that room.
    short = run(*order, "--lengths", 2048, "--out", tmp_path / "b")
    kept = run(*order, "--lengths", 4096, "--reserve", 1, "--out", tmp_path / "c")
    for done, folder in ((short, "b"), (kept, "c")):
        assert done.returncode == 0, done.stderr
        assert cli("verify", tmp_path / folder, "--haystack", glyphs).returncode == 0


@pytest.mark.parametrize(
    ("length", "reserve", "lengths", "row"),
    [
        (4096, 0, [4056, 4096], None),
        (4096, 0, [4056, 4055], 1),
        (4095, 0, [1], None),
        (5000, 904, [4056], None),
        (5000, 905, [1], None),
        (100_000, 0, [99_000, 98_999, 98_998], 2),
        (4096, 0, [], None),
    ],
)
def test_a_row_fills_99_percent_of_the_room_that_it_has_from_4096_tokens_on(
    length: int, reserve: int, lengths: list[int], row: int | None
) -> None:
    found = fill_finding(TASKS["vt"], length, reserve, lengths)
    assert (found and found[0]) == row
    alone = task_of("qa_alone", Qa("squad", "none"), "x")
    assert fill_finding(alone, length, reserve, lengths) is None
