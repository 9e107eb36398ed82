"""Which runs can be compared, and how.

Runs that answered the same questions are paired, whatever the tokenizer and so the haystacks. Runs
on other questions of the same kind (another seed, an edition of upstream with another tokenizer)
are compared unpaired. Runs that differ in more than that are not compared.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ruler_eval.prompts import PROTOCOLS
from ruler_eval.schema import RunInfo
from ruler_report.format import visible
from ruler_report.results_file import Results

#: A prompt without a chat template.
PLAIN = "{content}{answer_prefix}"
SAME_ROWS = "paired: the same rows"
#: What must be the same in two runs, in the words of a refusal.
ALIKE: dict[str, Callable[[RunInfo], object]] = {
    "editions": lambda run: run.data.edition,
    "suites": lambda run: run.data.suite,
    "MAJOR data versions": lambda run: run.data.data_version.partition(".")[0],
    "protocols": lambda run: run.protocol,
    "contexts": lambda run: "left out" if run.no_context else "given",
    "source texts": lambda run: "the sample corpus" if run.data.sample else "real ones",
}


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
    if temperature := run.sampling.get("temperature"):
        yield f"answers sampled at temperature {temperature}; the default is greedy"


@dataclass(frozen=True)
class Comparability:
    """Whether two runs can be compared, and how.

    Attributes:
        obstacles: why they cannot; empty if they can.
        paired: whether both answered the same questions.
        basis: how they are compared, in one line.
    """

    obstacles: tuple[str, ...]
    paired: bool
    basis: str


def comparability(first: Results, second: Results) -> Comparability:
    """Return whether two runs can be compared, and how; docs/statistics.md has the rules."""
    runs = (first.run, second.run)
    obstacles = [
        f"the {what} differ: {' and '.join(visible(str(value(run))) for run in runs)}"
        for what, value in ALIKE.items()
        if value(runs[0]) != value(runs[1])
    ]
    pairs = {
        name: (one, second.configs[name])
        for name, one in first.configs.items()
        if name in second.configs and one.digest != second.configs[name].digest
    }
    asked = [name for name, (a, b) in pairs.items() if a.question_digest != b.question_digest]
    changed = [name for name in asked if pairs[name][0].params != pairs[name][1].params]
    unknown = [
        f"the {place} run"
        for side, place in enumerate(("first", "second"))
        if not all(pair[side].question_digest for pair in pairs.values())
    ]
    if unknown:
        obstacles.append(
            f"the rows of {next(iter(pairs))} differ, and {' and '.join(unknown)} "
            f"{'was' if len(unknown) == 1 else 'were'} scored by a version that did not record "
            "what the rows ask; score again, `ruler-eval score RUN`"
        )
    if changed:
        obstacles.append(f"the parameters of {_listed(changed)} differ")
    basis = SAME_ROWS
    if unknown:
        basis = "unpaired: it is not recorded whether the questions are the same"
    elif asked:
        seeds = "; the seeds differ" if runs[0].data.seed != runs[1].data.seed else ""
        basis = f"unpaired: the questions differ ({_listed(asked)}{seeds})"
    elif pairs:
        tokenizers = " and ".join(visible(run.data.tokenizer) for run in runs)
        basis = f"paired: the same questions, haystacks cut to each run's tokens ({tokenizers})"
        if runs[0].data.inputs != runs[1].data.inputs:
            basis += "; the sources or reserves of the rows differ"
    return Comparability(tuple(obstacles), not (asked or unknown), basis)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
