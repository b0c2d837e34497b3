"""Tenants never meet: with another tenant's ids every route answers as if they were not there."""

import json
import re

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from eunoe.deploy.gateway.letters import is_of
from eunoe.deploy.gateway.openapi import openapi_document
from eunoe.deploy.gateway.routing import ROUTES, Route
from eunoe.deploy.settings.sections import GatewaySettings
from eunoe.schemas.events import Utterance
from eunoe.streams.settings import partition_of
from eunoe.streams.topics import Topic
from tests.support.gateway import LATER, TestGateway, make_gateway, told

BODIES = {
    "add_event": {"type": "utterance", "speaker": "Ann", "text": "hello", "utterance_id": "u1"},
    "ask": {"text": "Where does Ann live?", "speaker": "Ben", "request_id": "r1"},
    "recall": {"query": "Where does Ann live?"},
    "add_erasure": {"utterance_ids": ["u1"]},
    "plan_erasure": {"utterance_ids": ["u1"]},
}
WRITES = {"add_event", "ask", "recall"}
QUICK = {"Prefer": "wait=0.05"}
OF_ALL = ("session", "generation")
"""Parameters of paths whose values all tenants have."""
SECRETS = ("Lyon", "Rome", "Eva", "balcony")


async def populated(tmp_path) -> tuple[TestGateway, dict[str, str]]:
    """A gateway with a conversation of tenant acme, and the ids in it."""
    gateway = make_gateway(tmp_path, GatewaySettings(rate=100_000, burst=100_000))
    async with gateway.client("acme") as client:
        await told(client, "c")
        await told(client, "c", LATER)
        await told(client, "c", [{"type": "session_ended", "session_id": "never"}])
        reply = (await client.post("/v1/conversations/c/asks", json={**BODIES["ask"], "record": False})).json()
        erasure = (await client.post("/v1/conversations/c/erasures", json={})).json()
        memory = (await client.get("/v1/conversations/c/memories")).json()["memories"][0]["memory"]["memory_id"]
        letter = (await client.get("/v1/dead-letters")).json()["letters"][0]["id"]
    return gateway, {
        "conversation": "c", "session": "1", "request": "r1", "memory": memory, "root": memory,
        "generation": "v1", "reply": reply["reply_id"], "letter": letter, "erasure": erasure["request_id"],
    }  # fmt: skip


@pytest.mark.parametrize(
    "route", [route for route in ROUTES if route.result is not None], ids=lambda route: f"{route.method} {route.path}"
)
async def test_every_route_answers_for_another_tenant_as_for_ids_that_nobody_has(tmp_path, route: Route):
    gateway, ids = await populated(tmp_path)
    async with gateway.client("other") as stranger:
        found = await _called(stranger, route, ids)
        nobodys = await _called(
            stranger, route, {name: value if name in OF_ALL else "nobody" for name, value in ids.items()}
        )
    assert not any(secret in found.text for secret in SECRETS), found.text
    assert found.status_code == nobodys.status_code
    if route.parameters and route.handle.__name__ not in WRITES:
        assert found.status_code == 404
    if found.status_code >= 400:
        same = ("title", "status", "detail", "errors")
        assert [found.json().get(name) for name in same] == [nobodys.json().get(name) for name in same]


async def _called(client: httpx.AsyncClient, route: Route, ids: dict[str, str]) -> httpx.Response:
    path = route.path.format(**ids)
    if route.body is None:
        return await client.request(route.method, path, headers=QUICK)
    if route.path == "/v1/events":
        line = b'{"type":"utterance","conversation_id":"c","speaker":"Eve","text":"hi"}'
        return await client.post(path, content=line, headers={"Content-Type": "application/x-ndjson"})
    return await client.request(route.method, path, json=BODIES[route.handle.__name__], headers=QUICK)


STREAMED = [route for route in ROUTES if route.result is None]


@pytest.mark.parametrize("route", STREAMED, ids=lambda route: f"{route.method} {route.path}")
@pytest.mark.timeout(60)
async def test_no_stream_tells_of_another_tenant(tmp_path, route: Route):
    """Not even from the place that the owner's own stream named."""
    gateway, ids = await populated(tmp_path)
    path = route.path.format(**ids)
    async with gateway.served("acme") as owner, gateway.served("other") as stranger:
        async with owner.stream("GET", path) as events:
            place = (await anext(events.aiter_lines())).removeprefix("id: ")
        begin = re.sub(r":\d+(?=,|$)", ":0", place)
        async with stranger.stream("GET", path, headers={"Last-Event-ID": begin}) as events:
            lines = events.aiter_lines()
            await told(
                owner,
                "c",
                [
                    {**event, "session_id": "s9", "utterance_id": f"z{place}"}
                    if "speaker" in event
                    else {**event, "session_id": "s9"}
                    for place, event in enumerate(LATER)
                ],
            )
            await told(stranger, "c", [{"type": "utterance", "speaker": "Eve", "text": "I like tea."}])
            await told(stranger, "c", [{"type": "session_ended"}])
            told_ = [json.loads(await _data_of(lines, "remembered"))]
    assert [(one["conversation_id"], one["session"]) for one in told_] == [("c", 1)]


