"""The wait of erasures, for the metrics: requests come through the gateway, and another process carries them out."""

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from eunoe.deploy.clients.erasures import waiting_erasures
from eunoe.deploy.observability.rounds import Faults, repeat
from eunoe.schemas.erasure import ErasureLedger

EVERY_S: Final = 60.0
"""Seconds between two looks: each reads the ledger."""


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(slots=True)
class ErasureWait:
    """The time since when the oldest erasure of a ledger waits."""

    ledger: ErasureLedger
    now: Callable[[], datetime] = _now
    every_s: float = EVERY_S
    _looked: bool = field(default=False, init=False)
    _since: datetime | None = field(default=None, init=False)

    def seconds(self) -> float:
        """The seconds for which it has waited; 0 where none waits, NaN before the first look."""
        if not self._looked:
            return math.nan
        return 0.0 if self._since is None else (self.now() - self._since).total_seconds()

    async def look(self) -> None:
        """Ask the ledger; raises `Refused`, `Unavailable`, and ``ValidationError`` for an entry of another version."""
        self._since = min((await waiting_erasures(self.ledger)).values(), default=None)
        self._looked = True

    async def watch(self) -> None:
        """Look again and again, until it is cancelled; where a look fails, what was known goes on to age."""
        await repeat(self.look, self.every_s, Faults("the look for how long erasures have waited", logging.WARNING))
