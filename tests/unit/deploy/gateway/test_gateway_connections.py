"""Connections to the gateway: slow ones, broken ones, more streams than it takes; and its own to the log."""

import asyncio
import json
import socket
import struct
from contextlib import suppress
from dataclasses import replace
from http.client import HTTPConnection
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from redis.asyncio import Redis

from eunoe.deploy.gateway import http_lingering, kafka, redis
from eunoe.deploy.gateway.http_protocol import BoundedConnection
from eunoe.deploy.gateway.ports import LiveState
from eunoe.deploy.gateway.redis import RedisLiveStates
from eunoe.deploy.settings import Settings
from eunoe.deploy.settings.sections import GatewaySettings
from eunoe.schemas.errors import EunoeError, Misconfigured, Unavailable
from eunoe.streams.publisher import MessageTooLarge
from eunoe.streams.settings import KafkaSettings
from eunoe.streams.topics import Topic, TopicNames
from tests.support.gateway import InMemoryGatewayLog, TestGateway, make_gateway, told
from tests.support.in_memory import make_pipeline

pytestmark = pytest.mark.timeout(60)

C = "/v1/conversations/c"
BODY = json.dumps({"type": "utterance", "speaker": "Ann", "text": "hello"}).encode()
MANY = 300


class Raw:
    """A connection on which a test writes what it wants."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def __aenter__(self) -> "Raw":
        url = self._client.base_url
        self.reader, self.writer = await asyncio.open_connection(url.host, url.port)
        return self

    async def __aexit__(self, *fault: object) -> None:
        self.writer.close()
        with suppress(OSError):
            await self.writer.wait_closed()

    def head(self, method: str, path: str, *more: str) -> bytes:
        """The head of a request with the client's key."""
        lines = (
            f"{method} {path} HTTP/1.1",
            "Host: gateway",
            f"Authorization: {self._client.headers['authorization']}",
        )
        return "\r\n".join((*lines, *more, "", "")).encode()

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def rest(self) -> bytes:
        """All that the gateway sends until it closes the connection; a reset must not hide what came before it."""
        found = b""
        with suppress(ConnectionResetError):
            while piece := await self.reader.read(1 << 16):
                found += piece
        return found + bytes(self.reader._buffer)  # type: ignore[attr-defined]


@pytest.fixture
def gateway(tmp_path) -> TestGateway:
    return make_gateway(tmp_path, GatewaySettings(body_seconds=0.3, shutdown_seconds=3, burst=100_000, rate=100_000))


async def trickle(raw: Raw, data: bytes) -> None:
    with suppress(ConnectionError):
        for byte in data:
            raw.send(bytes([byte]))
            await raw.writer.drain()
            await asyncio.sleep(0.02)


async def test_a_body_that_trickles_is_ended(gateway):
    async with gateway.served() as client, Raw(client) as raw:
        raw.send(raw.head("POST", f"{C}/events", "Content-Type: application/json", "Content-Length: 1000"))
        trickling = asyncio.ensure_future(trickle(raw, b"{" * 1000))
        assert (await raw.rest()).startswith(b"HTTP/1.1 408 ")
        trickling.cancel()
    assert not gateway.pipeline.events(Topic.CONVERSATIONS)


async def test_headers_that_trickle_or_never_come_are_ended(gateway):
    async with gateway.served() as client, Raw(client) as slow, Raw(client) as silent:
        trickling = asyncio.ensure_future(trickle(slow, slow.head("GET", C) * 20))
        assert await slow.rest() == b""
        assert await silent.rest() == b""
        trickling.cancel()
        assert (await client.get("/v1/conversations")).status_code == 200


async def test_the_second_request_of_a_connection_has_the_same_time(gateway):
    async with gateway.served() as client, Raw(client) as raw:
        raw.send(raw.head("GET", "/"))
        assert b"eunoe" in await raw.reader.readuntil(b"</html>\n")
        raw.send(b"GET / HTTP/1.1\r\nHo")
        assert await raw.rest() == b""


