"""What `run --check` counts, and the window that a config gives."""

from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest

from ruler_data import Row
from ruler_data.errors import UsageError
from ruler_data.row import Span
from ruler_eval.running.check import Cost, Diagnosis, Finding, cache_bytes
from ruler_eval.running.config import EvalConfig
from ruler_eval.running.models import (
    Model,
    identify,
    is_recurrent,
    trained_window,
    window,
    with_overrides,
    with_yarn_window,
)
from ruler_eval.running.openai import _card_of
from ruler_eval.running.prompts import PROTOCOLS, PromptFormat, ProtocolName
from ruler_eval.running.ray import RayOptions, Room, _room
from ruler_eval.running.spending import Prices

LLAMA_8B: dict[str, object] = {
    "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "vocab_size": 128256,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
}  # fmt: skip
SLIDING = {**LLAMA_8B, "sliding_window": 1024, "layer_types": [
    *["sliding_attention"] * 24, *["full_attention"] * 8,
]}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "by_hand"),
    [
        (LLAMA_8B, 2 * 2 * 32 * 8 * 128 * 131_072),
        ({**LLAMA_8B, "head_dim": 64}, 2 * 2 * 32 * 8 * 64 * 131_072),
        (SLIDING, 2 * 2 * 8 * 128 * (24 * 1024 + 8 * 131_072)),
        ({**LLAMA_8B, "sliding_window": 4096}, None),  # of which layers, it does not say
        ({**LLAMA_8B, "kv_lora_rank": 512}, None),
        ({**LLAMA_8B, "linear_num_key_heads": 16}, None),
        ({}, None),
    ],
)
def test_keys_and_values_are_by_hand(config: dict[str, object], by_hand: int | None) -> None:
    assert cache_bytes(config, 131_072) == by_hand


YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
THETA = {**YARN, "rope_theta": 1e6}
QWEN = {"max_position_embeddings": 32768, "rope_theta": 1e6}
INNER = {"model_type": "some", "text_config": QWEN}


@pytest.mark.parametrize(
    ("config", "tokens"),
    [
        ({}, None),
        (QWEN, 32768),
        ({**QWEN, "rope_scaling": {"type": "yarn", **YARN}}, 131072),  # as its card tells it
        ({**QWEN, "max_position_embeddings": 131072, "rope_scaling": YARN}, 131072),
        ({**QWEN, "max_position_embeddings": 163840, "rope_scaling": {
            "type": "yarn", "factor": 40, "original_max_position_embeddings": 4096,
        }}, 163840),
        ({"max_position_embeddings": 131072, "rope_scaling": {
            "rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192,
        }}, 131072),
        ({"max_position_embeddings": 4096, "rope_scaling": {"type": "linear", "factor": 4}}, 16384),
        ({"model_type": "gemma3_text", "max_position_embeddings": 131072, "rope_scaling": {
            "rope_type": "linear", "factor": 8.0,
        }}, 131072),
        ({"max_position_embeddings": 65536, "rope_parameters": {
            "sliding_attention": {"rope_type": "default"}, "full_attention": {
                "rope_type": "yarn", "factor": 8, "original_max_position_embeddings": 8192,
            },
        }}, 65536),
        (INNER, 32768),
        ({**QWEN, "rope_scaling": {**YARN, "factor": "four"}}, None),
        ({**QWEN, "rope_scaling": {**YARN, "original_max_position_embeddings": None}}, None),
    ],
)  # fmt: skip
def test_the_window_is_what_positions_reach(config: dict[str, object], tokens: int | None) -> None:
    assert window(config) == tokens


@pytest.mark.parametrize("name", ["rope_parameters", "rope_scaling"])
def test_overrides_reach_the_window_and_the_engine_is_told(name: str) -> None:
    config = with_overrides(QWEN, {name: THETA})
    assert window(config) == 131072
    passed_on = with_yarn_window(config, {name: THETA})
    assert passed_on == {"max_position_embeddings": 131072, name: THETA}


def test_overrides_of_a_text_config_stay_there() -> None:
    overrides = {"text_config": {"rope_parameters": THETA}}
    config = with_overrides(INNER, overrides)
    assert window(config) == 131072 and window(INNER) == 32768
    longer = {"max_position_embeddings": 131072, "rope_parameters": THETA}
    assert with_yarn_window(config, overrides) == {"text_config": longer}
    assert config["text_config"]["rope_theta"] == 1e6


def test_a_limit_on_the_positions_that_the_user_sets_is_the_engines() -> None:
    limited = {"rope_parameters": THETA, "max_position_embeddings": 65536}
    assert with_yarn_window(with_overrides(QWEN, limited), limited) == limited
    inner = {"text_config": limited}
    assert with_yarn_window(with_overrides(INNER, inner), inner) == inner


