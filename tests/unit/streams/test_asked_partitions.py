"""Topics that exist with other partitions than are asked for: what to do is named, and leads somewhere."""

import pytest

from eunoe.schemas.errors import Refused
from eunoe.streams.admin import TopicStatus, check_asked_for
from eunoe.streams.topics import Topic


def existing(conversations: int, sessions: int) -> list[TopicStatus]:
    return [
        TopicStatus(Topic.CONVERSATIONS, "e.conversations", conversations, ""),
        TopicStatus(Topic.SESSIONS, "e.v1.sessions", sessions, ""),
    ]


def test_topics_with_the_partitions_asked_for_are_fine() -> None:
    check_asked_for(6, existing(6, 6))


def test_topics_that_agree_name_the_number_to_ask_for() -> None:
    with pytest.raises(Refused, match=r"conversations has 6.* Ask for that number, or .*repartition 3`"):
        check_asked_for(3, existing(6, 6))


@pytest.mark.parametrize("asked", [3, 6, 2])
def test_topics_that_differ_name_no_number_that_would_not_serve(asked: int) -> None:
    with pytest.raises(
        Refused, match=r"differ \(e\.conversations 6, e\.v1\.sessions 2\): delete those .* hold nothing"
    ) as told:
        check_asked_for(asked, existing(6, 2))
    assert "repartition" not in str(told.value)
