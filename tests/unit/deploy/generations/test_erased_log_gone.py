"""Erasures in conversations whose log has gone: with its keys, by the retention of its topic, or at a start."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from eunoe.deploy.generations.erase import planning
from eunoe.deploy.generations.erase.run import Eraser
from eunoe.deploy.settings import Settings
from eunoe.schemas.decisions import Commit, Put, Scope
from eunoe.schemas.erasure import Erasure, ErasureLevel, ErasureRequest, hashed_id
from eunoe.schemas.errors import RequestRefused
from eunoe.workers.intake.head import Head
from eunoe.workers.intake.state import HEAD
from eunoe.workers.registry import StageSettings
from tests.support.in_memory import Stores, make_dependencies
from tests.support.memory.erasures import MemoryErasures

NOW = datetime(2026, 11, 1, tzinfo=UTC)
KEY, HANDLED = "acme/c", 7


class NothingLeft:
    """The log of a conversation of which intake has handled all, and which has gone since."""

    async def wait(self, _key: str, _limit_s: float) -> None:
        """Nothing is left to be handled."""

    async def read(self, _key: str) -> tuple[list[Any], int]:
        return [], HANDLED


@dataclass(frozen=True, slots=True)
class OverNothing(Eraser):
    """An eraser of conversations of which the log holds no record any more."""

    stores: Stores = field(default_factory=Stores)

    async def generations(self) -> list[Settings]:
        return []

    @asynccontextmanager
    async def opened(self, settings: Settings, part: Any = None) -> AsyncIterator[Any]:
        made = make_dependencies(self.stores, StageSettings())
        clients = SimpleNamespace(store=self.stores.state, dependencies=made, publisher=None)
        yield clients, SimpleNamespace(log=NothingLeft())

    async def unfinished(self, key: str | None = None) -> list[Erasure]:
        return []


@pytest.fixture
def eraser(monkeypatch: pytest.MonkeyPatch) -> OverNothing:
    async def nothing(*_: Any, **__: Any) -> Any:
        return 0

    async def no_places(*_: Any, **__: Any) -> tuple[Any, ...]:
        return ()

    monkeypatch.setattr(planning, "close_letters", nothing)
    monkeypatch.setattr(planning, "count_places", no_places)
    return OverNothing(Settings(), MemoryErasures())


def request(name: str, ids: Sequence[str] = (), level: ErasureLevel | None = None) -> ErasureRequest:
    return ErasureRequest(request_id=name, key=KEY, at=NOW, utterance_ids=tuple(ids), level=level)


async def remember(eraser: OverNothing) -> None:
    head = Put(HEAD, HEAD, Head(opened=3, closed=3, turn=2, remembered=4).model_dump_json())
    commit = Commit(expect=0, applied=HANDLED, writes=(head,))
    assert await eraser.stores.state.commit(Scope("intake", KEY), commit)


@pytest.mark.parametrize("level", [None, ErasureLevel.TENANT])
async def test_memory_whose_log_has_gone_is_erased_whole(eraser: OverNothing, level: ErasureLevel | None):
    await remember(eraser)
    erasure = await eraser.plan(request("one", level=level))
    numbers = erasure.numbers
    assert numbers is not None
    assert (erasure.until, numbers.opened, numbers.closed, numbers.turn) == (HANDLED, 3, 3, 2)


async def test_of_a_part_of_it_the_rest_cannot_be_derived_again(eraser: OverNothing):
    await remember(eraser)
    with pytest.raises(RequestRefused, match="no record of it"):
        await eraser.plan(request("one", ["u0"]))


@pytest.mark.parametrize("level", [None, ErasureLevel.TENANT])
async def test_an_unknown_conversation_is_refused(eraser: OverNothing, level: ErasureLevel | None):
    with pytest.raises(RequestRefused, match="no record of it"):
        await eraser.plan(request("one", level=level))


@pytest.mark.parametrize(
    ("ids", "level"), [((), None), ((), ErasureLevel.TENANT), (("u0",), None)], ids=["whole", "tenant", "part"]
)
async def test_what_was_erased_before_its_log_went_is_told_as_erased(
    eraser: OverNothing, ids: tuple[str, ...], level: ErasureLevel | None
):
    await remember(eraser)
    first = await eraser.plan(request("one"))
    await eraser.ledger.begin(first.model_copy(update={"refused": (hashed_id(first.salt, "u0"),)}))
    with pytest.raises(RequestRefused, match="already erased"):
        await eraser.plan(request("two", ids, level))
