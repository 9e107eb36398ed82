"""Serve a GGUF file with llama.cpp, all in float32: `python -m tests.engines.llama_cpp FILE PORT`.

By default it keeps keys and values in 16 bits, and answers then differ from other engines'.
"""

import sys
import time

import xllamacpp


def main(file: str, port: int) -> None:
    """Serve a model under the name `tiny` until the process is ended."""
    options = xllamacpp.CommonParams()
    options.model.path, options.model_alias = file, {"tiny"}
    options.port, options.n_ctx, options.n_parallel = port, 1024, 1
    options.cpuparams.n_threads = options.cpuparams_batch.n_threads = 1
    options.cache_type_k = options.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    off = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    options.flash_attn_type = off
    options.sampling.penalty_repeat, options.sampling.xtc_probability = 1.3, 1.0  # hostile
    options.sampling.xtc_threshold, options.sampling.dry_multiplier = 0.0, 0.8
    options.special = True  # else it leaves special tokens out of its texts
    _server = xllamacpp.Server(options)
    while True:
        time.sleep(60)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
