"""Publishing: a verified folder becomes one commit and one tag on the Hub, or nothing does.

versions.py   which part of the version number a change must move
compose.py    what was published and what was built, as one dataset
card.py       what the Hub would refuse in a card, found before it is asked
plan.py       what the repo holds, what is to be sent, and under which version
release.py    the steps, in their order
"""

from ruler_builders.publish.plan import Plan, PublishConfig
from ruler_builders.publish.release import ReleaseOutcome, publish

__all__ = ["Plan", "PublishConfig", "ReleaseOutcome", "publish"]
