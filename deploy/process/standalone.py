"""Standalone system: the embedded stack, the journal and workers over one data directory (`eunoe up`).

Start: servers, topics, replay of the journal, workers. After an unclean stop, derived state is discarded before the
replay. Stop: all stages drained, the journal complete, and last the marker of a clean stop.
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from eunoe.deploy.clients.connect import announced_stores, environment, on_stack
from eunoe.deploy.clients.data_keys import open_data_keys
from eunoe.deploy.clients.erasures import check_store_has_seen_erasures, read_erased
from eunoe.deploy.clients.key_checks import destroy_again
from eunoe.deploy.clients.live_settings import live_settings
from eunoe.deploy.clients.models import own_endpoint
from eunoe.deploy.clients.shared import open_publisher, open_redis, remove_snapshots, state_store, store_keys
from eunoe.deploy.inspect.counted import counted
from eunoe.deploy.local.derived import discard_derived_state
from eunoe.deploy.local.journal import Journal, replay
from eunoe.deploy.local.journal_erasing import erase_from_journal
from eunoe.deploy.local.journal_sealing import open_entry
from eunoe.deploy.local.journal_writer import JournalWriter
from eunoe.deploy.local.kept import KeptData
from eunoe.deploy.local.servers import check_port
from eunoe.deploy.local.stack import LEDGER, LocalStack, Ports
from eunoe.deploy.observability.index_watch import report_lost_index
from eunoe.deploy.observability.room_watch import report_lacking_room
from eunoe.deploy.process.draining import drained, settle
from eunoe.deploy.process.erasing import EraserOnDemand
from eunoe.deploy.process.forked import ForkServer
from eunoe.deploy.process.starting import start_gateway, start_workers
from eunoe.deploy.process.supervisor import GatewayProcess, WorkerProcess
from eunoe.deploy.progress import ReportProgress
from eunoe.deploy.settings import Settings
from eunoe.deploy.settings.deciding import decided
from eunoe.schemas.decisions import Ledger
from eunoe.schemas.erasure import ErasedPart
from eunoe.schemas.errors import Refused
from eunoe.schemas.keys import KeyStore
from eunoe.streams.admin import create_topics
from eunoe.streams.cancelling import cancelled, completed, first_ended
from eunoe.streams.reader import topic_size
from eunoe.streams.topics import Topic, TopicNames
from eunoe.workers.derive.erased import start_of
from eunoe.workers.derive.pipeline import TABLES
from eunoe.workers.stores.records.generations import GenerationState, Listed, RedisGenerations, listed
from eunoe.workers.stores.state.transplants import RedisTransplants

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StandaloneOptions:
    """Options of the start."""

    data: Path | None
    """The data directory; `None` means a temporary one."""
    workers: bool = True
    http_port: int | None = 0
    """Port of the gateway; 0: any free one; `None`: no gateway. Without workers there is none."""
    ports: Ports = field(default_factory=Ports)
    drain_s: float = 120.0
    """Seconds that the stages behind intake may take at the stop to handle the remaining records."""


@dataclass(frozen=True, slots=True)
class Standalone:
    """A running system."""

    settings: Settings
    stack: LocalStack
    workers: Sequence[WorkerProcess]
    """One for replies and one for memory, or none."""
    journal: JournalWriter | None
    gateway: GatewayProcess | None = None

    async def failed(self) -> None:
        """Wait until one of the parts has ended; raises its error."""
        parts = (self.stack, *self.workers, self.gateway, self.journal)
        await first_ended(*(part.failed() for part in parts if part is not None))


@asynccontextmanager
async def open_standalone(
    settings: Settings,
    options: StandaloneOptions,
    report: ReportProgress,
    forks: ForkServer | None = None,
    kills: list[Callable[[], None]] | None = None,
) -> AsyncIterator[Standalone]:
    """A system that takes events. At the end it is stopped; where data is kept, a marker records a clean stop.

    With ``forks`` its processes are forked, and share memory. ``kills`` gets what kills those that derive or answer.

    Raises `Refused` when the directory is in use or was made with other partitions, or a port is taken; `Unavailable`
    when a part does not come up.
    """
    _check_http_port(options)
    async with LocalStack(options.data, options.ports) as stack, AsyncExitStack() as last, AsyncExitStack() as closing:
        unpinned = on_stack(settings, stack.urls)
        with stack.unchanged():
            settings = await live_settings(unpinned)
            kept = stack.kept
            if kept is not None:
                kept.check_partitions(settings.partitions)
            if options.workers:
                await _check_erasures(settings)
            await _create_topics(settings)
            keys = await last.enter_async_context(open_data_keys(settings))
            journal = await _restore(settings, stack, kept, report, keys) if kept is not None else None
        kills = [] if kills is None else kills
        workers = await start_workers(settings, stack, closing, forks, kills) if options.workers else ()
        writer = await _start_journal(settings, stack, journal, last, keys) if journal is not None else None
        settled = partial(_settle, settings, stack, workers, writer, report, options.drain_s)
        if workers and not stack.clean_start:
            await drained(settings, options.drain_s * 30, report)
        gateway = None
        if workers and options.http_port is not None:
            async with _clean_if_refused(settled):
                gateway = await start_gateway(unpinned, stack, options.http_port, closing, forks)
            kills.append(gateway.kill)
        system = Standalone(settings, stack, workers, writer, gateway)
        _announce(system, unpinned)
        if workers:
            _watch(settings, stack, closing)
        eraser = _eraser(unpinned, stack, forks)
        kills.append(eraser.kill)
        erasing = asyncio.create_task(eraser.run()) if workers else None
        closing.push_async_callback(_ended, erasing)
        yield system
        if gateway is not None:
            await gateway.stop()  # nothing comes in while the stages are drained
        await _ended(erasing)
        await settled()


@asynccontextmanager
async def _clean_if_refused(settled: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """A part of a start while the stages run: where it is refused, they are stopped as at an ordinary stop."""
    try:
        yield
    except Refused:
        await settled()
        raise


async def _settle(
    settings: Settings,
    stack: LocalStack,
    workers: Sequence[WorkerProcess],
    writer: JournalWriter | None,
    report: ReportProgress,
    limit_s: float,
) -> None:
    """Drain the stages and mark the directory clean, where there are stages and it is kept."""
    if workers and writer is not None:
        await settle(settings, stack, workers, writer, report, limit_s)


async def _create_topics(settings: Settings) -> None:
    """Create the topics of all complete generations: the broker forgets them, and an older one may be promoted."""
    await create_topics(settings.kafka_settings, settings.names, settings.partitions)
    async with open_redis(settings) as redis:
        known = await listed(RedisGenerations(redis, settings.prefix))
    for name in with_topics(known, settings.names):
        await create_topics(settings.kafka_settings, replace(settings.names, generation=name), settings.partitions)


def with_topics(known: Sequence[Listed], names: TopicNames) -> list[str]:
    """The names of the other generations on the same log that are complete, and so may be promoted."""
    return [
        one.name
        for one in known
        if one.name != names.generation
        and (one.made is None or (one.made.log == names.log and one.made.state is GenerationState.BUILT))
    ]


def _check_http_port(options: StandaloneOptions) -> None:
    if options.workers and options.http_port:
        check_port("gateway", options.http_port)


def _watch(settings: Settings, stack: LocalStack, closing: AsyncExitStack) -> None:
    """Tell here what the stages wait for: they log to files of their own."""
    for watch in (report_lost_index(settings), report_lacking_room(stack.directory)):
        closing.callback(asyncio.create_task(watch).cancel)


def _eraser(settings: Settings, stack: LocalStack, forks: ForkServer | None) -> EraserOnDemand:
    log_file = stack.directory / "logs" / "eraser.log"
    return EraserOnDemand(settings, stack.directory / LEDGER, environment(settings), log_file, forks)


def _announce(system: Standalone, given: Settings) -> None:
    """Tell commands in this directory of the system; ``given`` are the settings that it was started with."""
    gateway, settings, stack = system.gateway, system.settings, system.stack
    stack.announce(
        None if gateway is None else gateway.url,
        stores=announced_stores(settings, stack.urls),
        model_endpoint=own_endpoint(given, os.environ),
        generation=settings.names.generation if system.workers else None,
        settings=decided(given),
    )


async def _ended(task: "asyncio.Task[None] | None") -> None:
    """Cancel a task, and wait for its end."""
    if task is not None:
        await asyncio.gather(cancelled(task), return_exceptions=True)


async def _check_erasures(settings: Settings) -> None:
    """Raise `Refused` where data from before an erasure was put back, with the commands that help."""
    try:
        await check_store_has_seen_erasures(settings)
    except Refused as fault:
        raise Refused(f"{fault}; for that, start the servers alone: `eunoe up --no-workers`") from fault


async def _restore(
    settings: Settings, stack: LocalStack, kept: KeptData, report: ReportProgress, keys: KeyStore | None
) -> Journal:
    """Take what was erased out of the journal, discard derived state after an unclean stop, replay the journal."""
    if keys is not None and (again := await destroy_again(settings)):
        log.warning("the key store is older than the ledger of erasures: %s destroyed again", counted(again, "key"))
    erased = await read_erased(settings)
    await erase_from_journal(kept.journal, erased, keys)
    journal = Journal(kept.journal)
    if not stack.clean_start:
        log.warning("the last stop was not clean: rebuilding memory from %s", counted(len(journal), "journalled event"))
        await discard_derived_state(stack.urls, store_keys(settings))
        await remove_snapshots(settings)
        await _begin_erased(settings, erased)
    async with open_publisher(settings) as publisher:
        played = await replay(
            journal,
            publisher,
            lambda done, total: report("played back", done, total),
            lambda entry: open_entry(entry, keys),
        )
    stands = await topic_size(settings.kafka_settings, settings.names, Topic.CONVERSATIONS)
    if stands != played:
        raise Refused(
            f"{stands - played} events were produced while the journal was played back; order would be lost."
            " Stop the clients, start again, and let them produce when `eunoe up` says that it is ready"
        )
    return journal


async def _begin_erased(settings: Settings, erased: Mapping[str, ErasedPart]) -> None:
    """Give conversations of which something was erased their numbers, and the ids that are not taken again."""
    keys = store_keys(settings)
    async with open_data_keys(settings) as data_keys, open_redis(settings) as redis:
        transplants = RedisTransplants(state_store(settings, redis, keys, data_keys, thaws=True), redis, keys)
        for key, part in erased.items():
            start = start_of(part)
            assert start is not None
            await transplants.swap(key, TABLES, start, Ledger())


async def _start_journal(
    settings: Settings, stack: LocalStack, journal: Journal, closing: AsyncExitStack, keys: KeyStore | None
) -> JournalWriter:
    closing.callback(journal.close)
    writer = JournalWriter(journal, settings.kafka_settings, settings.names, stack.epoch, keys)
    closing.push_async_callback(lambda: completed(_end_log(stack, writer)))
    await writer.start()
    stack.wake(writer.notify)
    return writer


async def _end_log(stack: LocalStack, writer: JournalWriter) -> None:
    """End the broker before the one that writes its log down: other processes may produce until it has ended."""
    aiokafka = logging.getLogger("aiokafka")
    level = aiokafka.level
    aiokafka.setLevel(logging.CRITICAL)  # the broker is to be gone
    try:
        await writer.outlast()
        await stack.stop_broker()
        await writer.finish()
    finally:
        aiokafka.setLevel(level)
