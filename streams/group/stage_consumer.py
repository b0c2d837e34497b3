"""One stage's consumer: membership in its group, keyed dispatch, and reading anew.

What may be committed is said by the gates of the dispatcher alone.
"""

import asyncio
import contextlib
import itertools
import logging
import warnings
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from aiokafka import ConsumerRecord
from aiokafka.errors import KafkaError

from eunoe.schemas.errors import Unavailable
from eunoe.streams.broker_adapter import ConsumerLoad
from eunoe.streams.group.dispatcher import BatchHandler, Dispatcher, DispatchLimits, Overloaded
from eunoe.streams.group.faust_group import TP, GroupApp, GroupConsumer, group_settings
from eunoe.streams.group.log_throttle import quiet_libraries
from eunoe.streams.group.partition import BeforeAck, Place
from eunoe.streams.plain_consumer import as_record
from eunoe.streams.record import Record
from eunoe.streams.settings import KafkaSettings
from eunoe.streams.topics import TopicNames

log = logging.getLogger(__name__)

StartPosition = Callable[[str, int, int], Awaitable[int | None]]
"""Asked for each partition before its first record, with topic, partition and the offset to start from: an earlier
offset to go back to, or None. It may be asked again for the same assignment."""

_REREAD_AFTER_S = 1.0
_DRAIN_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class StageOptions:
    """How a stage consumes."""

    before_ack: BeforeAck | None = None
    start_position: StartPosition | None = None
    barrier: Callable[[Record], bool] = lambda _record: False
    """Which records wait for all earlier ones of their partition, and hold back the later ones."""
    concurrency: int = 256
    """Keys in work at once; fewer while ``crowded`` says so."""
    batch: int = 1
    """Waiting records of one key that the handler is given at once: a rebalance waits for all of them."""
    overloaded: Overloaded = lambda: False
    loop_lag_s: Callable[[], float] = lambda: 0.0
    """Current lag of the event loop, in seconds. The adapter of the broker may pace fetches by it."""
    interactive: bool = True
    """Whether somebody waits for the outcome of the records."""


_PLAIN = StageOptions()


class StageConsumer:
    """Consumes the topics of a stage as a member of its group and runs ``handle`` on the records.

    Several live in one process and one event loop. A record is committed when it and all earlier ones of its partition
    are done. What a handler raises (beside `GiveWay`) ends the app: see `failure`.
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
            lambda *_place: None,
            before_ack=options.before_ack,
            on_revoked=self._revoked,
            overloaded=options.overloaded,
            limits=DispatchLimits(concurrency=options.concurrency, batch=options.batch, queued=4 * options.concurrency),
        )
        self.load = ConsumerLoad(options.loop_lag_s, interactive=options.interactive)
        self._app: GroupApp | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._crash = asyncio.Event()
        self._reason: BaseException | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._rereading = asyncio.Lock()
        self._assignments = itertools.count(1)

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

    def _build(self) -> GroupApp:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            app = GroupApp(self._group, **group_settings(self.kafka))
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

    def notify(self) -> None:
        """Report new records of the topics, from a publisher of this process. May be called from any thread."""
        app = self._app
        if app is not None and app.started:
            self._consumer.notify()

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
        start_position = self._options.start_position
        if start_position is None:
            return offset
        wanted = await start_position(self._logical[tp.topic], tp.partition, offset)
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
            generation = app.consumer_generation_id = -next(self._assignments)
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

    def _revoked(self, topic: str, partition: int) -> None:
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
    def _consumer(self) -> GroupConsumer:
        assert self._app is not None
        return cast("GroupConsumer", self._app.consumer)

    async def take(self, found: ConsumerRecord) -> None:
        """Hand a fetched record to the dispatcher, as soon as it has room."""
        record = as_record(self._logical[found.topic], found)
        await self.dispatcher.submit(record, barrier=self._options.barrier(record))

    def _spawn(self, work: Coroutine[Any, Any, object]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def stop_all(apps: Iterable[StageConsumer], deadline_s: float) -> None:
    """Stop several apps side by side within one deadline."""
    await asyncio.gather(*(app.stop(deadline_s) for app in apps))
