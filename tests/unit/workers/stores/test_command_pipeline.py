"""Commands of many callers in one round trip."""

import asyncio
import math
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as ConnectionLost
from redis.exceptions import NoScriptError
from redis.exceptions import TimeoutError as NoReply

from eunoe.workers.stores.redis.command_pipeline import MAX_ROUND_TRIPS, CommandPipeline


class Connection:
    """A connection of the pool of a client."""

    retry = Retry(NoBackoff(), 0)
    socket_timeout: float | None = 5.0

    def __init__(self, client: "Client") -> None:
        self.client = client
        self.replies: list[Any] = []

    def pack_command(self, *words: object) -> list[Any]:
        return [words]

    async def send_packed_command(self, commands: list[Any]) -> None:
        self.replies = await self.client.trip(commands)

    async def read_response(self, timeout: float | None = None) -> Any:
        assert timeout == math.inf
        if self.client.silent:
            await asyncio.Event().wait()
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply

    async def disconnect(self) -> None:
        self.replies.clear()


class Client:
    """Answers each command with its last word; ``gate`` holds round trips back."""

    response_callbacks: Mapping[str, Callable[[Any], Any]] = {"INFO": lambda text: {"told": text}}

    def __init__(self) -> None:
        self.connection_pool = self
        self.borrowed = 0
        self.silent = False
        self.trips: list[list[tuple[object, ...]]] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.fault: Exception | None = None

    async def trip(self, commands: list[tuple[object, ...]]) -> list[Any]:
        self.trips.append(commands)
        await self.gate.wait()
        if self.fault:
            raise self.fault
        return [NoScriptError() if words[0] == "EVALSHA" else words[-1] for words in commands]

    async def get_connection(self) -> Connection:
        self.borrowed += 1
        return Connection(self)

    async def release(self, connection: Connection) -> None:
        self.borrowed -= 1


async def test_what_is_asked_together_goes_together_and_each_gets_its_own_reply():
    client = Client()
    gathered = CommandPipeline(client)
    found = await asyncio.gather(*(gathered.command(("GET", str(number))) for number in range(100)))
    assert found == [str(number) for number in range(100)]
    assert len(client.trips) == 1


async def test_a_fault_of_one_is_nobody_else_s():
    gathered = CommandPipeline(Client())
    found = await asyncio.gather(
        gathered.command(("GET", "a")), gathered.command(("EVALSHA", "x")), gathered.command(("GET", "b")),
        return_exceptions=True,
    )  # fmt: skip
    assert (found[0], found[2]) == ("a", "b")
    assert isinstance(found[1], NoScriptError)


async def test_a_lost_connection_is_everybody_s_and_the_next_ask_goes_out_again():
    client = Client()
    client.fault = ConnectionLost("gone")
    gathered = CommandPipeline(client)
    found = await asyncio.gather(*(gathered.command(("GET", "a")) for _ in range(3)), return_exceptions=True)
    assert all(isinstance(fault, ConnectionLost) for fault in found)
    client.fault = None
    assert await gathered.command(("GET", "a")) == "a"


async def test_while_round_trips_are_under_way_the_next_one_gathers():
    client = Client()
    client.gate.clear()
    gathered = CommandPipeline(client)
    asks = []
    for number in range(20):
        asks.append(asyncio.create_task(gathered.command(("GET", str(number)))))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert len(client.trips) == MAX_ROUND_TRIPS
    client.gate.set()
    assert await asyncio.gather(*asks) == [str(number) for number in range(20)]
    assert len(client.trips) == MAX_ROUND_TRIPS + 1


async def test_who_gave_up_is_not_asked_for_and_harms_nobody():
    client = Client()
    gathered = CommandPipeline(client)
    first, second = (asyncio.create_task(gathered.command(("GET", name))) for name in "ab")
    await asyncio.sleep(0)
    first.cancel()
    assert await second == "b"
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_a_reply_is_read_as_redis_py_reads_it_and_the_connection_goes_back():
    client = Client()
    gathered = CommandPipeline(client)
    asked = (("INFO", "server"), ("GET", "server"), ("EVALSHA", "x"))
    found = await asyncio.gather(*map(gathered.command, asked), return_exceptions=True)
    assert found[:2] == [{"told": "server"}, "server"]
    assert client.borrowed == 0


async def test_a_server_that_gives_no_reply_in_time_is_given_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Connection, "socket_timeout", 0.01)
    client = Client()
    client.silent = True
    with pytest.raises(NoReply):
        await CommandPipeline(client).command(("GET", "a"))
    assert client.borrowed == 0


async def test_a_connection_that_was_lost_is_tried_again_where_the_client_says_so(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Connection, "retry", Retry(NoBackoff(), 1))
    client = Client()
    client.fault = ConnectionLost("gone")
    with pytest.raises(ConnectionLost):
        await CommandPipeline(client).command(("GET", "a"))
    assert len(client.trips) == 2
