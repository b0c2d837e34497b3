"""A rebuild derives again what Redis may have lost meanwhile."""

import pytest

from eunoe.deploy.generations.rebuild import run
from eunoe.deploy.settings import Settings


@pytest.mark.parametrize(("servers", "passes"), [(["a", "a"], 1), (["ab", "ac", "dc", "dc"], 3)])
async def test_it_derives_until_redis_is_the_same_from_begin_to_end(
    servers: list[str], passes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, made = iter(servers), 0

    async def processes(_settings: Settings) -> frozenset[str]:
        return frozenset(next(told))

    async def derive() -> int:
        nonlocal made
        made += 1
        return made

    monkeypatch.setattr(run, "_redis_processes", processes)
    assert await run.until_kept(Settings(), derive) == passes
    assert next(told, None) is None
