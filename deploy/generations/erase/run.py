"""The steps of an erasure; each can be repeated, so that an interrupted one is finished by running it again.

Intent in the ledger of erasures → a new data key → in each generation: derive again without it, seal the rest of the
log anew, swap (which fences late workers), index, replies, letters, timer, notice to those who follow memory → the old
keys destroyed → files rewritten → mark in the state store → receipt in the ledger. Of several erasures in one
conversation each has its intent, mark and receipt; the steps between are taken once, for all that has begun. Files are
rewritten once for several conversations.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from time import time
from typing import Final

from eunoe.deploy.clients.bootstrap import Clients, open_clients
from eunoe.deploy.clients.live_settings import settings_in
from eunoe.deploy.clients.shared import open_redis
from eunoe.deploy.event_loop import let_go
from eunoe.deploy.generations.erase.data_keys import KeyChange
from eunoe.deploy.generations.erase.finishing import Erased, finish
from eunoe.deploy.generations.erase.in_flight import wait_for_replies
from eunoe.deploy.generations.erase.places import Naming, count_places
from eunoe.deploy.generations.erase.planning import Planning
from eunoe.deploy.generations.erase.receipt import Outcome, Receipt, Remains
from eunoe.deploy.generations.erase.traces import close_letters, drop_replies, forget_conversation
from eunoe.deploy.generations.followers import tell_followers
from eunoe.deploy.generations.handled_log import HandledLog
from eunoe.deploy.generations.repair import Repaired, Repairer
from eunoe.deploy.progress import ReportProgress
from eunoe.deploy.settings import Settings
from eunoe.schemas.erasure import ErasedPart, Erasure, ErasureLedger, ErasureRequest, erased_parts
from eunoe.schemas.errors import Refused, Unavailable
from eunoe.schemas.memory import DerivedReason
from eunoe.streams.admin import check_partitions
from eunoe.workers.derive.digest import hash_state
from eunoe.workers.registry import MEMORY_STAGES, STAGES
from eunoe.workers.stores.erasures.ledgers import AppliedErasures
from eunoe.workers.stores.records.generations import FIRST, Generation, GenerationState, RedisGenerations

_DIGESTED = {name: STAGES[name] for name in MEMORY_STAGES}

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
        async with AsyncExitStack() as closing:
            yield Planning(self, closing)

    async def check_generations(self) -> None:
        """Raise `NotNow` where an erasure that has begun would have to wait; `Unavailable`."""
        for settings in await self.generations():
            await _partitions(settings)

    async def check_begun(self) -> None:
        """Raise `NotNow` where a generation is made since an erasure began: it may have read the ledger before."""
        try:
            await self.generations()
        except NotNow as fault:
            raise NotNow(f"{fault}; it has begun now: whoever reads the log leaves it out") from None

    async def carry_out(self, erasure: Erasure) -> Receipt:
        """Run all steps of an erasure that is in the ledger. Raises as `erase` and `finish` do."""
        (receipt,) = await self.finish([await self.erase([erasure])])
        return receipt

    async def erase(self, erasures: Sequence[Erasure]) -> Erased:
        """Run the steps of erasures of one conversation, which are in the ledger, but for the last ones: `finish`.

        It is derived once for all of them. Raises `Refused` while a generation is being made, `Unavailable`: then the
        same erasures are to be carried out again.
        """
        began, key = int(time()), erasures[0].key
        part = erased_parts(await self.ledger.erasures(key))[key]  # all that has begun in it, these included
        generations = await self.generations()
        remains, after = list[Remains](), dict[bool, Mapping[str, int]]()
        async with AsyncExitStack() as closing:
            work = [await self._enter(closing, settings, erasures, part) for settings in generations]
            for one in work:
                await one.change.begin()
                remains.append(await one.erase(self.report))
            if work[-1].change.keys:  # asks on their way are sealed with them; of those that stay, none should be lost
                await wait_for_replies(work[-1].settings, key, work[-1].change.partitions)
            destroyed = await work[-1].change.finish()
            for one in work:
                if one.settings.generation == self.settings.generation:
                    after = {whole: await one.count(whole=whole) for whole in {each.is_whole for each in erasures}}
        return Erased(erasures, began, generations, Outcome(after, tuple(remains), destroyed))

    async def finish(self, batch: Sequence[Erased]) -> list[Receipt]:
        """Run the last steps for all that was erased; see `eunoe.deploy.generations.erase.finishing`."""
        return await finish(self.settings, self.ledger, batch)

    async def unfinished(self) -> list[Erasure]:
        """The erasures that were begun and not finished, and those that this state store has not seen."""
        done = {(one.key, one.request_id) for one in await self.ledger.done()}
        async with open_redis(self.settings) as redis:
            done &= await AppliedErasures(redis, self.settings.prefix).all()
        return [one for one in await self.ledger.erasures() if (one.key, one.request_id) not in done]

    async def requested(self) -> list[ErasureRequest]:
        """The requests that were neither begun nor refused."""
        taken = {(begun.key, begun.request_id) for begun in await self.ledger.erasures()}
        taken |= {(refused.key, refused.request_id) for refused in await self.ledger.refusals()}
        return [one for one in await self.ledger.requests() if (one.key, one.request_id) not in taken]

    async def conversations(self, tenant_prefix: str) -> list[str]:
        """The keys of a tenant's conversations in the state store; ``tenant_prefix`` is ``<tenant>/``, encoded."""
        async with self.opened(self.settings) as (clients, _):
            return [key for key in await clients.store.conversations() if key.startswith(tenant_prefix)]

    async def _enter(
        self, closing: AsyncExitStack, settings: Settings, erasures: Sequence[Erasure], part: ErasedPart
    ) -> "_InGeneration":
        clients, repairer = await closing.enter_async_context(self.opened(settings, part))
        change = KeyChange(settings, clients, erasures, part, repairer.log.partitions)
        return _InGeneration(settings, clients, replace(repairer, before_swap=change.seal_anew, tells=False), change)

    async def generations(self) -> list[Settings]:
        """The settings of all generations, the live one last; raises `Refused` while one is being made."""
        async with open_redis(self.settings) as redis:
            registry = RedisGenerations(redis, self.settings.prefix)
            rows, pointer = await registry.all(), await registry.pointer()
            live = pointer.live or FIRST
            for row in rows:
                _check_whole(row)
            names = dict.fromkeys((*(row.name for row in rows), pointer.first or live))
            others = [name for name in names if name != live]
            return [
                await settings_in(registry, self.settings.model_copy(update={"generation": name, "log": None}))
                for name in (*others, live)
            ]

    @asynccontextmanager
    async def opened(
        self, settings: Settings, part: ErasedPart | None = None
    ) -> AsyncIterator[tuple[Clients, Repairer]]:
        """The clients of a generation, and a repairer that leaves out what is erased; closed at the end.

        They are several MB, for each conversation anew, of which there may be thousands: those before are let go of.
        """
        let_go()
        partitions = await _partitions(settings)
        async with open_clients(settings) as clients:

            async def erased() -> Mapping[str, ErasedPart]:
                return {} if part is None else {part.key: part}

            handled = HandledLog(settings, clients, partitions)
            yield clients, Repairer(settings, clients, clients.transplants, handled, erased, fences_intake=True)


