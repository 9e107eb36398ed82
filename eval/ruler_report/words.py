"""A conclusion in words: every sentence is read from its verdicts, and quotes what runs say."""

from collections.abc import Iterable, Iterator, Mapping

from ruler_data.manifest import BALANCED, IMPORTED
from ruler_data.names import counted
from ruler_data.tasks import TASKS
from ruler_eval.running.prompts import PROTOCOLS
from ruler_eval.running.run_dir import RunInfo
from ruler_eval.scoring.scores import Scores
from ruler_report.columns import MEAN
from ruler_report.conclusion import (
    BETTER,
    CANNOT_TELL,
    UNCORRECTED,
    WORSE,
    Conclusion,
    Ranks,
)
from ruler_report.effective_length import RULER
from ruler_report.frame import RowsOfRun
from ruler_report.means import FEWEST
from ruler_report.typesetting import first_of, format_length, format_number, join, visible

#: Comparisons that are stated one by one; more are only counted.
SPELLED = 4
#: How runs on the same rows are compared.
SAME_ROWS = "paired: the same rows"
#: A prompt without a chat template.
PLAIN = "{content}{answer_prefix}"
#: Rows of a config below which a note says how many there are.
PLENTY = 100
#: Characters of a title that names its runs; a longer one says how many they are.
LONGEST_TITLE = 100
#: What the two families of tests promise.
FAMILIES = (
    "There are two families of tests; each errs in 5 % of tries as a whole. The first has the "
    "means of all pairs of ranked runs: ranks and the first sentence come from it. The second has "
    "the cells, tasks, lengths and categories of each run against the run that it is compared "
    "with: stars come from it."
)


def format_ranks(ranks: Ranks | None) -> str:
    """Return an interval of ranks.

    >>> format_ranks((1, 1)), format_ranks((2, 4)), format_ranks(None)
    ('1', '2-4', '')
    """
    if ranks is None:
        return ""
    low, high = ranks
    if low == high:
        return f"{low}"
    return f"{low}-{high}"


def frame_line(conclusion: Conclusion) -> str:
    """Return the rows in question."""
    frame = conclusion.frame
    if not frame.cells:
        return "frame: no task at a length is complete in all runs; no means, no ranks"
    sizes = sorted({*frame.rows.values()})
    rows = " to ".join(f"{size:,}" for size in dict.fromkeys((sizes[0], sizes[-1])))
    lengths = ", ".join(map(format_length, frame.lengths))
    noun = "row" if sizes == [1] else "rows"
    text = f"frame: {counted(len(frame.tasks), 'task')} at {lengths}, {rows} {noun} of each"
    if frame.left_out:
        names = [f"{task}_{length}" for task, length in frame.left_out]
        text += f"; left out: {first_of(names, 'config')}"
    return text


def headline(conclusion: Conclusion) -> str:
    """Return what the means over the frame show, in one sentence."""
    if len(conclusion.runs) == 1:
        return _alone(conclusion)
    if not conclusion.ranks:
        return f"No run is ranked: {_why_no_ranks(conclusion)}."
    best, *rivals = [run for run in conclusion.order if run in conclusion.ranks]
    name = conclusion.names[best]
    lead = f"{name} has the highest mean, {conclusion.estimate(MEAN, best)}"
    ties = [run for run in rivals if _is_tie(conclusion, best, run)]
    if ties:
        equals = _few([conclusion.names[run] for run in ties])
        lead = f"{name} shares the highest mean with {equals}, {conclusion.estimate(MEAN, best)}"
    groups: dict[str, list[str]] = {}
    for run in rivals:
        groups.setdefault(conclusion.verdict(best, run), []).append(conclusion.names[run])
    if groups.keys() == {BETTER}:
        ranked = "ranked run" if conclusion.frame.unranked else "run"
        return f"{lead}; it is better than every other {ranked}."
    return f"{'; '.join([lead, *_verdicts_of_the_best(groups)])}."


