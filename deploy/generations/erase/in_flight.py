"""Waits for the asks that are on their way to the responder, before the key that they are sealed with is destroyed."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from eunoe.deploy.settings import Settings
from eunoe.streams.lag import ends_now, lag
from eunoe.streams.settings import partition_of
from eunoe.streams.topics import Topic
from eunoe.workers.respond.tables import NAME as RESPOND

log = logging.getLogger(__name__)

WAIT_S: Final = 20.0
"""Seconds after which the asks that are left stay unanswered: an erasure waits for no responder that is down."""
_LOOK_S: Final = 0.2


async def wait_for_replies(settings: Settings, keys: Sequence[str], partitions: int) -> None:
    """Wait until the responder has handled all that was sent to it about conversations before, `WAIT_S` at most.

    What is left after that is logged. Raises `Unavailable`.
    """
    kafka, names = settings.kafka_settings, settings.names
    own = {partition_of(key.encode(), partitions) for key in keys}
    ends = await ends_now(kafka, names, [Topic.REPLY_CONTEXTS])
    until = {place: end if place.partition in own else 0 for place, end in ends.items()}
    try:
        async with asyncio.timeout(WAIT_S):
            while any((await lag(kafka, names, {RESPOND: [Topic.REPLY_CONTEXTS]}, until)).values()):  # noqa: ASYNC110
                await asyncio.sleep(_LOOK_S)
    except TimeoutError:
        log.warning("asks of erased conversations may stay unanswered: not handled by `respond` within %g s", WAIT_S)
