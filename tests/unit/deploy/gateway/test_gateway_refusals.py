"""The gateway under bad input: every refusal is a problem document, and nothing is half accepted."""

import asyncio
import gzip
import json
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from pydantic import ValidationError

from eunoe.deploy.gateway.keys import KeyScope
from eunoe.deploy.gateway.routing import ROUTES
from eunoe.deploy.settings.sections import GatewaySettings
from eunoe.streams.topics import Topic
from tests.support.gateway import TestGateway, make_gateway, told

C = "/v1/conversations/c"
EVENT = {"type": "utterance", "speaker": "Ann", "text": "hello"}
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def gateway(tmp_path) -> TestGateway:
    return make_gateway(tmp_path)


def said(gateway: TestGateway) -> list:
    return gateway.pipeline.events(Topic.CONVERSATIONS)


def check(answer: httpx.Response, status: int) -> dict:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["status"] == status
    assert problem["instance"] == answer.headers["x-request-id"]
    assert problem["detail"]
    return problem


# ---- credentials


@pytest.mark.parametrize("header", [None, "", "Bearer ", "Basic eu_x", "Bearer eu_000000000000_wrong", "Bearer a.b.c"])
async def test_a_missing_or_wrong_key_is_401(gateway, header):
    async with gateway.client() as client:
        client.headers.pop("Authorization")
        answer = await client.get("/v1/conversations", headers={} if header is None else {"Authorization": header})
    check(answer, 401)
    assert answer.headers["www-authenticate"] == "Bearer"


async def test_an_expired_and_a_revoked_key_are_401(gateway):
    past = datetime.now(UTC) - timedelta(seconds=1)
    async with gateway.client(expires=past) as expired, gateway.client() as client:
        check(await expired.get("/v1/conversations"), 401)
        assert (await client.get("/v1/conversations")).status_code == 200
        gateway.keys.revoke([key.id for key in gateway.keys.all()])
        check(await client.get("/v1/conversations"), 401)


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
async def test_every_route_needs_its_scope(gateway, route):
    path = route.path.format(**dict.fromkeys(route.parameters, "1"))
    async with gateway.client(scopes=frozenset(KeyScope) - {route.scope}) as client:
        assert route.scope.value in check(await client.request(route.method, path), 403)["detail"]


async def test_a_tenant_in_a_body_is_refused(gateway):
    async with gateway.client() as client:
        problem = check(await client.post(f"{C}/events", json={**EVENT, "tenant": "other"}), 422)
    assert [fault["field"] for fault in problem["errors"]] == ["tenant"]


async def test_faults_of_fields_say_what_to_do(gateway):
    bodies = (
        {**EVENT, "tenant": "other"},
        {**EVENT, "mood": 1},
        {"type": "said"},
        {**EVENT, "at": "1700-01-01T00:00:00Z"},
    )
    async with gateway.client() as client:
        found = [check(await client.post(f"{C}/events", json=body), 422)["errors"][0]["message"] for body in bodies]
        unreadable = check(await client.post(f"{C}/events", content=b"{", headers=JSON), 422)
    assert found == [
        "is not given: the tenant is that of the key",
        "is unknown here; /v1/openapi.json lists the fields",
        "must be 'utterance' or 'session_ended'",
        "must lie between 1900 and tomorrow",
    ]
    assert unreadable["detail"] == "the body is no JSON text"


# ---- bodies


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({**EVENT, "colour": "red"}, "colour"),
        ({**EVENT, "at": "yesterday"}, "at"),
        ({**EVENT, "at": "2026-01-01T00:00:00"}, "at"),
        ({**EVENT, "at": "1899-12-31T23:59:59Z"}, "at"),
        ({**EVENT, "at": "9999-01-01T00:00:00Z"}, "at"),
        ({**EVENT, "at": (datetime.now(UTC) + timedelta(days=2)).isoformat()}, "at"),
        ({**EVENT, "text": " "}, "text"),
        ({**EVENT, "text": "é" * 20_000}, "text"),
        ({**EVENT, "speaker": "x" * 101}, "speaker"),
        ({**EVENT, "utterance_id": "a\nb"}, "utterance_id"),
        ({"type": "utterance", "speaker": "Ann"}, "text"),
        ({"type": "hello"}, "type"),
        ({"speaker": "Ann", "text": "hello"}, "type"),
        ([], "body"),
        ("hello", "body"),
        (None, "body"),
    ],
    ids=lambda value: str(value)[:60].encode("unicode_escape").decode(),
)
async def test_a_wrong_body_is_422_and_names_the_field(gateway, body, field):
    async with gateway.client() as client:
        problem = check(await client.post(f"{C}/events", content=json.dumps(body), headers=JSON), 422)
    assert field in {fault["field"] for fault in problem["errors"]}
    assert "hello" not in json.dumps(problem)
    assert not said(gateway)


@pytest.mark.parametrize("raw", [b"", b"{", b"\xff\xfe", b'{"a":' * 5000, b'"\\ud800"', b"NaN", b"0" * 10_000])
async def test_what_is_no_json_is_422(gateway, raw):
    async with gateway.client() as client:
        check(await client.post(f"{C}/events", content=raw, headers=JSON), 422)


