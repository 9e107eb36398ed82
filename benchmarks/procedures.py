r"""The tools of published procedures themselves beside this project: prompts and metric.

    python benchmarks/procedures.py prompts --sources DIR --tokenizer DIR --own DIR
    python benchmarks/procedures.py lm-eval --tokenizer DIR --data DIR --work DIR
    python benchmarks/procedures.py kvpress --tokenizer DIR --data DIR --work DIR --checkout DIR
    python benchmarks/procedures.py upstream --sources DIR --tokenizer DIR --own DIR --work DIR \
        --checkout DIR
    python benchmarks/procedures.py chat --own DIR --work DIR --checkout DIR

`prompts`: the harness's generators, beside `--own`, built by `--procedure lm-eval`. Redirected: its
essays, SQuAD and HotpotQA are the files in `--sources`; both random states are 42 before each task.
`lm-eval`: the export, run by its model `local-completions` against a server that names half of the
words of a prompt, chosen by their hash. `kvpress`: the export, run by `evaluate.py` of a checkout,
with a small model of random weights. `upstream`: the scripts of NVIDIA/RULER, prepare, call and
evaluate, beside `--own`, built by `--procedure upstream-2026`; nemo's reader of lines is a stand-in
(`editions.py`). `chat`: `call_api.py` and `evaluate.py` of the wheel nvidia-long-context-eval,
unpacked, on the export of `--own`, built by `--procedure nemo-evaluator`, beside a run of it. These
two also ask the server of words. Python needs `-e '.[build]' lm-eval wonderwords nltk scipy`,
`kvpress==0.5.5 'transformers<5.3'`, or, for the last two, `transformers wonderwords nltk scipy
html2text tenacity pandas openai tiktoken`. Each prints one JSON object.
"""

import argparse
import csv
import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
from editions import STAND_INS

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
        result[config] = _alike(splits["test"], list(ruler_data.load(options.own, config)))
    return result


def _alike(theirs: list[dict[str, Any]], rows: list[ruler_data.Row]) -> dict[str, Any]:
    """Return in how many rows prompts and answers of the harness are this project's."""
    pairs = list(zip(theirs, rows, strict=False))
    texts = [(f"{line['input']} {line['gen_prefix']}", row.prompt) for line, row in pairs]
    return {
        "rows": len(pairs),
        "same": sum(a == b for a, b in texts),
        "same but for spaces at the end": sum(a == b.rstrip() for a, b in texts),
        "same answers": sum(list(line["outputs"]) == list(row.outputs) for line, row in pairs),
        "characters": [len(text) for text in texts[0]],
        "numbered words": [len(re.findall(r"\d+\. \S", text)) for text in texts[0]],
        "sha256 of their prompts": _digest([a for a, _ in texts]),
    }


def _digest(texts: list[str]) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


def half(prompt: str) -> str:
    """Return the words of a prompt whose hash is even, in the order in which they first stand."""
    words = dict.fromkeys(re.findall(r"[\w-]+", prompt))
    return " ".join(w for w in words if hashlib.sha256(w.encode()).digest()[0] % 2 == 0)


Body = dict[str, Any]


