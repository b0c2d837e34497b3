"""Pipelines commands of many callers: those that arrive while the server is busy share a round trip."""

import asyncio
import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from redis import exceptions as faults
from redis.asyncio import Redis
from redis.asyncio.connection import AbstractConnection

CommandArgs = tuple[str | int | bytes, ...]
"""A command of Redis: its name and its arguments."""

MAX_BATCH = 256
"""Commands in one round trip."""
MAX_ROUND_TRIPS = 2
"""Concurrent round trips; commands that come meanwhile wait for the next one."""


@dataclass(slots=True)
class CommandPipeline:
    """Sends commands in pipelines; a fault of one command concerns its caller only.

    Hundreds of conversations send a few small commands each; a connection, a write and a read for each would cost
    more than the commands. Commands that a caller awaits one after the other keep their order.
    """

    client: Redis
    _waiting: list[tuple[CommandArgs, "asyncio.Future[Any]"]] = field(default_factory=list)
    _sending: set["asyncio.Task[None]"] = field(default_factory=set)
    _planned: bool = False

    async def command(self, words: CommandArgs) -> Any:  # noqa: ANN401 - each command has its own reply
        """The reply to a command; raises its fault, or that of the connection."""
        loop = asyncio.get_running_loop()
        reply: asyncio.Future[Any] = loop.create_future()
        self._waiting.append((words, reply))
        if not self._planned and len(self._sending) < MAX_ROUND_TRIPS:
            self._planned = True
            loop.call_soon(self._start)  # after all callers that are ready now
        return await reply

    def _start(self) -> None:
        self._planned = False
        batch, self._waiting = self._waiting[:MAX_BATCH], self._waiting[MAX_BATCH:]
        if not batch:
            return
        task = asyncio.ensure_future(self._send(batch))
        self._sending.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._sending.discard(task)
        if self._waiting and not self._planned:
            self._start()

    async def _send(self, batch: list[tuple[CommandArgs, "asyncio.Future[Any]"]]) -> None:
        wanted = [(words, reply) for words, reply in batch if not reply.done()]
        with passing_on_faults(reply for _, reply in wanted):
            replies = await self._ask([words for words, _ in wanted])
            for (_, reply), found in zip(wanted, replies, strict=True):
                if isinstance(found, Exception):
                    _fail(reply, found)
                elif not reply.done():
                    reply.set_result(found)

    async def _ask(self, commands: list[CommandArgs]) -> list[Any]:
        """The replies to commands, faults of the server among them; raises those of the connection."""
        if not commands:
            return []
        pool = self.client.connection_pool
        connection = await pool.get_connection()  # type: ignore[no-untyped-call]
        try:
            found: list[Any] = await connection.retry.call_with_retry(
                lambda: self._exchange(connection, commands), lambda _: connection.disconnect()
            )
            return found
        finally:
            await pool.release(connection)

    async def _exchange(self, connection: AbstractConnection, commands: list[CommandArgs]) -> list[Any]:
        """One write and the replies to it; redis-py's own pipeline would make a timer and three calls for each."""
        await connection.send_packed_command([part for words in commands for part in connection.pack_command(*words)])
        loop, limit_s = asyncio.get_running_loop(), connection.socket_timeout
        found = []
        try:
            async with asyncio.timeout(limit_s) as bound:
                for words in commands:
                    found.append(await self._reply(connection, str(words[0])))
                    if limit_s is not None:
                        bound.reschedule(loop.time() + limit_s)
        except TimeoutError:
            raise faults.TimeoutError(f"no reply in {limit_s:g} s") from None
        return found

    async def _reply(self, connection: AbstractConnection, name: str) -> Any:  # noqa: ANN401 - as above
        """The next reply, as redis-py gives that of a command of this name; a fault of the server is returned."""
        try:
            reply = await connection.read_response(timeout=math.inf)
        except faults.ResponseError as fault:
            return fault
        read = self.client.response_callbacks.get(name)
        return reply if read is None else read(reply)


@contextmanager
def passing_on_faults(replies: Iterable["asyncio.Future[Any]"]) -> Iterator[None]:
    """Hand a fault of the body to all who await these replies still; a cancellation cancels them, and is raised."""
    try:
        yield
    except BaseException as fault:
        for reply in replies:
            _fail(reply, fault)
        if not isinstance(fault, Exception):
            raise


def _fail(reply: "asyncio.Future[Any]", fault: BaseException) -> None:
    if reply.done():
        return
    if isinstance(fault, asyncio.CancelledError):
        reply.cancel()
    else:
        reply.set_exception(fault)
