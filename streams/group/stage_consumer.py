"""The consumer of one stage: membership in its group, keyed dispatch, and reading again from an earlier offset.

The offset trackers of the dispatcher alone decide what is committed.
"""

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Coroutine, Iterable, Sequence, Set
from dataclasses import replace
from typing import Any, cast

from aiokafka import ConsumerRecord
from aiokafka.errors import KafkaError

from eunoe.schemas.errors import EunoeError, Unavailable
from eunoe.streams.access import why_denied
from eunoe.streams.broker_adapter import ConsumerLoad
from eunoe.streams.cancelling import cancelled
from eunoe.streams.group.dispatcher import Dispatcher
from eunoe.streams.group.faust_app import GroupApp, open_group
from eunoe.streams.group.faust_consumer import TP, GroupConsumer
from eunoe.streams.group.handlers import BatchHandler
from eunoe.streams.group.partition import LogicalPartition
from eunoe.streams.group.stage_options import StageOptions
from eunoe.streams.plain_consumer import as_record
from eunoe.streams.settings import KafkaSettings
from eunoe.streams.topics import TopicNames

log = logging.getLogger(__name__)

_REREAD_AFTER_S = 1.0
_DRAIN_SHARE = 0.5
"""Share of the time for a rebalance or a shutdown that the records in work get to finish."""
_CUT_OFF_S = 1.0
"""Seconds for which records in work are waited for at a stop while no broker takes acknowledgements."""
_ACK_SHARE = 0.5
"""Interval of acks, as a share of that of commits: a commit takes only what was acked before it."""


_PLAIN = StageOptions()


