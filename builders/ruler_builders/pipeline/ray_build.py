"""A build on a Ray cluster; the only module that knows Ray.

Each config is a Ray task. Machines of a cluster need not share a file system, so a task receives a
bundle of all files that it needs (tokenizer, sources, cut sentences) and returns the bytes of the
config's file. They are the same as those of any other build.
"""

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from ruler_builders.pipeline.build_config import BuildConfig, silent
from ruler_builders.pipeline.build_context import BuildContext
from ruler_builders.pipeline.build_dir import BuildDir
from ruler_builders.pipeline.build_one import Built, build_in_worker
from ruler_builders.pipeline.pool import Progress
from ruler_data.errors import RulerError
from ruler_data.files import cache_dir, write_bytes
from ruler_data.ray_cluster import connect

#: Folders of an unpacked bundle.
CACHE, SOURCES, HAYSTACK = "cache", "sources", "haystack"


#: Options without paths, and the files that the paths named, by path within the bundle.
Bundle = tuple[BuildConfig, dict[str, bytes]]


def pack(config: BuildConfig, context: BuildContext) -> Bundle:
    """Pack what a build has loaded: files of its tokenizer, sources and sentences."""
    info, library = context.tokenizer.info, context.sources.library
    kept = cache_dir("tokenizers", info.fingerprint)
    files = {f"{info.name}/{path.name}": path.read_bytes() for path in kept.glob("*")}
    for name, paths in (library.used | context.upstream.used).items():
        for path in paths:
            # A folder is found by its name.
            place = f"{SOURCES}/{name}/{path.name}" if len(paths) > 1 else f"{SOURCES}/{path.name}"
            files[place] = path.read_bytes()
    for path in cache_dir("sentences").glob("*.json"):
        files[f"{CACHE}/sentences/{path.name}"] = path.read_bytes()
    if own := library.own:
        for file in (file for names in own.domains.values() for file in names):
            place = f"{HAYSTACK}/{own.root.resolve().name}/{file}"  # may name a domain
            files[place] = (own.root / file).read_bytes()
    tokenizer = info.name if kept.is_dir() else config.tokenizer
    return replace(config, tokenizer=tokenizer, sources=None, haystack=None), files


def unpack(bundle: Bundle) -> BuildConfig:
    """Unpack a bundle on this machine and return its options with the paths of this machine."""
    config, files = bundle
    root = _unpacked(tuple(files.items()))
    os.environ["RULER_CACHE"] = str(root / CACHE)
    tokenizer, sources = root / config.tokenizer, root / SOURCES
    return replace(
        config,
        tokenizer=str(tokenizer) if tokenizer.is_dir() else config.tokenizer,
        sources=sources if sources.is_dir() else None,
        haystack=next((root / HAYSTACK).glob("*"), None),
    )


@lru_cache(maxsize=1)
def _unpacked(files: tuple[tuple[str, bytes], ...]) -> Path:
    """Write files to a folder, once for all tasks of a process."""
    root = Path(tempfile.mkdtemp(prefix="ruler-data-"))
    for name, data in files:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root


def build_on_ray(
    config: BuildConfig,
    context: BuildContext,
    sha256: Mapping[str, str],
    names: Sequence[str],
    progress: Progress,
) -> Iterator[Built]:
    """Yield configs as a Ray cluster finishes them.

    The cluster is the one that RAY_ADDRESS names, otherwise one on this machine with as many
    processes as the build has workers. `sha256` is of each source.

    Raises:
        UsageError: Ray is not installed, or no cluster answers at RAY_ADDRESS.
        RulerError: a machine was lost more often than Ray retries.
    """
    ray = connect(config.workers)
    folder = BuildDir(config.folder)
    try:
        bundle = ray.put(pack(config, context))
        remote = ray.remote(num_cpus=1, max_retries=3)(_build_remotely)
        pending = [remote.remote(name, bundle, sha256) for name in names]
        while pending:
            ready, pending = ray.wait(pending, timeout=1.0)
            for built, data in ray.get(ready):
                name, info, _ = built
                write_bytes(folder.path / info.file, data)
                folder.record(name, info)
                progress(name, info.rows)
                yield built
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, RulerError):
            raise error.cause from None
        msg = f"a Ray task failed: {str(error).strip().splitlines()[-1]}"
        raise RulerError(msg) from error
    except ray.exceptions.RayError as error:
        msg = (
            f"Ray failed ({type(error).__name__}); finished configs are kept: run the same "
            "command again to resume"
        )
        raise RulerError(msg) from error
    finally:
        ray.shutdown()


def _build_remotely(name: str, bundle: Bundle, sha256: Mapping[str, str]) -> tuple[Built, bytes]:
    """Build one config on a machine of the cluster and return the bytes of its file."""
    with tempfile.TemporaryDirectory(prefix="ruler-data-") as scratch:
        config = replace(unpack(bundle), out=Path(scratch))
        built = build_in_worker(config, sha256, name, silent)
        return built, (config.folder / built[1].file).read_bytes()
