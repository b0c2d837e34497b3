"""The producer of a publisher: started and stopped within a time, and replaced after a batch that failed for good."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaConnectionError, KafkaError, ProducerClosed, UnknownError

from eunoe.schemas.errors import EunoeError, Unavailable
from eunoe.streams.access import why_denied, why_unavailable
from eunoe.streams.cancelling import cancelled
from eunoe.streams.settings import KafkaSettings, client_options

log = logging.getLogger(__name__)

BATCH_BYTES: Final = 131_072
"""Bytes of one batch: aiokafka's default of 16 kB holds three records of a session, and each batch is a round trip."""
CLOSE_SECONDS: Final = 5.0
"""Longest wait for the connections to close once nothing is sent any more."""
STOP_SECONDS: Final = 1.0
"""Longest wait, at the stop of a publisher, for what is buffered: whoever waits for it gives up, or is cancelled."""
_IDEMPOTENCE_HINT = "; a broker without idempotent producers needs EUNOE_BROKER__IDEMPOTENT=false"


class KafkaProducer(AIOKafkaProducer):  # type: ignore[misc] # aiokafka has no types
    """A producer that knows its requests under way: aiokafka's own waits for all of them, however long they take."""

    def __init__(self, **options: object) -> None:
        super().__init__(**options)
        self.requests: set[asyncio.Task[None]] = set()
        send = self._sender._send_produce_req  # noqa: SLF001
        self._sender._send_produce_req = partial(self._noted, send)  # noqa: SLF001

    async def _noted(self, request: Callable[..., Awaitable[None]], *arguments: object) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.requests.add(task)
        try:
            await request(*arguments)
        finally:
            self.requests.discard(task)

    @property
    def sending(self) -> "asyncio.Task[None] | None":
        """The task that sends batches; `None` before the start."""
        found: asyncio.Task[None] | None = self._sender.sender_task
        return found

    async def end_sending(self) -> None:
        """Cancel all that is under way."""
        while left := [task for task in (self.sending, *self.requests) if task is not None and not task.done()]:
            for task in left:
                task.cancel()
            await asyncio.wait(left, timeout=1.0)

    def fail_batches(self) -> None:
        """Fail what was not acknowledged with `ProducerClosed`."""
        waiting: Any = self._message_accumulator
        unsent = [batch for batches in waiting._batches.values() for batch in batches]  # noqa: SLF001
        waiting._pending_batches.update(unsent)  # noqa: SLF001 - where aiokafka looks for one that waits to be repeated
        waiting.fail_all(ProducerClosed())
        for batch in unsent:
            batch._drain_waiter.exception()  # noqa: SLF001 - retrieved: mostly nobody waits for it


async def open_producer(kafka: KafkaSettings) -> KafkaProducer:
    """A started producer; all in-sync replicas acknowledge what it sends.

    Raises `Unavailable` when no broker answers, or none gives a producer id. It takes at most the request timeout once
    for each bootstrap server, which are tried one after the other, and once for the id.
    """
    producer = KafkaProducer(
        **client_options(kafka),
        acks="all",
        enable_idempotence=kafka.idempotent,
        linger_ms=kafka.linger_ms,
        max_batch_size=BATCH_BYTES,
        max_request_size=kafka.max_request_bytes,
    )
    starting = asyncio.create_task(producer.start())
    seconds = (len(kafka.servers) + 1) * kafka.request_timeout_ms / 1000
    try:
        # no asyncio.timeout: aiokafka asks for an id for ever, and may lose the one cancellation
        await asyncio.wait({starting}, timeout=seconds)
        if not starting.done():
            raise Unavailable(f"producer not started within {seconds:g} s: {kafka.server}", kafka.server)
        starting.result()
    except BaseException as error:
        try:
            with suppress(Exception):
                await cancelled(starting)
        finally:
            await close_producer(kafka, producer)
        if isinstance(error, KafkaError | OSError):
            raise await _why_not_started(kafka, error) from error
        raise
    return producer


async def _why_not_started(kafka: KafkaSettings, error: Exception) -> Unavailable:
    if isinstance(error, KafkaConnectionError):
        return await why_unavailable(kafka, error)
    if (denied := why_denied(kafka, error, "Write")) is not None:
        return denied
    hint = _IDEMPOTENCE_HINT if kafka.idempotent and isinstance(error, UnknownError) else ""
    return Unavailable(f"producer not started: {kafka.server}: {error!r}{hint}", kafka.server)


