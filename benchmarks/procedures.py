r"""lm-evaluation-harness and kvpress themselves beside this project: prompts and metric.

    python benchmarks/procedures.py prompts --sources DIR --tokenizer DIR --own DIR
    python benchmarks/procedures.py lm-eval --tokenizer DIR --data DIR --work DIR
    python benchmarks/procedures.py kvpress --tokenizer DIR --data DIR --work DIR --checkout DIR

`prompts`: the harness's generators, beside `--own`, built by `--procedure lm-eval`. Redirected: its
essays, SQuAD and HotpotQA are the files in `--sources`; both random states are 42 before each task.
`lm-eval`: the export, run by its model `local-completions` against a server that names half of the
words of a prompt, chosen by their hash. `kvpress`: the export, run by `evaluate.py` of a checkout,
with a small model of random weights. Python needs `-e '.[build]' lm-eval wonderwords nltk scipy`
or `kvpress==0.5.5 'transformers<5.3'`. Each prints one JSON object.
"""

import argparse
import hashlib
import json
import random
import re
import subprocess
import sys
import threading
from contextlib import redirect_stdout
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np

import ruler_builders
import ruler_data
import ruler_eval

ROWS = 20


def prompts(options: argparse.Namespace) -> dict[str, Any]:
    """Return for each task how many prompts and answers of the harness are this project's."""
    from lm_eval.tasks.ruler import (
        cwe_utils,
        fwe_utils,
        niah_utils,
        prepare_niah,
        qa_utils,
        vt_utils,
    )

    def read(name: str) -> Any:  # noqa: ANN401 - JSON
        return json.loads((options.sources / name).read_text(encoding="utf-8"))

    essays = {"text": [read("PaulGrahamEssays.json")["text"]]}
    prepare_niah.datasets.load_dataset = lambda *_, **__: essays
    qa_utils.download_json = lambda url: read("squad.json" if "SQuAD" in url else "hotpotqa.json")
    for module in (prepare_niah, cwe_utils, fwe_utils, qa_utils, vt_utils):
        module.tqdm = lambda numbers, **_: numbers[:ROWS]  # 500 are fixed in its code
    generators = {
        "vt": vt_utils.get_vt_dataset,
        "cwe": cwe_utils.get_cw_dataset,
        "fwe": fwe_utils.fwe_download,
        "qa_1": qa_utils.get_squad,
        "qa_2": qa_utils.get_hotpotqa,
    }
    result = {}
    for config in ruler_data.load(options.own).manifest.configs:
        task, _, length = config.rpartition("_")
        generate = generators.get(task) or getattr(niah_utils, task)
        random.seed(42)
        np.random.seed(42)
        splits = generate(tokenizer=str(options.tokenizer), max_seq_lengths=[int(length)])
        pairs = list(zip(splits["test"], ruler_data.load(options.own, config), strict=False))
        texts = [(f"{r['input']} {r['gen_prefix']}", row.prompt) for r, row in pairs]
        result[config] = {
            "rows": len(pairs),
            "same": sum(a == b for a, b in texts),
            "same but for spaces at the end": sum(a == b.rstrip() for a, b in texts),
            "same answers": sum(list(r["outputs"]) == list(row.outputs) for r, row in pairs),
            "characters": [len(text) for text in texts[0]],
            "numbered words": [len(re.findall(r"\d+\. \S", text)) for text in texts[0]],
            "sha256 of their prompts": _digest([a for a, _ in texts]),
        }
    return result


def _digest(texts: list[str]) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


def half(prompt: str) -> str:
    """Return the words of a prompt whose hash is even, in the order in which they first stand."""
    words = dict.fromkeys(re.findall(r"[\w-]+", prompt))
    return " ".join(w for w in words if hashlib.sha256(w.encode()).digest()[0] % 2 == 0)


