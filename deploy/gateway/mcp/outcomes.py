"""The outcome of an erasure that a tool requested: it is carried out by another process, and awaited here."""

import asyncio
from contextlib import suppress
from typing import Final

from eunoe.deploy.gateway.erasures import ErasureState, ErasureView
from eunoe.schemas.errors import EunoeError
from eunoe.streams.gateway import GatewayConnection, GatewayRequest

OUTCOME_S: Final = 45.0
"""Longest wait for an outcome; clients give a tool a minute."""
_FIRST_PAUSE_S: Final = 0.25
_LONGEST_PAUSE_S: Final = 2.0


async def outcome_of(gateway: GatewayConnection, path: str, requested: ErasureView) -> ErasureView:
    """The erasure at ``path`` once it is done or refused, or as it was last seen after `OUTCOME_S`.

    It is kept by now: a look that fails takes nothing from that, and is no error.
    """
    seen, pause = requested, _FIRST_PAUSE_S
    with suppress(TimeoutError):
        async with asyncio.timeout(OUTCOME_S):
            while seen.state in (ErasureState.REQUESTED, ErasureState.BEGUN):
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_S)
                with suppress(EunoeError):
                    seen = ErasureView.from_json(await gateway.request(GatewayRequest("GET", path), OUTCOME_S))
    return seen
