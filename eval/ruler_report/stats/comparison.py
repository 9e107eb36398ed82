"""Two runs compared: which runs can be, what their differences show, and how both are printed.

`pairs.py` computes the table of all pairs; what stands here only reads it. Runs can be compared if
protocol, edition and MAJOR version of the data agree, whatever the suite and the tokenizer.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import count, product
from typing import Any, get_args

from ruler_data.errors import RulerError, UsageError
from ruler_data.names import counted, quote
from ruler_eval import run_dir
from ruler_eval.prompts import PROTOCOLS
from ruler_eval.run_dir import RunInfo
from ruler_report.format import format_length, format_p, shortened, visible
from ruler_report.results_file import Cost, Results, Run, ScoreName, read_results
from ruler_report.stats.cost import cost_of, cost_table
from ruler_report.stats.pairs import (
    CANNOT_TELL,
    CONTAMINATED,
    FIRST,
    NO_SIGN,
    SECOND,
    UNCORRECTED,
    Difference,
    Name,
    PairTable,
)
from ruler_report.stats.scores import ScoreStack
from ruler_report.table import Printable, Table

#: A prompt without a chat template.
PLAIN = "{content}{answer_prefix}"
#: What verdicts mean, of two runs and of a test for contamination.
MEANINGS = {
    FIRST: "{first} is better",
    SECOND: "{second} is better",
    UNCORRECTED: "not shown after Holm's correction for all pairs",
    CANNOT_TELL: "cannot tell them apart",
}
CONTAMINATION = {
    CONTAMINATED: "public rows are easier for it than fresh ones, as if it had seen them",
    NO_SIGN: "if public rows are easier for it, then by less than {margin:g} points",
    CANNOT_TELL: "a gap of {margin:g} points is neither shown nor ruled out; more rows would tell",
}


@dataclass(frozen=True, repr=False)
class Comparison(Printable):
    """Two runs compared; it prints as a table with a conclusion.

    Attributes:
        runs: the two runs; `labels` are their names. In a test for contamination the first is on
            fresh rows, and the second on public ones.
        lengths: in tokens, of all that is compared.
        tasks: those that both runs have at every one of these lengths.
        differences: second minus first, by task and length; None stands for the mean over all
            tasks, or lengths.
        categories: differences of the means over the tasks of a category and all lengths.
        paired: whether both runs answered the same questions.
        basis: how the runs are compared, in one line.
        margin: in a test for contamination the smallest gap that matters, in percentage points.
        left_out: configs that are not compared: a run lacks them, at this or another length.
        warnings: why the runs should not be compared; empty unless the comparison was forced.
        validity: a line for each run: what its scores rest on.
        notes: everything that a reader must know before the numbers, warnings included.
        exact: difference of the mean exact scores, if another score is compared; not corrected.
        claimed: whether of one of the runs only the results are known.
        costs: of the answers of each run; `cost` is a table of them beside the scores.
    """

    runs: tuple[RunInfo, RunInfo]
    labels: tuple[str, str]
    lengths: tuple[int, ...]
    tasks: tuple[str, ...]
    differences: dict[tuple[str | None, int | None], Difference]
    categories: dict[str, Difference]
    paired: bool
    basis: str
    margin: float | None
    left_out: tuple[str, ...]
    warnings: tuple[str, ...]
    validity: tuple[str, ...]
    notes: tuple[str, ...] = ()
    exact: Difference | None = None
    claimed: bool = False
    costs: tuple[Cost, ...] = ()
    cost: Table | None = None

    def display_parts(self) -> tuple[Table | str, ...]:
        """Return the differences, the conclusions, and how the runs were compared."""
        exact = [f"exact score: {self._conclude(self.exact)}"] if self.exact else []
        cost = [self.cost] if self.cost and any(one.rows for one in self.costs) else []
        return self.table(), *cost, self.conclusion, *exact, self.basis, *self.validity

    @property
    def overall(self) -> Difference:
        """The difference of the means over all tasks and lengths."""
        return self.differences[None, None]

    @property
    def means(self) -> dict[str, Difference]:
        """The differences of the means over all lengths: `overall`, and by category."""
        return {"overall": self.overall, **self.categories}

    def to_record(self) -> dict[str, Any]:
        """Return the comparison as plain values, as `ruler-eval compare --json` prints it."""
        runs: dict[str, Any] = dict(zip(("first", "second"), self.labels, strict=True))
        if self.margin is not None:
            runs = {"model": self.labels[0], "margin": self.margin}
        plain = {key: self._plain(one) for key, one in self.differences.items()}
        return {
            "paired": self.paired,
            "basis": self.basis,
            "cells": {f"{task}_{n}": one for (task, n), one in plain.items() if task and n},
            "by_task": {task: one for (task, n), one in plain.items() if task and not n},
            "by_length": {n: one for (task, n), one in plain.items() if n and not task},
            "by_category": {name: self._plain(one) for name, one in self.categories.items()},
            "overall": plain[None, None],
            **runs,
            **({"exact": self._plain(self.exact)} if self.exact else {}),
            "cost": list(map(asdict, self.costs)),
            **{name: list(getattr(self, name)) for name in
               ("lengths", "tasks", "left_out", "warnings", "notes", "validity")},
        }  # fmt: skip

    def to_records(self) -> list[dict[str, Any]]:
        """Return a flat record for each difference; `task` or `length` is None in a mean over it.

        `pandas.DataFrame(comparison.to_records())` is a table of all of them.
        """
        return [
            {"task": task, "length": length, **self._plain(difference)}
            for (task, length), difference in self.differences.items()
        ]

    def _plain(self, difference: Difference) -> dict[str, Any]:
        record = asdict(difference)
        rows = record.pop("rows")
        if self.paired:
            return {**record, "pairs": rows[0]}
        names = ("rows_first", "rows_second") if self.margin is None else ("fresh", "public")
        return {**record, **dict(zip(names, rows, strict=True))}

    @property
    def conclusion(self) -> str:
        """What the overall difference shows, in one line."""
        return self._conclude(self.overall)

    @property
    def over(self) -> str:
        """The tasks and lengths that are compared, where a run has others; else empty."""
        lengths = ", ".join(map(format_length, self.lengths))
        return f"over {counted(len(self.tasks), 'task')} at {lengths}" * bool(self.left_out)

    @property
    def all_tasks(self) -> str:
        """The name of the mean over tasks."""
        return "these tasks" if self.over else "all tasks"

    @property
    def limits(self) -> str:
        """What limits a verdict: what it is over, and a claim."""
        claim = "if what is claimed holds" * self.claimed
        return ", ".join(filter(None, (self.over, claim)))

    def _conclude(self, overall: Difference) -> str:
        first, second = self.labels
        over = f" {self.over}" * bool(self.over)
        result = f"{overall} points{over}, p {format_p(overall.adjusted, relation=True)}"
        if self.margin is not None:
            fresh, public = overall.rows
            meaning = CONTAMINATION[overall.verdict].format(margin=self.margin)
            rows = f"{public:,} public rows minus {fresh:,} fresh rows"
            return f"{first} on {rows}: {result}: {overall.verdict}; {meaning}"
        meaning = MEANINGS[overall.verdict].format(first=first, second=second)
        if self.claimed and overall.verdict in (FIRST, SECOND):
            meaning += ", if what is claimed holds"
        return f"{second} minus {first}: {result}: {meaning}"

    def table(self, name: str = "comparison", labels: Sequence[str] = ()) -> Table:
        """Return the differences by task and length.

        With `labels` for the runs it is for a page: it has all intervals, and verdicts name runs.
        """
        names = dict(zip((FIRST, SECOND), labels, strict=False))
        rows = []
        for task in (*self.tasks, None):
            cells = []
            for length in self.lengths:
                cell = self.differences[task, length]
                mark = " *" if cell.verdict in (FIRST, SECOND, CONTAMINATED) else ""
                cells.append((str(cell) if labels else cell.points) + mark)
            mean = self.differences[task, None]
            verdict = names.get(mean.verdict, mean.verdict)
            ps = map(format_p, (mean.p, mean.adjusted))
            rows.append((task or self.all_tasks, verdict, str(mean), *ps, *cells))
        if self.margin is None:
            first, second = labels or ("first", "second run")
            parts = (
                *(f"{second} minus {first}", self.over, "paired" if self.paired else "unpaired"),
                *("in percentage points", "with 95 % intervals" * bool(labels)),
            )
            caption = ", ".join(filter(None, parts))
            caption += "; * significant at 5 % after Holm's correction"
        else:
            caption = "public minus fresh rows, in percentage points; * greater than by chance"
        verdict = "better" if self.margin is None else "verdict"
        head = ("task", verdict, "mean", "p", "p (Holm)", *map(format_length, self.lengths))
        return Table(name, caption, head, tuple(rows), (len(rows) - 1,))


def compared(table: PairTable, first: int, second: int) -> Comparison:
    """Return the comparison of two runs of a table."""
    places, runs = (first, second), (table.runs[first], table.runs[second])
    labels = (table.labels[first], table.labels[second])
    differences: dict[Name, Difference] = {
        name: table.difference(name, first, second) for name in table.pairs
    }
    cells = {f"{task}_{length}" for task, length in product(table.tasks, table.lengths)}
    left_out = sorted((runs[0].configs.keys() | runs[1].configs.keys()) - cells)
    shared = table.stack.shared_rows(first, second)
    warnings = tuple(obstacles(*runs, paired=shared > 0)) if table.margin is None else ()
    notes = [f"forced: {why}" for why in warnings]
    for place, one in zip(places, runs, strict=True):
        whose = table.labels[place]
        if table.margin is not None:
            whose = "fresh rows" if place == first else "public rows"
        notes += [
            f"{whose}: {note}" for note in _notes(one, added=not table.stack.same[first, second])
        ]
    if left_out:
        which = ", ".join(left_out)
        notes.append(f"not compared, not in all runs or not at every length: {which}")
    return Comparison(
        runs=(runs[0].run, runs[1].run),
        labels=labels,
        lengths=table.lengths,
        tasks=table.tasks,
        differences={k: one for k, one in differences.items() if not isinstance(k, str)},
        categories={k: one for k, one in differences.items() if isinstance(k, str)},
        paired=shared > 0,
        basis=_basis(*runs, shared),
        margin=table.margin,
        left_out=tuple(left_out),
        warnings=warnings,
        notes=tuple(notes),
        validity=tuple(
            f"{label}: {one.validity_line}" for label, one in zip(labels, runs, strict=True)
        ),
        claimed=any(one.claimed for one in runs),
        costs=(cost_of(runs[0]), cost_of(runs[1])),
        cost=cost_table(dict(zip(labels, runs, strict=True))),
    )


def shortfall(run: Results) -> Iterator[str]:
    """Yield how many rows have no score, and what that does; nothing if all have one."""
    if run.scored < run.rows:
        text = f"{run.scored:,} of {run.rows:,} rows scored; the others count as wrong"
        open_ones = any(None in config.scores for config in run.configs.values())
        yield text + " in one end of its intervals and as right in the other" * open_ones


def _notes(run: Results, *, added: bool) -> Iterator[str]:
    """Yield what to know of a run; `added` says whether its noise is in the intervals."""
    yield from shortfall(run)
    yield from caveats(run.run)
    if run.noise and added:
        yield (
            f"rows that were generated again changed by {200 * run.noise:.1f} points on average; "
            "that noise is in the intervals"
        )


def labels_of(runs: Sequence[Results]) -> list[str]:
    """Return a distinct name for each run: the user's, or its model; what is claimed is marked.

    Where names repeat, the options or the revision that differ follow, or else a number.
    """
    own_names = [
        shortened(run.name or run.run.model, 80) + " without context" * run.run.no_context
        for run in runs
    ]
    alike: dict[str, list[RunInfo]] = {}
    for name, run in zip(own_names, runs, strict=True):
        alike.setdefault(name, []).append(run.run)
    labels: list[str] = []
    for name, run in zip(own_names, runs, strict=True):
        name += _apart(run.run, alike[name])
        mark = " [claimed]" * bool(run.claimed)
        names = (name + f" ({number})" * (number > 1) + mark for number in count(1))
        labels.append(next(label for label in names if label not in labels))
    return labels


def options_of(run: RunInfo) -> Mapping[str, Any]:
    """Return the options of a run's engine, or the arguments of its function."""
    return run.engine_info.get("arguments") or run.engine_info.get("options") or {}


