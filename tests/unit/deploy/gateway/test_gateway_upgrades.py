"""Requests that ask for another protocol by the way: they are answered as if they did not, with their bodies."""

import json
import logging

import pytest

from eunoe.deploy.settings.sections import GatewaySettings
from tests.support.gateway import TestGateway, make_gateway
from tests.unit.deploy.gateway.test_gateway_connections import BODY, C, Raw

pytestmark = pytest.mark.timeout(60)

UPGRADE = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABk")
JSON = "Content-Type: application/json"
LENGTH = f"Content-Length: {len(BODY)}"
CHUNKS = b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)


@pytest.fixture
def gateway(tmp_path) -> TestGateway:
    return make_gateway(tmp_path, GatewaySettings(shutdown_seconds=3))


def statuses(answers: bytes) -> list[bytes]:
    return [part[:3] for part in answers.split(b"HTTP/1.1 ")[1:]]


@pytest.mark.parametrize(("body", "told"), [(BODY, LENGTH), (CHUNKS, "Transfer-Encoding: chunked")])
@pytest.mark.parametrize("at_once", [True, False])
async def test_the_body_of_a_request_that_asks_for_another_protocol_is_read(gateway, body, told, at_once):
    async with gateway.served() as client, Raw(client) as raw:
        head = raw.head("POST", f"{C}/events", JSON, told, *UPGRADE)
        for piece in (head + body,) if at_once else (head[:60], head[60:], body[:9], body[9:]):
            raw.send(piece)
            await raw.writer.drain()
        raw.send(raw.head("GET", "/v1/conversations", "Connection: close"))
        answers = await raw.rest()
    assert statuses(answers) == [b"202", b"200"]
    (listed,) = json.loads(answers.rpartition(b"\r\n\r\n")[2])["conversations"]
    assert listed["conversation_id"] == "c"


async def test_requests_behind_one_that_asks_for_another_protocol_are_answered(gateway, caplog):
    caplog.set_level(logging.INFO)
    asked = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13")
    async with gateway.served() as client, Raw(client) as raw:
        many = [raw.head("GET", "/v1/conversations", *asked)] * 4
        raw.send(b"".join([*many, raw.head("GET", "/v1/conversations", "Connection: close")]))
        assert statuses(await raw.rest()) == [b"200"] * 5
    assert [one for one in caplog.records if one.levelno >= logging.WARNING] == []


async def test_more_requests_at_once_than_may_wait_are_too_many_with_upgrades_too(gateway):
    async with gateway.served() as client, Raw(client) as raw:
        raw.send(raw.head("GET", f"{C}/remembered", *UPGRADE) * 2_000)
        await raw.reader.readuntil(b"\r\n\r\n")
        assert (await client.get("/v1/conversations")).status_code == 200


async def test_a_tunnel_is_refused(gateway):
    async with gateway.served() as client, Raw(client) as raw:
        raw.send(raw.head("CONNECT", "example.org:443", *UPGRADE))
        assert (await raw.reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 40")
