"""Benchmark of the time that the gateway adds to an event and to an ask: ``python -m tests.bench.bench_gateway``.

Each event and each ask goes both ways by turns, over HTTP and directly to Kafka, from one process. The gateway runs
in a process of its own; its processor time a request is measured too, which other work does not change much.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from eunoe.deploy.clients.connect import environment
from eunoe.deploy.clients.shared import open_publisher
from eunoe.deploy.gateway.keys import KeyFile, KeyPlan, KeyScope, new_key
from eunoe.deploy.local.ports import free_port
from eunoe.deploy.process.temporary import temporary_servers
from eunoe.deploy.settings import Settings, read_settings
from eunoe.schemas.events import Utterance
from eunoe.streams.client import MemoryClient
from eunoe.streams.codec import encode
from eunoe.streams.publisher import KafkaPublisher
from eunoe.streams.record import Message
from eunoe.streams.topics import Topic
from tests.faults.replicas import Child

WARM_UP = 20
Way = Callable[[int], Awaitable[object]]


class HttpConnection:
    """One kept connection, with next to no work of its own."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, key: str) -> None:
        self._reader, self._writer, self._key = reader, writer, key

    async def post(self, path: str, body: dict[str, object]) -> bytes:
        """The body of the answer; fails for another status than 200 and 202."""
        data = json.dumps(body).encode()
        lines = (
            f"POST {path} HTTP/1.1",
            "Host: x",
            f"Authorization: Bearer {self._key}",
            "Content-Type: application/json",
            f"Content-Length: {len(data)}",
        )
        self._writer.write("\r\n".join((*lines, "", "")).encode() + data)
        answer = await self._reader.readuntil(b"\r\n\r\n")
        length = int(next(line for line in answer.lower().split(b"\r\n") if line.startswith(b"content-length:"))[15:])
        found = await self._reader.readexactly(length)
        assert answer.split()[1] in (b"200", b"202"), found
        return found


async def bench(settings: Settings, events: int, asks: int) -> dict[str, dict[str, float]]:
    """Kind of request → percentiles of both ways, their difference, and the gateway's processor time; milliseconds."""
    async with AsyncExitStack() as closing:
        settings = await closing.enter_async_context(temporary_servers(settings, workers=True))
        gateway, http = await closing.enter_async_context(_gateway(settings))
        publisher = await closing.enter_async_context(open_publisher(settings))
        memory = await closing.enter_async_context(
            MemoryClient(settings.kafka_settings, conversation_id="direct", names=settings.names)
        )
        await _remember(http)
        process = psutil.Process(gateway.process.pid if gateway.process else None)

        async def event_http(_: int) -> object:
            return await http.post("/v1/conversations/web/events", _utterance())

        async def event_direct(number: int) -> object:
            return await _publish(publisher, number)

        async def ask_http(_: int) -> object:
            body: dict[str, object] = {"text": "Where does Ann live?", "speaker": "Ben", "record": False}
            return await http.post("/v1/conversations/web/asks", body)

        async def ask_direct(_: int) -> object:
            return await memory.ask("Where does Ann live?", speaker="Ben", record=False, timeout=60)

        return {
            "event": await _both(event_http, event_direct, events, process),
            "ask": await _both(ask_http, ask_direct, asks, process),
        }


@asynccontextmanager
async def _gateway(settings: Settings) -> AsyncIterator[tuple[Child, HttpConnection]]:
    with tempfile.TemporaryDirectory(prefix="eunoe-bench-") as directory:
        folder = Path(directory)
        secret, kept = new_key(KeyPlan("default", frozenset(KeyScope)), datetime.now(UTC))
        KeyFile(folder / "keys.json").add(kept)
        address = f"127.0.0.1:{free_port()}"
        own = {
            **environment(settings),
            "EUNOE_PREFIX": settings.prefix,
            "EUNOE_GATEWAY__KEYS": str(folder / "keys.json"),
            "EUNOE_GATEWAY__RATE": "100000",
            "EUNOE_GATEWAY__BURST": "100000",
        }
        gateway = Child(("gateway", "--address", address), own, folder / "gateway.log", f"http://{address}")
        await gateway.start()
        where = urlsplit(f"http://{address}")
        reader, writer = await asyncio.open_connection(where.hostname, where.port)
        try:
            yield gateway, HttpConnection(reader, writer, secret)
        finally:
            writer.close()
            await gateway.stop()


async def _remember(http: HttpConnection) -> None:
    """A session for both conversations, so that asks have something to find."""
    for conversation in ("web", "direct"):
        path = f"/v1/conversations/{conversation}/events"
        for text in ("I moved to Lyon in March.", "My sister Eva works at the hospital in Lyon."):
            await http.post(path, {"type": "utterance", "speaker": "Ann", "text": text})
        await http.post(path, {"type": "session_ended"})


def _utterance() -> dict[str, object]:
    return {"type": "utterance", "speaker": "Ann", "text": "We walked by the river. " * 10}


async def _publish(publisher: KafkaPublisher, number: int) -> object:
    said = Utterance(
        conversation_id="direct", utterance_id=f"u{number}", speaker="Ann", text="We walked by the river. " * 10,
        at=datetime.now(UTC),
    )  # fmt: skip
    return await publisher.publish([Message(Topic.CONVERSATIONS, said.key.encode(), encode(said))])


async def _both(one: Way, other: Way, count: int, process: psutil.Process) -> dict[str, float]:
    times: dict[Way, list[float]] = {one: [], other: []}
    before = 0.0
    for number in range(count + WARM_UP):
        if number == WARM_UP:
            before = sum(process.cpu_times()[:2])
        for way in (one, other) if number % 2 else (other, one):
            begun = time.perf_counter()
            await way(number)
            if number >= WARM_UP:
                times[way].append(1000 * (time.perf_counter() - begun))
    cpu = 1000 * (sum(process.cpu_times()[:2]) - before) / count
    found: dict[str, float] = {}
    for percent in (50, 99):
        http, direct = (sorted(times[way])[min(count - 1, count * percent // 100)] for way in (one, other))
        found |= {
            f"http_p{percent}_ms": http,
            f"direct_p{percent}_ms": direct,
            f"added_p{percent}_ms": http - direct,
            f"ratio_p{percent}": http / direct,
        }
    return {name: round(value, 2) for name, value in {**found, "gateway_cpu_ms": cpu}.items()}


def main() -> int:
    """Run what the command line asks for. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.bench_gateway", description=__doc__)
    parser.add_argument("--events", type=int, default=1000, help="events each way (default 1000)")
    parser.add_argument("--asks", type=int, default=200, help="asks each way (default 200)")
    asked = parser.parse_args()
    sys.stdout.write(json.dumps(asyncio.run(bench(read_settings(), asked.events, asked.asks)), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
