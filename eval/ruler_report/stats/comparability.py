"""Which runs can be compared: those of one protocol, edition and MAJOR version of the data.

Rows pair by what they ask (`pairs.py`), whatever the suite, the tokenizer and so the haystacks.
"""

from collections.abc import Callable, Iterator

from ruler_eval.prompts import PROTOCOLS
from ruler_eval.run_dir import RunInfo
from ruler_report.format import visible
from ruler_report.results_file import Results

#: A prompt without a chat template.
PLAIN = "{content}{answer_prefix}"
#: What must be the same in two runs, in the words of a refusal.
ALIKE: dict[str, Callable[[RunInfo], object]] = {
    "editions": lambda run: run.data.edition,
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


def obstacles(first: Results, second: Results, *, paired: bool) -> Iterator[str]:
    """Yield why two runs cannot be compared; nothing if they can."""
    runs = (first.run, second.run)
    for what, value in ALIKE.items():
        if value(runs[0]) != value(runs[1]):
            differing = " and ".join(visible(str(value(run))) for run in runs)
            yield f"the {what} differ: {differing}"
    if not paired:
        names = [name for name in first.configs if name in second.configs]
        common = [(first.configs[name], second.configs[name]) for name in names]
        changed = [name for name, (a, b) in zip(names, common, strict=True) if a.params != b.params]
        if changed:
            yield f"no question is shared, and the parameters of {changed[0]} differ"
        for side, place in enumerate(("first", "second")):
            if not all(pair[side].questions or pair[side].question_digest for pair in common):
                yield (
                    f"the rows differ, and the {place} run was scored by a version that did not "
                    "record what they ask; score it again, `ruler-eval score RUN`"
                )


def basis_of(first: Results, second: Results, *, paired: bool, shared: int) -> str:
    """Return how two runs are compared, in one line; `shared` rows are in both."""
    one, other = first.run.data, second.run.data
    if not paired:
        seeds = "; the seeds differ" if one.seed != other.seed else ""
        return f"unpaired: no question is shared{seeds}"
    names = first.configs.keys() & second.configs.keys()
    same = all(first.configs[name].digest == second.configs[name].digest for name in names)
    text = "paired: the same rows"
    if not same and one.tokenizer != other.tokenizer:
        tokenizers = " and ".join(visible(data.tokenizer) for data in (one, other))
        text = f"paired: the same questions, haystacks cut to each run's tokens ({tokenizers})"
    elif not same:
        text = "paired: the same questions"
    counts = [sum(run.configs[name].rows for name in names) for run in (first, second)]
    if {*counts} != {shared}:
        text += f"; {shared:,} questions are shared of {counts[0]:,} and {counts[1]:,}"
    if not same and one.inputs != other.inputs:
        text += "; the sources or reserves of the rows differ"
    return text
