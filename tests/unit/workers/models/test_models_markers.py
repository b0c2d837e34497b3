"""Marks by which models name rows within a text: readers see none, and what is no mark stays."""

import pytest

from eunoe.workers.models.questions.markers import without_marks_of_rows

ROWS = range(1, 20)


@pytest.mark.parametrize(
    ("text", "bare", "named"),
    [
        ("You live in Lyon [3].", "You live in Lyon.", {3}),
        ("You live in Lyon. [3]", "You live in Lyon.", {3}),
        ("In Lyon [3][5], and Ella in Oslo [row 7].", "In Lyon, and Ella in Oslo.", {3, 5, 7}),
        ("Since May [3-5] you row [1, 2].", "Since May you row.", {1, 2, 3, 4, 5}),
        ("You live in Lyon.[^3]", "You live in Lyon.", {3}),
        ("You live in Lyon【3†source】.", "You live in Lyon.", {3}),
        ("你住在里昂[3]。", "你住在里昂。", {3}),
        ("Run `a[3]`:\n```\nb [3]\n```\nas you said [3].", "Run `a[3]`:\n```\nb [3]\n```\nas you said.", {3}),
    ],
)
def test_a_mark_of_rows_is_taken_out_and_its_numbers_are_known(text: str, bare: str, named: set[int]):
    assert without_marks_of_rows(text, ROWS, ()) == (bare, frozenset(named))


@pytest.mark.parametrize("text", ["You live in Lyon[3].", "You live in Lyon (row 3).", "You live in Lyon (rows 3, 4)."])
def test_what_may_be_something_else_is_a_mark_where_the_answer_cites_the_row(text: str):
    assert without_marks_of_rows(text, ROWS, (3, 4))[0] == "You live in Lyon."
    assert without_marks_of_rows(text, ROWS, ()) == (text, frozenset())


@pytest.mark.parametrize(
    "text",
    [
        "Choose: [1] pizza [2] pasta",
        "[1] milk\n[2] eggs",
        "- [1] milk",
        "See [3](https://example.com) and a [3](https://example.com).",
        "In arr[3] stands the fourth.",
        "You wrote it in [2024].",
        "Lyon [3], and the list [99].",
        "You have three cats (3).",
        "Take the tram (line 12).",
        "[3]",
        "",
    ],
)
def test_what_is_no_mark_stays(text: str):
    assert without_marks_of_rows(text, ROWS, ()) == (text, frozenset())
