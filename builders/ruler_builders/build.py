"""The build: recipe in, folder out; interrupted anywhere, it goes on where it was."""

from collections.abc import Callable, Iterable, Sequence

import pyarrow as pa

from ruler_builders.card import card_files
from ruler_builders.folder import Folder
from ruler_builders.inputs import Inputs
from ruler_builders.limits import check_domains, check_lengths, check_rows, check_texts
from ruler_builders.lock import locked, workers_lock
from ruler_builders.making import build_config, make_config
from ruler_builders.order import Done, Job, Order, share
from ruler_builders.parallel import Progress, run_jobs
from ruler_builders.sources import Library
from ruler_builders.workshop import Workshop, open_workshop
from ruler_data.errors import RulerError, UsageError
from ruler_data.manifest import FILENAME, ConfigInfo, Manifest
from ruler_data.tasks import config_place
from ruler_data.version import DATA_VERSION, __version__

#: What runs jobs: opened recipe, jobs and progress in, finished configs out.
Engine = Callable[[Workshop, Sequence[Job], Progress], Iterable[Done]]


def build(
    order: Order, library: Library, progress: Progress, engine: Engine | None = None
) -> tuple[Manifest | None, list[Done]]:
    """Build a folder, or what is missing of it, and return its manifest and its configs.

    A shard builds its share of the configs and leaves the manifest, None here, to the same
    order without a shard, which builds whatever is still missing.

    Raises:
        UsageError: it cannot be built as asked; nothing was written.
        RulerError: a fault of disk, sources or workers; what is finished is kept.
    """
    folder = Folder(order.out)
    folder.check()
    check_domains(order, library)
    shop = open_workshop(order.recipe, library)
    asked = {name: order.suite.tasks[name] for name in order.tasks}
    sources = shop.source_infos(tuple(asked.values()))
    inputs = Inputs.asked(
        order.recipe.seed, order.rows, shop.tokenizer_info, sources, order.suite.name, asked
    )
    check_texts(order, shop)
    check_lengths(order, shop)
    check_rows(order, shop)
    with locked(folder, order.share):
        manifest, inputs, infos = _resumed(folder, order, inputs)
        missing = [name for name in share(order) if name not in infos]
        done = [Done(name, info, None) for name, info in infos.items()]
        if manifest is not None and not missing and folder.is_whole(manifest):
            return manifest, done
        if order.shard and not missing:
            return None, [one for one in done if one.config in share(order)]
        folder.start(inputs.to_record(), infos)
        for name, info in infos.items():
            progress(name, info.rows)
        hashes = {source.name: source.sha256 for source in sources}
        jobs = sorted((Job(order, name, hashes) for name in missing), key=lambda job: -job.length)
        if jobs:
            done += (engine or build_here)(shop, jobs, progress)
        done.sort(key=lambda one: config_place(one.config))
        if order.shard:
            return None, [one for one in done if one.config in share(order)]
        return _complete(folder, order, shop, inputs, done), done


def build_here(shop: Workshop, jobs: Sequence[Job], progress: Progress) -> Iterable[Done]:
    """Build configs on this machine, on as many processes as the order has workers."""
    order = jobs[0].order
    held = workers_lock(Folder(order.out), order.share)
    return run_jobs(
        build_config,
        jobs,
        order.workers,
        progress,
        held,
        lambda job, seen: make_config(job, shop, seen),
    )


def _resumed(
    folder: Folder, order: Order, asked: Inputs
) -> tuple[Manifest | None, Inputs, dict[str, ConfigInfo]]:
    """Return the manifest, the inputs and the intact configs that an order goes on with.

    Raises:
        UsageError: the folder holds a build of other inputs, which the order is not to replace.
    """
    manifest, earlier = _found(folder, order)
    if earlier is None:  # records whose inputs are lost could be of any build
        return None, asked, {}
    differing = asked.difference(earlier)
    if not differing:
        infos = folder.intact(manifest.configs if manifest else folder.records())
        return manifest, asked.merged(earlier), infos
    if not order.force:
        msg = (
            f"{order.out}: holds a build with other inputs ({differing}); choose another "
            "--out, or --force to replace it"
        )
        raise UsageError(msg)
    folder.clear()
    return None, asked, {}


def _found(folder: Folder, order: Order) -> tuple[Manifest | None, Inputs | None]:
    """Return the manifest of a folder and the inputs of what it holds, finished or not.

    Raises:
        RulerError: the manifest is damaged, and the order is not to replace it.
    """
    try:
        manifest = folder.manifest()
    except RulerError:
        if not order.force:
            raise
        folder.clear()
        return None, None
    if manifest is not None:
        manifest.check(FILENAME)
        return manifest, Inputs.of_manifest(manifest)
    record = folder.inputs()
    return None, Inputs.from_record(record) if record else None


def _complete(
    folder: Folder,
    order: Order,
    shop: Workshop,
    inputs: Inputs,
    done: list[Done],
) -> Manifest:
    """Write card and licences, and last the manifest."""
    manifest = Manifest(
        data_version=DATA_VERSION,
        rows_version=DATA_VERSION,
        package_version=__version__,
        seed=order.recipe.seed,
        suite=order.suite.name,
        tokenizer=shop.tokenizer_info,
        sources=tuple(inputs.sources[name] for name in sorted(inputs.sources)),
        configs={one.config: one.info for one in done},
        files={},
        pyarrow=pa.__version__,
        tasks=inputs.own_tasks,
    )
    return folder.seal(manifest, card_files(manifest, folder.path.joinpath))