async def close_producer(kafka: KafkaSettings, producer: KafkaProducer) -> None:
    """Send what is buffered, for the request timeout at the longest, and disconnect.

    Nobody waits longer for a record; one that is idempotent would repeat it for as long as a broker hangs.
    """
    stopping = asyncio.create_task(producer.stop())
    try:
        await asyncio.wait({stopping}, timeout=kafka.request_timeout_ms / 1000)
    finally:
        if not stopping.done():
            # a task of its own: whoever is cancelled here may be cancelled again
            await asyncio.shield(asyncio.create_task(_abandon(kafka, producer, stopping)))
        elif not stopping.cancelled() and (fault := stopping.exception()):
            log.warning("%s: a producer was not closed properly: %r", kafka.server, fault)


async def _abandon(kafka: KafkaSettings, producer: KafkaProducer, stopping: "asyncio.Task[None]") -> None:
    await producer.end_sending()
    producer.fail_batches()
    log.warning("%s: does not take what is left to send, a producer is closed without it", kafka.server)
    # without anything to wait for it goes on by itself, unless the cancellation of the sending ended it
    await asyncio.wait({stopping}, timeout=CLOSE_SECONDS)
    with suppress(Exception):
        await cancelled(stopping)
    closing = asyncio.create_task(producer.client.close())
    await asyncio.wait({closing}, timeout=CLOSE_SECONDS)
    with suppress(Exception):
        await cancelled(closing)


class ReplacedProducer:
    """The producer in use.

    aiokafka numbers a batch also where that batch then fails for good, and never takes the number back: an idempotent
    producer gets OUT_OF_ORDER_SEQUENCE_NUMBER for all that it sends to that partition from then on. So a producer with
    such a batch is replaced by one with an id of its own. What others sent through it is sent, or raises.
    """

    def __init__(self, kafka: KafkaSettings) -> None:
        self._kafka = kafka
        self._in_use: KafkaProducer | None = None
        self._is_open = False
        self._opening: asyncio.Task[KafkaProducer] | None = None
        self._closing: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Connect; raises `Unavailable` as `open_producer` does."""
        self._in_use = await open_producer(self._kafka)
        self._is_open = True

    async def stop(self) -> None:
        """Send what is buffered, for a second at the longest, and disconnect; what is left raises in its senders."""
        self._is_open = False
        if self._opening is not None:
            with suppress(EunoeError):
                await cancelled(self._opening)
        if self._in_use is not None:
            self._retire(self._in_use)
        if self._closing:
            try:
                await asyncio.wait(self._closing, timeout=STOP_SECONDS)
            finally:
                await cancelled(*self._closing)

    async def current(self) -> KafkaProducer:
        """The producer for all messages of one call: a second one could send later messages before earlier ones.

        Raises `Unavailable` where it was to be replaced and no broker answers.
        """
        if self._in_use is not None:
            return self._in_use
        if not self._is_open:
            raise Unavailable("publisher not started")
        opening = self._opening
        if opening is None:
            opening = self._opening = asyncio.create_task(self._open())
            opening.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        # it goes on where this caller gives up: the first of the servers may be the one that is away
        await asyncio.wait({opening})
        if opening.cancelled():
            raise Unavailable("publisher stopped")
        return opening.result()

    async def send(self, producer: KafkaProducer, topic: str, **message: object) -> "asyncio.Future[Any]":
        """Buffer a message; the result is its place once all in-sync replicas have it."""
        sent: asyncio.Future[Any] = await producer.send(topic, **message)
        sent.add_done_callback(partial(self._sent, producer))
        return sent

    async def _open(self) -> KafkaProducer:
        try:
            self._in_use = await open_producer(self._kafka)
        finally:
            self._opening = None
        return self._in_use

    def _sent(self, producer: KafkaProducer, sent: "asyncio.Future[Any]") -> None:
        """Take note of the end of a message, which may come long after its caller has given up."""
        if sent.cancelled() or (fault := sent.exception()) is None or producer is not self._in_use:
            return
        if self._kafka.idempotent or producer.sending is None or producer.sending.done():
            log.warning("%s: a batch failed for good, a new producer takes over: %r", self._kafka.server, fault)
            self._retire(producer)

    def _retire(self, producer: KafkaProducer) -> None:
        self._in_use = None
        closing = asyncio.create_task(close_producer(self._kafka, producer))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)
