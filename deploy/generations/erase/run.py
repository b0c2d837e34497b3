"""The steps of an erasure; each can be repeated, so that an interrupted one is finished by running it again.

Intent in the ledger of erasures → a new data key → in each generation: derive again without it, seal the rest of the
log anew, swap (which fences late workers), index, records of replies, letters, timer, notice to those who follow memory
→ unsent replies dropped → the old keys destroyed → files rewritten → mark in the state store → receipt in the ledger.
Of several erasures in one conversation each has its intent, mark and receipt; the steps between are taken once, for all
that has begun. Of several conversations the log is read together, and what follows the notice is done for a batch.
"""

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from time import time
from typing import Final, Self

from eunoe.deploy.clients.bootstrap import Clients
from eunoe.deploy.clients.live_settings import settings_in
from eunoe.deploy.clients.shared import open_redis
from eunoe.deploy.event_loop import let_go
from eunoe.deploy.generations.erase.finishing import Erased, Finished, finish
from eunoe.deploy.generations.erase.in_generation import InGeneration
from eunoe.deploy.generations.erase.planning import Planning
from eunoe.deploy.generations.erase.receipt import Outcome, Receipt, Remains
from eunoe.deploy.generations.erase.settling import settle
from eunoe.deploy.generations.erase.side_by_side import MAX_SESSIONS
from eunoe.deploy.generations.erase.sites import NotNow, Site, Sites, check_whole
from eunoe.deploy.generations.repair import Repairer
from eunoe.deploy.progress import ReportProgress
from eunoe.deploy.settings import Settings
from eunoe.schemas.decisions import Scope
from eunoe.schemas.erasure import ErasedPart, Erasure, ErasureLedger, ErasureRequest, erased_parts
from eunoe.schemas.errors import Refused, StateLost
from eunoe.workers.stores.erasures.ledgers import AppliedErasures
from eunoe.workers.stores.records.generations import FIRST, RedisGenerations
from eunoe.workers.stores.redis.connection import RedisClient
from eunoe.workers.update.tables import NAME as UPDATE

HANDLED_S: Final = 5.0
"""Seconds for which an erasure waits for intake; then those of other conversations go first."""


