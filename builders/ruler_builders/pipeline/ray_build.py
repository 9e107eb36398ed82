"""A build on a Ray cluster; the only module that knows Ray.

Each config is a Ray task. Machines of a cluster need not share a file system, so a task receives a
bundle of all files that it needs (tokenizer, sources, cut sentences) and returns the bytes of the
config's file. They are the same as those of any other build.
"""

import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from ruler_builders.pipeline.build_context import BuildContext
from ruler_builders.pipeline.build_one import BuiltConfig, build_in_worker
from ruler_builders.pipeline.plan import BuildPlan
from ruler_builders.pipeline.pool import Progress, silent
from ruler_data.errors import RulerError
from ruler_data.files import cache_dir, write_bytes
from ruler_data.ray_cluster import connect

#: A plan without paths, and the files that the paths named, by path within the bundle.
Bundle = tuple[BuildPlan, dict[str, bytes]]


def pack(plan: BuildPlan, context: BuildContext) -> Bundle:
    """Pack what a build has loaded: files of its tokenizer, sources and sentences."""
    info, library = context.tokenizer.info, context.sources.library
    cached = cache_dir("tokenizers", info.fingerprint, info.name)
    paths = {f"{info.name}/{path.name}": path for path in cached.glob("*")}
    for name, used in (library.used | context.upstream.used).items():
        folder = f"sources/{name}" if len(used) > 1 else "sources"  # a folder is found by its name
        paths |= {f"{folder}/{path.name}": path for path in used}
    for path in cache_dir("sentences").glob("*.json"):
        paths[f"cache/sentences/{path.name}"] = path
    if own := library.own:
        root = f"haystack/{own.root.resolve().name}"  # may name a domain
        paths |= {f"{root}/{file}": own.root / file for one in own.domains.values() for file in one}
    files = {place: path.read_bytes() for place, path in paths.items()}
    tokenizer = info.name if cached.is_dir() else plan.tokenizer
    return replace(plan, tokenizer=tokenizer, sources=None, haystack=None), files


def unpack(bundle: Bundle) -> BuildPlan:
    """Unpack a bundle on this machine and return its plan with the paths of this machine."""
    plan, files = bundle
    root = _write_files(tuple(files.items()))
    os.environ["RULER_CACHE"] = str(root / "cache")
    tokenizer, sources = root / plan.tokenizer, root / "sources"
    return replace(
        plan,
        tokenizer=str(tokenizer) if tokenizer.is_dir() else plan.tokenizer,
        sources=sources if sources.is_dir() else None,
        haystack=next((root / "haystack").glob("*"), None),
    )


@lru_cache(maxsize=1)
def _write_files(files: tuple[tuple[str, bytes], ...]) -> Path:
    """Write files to a folder, once for all tasks of a process."""
    root = Path(tempfile.mkdtemp(prefix="ruler-data-"))
    for name, data in files:
        write_bytes(root / name, data)
    return root


def build_on_ray(
    plan: BuildPlan, context: BuildContext, names: Sequence[str], workers: int, progress: Progress
) -> Iterator[BuiltConfig]:
    """Yield configs as a Ray cluster finishes them; see `ray_cluster.connect` for which one."""
    ray = connect(workers)
    try:
        bundle = ray.put(pack(plan, context))
        remote = ray.remote(num_cpus=1, max_retries=3)(_build_remotely)
        pending = [remote.remote(name, bundle) for name in names]
        while pending:
            ready, pending = ray.wait(pending, timeout=1.0)
            for result, data in ray.get(ready):
                write_bytes(plan.folder / result[1].file, data)
                progress(result[0], result[1].rows)
                yield result
    except ray.exceptions.RayError as error:
        if isinstance(cause := getattr(error, "cause", None), RulerError):
            raise cause from None
        msg = f"Ray failed ({type(error).__name__}: {str(error).strip().splitlines()[-1]}); run "
        msg += "the same command again to resume"
        raise RulerError(msg) from error
    finally:
        ray.shutdown()


def _build_remotely(name: str, bundle: Bundle) -> tuple[BuiltConfig, bytes]:
    """Build one config on a machine of the cluster and return the bytes of its file."""
    with tempfile.TemporaryDirectory(prefix="ruler-data-") as scratch:
        plan = replace(unpack(bundle), folder=Path(scratch))
        result = build_in_worker(plan, name, silent)
        return result, (plan.folder / result[1].file).read_bytes()