def _verdicts_of_the_best(groups: Mapping[str, list[str]]) -> Iterator[str]:
    """Yield what the best run is beside the others, given their names by verdict."""
    if CANNOT_TELL in groups:
        yield f"it cannot be told apart from {_few(groups[CANNOT_TELL])}"
    if UNCORRECTED in groups:
        names = _few(groups[UNCORRECTED])
        yield f"it is not shown to be better than {names} after the correction"
    if BETTER in groups:
        yield f"it is better than {_few(groups[BETTER])}"


def _is_tie(conclusion: Conclusion, first: int, second: int) -> bool:
    """Whether two means are equal but for the last digits of a float."""
    gap = conclusion.mean_gap(first, second)
    return gap is not None and abs(gap.value) < 1e-9


def _few(names: list[str]) -> str:
    """Return names as a list in a sentence; many are only counted."""
    if len(names) <= SPELLED:
        return join(names)
    return f"{len(names)} runs"


def _alone(conclusion: Conclusion) -> str:
    """Return the mean of one run, at its shortest and its longest length."""
    estimate = conclusion.estimate(MEAN, 0)
    if estimate is None:
        return f"{conclusion.names[0]}: no task at a length is complete."
    lengths = conclusion.frame.lengths
    text = f"{conclusion.names[0]}: mean of {counted(len(conclusion.frame.tasks), 'task')}"
    text += f" {estimate}"
    beside = format_number(conclusion.value_beside(MEAN, 0), 1)
    text += f", {conclusion.beside_name} {beside}"
    if len(lengths) > 1:
        ends = []
        for length in (lengths[0], lengths[-1]):
            value = format_number(conclusion.value((None, length), 0), 1)
            ends.append(f"{value} at {format_length(length)}")
        text += f"; {' and '.join(ends)}"
    return f"{text}."


def _why_no_ranks(conclusion: Conclusion) -> str:
    if not conclusion.frame.cells:
        return "no task at a length is complete in all runs"
    if len(conclusion.frame.ranked) < 2:
        return "; ".join(f"{name}: {why}" for name, why in unranked(conclusion))
    return f"a task has fewer than {FEWEST} rows"


def unranked(conclusion: Conclusion) -> Iterator[tuple[str, str]]:
    """Yield the names of runs without a rank, with the reason."""
    for run, why in conclusion.frame.unranked.items():
        yield conclusion.names[run], why


def warnings(conclusion: Conclusion) -> list[str]:
    """Return what stands before everything else: runs that `score` refuses, and others unranked.

    Of one run alone the missing rank is not worth a word, what `score` refuses is.
    """
    if len(conclusion.runs) == 1:
        refusals = conclusion.runs[0].validity.refusals
        lines = [f"{conclusion.names[0]}: `score` refuses it: {visible('; '.join(refusals))}"]
        if refusals:
            return lines
        return []
    return [f"{name} has no rank: {why}" for name, why in unranked(conclusion)]


def further(conclusion: Conclusion) -> list[str]:
    """Return what the first sentence leaves out."""
    lines = []
    if len(conclusion.compared) <= SPELLED:
        lines += [compare_sentence(conclusion, run) for run in conclusion.compared]
    lines += _other_leader(conclusion)
    if len(conclusion.runs) == 1:
        lines += [*_reach(conclusion), *_lowest_task(conclusion)]
    return lines


def compare_sentence(conclusion: Conclusion, run: int) -> str:
    """Return what the means of a run and of the base show."""
    base = conclusion.base
    names = conclusion.names[run], conclusion.names[base]
    meanings = {
        BETTER: f"{names[0]} is better",
        WORSE: f"{names[1]} is better",
        UNCORRECTED: "not shown after the correction for all pairs",
        CANNOT_TELL: "cannot tell them apart",
    }
    verdict = conclusion.verdict(run, base)
    text = f"{names[0]} minus {names[1]}: {conclusion.mean_gap(run, base)} points: "
    text += meanings[verdict]
    if verdict in (BETTER, WORSE) and any(conclusion.runs[place].claimed for place in (run, base)):
        text += ", if what is claimed holds"
    return f"{text}.{_contradiction(conclusion, run)}"


