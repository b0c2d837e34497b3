"""The tools of agents on real servers, with the official client: over HTTP at a gateway, and over `eunoe mcp`."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from pydantic import SecretStr

from eunoe.deploy.gateway.keys import KeyScope
from eunoe.deploy.gateway.mcp.forms import UNTRUSTED
from eunoe.deploy.settings import Settings
from eunoe.schemas.erasure import ErasureDone
from eunoe.streams.http_client import HttpMemoryClient
from eunoe.workers.stores.erasures.sqlite_ledger import SqliteErasures
from tests.support import command
from tests.support.gateway import SESSION
from tests.support.pipeline import Pipeline, pipeline_at_work
from tests.support.replica import Served, served
from tests.support.session import SessionServers

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.timeout(240)]

LEDGER = "erasures.sqlite"
TOOLS = {"remember", "ask", "recall", "timeline", "history", "forget"}


@pytest.fixture(scope="module")
def at_work(servers: SessionServers, tmp_path_factory: pytest.TempPathFactory):
    with pipeline_at_work(tmp_path_factory.mktemp("agents"), servers) as pipeline:
        yield pipeline


@asynccontextmanager
async def over_http(gateway: Served, key: str) -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}, timeout=60) as http,
        Client(streamable_http_client(f"{gateway.url}/mcp", http_client=http)) as client,
    ):
        yield client


def over_stdio(gateway: Served, key: str, folder: Path, *words: str) -> Client:
    own = command.environment({"EUNOE_MCP__URL": gateway.url, "EUNOE_MCP__KEY": key})
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "eunoe.deploy.cli", "mcp", *words], env=own, cwd=folder
    )
    return Client(stdio_client(server))


async def tell_and_find(client: Client, conversation: dict[str, str]) -> None:
    """Remember a session with one client, and find it again with all tools."""
    assert {tool.name for tool in (await client.list_tools()).tools} == TOOLS
    for event in SESSION[:3]:
        said = {name: event[name] for name in ("text", "speaker", "utterance_id", "session_id")}
        assert not (await client.call_tool("remember", {**said, **conversation})).is_error
    recalled = await client.call_tool("recall", {"query": "Where does Ann live?", **conversation})
    assert [line["utterance_id"] for line in recalled.structured_content["dialogue"]] == ["u1", "u2", "u3"], recalled


async def find_again(client: Client, conversation: dict[str, str], folder: Path) -> None:
    """What a session left in memory, with all tools that read."""
    recalled = await client.call_tool("recall", {"query": "Where does Ann live?", **conversation})
    assert recalled.content[0].text.startswith(UNTRUSTED)
    assert "Lyon" in recalled.structured_content["text"]
    ask = {"question": "Where does Ann live?", "speaker": "Ben", **conversation}
    reply = await client.call_tool("ask", ask)
    assert (reply.structured_content["text"] != "", reply.structured_content["known_session"]) == (True, 1)
    timeline = await client.call_tool("timeline", {"query": "Ann moved to Lyon", **conversation})
    (memory, *_) = timeline.structured_content["memories"]
    assert "Lyon" in memory["text"]
    memory_id = memory["memory_id"]
    history = await client.call_tool("history", {"memory_id": memory_id, **conversation})
    assert history.structured_content["changes"][0]["kind"] == "added"
    asking = client.call_tool("forget", {"utterance_ids": ["u1"], **conversation})
    forgotten, _ = await asyncio.gather(asking, carry_out(SqliteErasures(folder / LEDGER)))
    assert (forgotten.structured_content["state"], "7 days" in forgotten.content[0].text) == ("done", True)


async def carry_out(ledger: SqliteErasures) -> None:
    """Say of the next request to erase that it was carried out."""
    known = {one.request_id for one in await ledger.done()}
    while not (new := [one for one in await ledger.requests() if one.request_id not in known]):  # noqa: ASYNC110 - nothing tells of them
        await asyncio.sleep(0.05)
    receipt = '{"not_covered":[{"place":"replies","why":"sent","until":"7 days"}]}'
    await ledger.finish(ErasureDone(request_id=new[0].request_id, key=new[0].key, at=new[0].at, receipt=receipt))


def with_ledger(settings: Settings, folder: Path) -> Settings:
    """The settings of a gateway that takes requests to erase; a test carries them out."""
    return settings.model_copy(update={"erasures": SecretStr(str(folder / LEDGER))})


async def until_remembered(gateway: Served, key: str, conversation: str) -> None:
    async with HttpMemoryClient(gateway.url, key=key, conversation_id=conversation) as memory:
        await memory.end_session()
    async with httpx2.AsyncClient(base_url=gateway.url, headers={"Authorization": f"Bearer {key}"}) as http:
        where = {"wait": "memory", "timeout": "60"}
        address = f"/v1/conversations/{quote(conversation, safe='')}/sessions/1"
        found = await http.get(address, params=where, timeout=70)
        assert found.json()["remembered"] is True, found.text


async def test_an_agent_over_http(at_work: Pipeline, tmp_path: Path):
    async with served(with_ledger(at_work.settings, tmp_path), tmp_path) as gateway:
        key, where = gateway.key("agents"), {"conversation_id": "http"}
        async with over_http(gateway, key) as client:
            await tell_and_find(client, where)
            await until_remembered(gateway, key, "http")
            await find_again(client, where, tmp_path)
            memory = {"query": "Lyon", "strategy": "current", **where}
            recalled = await client.call_tool("recall", memory)
        async with over_http(gateway, gateway.key("strangers")) as stranger:
            memory_id = recalled.structured_content["memory_ids"][0]
            refused = await stranger.call_tool("history", {"memory_id": memory_id, **where})
            assert "404: there is no such memory" in refused.content[0].text
            nothing = await stranger.call_tool("recall", {"query": "Where does Ann live?", **where})
            assert (nothing.structured_content["text"], nothing.structured_content["dialogue"]) == ("", [])
        async with over_http(gateway, gateway.key("agents", frozenset({KeyScope.MEMORY_READ}))) as reader:
            refused = await reader.call_tool("remember", {"text": "Hi.", "speaker": "Ann", **where})
            assert "403: this key lacks the scope 'events:write'" in refused.content[0].text
        with pytest.raises(Exception, match=r"(?s).*") as caught:
            async with over_http(gateway, "eu_000000000000_wrong") as nobody:
                await nobody.list_tools()
        assert "401" in str(_innermost(caught.value))


def _innermost(fault: BaseException) -> BaseException:
    while isinstance(fault, BaseExceptionGroup):
        fault = fault.exceptions[0]
    return fault


async def test_an_agent_over_stdio(at_work: Pipeline, tmp_path: Path):
    async with served(with_ledger(at_work.settings, tmp_path), tmp_path) as gateway:
        key = gateway.key("agents")
        async with over_stdio(gateway, key, tmp_path, "--conversation", "std/io") as client:
            assert "std/io" in client.instructions
            await tell_and_find(client, {})
            await until_remembered(gateway, key, "std/io")
            await find_again(client, {}, tmp_path)
            await find_again(client, {"conversation_id": "std/io"}, tmp_path)
        refusals = {
            "eu_000000000000_wrong": "401: the key is unknown",
            gateway.key("agents", frozenset({KeyScope.ASK})): "403: this key lacks the scope 'memory:read'",
        }
        for wrong, refusal in refusals.items():
            async with over_stdio(gateway, wrong, tmp_path) as client:
                found = await client.call_tool("recall", {"query": "Who?", "conversation_id": "std/io"})
            assert refusal in found.content[0].text
