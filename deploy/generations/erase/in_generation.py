"""The steps of an erasure in one generation."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import time

from eunoe.deploy.generations.erase.data_keys import KeyChange
from eunoe.deploy.generations.erase.places import Naming, count_places
from eunoe.deploy.generations.erase.receipt import Remains
from eunoe.deploy.generations.erase.sites import Site
from eunoe.deploy.generations.erase.traces import close_letters, drop_cited, forget_conversation
from eunoe.deploy.generations.followers import tell_followers
from eunoe.deploy.generations.repair import Repaired
from eunoe.deploy.progress import ReportProgress
from eunoe.schemas.erasure import ErasedPart, Erasure
from eunoe.schemas.memory import DerivedReason
from eunoe.workers.derive.digest import hash_state
from eunoe.workers.registry import MEMORY_STAGES, STAGES

_DIGESTED = {name: STAGES[name] for name in MEMORY_STAGES}


@dataclass(frozen=True, slots=True)
class InGeneration:
    """The erasures of one conversation that are carried out in a generation."""

    site: Site
    change: KeyChange

    @classmethod
    def of(cls, site: Site, erasures: Sequence[Erasure], part: ErasedPart) -> "InGeneration":
        """``part``: all that has begun in the conversation, these included."""
        return cls(site, KeyChange(site.settings, site.clients, erasures, part, site.log))

    async def erase(self, report: ReportProgress) -> Remains:
        """Derive the conversation again, replace its state, and remove its traces elsewhere.

        Left is what is removed for a batch: replies that were not sent, the old keys, what files keep. Raises
        `StillWritten`, `Refused`, `Unavailable`.
        """
        site, part = self.site, self.change.part
        clients = site.clients
        done = await replace(site.repairer(part), before_swap=self.change.seal_anew).repair(part.key, report)
        await drop_cited(clients, part, Naming(part))
        await close_letters(clients.publisher, site.log, part)
        if not done.records:
            await forget_conversation(clients, site.log.partitions, part.key)
        await clients.erased_snapshots.clean(part.key, time())
        await tell_followers(clients.publisher, part.key, DerivedReason.ERASED)
        return await self._remains(done)

    async def count(self, *, whole: bool) -> dict[str, int]:
        """Traces that are left, by place. Raises `Unavailable`."""
        site, part = self.site, self.change.part
        found = {one.place: one.count for one in await count_places(site.clients, part, whole=whole)}
        letters = await close_letters(site.clients.publisher, site.log, part, dry_run=True)
        return found | {"dead-letters": letters}

    async def _remains(self, done: Repaired) -> Remains:
        hashed = await hash_state(self.site.clients.store, done.key, _DIGESTED)
        return Remains(
            generation=self.site.settings.names.generation,
            digest=hashed.sha256,
            memories=done.memories,
            sessions=done.sessions,
        )
