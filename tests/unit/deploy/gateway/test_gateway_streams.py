"""Streams of the gateway over real connections: asks, their resumption, what becomes memory, and their end."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx
import pytest

from eunoe.deploy.gateway.routes.answers import accepts_stream
from eunoe.deploy.generations.followers import tell_followers
from eunoe.deploy.settings.sections import GatewaySettings
from eunoe.schemas.memory import DerivedReason
from eunoe.streams.feed import Subscription
from eunoe.streams.record import Record
from eunoe.streams.settings import partition_of
from eunoe.streams.topics import Topic
from tests.support.gateway import LATER, SESSION, TestGateway, make_gateway, told

C = "/v1/conversations/c"
STREAM = {"Accept": "text/event-stream"}
ASK = {"text": "Where does Ann live?", "speaker": "Ben", "record": False}

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def gateway(tmp_path) -> TestGateway:
    return make_gateway(tmp_path, GatewaySettings(ping_seconds=0.05, shutdown_seconds=3))


class Events:
    """Reads the events of a stream one by one."""

    def __init__(self, answer: httpx.Response) -> None:
        self._lines = answer.aiter_lines()
        self.pings = 0

    async def next(self) -> dict[str, str] | None:
        found: dict[str, str] = {}
        async for line in self._lines:
            if line.startswith(":"):
                self.pings += 1
            elif line:
                name, _, value = line.partition(": ")
                found[name] = value
            elif found:
                return found
        return None

    async def data(self, event: str) -> dict:
        found = await self.next()
        assert found is not None
        assert found["event"] == event, found
        return json.loads(found["data"])


@asynccontextmanager
async def stream(
    client: httpx.AsyncClient, path: str, body: dict | None = None, **headers: str
) -> AsyncIterator[Events]:
    method = "GET" if body is None else "POST"
    async with client.stream(method, path, json=body, headers={**STREAM, **headers}) as answer:
        assert answer.status_code == 200, await answer.aread()
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["cache-control"] == "no-store"
        yield Events(answer)


async def until_closed(gateway: TestGateway) -> None:
    while gateway.app.gateway.streams.open:  # noqa: ASYNC110 - nothing tells
        await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("accept", "streams"),
    [
        ("text/event-stream", True),
        ("application/json, Text/Event-Stream ; q=0.5", True),
        ("text/event-stream;q=0", False),
        ("application/json, text/event-stream; q=0.000", False),
        ("*/*", False),
        ("text/event-streams", False),
        ("", False),
    ],
)
def test_a_stream_is_given_to_whom_accepts_one(accept, streams):
    assert accepts_stream(accept) is streams


async def test_an_ask_is_accepted_and_then_answered(gateway):
    async with gateway.served() as client:
        await told(client)
        async with stream(client, f"{C}/asks", ASK) as events:
            accepted = await events.data("accepted")
            reply = await events.data("reply")
            assert await events.next() is None
        await until_closed(gateway)
    assert reply["request_id"] == accepted["request_id"]
    assert accepted["position"]["topic"] == "conversations"


async def test_a_broken_ask_is_resumed_where_it_was(gateway):
    async with gateway.served() as client:
        await told(client)
        gateway.log.lagging = True
        async with stream(client, f"{C}/asks", ASK) as events:
            first = await events.next()
            assert first is not None
        await until_closed(gateway)
        path = f"{C}/asks/{json.loads(first['data'])['request_id']}"
        async with stream(client, path, **{"Last-Event-ID": first["id"]}) as events:
            await events.data("accepted")
            await gateway.log.catch_up()
            reply = await events.data("reply")
        async with stream(client, path, **{"Last-Event-ID": first["id"]}) as events:
            await events.data("accepted")
            assert await events.data("reply") == reply


async def test_an_ask_whose_answer_went_with_the_broker_is_to_be_asked_again(gateway):
    ask = {**ASK, "request_id": "r1"}
    async with gateway.client() as client:
        await told(client)
        first = await client.post(f"{C}/asks", json=ask)
        assert (first.status_code, (await client.get(f"{C}/asks/r1")).json()) == (200, first.json())
        gateway.begin_anew()
        resumed = await client.get(f"{C}/asks/r1")
        place = f"{partition_of(b'acme/c', gateway.log.log.partitions)}:0"
        behind = await client.get(f"{C}/asks/r1", headers={**STREAM, "Last-Event-ID": place})
        for found in (resumed, behind, await client.post(f"{C}/asks", json=ask)):
            assert (found.status_code, found.json()["request_id"]) == (410, "r1"), found.text
            assert "ask again, with another request_id and utterance_id" in found.json()["detail"]
        again = await client.post(f"{C}/asks", json={**ASK, "request_id": "r2"})
        assert again.status_code == 200
        assert (await client.get(f"{C}/asks/r2")).json() == again.json(), "its place is one of this epoch"


async def test_an_ask_is_answered_behind_a_place_that_the_log_of_answers_has_lost(gateway):
    async with gateway.client() as client:
        await told(client)
        first = await client.post(f"{C}/asks", json={**ASK, "request_id": "r1"})
        place = f"{partition_of(b'acme/c', gateway.log.log.partitions)}:1000"
        behind = await client.get(f"{C}/asks/r1", headers={"Last-Event-ID": place, "Prefer": "wait=1"})
    assert (behind.status_code, behind.json()) == (200, first.json())


async def test_an_ask_that_was_not_answered_before_the_broker_began_anew_is_answered(gateway):
    async with gateway.client() as client:
        await told(client)
        gateway.log.lagging = True
        ask = {**ASK, "request_id": "r1"}
        late = await client.post(f"{C}/asks", json=ask, headers={"Prefer": "wait=0"})
        assert late.status_code == 202
        gateway.begin_anew()
        asking = client.get(f"{C}/asks/r1"), client.post(f"{C}/asks", json=ask)
        waiting = [asyncio.ensure_future(one) for one in asking]
        while gateway.app.gateway.waits.open < 2:  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.01)
        await gateway.log.catch_up()
        replies = [await one for one in waiting]
        assert [one.status_code for one in replies] == [200, 200]
        assert (await client.get(f"{C}/asks/r1")).json() == replies[0].json() == replies[1].json()


async def test_a_silent_stream_is_kept_open_and_told_when_the_process_ends(gateway):
    async with gateway.served() as client:
        gateway.log.lagging = True
        async with stream(client, f"{C}/asks", ASK) as asked, stream(client, f"{C}/remembered") as followed:
            await asked.data("accepted")
            await followed.data("ready")
            while not (asked.pings or followed.pings):
                reading = asyncio.ensure_future(asked.next())
                await asyncio.wait({reading}, timeout=0.2)
                if asked.pings:
                    gateway.app.gateway.closing.set()
                    found = await reading
                    assert found is not None
                    assert found["event"] == "closing"
            assert await asked.next() is None
            await followed.data("closing")
            assert await followed.next() is None


@pytest.mark.parametrize("path", [f"{C}/remembered", "/v1/remembered"])
async def test_a_stream_tells_nothing_more_to_a_key_that_was_revoked(gateway, path):
    async with gateway.served() as client, gateway.served() as other:
        async with stream(client, path) as events:
            await events.data("ready")
            revoked = client.headers["authorization"].split("_")[1]
            gateway.keys.revoke([revoked])
            await told(other)
            assert (await events.data("error"))["status"] == 401
            assert await events.next() is None
        async with stream(other, path) as events:
            await events.data("ready")


async def test_sessions_are_told_as_they_become_memory(gateway):
    async with gateway.served() as client, gateway.served("other") as other:
        async with stream(client, f"{C}/remembered") as one, stream(client, "/v1/remembered") as all_:
            await one.data("ready")
            await all_.data("ready")
            await told(other)
            await told(client)
            await told(client, "d")
            first = await one.next()
            assert first is not None
            told_ = [await all_.data("remembered") for _ in range(2)]
        session = json.loads(first["data"])
        assert (session["conversation_id"], session["session"], session["partial"]) == ("c", 1, False)
        assert session["changes"]["added"] >= 1
        assert {each["conversation_id"] for each in told_} == {"c", "d"}
        await told(client, events=LATER)
        async with stream(client, f"{C}/remembered", **{"Last-Event-ID": first["id"]}) as resumed:
            await resumed.data("ready")
            assert (await resumed.data("remembered"))["session"] == 2


async def test_a_conversation_that_was_derived_again_is_told_to_those_who_follow_it(gateway):
    async with gateway.served() as client, gateway.served("other") as other:
        await told(client)
        async with (
            stream(client, f"{C}/remembered") as one,
            stream(client, "/v1/remembered") as all_,
            stream(client, "/v1/conversations/d/remembered") as beside,
            stream(other, "/v1/remembered") as strange,
        ):
            for events in (one, all_, beside, strange):
                await events.data("ready")
            await tell_followers(gateway.log, "acme/c", DerivedReason.ERASED)
            derived = await one.next()
            assert derived is not None
            assert (derived["event"], json.loads(derived["data"])) == (
                "derived",
                {"conversation_id": "c", "reason": "erased"},
            )
            assert (await all_.data("derived"))["conversation_id"] == "c"
            await told(client, events=LATER)
            assert (await one.data("remembered"))["session"] == 2
            await tell_followers(gateway.log, "acme/d", DerivedReason.REPAIRED)
            await tell_followers(gateway.log, "other/c", DerivedReason.REPAIRED)
            assert await beside.data("derived") == {"conversation_id": "d", "reason": "repaired"}
            assert await strange.data("derived") == {"conversation_id": "c", "reason": "repaired"}
        async with stream(client, f"{C}/remembered", **{"Last-Event-ID": derived["id"]}) as resumed:
            await resumed.data("ready")
            assert (await resumed.data("remembered"))["session"] == 2


async def test_a_place_in_another_generation_is_reset(gateway):
    async with gateway.served() as client:
        await told(client)
        async with stream(client, f"{C}/remembered") as events:
            ready = await events.next()
            assert ready is not None
        old = ready["id"].replace("v1:", "v0:")
        async with stream(client, f"{C}/remembered", **{"Last-Event-ID": old}) as events:
            assert (await events.data("reset"))["generation"] == "v1"
            gateway.states.state = replace(gateway.states.state, generation="v2")
            assert (await events.data("reset"))["generation"] == "v2"
            assert await events.next() is None


@pytest.mark.parametrize("path", [f"{C}/remembered", "/v1/remembered"])
async def test_a_place_behind_the_end_of_the_feed_is_reset_and_what_comes_then_is_told(gateway, path):
    async with gateway.served() as client:
        await told(client)
        async with stream(client, path) as events:
            ready = await events.next()
            assert ready is not None
        lost = re.sub(r":(\d+)(?=,|$)", lambda found: f":{int(found[1]) + 1}", ready["id"])
        async with stream(client, path, **{"Last-Event-ID": lost}) as events:
            reset = await events.next()
            assert reset is not None
            assert (reset["event"], reset["id"]) == ("reset", ready["id"])
            await told(client, events=LATER)
            assert (await events.data("remembered"))["session"] == 2


@pytest.mark.parametrize("path", [f"{C}/remembered", "/v1/remembered"])
async def test_a_place_from_before_the_log_got_other_partitions_is_reset(gateway, path):
    async with gateway.served() as client:
        await told(client)
        async with stream(client, path, **{"Last-Event-ID": "v0:97:5,98:0,99:12"}) as events:
            assert (await events.data("reset"))["generation"] == "v1"
        same = await client.get(path, headers={"Last-Event-ID": "v1:97:5,98:0,99:12"})
        assert same.status_code == 422
        empty = await client.get(f"{path}?last_event_id=v0:97:5", headers={"Last-Event-ID": ""})
        assert empty.status_code == 422, "the header goes before the query, also an empty one"


@pytest.mark.parametrize("path", [f"{C}/remembered", "/v1/remembered"])
async def test_a_place_in_a_topic_that_was_created_anew_is_reset(gateway, path):
    """As after a start of `eunoe up`: the stream would wait until as many records as before have come."""
    async with gateway.served() as client:
        async with stream(client, path) as events:
            ready = await events.next()
            assert ready is not None
        old = ready["id"].replace(":0", ":7")
        assert old.startswith("v1:")
        for epoch, (before, now) in enumerate((("v1:", "v1-1:"), ("v1-1:", "v1-2:")), 1):
            gateway.states.state = replace(gateway.states.state, epoch=epoch)
            async with stream(client, path, **{"Last-Event-ID": old.replace("v1:", before)}) as events:
                found = await events.next()
                assert found is not None
                assert (found["event"], found["id"].startswith(now)) == ("reset", True)
                await told(client, events=(SESSION, LATER)[epoch - 1])
                assert (await events.data("remembered"))["session"] == epoch
        async with stream(client, path, **{"Last-Event-ID": found["id"]}) as events:
            await events.data("ready")


async def test_a_client_that_leaves_is_noticed_in_every_phase(gateway):
    async with gateway.served() as client:
        gateway.log.lagging = True
        for path, body in ((f"{C}/asks", ASK), (f"{C}/remembered", None), ("/v1/remembered", None)):
            async with stream(client, path, body) as events:
                await events.next()
                assert gateway.app.gateway.streams.open == 1
            await until_closed(gateway)
        with pytest.raises(httpx.ReadTimeout):
            await client.post(f"{C}/recall", json={"query": "Where?"}, timeout=httpx.Timeout(20, read=0.1))
        while gateway.log._subscriptions:  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.01)


async def test_streams_are_bounded_for_a_key_and_for_the_process(tmp_path):
    gateway = make_gateway(tmp_path, GatewaySettings(streams=3, streams_per_caller=2, shutdown_seconds=3))
    async with gateway.served() as client, gateway.served("other") as other:
        async with stream(client, "/v1/remembered"), stream(client, f"{C}/remembered"):
            for path in ("/v1/remembered", f"{C}/remembered"):
                refused = await client.get(path)
                assert (refused.status_code, refused.headers["retry-after"]) == (429, "10")
            async with stream(other, "/v1/remembered"):
                async with gateway_client(gateway, other) as stranger:
                    third = await stranger.get("/v1/remembered")
                assert third.status_code == 503
        await until_closed(gateway)
        async with stream(client, "/v1/remembered"):
            pass


async def test_streams_are_bounded_for_a_tenant_with_many_keys(tmp_path):
    gateway = make_gateway(tmp_path, GatewaySettings(streams=4, streams_per_caller=2, streams_per_tenant=3))
    async with gateway.served() as client, gateway.served() as second, gateway.served("other") as other:
        async with (
            stream(client, "/v1/remembered"),
            stream(client, f"{C}/remembered"),
            stream(second, "/v1/remembered"),
        ):
            for path, body in (("/v1/remembered", None), (f"{C}/asks", ASK)):
                async with second.stream("POST" if body else "GET", path, json=body, headers=STREAM) as refused:
                    assert (refused.status_code, refused.headers["retry-after"]) == (429, "10")
                    assert "the keys of this tenant have 3 open streams" in json.loads(await refused.aread())["detail"]
            assert gateway.pipeline.events(Topic.CONVERSATIONS) == [], "a refused ask leaves nothing in the log"
            async with stream(other, "/v1/remembered"):
                pass
        await until_closed(gateway)
        async with stream(second, "/v1/remembered"):
            pass


class Backlogs:
    """The log of a gateway, whose streams read what they missed in turns; each holds its turn until ``gate``."""

    def __init__(self, gateway: TestGateway, monkeypatch: pytest.MonkeyPatch) -> None:
        self.gate, self.at_once, self.most, self.read = asyncio.Event(), 0, 0, 0
        self._subscribe = gateway.log.subscribe
        monkeypatch.setattr(gateway.log, "subscribe", self.subscribe)

    @asynccontextmanager
    async def subscribe(self, *words: Any) -> AsyncIterator[Subscription]:
        async with self._subscribe(*words) as subscription:
            if any(offset is not None for offset in words[1].values()):
                subscription.backlog = self._backlog(subscription)
            yield subscription

    async def _backlog(self, subscription: Subscription) -> AsyncGenerator[Record]:
        async with subscription.turn():
            self.at_once += 1
            self.most = max(self.most, self.at_once)
            try:
                await self.gate.wait()
            finally:
                self.at_once -= 1
            self.read += 1
        for _ in ():
            yield Record("none", 0, 0, None, b"", 0, {})


@pytest.mark.parametrize("path", ["/v1/remembered", f"{C}/remembered"])
async def test_few_streams_read_at_once_what_they_missed(tmp_path, monkeypatch, path):
    gateway = make_gateway(tmp_path)
    log = Backlogs(gateway, monkeypatch)
    async with AsyncExitStack() as opened:
        client = await opened.enter_async_context(gateway.served())
        keys = [{"Authorization": f"Bearer {gateway.key(tenant)}"} for tenant in [*["acme"] * 3, "other"]]
        await told(client)
        ready = await (await opened.enter_async_context(stream(client, path))).next()
        assert ready is not None
        resumed, kept = {"Last-Event-ID": ready["id"]}, []
        for headers in keys * 3:
            kept.append(await opened.enter_async_context(stream(client, path, **resumed, **headers)))
            await kept[-1].data("ready")
        while log.at_once < 4 + 2:  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        assert log.at_once == 4 + 2, "four of the tenant with three keys, two of the other's key"
        log.gate.set()
        while log.read < 12:  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.01)
        assert log.most <= 8


async def test_a_stream_that_reads_what_it_missed_counts_as_six_requests(tmp_path, monkeypatch):
    gateway = make_gateway(tmp_path, GatewaySettings(rate=0.001, burst=100))
    Backlogs(gateway, monkeypatch).gate.set()
    async with gateway.served() as client:
        async with stream(client, f"{C}/remembered") as events:
            ready = await events.next()
            assert ready is not None
        resumed = {"Last-Event-ID": ready["id"]}
        for _ in range(16):
            async with stream(client, f"{C}/remembered", **resumed) as events:
                await events.data("ready")
        refused = await client.get(f"{C}/remembered", headers=resumed)
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) > 0
        await until_closed(gateway)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [("POST", "asks", ASK), ("POST", "recall", {"query": "Where?"}), ("GET", "sessions/last?wait=memory", None)],
)
async def test_waits_are_bounded_for_a_key_and_for_a_tenant(tmp_path, method, path, body):
    gateway = make_gateway(tmp_path, GatewaySettings(streams_per_caller=1, streams_per_tenant=2))
    waits = gateway.app.gateway.waits
    async with gateway.client() as first, gateway.client() as second, gateway.client() as third:
        await told(first)
        gateway.log.lagging = True
        await told(first, events=LATER)
        waiting = []
        for client in (first, second):
            waiting.append(asyncio.ensure_future(client.post(f"{C}/asks", json=ASK)))
            while waits.open < len(waiting):  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0.01)
        for client, whose in ((first, "this key has 1"), (third, "the keys of this tenant have 2")):
            refused = await client.request(method, f"{C}/{path}", json=body)
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "10")
            assert f"{whose} waiting requests" in refused.json()["detail"]
        shown = await third.get(f"{C}/sessions/last")
        assert shown.status_code == 200, "who does not wait is not counted"
        await gateway.log.catch_up()
        assert [(await one).status_code for one in waiting] == [200, 200]
        assert (await third.request(method, f"{C}/{path}", json=body)).status_code == 200
    assert waits.open == 0


async def test_metrics_show_the_streams_and_the_waits_that_are_open(gateway):
    open_requests = gateway.app.gateway.streams, gateway.app.gateway.waits

    def shown() -> list[str]:
        lines = gateway.app.meter.text().decode().splitlines()
        return [line for line in lines if line.startswith(("eunoe_gateway_streams ", "eunoe_gateway_waits "))]

    assert shown() == ["eunoe_gateway_streams 0.0", "eunoe_gateway_waits 0.0"]
    gateway.log.lagging = True
    async with gateway.served() as client, stream(client, "/v1/remembered"):
        waiting = [asyncio.ensure_future(client.post(f"{C}/asks", json=ASK)) for _ in range(2)]
        while [one.open for one in open_requests] != [1, 2]:  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.01)
        assert shown() == ["eunoe_gateway_streams 1.0", "eunoe_gateway_waits 2.0"]
        await gateway.log.catch_up()
        await asyncio.gather(*waiting)
        assert shown()[1] == "eunoe_gateway_waits 0.0"


def gateway_client(gateway: TestGateway, like: httpx.AsyncClient) -> httpx.AsyncClient:
    """Another key of another tenant, at the same address."""
    return httpx.AsyncClient(base_url=like.base_url, headers={"Authorization": f"Bearer {gateway.key('third')}"})


async def test_a_stream_of_a_broker_that_goes_away_ends_with_an_error(gateway):
    async with gateway.served() as client:
        gateway.log.lagging = True
        async with stream(client, f"{C}/asks", ASK) as events:
            await events.data("accepted")
            for _, subscription in gateway.log._subscriptions:
                subscription.lose("the broker is away")
            assert (await events.data("error"))["status"] == 503


async def test_head_is_a_get_without_its_body_and_leaves_no_stream_open(gateway):
    async with gateway.served() as client:
        await told(client)
        for path in (C, "/v1/conversations", "/v1/openapi.json", f"{C}/memories", "/"):
            got, head = await client.get(path), await client.head(path)
            assert (head.status_code, head.content) == (200, b""), path
            assert [head.headers[name] for name in ("content-type", "content-length")] == [
                got.headers[name] for name in ("content-type", "content-length")
            ]
        stream = await client.head(f"{C}/remembered")
        assert (stream.status_code, stream.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
        assert gateway.app.gateway.streams.open == 0
        assert (await client.head("/v1/conversations/nobody")).status_code == 404
        refused = await client.head("/v1/events")
        assert (refused.status_code, refused.headers["allow"]) == (405, "POST")
        assert (await client.put(C)).headers["allow"] == "GET, HEAD"
        assert (await client.head(C, headers={"Authorization": "Bearer x"})).status_code == 401
