"""Counters: the fast one is used where it is exact, and only there."""

import hashlib
import json
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path

import numpy as np
import pytest
import tiktoken
from hypothesis import example, given
from hypothesis import strategies as st

import ruler_builders
from ruler_builders.pipeline.build_one import (
    PROBE_LENGTH,
    made_rows,
    open_context,
    probes,
    recounted,
    worker_context,
)
from ruler_builders.pipeline.plan import BuildPlan
from ruler_builders.tasks import draw
from ruler_data import TASKS, RulerError, UsageError
from ruler_data.suites import RULER
from ruler_data.tokenizers import PromptTokenizer, load_tokenizer
from ruler_data.tokenizers.hf import TokenizerFile
from ruler_data.tokenizers.protocol import (
    FUZZ,
    Counter,
    CounterName,
    Ids,
    Text,
    check_parity,
    decoded,
    gigatoken_counter,
)
from ruler_data.tokenizers.registry import REGISTRY
from tests.conftest import LETTERS, Cli
from tests.rows import counted

NAMES = ["llama3", "qwen2.5"]


#: A counter that is right on all but one kind of text.
WRONG = Counter("wrong 1.0", lambda text: [1, 2] if "don't" in decoded(text) else [1])
RIGHT = Counter("right 1.0", lambda text: [1])


@cache
def counters(folder: str) -> tuple[Counter, Counter]:
    file = TokenizerFile(Path(folder) / "tokenizer.json")
    return Counter("gigatoken", file.fast_ids), Counter("tokenizers", file.ids)


#: Characters that Unicode has assigned as far as this Python knows. What is newer (U+323B0, of
#: 2025) is a letter to one library and none to the other, so that they do not count it alike.
KNOWN = st.characters(exclude_categories=("Cn", "Cs"))


@pytest.mark.slow
@given(texts=st.lists(st.text(KNOWN, max_size=60), max_size=20))
def test_the_fast_counter_counts_any_text_the_same(llama3: str, texts: list[str]) -> None:
    fast, stock = counters(llama3)
    assert fast.count(texts) == stock.count(texts)


def test_a_difference_is_found_and_named() -> None:
    with pytest.raises(UsageError, match=r"other ids than .* on .I don't"):
        check_parity(WRONG, RIGHT, ["I do", "I don't"])
    check_parity(RIGHT, RIGHT, ["I do", "I don't"])
    miscounts = replace(RIGHT, count_batch=WRONG.count)  # the same ids, and not as many of them
    with pytest.raises(UsageError, match=r"other ids than .* on .I don't"):
        check_parity(miscounts, RIGHT, ["I do", "I don't"])


def test_a_difference_on_odd_texts_alone_is_found_though_the_counts_are_right() -> None:
    odd = Counter("odd 1.0", lambda text: [2] if "3.14159" in decoded(text) else [1])
    with pytest.raises(
        UsageError, match=r"^odd 1\.0 gives other ids than right 1\.0 on '1 22 333 .*3\.14159"
    ):
        check_parity(odd, RIGHT, ["I do"])


@pytest.mark.slow
def test_the_counter_decides_on_no_byte_of_the_rows(shared: Path, tmp_path: Path) -> None:
    files = []
    names: tuple[CounterName, ...] = ("tokenizers", "gigatoken")
    for counter in names:
        folder = tmp_path / counter
        ruler_builders.build(
            str(shared / "tokenizers" / "qwen2.5"), sources="sample", lengths=[4096], rows=1,
            counter=counter, out=folder, progress=False,
        )  # fmt: skip
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        assert manifest["tokenizer"]["engine"].startswith(counter)
        files.append({p.parent.name: p.read_bytes() for p in folder.glob("*/*.parquet")})
    assert len(files[0]) == 13 and files[0] == files[1]


