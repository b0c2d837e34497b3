"""Sentences that say nothing alone are no memories."""

import pytest

from eunoe.workers.text.fragments import has_markup, is_fragment, without_lead


@pytest.mark.parametrize(
    "text",
    ["Only in the evening.", "Yesterday, four hours at the airport.", "Family, football and friends, for sure."],
)
def test_what_has_neither_subject_nor_verb_is_a_fragment(text: str) -> None:
    assert is_fragment(text)


@pytest.mark.parametrize(
    "text",
    [
        "I moved to Lyon.",
        "My sister works at a bank.",
        "The flat's too loud.",
        "Seeing them warms my heart.",
        "Books make the evening shorter.",
        "Nobody's coming back.",
    ],
)
def test_a_sentence_is_none(text: str) -> None:
    assert not is_fragment(text)


def test_an_elliptical_answer_before_a_sentence_is_cut_off() -> None:
    assert without_lead("Only at night, and I work then.") == "I work then."
    assert without_lead("In May I was ill, and I slept a lot.") == "In May I was ill, and I slept a lot."


@pytest.mark.parametrize("text", ["**Hours**: - open daily", "## Plan for May", "x = {1: 2}", "```python"])
def test_markup_and_code_are_no_sentences(text: str) -> None:
    assert has_markup(text)
