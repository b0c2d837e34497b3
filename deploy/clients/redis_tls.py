"""Finds out whether a Redis that does not answer speaks TLS where its address says otherwise.

redis-py tells neither: a port with TLS closes the connection, a port without waits for the end of a line.
"""

import asyncio
import ssl

from eunoe.deploy.clients.redis_url import SETTING, RedisUrl

LIMIT_S = 3.0
"""Seconds for each of the two questions."""


async def wrong_scheme(url: RedisUrl) -> str | None:
    """The change that the address of silent servers needs; `None` where its scheme fits, or nobody listens."""
    for host, port in url.nodes:
        if url.tls and await _answers_plainly(host, port):
            return f"Redis at {host}:{port} speaks no TLS: use redis{_kind(url)}:// in {SETTING}, or the port with TLS"
        if not url.tls and await _shakes_hands(host, port):
            return f"Redis at {host}:{port} asks for TLS: use rediss{_kind(url)}:// in {SETTING}"
    return None


def _kind(url: RedisUrl) -> str:
    return "" if url.kind.value == "one" else f"+{url.kind.value}"


async def _shakes_hands(host: str, port: int) -> bool:
    """Whether a server completes a TLS handshake; its certificate is not looked at, and nothing is sent."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        async with asyncio.timeout(LIMIT_S):
            _, writer = await asyncio.open_connection(host, port, ssl=context)
    except (OSError, TimeoutError):
        return False
    writer.transport.abort()
    return True


async def _answers_plainly(host: str, port: int) -> bool:
    """Whether a server answers PING as a Redis without TLS does, be it with an error."""
    try:
        async with asyncio.timeout(LIMIT_S):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(b"PING\r\n")
                return (await reader.read(1)) in (b"+", b"-")
            finally:
                writer.transport.abort()
    except (OSError, TimeoutError):
        return False
