"""Clients of a load: asks and events that are sent until a replica accepted them, and streams that connect again."""

import asyncio
import itertools
import json
import random
import time
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import urlsplit

import aiohttp

TRY_S = 15.0
"""Time that one request may take."""
LAST_S = 90.0
"""Time in which what was accepted must be answered after the load."""


@dataclass
class Load:
    """The state of a load: what was sent, accepted and answered, and how long it took."""

    urls: list[str]
    key: str
    accepted: set[str] = field(default_factory=set)
    """Ids of utterances that a replica answered with 202 or a reply."""
    asked: dict[str, str] = field(default_factory=dict)
    """Request id → conversation, of the asks that were accepted."""
    answered: set[str] = field(default_factory=set)
    ask_ms: list[tuple[float, float]] = field(default_factory=list)
    """Seconds since the begin, and milliseconds of an ask that was answered by its first request."""
    event_ms: list[tuple[float, float]] = field(default_factory=list)
    refused: dict[int, int] = field(default_factory=dict)
    """Status of a refusal, 0 for a broken connection → times."""
    begun: float = field(default_factory=time.monotonic)
    numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"}

    def url(self, path: str) -> str:
        """An address at any replica, as a load balancer chooses it."""
        return random.choice(self.urls) + path

    def refuse(self, status: int) -> None:
        self.refused[status] = self.refused.get(status, 0) + 1


async def send(load: Load, session: aiohttp.ClientSession, path: str, body: dict, wait: str | None) -> tuple[int, dict]:
    """Send a request until a replica accepts it; the same ids every time."""
    more = {} if wait is None else {"Prefer": f"wait={wait}"}
    while True:
        try:
            async with session.post(load.url(path), json=body, headers=more) as answer:
                if answer.status < 300:
                    return answer.status, await answer.json()
                load.refuse(answer.status)
                if answer.status not in (429, 502, 503):
                    raise RuntimeError(f"{answer.status}: {await answer.text()}")
        except (aiohttp.ClientError, TimeoutError, OSError):
            load.refuse(0)
        await asyncio.sleep(0.5 + random.random())


async def ask(load: Load, session: aiohttp.ClientSession, conversation: str) -> None:
    """One ask: waits for its reply, and leaves it to the end where none comes in time."""
    id_, begun = f"ask-{next(load.numbers)}", time.monotonic()
    at = datetime.now(UTC).isoformat()
    body = {"text": "Where does Ann live?", "speaker": "Ben", "request_id": id_, "at": at, "record": False}
    status, _ = await send(load, session, f"/v1/conversations/{conversation}/asks", body, "10")
    load.accepted.add(id_)
    load.asked[id_] = conversation
    if status == 200:
        load.answered.add(id_)
        load.ask_ms.append((begun - load.begun, 1000 * (time.monotonic() - begun)))


async def add_event(load: Load, session: aiohttp.ClientSession, conversation: str) -> None:
    """One utterance."""
    id_, begun = f"event-{next(load.numbers)}", time.monotonic()
    body = {
        "type": "utterance", "speaker": "Ann", "text": "We walked by the river.", "utterance_id": id_,
        "at": datetime.now(UTC).isoformat(),
    }  # fmt: skip
    await send(load, session, f"/v1/conversations/{conversation}/events", body, None)
    load.accepted.add(id_)
    load.event_ms.append((begun - load.begun, 1000 * (time.monotonic() - begun)))


async def fetch_late(load: Load, session: aiohttp.ClientSession) -> None:
    """Fetch the replies that did not come in time, at any replica."""
    until = time.monotonic() + LAST_S
    while (left := sorted(load.asked.keys() - load.answered)) and time.monotonic() < until:
        for id_ in left:
            with suppress(aiohttp.ClientError, TimeoutError, OSError):
                path = f"/v1/conversations/{load.asked[id_]}/asks/{id_}"
                async with session.get(load.url(path), headers={"Prefer": "wait=2"}) as answer:
                    if answer.status == 200:
                        load.answered.add(id_)


@dataclass
class Stream:
    """A client that follows what becomes memory of one conversation, and connects again where it breaks."""

    load: Load
    conversation: str
    sessions: list[int] = field(default_factory=list)
    connects: int = 0
    last: str | None = None
    open: bool = False

    async def run(self) -> None:
        """Follow until it is cancelled."""
        while True:
            with suppress(OSError, asyncio.IncompleteReadError):
                await self._follow(random.choice(self.load.urls))
            self.open = False
            await asyncio.sleep(0.5 + 2 * random.random())

    async def _follow(self, url: str) -> None:
        where = urlsplit(url)
        reader, writer = await asyncio.open_connection(where.hostname, where.port)
        try:
            last = f"Last-Event-ID: {self.last}\r\n" if self.last else ""
            head = f"GET /v1/conversations/{self.conversation}/remembered HTTP/1.1\r\nHost: x\r\n{last}"
            writer.write(f"{head}Authorization: Bearer {self.load.key}\r\n\r\n".encode())
            status = (await reader.readline()).split()
            if status[1:2] != [b"200"]:
                self.load.refuse(int(status[1]) if len(status) > 1 else 0)
                return
            self.connects += 1
            event = b""
            while line := await reader.readline():
                if line.startswith(b"id: "):
                    self.last, self.open = line[4:].strip().decode(), True
                elif line.startswith(b"event: "):
                    event = line[7:].strip()
                elif line.startswith(b"data: ") and event == b"remembered":
                    self.sessions.append(json.loads(line[6:])["session"])
        finally:
            writer.close()

    @property
    def missed(self) -> int:
        """Sessions that came before and after others, and not to this client."""
        seen = set(self.sessions)
        return len(set(range(min(seen), max(seen) + 1)) - seen) if seen else 0
