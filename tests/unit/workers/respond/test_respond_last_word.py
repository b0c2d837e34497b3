"""Offline replies in the present tense: the last figure that was told of the topic, and the end of it."""

import numpy as np
import pytest

from eunoe.workers.respond.context import Row
from eunoe.workers.respond.hints import read_question
from eunoe.workers.respond.offline.line_choice import choose_lines
from eunoe.workers.text.terms import terms
from tests.unit.workers.respond.test_respond_replies import SPEAKERS, row


def chosen(question: str, *rows: Row) -> list[int]:
    """The numbers of the quoted rows, of which the first is the best and the others answer worse and worse."""
    topic = frozenset(terms(question, drop=SPEAKERS))
    scores = np.asarray([9.0 - 2 * place for place in range(len(rows))])
    return [rows[place].number for place in choose_lines(rows, scores, read_question(question, SPEAKERS), topic)]


@pytest.mark.parametrize(
    ("question", "first", "later", "numbers"),
    [
        ("What is Ann's HbA1c?", "My HbA1c was 8.1.", "HbA1c 6.1 today. I am glad!", [1, 2]),
        ("What is Ann's HbA1c?", "My HbA1c was 8.1.", "My mother's HbA1c is 7.", [1]),
        ("What is Ann's HbA1c?", "My HbA1c was 8.1.", "Is an HbA1c of 6 good?", [1]),
        ("What is Ann's HbA1c?", "My HbA1c was 8.1.", "I read about HbA1c. It took 2 hours.", [1]),
        ("What was Ann's HbA1c?", "My HbA1c was 8.1.", "HbA1c 6.1 today.", [1]),
        ("Does Ann still take metformin?", "Metformin upset me.", "The doctor stopped the metformin!", [1, 2]),
        ("Does Ann still take metformin?", "Metformin upset me.", "I stopped by the lake.", [1]),
        ("Does Ann still take metformin?", "Metformin upset me.", "Metformin is a white pill.", [1]),
    ],
)
def test_what_holds_is_told_with_the_last_word_on_it(question: str, first: str, later: str, numbers: list[int]):
    assert chosen(question, row(1, first), row(2, later, day=9)) == numbers
    assert chosen(question, row(1, first), row(2, later, speaker="Ben", day=9)) == [1]


def test_of_several_figures_the_last_is_told():
    said = (row(1, "I weigh 98 kilos"), row(2, "I weigh 93 kilos", day=9), row(3, "I weigh 95 kilos", day=5))
    assert chosen("How much does Ann weigh?", *said) == [1, 2]


def test_a_line_is_told_rather_than_the_memory_of_it():
    said = (
        row(1, "I weigh 98 kilos"),
        row(2, "Ann weighs 93 kilos", day=9, is_memory=True),
        row(3, "I weigh 93", day=9),
    )
    assert chosen("How much does Ann weigh?", *said) == [1, 3]


def test_a_time_that_shares_only_how_it_was_asked_for_is_not_told():
    said = (row(1, "From August I work at Kettenwerk"), row(2, "Back to toast since Thursday", day=9))
    assert chosen("Where does Ann work since August?", *said) == [1]
    later = (row(1, "The move is in June"), row(2, "The move is on July 5 now", day=9))
    assert chosen("When is the move?", *later) == [1, 2]
