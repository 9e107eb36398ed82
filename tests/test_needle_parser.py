"""Needles are found in any wording, and whatever is between them."""

from hypothesis import given
from hypothesis import strategies as st

from ruler_builders.checks.prompt_parser import needle_sentences
from ruler_builders.prompts import NEEDLES
from tests.proof.task_parameters import between, lines_between

WORDS = st.sampled_from(["hat", "red-cloth", "8090293", "e8a0fa1c-2f0e-4f6a-9b9b-0a6f2d3c4b5a"])
FORMS = st.sampled_from(
    [(wording, form) for wording, forms in NEEDLES.items() for form in forms if wording != "split"]
)
FILLER = st.sampled_from(["The grass is green.", "A text of one needle: no.", "", " "])


@given(st.lists(st.tuples(FORMS, WORDS, WORDS, FILLER), max_size=6), st.booleans())
def test_needles_of_one_wording_or_of_several_are_found_with_the_lines_between_them(
    drawn: list[tuple[tuple[str, str], str, str, str]], one: bool
) -> None:
    lines, expected = list[str](), list[tuple[str, str, str, str, str]]()
    for form, key, value, filler in drawn:
        wording, text = drawn[0][0] if one else form
        kind = "numbers" if "{kind}" in text else "number" if "{one}" in text else ""
        sentence = text.format(kind=kind, one=kind, key=key, value=value)
        expected.append((sentence, kind, key, value, wording))
        lines += [filler, sentence]
    text = "\n".join(lines)
    found = needle_sentences(text)
    texts = [(text[slice(*one.spans[0])], *one[:4]) for one in found]
    assert sorted(texts) == sorted(expected)
    keys = {key for *_, key, _value, _wording in expected[:2]}
    assert needle_sentences(text, keys) == [one for one in found if one.key in keys]
    assert lines_between(between(text, found), "") == [one for one in lines[::2] if one.strip()]
