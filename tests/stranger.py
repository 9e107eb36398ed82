"""Do what a stranger does: the README and the tutorial, word by word, from a fresh clone.

    .venv/bin/python tests/stranger.py

Home, caches and clone are new. What a machine for tests lacks is put in from outside, and no page
knows of it: a Hub on loopback with the models' tokenizers, a server that stands for a model, the
sources, and a shorter build (`LENGTHS=4k ROWS=20`; with `STRANGER_LENGTHS=` all of it). It needs
RULER_SHARED.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
import zlib
from collections.abc import Iterable, Iterator
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tokenizers import Tokenizer

ROOT = Path(__file__).resolve().parents[1]
SHARED = Path(os.environ.get("RULER_SHARED", ROOT.parent / "shared")).resolve()
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PORT = 8000  # as the pages say

#: Fields of the models' config.json that the evaluator reads.
MODELS = {
    "meta-llama/Llama-3.1-8B-Instruct": ("llama3", {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096,
        "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
        "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 128256,
        "max_position_embeddings": 131072, "tie_word_embeddings": False, "dtype": "bfloat16",
    }),
}  # fmt: skip


@cache
def tokenizer(model: str) -> Tokenizer:
    """Return the tokenizer in which a model is asked."""
    return Tokenizer.from_file(str(SHARED / "tokenizers" / MODELS[model][0] / "tokenizer.json"))


class Server(BaseHTTPRequestHandler):
    """Answers completions with the number of a needle, or else one that follows from the prompt."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """List the models."""
        cards = [{"id": name, "object": "model", "max_model_len": 131072} for name in MODELS]
        self.reply({"object": "list", "data": cards})

    def do_POST(self) -> None:
        """Complete a prompt of token ids."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        prompt = body["prompt"]
        words = tokenizer(body["model"]).decode(prompt) if isinstance(prompt, list) else prompt
        asked = re.search(r"magic number for ([\w-]+) mentioned", words)
        needle = asked and re.search(rf"numbers for {asked[1]} is: (\d+)", words)
        number = needle[1] if needle else f"{zlib.crc32(words.encode()) % 10**7:07}"
        text = f" {number}"
        usage = {"prompt_tokens": len(prompt), "completion_tokens": 4}
        usage["total_tokens"] = sum(usage.values())
        choice = {"index": 0, "text": text, "finish_reason": "stop"}
        self.reply({"id": "0", "model": body["model"], "choices": [choice], "usage": usage})

    def reply(self, body: object) -> None:
        """Send JSON."""
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def blocks(page: Path) -> Iterator[str]:
    """Yield the blocks of a page as lines of bash; a file's block names the file in a comment."""
    for language, text in BLOCK.findall(page.read_text(encoding="utf-8")):
        name = re.match(r"# (\w+\.py)\n", text)
        if language == "python" and name:
            yield f"cat > {name[1]} <<'END_OF_FILE'\n{text}END_OF_FILE\n"
        elif language == "python":
            yield f".venv/bin/python - <<'END_OF_FILE'\n{text}END_OF_FILE\n"
        else:
            yield text


def once(texts: Iterable[str]) -> list[str]:
    """Return the lines of blocks without what was done for an earlier page: the clone."""
    lines: list[str] = []
    for text in texts:
        for line in text.splitlines():
            if not (line.startswith(("git clone ", "cd ")) and line in lines):
                lines.append(line)
    return lines


def hub(folder: Path) -> str:
    """Start the Hub with the tokenizers and configs of the models; return its address."""
    sys.path.insert(0, str(SHARED / "tools"))
    from minihub import MiniHub

    served = MiniHub(root=folder)
    threading.Thread(target=served.server.serve_forever, daemon=True).start()
    os.environ.update({"HF_ENDPOINT": served.endpoint, "HF_HUB_DISABLE_XET": "1"})
    from huggingface_hub import HfApi

    api = HfApi(endpoint=served.endpoint, token="hf_write")
    for name, (tokenizer, config) in MODELS.items():
        model = folder / tokenizer
        shutil.copytree(SHARED / "tokenizers" / tokenizer, model)
        (model / "config.json").write_text(json.dumps(config))
        api.create_repo(name, repo_type="model")
        api.upload_folder(repo_id=name, folder_path=model)
    return str(served.endpoint)


def environment(home: Path, endpoint: str) -> dict[str, str]:
    """Return the environment of somebody who has just come."""
    dropped = re.compile(r"(RULER|HF|PYTHON|VIRTUAL_ENV|MAKE|PYTEST|NLTK)")
    kept = {name: value for name, value in os.environ.items() if not dropped.match(name)}
    clean = os.pathsep.join(p for p in kept["PATH"].split(os.pathsep) if ".venv" not in p)
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["urls"]
    (home / ".gitconfig").write_text(
        f'[url "{ROOT}"]\n\tinsteadOf = {urls["Repository"]}\n[safe]\n\tdirectory = *\n'
    )
    cache = subprocess.run(
        [sys.executable, "-m", "pip", "cache", "dir"], capture_output=True, text=True
    ).stdout.strip()
    return kept | {
        "HOME": str(home),
        "PATH": clean,
        "PIP_CACHE_DIR": cache,  # the same wheels, without a second download
        "HF_ENDPOINT": endpoint,
        "HF_HUB_DISABLE_XET": "1",
        "HF_TOKEN": "hf_write",
        "RULER_TOKENIZERS": str(SHARED / "tokenizers"),
        "LENGTHS": os.environ.get("STRANGER_LENGTHS", "4k"),
        "ROWS": "" if "STRANGER_LENGTHS" in os.environ else "20",
        "PYTEST_ADDOPTS": "--collect-only -qq",  # the tests themselves run elsewhere
    }


def main() -> int:
    """Run both pages; return the exit status of the first command that fails."""
    if not SHARED.is_dir():
        print(f"stranger: {SHARED} is not there; skipped")
        return 0
    with tempfile.TemporaryDirectory(prefix="stranger-") as place:
        home, work = Path(place) / "home", Path(place) / "work"
        home.mkdir()
        work.mkdir()
        endpoint = hub(Path(place) / "hub")
        server = ThreadingHTTPServer(("127.0.0.1", PORT), Server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        pages = [ROOT / "README.md", ROOT / "docs" / "tutorial.md"]
        lines = once(text for page in pages for text in blocks(page))
        script = "set -eEuo pipefail\ntrap 'echo \"stranger: failed: $BASH_COMMAND\" >&2' ERR\n"
        begun = time.monotonic()
        done = subprocess.run(
            ["bash", "-x", "-c", script + "\n".join(lines)],
            cwd=work, env=environment(home, endpoint), check=False,
        )  # fmt: skip
        print(f"stranger: exit {done.returncode} after {time.monotonic() - begun:.0f} s")
        return done.returncode


if __name__ == "__main__":
    sys.exit(main())