@pytest.mark.parametrize("type_", [None, "text/plain", "application/x-www-form-urlencoded", "application/x-ndjson"])
async def test_another_content_type_is_415(gateway, type_):
    headers = {} if type_ is None else {"Content-Type": type_}
    async with gateway.client() as client:
        check(await client.post(f"{C}/events", content=json.dumps(EVENT), headers=headers), 415)
        check(await client.post("/v1/events", content=json.dumps(EVENT), headers=JSON), 415)


async def test_a_body_in_an_encoding_is_415(gateway):
    async with gateway.client() as client:
        packed = gzip.compress(json.dumps(EVENT).encode())
        answer = await client.post(f"{C}/events", content=packed, headers={**JSON, "Content-Encoding": "gzip"})
        assert "Content-Encoding" in check(answer, 415)["detail"]
        plain = await client.post(f"{C}/events", json=EVENT, headers={"Content-Encoding": "identity"})
        assert plain.status_code == 202


async def test_a_text_over_the_limit_is_told_in_bytes_and_a_long_name_of_a_field_is_cut(gateway):
    async with gateway.client() as client:
        long = check(await client.post(f"{C}/events", json={**EVENT, "text": "a" * 33_000}), 422)
        strange = check(await client.post(f"{C}/events", json={**EVENT, "f" * 50_000: 1}), 422)
    assert [one["message"] for one in long["errors"]] == ["has 33,000 bytes of UTF-8, the limit is 32,768"]
    assert [len(one["field"]) for one in strange["errors"]] == [200]


async def test_a_plus_sign_in_a_time_of_a_query_is_told_to_be_escaped(gateway):
    async with gateway.client() as client:
        await told(client)
        plain = await client.get(f"{C}/memories?at=2026-01-01T00:00:00+01:00")
        assert "%2B" in check(plain, 422)["detail"]
        assert (await client.get(f"{C}/memories?at=2026-01-01T00:00:00%2B01:00")).status_code == 200
        assert "%2B" not in check(await client.get(f"{C}/memories?at=yesterday"), 422)["detail"]


async def test_no_answer_with_memory_or_a_fault_is_kept_by_a_browser(gateway):
    async with gateway.client() as client:
        await told(client)
        answers = [await client.get(f"{C}/memories"), await client.get("/v1/nothing"), await client.post("/mcp")]
        page = await client.get("/")
    for answer in answers:
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert page.headers["cache-control"] == "no-cache"


@pytest.mark.parametrize("budget", [0, 16_001, 10**30, -1, 1.5, "many"])
async def test_a_budget_out_of_bounds_is_422(gateway, budget):
    async with gateway.client() as client:
        check(await client.post(f"{C}/recall", json={"query": "Where?", "budget_tokens": budget}), 422)
        check(await client.post(f"{C}/asks", json={"text": "Where?", "speaker": "A", "budget_tokens": budget}), 422)


async def test_a_body_that_is_too_large_is_413_with_and_without_its_length(tmp_path):
    gateway = make_gateway(tmp_path, GatewaySettings(body_bytes=65_536, batch_bytes=65_536))

    async def pieces():
        for _ in range(100):
            yield b" " * 1000

    async with gateway.client() as client:
        for content in (b" " * 100_000, pieces()):
            check(await client.post(f"{C}/events", content=content, headers=JSON), 413)
        lines = b"{}\n" * 1_001
        check(await client.post("/v1/events", content=lines, headers={"Content-Type": "application/x-ndjson"}), 413)
    assert not said(gateway)


async def test_a_body_that_does_not_end_is_408(tmp_path):
    gateway = make_gateway(tmp_path, GatewaySettings(body_seconds=0.05))

    async def slow():
        yield b"{"
        await asyncio.sleep(5)
        yield b"}"

    async with gateway.client() as client:
        check(await client.post(f"{C}/events", content=slow(), headers=JSON), 408)


# ---- paths and queries


async def test_unknown_addresses_and_methods(gateway):
    async with gateway.client() as client:
        for path in ("/v1", "/v2/conversations", "/v1/conversations/c/nothing", "/v1/conversations//events"):
            check(await client.get(path), 404)
        answer = await client.delete(C)
        check(answer, 405)
        assert answer.headers["allow"] == "GET, HEAD"


@pytest.mark.parametrize("part", ["%0A", "%ff", "x" * 201, "%20a", "%E2%80%A8", "a%zzb", "100%", "%4"])
async def test_a_part_of_a_path_that_is_no_id_is_422(gateway, part):
    async with gateway.client() as client:
        check(await client.get(f"/v1/conversations/{part}"), 422)


async def test_ids_may_hold_slashes_and_percent_signs(gateway):
    async with gateway.client() as client:
        for name in ("a/b", "a%2Fb", "ü {x}"):
            path = "/v1/conversations/" + "".join(f"%{byte:02X}" for byte in name.encode())
            assert (await client.post(f"{path}/events", json=EVENT)).status_code == 202
            assert (await client.get(path)).json()["conversation_id"] == name
    assert {event.conversation_id for event in said(gateway)} == {"a/b", "a%2Fb", "ü {x}"}


