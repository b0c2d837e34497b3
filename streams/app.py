"""One stage's consumer group, on Faust. The only file that knows Faust.

Faust joins the group and fetches. What is fetched goes straight to the dispatcher: no record waits in Faust's queues
when its partition is lost, and none costs the two tasks that Faust makes of each. Faust acks nothing: what may be
committed is said by the gates of the dispatcher alone, because the account that Faust keeps can run past unfinished
work and forgets, when a rebalance begins, what was acked since the last commit.
"""

import asyncio
import contextlib
import itertools
import logging
import warnings
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, cast

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import aiokafka
    import faust
    from aiokafka.coordinator.assignors.roundrobin import (
        RoundRobinPartitionAssignor,
    )
    from aiokafka.errors import ConsumerStoppedError, IllegalStateError, KafkaError
    from faust.app.base import BootStrategy
    from faust.transport.consumer import RecordMap, ensure_TP
    from faust.transport.drivers import aiokafka as driver
    from faust.types import TP, TransportT
    from mode import ServiceT

from eunoe.schemas.errors import Unavailable
from eunoe.streams.consumer import as_record
from eunoe.streams.dispatcher import BeforeAck, Crowded, Dispatcher, DispatchLimits, Place, RunHandler
from eunoe.streams.holes import consumer_class
from eunoe.streams.kafka import KafkaSettings, client_options
from eunoe.streams.pace import Pace
from eunoe.streams.quiet import quiet_libraries
from eunoe.streams.record import Record
from eunoe.streams.topics import TopicNames

log = logging.getLogger(__name__)

StartPosition = Callable[[str, int, int], Awaitable[int | None]]
"""Asked for each partition before its first record, with topic, partition and the offset to start from: an earlier
offset to go back to, or None. It may be asked again for the same assignment."""

_POLL_S = 1.0
_BREATH = 50
_REREAD_AFTER_S = 1.0
_DRAIN_SHARE = 0.5
_NEVER_MS = 2**31 - 1


class _ConsumerThread(driver.AIOKafkaConsumerThread):
    """Faust's consumer thread, with our connection settings and without its fixed fetch wait of 1.5 s."""

    logger = logging.getLogger("faust.consumer.thread")

    def _create_worker_consumer(self, transport: driver.Transport) -> aiokafka.AIOKafkaConsumer:
        kafka = cast("_App", self.app).owner.kafka
        self._assignor = RoundRobinPartitionAssignor
        return consumer_class(dense=kafka.dense)(
            **client_options(kafka),
            group_id=self.app.conf.id,
            partition_assignment_strategy=[RoundRobinPartitionAssignor],
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            max_poll_records=kafka.max_poll_records,
            max_partition_fetch_bytes=max(kafka.max_request_bytes, 1 << 20),
            fetch_max_wait_ms=kafka.fetch_wait_ms,
            session_timeout_ms=kafka.session_timeout_ms,
            rebalance_timeout_ms=kafka.rebalance_timeout_ms,
            heartbeat_interval_ms=kafka.heartbeat_interval_ms,
            # a stage that waits for a slow model takes nothing for long: whether it is stuck is told by its progress
            max_poll_interval_ms=_NEVER_MS,
        )

    async def on_start(self) -> None:
        """Connect; keep the pace that the owner wants."""
        await super().on_start()
        cast("_App", self.app).owner.pace.keep(self._ensure_consumer())

    async def _commit(self, offsets: Mapping[TP, int]) -> bool:
        held = self.assignment()
        mine = {tp: offset for tp, offset in offsets.items() if tp in held}
        return await super()._commit(mine) if mine else False

    def progress(self, tp: TP) -> tuple[int | None, int | None]:
        """The next offset to fetch and the end of the partition, as the last fetch knew it; None: not known yet."""
        assignment = self._ensure_consumer()._subscription.subscription.assignment  # noqa: SLF001
        state = assignment.state_value(tp) if assignment else None
        if state is None or not state.has_valid_position:
            return None, None
        return state.position, state.highwater

    async def on_thread_stop(self) -> None:
        """Leave the group and disconnect."""
        coordinator = getattr(self._consumer, "_coordinator", None)
        if coordinator is not None and getattr(coordinator, "generation", None) == 0:
            # the embedded broker counts generations from 0, which aiokafka takes for "not a member": it would not leave
            coordinator.generation = 1
        await super().on_thread_stop()

    def _start_thread(self) -> None:
        # the crash was told to the app already; raised here it would only be printed
        with contextlib.suppress(Exception):
            super()._start_thread()

    def on_crash(self, msg: str, *fmt: object, **kwargs: object) -> None:
        """Log, where Faust would write to standard error."""
        self.logger.error(msg.format(*fmt))


