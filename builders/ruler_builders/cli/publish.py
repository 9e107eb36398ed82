"""`ruler-data publish` and `release`."""

import json
from dataclasses import replace
from typing import Annotated

from ruler_builders.audit.verify import VerifyConfig
from ruler_builders.publish import lockstep
from ruler_builders.publish.plan import PublishConfig
from ruler_builders.publish.release import ReleaseOutcome
from ruler_builders.publish.release import publish as publish_release
from ruler_data.errors import UsageError
from ruler_data.hub.repo import head
from ruler_data.names import check_repo, counted
from ruler_data.options import JsonFlag, Option, command
from ruler_data.terminal import out, progress, say


@command()
def publish(
    config: PublishConfig,
    index: Annotated[
        str, Option("Repo whose index.json is to list the release [default: its own, if any].")
    ] = "",
    as_json: JsonFlag = False,
) -> None:
    """Publish a folder on the Hub: one commit, verified there, then a tag that never moves."""
    tell = _silent if as_json else say
    if index:
        if check_repo(index) != config.repo and head(index) is None:
            msg = f"--index {index}: the Hub has no such dataset; publish it first"
            raise UsageError(msg)
        config = replace(config, siblings=lockstep.listed(index))
    with progress(VerifyConfig(config.folder).tokens) as advance:
        outcome = publish_release(config, advance, tell)
    if as_json:
        out.print_json(json.dumps(_record(config.repo, outcome)))
    else:
        _report(config.repo, outcome)
    if outcome.commit and not config.dry_run and (index or lockstep.listed(config.repo)):
        entry = lockstep.sibling_of(config.repo, outcome)
        lockstep.put_index(index or config.repo, [entry], tell)


@command()
def release(config: lockstep.LockstepConfig, as_json: JsonFlag = False) -> None:
    """Build, verify and publish the data of several tokenizers in lockstep; resumable."""
    done = lockstep.release(config, _silent if as_json else say)
    if as_json:
        out.print_json(json.dumps([_record(repo, outcome) for repo, outcome in done.items()]))
        return
    for repo, outcome in done.items():
        _report(repo, outcome)


def _silent(_line: str) -> None:
    """Print nothing."""


def _report(repo: str, outcome: ReleaseOutcome) -> None:
    plan = outcome.plan
    since = f", since {plan.since.tag}: {plan.change.about} ({plan.why})" if plan.since else ""
    configs = counted(len(plan.dataset.manifest.configs), "config")
    about = f"{plan.version.tag}: {configs}{since}"
    if plan.published is not None:
        say(f"{repo}: {plan.version.tag} is published already, at {plan.published}; nothing sent")
    elif outcome.commit is None:
        say(f"{repo}: {'would be created; ' if plan.creates else ''}would release {about}")
        say(f"{counted(len(plan.send), 'file')} to send:")
        for path in plan.send:
            say(f"  {path}")
    else:
        say(f"{repo}: released {about}, commit {outcome.commit}")


def _record(repo: str, outcome: ReleaseOutcome) -> dict[str, object]:
    """Return an outcome as plain values, for `--json`."""
    plan = outcome.plan
    return {
        "repo": repo,
        "version": str(plan.version),
        "tag": plan.version.tag,
        "since": str(plan.since) if plan.since else None,
        "change": plan.change.name,
        "why": plan.why,
        "commit": outcome.commit,
        "published_before": plan.published is not None,
        "creates": plan.creates,
        "to_send": list(plan.send),
        "sent": list(outcome.sent),
        "configs": {
            name: {
                "rows": [old.rows if old else None, now.rows],
                "bytes": [old.bytes if old else None, now.bytes],
            }
            for name, old, now in plan.configs()
        },
    }
