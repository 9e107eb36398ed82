"""Right answers, and only those, score through the real engine."""

import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from ruler_data import Row
from ruler_data.tokenizers.registry import load_folder
from tests.commands import succeeded
from tests.engines.conftest import ONE, Order, answers
from tests.running.processes import evaluate

#: How many of its three answers each row that is not left to the model is made to give.
TOLD: dict[tuple[object, object], int] = {
    ("fwe_512", 0): 3,
    ("fwe_512", 1): 3,
    ("fwe_512", 4): 2,
    ("fwe_640", 5): 1,
}


@pytest.mark.parametrize(
    ("protocol", "thought"), [("completion", ""), ("thinking", "<think>Is it wewqe?</think>")]
)
def test_rows_that_the_engine_answers_right_score_and_no_others(
    order: Order,
    model: Path,
    frozen: Path,
    rows: dict[tuple[str, int], Row],
    tmp_path: Path,
    protocol: str,
    thought: str,
) -> None:
    prompts, ids = load_folder(model, "tiny"), Tokenizer.from_file(str(model / "tokenizer.json"))
    forced_ids = {}
    for (config, index), count in TOLD.items():
        row = rows[str(config), int(str(index))]
        frame = (row.answer_prefix,) if not thought else ("", {"enable_thinking": True})
        prompt = prompts.prompt_ids(row.context + row.question, *frame)
        text = thought + " " + ", ".join(row.outputs[:count])
        generated = ids.encode(text, add_special_tokens=False).ids
        forced_ids[" ".join(map(str, prompt))] = [*generated, ids.token_to_id("</s>")]
    (tmp_path / "forced_ids").write_text(json.dumps(forced_ids))
    forced = ("--option", 'logits_processors=["tests.engines.forced:Forced"]')
    command = (*ONE, *forced, "--protocol", protocol, "--extra-tokens", 100 * bool(thought))
    succeeded(
        order("vllm", tmp_path / "run", *command, env={"FORCED": str(tmp_path / "forced_ids")})
    )
    for key, answer in answers(tmp_path / "run").items():
        if key in TOLD:
            outputs = rows[str(key[0]), int(str(key[1]))].outputs[: TOLD[key]]
            assert (str(answer["text"]).strip(), answer["finish"]) == (", ".join(outputs), "stop")
            assert f"<think>{answer.get('reasoning')}</think>" == (thought or "<think>None</think>")
    succeeded(evaluate("score", tmp_path / "run", "--data", frozen))
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    for config in ("fwe_512", "fwe_640"):
        expected = [TOLD.get((config, index), 0) / 3 for index in range(6)]
        assert results["configs"][config]["scores"] == expected
