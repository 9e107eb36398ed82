r"""Prompts of RULER v2: the fixed text around what each row draws.

    Below are some questions. I will ask you to copy one of them. ...

    Question 4821377: Which gas do plants take in? A. Oxygen B. Nitrogen ...

    Question 9013342: ...

    Please copy the Question 4821377 from the context.

The text is that of NVIDIA-NeMo/Skills, `nemo_skills/dataset/ruler2`, to the character;
`benchmarks/ruler2.py` compares it with the port in NVIDIA-NeMo/Gym at 07d6b0d07. There is no answer
prefix: where upstream's prompt ends in one, it is part of the question.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ruler_builders.prompts import PromptTemplate
from ruler_data.tasks import Ruler2

#: What a haystack consists of, by its label and the end of each of its texts.
KEY = "One of the special magic numbers for {} is: "
QUESTION = "Question {}: "
DOCUMENT = "Document {}:\n"
#: Behind a number that a key has; between questions, and between documents.
PERIOD, EMPTY_LINE = ".\n", "\n\n"

_COPY_ONE = (
    "Below are some questions. I will ask you to copy one of them. Please copy and paste the "
    "question you find.\n\n"
)
_SOLVE = (
    "Below are some questions. I will ask you to solve one of them. Please solve the question you "
    "find and make sure to put the answer (and only answer) inside \\boxed\\{\\}.\n\n"
)
_ANSWER = (
    "Below are some documents. I will ask you to answer a question based on the documents. Please "
    "answer the question.\n\n"
)
#: By kind and level: what comes before the haystack, and the question behind it.
FRAMES = {
    ("mk_niah", "basic"): (
        "A special magic number is hidden within the following text. Make sure to memorize it. I "
        "will quiz you about the number afterwards.\n",
        "What is the special magic number for {0} mentioned in the provided text? The special "
        "magic number for {0} mentioned in the provided text is",
    ),
    ("mk_niah", "easy"): (_COPY_ONE, "Please copy the Question {0} from the context."),
    ("mk_niah", "medium"): (
        _SOLVE,
        "Please copy the Question {0} from the context and then solve it with an answer from A, B, "
        "C, D.",
    ),
    ("mk_niah", "hard"): (
        _SOLVE,
        "Please solve the Question {0} from the context with an answer from A, B, C, D.",
    ),
    ("mv_niah", "basic"): (
        "Some special magic numbers are hidden within the following text. Make sure to memorize "
        "them. I will quiz you about the numbers afterwards.\n",
        "What are all the special magic numbers for {0} mentioned in the provided text? The "
        "special magic numbers for {0} mentioned in the provided text are",
    ),
    ("mv_niah", "easy"): (
        "Below are some questions. I will ask you to copy some of them. Please copy and paste the "
        "questions you find.\n\n",
        "Please find and copy all the Question {0} from the context.",
    ),
    ("mv_niah", "medium"): (
        _COPY_ONE,
        "Please first copy all the Question {0} from the context and then copy the {1} (1 indexed) "
        "Question {0} at the end.",
    ),
    ("mv_niah", "hard"): (
        _COPY_ONE,
        "Please copy the {1} (1 indexed) Question {0} from the context.",
    ),
    ("qa", "basic"): (
        "Below are some documents. I will give you a text at the end. Please find the document "
        "index of the text. Only give me the index without any document contents.\n\n",
        "Text: {0}\nMost relevant document index:",
    ),
    ("qa", "easy"): (
        "Below are some documents. I will give you a question at the end. Please find the index of "
        "the most relevant document that can help answer the question. Only give me the index "
        "without any document contents.\n\n",
        "Question: {0}\nIndex of the most relevant document that can help answer the question:",
    ),
    ("qa", "medium"): (
        _ANSWER,
        "Please first find and copy paste the documents relevant to the following question and "
        "then answer it based on the documents you find.\n\nQuestion: {0}",
    ),
    ("qa", "hard"): (
        _ANSWER,
        "Please answer the following question based on the documents.\n\nQuestion: {0}",
    ),
}
#: The ordinals of the questions that share a label.
PLACES = ("1st", "2nd", "3rd", "4th")
_EXAMPLES = "Here are some examples to help you understand the task:\n\n"
_TASK = "Here is the actual task you need to solve:\n\n"


@dataclass(frozen=True)
class Example:
    """A solved question of the haystack: its label's number, its text and its letter."""

    number: str
    text: str
    letter: str


def ruler2(
    params: Ruler2, query: str, place: str = "", examples: Sequence[Example] = ()
) -> PromptTemplate:
    """Return the prompt for a query: a key, a number, a text or a question.

    Args:
        params: of the task.
        query: what the question is about.
        place: of one question among those of its label, as an ordinal.
        examples: solved questions, in front of the question.
    """
    head, question = FRAMES[params.kind, params.level]
    text = question.format(query, place)
    if examples:
        texts = (_example_text(params, question, example) for example in examples)
        text = f"{_EXAMPLES}{EMPTY_LINE.join(texts)}{EMPTY_LINE}{_TASK}{text}"
    return PromptTemplate(head, "", text, "")


def _example_text(params: Ruler2, question: str, example: Example) -> str:
    copy = f"{QUESTION.format(example.number)}{example.text}\n" * (params.level == "medium")
    return f"{question.format(example.number)}\n{copy}Solution: \\boxed{{{example.letter}}}"