def _contradiction(conclusion: Conclusion, run: int) -> str:
    """Return that the two scores point in opposite directions; empty if they do not."""
    gap = conclusion.means.difference(MEAN, run, conclusion.base)
    beside = conclusion.beside.difference(MEAN, run, conclusion.base)
    if gap.value * beside.value >= 0:
        return ""
    if not (gap.is_clear or beside.is_clear):
        return ""
    return (
        f" {conclusion.score_name.capitalize()} and {conclusion.beside_name} scores differ in "
        f"sign: {gap} and {beside}; an answer that names more than what is asked is right by the "
        "official score alone."
    )


def _other_leader(conclusion: Conclusion) -> Iterator[str]:
    """Yield that another run leads by the other score."""
    ranked = [run for run in conclusion.order if run in conclusion.ranks]
    if not ranked:
        return
    values = {run: conclusion.value_beside(MEAN, run) or 0.0 for run in ranked}
    leader = max(ranked, key=lambda run: values[run])
    if values[leader] > values[ranked[0]]:
        yield (
            f"By the {conclusion.beside_name} score {conclusion.names[leader]} leads: "
            f"{values[leader]:.1f}, {conclusion.names[ranked[0]]} has {values[ranked[0]]:.1f}."
        )


def _lowest_task(conclusion: Conclusion) -> Iterator[str]:
    """Yield the lowest task of one run, where one alone is lowest."""
    values = {}
    for task in conclusion.frame.tasks:
        value = conclusion.value((task, None), 0)
        if value is not None:
            values[task] = value
    lowest = [task for task, value in values.items() if value == min(values.values())]
    if len(values) > 1 and len(lowest) == 1:
        yield f"Lowest task: {lowest[0]}, {conclusion.estimate((lowest[0], None), 0)}."


def _reach(conclusion: Conclusion) -> Iterator[str]:
    """Yield the effective lengths of one run; of several they stand in the first table."""
    texts = []
    paper = conclusion.paper_length(0)
    if paper:
        texts.append(f"{paper} at the paper's threshold ({paper.threshold:g})")
    reach = conclusion.own_length(0)
    if reach:
        shortest = format_length(conclusion.frame.lengths[0])
        texts.append(f"{reach} at 85 % of its own score at {shortest} ({reach.threshold:.1f})")
    if texts:
        declared = conclusion.runs[0].window[0]
        if declared:
            texts.append(f"the model declares {format_length(declared)}")
        yield f"Effective length: {'; '.join(texts)}."


def validity_lines(conclusion: Conclusion) -> list[str]:
    """Return for each run what its scores rest on; equal lines stand once."""
    lines = [
        (conclusion.names[run], visible(conclusion.runs[run].validity_line))
        for run in conclusion.order
    ]
    return [*attributed(lines, len(conclusion.runs))]


def notes(conclusion: Conclusion) -> list[str]:
    """Return what a reader must know of the runs, and of how they compare."""
    lines: list[tuple[str, str]] = []
    for place, run in enumerate(conclusion.runs):
        name = conclusion.names[place]
        missing = run.rows - run.answered
        if missing:
            lines.append((name, f"incomplete: {missing:,} of {run.rows:,} rows have no score"))
        lines += [(name, note) for note in notes_of(run, conclusion.frame.runs[place])]
    base = conclusion.names[conclusion.base]
    for place, problems in conclusion.frame.forced.items():
        lines += [
            (conclusion.names[place], f"compared with {base} although {why}") for why in problems
        ]
    for place in conclusion.compared:
        basis = basis_of(conclusion, place)
        if basis != SAME_ROWS:
            lines.append((conclusion.names[place], f"compared with {base}, {basis}"))
    return [*attributed(lines, len(conclusion.runs))]


def notes_of(run: Scores, rows: RowsOfRun) -> Iterator[str]:
    """Yield what a reader must know of a run and its rows beside its numbers."""
    yield from caveats_of(run, rows)
    yield from map(visible, run.validity.warnings)
    yield from map(visible, run.notes)