@contextmanager
def words(tokenizer: Any = None) -> Iterator[tuple[int, list[Body]]]:  # noqa: ANN401 - of transformers
    """Serve `half` of each prompt; yield the port and the bodies of requests so far."""
    seen = list[Body]()

    def choices(path: str, body: Body) -> Body:
        if path.endswith("/chat/completions"):
            text = half(body["messages"][-1]["content"])
            # As many as it may write: numbers, then names, then the rest.
            order = sorted(text.split(), key=lambda word: (not word.isdigit(), word.islower()))
            text = " ".join(order[: body["max_tokens"] // 3])
            message = {"role": "assistant", "content": text}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            return {"model": body["model"], "choices": [choice]}
        if path.endswith("/generate"):
            return {"text": [half(body["prompt"])]}
        texts = tokenizer.batch_decode(body["prompt"], skip_special_tokens=True)
        return {"choices": [{"index": n, "text": half(text)} for n, text in enumerate(texts)]}

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            seen.append(body)
            self._send(choices(self.path, body))

        do_PUT = do_POST  # upstream's clients

        def do_GET(self) -> None:
            self._send({"data": [{"id": "words"}]})

        def _send(self, reply: Body) -> None:
            content = json.dumps(reply).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port, seen
        server.shutdown()


def harness(options: argparse.Namespace) -> dict[str, Any]:
    """Return the prompts whose first token was cut off, those equal to a row, and scores."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(options.tokenizer)
    export, result = options.work / "export", Body()
    ruler_builders.export(options.data, tool="lm-eval", out=export)
    configs = ruler_data.load(options.data).manifest.configs
    length = max(int(config.rpartition("_")[2]) for config in configs)
    for limit in (length, length + 1):
        with words(tokenizer) as (port, bodies):
            address = f"http://127.0.0.1:{port}/v1/completions"
            model = f"base_url={address},model=words,tokenizer={options.tokenizer}"
            model += f",max_length={limit},add_bos_token=True"
            command = [sys.executable, "-m", "lm_eval", "run", "--model", "local-completions"]
            command += ["--model_args", model, "--include_path", str(export), "--log_samples"]
            command += ["--tasks", f"ruler_{length}", "--limit", str(ROWS // 2)]
            subprocess.run(
                [*command, "--output_path", str(options.work / str(limit))],
                check=True,
                stdout=sys.stderr,
            )
        seen = [ids for body in bodies for ids in body["prompt"]]
        lost = sum(ids[0] != tokenizer.bos_token_id for ids in seen)
        result[f"max_length {limit}"] = {"prompts": len(seen), "without BOS": lost}
    sent, out = {tuple(ids) for ids in seen}, options.work / str(length + 1)
    rows = [row for config in configs for row in ruler_data.load(options.data, config)]
    equal = sum(tuple(tokenizer.encode(row.prompt)) in sent for row in rows)
    result["prompts equal to a row's, token by token"] = equal
    groups = json.loads(next(out.rglob("results_*.json")).read_text())["results"]
    theirs = {name: 100 * value["ruler,none"] for name, value in groups.items()}
    return result | {"theirs": theirs, "ours": _means(out, options, "base")}


def upstream(options: argparse.Namespace) -> Body:
    """Return by task how many of upstream's prompts are this project's, and the scores of both."""
    place = _unpacked(options)
    scripts = place / "scripts"
    length = "4096"
    data = place / length / "data"
    answers = place / length / "pred"
    result = Body()
    tasks = [config.rpartition("_")[0] for config in ruler_data.load(options.own)]
    with words() as (port, bodies):
        for task in tasks:
            _script(
                place, scripts / "data" / "prepare.py", save_dir=data, benchmark="synthetic",
                task=task, tokenizer_type="hf", tokenizer_path=options.tokenizer,
                max_seq_length=length, num_samples=ROWS,
            )  # fmt: skip
            _script(
                place, scripts / "pred" / "call_api.py", data_dir=data, save_dir=answers,
                benchmark="synthetic", task=task, server_type="vllm", server_port=port,
                temperature=0.0, threads=1, batch_size=1,
            )  # fmt: skip
    asked = [body["prompt"] for body in bodies]
    for task in tasks:
        lines = [json.loads(line) for line in (data / task / "validation.jsonl").open()]
        pairs = list(zip(lines, ruler_data.load(options.own, f"{task}_{length}"), strict=True))
        result[task] = {
            "rows": len(pairs),
            "same": sum(r["input"] + r["answer_prefix"] == row.prompt for r, row in pairs),
            "same answers": sum(r["outputs"] == list(row.outputs) for r, row in pairs),
            "sent as the row's prompt": sum(row.prompt in asked for _, row in pairs),
        }
    _script(place, scripts / "eval" / "evaluate.py", data_dir=answers, benchmark="synthetic")
    options.data = options.own
    return {"prompts": result, **_both(answers, options, "base")}


def _unpacked(options: argparse.Namespace) -> Path:
    """Return a folder with upstream's scripts, their texts, and stand-ins for nemo's modules."""
    place: Path = options.work / "upstream"
    place.mkdir(parents=True)
    archive = ["git", "-C", str(options.checkout), "archive", UPSTREAM, "scripts"]
    packed = subprocess.run(archive, check=True, capture_output=True).stdout
    subprocess.run(["tar", "-x", "-C", str(place)], check=True, input=packed)
    texts = place / "scripts" / "data" / "synthetic" / "json"
    for name in ("PaulGrahamEssays.json", "squad.json", "hotpotqa.json"):
        shutil.copy(options.sources / name, texts / name)
    for name, text in STAND_INS.items():
        if name.startswith("nemo/"):
            (place / name).parent.mkdir(parents=True)
            (place / name).write_text(text)
    return place


def chat(options: argparse.Namespace) -> Body:
    """Return how NVIDIA's harness asks in chat and how a run does, and the scores of both."""
    rows_folder, tool = options.work / "rows", options.checkout / "long_context_eval"
    (length,) = {config.rpartition("_")[2] for config in ruler_data.load(options.own)}
    for config, rows_of_config in ruler_data.load(options.own).items():
        place = rows_folder / config.rpartition("_")[0] / "validation.jsonl"
        place.parent.mkdir(parents=True)
        place.write_text("".join(f"{json.dumps(_as_upstream(row))}\n" for row in rows_of_config))
    answers, requests = options.work / length / "pred", list[list[Body]]()
    with words() as (port, bodies):
        for config in ruler_data.load(options.own):
            _script(
                options.checkout, tool / "pred" / "call_api.py",
                data_dir=rows_folder, save_dir=answers, benchmark="synthetic",
                task=config.rpartition("_")[0], server_type="generic_oai_server",
                generic_oai_server_url=f"http://127.0.0.1:{port}/v1/chat/completions",
                generic_oai_server_mode="chat", model_name_or_path="words", temperature=0.0,
                top_p=0.0001, threads=1,
            )  # fmt: skip
        requests.append([*bodies])
        bodies.clear()
        ruler_eval.run(
            options.own, out=options.work / "run", model="words", engine="openai", protocol="chat",
            procedure="nemo-evaluator", base_url=f"http://127.0.0.1:{port}/v1",
            options=["api=chat"],
        )  # fmt: skip
        rows = [row for rows in ruler_data.load(options.own).values() for row in rows]
        texts = {row.prompt for row in rows}
        requests.append([b for b in bodies if b["messages"][-1]["content"] in texts])
    _script(
        options.checkout, tool / "eval" / "evaluate.py", data_dir=answers, benchmark="synthetic"
    )
    fields = [
        {name: sorted({str(body.get(name)) for body in side}) for name in FIELDS}
        for side in requests
    ]
    messages = [{json.dumps(body["messages"]) for body in side} for side in requests]
    options.data = options.own
    return {
        "rows": len(rows),
        "messages": list(map(len, messages)),
        "same messages": len(messages[0] & messages[1]),
        "fields of theirs": fields[0],
        "fields of ours": fields[1],
        **_both(answers, options, "chat"),
        "our run": _records(ruler_eval.score(options.work / "run")),
    }


def _as_upstream(row: ruler_data.Row) -> Body:
    """Return a row as `call_api.py` reads it."""
    columns = {"index": row.index, "input": row.prompt, "outputs": row.outputs}
    return {**columns, "length": row.length}


#: The commit of NVIDIA/RULER, and the fields of a request that decide on an answer.
UPSTREAM = "c3f5e3b"
FIELDS = ("temperature", "top_p", "top_k", "max_tokens", "seed", "stop")


def _script(path: Path, script: Path, **arguments: object) -> None:
    """Run a script of another project with a folder on its path."""
    command = [sys.executable, script.name]
    command += [text for name, value in arguments.items() for text in (f"--{name}", str(value))]
    paths = os.pathsep.join([str(path), os.environ.get("PYTHONPATH", "")])
    names = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    environment = {**os.environ, **names, "PYTHONPATH": paths}
    subprocess.run(command, cwd=script.parent, env=environment, check=True, stdout=sys.stderr)


def _both(answers: Path, options: argparse.Namespace, protocol: str) -> Body:
    """Return upstream's scores of answers by task, from its summary, and this project's."""
    with next(answers.glob("summary*.csv")).open(newline="") as file:
        _, (_, *tasks), (_, *scores), _ = csv.reader(file)
    theirs = dict(zip(tasks, map(float, scores), strict=True))
    return {"theirs": theirs, "ours": _means(answers, options, protocol)}


def _means(answers: Path, options: argparse.Namespace, protocol: str) -> dict[str, float]:
    scores = ruler_eval.score(answers, options.data, protocol=protocol, model="x", partial=True)
    return _records(scores)


def _records(table: Any) -> dict[str, float]:  # noqa: ANN401 - a DataFrame
    by_cell = table.groupby(["task", "length"], sort=False)
    means = 100 * by_cell["official"].mean()
    return {f"{task}_{length}": mean for (task, length), mean in means.items()}


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


COMPARISONS = {
    "prompts": prompts, "lm-eval": harness, "kvpress": kvpress, "upstream": upstream, "chat": chat,
}  # fmt: skip


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
