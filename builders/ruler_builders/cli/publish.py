"""`ruler-data publish`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ruler_builders.cli.options import JsonFlag, WorkersOption
from ruler_data.terminal import out, progress, say

if TYPE_CHECKING:
    from ruler_builders.publish import ReleaseOutcome


def publish(
    folder: Annotated[Path, typer.Argument(help="Folder of a build.")],
    repo: Annotated[str, typer.Option(help="Dataset repo on the Hub, OWNER/NAME.")],
    version: Annotated[
        str, typer.Option(help="MAJOR.MINOR.PATCH; by default the next one that fits the changes.")
    ] = "",
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Verify, and report what would be published."),
    ] = False,
    private: Annotated[bool, typer.Option("--private", help="Create the repo as private.")] = False,
    allow_sample: Annotated[
        bool, typer.Option("--allow-sample", help="Publish rows of the sample corpus.")
    ] = False,
    allow_own_texts: Annotated[
        bool,
        typer.Option("--allow-own-texts", help="Publish your own texts (`build --haystack`)."),
    ] = False,
    allow_private_seed: Annotated[
        bool,
        typer.Option("--allow-private-seed", help="Publish rows of `build --fresh`, and the seed."),
    ] = False,
    tokenizer: Annotated[
        str | None,
        typer.Option(help="Folder or Hub id of the tokenizer, if the manifest does not suffice."),
    ] = None,
    workers: WorkersOption = 1,
    as_json: JsonFlag = False,
) -> None:
    """Publish a folder on the Hub: one commit, verified there, then a tag that never moves."""
    from ruler_builders.publish import PublishConfig, publish
    from ruler_builders.publish.version_rules import Version

    guards = {
        "allow-sample": allow_sample,
        "allow-own-texts": allow_own_texts,
        "allow-private-seed": allow_private_seed,
    }
    config = PublishConfig(
        folder=folder,
        repo=repo,
        version=Version.parse(version) if version else None,
        private=private,
        allowed=frozenset(option for option, allowed in guards.items() if allowed),
        dry_run=dry_run,
        tokenizer=tokenizer,
        workers=workers,
    )
    with progress(None) as advance:
        outcome = publish(config, advance, (lambda _: None) if as_json else say)
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


def _about(outcome: "ReleaseOutcome") -> str:
    """Return what a release is, in words."""
    plan = outcome.plan
    since = f", since {plan.since.tag}: {plan.change.about} ({plan.why})" if plan.since else ""
    configs = len(plan.dataset.manifest.configs)
    return f"{plan.version.tag}: {configs} configs{since}"


def _record(repo: str, outcome: "ReleaseOutcome") -> dict[str, object]:
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
