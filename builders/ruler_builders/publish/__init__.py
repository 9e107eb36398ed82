"""Publishing: a verified folder becomes one commit and one tag on the Hub, or nothing does.

version_rules.py   which part of the version number a change must raise
merge.py           the published and the built configs as one dataset
plan.py            what the repo holds, what to send, and under which version
release.py         the steps, in order
lockstep.py        several tokenizers as sibling repos, and the index that lists them
"""
