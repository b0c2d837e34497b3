"""Retention by a clock that is wrong: it erases nothing."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import SecretStr

from eunoe.deploy.exits import Exit, code_of
from eunoe.deploy.generations.erase import serve
from eunoe.deploy.generations.erase.batch import WorkedOff
from eunoe.deploy.generations.erase.retention import trusted_now
from eunoe.deploy.settings import Settings
from eunoe.schemas.errors import Refused
from tests.support.memory.erasures import MemoryErasures


@pytest.mark.broker
@pytest.mark.parametrize("kind", ["redis", "cluster", "sentinel"])
async def test_a_clock_that_is_ahead_of_the_stores_is_not_trusted(request: pytest.FixtureRequest, kind: str) -> None:
    settings, now = Settings(redis_url=SecretStr(request.getfixturevalue(f"{kind}_url"))), datetime.now(UTC)
    ahead = now + timedelta(days=90)
    with pytest.raises(Refused, match=r"(2159|2160)\.\d hours ahead of that of Redis") as found:
        await trusted_now(settings, lambda: ahead)
    assert code_of(found.value) is Exit.USAGE
    for right_or_behind in (now, now - timedelta(days=90)):
        assert await trusted_now(settings, lambda here=right_or_behind: here) == right_or_behind
    assert abs((await trusted_now(settings)) - now) < timedelta(hours=1)


async def test_an_eraser_with_such_a_clock_carries_out_what_is_asked_and_erases_nothing_for_its_age(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[str] = []

    @asynccontextmanager
    async def alone(_: object) -> AsyncIterator[None]:
        yield

    async def live(settings: Settings) -> Settings:
        return settings

    async def work_off(*_: object) -> WorkedOff:
        done.append("asked for")
        return WorkedOff()

    async def run(*_: Any) -> WorkedOff:
        done.append("too old")
        return WorkedOff()

    async def wrong(_: object) -> datetime:
        raise Refused("the clock of this machine is ahead")

    for name, stand_in in {"alone": alone, "live_settings": live, "work_off": work_off, "run_retention": run}.items():
        monkeypatch.setattr(serve, name, stand_in)
    monkeypatch.setattr(serve, "trusted_now", wrong)
    with pytest.raises(Refused, match="the clock of this machine is ahead"):
        await serve._round(Settings(), MemoryErasures(), serve.EarlierRounds(), sweeps=True)
    assert done == ["asked for"]