@pytest.mark.parametrize(
    "query",
    ["limit=0", "limit=201", "limit=x", "tyop=1", "cursor=nonsense", "cursor=WzEsMl0", "cursor=" + "x" * 600],
)
async def test_wrong_parameters_are_422(gateway, query):
    async with gateway.client() as client:
        check(await client.get(f"/v1/conversations?{query}"), 422)


@pytest.mark.parametrize("place", ["x", "1", "9:1", "1:x", "1:" + "9" * 30])
async def test_a_place_of_another_stream_is_422(gateway, place):
    async with gateway.client() as client:
        check(await client.get(f"{C}/asks/r1", headers={"Last-Event-ID": place}), 422)
        check(await client.get(f"{C}/remembered", headers={"Last-Event-ID": place}), 422)


# ---- servers that are away


async def test_without_the_broker_nothing_is_accepted(gateway):
    async with gateway.client() as client:
        await told(client)
        before = len(said(gateway))
        gateway.log.away = True
        for path, body in (
            (f"{C}/events", EVENT),
            (f"{C}/asks", {"text": "Where?", "speaker": "Ann"}),
            (f"{C}/recall", {"query": "Where?"}),
        ):
            answer = await client.post(path, json=body)
            assert "Kafka" in check(answer, 503)["detail"]
            assert "nowhere" not in answer.text
            assert int(answer.headers["retry-after"]) > 0
        assert (await client.get(f"{C}/memories")).status_code == 200
    gateway.log.away = False
    assert len(said(gateway)) == before


async def test_without_redis_reads_fail_and_events_of_their_own_id_and_time_go(gateway):
    whole = {**EVENT, "utterance_id": "u1", "at": "2026-01-01T00:00:00Z"}
    async with gateway.client() as client:
        gateway.notes.away = gateway.states.away = True
        for path in (C, f"{C}/memories", "/v1/conversations", f"{C}/sessions/1", f"{C}/tree", f"{C}/asks/r1"):
            check(await client.get(path), 503)
        assert (await client.post(f"{C}/events", json=whole)).status_code == 202
        assert (await client.post(f"{C}/events", json=EVENT)).status_code == 202
        check(await client.post(f"{C}/events", json={**EVENT, "utterance_id": "u2"}), 503)
    assert len(said(gateway)) == 2


# ---- limits


async def test_too_many_requests_are_429_and_say_when_to_come_again(tmp_path):
    gateway = make_gateway(tmp_path, GatewaySettings(rate=1, burst=100))
    async with gateway.client() as client, gateway.client() as other:
        answers = [await client.get("/v1/conversations") for _ in range(102)]
        assert {answer.status_code for answer in answers[:100]} == {200}
        check(answers[-1], 429)
        assert 1 <= int(answers[-1].headers["retry-after"]) <= 2
        assert (await other.get("/v1/conversations")).status_code == 200


async def test_a_web_page_is_let_in_from_its_exact_origin_only(tmp_path):
    gateway = make_gateway(tmp_path, GatewaySettings(cors_origins="https://chat.example"))
    async with gateway.client() as client:
        for origin, allowed in (("https://chat.example", True), ("https://chat.example.evil", False), ("null", False)):
            answer = await client.get("/v1/conversations", headers={"Origin": origin})
            assert (answer.headers.get("access-control-allow-origin") == origin) is allowed
            asked = await client.options("/v1/conversations", headers={"Origin": origin})
            assert allowed or "EUNOE_GATEWAY__CORS_ORIGINS" in check(asked, 403)["detail"]
            assert (asked.status_code == 204) is allowed
            assert ("traceparent" in asked.headers.get("access-control-allow-headers", "")) is allowed


@pytest.mark.parametrize(
    "origins",
    ["", "https://chat.example", " http://localhost:5173 , null,https://b.example:8443,", "tauri://localhost"],
)
def test_origins_that_browsers_send_are_taken(origins):
    assert GatewaySettings(cors_origins=origins).cors_origins == origins


@pytest.mark.parametrize(
    "origin",
    ["*", "https://*.example", "https://chat.example/", "https://chat.example/app", "chat.example", "HTTPS://chat.example",
     "https://Chat.example", "https://chat.example:443", "http://chat.example:80", "https://a.example https://b.example"],
)  # fmt: skip
def test_an_origin_that_no_browser_sends_is_refused_at_the_start(origin):
    with pytest.raises(ValidationError, match="no browser sends origin 2 of these"):
        GatewaySettings(cors_origins=f"https://a.example,{origin}")


async def test_a_fault_of_the_gateway_itself_is_500_without_its_text(gateway, caplog):
    async def broken() -> None:
        raise RuntimeError("secret")

    gateway.states.live = broken
    async with gateway.client() as client:
        answer = await client.get(C)
    check(answer, 500)
    assert "secret" not in answer.text
    assert "secret" in caplog.text
