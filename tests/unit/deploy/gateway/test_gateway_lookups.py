"""What costs a gateway more than a request: searches in the log of answers."""

import asyncio

import httpx
import pytest

from eunoe.deploy.gateway.keys import Caller
from eunoe.deploy.gateway.lookups import Lookups
from eunoe.deploy.gateway.problems import Problem
from eunoe.deploy.settings.sections import GatewaySettings
from tests.support.gateway import make_gateway, told

C = "/v1/conversations/c"
SLOW = GatewaySettings(rate=0.001, burst=100)


@pytest.mark.parametrize("path", ["replies/none", "replies/none/why", "asks/none"])
async def test_a_search_in_the_log_counts_as_twenty_requests(tmp_path, path):
    gateway = make_gateway(tmp_path, SLOW)
    async with gateway.client() as client:
        found = [(await client.get(f"{C}/{path}")).status_code for _ in range(6)]
    assert found == [404] * 4 + [429] * 2


async def test_what_a_tool_of_agents_asks_the_routes_counts_beyond_its_one_request(tmp_path):
    gateway = make_gateway(tmp_path, SLOW)
    assert gateway.app.mcp is not None
    headers = {"Authorization": f"Bearer {gateway.key()}"}
    inside = httpx.ASGITransport(app=gateway.app.mcp.routes)
    async with httpx.AsyncClient(transport=inside, base_url="http://gateway", headers=headers) as client:
        plain = [(await client.get("/v1/conversations")).status_code for _ in range(150)]
        found = [(await client.get(f"{C}/replies/none")).status_code for _ in range(7)]
    assert (set(plain), found) == ({200}, [404] * 5 + [429] * 2)


async def test_a_search_ends_soon_after_its_time_and_takes_no_time_before_the_log(tmp_path):
    gateway = make_gateway(tmp_path)
    asked = {"text": "Where does Ann live?", "speaker": "Ben"}
    async with gateway.client() as client:
        await told(client)
        reply = (await client.post(f"{C}/asks", json=asked)).json()
        gateway.notes.texts.clear()
        old = await client.get(f"{C}/replies/{reply['reply_id']}", params={"at": "1900-01-01T00:00:00Z"})
        now = await client.get(f"{C}/replies/{reply['reply_id']}")
    assert (old.status_code, now.status_code) == (404, 200)


def caller(key: str, tenant: str) -> Caller:
    return Caller(key, tenant, frozenset(), "")


async def test_few_lookups_are_made_at_once_and_fewer_of_one_key():
    lookups, gate, begun = Lookups(), asyncio.Event(), []

    async def look(key: str) -> None:
        async with lookups.turn(caller(key, f"tenant of {key}")):
            begun.append(key)
            await gate.wait()

    looking = [asyncio.ensure_future(look(key)) for key in ("a", "b", "c", "d", "e") for _ in range(3)]
    await asyncio.sleep(0.01)
    assert sorted(begun) == ["a", "a", "b", "b", "c", "c", "d", "d"]
    looking.pop().cancel()
    gate.set()
    await asyncio.gather(*looking)
    assert (len(begun), lookups.open) == (14, 0)


async def test_a_tenant_with_many_keys_leaves_turns_to_others_and_may_not_wait_without_bound():
    lookups, gate, begun = Lookups(), asyncio.Event(), []

    async def look(who: Caller) -> None:
        lookups.check(who)
        async with lookups.turn(who):
            begun.append(who.tenant)
            await gate.wait()

    many = [asyncio.ensure_future(look(caller(f"k{number}", "many"))) for number in range(64)]
    await asyncio.sleep(0.01)
    with pytest.raises(Problem, match="the keys of this tenant have 64 lookups") as refused:
        await look(caller("k64", "many"))
    assert (refused.value.status, refused.value.headers) == (429, {"Retry-After": "2"})
    other = asyncio.ensure_future(look(caller("o", "other")))
    await asyncio.sleep(0.01)
    assert begun == [*["many"] * 4, "other"]
    gate.set()
    await asyncio.gather(*many, other)
    assert (len(begun), lookups.open) == (65, 0)


async def test_a_search_ends_with_its_client_and_gives_its_turn_back(tmp_path, monkeypatch):
    gateway = make_gateway(tmp_path)
    searching = asyncio.Event()

    async def slow(*_: object) -> int:
        searching.set()
        await asyncio.Event().wait()
        return 0

    monkeypatch.setattr(gateway.log, "offset_at", slow)
    async with gateway.served() as client:
        asking = asyncio.ensure_future(client.get(f"{C}/replies/none"))
        await searching.wait()
        assert gateway.app.gateway.lookups.open == 1
        asking.cancel()
        await asyncio.wait({asking})
        async with asyncio.timeout(5):
            while gateway.app.gateway.lookups.open:  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0.01)