def _apart(run: RunInfo, runs: Sequence[RunInfo]) -> str:
    """Return in brackets what tells a run from others of its name; empty if that is long."""
    options = {key: {str(options_of(one).get(key)) for one in runs} for key in options_of(run)}
    parts = [f"{key} {options_of(run)[key]}" for key, values in options.items() if len(values) > 1]
    if not parts and run.model_revision and len({one.model_revision for one in runs}) > 1:
        parts = [f"revision {run.model_revision[:12]}"]
    text = visible(", ".join(parts))
    return f" ({text})" if 0 < len(text) <= 40 else ""


def caveats(run: RunInfo) -> Iterator[str]:
    """Yield in what prompts or answers were not those that the rows and the protocol promise."""
    if run.model_tokenizer not in (None, run.data.tokenizer_fingerprint):
        yield "prompts rendered with other tokenizer files than those that the rows are counted in"
    if run.protocol == "completion" and run.frame == PLAIN:
        yield "the tokenizer has no chat template, so completion is plain text, as in base"
    usual = PROTOCOLS[run.protocol].extra_tokens if run.protocol in PROTOCOLS else 0
    extra = run.sampling.get("extra_tokens", usual)
    if extra != usual:
        yield f"answers could be {extra} tokens longer than the rows say, by the protocol {usual}"
    if run.refused:
        yield f"the server refused {', '.join(run.refused)}; its own values applied"
    if temperature := run.sampling.get("temperature"):
        yield f"answers sampled at temperature {temperature}; the default is greedy"