class _Consumer(driver.Consumer):
    """Faust's consumer, with the dispatcher in place of its bookkeeping of acks."""

    logger = logging.getLogger("faust.consumer")

    def __post_init__(self) -> None:
        self._committing = asyncio.Lock()
        self._seeking = asyncio.Lock()
        self._committed: dict[TP, int] = {}
        self._fetched: dict[TP, int] = {}
        self._progress: dict[TP, tuple[int | None, int | None]] = {}
        self._starts: dict[TP, int] = {}
        self._astray = False

    @property
    def _owner(self) -> "StageApp":
        return cast("_App", self.app).owner

    @property
    def _worker(self) -> _ConsumerThread:
        return cast("_ConsumerThread", self._thread)

    def _new_consumer_thread(self) -> driver.AIOKafkaConsumerThread:
        return _ConsumerThread(self, loop=self.loop, beacon=self.beacon)

    # ---- rebalance

    def hold(self) -> None:
        """Hand out nothing more."""
        self.stop_flow()

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """Finish what is started and commit it while the partitions are still ours.

        Who had none may be given some: nothing is handed on before it is sought where to begin.
        """
        self.hold()
        if revoked:
            await self._owner.drain()
        self._fetched.clear()
        self._progress.clear()
        self._committed.clear()
        await super().on_partitions_revoked(revoked)

    async def on_partitions_assigned(self, assigned: set[TP], generation_id: int = 0) -> None:
        """Let the dispatcher take records again."""
        self._owner.dispatcher.resume()
        await super().on_partitions_assigned(assigned, generation_id)

    # ---- commits: the gates' word only

    async def force_commit(self, topics: object = None, start_new_transaction: bool = True) -> bool:
        """Commit what the gates let through since the last time."""
        async with self._committing:
            acked = self._owner.acked()
            return await self._commit_news({tp: offset + 1 for tp, offset in acked.items()})

    async def commit_exactly(self, offsets: Mapping[TP, int]) -> bool:
        """Commit these offsets, lower ones than before too."""
        async with self._committing:
            return await self._commit_news(offsets)

    async def _commit_news(self, offsets: Mapping[TP, int]) -> bool:
        news = {tp: offset for tp, offset in offsets.items() if self._committed.get(tp) != offset}
        if not news or not await self._commit(news):
            return not news
        self._committed.update(news)
        return True

    # ---- where to read

    async def perform_seek(self) -> None:
        """Go to the committed offsets, or where the owner wants to start.

        Faust's own does not move a partition that has no commit, or one at 0: what was fetched while the flow
        was stopped would be lost.
        """
        async with self._seeking:
            committed = {ensure_TP(tp): offset for tp, offset in (await self.seek_to_committed()).items()}
            earliest = {ensure_TP(tp): at for tp, at in (await self.earliest_offsets(*committed)).items()}
            starts = {tp: await self._owner.start_of(tp, max(at or 0, earliest[tp])) for tp, at in committed.items()}
            await self.seek_wait(starts)
            self._starts = starts
            self._committed = {tp: at for tp, at in committed.items() if at is not None}
            self._fetched.clear()
            self._astray = False

    async def _drain_messages(self, fetcher: ServiceT) -> None:
        """Hand what is fetched straight to the dispatcher, for as long as the fetcher lives."""
        try:
            while not (self.should_stop or fetcher.should_stop):
                await self._hand_on(*await self._wait_next_records(_POLL_S))
        except (ConsumerStoppedError, asyncio.CancelledError):
            if not self.app.should_stop:
                raise

    async def _hand_on(self, fetched: RecordMap | None, active: set[TP] | None) -> None:
        """Hand on one poll's records; those of a rebalance that is over, or has begun, come again after its seek."""
        if self.should_stop:
            return
        if self._astray or not self.flow_active:
            await self._go_back()
            return
        generation = self.app.consumer_generation_id
        for number, (tp, found) in enumerate(self.scheduler.iterate(fetched or {}), 1):
            if not self.flow_active or self.app.consumer_generation_id != generation:
                return
            if active is None or tp in active:
                await self._owner.take(found)
            if not number % _BREATH:
                await asyncio.sleep(0)

    async def _go_back(self) -> None:
        """Have what was fetched while the flow was stopped again: it may have come after the seek of the rebalance."""
        try:
            await self.perform_seek()
        except Exception as error:
            if not (self.app.rebalancing or isinstance(error, IllegalStateError)):
                raise
            # the seek of the rebalance may have been before this
            self._astray = True
            log.info("the partitions move, and are sought when they are ours again: %r", error)

    async def _getmany(self, active_partitions: set[TP] | None, timeout: float) -> RecordMap:
        records = await super()._getmany(active_partitions, timeout)
        self._fetched.update({ensure_TP(tp): batch[-1].offset for tp, batch in records.items() if batch})
        self._progress = {tp: self._worker.progress(tp) for tp in self.assignment()}
        return records

    def begun_at(self, tp: TP) -> int | None:
        """Where reading began after the last rebalance; None: not sought yet."""
        return self._starts.get(tp)

    def caught_up(self, tp: TP, last_taken: int | None) -> bool:
        """True: the partition was read to its end, and all that was read was taken."""
        position, end = self._progress.get(tp, (None, None))
        if position is None or end is None or position < end:
            return False
        fetched = self._fetched.get(tp)
        return fetched is None or (last_taken is not None and last_taken >= fetched)


