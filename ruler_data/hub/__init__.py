"""The Hugging Face Hub; only this package imports its client.

retry.py      the client with time limits, retries, and what errors mean
download.py   a published dataset, pinned to a commit and checked; a few files of a model
repo.py       upload of files in one commit, and tags that never move
"""
