"""The Hugging Face Hub; only this package imports its client.

client.py     one client and one patience: time limits
retry.py      steps that are tried again, and what errors mean
download.py   a published dataset, pinned to a commit and checked; a few files of a model
repo.py       upload of files in one commit, and tags that never move
"""