def obstacles(first: Results, second: Results, *, paired: bool) -> Iterator[str]:
    """Yield why two runs cannot be compared; nothing if they can."""
    yield from map(visible, run_dir.obstacles(first.run, second.run))
    if paired:
        return
    common = [name for name in first.configs if name in second.configs]
    differ = [name for name in common if first.configs[name].params != second.configs[name].params]
    if differ:
        yield f"no question is shared, and the parameters of {differ[0]} differ"
    for place, run in (("first", first), ("second", second)):
        configs = [run.configs[name] for name in common]
        if not all(one.questions or one.question_digest for one in configs):
            yield (
                f"the rows differ, and the {place} run was scored by a version that did not "
                "record what they ask; score it again, `ruler-eval score RUN`"
            )


def _basis(first: Results, second: Results, shared: int) -> str:
    """Return how two runs are compared, in one line; `shared` rows are in both."""
    one, other = first.run.data, second.run.data
    if not shared:
        seeds = "; the seeds differ" if one.seed != other.seed else ""
        return f"unpaired: no question is shared{seeds}"
    names = first.configs.keys() & second.configs.keys()
    shared_configs = [(first.configs[name], second.configs[name]) for name in names]
    other_rows = [(a, b) for a, b in shared_configs if a.digest != b.digest]
    same = not other_rows
    text = "paired: the same rows" if same else "paired: the same questions"
    if not same and one.tokenizer != other.tokenizer:
        tokenizers = " and ".join(visible(data.tokenizer) for data in (one, other))
        text += f", haystacks cut to each run's tokens ({tokenizers})"
    counts = [sum(config.rows for config in side) for side in zip(*shared_configs, strict=True)]
    if {*counts} != {shared}:
        text += f"; {shared:,} questions are shared of {counts[0]:,} and {counts[1]:,}"
    alike = any(a.question_digest == b.question_digest for a, b in other_rows)
    if alike and one.inputs != other.inputs:
        text += "; the sources or reserves of the rows may differ"
    return text