@dataclass(frozen=True, slots=True)
class _InGeneration:
    """The steps of an erasure in one generation."""

    settings: Settings
    clients: Clients
    repairer: Repairer
    change: KeyChange

    async def erase(self, report: ReportProgress) -> Remains:
        part = self.change.part
        done = await self.repairer.repair(part.key, report)
        await drop_replies(self.clients, part, Naming(part))
        await close_letters(self.clients, self.settings, part)
        if not done.records:
            await forget_conversation(self.clients, self.repairer.log.partitions, part.key)
        await self.clients.erased_snapshots.clean(part.key, time())
        await tell_followers(self.clients.publisher, part.key, DerivedReason.ERASED)
        return await _remains(self.clients, self.settings, done)

    async def count(self, *, whole: bool) -> dict[str, int]:
        part = self.change.part
        found = {one.place: one.count for one in await count_places(self.clients, part, whole=whole)}
        return found | {"dead-letters": await close_letters(self.clients, self.settings, part, dry_run=True)}


class NotNow(Refused):
    """A generation is being made, or lacks topics: the same request can be carried out later."""


async def _partitions(settings: Settings) -> int:
    """The partitions of a generation; raises `NotNow` where topics are missing.

    Those of a generation that is not live may have been deleted.
    """
    try:
        return await check_partitions(settings.kafka_settings, settings.names)
    except Unavailable:  # a broker that refuses the login is Refused, too, and lacks no topics
        raise
    except Refused as fault:
        name = settings.names.generation
        why = str(fault).removesuffix("; run `eunoe topics create`")
        raise NotNow(
            f"generation {name}: {why}; make them by `EUNOE_GENERATION={name} eunoe topics create`, or, if it is not"
            f" live, run `eunoe drop {name}`; then erase again"
        ) from None


def _check_whole(row: Generation) -> None:
    what = {
        GenerationState.BUILDING: f"is being built: finish that, or run `eunoe drop {row.name}`",
        GenerationState.MOVING: "is taking over a log with other partitions: finish `eunoe topics repartition`",
        GenerationState.PARTIAL: f"holds a part of the memory: run `eunoe drop {row.name}`",
    }.get(row.state)
    if what is not None:
        raise NotNow(f"generation {row.name} {what}; then `eunoe erase` again (`eunoe erase replay` if it had begun)")


async def _remains(clients: Clients, settings: Settings, done: Repaired) -> Remains:
    hashed = await hash_state(clients.store, done.key, _DIGESTED)
    return Remains(
        generation=settings.names.generation, digest=hashed.sha256, memories=done.memories, sessions=done.sessions
    )
