"""Limits on requests that stay open, streams and waits: for a process, a tenant and a key."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from eunoe.deploy.gateway.keys import Caller
from eunoe.deploy.gateway.problems import Problem
from eunoe.deploy.settings.sections import GatewaySettings


@dataclass(slots=True)
class OpenRequests:
    """Counts the open requests of one kind in a process."""

    settings: GatewaySettings
    kind: str
    """Names them in refusals, in the plural."""
    open: int = 0
    """All that are open."""
    _of_key: Counter[str] = field(default_factory=Counter)
    _of_tenant: Counter[str] = field(default_factory=Counter)

    @contextmanager
    def counted(self, caller: Caller) -> Iterator[None]:
        """Count one during the block; raises `Problem` (429 or 503) where no more may be opened."""
        self._check(caller)
        self.open += 1
        self._of_key[caller.id] += 1
        self._of_tenant[caller.tenant] += 1
        try:
            yield
        finally:
            self.open -= 1
            _leave(self._of_key, caller.id)
            _leave(self._of_tenant, caller.tenant)

    def _check(self, caller: Caller) -> None:
        limits = self.settings
        if self._of_key[caller.id] >= limits.streams_per_caller:
            raise self._refusal("this key has", limits.streams_per_caller)
        if self._of_tenant[caller.tenant] >= limits.streams_per_tenant:
            raise self._refusal("the keys of this tenant have", limits.streams_per_tenant)
        if self.open >= limits.streams:
            raise Problem(503, f"this replica has too many {self.kind}", headers={"Retry-After": "5"})

    def _refusal(self, whose: str, limit: int) -> Problem:
        why = f"{whose} {limit} {self.kind}, the most that one may have at a replica"
        return Problem(429, why, headers={"Retry-After": "10"})


def _leave(counts: Counter[str], name: str) -> None:
    counts[name] -= 1
    if not counts[name]:
        del counts[name]