def check_comparable(
    runs: Sequence[Results],
    stack: ScoreStack,
    *,
    names: Sequence[str] = (),
    remedy: str,
    force: bool = False,
) -> None:
    """Check that all runs can be compared with the first; `names` are theirs in the refusal.

    Raises:
        RulerError: they cannot, and `force` is false or their editions differ.
    """
    for place, other in enumerate(runs):
        problems = list(obstacles(runs[0], other, paired=stack.paired(0, place)))
        same_edition = runs[0].run.data.edition == other.run.data.edition
        if problems and not (force and same_edition):
            whose = f"{names[place]}: " if names else ""
            way_out = remedy if same_edition else "run both models on one edition"
            msg = f"{whose}not comparable: {'; '.join(problems)}; {way_out}"
            raise RulerError(msg)


def check_scored(*runs: Results) -> None:
    """Check that runs have a score.

    Raises:
        UsageError: one has none at all.
    """
    for run, label in zip(runs, labels_of(runs), strict=True):
        if not run.scored:
            raise UsageError(label, "no row has a score; resume the run, or leave it out")


def pair_table(
    runs: Sequence[Results],
    labels: Sequence[str] | None = None,
    *,
    force: bool = False,
    remedy: str = "--force compares anyway",
    score: ScoreName | None = None,
) -> PairTable:
    """Return the table of runs that can be compared; `score` as in `compare`."""
    table = PairTable([_with_score(run, score) for run in runs], labels or labels_of(runs))
    check_comparable(runs, table.stack, remedy=remedy, force=force)
    return table


def compare(
    first: Run, second: Run, *, force: bool = False, score: ScoreName | None = None
) -> Comparison:
    """Compare two runs, second minus first; see the command.

    `score` is by default that which reports lead with.
    """
    runs = [read_results(first), read_results(second)]
    check_scored(*runs)
    comparison = compared(pair_table(runs, force=force, score=score), 0, 1)
    exact = [_with_score(run, "exact") for run in runs if _has(run, "exact")]
    if len(exact) < 2 or exact == [_with_score(run, score) for run in runs]:
        return comparison
    gap = PairTable(exact, comparison.labels).difference((None, None), 0, 1)
    return replace(comparison, exact=gap)


def _has(results: Results, score: ScoreName) -> bool:
    return all(
        set(one.scores_of(score)) != {None} or not one.scored for one in results.configs.values()
    )


def _with_score(results: Results, score: ScoreName | None) -> Results:
    """Return results whose headline is a score; unchanged if none is named."""
    if score is None:
        return results
    if score not in get_args(ScoreName):
        msg = f"--score {quote(score)}: not known; known: {', '.join(get_args(ScoreName))}"
        raise UsageError(msg)
    if not _has(results, score):
        model = quote(results.run.model)
        msg = f"--score {score}: {model} was scored by a version without it; score it again"
        raise UsageError(msg)
    configs = {name: replace(one, headline=score) for name, one in results.configs.items()}
    return replace(results, configs=configs)