def test_a_model_without_yarn_is_left_alone() -> None:
    assert with_yarn_window(QWEN, {}) == {}


def test_overrides_without_the_base_of_rope_are_refused() -> None:
    with pytest.raises(UsageError, match=r"add rope_theta \(the model's own is 1000000\.0\)"):
        with_overrides(QWEN, {"rope_parameters": YARN})
    with pytest.raises(UsageError, match=r"the model's own is 1000000\.0"):
        with_overrides({"rope_scaling": None, "rope_parameters": THETA}, {"rope_parameters": YARN})


def test_what_a_run_costs_is_a_line_for_each_length_and_one_for_all() -> None:
    tokens = {8192: (80_000, 1_200), 4096: (40_000, 1_200)}
    assert Cost(tokens).lines == [
        "4K: reads 40,000 tokens, writes at most 1,200 tokens",
        "8K: reads 80,000 tokens, writes at most 1,200 tokens",
        "all lengths: reads 120,000 tokens, writes at most 2,400 tokens",
    ]
    cost = Cost({4096: (2_000_000, 500_000)}, Prices(2.0, 8.0), 65_248_815_744, 17_179_869_184)
    assert cost.lines == [
        "4K: reads 2,000,000 tokens, writes at most 500,000 tokens, costs at most 8.00 (unit of "
        "--prices)",
        "weights: 65.25 GB",
        "keys and values of the longest row: 17.180 GB (bf16)",
    ]
    assert cost.to_record() == {
        "prompt_tokens": 2_000_000, "answer_tokens": 500_000, "money": 8.0,
        "weight_bytes": 65_248_815_744, "cache_bytes": 17_179_869_184,
        "lengths": {"4096": {"prompt_tokens": 2_000_000, "answer_tokens": 500_000}},
    }  # fmt: skip
    assert Cost(tokens).money is None and Cost(tokens).totals == (120_000, 2_400)


def test_findings_come_first_and_an_error_ends_with_1() -> None:
    findings = [Finding("error", "vt_4096/3", "too long"), Finding("note", "server", "read 9")]
    found = Diagnosis(findings, 40, Cost({4096: (9, 1)}))
    assert str(found).splitlines() == [
        "error: vt_4096/3: too long",
        "note: server: read 9",
        "4K: reads 9 tokens, writes at most 1 tokens",
        "40 rows examined: 1 error",
    ]
    assert (found.exit_status, found.failure) == (1, "1 error: fix before you run")
    fine = Diagnosis(findings[1:], 1, Cost({}))
    assert (fine.exit_status, fine.failure) == (0, None)
    assert str(fine).endswith("1 row examined: 0 errors")
    assert found.to_record()["errors"] == 1 and fine.to_record()["findings"] == [
        {"level": "note", "about": "server", "message": "read 9"}
    ]


@pytest.mark.parametrize(
    ("config", "is_so"),
    [
        ({"mamba_d_state": 16}, True),
        ({"text_config": {"ssm_state_size": 1}}, True),
        ({"model_type": "rwkv7"}, True),
        ({"layer_types": ["full_attention", "linear_attention"]}, True),
        ({"layer_types": ["full_attention"], "model_type": "llama"}, False),
        ({}, False),
    ],
)
def test_a_model_with_a_state_of_fixed_size_is_known_by_its_config(
    config: dict[str, object], is_so: bool
) -> None:
    assert is_recurrent(config) is is_so


def test_what_a_model_was_trained_on_is_the_longest_that_its_config_states() -> None:
    layers = {"a": {"original_max_position_embeddings": 4096},
              "b": {"original_max_position_embeddings": 8192}}  # fmt: skip
    assert trained_window({"rope_parameters": layers}) == 8192
    assert trained_window({"text_config": {"rope_scaling": layers["a"]}}) == 4096
    assert trained_window({"rope_scaling": {"original_max_position_embeddings": "9"}}) is None
    assert trained_window({}) is None


