"""Serve a GGUF file with llama.cpp, from its wheel xllamacpp: for engine `openai`.

    python docs/recipes/llama_cpp_server.py MODEL.gguf 8080 &
    ruler-eval run --data dist/smollm2 --model smollm2 --tokenizer TOKENIZER_FOLDER \
        --base-url http://127.0.0.1:8080/v1 --option concurrency=1 --out runs/smollm2-gguf

`llama-server -m MODEL.gguf --ctx-size 4096 --port 8080 --alias smollm2` does the same.
"""

import sys
import time

import xllamacpp


def main(model: str, port: int, context: int = 4096, threads: int = -1) -> None:
    """Serve a model under the name `smollm2` until the process is ended.

    Threads wait for one another busily: where other work shares the cores, one is faster than many.
    """
    options = xllamacpp.CommonParams()
    options.model.path, options.model_alias = model, {"smollm2"}
    options.port, options.n_ctx, options.n_parallel = port, context, 1
    options.cpuparams.n_threads = options.cpuparams_batch.n_threads = threads
    _server = xllamacpp.Server(options)
    while True:
        time.sleep(60)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
