"""Watches whether the embedder is still the model that a generation's vectors are of."""

import logging
from dataclasses import dataclass
from typing import Final

from eunoe.deploy.observability.health import HealthState
from eunoe.schemas.errors import Unavailable
from eunoe.schemas.model_ports import Embedder
from eunoe.workers.stores.records.embedder_probe import PROBE_TEXT, RedisEmbedderProbe, changed_model, says_nothing

log = logging.getLogger(__name__)

NAME: Final = "the embedder"
"""Its name among what holds readiness."""


@dataclass(frozen=True, slots=True)
class EmbedderWatch:
    """Embeds a fixed sentence, and compares the vector with the first one of the generation."""

    embedder: Embedder
    probe: RedisEmbedderProbe
    health: HealthState

    async def look(self) -> None:
        """Hold readiness while the model is another one; an endpoint that is away is left to those who need it.

        Raises `Unavailable` where Redis is away.
        """
        try:
            (now,) = await self.embedder.embed([PROBE_TEXT])
        except Unavailable as fault:
            log.debug("the embedder was not checked: %s", fault)
            return
        if says_nothing(now):
            return
        reason = changed_model(await self.probe.keep(self.embedder.name, now), now)
        if reason is not None:
            self.health.held[NAME] = reason
            log.error("%s: %s", NAME, reason)
        elif self.health.held.pop(NAME, None) is not None:
            log.warning("%s is the one again that the vectors are of", NAME)
