"""Publishing: a verified folder becomes one commit and one tag on the Hub, or nothing does.

version_rules.py   which part of the version number a change must raise
merge.py           the published and the built configs as one dataset
plan.py            what the repo holds, what to send, and under which version
release.py         the steps, in order
"""

from ruler_builders.publish.plan import Plan, PublishConfig
from ruler_builders.publish.release import ReleaseOutcome, publish

__all__ = ["Plan", "PublishConfig", "ReleaseOutcome", "publish"]
