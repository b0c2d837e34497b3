"""Counts in words."""

import pytest

from eunoe.deploy.inspect.counted import counted


@pytest.mark.parametrize(
    ("number", "noun", "words"),
    [
        (0, "session", "0 sessions"),
        (1, "session", "1 session"),
        (2, "dead letter", "2 dead letters"),
        (1, "memory", "1 memory"),
        (2, "memory", "2 memories"),
        (3, "key", "3 keys"),
    ],
)
def test_a_noun_agrees_with_its_number(number: int, noun: str, words: str) -> None:
    assert counted(number, noun) == words