PHASES = {
    "in the headers": lambda raw: raw.head("POST", f"{C}/events")[:40],
    "before the body": lambda raw: raw.head(
        "POST", f"{C}/events", "Content-Type: application/json", "Content-Length: 9"
    ),
    "in the body": lambda raw: raw.head(
        "POST", f"{C}/events", "Content-Type: application/json", f"Content-Length: {len(BODY)}"
    ) + BODY[:5],
    "in a piece of the body": lambda raw: raw.head(
        "POST", f"{C}/events", "Content-Type: application/json", "Transfer-Encoding: chunked"
    ) + b"ff\r\n{",
}  # fmt: skip


@pytest.mark.parametrize("phase", PHASES)
async def test_a_request_that_breaks_off_adds_nothing(gateway, phase):
    async with gateway.served() as client:
        for _ in range(5):
            async with Raw(client) as raw:
                raw.send(PHASES[phase](raw))
                await raw.writer.drain()
        await told(client, "d")
    assert {event.conversation_id for event in gateway.pipeline.events(Topic.CONVERSATIONS)} == {"d"}


async def test_more_streams_than_allowed_are_refused_and_others_go_on(tmp_path):
    gateway = make_gateway(tmp_path, GatewaySettings(streams_per_caller=50, rate=100_000, burst=100_000))
    async with gateway.served() as client, gateway.served("other") as other:

        async def opened() -> tuple[Raw, bytes]:
            raw = await Raw(client).__aenter__()
            raw.send(raw.head("GET", "/v1/remembered"))
            return raw, await raw.reader.readuntil(b"\r\n\r\n")

        found = await asyncio.gather(*(opened() for _ in range(MANY)))
        heads = [head for _, head in found]
        assert sum(head.startswith(b"HTTP/1.1 200 ") for head in heads) == 50
        assert sum(head.startswith(b"HTTP/1.1 429 ") and b"retry-after: " in head for head in heads) == MANY - 50
        await told(other)
        assert (await client.get("/v1/conversations")).status_code == 200
        for raw, _ in found:
            await raw.__aexit__()
        while gateway.app.gateway.streams.open:  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.01)


class StandInLog:
    """A log that says what it does; one that retires waits for ``gate``."""

    def __init__(self, _kafka: object, names: TopicNames) -> None:
        self.names = names
        self.done: list[str] = []
        self.retiring, self.gate = asyncio.Event(), asyncio.Event()

    async def start(self) -> None:
        self.done.append("started")

    async def retire(self, seconds: float) -> None:
        assert seconds > 0
        self.retiring.set()
        try:
            await self.gate.wait()
            self.done.append("retired")
        finally:
            await self.stop()

    async def stop(self) -> None:
        self.done.append("stopped")


async def test_a_log_that_is_replaced_is_closed_and_nobody_waits_for_that(monkeypatch):
    monkeypatch.setattr(kafka, "KafkaLog", StandInLog)
    moving = kafka.MovingLog(Settings(kafka="127.0.0.1:1"))
    logs: list[Any] = []
    for generation in ("v1", "v2", "v3"):
        await moving.move(TopicNames(generation=generation))
        assert moving.log.names.generation == generation
        logs.append(moving.log)
    first, second, third = logs
    for log in (first, second):
        await log.retiring.wait()
    first.gate.set()
    await asyncio.sleep(0)
    await moving.stop()
    assert first.done == ["started", "retired", "stopped"]
    assert second.done == third.done == ["started", "stopped"], "the end of the process waits for nobody"


class Moves:
    """Moves that fail once ``gate`` is open."""

    def __init__(self) -> None:
        self.tried = 0
        self.gate = asyncio.Event()
        self.fault: EunoeError | None = Misconfigured("Kafka refuses the login", "Kafka")

    async def move(self, _names: TopicNames) -> None:
        self.tried += 1
        await self.gate.wait()
        if self.fault is not None:
            raise self.fault


