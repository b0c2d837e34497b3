"""Faust's consumer thread (fetches, commits, heartbeats) with our connection settings, and an orderly end."""

import asyncio
import contextlib
import functools
import logging
import warnings
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ParamSpec

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import aiokafka
    from aiokafka.coordinator.assignors.roundrobin import (
        RoundRobinPartitionAssignor,
    )
    from faust.transport.consumer import ensure_TPset
    from faust.transport.drivers import aiokafka as driver
    from faust.types import TP

from eunoe.streams.batches import install_reader
from eunoe.streams.broker_adapter import ConsumerLoad, Notify
from eunoe.streams.cancelling import cancelled
from eunoe.streams.settings import KafkaSettings, client_options

P = ParamSpec("P")
_NEVER_MS = 2**31 - 1
_LOOK_S = 1.0


def ending_quietly(fetch: Callable[P, Awaitable[bool]]) -> Callable[P, Awaitable[bool]]:
    """The fetch of a consumer, which ends without records also where it is cancelled in its pause after a fault.

    aiokafka waits for its cancelled fetches when it stops. Of a broker that is away, the first one would raise
    ``CancelledError`` there: the thread would end with a traceback, and its connections would stay open.
    """

    @functools.wraps(fetch)
    async def fetched(*args: P.args, **kwargs: P.kwargs) -> bool:
        try:
            return await fetch(*args, **kwargs)
        except asyncio.CancelledError:
            return False

    return fetched


class ConsumerThread(driver.AIOKafkaConsumerThread):
    """Faust's consumer thread, with our connection settings and without its fixed fetch wait of 1.5 s."""

    logger = logging.getLogger("faust.consumer.thread")

    def __init__(
        self,
        consumer: driver.Consumer,
        kafka: KafkaSettings,
        load: ConsumerLoad,
        report: Callable[[BaseException], None],
        **options: object,
    ) -> None:
        super().__init__(consumer, **options)
        self._kafka = kafka
        self._load = load
        self._report = report
        self._watching: asyncio.Task[None] | None = None
        self._notify: Notify | None = None
        self.is_stopping = False
        """Whether no commit is to be waited for that cannot be sent now. May be set from any thread."""
        self._assigned: tuple[object, set[TP]] = (None, set())

    def assignment(self) -> set[TP]:
        """The current assignment; not to be changed. It is asked for dozens of times a second, so it is made once."""
        given = self._ensure_consumer().assignment()
        known, assigned = self._assigned
        if given is not known:
            assigned = ensure_TPset(given)
            self._assigned = given, assigned
        return assigned

    def notify(self) -> None:
        """Report new records of the topics; nothing happens before the consumer is connected."""
        if self._notify is not None:
            self._notify()

    def _create_worker_consumer(self, transport: driver.Transport) -> aiokafka.AIOKafkaConsumer:
        kafka = self._kafka
        self._assignor = RoundRobinPartitionAssignor
        install_reader()
        return kafka.adapter.consumer_class(
            **client_options(kafka),
            group_id=self.app.conf.id,
            partition_assignment_strategy=[RoundRobinPartitionAssignor],
            enable_auto_commit=False,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            max_poll_records=kafka.max_poll_records,
            max_partition_fetch_bytes=_partition_bytes(kafka),
            fetch_max_wait_ms=kafka.fetch_wait_ms,
            session_timeout_ms=kafka.session_timeout_ms,
            rebalance_timeout_ms=kafka.rebalance_timeout_ms,
            heartbeat_interval_ms=kafka.heartbeat_interval_ms,
            # a stage may wait for a slow model for long; health checks find a stuck one by its progress
            max_poll_interval_ms=_NEVER_MS,
        )

    async def on_start(self) -> None:
        """Connect, and adapt the consumer to the broker."""
        await super().on_start()
        self._watching = asyncio.create_task(self.watch_membership())
        consumer = self._ensure_consumer()
        consumer._fetcher._proc_fetch_request = ending_quietly(consumer._fetcher._proc_fetch_request)  # noqa: SLF001
        self._notify = self._kafka.adapter.attach(consumer, self._load)

    async def watch_membership(self) -> None:
        """Report why the group cannot be joined: aiokafka tells it at a poll, and Faust polls once it has joined."""
        before: BaseException | None = None
        while not self.should_stop:
            await asyncio.sleep(_LOOK_S)
            coordinator: Any = self._consumer._coordinator if self._consumer is not None else None  # noqa: SLF001
            fault: BaseException | None = getattr(coordinator, "_pending_exception", None)
            if fault is not None and fault is before:
                self._report(fault)
                return
            before = fault

    @property
    def reaches_group(self) -> bool:
        """Whether the broker that takes the group's acknowledgements is known, and its connection stands."""
        coordinator: Any = self._consumer._coordinator if self._consumer is not None else None  # noqa: SLF001
        return getattr(coordinator, "coordinator_id", None) is not None

    async def _commit(self, offsets: Mapping[TP, int]) -> bool:
        held = self.assignment()
        mine = {tp: offset for tp, offset in offsets.items() if tp in held}
        if not mine:
            return False
        # aiokafka looks for the group's broker for ever, and whoever stops the consumer waits for each commit under way
        sending = asyncio.ensure_future(super()._commit(mine))
        try:
            while not sending.done() and (self.reaches_group or not self.is_stopping):
                await asyncio.wait({sending}, timeout=_LOOK_S)
            return sending.done() and sending.result()
        finally:
            await cancelled(sending)

    def progress(self, tp: TP) -> tuple[int | None, int | None]:
        """The next offset to fetch, and the end of the partition at the last fetch; `None` means not known yet."""
        assignment = self._ensure_consumer()._subscription.subscription.assignment  # noqa: SLF001
        state = assignment.state_value(tp) if assignment else None
        if state is None or not state.has_valid_position:
            return None, None
        return state.position, state.highwater

    def fetched_bytes(self) -> int:
        """The bytes of the batches that were fetched and are not all handed on. May be called from any thread."""
        consumer = self._consumer
        if consumer is None:
            return 0
        results = list(consumer._fetcher._records.values())  # noqa: SLF001
        fetched = [getattr(result, "_partition_records", None) for result in results]
        return sum(one._records.size_in_bytes() for one in fetched if one is not None)  # noqa: SLF001

    def max_fetched_bytes(self) -> int:
        """The most that they may be, for the partitions that are assigned now; one larger batch is always fetched."""
        return len(self.assignment()) * _partition_bytes(self._kafka)

    async def on_thread_stop(self) -> None:
        """Leave the group and disconnect."""
        if self._consumer is not None:
            self._kafka.adapter.before_leave(self._consumer)
        if self._watching is not None:
            self._watching.cancel()
        await super().on_thread_stop()

    def close(self) -> None:
        """Do nothing: the thread leaves the group and disconnects when it stops.

        Faust calls this when partitions move while the app stops, and would close the connections from the event loop
        of another thread. Event loops do not support that; uvloop may end the process with a segmentation fault.
        """

    def _start_thread(self) -> None:
        # the app knows of the crash already; raised here it would only be printed
        with contextlib.suppress(Exception):
            super()._start_thread()

    def on_crash(self, msg: str, *fmt: object, **kwargs: object) -> None:
        """Log the crash; Faust would write to standard error."""
        self.logger.error(msg.format(*fmt))


def _partition_bytes(kafka: KafkaSettings) -> int:
    """The bytes that are fetched of one partition before they are handed on."""
    return max(kafka.max_request_bytes, 1 << 20)
