"""Counts in words."""

from datetime import UTC, datetime

import pytest

from eunoe.deploy.generations.erase.receipt import DestroyedKey, Receipt
from eunoe.deploy.generations.erase.verify import Checked, FoundAgain
from eunoe.deploy.inspect.counted import counted
from eunoe.schemas.erasure import Count, ErasureLevel
from eunoe.schemas.keys import Destruction


@pytest.mark.parametrize(
    ("number", "noun", "words"),
    [
        (0, "session", "0 sessions"),
        (1, "session", "1 session"),
        (2, "dead letter", "2 dead letters"),
        (1, "memory", "1 memory"),
        (2, "memory", "2 memories"),
        (3, "key", "3 keys"),
        (1.0, "day", "1 day"),
        (0.5, "day", "0.5 days"),
        (12_345_678, "point", "12345678 points"),
    ],
)
def test_a_noun_agrees_with_its_number(number: float, noun: str, words: str) -> None:
    assert counted(number, noun) == words


@pytest.mark.parametrize("number", [1, 2])
def test_the_check_of_a_receipt_tells_counts_in_words(number: int) -> None:
    now = datetime(2026, 11, 1, tzinfo=UTC)
    key = DestroyedKey(id="k", created=None, destroyed=now, why=Destruction.ERASED)
    receipt = Receipt(
        request_id="r",
        level=ErasureLevel.CONVERSATION,
        subject="s",
        requested=now,
        done=now,
        utterances=number,
        places=(),
        remains=(),
        not_covered=(),
        keys=(key,) * number,
    )
    documents = (Count(place="redis:update/memories", count=number),)
    again = FoundAgain(generation="v1", documents=documents, stray_points=number, snapshots=number)
    lines = Checked(receipt=receipt, found=(again,)).lines
    ending = "" if number == 1 else "s"
    assert lines[:3] == [
        f"receipt r: signature good, {number} utterance{ending} erased",
        f"generation v1: {number} in redis:update/memories, {number} stray point{ending},"
        f" {number} stray snapshot{ending} in the cold store",
        f"{number} data key{ending}: all destroyed",
    ]
