"""The Hugging Face Hub: the one home of its client in both programs.

client.py    the client itself: time limits, silence, the token
faults.py    what an error of the Hub means: it will pass, or one line to say
retry.py     doing something again until it works, in bounded time
release.py   a published dataset, pinned to a commit and checked against its manifest
push.py      files into a repo in one commit, and a tag that never moves
files.py     a few files of any repo, from the cache or the Hub (tokenizers)
"""

from ruler_data.hub.client import token
from ruler_data.hub.download import Release, fetch_release, open_release
from ruler_data.hub.repo import (
    PushFile,
    changed,
    ensure_repo,
    head,
    missing,
    put_files,
    put_tag,
    tags,
    tree,
)
from ruler_data.hub.retry import with_retries
from ruler_data.hub.revision import fetch_files

__all__ = [
    "PushFile",
    "Release",
    "changed",
    "ensure_repo",
    "fetch_files",
    "fetch_release",
    "head",
    "missing",
    "open_release",
    "put_files",
    "put_tag",
    "tags",
    "token",
    "tree",
    "with_retries",
]