def test_the_identity_of_weights_changes_with_their_name_size_config_and_blocks(
    tmp_path: Path,
) -> None:
    assert identify(tmp_path) is None
    seen = set[str]()
    for name, size, place, config in (
        ("a.safetensors", 9_000_000, 0, "{}"),
        ("b.safetensors", 9_000_000, 0, "{}"),
        ("b.safetensors", 9_000_001, 0, "{}"),
        ("b.safetensors", 9_000_001, 0, '{"a": 1}'),
        ("b.safetensors", 9_000_001, 8_999_999, "{}"),  # in the last block
        ("b.safetensors", 9_000_001, 9_000_001 * 7 // 15 - 30_000, "{}"),  # in one between
        ("b.safetensors", 100, 50, "{}"),
    ):
        folder = tmp_path / str(len(seen))
        folder.mkdir()
        weights = bytearray(size)
        weights[place] = 1
        (folder / name).write_bytes(weights)
        (folder / "config.json").write_text(config)
        identity = identify(folder)
        assert identity and identity.startswith("sha256:") and identity not in seen
        seen.add(identity)
    assert identify(tmp_path / "0") in seen  # it is the same each time


def test_weights_are_counted_once_whatever_forms_they_have(tmp_path: Path) -> None:
    def model(**files: int) -> Model:
        folder = tmp_path / str(len(files)) / "-".join(files)
        folder.mkdir(parents=True)
        for name, size in files.items():
            (folder / name.replace("_", ".")).write_bytes(bytes(size))
        return Model("m", str(folder), folder=folder)

    assert model(a_bin=5, b_bin=6).weight_bytes == 11
    assert model(a_safetensors=5, b_safetensors=7, c_bin=12).weight_bytes == 12
    assert model(a_gguf=3).weight_bytes == 3
    assert model().weight_bytes is None and Model("m", "m").weight_bytes is None
    both = model(a_safetensors=5)
    assert both.folder is not None
    index = both.folder / "model.safetensors.index.json"
    index.write_text('{"metadata": {"total_size": 99}}')
    assert both.weight_bytes == 99
    index.write_text("torn {")
    assert both.weight_bytes == 5


@pytest.mark.parametrize(
    ("module", "defaults"),
    [
        ("openai.OpenAiOptions", {
            "api": "completions", "concurrency": 16, "patience": 300.0, "timeout": 1800.0,
            "tolerance": 0.0, "stream": False, "headers": {}, "body": {},
        }),
        ("transformers.TransformersOptions", {
            "dtype": "bfloat16", "device": None, "attn_implementation": None, "hf_overrides": {},
            "trust_remote_code": False,
        }),
        ("ray.RayOptions", {"engine": "vllm", "copies": None, "gpus": None, "wait": 30.0}),
        ("oracle.OracleOptions", {"seconds": 0.0, "fail": None, "crash": None}),
        ("python.PythonOptions", {"function": None, "batch": 1}),
    ],
)  # fmt: skip
def test_an_engine_has_these_options_unless_told_otherwise(
    module: str, defaults: dict[str, object]
) -> None:
    name, options = module.split(".")
    found = getattr(import_module(f"ruler_eval.running.{name}"), options)()
    assert asdict(found) == defaults


@pytest.mark.parametrize(
    ("room", "copies", "bundles", "text"),
    [
        (Room(0, False, [8]), 1, [{"CPU": 1, "GPU": 0}], "1 CPU"),
        (Room(2, False, [8, 3, 1]), 5, [{"CPU": 1, "GPU": 2}], "2 GPUs on one node"),
        (Room(4, False, [3]), 1, [{"CPU": 1, "GPU": 4}], "4 GPUs on one node"),
        (Room(3, True, [2, 5]), 2, [{"CPU": 1, "GPU": 1}, {"GPU": 1}, {"GPU": 1}], "3 GPUs"),
        (Room(9, True, [2, 5]), 1, [{"CPU": 1, "GPU": 1}, *[{"GPU": 1}] * 8], "9 GPUs"),
    ],
)
def test_a_cluster_holds_so_many_copies_of_a_model(
    room: Room, copies: int, bundles: list[dict[str, int]], text: str
) -> None:
    assert (room.copies, room.bundles, str(room)) == (copies, bundles, text)


def test_a_servers_card_is_that_of_the_model_or_of_its_only_one() -> None:
    cards = [{"id": "a", "max_model_len": 1}, {"id": "b", "max_model_len": 2}]
    assert _card_of("b", cards) == cards[1] and _card_of("c", cards) == {}
    assert _card_of("c", cards[:1]) == cards[0] and _card_of("c", []) == {}


def generate(request: object) -> str:
    return ""


#: Options of a run, and why they cannot be.
CONFLICTS: list[tuple[dict[str, Any], str]] = [
    ({"top_p": 0.0, "temperature": 0.5}, "top_p 0: keeps no token; give a share over 0"),
    ({"top_p": 0.5}, "top_p 0.5: needs a temperature over 0"),
    ({"top_p": 0.5, "temperature": 0.0}, "top_p 0.5: needs a temperature over 0"),
    ({"temperature": 0.5, "generate": generate},
     "temperature: engine python samples by itself; give its function an --option"),
    ({"samples": 2}, "samples 2: greedy answers are all the same; add a temperature"),
    ({"samples": 2, "temperature": 0.0}, "samples 2: greedy answers are all the same; add a temp"),
    ({"engine": "openai", "generate": generate},
     "generate: engine openai calls no function; leave --engine out"),
    ({"engine": "ray", "base_url": "http://x"},
     "--base-url is for engine openai; leave it or --engine ray out"),
    ({"rows": "0"}, "rows '0': write a number from 1, or LENGTH:ROWS (4k:40,8k:20)"),
    ({"rows": "4k:1,4096:2"}, "rows '4k:1,4096:2': names a length twice"),
    ({"prices": "1"}, "--prices '1': write two numbers from 0, of a million tokens read and "),
    ({"prices": "1,-1"}, "--prices '1,-1': write two numbers from 0"),
    ({"prices": "1,inf"}, "--prices '1,inf': write two numbers from 0"),
    ({"prices": "1,2,3"}, "--prices '1,2,3': write two numbers from 0"),
    ({"options": ["a=1", "a=2"]}, "--option 'a=2': given twice"),
    ({"options": ["a"]}, "--option 'a': write NAME=VALUE"),
    ({"options": ["a-b=1"]}, "--option 'a-b=1': write NAME=VALUE"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "why"), CONFLICTS)
def test_options_that_contradict_each_other_are_refused_with_what_to_do(
    options: dict[str, Any], why: str
) -> None:
    with pytest.raises(UsageError) as error:
        EvalConfig("data", **options)
    assert str(error.value).startswith(why)


def test_options_that_stand_alone_decide_others() -> None:
    plain = EvalConfig("data")
    assert (plain.engine, plain.protocol, plain.samples, plain.prices) == (
        "vllm", "completion", 1, None
    )  # fmt: skip
    assert EvalConfig("data", generate=generate, samples=2).engine == "python"
    assert EvalConfig("data", base_url="http://x").engine == "openai"
    assert EvalConfig("data", engine="oracle", samples=2).samples == 2
    sampled = EvalConfig("data", temperature=0.5, top_p=1.0, samples=3, prices="1.25, 10")
    assert sampled.prices == (1.25, 10.0)
    texts = ["a=1", "b=true", "c=None", "d=x=y", 'e={"f": [1]}', "g=.5", "h=False", "i=5.", "j="]
    assert EvalConfig("data", options=texts).settings == {
        "a": 1, "b": True, "c": None, "d": "x=y", "e": {"f": [1]}, "g": 0.5, "h": False, "i": 5.0,
        "j": "",
    }  # fmt: skip


ROW = Row(0, "vt", "text\n", "what?", " It is", ("x",), 30, 100, (Span(0, 4),), Span(0, 4))


@pytest.mark.parametrize(
    ("engine", "gpus", "expected"),
    [("vllm", None, 2), ("oracle", None, 0), ("oracle", 1, 1), ("vllm", 4, 4)],
)
def test_a_copy_on_ray_needs_the_gpus_of_its_engine(
    engine: Literal["vllm", "oracle"], gpus: int | None, expected: int
) -> None:
    cluster = SimpleNamespace(nodes=lambda: [{"Alive": True, "Resources": {"GPU": 8}}])
    config = EvalConfig("x", model="m", engine=engine, tensor_parallel=2)
    assert _room(cluster, RayOptions(engine, gpus=gpus), config).gpus == expected


@pytest.mark.parametrize(
    ("protocol", "more", "turn", "opening"),
    [
        ("completion", {}, "text\nwhat?", " It is"),
        ("base", {}, "text\nwhat?", " It is"),
        ("chat", {}, "text\nwhat?", ""),
        ("thinking", {}, "text\nwhat?", ""),
        ("chat", {"prefix_in_turn": True}, "text\nwhat? It is", ""),
        ("completion", {"prefix_in_turn": True}, "text\nwhat?", " It is"),
        ("completion", {"no_context": True}, "what?", " It is"),
        ("chat", {"no_context": True, "prefix_in_turn": True}, "what? It is", ""),
    ],
)
def test_a_protocol_makes_a_turn_and_what_opens_the_answer(
    protocol: ProtocolName, more: dict[str, bool], turn: str, opening: str
) -> None:
    prompts = PromptFormat(PROTOCOLS[protocol], 0, **more)
    assert prompts.parts(ROW) == (turn, opening)
    shown = prompts.prompt_row(ROW)
    assert shown.context + shown.question == turn and shown.outputs == ROW.outputs
    without = ((), None)
    kept = (ROW.evidence, ROW.haystack)
    assert (shown.evidence, shown.haystack) == (without if "no_context" in more else kept)
