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
        """Send a packed command; a connection that closed raises ``ConnectionError``, with uvloop too."""
        try:
            await super().send_packed_command(command, check_health)
        except RuntimeError as fault:
            if not is_closed(fault):
                raise
            raise ConnectionLost("connection closed during a request") from fault


class TcpConnection(_PackedInC, Connection):
    """A connection to a host and port."""


class TlsConnection(_PackedInC, SSLConnection):
    """A connection to a host and port with TLS."""


class SocketConnection(_PackedInC, UnixDomainSocketConnection):
    """A connection to a socket of this machine."""
