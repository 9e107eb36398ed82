"""Scores for a model's page, in the Hub's format for evaluation results.

Format: https://huggingface.co/docs/hub/eval-results, `.eval_results/*.yaml` in the model's repo.
A task of it is a leaderboard of the dataset's `eval.yaml`: `ruler_131072` for a length, `ruler`
for the mean over all lengths of the dataset; values are means over all 13 tasks, 0 to 100.

The results card: what a run scored and how, as the README of its predictions.
"""

from collections.abc import Collection

import yaml

from ruler_data.errors import RulerError
from ruler_data.names import parse_config
from ruler_data.tasks import TASKS
from ruler_data.templates import template
from ruler_report.pages.render import markdown_table
from ruler_report.pages.report import build
from ruler_report.results import Results
from ruler_report.stats.summary import Summary
from ruler_report.tables.escape import markdown_text

#: Digits of a published value; upstream prints two.
DIGITS = 2


def entries(
    results: Results, summary: Summary, configs: Collection[str], source: str
) -> list[dict[str, object]]:
    """Return the entries of a run.

    Args:
        results: of it.
        summary: its figures.
        configs: all that the published dataset has.
        source: address of the predictions.

    Raises:
        RulerError: there is nothing to enter, or it would be no RULER score.
    """
    _check(results, summary)
    values = {f"ruler_{length}": figure.value for length, figure in summary.overall.items()}
    everything = {length for _, length in map(parse_config, configs)}
    if everything == set(summary.overall) and "avg" in summary.averages:
        values = {"ruler": summary.averages["avg"].value, **values}
    data = results.run.data
    return [
        {
            "dataset": {"id": data.repo, "task_id": task, "revision": data.revision},
            "value": round(value, DIGITS),
            "source": {"url": source, "name": "Predictions and scores"},
            "notes": _notes(results),
        }
        for task, value in values.items()
    ]


def to_yaml(found: list[dict[str, object]]) -> str:
    """Return entries as the text of their file."""
    return yaml.safe_dump(found, sort_keys=False, allow_unicode=False, width=100)


def file_name(repo: str) -> str:
    """Return where entries for a benchmark stand in a model's repo.

    >>> file_name("org/ruler-qwen3")
    '.eval_results/ruler-qwen3.yaml'
    """
    return f".eval_results/{repo.rpartition('/')[2]}.yaml"


def _notes(results: Results) -> str:
    run = results.run
    version = run.engine_info.get("version")
    engine = f"{run.engine} {version}" if isinstance(version, str) else run.engine
    return f"protocol {run.protocol}; {engine}; lengths counted in {run.data.tokenizer}"


def _check(results: Results, summary: Summary) -> None:
    data = results.run.data
    wrong = [
        (data.repo is None, "it was asked rows of a folder, and a leaderboard is of a Hub repo"),
        (data.sample, "it was asked rows of the sample corpus"),
        (data.suite != "ruler", f"its suite is {data.suite}, not ruler"),
        (results.run.no_context, "it was asked without context"),
        (results.scored < results.rows, f"{results.scored:,} of {results.rows:,} rows are scored"),
        (set(summary.tasks) != set(TASKS), "it has not all 13 tasks, and no others"),
        (not summary.overall, "it has no length with all 13 tasks"),
    ]
    for is_wrong, why in wrong:
        if is_wrong:
            msg = f"no RULER score for a model's page: {why}; publish without --model-repo"
            raise RulerError(msg)


def results_card(results: Results, repo: str) -> str:
    """Return the card of a run's predictions.

    Args:
        results: of the run.
        repo: id of the dataset that the predictions are published as.
    """
    report = build([results], pictures=False)
    chapter = report.chapters[0]
    tables = [report.headline, report.effective, *report.published, chapter.tasks, chapter.failures]
    return template("results.md.j2").render(
        front_matter=_front_matter(results),
        model=markdown_text(results.run.model),
        repo=repo,
        warnings=[markdown_text(warning) for warning in report.warnings],
        tables=[markdown_table(table) for table in tables if table.rows],
        facts=markdown_table(chapter.facts),
        config=next(iter(results.configs)),
    )


def _front_matter(results: Results) -> str:
    body = {
        "pretty_name": "RULER predictions",
        "tags": ["ruler", "long-context", "evaluation", "predictions"],
        "configs": [
            {
                "config_name": name,
                "data_files": [{"split": "test", "path": f"predictions/{name}.parquet"}],
            }
            for name in results.configs
        ],
    }
    return yaml.safe_dump(body, sort_keys=False, allow_unicode=False, width=100)
