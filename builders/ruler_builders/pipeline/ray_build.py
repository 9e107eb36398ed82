"""A build spread over a Ray cluster; the one module that knows Ray.

Each config is a Ray task that gets a parcel and gives back the bytes of its file, so machines
need nothing of ours but the package. The bytes are those of any other build.

A parcel: all that a machine without our files needs to build configs, packed by content.

Workers of a cluster need not share a file system with the machine that asks. The tokenizer's
files, the sources that were found and the cut sentences travel as bytes and are unpacked where
they arrive.
"""

import hashlib
import logging
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from ruler_builders.pipeline.build import build_config
from ruler_builders.pipeline.build_config import BuildJob, BuiltConfig
from ruler_builders.pipeline.build_context import BuildContext, RowConfig
from ruler_builders.pipeline.build_dir import BuildDir
from ruler_builders.pipeline.pool import Progress
from ruler_data.errors import RulerError, UsageError
from ruler_data.files import cache_dir, write_bytes
from ruler_data.names import quote

#: Folders of an unpacked parcel.
CACHE, SOURCES, HAYSTACK = "cache", "sources", "haystack"


@dataclass(frozen=True)
class Bundle:
    """A recipe and the files that it names, by path within the parcel."""

    recipe: RowConfig
    files: dict[str, bytes]

    @property
    def digest(self) -> str:
        """Return a sha256 of the files' names and contents."""
        digest = hashlib.sha256()
        for name in sorted(self.files):
            digest.update(f"{name} {hashlib.sha256(self.files[name]).hexdigest()}\n".encode())
        return digest.hexdigest()


def pack(context: BuildContext) -> Bundle:
    """Pack what an opened recipe has loaded: files of its tokenizer, sources and sentences."""
    info, library = context.tokenizer.info, context.sources.library
    kept = cache_dir("tokenizers", info.fingerprint)
    files = {f"{info.name}/{path.name}": path.read_bytes() for path in kept.glob("*")}
    for name, paths in library.used.items():
        for path in paths:
            # A folder of essays keeps its name, by which it is found again.
            place = f"{SOURCES}/{name}/{path.name}" if len(paths) > 1 else f"{SOURCES}/{path.name}"
            files[place] = path.read_bytes()
    for path in cache_dir("sentences").glob("*.json"):
        files[f"{CACHE}/sentences/{path.name}"] = path.read_bytes()
    if own := library.own:
        for file in (file for names in own.domains.values() for file in names):
            place = f"{HAYSTACK}/{own.root.resolve().name}/{file}"  # its name may be a domain's
            files[place] = (own.root / file).read_bytes()
    tokenizer = info.name if kept.is_dir() else context.recipe.tokenizer
    return Bundle(replace(context.recipe, tokenizer=tokenizer, sources=None, haystack=None), files)


def unpack(parcel: Bundle) -> RowConfig:
    """Unpack a parcel on this machine and return its recipe with the paths that hold here."""
    root = _unpacked(parcel.digest, tuple(parcel.files.items()))
    os.environ["RULER_CACHE"] = str(root / CACHE)
    local = root / parcel.recipe.tokenizer
    sources = root / SOURCES
    haystacks = (root / HAYSTACK).glob("*")
    return replace(
        parcel.recipe,
        tokenizer=str(local) if local.is_dir() else parcel.recipe.tokenizer,
        sources=sources if sources.is_dir() else None,
        haystack=next(haystacks, None),
    )


@lru_cache(maxsize=1)
def _unpacked(digest: str, files: tuple[tuple[str, bytes], ...]) -> Path:
    root = Path(tempfile.mkdtemp(prefix=f"ruler-data-{digest[:12]}-"))
    for name, data in files:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root


def build_on_ray(
    context: BuildContext, jobs: Sequence[BuildJob], progress: Progress
) -> Iterator[BuiltConfig]:
    """Yield configs as a Ray cluster finishes them.

    The cluster is the one that RAY_ADDRESS names, else one on this machine with as many
    processes as the order has workers.

    Raises:
        UsageError: Ray is not installed.
        RulerError: a machine was lost more often than Ray retries.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError as error:
        msg = "--engine ray needs Ray; pip install 'ruler-data[ray]'"
        raise UsageError(msg) from error
    address = os.environ.get("RAY_ADDRESS")
    try:
        ray.init(
            address=address,
            num_cpus=None if address else jobs[0].order.workers,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    except (ValueError, ConnectionError) as error:
        msg = f"RAY_ADDRESS {quote(str(address))}: no Ray cluster answers there; see `ray status`"
        raise UsageError(msg) from error
    try:
        parcel = ray.put(pack(context))
        remote = ray.remote(num_cpus=1, max_retries=3)(_build_remotely)
        pending = [remote.remote(job, parcel) for job in jobs]
        while pending:
            ready, pending = ray.wait(pending, timeout=1.0)
            for done, data in ray.get(ready):
                folder = BuildDir(jobs[0].order.out)
                write_bytes(folder.path / done.info.file, data)
                folder.record(done.config, done.info)
                progress(done.config, done.info.rows)
                yield done
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, RulerError):
            raise error.cause from None
        msg = f"a Ray task failed: {str(error).strip().splitlines()[-1]}"
        raise RulerError(msg) from error
    except ray.exceptions.RayError as error:
        msg = f"Ray failed ({type(error).__name__}); what is finished is kept, run it again"
        raise RulerError(msg) from error
    finally:
        ray.shutdown()


def _build_remotely(job: BuildJob, parcel: Bundle) -> tuple[BuiltConfig, bytes]:
    """Build one config on whatever machine this is, and return its file's bytes."""
    with tempfile.TemporaryDirectory(prefix="ruler-data-") as scratch:
        order = replace(job.order, recipe=unpack(parcel), out=Path(scratch))
        done = build_config(replace(job, order=order), lambda _name, _rows: None)
        return done, (Path(scratch) / done.info.file).read_bytes()
