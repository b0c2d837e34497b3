"""Connections that send requests before their answers, and do not read these."""

import asyncio
import select
import socket

import pytest

from eunoe.deploy.gateway import app
from eunoe.deploy.gateway.http_protocol import MAX_WAITING
from eunoe.deploy.settings.sections import GatewaySettings
from tests.support.gateway import TestGateway, make_gateway
from tests.unit.deploy.gateway.test_gateway_connections import Raw

pytestmark = pytest.mark.timeout(60)

FIRST = b"HTTP/1.1 200 "
DOCUMENT = "/v1/openapi.json"
"""Needs no key."""
LARGE = b" " * (16 << 20)
"""More than the system takes for a client that reads nothing."""


@pytest.fixture
def gateway(tmp_path) -> TestGateway:
    return make_gateway(tmp_path, GatewaySettings(send_seconds=0.3, shutdown_seconds=3))


async def test_of_many_requests_at_once_some_are_answered_and_the_connection_is_closed(gateway):
    async with gateway.served() as client, Raw(client) as raw:
        raw.send(raw.head("GET", "/nowhere") * 3_000)
        answers = await raw.rest()
        assert 1 <= answers.count(b"HTTP/1.1 404 ") <= MAX_WAITING + 1
        assert b"connection: close\r\n" in answers[answers.rindex(b"HTTP/1.1 404 ") :]
        assert b"HTTP/1.1 4" not in answers.replace(b"HTTP/1.1 404 ", b"")


async def test_a_few_requests_at_once_are_answered_in_order_and_the_connection_goes_on(gateway):
    async with gateway.served() as client, Raw(client) as raw:
        for _ in range(3):
            paths = ["/nowhere", "/v1/conversations", *["/nowhere"] * (MAX_WAITING - 1)]
            raw.send(b"".join(raw.head("GET", path, "Origin: none") for path in paths))
            for path in paths:
                head = await raw.reader.readuntil(b"\r\n\r\n")
                assert head.startswith(b"HTTP/1.1 404 " if path == "/nowhere" else FIRST)
                length = next(line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length: "))
                await raw.reader.readexactly(int(length.partition(b": ")[2]))


async def test_a_stream_with_a_request_behind_it_ends_with_its_connection(gateway):
    async with gateway.served() as client:
        async with Raw(client) as raw:
            raw.send(raw.head("GET", "/v1/remembered") + raw.head("GET", "/nowhere"))
            assert (await raw.reader.readuntil(b"\r\n\r\n")).startswith(FIRST)
            assert gateway.app.gateway.streams.open == 1
        while gateway.app.gateway.streams.open:  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.01)


async def dropped(connection: socket.socket) -> bool:
    """Whether the other side resets the connection; what it sent is left unread."""
    poller = select.poll()
    poller.register(connection, 0)
    return bool(await asyncio.to_thread(poller.poll, 20_000))


@pytest.mark.parametrize("times", [1, MAX_WAITING])
@pytest.mark.parametrize("more", [[], ["Connection: close"]], ids=["kept", "closed"])
async def test_a_client_that_reads_no_answer_is_dropped(gateway, monkeypatch, times, more):
    monkeypatch.setattr(app, "openapi_bytes", lambda: LARGE)
    async with gateway.served() as client:
        raw = Raw(client)
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect((client.base_url.host, client.base_url.port))
            connection.sendall(raw.head("GET", DOCUMENT) * (times - 1) + raw.head("GET", DOCUMENT, *more))
            assert await dropped(connection)
        assert (await client.get(DOCUMENT)).status_code == 200


async def test_a_client_that_reads_slowly_gets_its_answer(gateway, monkeypatch):
    monkeypatch.setattr(app, "openapi_bytes", lambda: LARGE)
    async with gateway.served() as client, Raw(client) as raw:
        raw.send(raw.head("GET", DOCUMENT, "Connection: close"))
        await raw.reader.readuntil(b"\r\n\r\n")
        size = 0
        while piece := await raw.reader.read(1 << 17):
            size += len(piece)
            await asyncio.sleep(0.01)
    assert size == len(LARGE)
