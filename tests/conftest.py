"""What tests share: real inputs where they are present, a small real build, and the command."""

import gc
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from zlib import crc32

import certifi
import pytest
from filelock import FileLock
from hypothesis import settings
from hypothesis import strategies as st

import ruler_builders
from tests import commands
from tests.builds import FOUR, Asked, snapshot
from tests.builds import run as run_build
from tests.commands import Done, succeeded
from tests.hub import Hub, running
from tests.publishing import Publisher, Site, publishing
from tests.running.tiny import make_model

ROOT = Path(__file__).resolve().parents[1]
SHARED = Path(os.environ.get("RULER_SHARED", ROOT.parent / "shared"))

# Seconds of a busy machine say nothing of an example; each run draws other ones.
settings.register_profile("ruler", deadline=None, max_examples=40)
settings.load_profile("ruler")
#: Every character of UTF-8. The usual alphabet of `st.text` is looked up first, for two seconds.
LETTERS = st.characters(max_codepoint=0xD7FF) | st.characters(min_codepoint=0xE000)

Cli = Callable[..., Done]
#: What the fixture `builds` gives.
Builds = Callable[..., Path]


def pytest_collection() -> None:
    """Import other tests first in each worker: what it has compiled, the others read."""
    gc.disable()
    worker, workers = (
        int(os.environ.get(f"PYTEST_XDIST_WORKER{name}", "gw0").removeprefix("gw"))
        for name in ("", "_COUNT")
    )
    files = sorted(ROOT.glob("tests/**/test_*.py")) if workers else []
    first = worker * len(files) // (workers or 1)
    for path in (*files[first:], *files[:first]):
        with suppress(Exception, pytest.skip.Exception):  # collecting it says why
            import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))


def pytest_collection_finish() -> None:
    """Let the collector of garbage pass over what collecting tests has made: it all stays."""
    gc.freeze()
    gc.set_threshold(100_000)
    gc.enable()


def of_all_workers(factory: pytest.TempPathFactory) -> Path:
    """The folder of this run, which the workers of pytest-xdist share."""
    base = factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


def made_once(folder: Path, make: Callable[[Path], object]) -> Path:
    """Return a folder that the first worker of pytest-xdist to need it makes for all of them."""
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            part = folder.with_name(f"{folder.name}.part")
            make(part)
            part.rename(folder)
    return folder


@pytest.fixture(scope="session", autouse=True)
def isolated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the tests off the network and out of the user's caches."""
    certificate, end = tmp_path_factory.mktemp("ssl") / "one.pem", "-----END CERTIFICATE-----"
    first = Path(certifi.where()).read_text(encoding="ascii", errors="ignore").partition(end)[0]
    certificate.write_text(f"{first}{end}\n", encoding="ascii")
    names = {
        "RULER_CACHE": str(of_all_workers(tmp_path_factory) / "cache"),
        "HF_HOME": str(tmp_path_factory.mktemp("hf")),
        "RULER_OFFLINE": "1",
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        # By default Ray's workers wait for all else on the machine: on a busy one, for minutes.
        "RAY_worker_niceness": "0",
        # Ray's token lies in the home folder, where two clusters that start at once make two.
        "RAY_AUTH_MODE": "disabled",
        # Each HTTP client reads all certificates, and no test needs more than one.
        "SSL_CERT_FILE": str(certificate),
    }
    # A job in the background ignores SIGINT, and so would all that the tests start.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    dropped = (
        "COLUMNS", "PYTHONUNBUFFERED", "RULER_SOURCES", "RULER_TOKENIZERS", "HF_TOKEN", "NLTK_DATA",
        "SSL_CERT_DIR",
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        for name, value in names.items():
            patch.setenv(name, value)
        for name in dropped:
            patch.delenv(name, raising=False)
        patch.setattr(os, "fsync", lambda _: None)  # nobody cuts the power of this process
        yield


@pytest.fixture(scope="session")
def shared() -> Path:
    """A folder with real `sources/` and `tokenizers/`; CONTRIBUTING.md has its layout."""
    if not (SHARED / "sources").is_dir():
        pytest.skip("no real sources and tokenizers: RULER_SHARED names no folder that has them")
    return SHARED


@pytest.fixture(scope="session")
def llama3(shared: Path) -> str:
    """The folder of the real Llama-3 tokenizer."""
    return str(shared / "tokenizers" / "llama3")


@pytest.fixture(scope="session")
def cli() -> Cli:
    """Run `ruler-data` to its end."""

    def run(*arguments: object, env: dict[str, str] | None = None) -> Done:
        return commands.run("ruler-data", *arguments, env=env)

    return run


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model's folder without weights: tokenizer, template and config; not to be changed."""
    return made_once(of_all_workers(tmp_path_factory) / "tiny", make_model)


@pytest.fixture(scope="session")
def asked(tiny: Path) -> Asked:
    """What a small build is asked for, in a tokenizer that is loaded at once."""
    return (*FOUR, "--tokenizer", tiny)


@pytest.fixture(scope="module")
def expected(asked: Asked, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Every file of an undisturbed build of what a module asks for."""
    folder = of_all_workers(tmp_path_factory) / f"undisturbed-{crc32(repr(asked).encode())}"
    return snapshot(made_once(folder, lambda out: succeeded(run_build(*asked, "--out", out))))


@pytest.fixture(scope="session")
def sample_build(tmp_path_factory: pytest.TempPathFactory, cli: Cli) -> Path:
    """All 13 tasks of the sample corpus at 4,096 tokens, 6 rows each; not to be changed."""
    asked = ("build", "--lengths", 4096, "--rows", 6, "--sources", "sample")
    return made_once(
        of_all_workers(tmp_path_factory) / "sample",
        lambda out: succeeded(cli(*asked, "--out", out)),
    )


@pytest.fixture(scope="session")
def hub() -> Iterator[Hub]:
    """A Hub on loopback; each test takes a repo of its own."""
    with running() as hub:
        yield hub


@pytest.fixture(scope="session")
def publisher(hub: Hub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Publisher]:
    """A process that publishes to that Hub."""
    with publishing(hub, tmp_path_factory.mktemp("hf")) as publisher:
        yield publisher


@pytest.fixture
def repo(hub: Hub, request: pytest.FixtureRequest) -> Iterator[str]:
    """The id of a repo that no other test has; no fault outlives the test."""
    hub.requests.clear()
    hub.large.clear()
    yield f"org/r{crc32(request.node.nodeid.encode())}"
    hub.faults.clear()


@pytest.fixture
def site(publisher: Publisher, hub: Hub, repo: str, builds: Builds) -> Site:
    """Where a test publishes."""
    return Site(publisher, hub, repo, builds)


@pytest.fixture(scope="session")
def builds(tmp_path_factory: pytest.TempPathFactory) -> Builds:
    """Build a small folder of the sample once, in this process; not to be changed."""
    root = of_all_workers(tmp_path_factory)

    @cache
    def made(
        tasks: str = "vt,fwe",
        length: int = 1024,
        seed: int = 42,
        tokenizer: str = "mistral-v0.2",
        rows: int = 3,
    ) -> Path:
        return made_once(
            root / f"{tasks}-{length}-{seed}-{tokenizer}-{rows}",
            lambda out: ruler_builders.build(
                tokenizer,
                out=out,
                tasks=tasks.split(","),
                lengths=[length],
                rows=rows,
                seed=seed,
                sources="sample",
            ),
        )

    return made
