"""Documents of the state store: one that is damaged is told from one that a newer version wrote."""

import pytest

from eunoe.schemas.base import Value
from eunoe.schemas.documents import read_document, reading_raw
from eunoe.schemas.errors import NewerVersion, StateDamaged

KEY = "default/c"


class Tally(Value):
    """A document as this version knows it."""

    session: int
    index: int
    words: int = 0


class TallyStats(Value):
    """A document of which every field may be missing."""

    count: int = 0
    most: int = 0


NEWER = ['{"session": 1, "index": 0, "colour": "red"}', '{"session": 1, "index": 0, "words": 2, "colour": {"a": 1}}']
OTHER = [
    '{"session": 1}',  # of an older version
    '{"session": "one", "index": 0}',
    '{"session": 1, "colour": "red"}',
    '{"session": 1, "index": 0, "speaker": "Ann", "text": "Hello", "evidence": []}',  # of another table
    '["session", "index"]',
    "7",
    "{}",
    "rubbish",
    "",
]


@pytest.mark.parametrize("text", NEWER)
def test_a_document_with_one_more_field_waits_for_the_deploy(text: str):
    with pytest.raises(NewerVersion, match=f"{KEY}: a newer version of eunoe wrote what is stored.*Tally: colour"):
        read_document(Tally, text, KEY)


@pytest.mark.parametrize("text", OTHER)
def test_a_document_that_is_another_one_is_damaged(text: str):
    with pytest.raises(StateDamaged, match=f"a document of {KEY} is no Tally.*`eunoe repair`") as caught:
        read_document(Tally, text, KEY)
    assert "Ann" not in str(caught.value)


@pytest.mark.parametrize("text", ['{"session": 1, "index": 0}', '{"count": 1, "x": 1, "y": 2}', "[]"])
def test_a_document_that_shares_little_with_the_form_is_damaged(text: str):
    with pytest.raises(StateDamaged, match="no TallyStats"):
        read_document(TallyStats, text, KEY)


def test_a_parser_that_caches_is_used_in_place_of_the_form():
    assert read_document(Tally, "any", KEY, lambda text: text.upper()) == "ANY"
    with pytest.raises(StateDamaged):
        read_document(Tally, "{}", KEY, Tally.from_json)


def test_what_is_read_without_its_form_is_damaged_where_a_field_is_missing():
    with pytest.raises(StateDamaged, match=r"no Tally.*\(KeyError\)"), reading_raw(Tally, KEY):
        {}["session"]
