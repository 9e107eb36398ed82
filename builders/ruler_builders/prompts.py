"""Prompts: the fixed text around what each row draws, for the generators and for the checks.

The 13 tasks have upstream's text to the character (NVIDIA/RULER at c3f5e3b); tests compare
them with a second copy. RULER v2 (`ruler2`) has NeMo-Skills' text likewise, and no answer prefix:
where upstream's prompt ends in one, it is part of the question.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ruler_data.tasks import Cwe, Fwe, Graph, Niah, Qa, Ruler2, Vt

#: Needles by wording; `{one}` is the kind in the singular. A split needle has both sentences; of
#: another wording with several forms, each needle has one.
NEEDLES = {
    "plain": ("One of the special magic {kind} for {key} is: {value}.",),
    "paraphrased": (
        "Anyone who asks about {key} should be told that its special magic {one} is {value}.",
        "It was decided long ago that {value} would be the special magic {one} of {key}.",
        "The special magic {one} assigned to {key} happens to be {value}.",
        "Remember {value}, which is the special magic {one} that goes with {key}.",
        "If {key} ever comes up, the special magic {one} to give is {value}.",
    ),
    "split": (
        "The special magic {one} for {key} is the one that is filed under {alias}.",
        "What is filed under {alias} is {value}.",
    ),
    "json": ('{{"special magic {one}": {{"key": "{key}", "value": "{value}"}}}}',),
    "assignment": ('special_magic_{kind}["{key}"] = "{value}"',),
    "associated": (
        "Under the entry {key} somebody had written {value}.",
        "The page headed {key} gave {value}.",
        "Against the word {key} stood {value}.",
    ),
}
#: Upstream's noise, a line of a haystack.
NOISE = "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again."
#: Words for the number of words that a question of fwe asks for.
_NUMBERS = "two three four five six seven eight nine ten"
NUMBERS = dict(enumerate(_NUMBERS.split(), start=2))


@dataclass(frozen=True)
class PromptTemplate:
    """Fixed text of a prompt: before and behind the haystack, the question, the answer prefix."""

    head: str
    tail: str
    question: str
    prefix: str

    @property
    def text(self) -> str:
        """The prompt without a haystack."""
        return self.head + self.tail + self.question + self.prefix


def niah(params: Niah, query: str, place: str = "") -> PromptTemplate:
    """Return the prompt for a query; `place` is the ordinal of one value among those of the key."""
    kind = params.value_type
    singular = params.value_type.removesuffix("s")
    single = params.answers == 1
    # With one value to return, upstream rewrites its template word by word to the singular.
    which, noun, verb = ("is", singular, "is") if single else ("are all", kind, "are")
    subject = f"special magic {noun} for {query}"
    if place:
        subject = f"{place} {subject}"
    question = f"What {which} the {subject} mentioned in the provided text?"
    if params.none != "no":
        question += " If the provided text does not mention it, answer: none."
    several = not single or params.ordinal or params.wording == "associated"
    head = _instruction(params, several, kind if several else singular)
    if params.question_at != "after":
        head = f"{question}\n\n{head}"
    if params.question_at == "before":
        question = ""
    prefix = f" The {subject} mentioned in the provided text {verb}"
    return PromptTemplate(head, "\n", question, prefix)


def _instruction(params: Niah, several: bool, kind: str) -> str:
    text = f"Some special magic {kind} are" if several else f"A special magic {kind} is"
    text += " hidden within the following text"
    quiz = f"Make sure to memorize it. I will quiz you about the {kind} afterwards"
    if params.wording == "associated":
        return (
            f"{text}, each of them for one thing. {quiz} and describe the thing in other words.\n"
        )
    if params.instruction == "upstream":
        return f"{text}. {quiz}.\n"
    if params.instruction == "short":
        return f"Find the special magic {kind} in this text.\n"
    if several:
        state = "Some of its sentences state"
        quantity = "all"
        keys = "their keys"
        it = "them"
    else:
        state = "One or more of its sentences state a"
        quantity = "every"
        keys = "its key"
        it = "it"
    return (
        f"Below is a long text. {state} special magic {kind}, and all the others are of no "
        f"importance. Read the text to its end and remember {quantity} special magic {kind} "
        f"together with {keys}, because a question about {it} follows.\n"
    )


def vt(params: Vt, value: str, names: int | str) -> PromptTemplate:
    """Return the prompt for a value that a number of variables have."""
    head = "Memorize and track the chain(s) of variable assignment hidden in the following text."
    if params.order == "scrambled":
        head += " The assignments are in no particular order."
    return PromptTemplate(
        f"{head}\n\n",
        "\n",
        f"Question: Find all variables that are assigned the value {value} in the text above.",
        " Answer: According to the chain(s) of variable assignment in the text above, "
        f"{names} variables are assigned the value {value}, they are: ",
    )


def cwe(params: Cwe, word: str = "") -> PromptTemplate:
    """Return the prompt for the common words, or for the count of one word."""
    head = (
        "Below is a numbered list of words. In these words, some appear more often than others. "
        "Memorize "
    )
    if params.ask == "count":
        return PromptTemplate(
            f"{head}how often each of them appears.\n",
            "\n",
            f'Question: How many times does the word "{word}" appear in the above list?',
            f' Answer: The number of times that the word "{word}" appears in the list is:',
        )
    return PromptTemplate(
        f"{head}the ones that appear most often.\n",
        "\n",
        f"Question: What are the {params.common} most common words in the above list?",
        f" Answer: The top {params.common} words that appear most often in the list are:",
    )


def fwe(params: Fwe) -> PromptTemplate:
    """Return the prompt for the frequent words."""
    number = NUMBERS[params.top]
    return PromptTemplate(
        "Read the following coded text and track the frequency of each coded word. Find the "
        f"{number} most frequently appeared coded words. ",
        "\n",
        "Question: Do not provide any explanation. Please ignore the dots '....'. What are the "
        f"{number} most frequently appeared words in the above coded text?",
        f" Answer: According to the coded text above, the {number} most frequently appeared "
        "words are:",
    )


def qa(params: Qa, query: str) -> PromptTemplate:
    """Return the prompt for a question; the paper does not give the one without documents."""
    only = "Only give me the answer and do not output any other words.\n\n"
    if params.documents == "none":
        return PromptTemplate(f"Answer the question. {only}", "", f"Question: {query}", " Answer:")
    instruction = f"Answer the question based on the given documents. {only}"
    return PromptTemplate(
        f"{instruction}The following are given documents.\n\n",
        "\n\n",
        f"{instruction}Question: {query}",
        " Answer:",
    )


def graph(params: Graph, node: str) -> PromptTemplate:
    """Return the prompt for the parents of a node, or for the nodes near it."""
    query = f"nodes that have an edge to {node}"
    answer = f"nodes have an edge to {node}"
    if params.ask == "within":
        condition = f"can be reached from {node} within {params.steps} steps"
        query = f"nodes other than {node} that {condition}"
        answer = f"other nodes {condition}"
    return PromptTemplate(
        "Memorize the directed graph in the following list of edges, where A -> B is an edge from "
        "A to B.\n\n",
        "\n",
        f"Question: Find all {query} in the list above.",
        f" Answer: According to the list of edges above, {params.answers} {answer}, they are: ",
    )


#: What a haystack consists of, by its label and the end of each of its texts.
KEY = "One of the special magic numbers for {} is: "
QUESTION = "Question {}: "
DOCUMENT = "Document {}:\n"
#: Behind a number that a key has.
PERIOD = ".\n"
#: Between questions, and between documents.
EMPTY_LINE = "\n\n"

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
    text = f"{question.format(example.number)}\n"
    if params.level == "medium":
        text += f"{QUESTION.format(example.number)}{example.text}\n"
    return f"{text}Solution: \\boxed{{{example.letter}}}"