@pytest.fixture
def moves(monkeypatch) -> Moves:
    async def same(_book: object, settings: Settings) -> Settings:
        return settings

    monkeypatch.setattr(redis, "settings_in", same)
    return Moves()


def states_of(moves: Moves) -> RedisLiveStates:
    return RedisLiveStates(Settings(kafka="127.0.0.1:1"), Redis(port=1), moves.move)  # it is never asked


async def test_a_move_that_fails_is_tried_once_for_all_who_wait(moves):
    states = states_of(moves)
    waiting = [asyncio.ensure_future(states.live()) for _ in range(50)]
    await asyncio.sleep(0.01)
    moves.gate.set()
    faults = await asyncio.gather(*waiting, return_exceptions=True)
    assert moves.tried == 1
    assert {(type(fault), str(fault), fault.server) for fault in faults} == {
        (Misconfigured, "Kafka refuses the login", "Kafka")
    }
    assert len({id(fault) for fault in faults}) == 50, "an exception that is raised again and again grows"
    with pytest.raises(Misconfigured):
        await states.live()
    moves.fault = None
    assert (await states.live()).generation == (await states.live()).generation
    assert moves.tried == 3


async def test_a_move_whose_first_client_leaves_is_tried_by_the_next(moves):
    states = states_of(moves)
    moves.fault = None
    first, second = (asyncio.ensure_future(states.live()) for _ in range(2))
    await asyncio.sleep(0.01)
    first.cancel()
    await asyncio.wait({first})
    moves.gate.set()
    assert (await second).generation
    assert moves.tried == 2


@pytest.mark.parametrize(
    ("path", "body", "content_type"),
    [
        (f"{C}/events", BODY, "application/json"),
        ("/v1/events", BODY[:-1] + b', "conversation_id": "c"}', "application/x-ndjson"),
        (f"{C}/asks", b'{"text": "Where does Ann live?", "speaker": "Ben"}', "application/json"),
    ],
)
async def test_what_is_sent_goes_to_the_log_that_is_live_where_nothing_was_read_since_it_changed(
    tmp_path, path, body, content_type
):
    gateway = make_gateway(tmp_path)
    new = InMemoryGatewayLog(make_pipeline())
    in_use = [gateway.log]

    async def live() -> LiveState:
        in_use[:] = [new]
        return gateway.states.state

    gateway.app.gateway = replace(gateway.app.gateway, log=lambda: in_use[0], states=SimpleNamespace(live=live))
    async with gateway.client() as client:
        taken = await client.post(path, content=body, headers={"Content-Type": content_type})
    assert taken.status_code in (200, 202), taken.text
    assert gateway.pipeline.events(Topic.CONVERSATIONS) == []
    assert len(new.pipeline.events(Topic.CONVERSATIONS)) == 1


class StandInPublisher:
    """Raises what it is given."""

    def __init__(self, *_: object) -> None:
        self.fault: EunoeError | None = None

    async def start(self) -> None:
        pass

    async def publish(self, _messages: object) -> list[object]:
        if self.fault is not None:
            raise self.fault
        return []


async def test_a_log_is_unhealthy_after_a_failed_append_until_the_next_one_or_for_a_while(monkeypatch):
    async def partitions(_kafka: object, _names: object, topics: list[Topic]) -> list[int]:
        return [1] * len(topics)

    now = 100.0
    monkeypatch.setattr(kafka, "KafkaPublisher", StandInPublisher)
    monkeypatch.setattr(kafka, "partitions_of", partitions)
    monkeypatch.setattr(kafka, "monotonic", lambda: now)
    log: Any = kafka.KafkaLog(KafkaSettings(), TopicNames())
    assert not log.healthy
    await log.start()

    async def append(fault: EunoeError | None) -> bool:
        log.publisher.fault = fault
        with suppress(EunoeError):
            await log.append([])
        return bool(log.healthy)

    assert await append(MessageTooLarge("2 MB")), "the broker has answered"
    assert not await append(Unavailable("away"))
    assert await append(None)
    assert not await append(Unavailable("away"))
    now += kafka.AWAY_S
    assert log.healthy, "only a request can find out whether the broker is back, and none comes to who is not ready"


