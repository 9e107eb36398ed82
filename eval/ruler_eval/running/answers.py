"""An answer is a record: what is in it, and when a row is answered.

    {"config":"vt_4096","index":17,"text":"QZKRA, PLMEW.","finish":"stop","prompt_tokens":4061,
     "answer_tokens":9,"seconds":0.41,"model":"org/model-8b","question_digest":"3f2a…", …}

A row whose record breaks the rule of `why_unanswered`, whose prompt was cut like many others
(`read_whole`), or which comes from another model than the run's (`settle`), is unanswered and is
run again, never repaired.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import Field

from ruler_data.names import quote

#: A sample of a row: its config, its index, and the number of the sample (0 unless several).
Key = tuple[str, int, int]

#: JSON of other programs holds whole numbers below this one exactly.
LARGEST = 2**53
Count = Annotated[int, Field(ge=0, lt=LARGEST)]

#: Finish reasons of an answer; any other means that neither the model nor its budget ended the
#: text (`content_filter`, `abort`). A function that returns a plain text does not say its own.
FINISHED = ("stop", "length", "unknown")
#: Who may have counted a prompt's tokens.
COUNTERS = ("server", "engine", "nobody")
#: Rows that a server reads as one number of tokens, if it cuts them.
CUT_ROWS = 8
#: Different lengths of these.
CUT_LENGTHS = 4


@dataclass(frozen=True)
class Answer:
    """What a model answered to one row, or why there is no answer; one line of a journal.

    What is not known is None.
    """

    config: str  # e.g. `vt_4096`
    index: Count  # of the row
    text: str | None = None  # generated, without the reasoning of protocol `thinking`
    finish: str | None = None  # why the model stopped, `stop` or `length`
    prompt_tokens: Count | None = None  # that the model read
    answer_tokens: Count | None = None  # that it generated, reasoning included
    seconds: float | None = None  # from sending the request to the last token
    error: str | None = None  # why the row is unanswered; None if it is answered
    cached_tokens: Count | None = None  # prompt tokens that a prefix cache held
    sample: Count = 0  # number of the sample, from 0
    reasoning: str | None = None  # what the model thought, apart from `text`; never scored
    model: str | None = None  # that answered, as the reply names it
    system_fingerprint: str | None = None  # of the reply
    question_digest: str | None = None  # of the row (`ruler_data.row.question_digest`)
    calls: Count | None = None  # of the model, if the answer took several
    reasoning_tokens: Count | None = None  # of `answer_tokens`, those that the model thought with
    counted: str | None = None  # who counted `prompt_tokens`: `server`, `engine` or `nobody`
    provider: str | None = None  # that served the model, e.g. behind OpenRouter
    cost: float | None = None  # of the request, in the currency that the server states
    hardware: str | None = None  # that computed it, as the engine names it, e.g. `NVIDIA H200`
    #: Tokens of the prompt as it was rendered here, where a server renders it again.
    rendered_tokens: Count | None = None
    first_seconds: float | None = None  # from sending the request to the first event of a stream

    @property
    def key(self) -> Key:
        """The row and the sample that it belongs to."""
        return self.config, self.index, self.sample


def why_unanswered(
    answer: Answer, *, budget: int | None = None, rendered: int | None = None, slack: int = 0
) -> str | None:
    """Return why a record does not answer its row; None if it does.

    Where the row is known, `budget` is the tokens that the answer may take, and `rendered` those of
    the prompt that was sent; a server that renders prompts itself may differ from it by `slack`.
    """
    made = answer.answer_tokens
    if answer.error is not None:
        return answer.error
    if answer.text is None:
        return "the text is null"
    if answer.finish not in FINISHED:
        return f"finish reason {quote(str(answer.finish))} is not stop or length"
    if made is not None and made < 1:
        return "no token was generated"
    if made is not None and budget is not None and made > budget:
        return f"{made} tokens were generated, the budget is {budget}"
    if rendered is None or answer.prompt_tokens is None:
        return None
    return _why_not_whole(answer.prompt_tokens, rendered, slack)


def _why_not_whole(read: int, rendered: int, slack: int) -> str | None:
    """Return why a prompt was not read whole; None if it was."""
    if abs(read - rendered) <= slack:
        return None
    cause = "it adds tokens of its own, e.g. a second BOS or a system prompt"
    if read < rendered:
        cause = (
            "it cuts prompts at its context window; raise it (vLLM: --max-model-len, llama.cpp: "
            "--ctx-size, SGLang: --context-length, Ollama: num_ctx)"
        )
    reason = f"the server read {read} prompt tokens, {rendered} were rendered here: {cause}"
    if slack:
        reason += "; or it has another tokenizer: give that one with --tokenizer, or a tolerance"
    return reason


def cuts(records: Iterable[Answer]) -> dict[int, str]:
    """Return the counts of prompt tokens at which a server cut prompts, and why that is seen.

    Prompts of several lengths that were read as one number of tokens were not read whole. With
    another tokenizer a few rows may have one count by chance, so that three quarters of the rows of
    their configs must have it.

    Args:
        records: of one process, whose server does not change.
    """
    lengths = defaultdict[int, set[int]](set)  # of prompts, by what was read of them
    rows = defaultdict[int, Counter[str]](Counter)  # of each config, likewise
    rows_of = Counter[str]()
    for record in records:
        read = record.prompt_tokens
        rendered = record.rendered_tokens
        if record.error is None and read is not None and rendered is not None:
            lengths[read].add(rendered)
            rows[read][record.config] += 1
            rows_of[record.config] += 1
    reasons = {}
    for count, configs in rows.items():
        number = configs.total()
        most = sum(rows_of[config] for config in configs)
        is_many = number >= CUT_ROWS and len(lengths[count]) >= CUT_LENGTHS
        if is_many and 4 * number >= 3 * most:
            span = f"{min(lengths[count])} to {max(lengths[count])} tokens as {count} each"
            reasons[count] = f"the server read prompts of {span}: it cuts them at its window"
    return reasons


def read_whole(records: Iterable[Answer]) -> list[Answer]:
    """Return the records of one process; those whose prompts were cut have an error."""
    judged = list(records)
    reasons = cuts(judged)
    for place, record in enumerate(judged):
        read = record.prompt_tokens
        if record.error is None and record.rendered_tokens is not None and read in reasons:
            judged[place] = replace(record, error=reasons[read])
    return judged


def settle(records: Iterable[Answer]) -> dict[Key, Answer]:
    """Return the record of each row that counts, with an error if it is no answer.

    The first answer of the run's model to the row's latest question counts; without one, the last
    record. The run's model is the one that answered most rows, however often; of several the first.
    A record that names none is of any model.

    Args:
        records: in the order of their files and lines.
    """
    answers: dict[Key, dict[str | None, Answer]] = {}  # the first by each model
    settled: dict[Key, Answer] = {}
    for answer in records:
        reason = why_unanswered(answer)
        if reason is None:
            firsts = answers.setdefault(answer.key, {})
            if _is_newer(answer, firsts.values()):
                firsts.clear()
            firsts.setdefault(answer.model, answer)
        if answer.key not in answers:
            settled[answer.key] = replace(answer, text=None, error=reason)
    names = Counter(name for by_model in answers.values() for name in by_model if name is not None)
    model = names.most_common(1)[0][0] if names else None
    for key, by_model in answers.items():
        matching = [answer for name, answer in by_model.items() if name in (None, model)]
        first = next(iter(by_model.values()))
        mismatch = f"answered by {quote(str(first.model))}, the run's model is {quote(str(model))}"
        settled[key] = replace(first, text=None, error=mismatch)
        if matching:
            settled[key] = matching[0]
    return settled


def _is_newer(answer: Answer, earlier: Iterable[Answer]) -> bool:
    """Whether an answer is to another question than earlier ones of its row."""
    digests = {record.question_digest for record in (*earlier, answer)}
    return len(digests - {None}) > 1