class _Transport(driver.Transport):
    Consumer = _Consumer


class _Boot(BootStrategy):
    enable_web = False
    enable_kafka_producer = False


class _App(faust.App):
    """A Faust app that reports its crash and leaves the file system alone."""

    logger = logging.getLogger("faust.app")
    BootStrategy = _Boot
    owner: "StageApp"

    def _new_transport(self) -> TransportT:
        return _Transport(self.conf.broker_consumer, self)

    def _create_directories(self) -> None:
        """Nothing: there are no tables to keep."""

    def _crash(self, reason: BaseException) -> None:
        super()._crash(reason)
        self.owner.crashed(reason)


def _settings(kafka: KafkaSettings) -> dict[str, Any]:
    return {
        "broker": "kafka://" + ";".join(kafka.servers),
        "broker_commit_interval": kafka.commit_interval_ms / 1000,
        "broker_request_timeout": kafka.request_timeout_ms / 1000,
        "broker_session_timeout": kafka.session_timeout_ms / 1000,
        "broker_rebalance_timeout": kafka.rebalance_timeout_ms / 1000,
        "broker_max_poll_records": kafka.max_poll_records,
        "table_standby_replicas": 0,
        "topic_disable_leader": True,
        "topic_allow_declare": False,
        "web_enabled": False,
        "key_serializer": "raw",
        "value_serializer": "raw",
    }


