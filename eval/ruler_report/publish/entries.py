"""What the Hub shows of a run: entries for the model's page, and the card of its predictions.

Format of the entries: https://huggingface.co/docs/hub/eval-results, `.eval_results/*.yaml` in the
model's repo. Each names a leaderboard of the dataset's `eval.yaml`, of one protocol and edition:
`ruler_131072_chat_balanced` for a length, `ruler_chat_balanced` for the mean over all lengths.
Values are means over all 13 tasks, 0 to 100.
"""

from collections.abc import Collection

import yaml

from ruler_data.errors import RulerError
from ruler_data.names import parse_config
from ruler_data.tasks import TASKS
from ruler_data.templates import template
from ruler_report.format import markdown_text
from ruler_report.pages.report import build
from ruler_report.results import Results
from ruler_report.stats.summary import Summary

#: Digits of a published value; upstream prints two.
DIGITS = 2
#: Tables of the report that the card shows; those of published scores have their group's name.
CARD_TABLES = {
    "headline",
    "effective",
    "published-aligned-3",
    "published-base-12",
    "tasks",
    "failures",
}


def entries(
    results: Results, summary: Summary, configs: Collection[str], source: str
) -> list[dict[str, object]]:
    """Return the entries of a run; `configs` are all of the dataset, `source` is a URL."""
    _check(results, summary)
    values = {f"ruler_{length}": figure for length, figure in summary.overall.items()}
    lengths = {length for _, length in map(parse_config, configs)}
    if lengths == set(summary.overall) and "avg" in summary.averages:
        values = {"ruler": summary.averages["avg"], **values}
    data, kind = results.run.data, kind_of(results)
    return [
        {
            "dataset": {"id": data.repo, "task_id": f"{task}_{kind}", "revision": data.revision},
            "value": round(figure.value, DIGITS),
            "source": {"url": source, "name": "Predictions and scores"},
            "notes": f"{_notes(results)}; {figure.scored:,} rows, 95 % interval "
            f"{figure.low:.2f} to {figure.high:.2f}",
        }
        for task, figure in values.items()
    ]


def to_yaml(value: object) -> str:
    """Return entries, or the metadata of a card, as YAML."""
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=False, width=100)


def kind_of(results: Results) -> str:
    """Return protocol and edition of a run, which scores must share to be compared."""
    return f"{results.run.protocol}_{results.run.data.edition}"


def file_name(repo: str, kind: str) -> str:
    """Return the path of the entries for a dataset in a model's repo.

    >>> file_name("org/ruler-qwen3", "chat_balanced")
    '.eval_results/ruler-qwen3_chat_balanced.yaml'
    """
    return f".eval_results/{repo.rpartition('/')[2]}_{kind}.yaml"


def _notes(results: Results) -> str:
    run = results.run
    version = run.engine_info.get("version")
    engine = f"{run.engine} {version}" if isinstance(version, str) else run.engine
    return (
        f"protocol {run.protocol}; edition {run.data.edition}; {engine}; lengths counted in "
        f"{run.data.tokenizer}"
    )


def _check(results: Results, summary: Summary) -> None:
    data = results.run.data
    wrong = [
        (data.repo is None, "its rows are of a folder, and a leaderboard needs a Hub repo"),
        (data.sample, "its rows are of the sample corpus"),
        (data.suite != "ruler", f"its suite is {data.suite}, not ruler"),
        (results.run.no_context, "it was run without context"),
        (results.scored < results.rows, f"{results.scored:,} of {results.rows:,} rows are scored"),
        (set(summary.tasks) != set(TASKS), "it does not have exactly the 13 tasks"),
        (not summary.overall, "it has no length with all 13 tasks"),
    ]
    for failed, why in wrong:
        if failed:
            msg = f"not a RULER score for a model's page: {why}; publish without --model-repo"
            raise RulerError(msg)


def results_card(results: Results, repo: str) -> str:
    """Return the card of a run's predictions; `repo` is the dataset that holds them."""
    report = build([results], medium=None)
    (facts,) = (table for table in report.tables if table.name == "facts")
    return template("results.md.j2").render(
        front_matter=_front_matter(results),
        model=markdown_text(results.run.model),
        repo=repo,
        notes=[markdown_text(note) for note in report.notes],
        tables=[table.markdown() for table in report.tables if table.name in CARD_TABLES],
        facts=facts.markdown(),
        config=next(iter(results.configs)),
    )


def _front_matter(results: Results) -> str:
    metadata = {
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
    return to_yaml(metadata)
