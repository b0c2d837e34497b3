import re

from hypothesis import given
from hypothesis import strategies as st

from eunoe.workers.text.tokens import clip_tokens, count_tokens


def test_words_and_marks_count_one_each():
    assert count_tokens("Ann didn't pay $4.50!") == len(["Ann", "didn", "'", "t", "pay", "$", "4", ".", "50", "!"])
    assert count_tokens("") == count_tokens(" \n") == 0


@given(st.text(), st.integers(-1, 40))
def test_clipping_keeps_a_beginning_within_the_limit(text: str, limit: int):
    clipped = clip_tokens(text, limit)
    assert text.startswith(clipped)
    assert count_tokens(clipped) == min(count_tokens(text), max(limit, 0))


@given(st.text())
def test_counting_is_the_number_of_matches(text: str):
    assert count_tokens(text) == len(re.findall(r"\w+|[^\w\s]", text))


def test_a_text_within_the_limit_is_unchanged():
    assert clip_tokens(" two words ", 2) == " two words "