class StageApp:
    """Consumes the topics of a stage as a member of its group and runs ``handle`` on the records.

    Several live in one process and one event loop. A record is committed when it and all earlier ones of its partition
    are done. What a handler raises (beside `GiveWay`) ends the app: see `failure`.
    """

    def __init__(  # noqa: PLR0913 - the one place where a stage is put together
        self,
        stage: str,
        topics: Sequence[str],
        kafka: KafkaSettings,
        names: TopicNames,
        handle: RunHandler,
        *,
        before_ack: BeforeAck | None = None,
        start_position: StartPosition | None = None,
        barrier: Callable[[Record], bool] | None = None,
        slots: int = 256,
        run: int = 1,
        crowded: Crowded = lambda: False,
        late_s: Callable[[], float] = lambda: 0.0,
        hurried: bool = True,
    ) -> None:
        """``barrier`` says which records wait for all earlier ones of their partition and hold back the later ones.

        ``slots``: keys in work at once, fewer while ``crowded`` says so; ``run``: waiting records of one key that
        ``handle`` is given at once, all of which a rebalance waits for.
        ``late_s`` (how late the event loop comes, in seconds) and ``hurried`` (somebody waits for what is consumed)
        set the pace where the broker cannot wait: see `eunoe.streams.pace`.
        """
        self.kafka = kafka
        self.stage = stage
        self._group = names.group(stage)
        self._logical = {names.name(topic): topic for topic in topics}
        self._names = {topic: name for name, topic in self._logical.items()}
        self._start_position = start_position
        self._barrier = barrier or (lambda _record: False)
        limits = DispatchLimits(slots=slots, run=run, queued=4 * slots)
        self.dispatcher = Dispatcher(
            handle, lambda *_place: None, before_ack=before_ack, gave_way=self._gave_way, crowded=crowded, limits=limits
        )
        self.pace = Pace(kafka.fetch_rest_ms / 1000, late_s, hurried=hurried)
        self._app: _App | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._crash = asyncio.Event()
        self._reason: BaseException | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._rereading = asyncio.Lock()
        self._terms = itertools.count(1)

    # ---- life

    async def start(self) -> None:
        """Join the group and begin; returns when it is a member. Raises `Unavailable` when no broker answers."""
        quiet_libraries()
        self._loop = asyncio.get_running_loop()
        self._app = self._build()
        seconds = (self.kafka.rebalance_timeout_ms + self.kafka.session_timeout_ms) / 1000
        try:
            async with asyncio.timeout(seconds + self.kafka.request_timeout_ms / 1000):
                await self._app.start()
        except (KafkaError, OSError, TimeoutError) as error:
            await self.stop(5.0)
            raise Unavailable(
                f"stage {self.stage}: no group membership from {self.kafka.bootstrap}: {error!r}"
            ) from error
        if self._reason is not None:
            await self.stop(5.0)
            raise Unavailable(f"stage {self.stage}: crashed while starting: {self._reason!r}") from self._reason
        self._spawn(self._watch())

    def _build(self) -> _App:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            app = _App(self._group, **_settings(self.kafka))
            app.owner = self
            # what is subscribed to: nothing is ever put into this channel
            app.topics.add(app.topic(*self._logical, key_type=bytes, value_type=bytes, acks=False, allow_empty=True))
            app.finalize()
        return app

    async def stop(self, deadline_s: float = 30.0) -> None:
        """Finish what is started, commit it, leave the group: all of it within ``deadline_s``, else loudly give up."""
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
                await self.drain(deadline_s * _DRAIN_SHARE)
                await app.stop()
        except TimeoutError:
            log.critical("stage %s did not stop within %.0f s; end the process", self.stage, deadline_s)
        self._app = None

    async def failure(self) -> BaseException:
        """Wait until the app has crashed, and say why: `Unavailable` where the brokers are the reason."""
        await self._crash.wait()
        assert self._reason is not None
        if isinstance(self._reason, KafkaError):
            fault = Unavailable(f"stage {self.stage}: {self.kafka.server}: {self._reason!r}", self.kafka.server)
            fault.__cause__ = self._reason
            return fault
        return self._reason

    def crashed(self, reason: BaseException) -> None:
        """Note why the app cannot go on; the first reason counts. May be called from any thread."""
        self._reason = self._reason or reason
        if self._loop and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._crash.set)

    async def _watch(self) -> None:
        self.crashed(await self.dispatcher.failed())

    # ---- what is assigned, and how far it is

    def assigned(self) -> set[Place]:
        """The partitions that are ours now."""
        app = self._app
        if app is None or not app.started or app.rebalancing:
            return set()
        return {(self._logical[tp.topic], tp.partition) for tp in self._consumer.assignment()}

    @property
    def rebalancing(self) -> bool:
        """True: partitions are being shared out anew (at the start, too)."""
        return self._app is None or not self._app.started or self._app.rebalancing

    def handled(self) -> dict[Place, int]:
        """By partition that is ours: the first offset that is not done, or behind one that is not."""
        acked = self.dispatcher.acked()
        begun = {place: self._consumer.begun_at(TP(self._names[place[0]], place[1])) for place in self.assigned()}
        return {place: acked.get(place, at - 1) + 1 for place, at in begun.items() if at is not None}

    def caught_up(self, topic: str, partition: int) -> bool:
        """True: ours, read to its end, and every record of it handled."""
        if (topic, partition) not in self.assigned() or self.dispatcher.outstanding(topic, partition):
            return False
        last = self.dispatcher.last_taken(topic, partition)
        return self._consumer.caught_up(TP(self._names[topic], partition), last)

    def acked(self) -> dict[TP, int]:
        """The newest offset that may be committed, by partition."""
        return {TP(self._names[topic], number): offset for (topic, number), offset in self.dispatcher.acked().items()}

    async def start_of(self, tp: TP, offset: int) -> int:
        """Where to begin to read a partition: ``offset``, or before it where the owner wants so."""
        if self._start_position is None:
            return offset
        wanted = await self._start_position(self._logical[tp.topic], tp.partition, offset)
        if wanted is None or wanted >= offset:
            return offset
        log.warning("stage %s reads %s/%d again from %d (was %d)", self.stage, tp.topic, tp.partition, wanted, offset)
        return max(wanted, 0)

    # ---- reading anew

    async def rewind(self, topic: str, partition: int, offset: int) -> bool:
        """Read a partition again from ``offset`` on, and commit that; all else goes on where it was.

        Returns False, with nothing done, when the partition is not ours or a rebalance is under way: then the
        next owner asks ``start_position``.
        """
        return await self._reread({TP(self._names[topic], partition): offset})

    async def _reread(self, offsets: Mapping[TP, int]) -> bool:
        async with self._rereading:
            app = self._app
            if app is None or app.rebalancing or not set(offsets) <= self._consumer.assignment():
                return False
            generation = app.consumer_generation_id = -next(self._terms)
            self._consumer.hold()
            await self.drain()
            # a commit by the clock, before we have sought, would put back what is committed now
            self.dispatcher.forget_acks()

            def disturbed() -> bool:
                return app.rebalancing or app.consumer_generation_id != generation

            done = not disturbed() and await self._consumer.commit_exactly(offsets)
            if not disturbed():
                await self._consumer.perform_seek()
            if disturbed():
                return False
            self.dispatcher.resume()
            self._consumer.resume_flow()
            return done

    def _gave_way(self, topic: str, partition: int) -> None:
        self._spawn(self._reread_soon())

    async def _reread_soon(self) -> None:
        app = self._app
        generation = app.consumer_generation_id if app else None
        await asyncio.sleep(_REREAD_AFTER_S)
        if app is not None and app.consumer_generation_id == generation:
            await self._reread({})

    async def drain(self, grace_s: float | None = None) -> None:
        """Revoke what is taken, wait for what is started, commit what is done."""
        grace = self.kafka.rebalance_timeout_ms / 1000 * _DRAIN_SHARE if grace_s is None else grace_s
        await self.dispatcher.revoke(grace)
        app = self._app
        if app is None or not app.started or app.crashed:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.kafka.session_timeout_ms / 1000):
                await self._consumer.force_commit()

    # ---- inside

    @property
    def _consumer(self) -> _Consumer:
        assert self._app is not None
        return cast("_Consumer", self._app.consumer)

    async def take(self, found: aiokafka.ConsumerRecord) -> None:
        """Hand a fetched record to the dispatcher, as soon as it has room."""
        record = as_record(self._logical[found.topic], found)
        await self.dispatcher.submit(record, barrier=self._barrier(record))

    def _spawn(self, work: Coroutine[Any, Any, object]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def stop_all(apps: Iterable[StageApp], deadline_s: float) -> None:
    """Stop several apps side by side within one deadline."""
    await asyncio.gather(*(app.stop(deadline_s) for app in apps))
