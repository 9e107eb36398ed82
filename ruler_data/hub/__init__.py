"""The Hugging Face Hub; only this package imports its client.

retry.py      the client with time limits, retries, and what errors mean
revision.py   which commit a revision is; a few files of a model, from the cache or the Hub
download.py   a published dataset, pinned to a commit and checked against its manifest
repo.py       upload of files in one commit, and tags that never move
"""