@pytest.mark.parametrize("name", ["mistral", "mistral-v0.2", "mistral-v3", "mistral-v7"])
@example(texts=[*FUZZ])
@example(texts=["The ETH is hesitant"])  # words of Tekken's file beyond what the models know of it
@given(texts=st.lists(st.text(LETTERS, max_size=60), min_size=1, max_size=5))
def test_mistral_prompts_are_counted_as_the_vendor_does(name: str, texts: list[str]) -> None:
    tokenizer = mistral(name)
    assert tokenizer.info.engine.startswith("gigatoken")
    for text in texts:
        assert tokenizer.count_prompt(text, " It is: ") == tokenizer.recount_prompt(
            text, " It is: "
        )


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_tokenizer_tells_which_counter_it_took(name: str, shared: Path) -> None:
    tokenizer = load_tokenizer(str(shared / "tokenizers" / name))
    names: list[CounterName] = ["tokenizers", "gigatoken"]
    for counter in names:
        assert tokenizer.use(counter, probes) == ""
        assert tokenizer.info.engine.startswith(counter)


@lru_cache
def mistral(name: str) -> PromptTokenizer:
    tokenizer = load_tokenizer(name)
    assert tokenizer.use("gigatoken") == ""
    return tokenizer


def test_a_counter_that_cannot_read_the_tokenizer_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"gigatoken cannot load x\.json"):
        gigatoken_counter("x.json", lambda g: g.Tokenizer(tmp_path / "x.json"))


def test_a_wrong_counter_is_refused_or_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = load_tokenizer("mistral-v0.2")
    reference = tokenizer.info.engine
    wrong = replace(WRONG, version="gigatoken 0.0")
    monkeypatch.setattr("ruler_data.tokenizers.mistral._fast", lambda path, changed: wrong)
    assert "gigatoken 0.0 gives other ids than mistral-common" in tokenizer.use("auto")
    assert tokenizer.use("tokenizers") == ""
    with pytest.raises(UsageError, match="gives other ids"):
        tokenizer.use("gigatoken")
    assert tokenizer.info.engine == reference


def test_the_reference_counts_again_once_it_is_asked_for() -> None:
    tokenizer = load_tokenizer("mistral-v0.2")
    reference = tokenizer.info.engine
    assert tokenizer.use("gigatoken") == ""
    assert tokenizer.info.engine.startswith("gigatoken")
    assert tokenizer.use("tokenizers") == ""
    assert tokenizer.info.engine == reference


def test_a_tokenizer_file_that_truncates_and_pads_changes_no_count(
    tiny: Path, tmp_path: Path
) -> None:
    from tokenizers import Tokenizer

    texts = ["one", "one two three four five six seven eight nine"]
    file = Tokenizer.from_file(str(tiny / "tokenizer.json"))
    file.enable_truncation(4)
    file.enable_padding(length=6)
    file.save(str(tmp_path / "tokenizer.json"))
    tokenizer, plain = load_tokenizer(str(tmp_path)), load_tokenizer(str(tiny))
    counts = tokenizer.count(texts)
    assert counts == plain.count(texts)
    assert counts[0] < 4 and counts[1] > 6


def test_a_counter_that_is_named_and_does_not_read_tiktokens_encodings_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = REGISTRY["gpt-4o"]
    assert known.encoding
    # OpenAI's own ranks are not here; tiktoken reads no file of an encoding that it has in memory.
    (tmp_path / hashlib.sha1(known.encoding.url.encode()).hexdigest()).touch()
    ranks = {bytes([byte]): byte for byte in range(256)}
    small = tiktoken.Encoding("small", pat_str=".", mergeable_ranks=ranks, special_tokens={})
    monkeypatch.setitem(tiktoken.registry.ENCODINGS, known.source, small)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    tokenizer = load_tokenizer("gpt-4o")
    assert tokenizer.use("auto") == tokenizer.use("tokenizers") == ""
    with pytest.raises(UsageError, match=r"^counter gigatoken does not read tiktoken's encodings$"):
        tokenizer.use("gigatoken")


