"""Connections to Redis that pack commands in C: redis-py parses replies with hiredis, but packs commands in Python."""

from collections.abc import Iterable
from typing import Any

import hiredis
from redis.asyncio import Connection, SSLConnection, UnixDomainSocketConnection
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ConnectionError as ConnectionLost
from redis.exceptions import DataError

from eunoe.workers.stores.connection import is_closed


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


class TcpConnection(_PackedInC, Connection):
    """A connection to a host and port."""


class TlsConnection(_PackedInC, SSLConnection):
    """A connection to a host and port with TLS."""


class SocketConnection(_PackedInC, UnixDomainSocketConnection):
    """A connection to a socket of this machine."""
