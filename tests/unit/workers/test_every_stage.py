"""Every stage of the registry passes the suite of stages."""

from collections.abc import Awaitable, Callable

import pytest

from eunoe.workers.registry import STAGES
from tests.support.stage_suite import CHECKS, StageSuite


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", STAGES)
async def test_a_stage(name: str, check: Callable[[StageSuite], Awaitable[None]]) -> None:
    await check(StageSuite(STAGES, name))