def _quiet(_phase: str, _done: int, _total: int) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Eraser:
    """Erases while the workers run. ``settings`` are those of the live generation."""

    settings: Settings
    ledger: ErasureLedger
    report: ReportProgress = field(default=_quiet)
    intake_s: float = HANDLED_S
    """Seconds for which it waits for intake to handle what a conversation's log holds."""
    goes_on: bool = False
    """Whether it carries out next what it has begun: then nobody needs to be told of the command that does."""
    sites: Sites | None = None
    """The clients that it keeps, see `kept`; `None`: it opens them for each conversation."""

    async def plan(self, request: ErasureRequest) -> Erasure:
        """The ledger entry that the request would make; nothing is written.

        What was accepted before it and intake has not handled yet is waited for: it belongs to what is to go. Raises
        `RequestRefused` where something of it is unknown or erased already, `NotNow` while a generation is being made,
        `Refused` for an installation that does not fit, `Unhandled` where intake is too far behind, `Unavailable`.
        """
        async with self.planning() as planning:
            return await planning.plan(request)

    async def begin(self, request: ErasureRequest) -> Erasure:
        """Put the erasure into the ledger: from here on no reader of the log brings it back. Raises as `plan` does."""
        async with self.planning() as planning:
            return await planning.begin(request)

    @asynccontextmanager
    async def planning(self) -> AsyncIterator[Planning]:
        """Plans several erasures in one conversation, whose log is read once."""
        async with self.kept() as eraser, AsyncExitStack() as closing:
            yield Planning(eraser, closing)

    async def check_generations(self) -> None:
        """Raise `NotNow` where an erasure that has begun would have to wait; `Unavailable`."""
        async with self.kept() as eraser:
            assert eraser.sites is not None
            for settings in await eraser.generations():
                await eraser.sites.partitions(settings)

    async def check_begun(self) -> None:
        """Raise `NotNow` where a generation is made since an erasure began: it may have read the ledger before."""
        try:
            await self.generations()
        except NotNow as fault:
            raise NotNow(f"{fault}; it has begun now: whoever reads the log leaves it out") from None

    async def carry_out(self, erasure: Erasure) -> Receipt:
        """Run all steps of an erasure that is in the ledger. Raises as `erase` and `finish` do."""
        async with self.kept() as eraser:
            finished = await eraser.finish([await eraser.erase([erasure])])
        if finished.faults:
            raise finished.faults[0]
        (receipt,) = finished.receipts
        return receipt

    async def erase(self, erasures: Sequence[Erasure]) -> Erased:
        """Run the steps of erasures of one conversation, which are in the ledger, but for the last ones: `finish`.

        It is derived once for all of them, by an eraser that keeps its clients (`kept`). Raises `Refused` while a
        generation is being made, `Unavailable`: then the same erasures are to be carried out again.
        """
        began, key = int(time()), erasures[0].key
        part = erased_parts(await self.ledger.erasures(key))[key]  # all that has begun in it, these included
        generations, remains = await self.generations(), list[Remains]()
        work = [InGeneration.of(await self.site(settings), erasures, part) for settings in generations]
        for one in work:
            await one.change.begin()
            remains.append(await one.erase(self.report))
        return Erased(erasures, began, generations, Outcome({}, tuple(remains), ()), work)

    async def finish(self, batch: Sequence[Erased]) -> Finished:
        """Run the last steps for all that was erased; a conversation that meets a fault is to be carried out again.

        See `eunoe.deploy.generations.erase.settling` and `eunoe.deploy.generations.erase.finishing`. Raises
        `Unavailable` where the files could not be rewritten: then all are.
        """
        settled, faults = await settle(batch)
        finished = await finish(self.settings, self.ledger, settled) if settled else Finished()
        for one in batch:
            self.release(one.key)
        return Finished(finished.receipts, [*faults, *finished.faults])

    async def unfinished(self, key: str | None = None) -> list[Erasure]:
        """The erasures that were begun and not finished, and those that this state store has not seen.

        Of a conversation, or of all.
        """
        done = {(one.key, one.request_id) for one in await self.ledger.done(key)}
        async with self._redis() as redis:
            applied = AppliedErasures(redis, self.settings.prefix)
            done &= await (applied.all() if key is None else applied.among(done))
        return [one for one in await self.ledger.erasures(key) if (one.key, one.request_id) not in done]

    async def requested(self) -> list[ErasureRequest]:
        """The requests that were neither begun nor refused."""
        taken = {(begun.key, begun.request_id) for begun in await self.ledger.erasures()}
        taken |= {(refused.key, refused.request_id) for refused in await self.ledger.refusals()}
        return [one for one in await self.ledger.requests() if (one.key, one.request_id) not in taken]

    async def conversations(self, tenant_prefix: str) -> list[str]:
        """The keys of a tenant's conversations in the state store; ``tenant_prefix`` is ``<tenant>/``, encoded."""
        async with self.opened(self.settings) as (clients, _):
            return [key for key in await clients.store.conversations() if key.startswith(tenant_prefix)]

    async def generations(self) -> list[Settings]:
        """The settings of all generations, the live one last; raises `Refused` while one is being made."""
        async with self._redis() as redis:
            registry = RedisGenerations(redis, self.settings.prefix)
            rows, pointer = await registry.all(), await registry.pointer()
            live = pointer.live or FIRST
            for row in rows:
                check_whole(row)
            names = dict.fromkeys((*(row.name for row in rows), pointer.first or live))
            others = [name for name in names if name != live]
            return [
                await settings_in(registry, self.settings.model_copy(update={"generation": name, "log": None}))
                for name in (*others, live)
            ]

    @asynccontextmanager
    async def _redis(self) -> AsyncIterator[RedisClient]:
        if self.sites is not None:
            yield await self.sites.redis(self.settings)
            return
        async with open_redis(self.settings) as redis:
            yield redis

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[Self]:
        """This eraser with clients that it opens once and keeps to the end of the block; as it is where it has some."""
        if self.sites is not None:
            yield self
            return
        let_go()  # the clients of an earlier one, which are several MB
        async with AsyncExitStack() as closing:
            yield replace(self, sites=Sites(closing))

    @asynccontextmanager
    async def opened(
        self, settings: Settings, part: ErasedPart | None = None
    ) -> AsyncIterator[tuple[Clients, Repairer]]:
        """The clients of a generation, and a repairer that leaves out what is erased; closed unless they are kept."""
        async with self.kept() as eraser:
            site = await eraser.site(settings)
            yield site.clients, site.repairer(part)

    async def site(self, settings: Settings) -> Site:
        """A generation, of an eraser that keeps clients. Raises as `Sites.of` does."""
        assert self.sites is not None
        return await self.sites.of(settings)

    @asynccontextmanager
    async def turn(self, key: str) -> AsyncIterator[None]:
        """Wait until a conversation fits beside those that are worked on; the block is the work. Raises `Unavailable`.

        An eraser that keeps no clients works on one.
        """
        if self.sites is None:
            yield
            return
        async with self.sites.side_by_side.entered(await self.sessions(key)):
            yield

    async def sessions(self, key: str) -> int:
        """Number of sessions of a conversation that are remembered; raises `Unavailable`."""
        try:
            async with self.opened(self.settings) as (clients, _):
                return (await clients.store.ledger(Scope(UPDATE, key))).applied
        except StateLost:  # the log tells
            return MAX_SESSIONS
        except Refused:  # the work itself meets it, and tells
            return 0

    def put_down(self, key: str) -> None:
        """Say that a conversation is not worked on for now: what was read of it may be let go of."""
        if self.sites is not None:
            self.sites.put_down(key)

    def release(self, key: str) -> None:
        """Let go of what was read of a conversation."""
        if self.sites is not None:
            self.sites.release(key)

    def expect(self, keys: Iterable[str]) -> None:
        """Say which conversations come next, in their order: the log is read for them together."""
        if self.sites is not None:
            self.sites.expect(keys)
