"""Commands of many callers in one round trip."""

import asyncio
from typing import Any

import pytest
from redis.exceptions import ConnectionError as ConnectionLost
from redis.exceptions import NoScriptError

from eunoe.workers.stores.command_pipeline import MAX_ROUND_TRIPS, CommandPipeline


class Pipeline:
    def __init__(self, client: "Client") -> None:
        self.client, self.commands = client, []

    async def __aenter__(self) -> "Pipeline":
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    def execute_command(self, *words: object) -> None:
        self.commands.append(words)

    async def execute(self, raise_on_error: bool = True) -> list[Any]:
        assert not raise_on_error
        return await self.client.trip(self.commands)


class Client:
    """Answers each command with its last word; ``gate`` holds round trips back."""

    def __init__(self) -> None:
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

    async def execute_command(self, *words: object) -> Any:
        (found,) = await self.trip([words])
        if isinstance(found, Exception):
            raise found
        return found

    def pipeline(self, transaction: bool = True) -> Pipeline:
        assert not transaction
        return Pipeline(self)


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
