"""`ruler_builders.build`: a build from Python."""

from ruler_builders.pipeline.build import build_folder
from ruler_builders.pipeline.build_config import BuildConfig
from ruler_data.manifest import Manifest
from ruler_data.options import takes_options


@takes_options(BuildConfig)
def build(config: BuildConfig) -> Manifest:
    """Build a folder of frozen configs and return its manifest; resume an interrupted build.

    The same options give the same bytes, on any machine and with any number of workers. A script
    that sets `workers` needs the guard `if __name__ == "__main__":`, since workers import it. A
    shard returns the manifest of its configs and writes none.

    Raises:
        UsageError: it cannot be built with these options; nothing was written.
        RulerError: a fault of disk, sources or workers; finished configs are kept.
    """
    return build_folder(config)[0]
