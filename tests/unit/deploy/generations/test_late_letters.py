"""A repair during which stages set events aside: it closes the dead letters of what it has derived, and no others."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from eunoe.deploy.generations.handled_log import HandledLog, StillWritten
from eunoe.deploy.generations.repair import Repairer, _Swapped
from eunoe.deploy.settings import Settings
from eunoe.schemas.decisions import Collection
from eunoe.schemas.records import DeadLetter, DeadLetterReason
from eunoe.streams.dead_letters import Filed
from eunoe.streams.record import Record
from eunoe.streams.topics import Topic

KEY = "acme/c"
NOTHING = cast("Any", None)


def set_aside(stage: str, offset: int) -> Filed:
    """The dead letter of a session's event that a stage holds."""
    letter = DeadLetter(
        stage=stage,
        topic=Topic.SESSIONS,
        partition=0,
        offset=offset,
        key=KEY,
        reason=DeadLetterReason.HELD,
        error="session 2 came, but it has applied only 0",
        attempts=1,
        log_time=datetime(2026, 1, 1, tzinfo=UTC),
        size=1,
        sha256=hashlib.sha256(b"x").hexdigest(),
    )
    return Filed(Record(Topic.DEAD_LETTERS, 0, offset, KEY.encode(), b"x", 0, {}), letter)


@dataclass(frozen=True, slots=True)
class Deriving:
    """Derives the key itself."""

    key: str

    async def derive(self, *_: object) -> Any:
        return self.key


@dataclass(slots=True)
class TwinLog(HandledLog):
    """A log of one record."""

    there: list[Filed] = field(default_factory=list)
    derivations: list[list[Filed]] = field(default_factory=list)
    """The letters that were there when each derivation began."""

    async def letters(self, key: str) -> list[Filed]:
        assert key == KEY
        return list(self.there)

    async def intake(self, key: str) -> Any:
        self.derivations.append(list(self.there))
        return key

    async def records(self, key: str, *_: object) -> Any:
        return [key], 0


@dataclass(frozen=True, slots=True)
class Twin(Repairer):
    """A repairer of which a stage sets one event aside right behind each of the first swaps."""

    after_swaps: list[Filed] = field(default_factory=list)
    late: list[dict[Collection, set[str]]] = field(default_factory=list)
    closed: list[Filed] = field(default_factory=list)
    refused: dict[Collection, set[str]] = field(default_factory=dict)

    def _deriving(self, key: str, *_: object) -> Any:
        return Deriving(key)

    async def _asks(self, _: object) -> Any:
        return None

    async def _swap(self, *_: object) -> Any:
        if self.after_swaps:
            twin_log(self).there.append(self.after_swaps.pop(0))
        return _Swapped({}, self.late.pop(0) if self.late else None, 0)

    async def _follow(self, _derived: Any, swapped: Any, letters: Sequence[Filed], *_: object) -> Any:
        self.closed.extend(letters)
        self.refused.update(swapped.late or {})
        return KEY

    def _calls(self) -> int:
        return 0


def twin(there: Sequence[Filed] = (), **given: Any) -> Twin:
    return Twin(Settings(), NOTHING, NOTHING, TwinLog(Settings(), NOTHING, 1, there=list(there)), **given)


def twin_log(repairer: Repairer) -> TwinLog:
    assert isinstance(repairer.log, TwinLog)
    return repairer.log


@pytest.mark.parametrize("stage", ["intake", "segment", "tree", "blend"])
async def test_what_a_stage_sets_aside_behind_the_swap_is_derived_before_it_counts_as_repaired(stage: str) -> None:
    before, behind = set_aside("segment", 1), set_aside(stage, 2)
    repairer = twin(there=[before], after_swaps=[behind])
    await repairer.repair(KEY)
    assert repairer.closed == [before, behind]
    assert twin_log(repairer).derivations[-1] == repairer.closed


async def test_a_repair_without_later_letters_derives_once() -> None:
    repairer = twin(there=[set_aside("segment", 1)])
    await repairer.repair(KEY)
    assert len(twin_log(repairer).derivations) == 1


async def test_a_stage_that_sets_aside_without_end_leaves_its_letters_open() -> None:
    repairer = twin(after_swaps=[set_aside("segment", offset) for offset in range(100)])
    with pytest.raises(StillWritten, match=KEY):
        await repairer.repair(KEY)
    assert repairer.closed == []


async def test_points_of_the_state_that_the_first_of_two_swaps_replaced_are_still_refused() -> None:
    first, second = {Collection.SEGMENTS: {"erased"}}, {Collection.SEGMENTS: {"kept"}}
    repairer = twin(after_swaps=[set_aside("segment", 1)], late=[first, second])
    await repairer.repair(KEY)
    assert repairer.refused[Collection.SEGMENTS] == {"erased", "kept"}