async def _data_of(lines, event: str) -> str:
    """The data of the next event of this name."""
    async for line in lines:
        if line == f"event: {event}":
            return (await anext(lines)).removeprefix("data: ")
    raise AssertionError("the stream ended")


async def test_a_place_of_another_tenants_ask_gives_no_reply(tmp_path):
    gateway, ids = await populated(tmp_path)
    async with gateway.client("other") as stranger:
        path = f"/v1/conversations/{ids['conversation']}/asks/{ids['request']}"
        partition = partition_of(b"other/c", gateway.log.log.partitions)
        for place in range(gateway.log.end(Topic.REPLIES, partition) + 1):
            found = await stranger.get(path, headers={**QUICK, "Last-Event-ID": f"{partition}:{place}"})
            assert found.status_code == 202
            assert "Lyon" not in found.text


def test_every_route_is_tried_with_another_tenants_ids():
    """By the tests above: those with an answer, and those that stream."""
    documented = {(method.upper(), path) for path, methods in openapi_document()["paths"].items() for method in methods}
    tried = {(route.method, route.path) for route in ROUTES if route.result is not None or route in STREAMED}
    assert documented - tried == {("GET", "/v1/openapi.json")}


async def test_a_stranger_writes_into_a_conversation_of_its_own(tmp_path):
    gateway, _ = await populated(tmp_path)
    async with gateway.client("other") as stranger, gateway.client("acme") as owner:
        before = (await owner.get("/v1/conversations/c")).json()
        await told(stranger, "c", [{"type": "utterance", "utterance_id": "u1", "speaker": "Eve", "text": "mine"}])
        assert (await owner.get("/v1/conversations/c")).json() == before
        assert (await stranger.get("/v1/conversations/c")).json()["sessions"] == 0
    events = gateway.pipeline.events(Topic.CONVERSATIONS)
    assert {event.key for event in events if isinstance(event, Utterance)} == {"acme/c", "other/c"}


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(tenant=st.text(min_size=1, max_size=12), conversation=st.text(min_size=1, max_size=12))
async def test_no_choice_of_ids_reaches_another_tenant(tmp_path_factory, tenant: str, conversation: str):
    """The tenant of a key and the ids of paths are quoted apart, whatever they hold."""
    state = await _shared(tmp_path_factory)
    key = state.key(tenant) if _is_id(tenant) and tenant not in ("acme", "*") else None
    if key is None or not _is_id(conversation):
        return
    path = "/v1/conversations/" + "".join(f"%{byte:02X}" for byte in conversation.encode())
    transport = httpx.ASGITransport(app=state.app)
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway", headers=headers) as client:
        for rest in ("", "/memories", "/sessions", "/tree", "/timelines", "/state"):
            assert (await client.get(path + rest)).status_code == 404
        assert (await client.get("/v1/conversations")).json()["conversations"] == []
        assert (await client.get("/v1/dead-letters")).json()["letters"] == []


_kept: list[TestGateway] = []


async def _shared(tmp_path_factory) -> TestGateway:
    if not _kept:
        _kept.append((await populated(tmp_path_factory.mktemp("keys")))[0])
    return _kept[0]


def _is_id(text: str) -> bool:
    clean = text == text.strip() and not any(ord(char) < 32 or 127 <= ord(char) < 160 for char in text)
    return clean and not any("\ud800" <= char <= "\udfff" or char in "\u2028\u2029" for char in text)


@pytest.mark.parametrize(
    ("key", "tenant", "prefix", "is_seen"),
    [
        ("a/team-1", "*", "team-", True), ("a/c1", "*", "team-", False), (None, "*", "team-", False),
        ("damaged", "*", "team-", False), (None, "*", "", True), ("a/c1", "*", "", True),
        ("b/team-1", "a", "team-", False),
    ],
)  # fmt: skip
def test_a_key_of_all_tenants_sees_the_letters_of_its_prefix(key, tenant, prefix, is_seen):
    assert is_of(key, tenant, prefix) is is_seen
