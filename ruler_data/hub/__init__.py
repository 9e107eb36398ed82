"""The Hugging Face Hub; only this package imports its client.

client.py     the client, with time limits
retry.py      retries, and what errors mean
revision.py   which commit a revision is; a few files of a model, from the cache or the Hub
download.py   a published dataset, pinned to a commit and checked against its manifest
repo.py       upload of files in one commit, and tags that never move
"""

from ruler_data.hub.client import token
from ruler_data.hub.download import (
    Release,
    check_blobs,
    fetch_file,
    fetch_release,
    fetch_tables,
    open_release,
)
from ruler_data.hub.repo import (
    PushFile,
    changed,
    ensure_repo,
    head,
    missing,
    put_collection,
    put_files,
    put_tag,
    tags,
    tree,
)
from ruler_data.hub.retry import check_network, status, with_retries
from ruler_data.hub.revision import fetch_files

__all__ = [
    "PushFile",
    "Release",
    "changed",
    "check_blobs",
    "check_network",
    "ensure_repo",
    "fetch_file",
    "fetch_files",
    "fetch_release",
    "fetch_tables",
    "head",
    "missing",
    "open_release",
    "put_collection",
    "put_files",
    "put_tag",
    "status",
    "tags",
    "token",
    "tree",
    "with_retries",
]