@pytest.mark.parametrize("name", ["tiny", "mistral-v0.2"])
def test_no_probes_are_made_for_the_reference(name: str, tiny: Path) -> None:
    def unwanted() -> list[tuple[str, str]]:
        msg = "probes were made"
        raise AssertionError(msg)

    tokenizer = load_tokenizer(str(tiny) if name == "tiny" else name)
    assert tokenizer.use("tokenizers", unwanted) == ""
    with pytest.raises(AssertionError, match="probes were made"):
        tokenizer.use("gigatoken", unwanted)


def test_a_counter_is_tried_on_a_prompt_of_every_task() -> None:
    for (content, prefix), task in zip(probes(), TASKS.values(), strict=True):
        draft = draw(task, counted("mistral"), 0, 4096, 4000)
        assert draft.prompt.question[:20] in content and draft.prompt.head[:60] in content
        assert prefix and prefix[:12] == draft.prompt.prefix[:12]
        assert 0.95 * PROBE_LENGTH < len(content.encode()) < PROBE_LENGTH


def test_every_process_checks_its_counter(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = Counter.ids

    def wrong(self: Counter, text: Text) -> Ids:
        ids = exact(self, text)
        if self.version.startswith("gigatoken") and "special magic number" in decoded(text):
            return np.append(ids, 1)
        return ids

    monkeypatch.setattr(Counter, "ids", wrong)
    monkeypatch.setenv("RULER_OFFLINE", "1")  # a worker sets both, which are to end with the test
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    plan = BuildPlan("mistral-v0.2", RULER, Path("out"), 42, sources_kind="sample")
    for context in (open_context(plan), worker_context(plan)):
        assert not context.tokenizer_info.engine.startswith("gigatoken")


@pytest.mark.parametrize("more", [-1, 1])
def test_a_fast_count_of_a_row_is_compared_with_the_reference(more: int) -> None:
    plan = BuildPlan("mistral-v0.2", RULER, Path("out"), 42, sources_kind="sample")
    context = open_context(plan)
    fast = context.tokenizer._fast
    name = "niah_single_1_4096"
    assert fast and len([*made_rows(plan, context, name, 1, [0], set())]) == 1
    wrong = fast._replace(count_prompt=lambda *text: fast.count_prompt(*text) + more)
    context.tokenizer._fast = wrong
    with pytest.raises(RulerError, match=rf"{name}/0: .* and the reference"):
        next(made_rows(plan, context, name, 1, [0], set()))


@pytest.mark.parametrize("lengths", [(4096,), (4096, 8192), RULER.lengths])
@pytest.mark.parametrize("tasks", [1, 2, 13])
def test_the_reference_counts_rows_of_one_config_of_each_length(
    lengths: tuple[int, ...], tasks: int
) -> None:
    chosen = dict([*RULER.tasks.items()][:tasks])
    plan = BuildPlan("mistral", replace(RULER, tasks=chosen, lengths=lengths), Path("out"), 42)
    counted = [plan.configs[name] for name in plan.configs if recounted(plan, name)]
    assert [length for _, length in counted] == [*lengths]
    assert len({task.name for task, _ in counted}) == min(len(lengths), len(chosen))


def test_a_tokenizer_too_fine_for_some_task_builds_the_others(tmp_path: Path, cli: Cli) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers

    letters = pre_tokenizers.ByteLevel.alphabet()
    vocabulary = {letter: number for number, letter in enumerate(sorted(letters))}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    folder = tmp_path / "letters"
    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))
    sources = ("--sources", "sample", "--rows", 1, "--lengths", "4k")
    common = ("build", "--tokenizer", folder, *sources)
    built = cli(*common, "--tasks", "niah_single_2", "--out", tmp_path / "out")
    assert built.returncode == 0, built.stderr
    refused = cli(*common, "--tasks", "cwe", "--out", tmp_path / "cwe")
    assert refused.returncode == 2 and "cwe" in refused.stderr and "needs" in refused.stderr