def harness(options: argparse.Namespace) -> dict[str, Any]:
    """Return the prompts whose first token was cut off, those equal to a row, and scores."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(options.tokenizer)
    export, seen = options.work / "export", list[list[int]]()
    ruler_builders.export(options.data, tool="lm-eval", out=export)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            seen.extend(body["prompt"])
            texts = tokenizer.batch_decode(body["prompt"], skip_special_tokens=True)
            choices = [{"index": i, "text": half(text)} for i, text in enumerate(texts)]
            content = json.dumps({"choices": choices}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    result = dict[str, Any]()
    configs = ruler_data.load(options.data).manifest.configs
    length = max(int(config.rpartition("_")[2]) for config in configs)
    for limit in (length, length + 1):
        seen.clear()
        address = f"http://127.0.0.1:{server.server_port}/v1/completions"
        model = f"base_url={address},model=words,tokenizer={options.tokenizer},max_length={limit}"
        command = [sys.executable, "-m", "lm_eval", "run", "--model", "local-completions"]
        command += ["--model_args", f"{model},add_bos_token=True", "--include_path", str(export)]
        command += ["--tasks", f"ruler_{length}", "--limit", str(ROWS // 2), "--log_samples"]
        subprocess.run(
            [*command, "--output_path", str(options.work / str(limit))],
            check=True,
            stdout=sys.stderr,
        )
        lost = sum(ids[0] != tokenizer.bos_token_id for ids in seen)
        result[f"max_length {limit}"] = {"prompts": len(seen), "without BOS": lost}
    sent, out = {tuple(ids) for ids in seen}, options.work / str(length + 1)
    rows = [row for config in configs for row in ruler_data.load(options.data, config)]
    equal = sum(tuple(tokenizer.encode(row.prompt)) in sent for row in rows)
    result["prompts equal to a row's, token by token"] = equal
    groups = json.loads(next(out.rglob("results_*.json")).read_text())["results"]
    theirs = {name: 100 * value["ruler,none"] for name, value in groups.items()}
    return result | {"theirs": theirs, "ours": _means(out, options, "base")}


def _means(answers: Path, options: argparse.Namespace, protocol: str) -> dict[str, float]:
    scores = ruler_eval.score(answers, options.data, protocol=protocol, model="x", partial=True)
    records = scores.to_records()
    return {f"{record['task']}_{record['length']}": 100 * record["score"] for record in records}


def kvpress(options: argparse.Namespace) -> dict[str, Any]:
    """Return the scores of both sides, of a model of random weights."""
    import torch
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    tokenizer, model = AutoTokenizer.from_pretrained(options.tokenizer), options.work / "model"
    torch.manual_seed(0)
    size = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2}
    ends = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id}
    LlamaForCausalLM(
        LlamaConfig(vocab_size=len(tokenizer), **size, **heads, **ends)
    ).save_pretrained(model)
    tokenizer.save_pretrained(model)
    export, out = options.work / "export", options.work / "out"
    ruler_builders.export(options.data, tool="kvpress", out=export)
    command = [sys.executable, str(export / "ruler_kvpress.py"), "--data_dir", "4096"]
    command += ["--press_name", "knorm", "--compression_ratio", "0.5", "--fraction", "0.1"]
    command += ["--model", str(model), "--output_dir", str(out)]
    subprocess.run(command, cwd=options.checkout / "evaluation", check=True, stdout=sys.stderr)
    # Random weights name nothing: its scorer has the same words as the harness to score, too.
    sys.path.insert(0, str(options.checkout / "evaluation"))
    import pandas as pd
    from benchmarks.ruler.calculate_metrics import calculate_metrics

    file = next(out.rglob("predictions.csv"))
    frame = pd.read_csv(file)
    names = zip(frame["config"], frame["index"], strict=True)
    rows = [ruler_data.load(options.data, config)[index] for config, index in names]
    frame["answer"] = [np.array(row.outputs) for row in rows]  # in the file, numpy's text of it
    frame["predicted_answer"] = [half(row.prompt) for row in rows]
    frame.to_csv(options.work / "predictions.csv", index=False)
    theirs = {name: value["string_match"] for name, value in calculate_metrics(frame).items()}
    answered = json.loads(next(out.rglob("metrics.json")).read_text())
    ours = _means(options.work / "predictions.csv", options, "completion")
    return {"random weights": answered, "theirs": theirs, "ours": ours}


COMPARISONS = {"prompts": prompts, "lm-eval": harness, "kvpress": kvpress}


def main() -> None:
    """Run one comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("comparison", choices=COMPARISONS)
    for name in ("sources", "tokenizer", "own", "data", "work", "checkout"):
        parser.add_argument(f"--{name}", type=lambda text: Path(text).resolve())
    options = parser.parse_args()
    with redirect_stdout(sys.stderr):  # the harness prints
        result = COMPARISONS[options.comparison](options)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
