"""Connections to Redis that pack commands in C, and a pool that hands out those at rest at once.

redis-py parses replies with hiredis, but packs commands in Python.
"""

from collections.abc import Iterable
from typing import Any

import hiredis
from redis.asyncio import BlockingConnectionPool, Connection, SSLConnection, UnixDomainSocketConnection
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ConnectionError as ConnectionLost
from redis.exceptions import DataError

from eunoe.workers.stores.redis.connection import is_closed


class _PackedInC(AbstractConnection):
    def pack_command(self, *args: Any) -> list[bytes]:  # noqa: ANN401 - as in redis-py
        """The command in the protocol of Redis; raises ``DataError`` for a word of another type, as redis-py does.

        Words of a command's name (``CLIENT SETINFO``) are sent one by one, as Redis expects them.
        """
        name, *words = args
        names = name.split() if isinstance(name, str | bytes) else [name]
        try:
            return [hiredis.pack_command((*names, *words))]
        except TypeError as fault:
            raise DataError(str(fault)) from fault

    async def send_packed_command(self, command: bytes | str | Iterable[bytes], check_health: bool = True) -> None:
        """Send a packed command; a connection that closed raises ``ConnectionError``, with uvloop too.

        What the transport takes at once needs no timer, for which redis-py makes a task.
        """
        try:
            if check_health and self.is_connected:
                await self.check_health()  # type: ignore[no-untyped-call]
            writer = self._writer
            if writer is None or isinstance(command, str) or writer.transport.get_write_buffer_size():
                await super().send_packed_command(command, check_health)
            else:
                writer.writelines([command] if isinstance(command, bytes) else command)
        except RuntimeError as fault:
            if not is_closed(fault):
                raise
            await self.disconnect(nowait=True)
            raise ConnectionLost("connection closed during a request") from fault


class QuickPool(BlockingConnectionPool):
    """A pool that hands out a connection at rest, and takes it back, without a lock and a timer, where nobody waits.

    That of redis-py does so with both and a dozen calls for its metrics, a fifth of a round trip.
    It tells credential providers of connections that come back, of which there are none here.
    """

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - as in redis-py
        super().__init__(**options)
        self._callers = 0
        """The number of callers that wait for a connection, or for it to connect."""

    async def get_connection(self, *names: Any, **options: Any) -> AbstractConnection:  # noqa: ANN401 - as in redis-py
        """A connection that is ready; waits for one, and raises redis-py's ``ConnectionError`` where none comes."""
        if self._available_connections and not self._callers:
            connection: AbstractConnection = self.get_available_connection()  # type: ignore[no-untyped-call]
            is_ready = False
            try:
                is_ready = await _is_ready(connection)
            finally:
                if not is_ready:  # also who is cancelled here gives it back: the pool has no other
                    await self.release(connection)
            if is_ready:
                return connection
        self._callers += 1
        try:
            found: AbstractConnection = await super().get_connection(*names, **options)  # type: ignore[no-untyped-call]
            return found
        finally:
            self._callers -= 1

    async def release(self, connection: AbstractConnection) -> None:
        """Take a connection back."""
        if self._callers or connection.should_reconnect():  # type: ignore[no-untyped-call]
            await super().release(connection)
            return
        self._in_use_connections.remove(connection)
        self._available_connections.append(connection)


async def _is_ready(connection: AbstractConnection) -> bool:
    """Whether a connection can be used as it is: it is open, and nothing came while it was at rest."""
    try:
        return connection.is_connected and not await connection.can_read()
    except (ConnectionLost, OSError):
        return False


class TcpConnection(_PackedInC, Connection):
    """A connection to a host and port."""


class TlsConnection(_PackedInC, SSLConnection):
    """A connection to a host and port with TLS."""


class SocketConnection(_PackedInC, UnixDomainSocketConnection):
    """A connection to a socket of this machine."""
