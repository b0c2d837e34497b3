"""Hints of questions in other languages than English."""

import pytest

from eunoe.workers.respond.hints import read_question

SPEAKERS = ("Ann", "Ben")


@pytest.mark.parametrize(
    ("text", "hints"),
    [
        ("Wann bin ich nach Lyon gezogen?", {"when", "own"}),
        ("Wie viele Katzen hat Ben?", {"count"}),
        ("Wo wohnt Ben jetzt?", {"present"}),
        ("Wo hat Ben früher gewohnt?", {"past"}),
        ("저는 언제 이사했죠?", {"when", "own"}),
        ("Ben은 지금 어디 살아요?", {"present"}),
        ("我什么时候搬家的？", {"when", "own"}),
        ("Ben以前住在哪里？", {"past"}),
        ("Ben有多少只猫？", {"count"}),
        ("Which colour has the roof?", set()),
    ],
)
def test_cues_are_read_in_several_languages(text: str, hints: set[str]):
    read = read_question(text, SPEAKERS, "Ann")
    found = {name for name in ("when", "count", "present", "past") if getattr(read, name)}
    assert found | ({"own"} if "Ann" in read.speakers else set()) == hints
