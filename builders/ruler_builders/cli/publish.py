"""`ruler-data publish`."""

import json

from ruler_builders.publish import PublishConfig, ReleaseOutcome
from ruler_builders.publish import publish as publish_release
from ruler_data.options import JsonFlag, command
from ruler_data.terminal import out, progress, say


@command()
def publish(config: PublishConfig, as_json: JsonFlag = False) -> None:
    """Publish a folder on the Hub: one commit, verified there, then a tag that never moves."""
    repo = config.repo
    with progress(None) as advance:
        outcome = publish_release(config, advance, (lambda _: None) if as_json else say)
    if as_json:
        out.print_json(json.dumps(_record(repo, outcome)))
        return
    plan = outcome.plan
    if plan.published is not None:
        say(f"{repo}: {plan.version.tag} is published already, at {plan.published}; nothing sent")
    elif outcome.commit is None:
        say(
            f"{repo}: {'would be created; ' if plan.creates else ''}would release {_about(outcome)}"
        )
        say(f"{len(plan.send)} files to send:")
        for path in plan.send:
            say(f"  {path}")
    else:
        say(f"{repo}: released {_about(outcome)}, commit {outcome.commit}")


def _about(outcome: ReleaseOutcome) -> str:
    """Return what a release is, in words."""
    plan = outcome.plan
    since = f", since {plan.since.tag}: {plan.change.about} ({plan.why})" if plan.since else ""
    configs = len(plan.dataset.manifest.configs)
    return f"{plan.version.tag}: {configs} configs{since}"


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
        "configs": list(plan.dataset.manifest.configs),
    }
