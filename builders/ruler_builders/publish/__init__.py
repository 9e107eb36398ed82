"""Publishing: a verified folder becomes one commit and one tag on the Hub, or nothing does.

version_rules.py   which part of the version number a change must raise
plan.py            the published and the built configs as one dataset, and its version
release.py         the steps of a release of one folder or of many, in order
siblings.py        several tokenizers as sibling repos, and the index that lists them
"""
