"""Which stages of a process are notified of all that they read, and which show that somebody asks."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from eunoe.deploy.process.stages import is_asked, is_fed
from eunoe.streams.topics import Topic
from eunoe.workers.registry import STAGES

ALL = {name: {0, 1, 2} for name in STAGES}


class Member:
    """A consumer that has these partitions."""

    def __init__(self, partitions: set[int]) -> None:
        self.partitions = partitions

    def assigned(self) -> set[tuple[str, int]]:
        return {(Topic.SESSIONS, number) for number in self.partitions}


def fed(name: str, partitions: Mapping[str, set[int]]) -> bool:
    return is_fed(STAGES[name], {stage: Member(numbers) for stage, numbers in partitions.items()})


def test_one_process_of_all_stages_feeds_all_but_the_one_that_reads_what_clients_write():
    assert [name for name in STAGES if not fed(name, ALL)] == ["intake"]


@pytest.mark.parametrize(("stage", "writer"), [("segment", "intake"), ("update", "summarize"), ("respond", "blend")])
def test_a_stage_is_not_fed_where_another_process_has_a_partition_of_its_writer(stage: str, writer: str):
    assert not fed(stage, {**ALL, writer: {0, 1}})
    assert not fed(stage, {**ALL, writer: set()}), "its partitions are being reassigned"
    assert not fed(stage, {name: numbers for name, numbers in ALL.items() if name != writer})
    assert fed(stage, {**ALL, stage: {0, 1}, writer: {0, 1}})


def test_respond_reads_what_intake_and_blend_write():
    assert not fed("respond", {**ALL, "intake": {0, 1}})


def test_a_stage_without_a_consumer_is_not_fed():
    assert not fed("link", {name: numbers for name, numbers in ALL.items() if name != "link"})


def working(**states: object) -> Any:
    return SimpleNamespace(dispatcher=SimpleNamespace(**states))


NOBODY: Mapping[str, Any] = {
    "intake": working(any_urgent=False),
    "respond": working(in_work=0, queued=0),
    **{name: working() for name in STAGES if name not in ("intake", "respond")},  # what they have in work tells nothing
}


@pytest.mark.parametrize(
    ("stage", "state", "asked"),
    [
        ("intake", {"any_urgent": True}, True),
        ("respond", {"in_work": 1, "queued": 0}, True),
        ("respond", {"in_work": 0, "queued": 2}, True),
        ("respond", {"in_work": 0, "queued": 0}, False),
    ],
)
def test_somebody_asks_where_an_ask_is_read_or_answered(stage: str, state: Mapping[str, object], asked: bool):
    assert is_asked({**NOBODY, stage: working(**state)}) is asked
    assert is_asked({stage: working(**state)}) is asked, "a process of one stage"
    assert not is_asked({name: member for name, member in NOBODY.items() if name != stage})
