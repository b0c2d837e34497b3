"""Heads of requests that are too large: the connection is refused before the parser copies them again and again."""

import asyncio
import json
import select
import socket
from contextlib import suppress

import pytest

from eunoe.deploy.gateway.http_protocol import MAX_HEAD, MAX_HEADERS
from eunoe.deploy.settings.sections import GatewaySettings
from tests.support.gateway import TestGateway, make_gateway
from tests.unit.deploy.gateway.test_gateway_connections import C, Raw

pytestmark = pytest.mark.timeout(60)

MEGABYTE = b"a" * (1 << 20)
LARGEST_SENT = 8
"""Megabytes at which an attack stops; what the system buffers of it is less."""
REFUSED = b"HTTP/1.1 431 "


@pytest.fixture
def gateway(tmp_path) -> TestGateway:
    return make_gateway(tmp_path, GatewaySettings(shutdown_seconds=3))


async def flood(raw: Raw, piece: bytes, times: int) -> int:
    """Send a piece again and again until the gateway closes; returns how often it was sent."""
    sent = 0
    with suppress(ConnectionError):
        for _ in range(times):
            raw.send(piece)
            await raw.writer.drain()
            sent += 1
    return sent


BEGINNINGS = {
    "a header": b"GET / HTTP/1.1\r\nX-A: ",
    "the name of a header": b"GET / HTTP/1.1\r\n",
    "the path": b"GET /",
}


@pytest.mark.parametrize("beginning", BEGINNINGS)
async def test_a_head_without_end_is_refused_soon(gateway, beginning):
    async with gateway.served() as client, Raw(client) as raw:
        raw.send(BEGINNINGS[beginning])
        assert await flood(raw, MEGABYTE, LARGEST_SENT) < LARGEST_SENT
        assert (await client.get("/v1/conversations")).status_code == 200


async def test_what_is_no_request_is_a_problem_document_too(gateway):
    async with gateway.served() as client:
        large = f"GET / HTTP/1.1\r\nX-A: {'a' * MAX_HEAD}\r\n\r\n".encode()
        for status, sent in ((400, b"hello\r\n\r\n"), (400, b"FOO / HTTP/1.1\r\n\r\n"), (431, large)):
            async with Raw(client) as raw:
                raw.send(sent)
                head, _, body = (await raw.rest()).partition(b"\r\n\r\n")
            lines = head.lower().split(b"\r\n")
            found = json.loads(body)
            assert lines[0].startswith(b"http/1.1 %d " % status)
            assert b"content-type: application/problem+json" in lines
            assert b"content-length: %d" % len(body) in lines
            assert f"x-request-id: {found['instance']}".encode() in lines
            assert found["status"] == status
            assert found["detail"]


async def test_trailers_without_end_are_refused_soon(gateway):
    async with gateway.served() as client, Raw(client) as raw:
        raw.send(b"POST /nowhere HTTP/1.1\r\nHost: gateway\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX-A: ")
        assert await flood(raw, MEGABYTE, LARGEST_SENT) < LARGEST_SENT


async def test_a_whole_head_over_the_limit_is_431(gateway):
    async with gateway.served() as client:
        for lines in (["X-A: " + "a" * MAX_HEAD], [f"X-{number}: a" for number in range(MAX_HEADERS + 1)]):
            async with Raw(client) as raw:
                raw.send(raw.head("GET", "/v1/conversations", *lines))
                assert (await raw.rest()).startswith(REFUSED)
        async with Raw(client) as raw:
            raw.send(raw.head("GET", "/v1/conversations?cursor=" + "a" * MAX_HEAD))
            assert (await raw.rest()).startswith(REFUSED)


async def test_a_client_that_sends_all_of_a_refused_head_gets_the_answer_and_no_reset(gateway):
    """As most clients do: they send, and then read; a reset would discard the answer that waits."""

    def asked(host: str, port: int) -> bytes:
        with socket.create_connection((host, port), timeout=20) as client:
            client.sendall(b"GET / HTTP/1.1\r\nX-A: " + b"a" * (2 * MAX_HEAD))
            select.select([client], [], [], 20)
            for _ in range(4):
                client.sendall(b"a" * MAX_HEAD)  # raises at a reset
            return client.recv(len(REFUSED))

    async with gateway.served() as client:
        url = client.base_url
        assert await asyncio.to_thread(asked, url.host, url.port) == REFUSED


async def test_heads_below_the_limit_are_counted_one_by_one_and_bodies_not_at_all(gateway):
    large = "X-A: " + "a" * (MAX_HEAD * 3 // 4)
    line = b'{"type":"utterance","conversation_id":"c","speaker":"Ann","text":"' + b"a" * 30_000 + b'"}\n'
    body = line * 100
    async with gateway.served() as client, Raw(client) as raw:
        for _ in range(3):
            raw.send(raw.head("GET", C, large))
            assert b" 404 " in await raw.reader.readuntil(b"\r\n\r\n")
            await asyncio.sleep(0.01)
        batch = raw.head(
            "POST", "/v1/events", large, "Content-Type: application/x-ndjson", f"Content-Length: {len(body)}"
        )
        raw.send(batch[:50_000])
        await asyncio.sleep(0.05)
        raw.send(batch[50_000:] + body)
        await raw.writer.drain()
        while b" 202 " not in await raw.reader.readuntil(b"\r\n\r\n"):  # the bodies of the answers before are read on
            pass