class StageConsumer:
    """Consumes the topics of a stage as a member of its group and runs ``handle`` on the records.

    Several consumers share one process and one event loop. A record is committed when it and all earlier ones of its
    partition are done. Any exception of the handler but `Revoked` ends the consumer: see `failure`.
    """

    def __init__(
        self,
        stage: str,
        topics: Sequence[str],
        kafka: KafkaSettings,
        names: TopicNames,
        handle: BatchHandler,
        options: StageOptions = _PLAIN,
    ) -> None:
        self.kafka = kafka
        self.stage = stage
        self._group = names.group(stage)
        self._logical = {names.name(topic): topic for topic in topics}
        self._names = {topic: name for name, topic in self._logical.items()}
        self._options = options
        self.dispatcher = Dispatcher(
            handle,
            before_ack=options.before_ack,
            on_revoked=self._revoked,
            backpressure=options.backpressure,
            urgent=options.urgent,
            limits=replace(options.limits, ack_interval_s=kafka.commit_interval_ms / 1000 * _ACK_SHARE),
        )
        self.load = ConsumerLoad(options.loop_lag_s, interactive=options.interactive, is_fed=options.is_fed)
        self._app: GroupApp | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._crash = asyncio.Event()
        self._reason: BaseException | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._rereading = asyncio.Lock()
        self._drained = asyncio.Event()
        self._drained.set()
        self._assignments = itertools.count(1)
        self._assigned: tuple[Set[TP], Set[LogicalPartition]] = (frozenset(), frozenset())

    # ---- life

    async def start(self) -> None:
        """Join the group; returns when the consumer is a member.

        Raises `Unavailable` when no broker answers, `Misconfigured` where it denies a right, and whatever error of our
        own ``start_position`` raises.
        """
        self._loop = asyncio.get_running_loop()
        self._app = open_group(self._group, self._logical, self)
        seconds = (self.kafka.rebalance_timeout_ms + self.kafka.session_timeout_ms) / 1000
        try:
            async with asyncio.timeout(seconds + self.kafka.request_timeout_ms / 1000):
                await self._join(self._app)
        except (KafkaError, OSError, TimeoutError) as error:
            await self.stop(5.0)
            raise Unavailable(
                f"group not joined: stage {self.stage}, {self.kafka.server}: {error!r}", self.kafka.server
            ) from error
        if self._reason is not None:
            await self.stop(5.0)
            if isinstance(self._reason, EunoeError):
                raise self._reason
            raise why_denied(self.kafka, self._reason) or Unavailable(
                f"consumer crashed at its start: stage {self.stage}: {self._reason!r}", self.kafka.server
            ) from self._reason
        self._spawn(self._watch())

    async def _join(self, app: GroupApp) -> None:
        """Start the app; returns when it is a member, or has crashed on the way."""
        starting, crash = asyncio.ensure_future(app.start()), asyncio.ensure_future(self._crash.wait())
        try:
            await asyncio.wait({starting, crash}, return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                await starting
        finally:
            await cancelled(starting, crash)

    async def stop(self, deadline_s: float = 30.0) -> None:
        """Finish the records in work, commit them and leave the group, or log an error after ``deadline_s`` seconds."""
        app = self._app
        if app is None:
            return
        end = asyncio.get_running_loop().time() + deadline_s
        for task in tuple(self._tasks):
            task.cancel()
        try:
            async with asyncio.timeout_at(end):
                if app.started and not app.crashed:
                    self._consumer.hold()
                    self._consumer.give_up_commits()
                # what cannot be acknowledged is done again in any case, and it may wait for the same broker
                can_ack = app.started and not app.crashed and self._consumer.reaches_group
                await self.drain(deadline_s * _DRAIN_SHARE if can_ack else min(_CUT_OFF_S, deadline_s * _DRAIN_SHARE))
                await app.stop()
        except TimeoutError:
            log.critical("consumer not stopped within %.0f s: stage %s; end the process", deadline_s, self.stage)
        self._app = None

    def notify(self) -> None:
        """Report new records of the topics, from a publisher of this process. May be called from any thread."""
        app = self._app
        if app is not None and app.started:
            self._consumer.notify()

    async def failure(self) -> BaseException:
        """Wait until the consumer has crashed; returns the reason, `Unavailable` where it is the brokers."""
        await self._crash.wait()
        assert self._reason is not None
        if isinstance(self._reason, KafkaError):
            # no `Misconfigured`: the next start says whether the right is still denied, and this one had it
            why = why_denied(self.kafka, self._reason) or f"{self.kafka.server}: {self._reason!r}"
            fault = Unavailable(f"consumer crashed: stage {self.stage}, {why}", self.kafka.server)
            fault.__cause__ = self._reason
            return fault
        return self._reason

    def crashed(self, reason: BaseException) -> None:
        """Note why the consumer cannot go on; the first reason counts. May be called from any thread."""
        self._reason = self._reason or reason
        if self._loop and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._crash.set)

    async def _watch(self) -> None:
        self.crashed(await self.dispatcher.failed())

    # ---- assignment and progress

    def assigned(self) -> Set[LogicalPartition]:
        """The partitions assigned to this consumer now."""
        if self.rebalancing:
            return frozenset()
        held = self._consumer.assignment()
        known, assigned = self._assigned
        if held is not known:
            assigned = frozenset((self._logical[tp.topic], tp.partition) for tp in held)
            self._assigned = held, assigned
        return assigned

    @property
    def rebalancing(self) -> bool:
        """Whether partitions are being reassigned, as they are at the start."""
        return self._app is None or not self._app.started or self._app.rebalancing

    def handled(self) -> dict[LogicalPartition, int]:
        """For each assigned partition, the offset after the last acked one."""
        acked = self.dispatcher.acked()
        begun = {(topic, number): self._consumer.begun_at(self._tp(topic, number)) for topic, number in self.assigned()}
        return {partition: acked.get(partition, at - 1) + 1 for partition, at in begun.items() if at is not None}

    def fetched_bytes(self) -> tuple[int, int]:
        """The bytes of records that wait outside of the dispatcher, and the most that they may be."""
        return (0, 0) if self.rebalancing else self._consumer.fetched_bytes()

    def caught_up(self, topic: str, partition: int) -> bool:
        """Whether a partition is assigned, was read to its end, and all its records are done."""
        if (topic, partition) not in self.assigned() or self.dispatcher.outstanding(topic, partition):
            return False
        last = self.dispatcher.last_taken(topic, partition)
        return self._consumer.caught_up(self._tp(topic, partition), last)

    def acked(self) -> dict[TP, int]:
        """Newest offset that may be committed, by partition."""
        return {self._tp(topic, number): offset for (topic, number), offset in self.dispatcher.acked().items()}

    async def start_of(self, tp: TP, offset: int) -> int:
        """The offset from which to read a partition: ``offset``, or an earlier one that `StartPosition` gives."""
        start_position = self._options.start_position
        if start_position is None:
            return offset
        # records still in work would be acked after this look-up, and hide what the state store lost before it
        await self._drained.wait()
        wanted = await start_position(self._logical[tp.topic], tp.partition, offset)
        if wanted is None or wanted >= offset:
            return offset
        log.warning("reading again: stage %s, %s/%d@%d to %d", self.stage, tp.topic, tp.partition, wanted, offset - 1)
        return max(wanted, 0)

    # ---- reading again

    async def read_again(self) -> None:
        """Read all partitions again from their committed offsets, or from where `StartPosition` says.

        During a rebalance nothing is done: each next owner awaits ``start_position``.
        """
        try:
            await self._reread()
        except Exception as error:
            self.crashed(error)

    async def _reread(self) -> None:
        async with self._rereading:
            app = self._app
            if app is None or app.rebalancing:
                return
            generation = app.consumer_generation_id = -next(self._assignments)
            self._consumer.hold()
            await self.drain()

            def is_rebalanced() -> bool:
                return app.rebalancing or app.consumer_generation_id != generation

            if not is_rebalanced():
                await self._consumer.perform_seek()
            if not is_rebalanced():
                self.dispatcher.resume()
                self._consumer.resume_flow()

    def _revoked(self, topic: str, partition: int) -> None:
        self._spawn(self._reread_soon())

    async def _reread_soon(self) -> None:
        app = self._app
        generation = app.consumer_generation_id if app else None
        await asyncio.sleep(_REREAD_AFTER_S)
        if app is not None and app.consumer_generation_id == generation:
            await self.read_again()

    async def drain(self, grace_s: float | None = None) -> None:
        """Revoke the records taken, wait for those in work, commit what is done; ``grace_s`` bounds the wait."""
        grace = self.kafka.rebalance_timeout_ms / 1000 * _DRAIN_SHARE if grace_s is None else grace_s
        self._drained.clear()
        try:
            await self.dispatcher.revoke(grace)
        finally:
            self._drained.set()
        app = self._app
        if app is None or not app.started or app.crashed:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.kafka.session_timeout_ms / 1000):
                await self._consumer.force_commit()

    # ---- internals

    def _tp(self, topic: str, partition: int) -> TP:
        return TP(self._names[topic], partition)

    @property
    def _consumer(self) -> GroupConsumer:
        assert self._app is not None
        return cast("GroupConsumer", self._app.consumer)

    async def take(self, found: ConsumerRecord) -> None:
        """Hand a fetched record to the dispatcher, as soon as it has room."""
        record = as_record(self._logical[found.topic], found)
        await self.dispatcher.submit(record, barrier=self._options.barrier(record))

    def read_to(self, tp: TP, offset: int) -> None:
        """Note that all records of a partition before ``offset`` were taken."""
        self.dispatcher.pass_over(self._logical[tp.topic], tp.partition, offset)

    def _spawn(self, work: Coroutine[Any, Any, object]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def stop_all(consumers: Iterable[StageConsumer], deadline_s: float) -> None:
    """Stop several consumers concurrently, within one deadline in seconds."""
    await asyncio.gather(*(consumer.stop(deadline_s) for consumer in consumers))