async def test_nothing_waits_for_a_connection_that_its_client_reset(gateway, monkeypatch):
    lost: asyncio.Future[BoundedConnection] = asyncio.get_running_loop().create_future()
    lose = BoundedConnection.connection_lost

    def losing(connection: BoundedConnection, fault: Exception | None) -> None:
        lose(connection, fault)
        if fault is not None:
            lost.set_result(connection)

    monkeypatch.setattr(BoundedConnection, "connection_lost", losing)
    async with gateway.served() as client, Raw(client) as raw:
        raw.send(raw.head("GET", "/nowhere"))
        await raw.reader.readuntil(b"\r\n\r\n")
        own = raw.writer.get_extra_info("socket")
        own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raw.writer.transport.abort()
        connection = await lost
        assert connection.timeout_keep_alive_task is None  # it would look after the closed socket when its time is up


@pytest.mark.parametrize("more", [(), ("Connection: keep-alive",)])
async def test_a_stream_to_a_client_of_http_1_0_has_no_chunks_and_ends_with_its_connection(gateway, more):
    async with gateway.served() as client, Raw(client) as raw:
        raw.send(raw.head("GET", f"{C}/remembered", *more).replace(b" HTTP/1.1", b" HTTP/1.0"))
        head, ready = [await raw.reader.readuntil(end) for end in (b"\r\n\r\n", b"\n\n")]
        gateway.app.gateway.closing.set()
        rest = await raw.rest()
    assert b"transfer-encoding" not in head
    assert b"connection: close\r\n" in head
    assert ready.startswith(b"id: v1:")
    assert rest == b"event: closing\ndata: {}\n\n"


async def test_an_answer_to_a_client_of_http_1_0_keeps_its_length(gateway):
    async with gateway.served() as client, Raw(client) as raw:
        raw.send(raw.head("GET", "/v1/conversations").replace(b" HTTP/1.1", b" HTTP/1.0"))
        head, body = (await raw.rest()).split(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    assert f"content-length: {len(body)}".encode() in head
    assert json.loads(body)["conversations"] == []


def post_all_then_read(url: str, authorization: str, body: bytes) -> tuple[int, bytes]:
    """Python's own client sends the whole request before it reads the answer."""
    connection = HTTPConnection(url.removeprefix("http://").rstrip("/"), timeout=20)
    headers = {"Authorization": authorization, "Content-Type": "application/json"}
    try:
        connection.request("POST", f"{C}/events", body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


@pytest.mark.parametrize("size", [300_000, 30_000_000])
async def test_a_client_that_sends_all_of_a_body_that_is_too_large_is_told_so(gateway, size):
    async with gateway.served() as client:
        where = str(client.base_url), client.headers["authorization"]
        status, told_ = await asyncio.to_thread(post_all_then_read, *where, b"x" * size)
    assert (status, json.loads(told_)["detail"]) == (413, "the body is larger than 262,144 bytes")


async def test_a_connection_whose_client_sends_on_and_on_is_closed(gateway, monkeypatch):
    monkeypatch.setattr(http_lingering, "LINGER_S", 0.1)
    async with gateway.served() as client, Raw(client) as raw:
        raw.send(raw.head("POST", f"{C}/events", "Content-Type: application/json", "Content-Length: 1000000000000"))
        assert (await raw.rest()).startswith(b"HTTP/1.1 413")
        with pytest.raises(ConnectionError):
            await endless(raw)


async def endless(raw: Raw) -> None:
    while True:
        raw.send(b"x" * 65_536)
        await raw.writer.drain()
        await asyncio.sleep(0.001)