def caveats_of(run: Scores, rows: RowsOfRun) -> Iterator[str]:
    """Yield why the scores are not RULER's, or are imprecise, although every row was answered."""
    data = run.run.data
    if data.sample:
        yield "rows of the small sample corpus; not comparable with RULER scores"
    if data.edition == IMPORTED:
        yield "imported rows, which somebody else made; compare only with runs on these rows"
    elif data.edition != BALANCED:
        yield (
            f"edition {visible(data.edition)}: upstream's own rows with their defects; compare "
            "only with runs of this edition"
        )
    if run.run.no_context:
        yield "run without the context, as a baseline"
    yield from caveats(run.run)
    tasks = {task for task, _ in rows}
    if data.suite != RULER:
        yield f"suite {visible(data.suite)}; its means are not comparable with RULER's"
    elif tasks < {*TASKS}:
        yield f"{len(tasks)} of 13 tasks; means over tasks are not RULER averages"
    yield from _few_rows(rows)


def _few_rows(rows: RowsOfRun) -> Iterator[str]:
    """Yield how many rows the smallest config has, if they are few."""
    fewest = min((cell.planned for cell in rows.values()), default=PLENTY)
    if fewest == 1:
        yield "some configs have one row alone, so there is no interval; the paper uses 500"
    elif fewest < PLENTY:
        yield f"some configs have only {fewest} rows; the paper uses 500"


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
    temperature = run.sampling.get("temperature")
    if temperature:
        yield f"answers sampled at temperature {temperature}; the default is greedy"


def attributed(lines: Iterable[tuple[str, str]], runs: int) -> Iterator[str]:
    """Yield each text once, after the names of the runs that it is about."""
    about: dict[str, list[str]] = {}
    for name, text in lines:
        about.setdefault(text, []).append(name)
    for text, names in about.items():
        whose = "all runs" if len(names) == runs > 2 else join([*dict.fromkeys(names)])
        yield f"{whose}: {text}"


def basis_of(conclusion: Conclusion, run: int) -> str:
    """Return how a run is compared with the base."""
    first = conclusion.runs[conclusion.base].run.data
    second = conclusion.runs[run].run.data
    if not conclusion.is_paired(run):
        text = "unpaired: no question is shared"
        if first.seed != second.seed:
            text += "; the seeds differ"
        return text
    shared = first.digests.keys() & second.digests.keys()
    if all(first.digests[name] == second.digests[name] for name in shared):
        return SAME_ROWS
    text = "paired: the same questions"
    if first.tokenizer != second.tokenizer:
        tokenizers = " and ".join(visible(data.tokenizer) for data in (first, second))
        text += f", haystacks cut to each run's tokens ({tokenizers})"
    return text


def about(conclusion: Conclusion) -> str:
    """Return protocol, edition, data, tokenizer, day and hardware of the runs, each value once."""
    runs = conclusion.runs
    days = sorted({run.date for run in runs if run.date})
    facts: dict[str, list[str]] = {
        "protocol": [run.run.protocol for run in runs],
        "edition": [run.run.data.edition for run in runs],
        "data version": [run.run.data.data_version for run in runs],
        "tokenizer": [run.run.data.tokenizer for run in runs],
        "hardware": [name for run in runs for name in run.validity.hardware],
        "run on": [*days[:1], *days[-1:]],
    }
    texts = []
    for name, values in facts.items():
        distinct = [visible(value) for value in dict.fromkeys(values)]
        if distinct:
            texts.append(f"{name} {' and '.join(distinct)}")
    return "; ".join(texts)


def title(conclusion: Conclusion) -> str:
    """Return the title of a page."""
    suites = sorted({run.run.data.suite for run in conclusion.runs})
    name = "RULER" if suites == [RULER] else f"Suite {', '.join(map(visible, suites))}"
    text = f"{name}: {', '.join(conclusion.names[run] for run in conclusion.order)}"
    if len(conclusion.runs) > 1 and len(text) > LONGEST_TITLE:
        return f"{name}: {len(conclusion.runs)} runs"
    return text
