"""The client over HTTP: what it imports, what it sends again, where it goes on, and what it says of errors."""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import httpx
import httpx2
import orjson
import pytest
from pydantic import SecretStr

from eunoe.schemas.errors import Refused, Unavailable
from eunoe.schemas.events import Provenance, Strategy, Utterance
from eunoe.schemas.memory import DerivedReason
from eunoe.schemas.replies import Reply
from eunoe.streams.http_client import (
    GatewayConnection,
    GatewayFailed,
    GatewayRefused,
    HttpMemoryClient,
    ReplyFailed,
    ReplyTimeout,
    remembered_feed,
    remembered_place,
)
from eunoe.streams.settings import partition_of
from eunoe.streams.topics import Topic
from tests.support.gateway import make_gateway

FOREIGN = (
    "faust",
    "aiokafka",
    "openai",
    "tokenizers",
    "numpy",
    "redis",
    "qdrant_client",
    "starlette",
    "mcp",
    "aiohttp",
)
POSITION = {"topic": "conversations", "partition": 0, "offset": 7}
ACCEPTED = httpx2.Response(202, json={"utterance_id": "u1", "position": POSITION})
REPLY = Reply(
    conversation_id="c",
    reply_id="p1",
    request_id="r1",
    speaker="agent",
    text="Lyon.",
    strategy=Strategy.SEGMENT,
    known_session=1,
    made_by=Provenance(code="test", model="test"),
)

Answer = httpx2.Response | Exception


def problem(status: int, detail: str, headers: dict[str, str] | None = None, **more: object) -> httpx2.Response:
    body = {"type": "about:blank", "title": "T", "status": status, "detail": detail, "instance": "i1", **more}
    own = {"content-type": "application/problem+json", **(headers or {})}
    return httpx2.Response(status, content=json.dumps(body), headers=own)


def stream(*events: tuple[str, str, str]) -> httpx2.Response:
    """Server-sent events: (id, event, data)."""
    text = "".join(
        f"{f'id: {id_}' + chr(10) if id_ else ''}event: {name}\ndata: {data}\n\n" for id_, name, data in events
    )
    return httpx2.Response(200, content=text, headers={"content-type": "text/event-stream; charset=utf-8"})


class Script(httpx2.MockTransport):
    """Answers requests in turn, and keeps them."""

    def __init__(self, answers: Sequence[Answer]) -> None:
        super().__init__(self._next)
        self.answers = list(answers)
        self.seen: list[httpx2.Request] = []

    def _next(self, request: httpx2.Request) -> httpx2.Response:
        self.seen.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    @property
    def bodies(self) -> list[dict]:
        return [json.loads(request.content) for request in self.seen if request.content]


def scripted(*answers: Answer, timeout: float = 20) -> tuple[HttpMemoryClient, Script]:
    script = Script(answers)
    connection = GatewayConnection("http://gateway", SecretStr("eu_key"), transport=script)
    return HttpMemoryClient(connection, conversation_id="c", timeout=timeout), script


def test_the_import_is_light():
    script = f"""
import sys, time
begun = time.perf_counter()
import eunoe.streams.http_client
print(f"{{time.perf_counter() - begun:.3f}} s")
print([name for name in {FOREIGN!r} if name in sys.modules])
print([name for name in sys.modules if name.startswith(("eunoe.workers", "eunoe.deploy"))])
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    seconds, foreign, own = ran.stdout.splitlines()
    print(f"import of eunoe.streams.http_client: {seconds}")
    assert (foreign, own) == ("[]", "[]")


def test_a_connection_to_a_gateway_is_refused_to_another_event_loop():
    """Its idle connections are of the first loop: some requests in another one would fail."""
    memory, script = scripted(ACCEPTED, ACCEPTED)
    asyncio.run(memory.utter("I moved to Lyon.", speaker="Ann"))
    with pytest.raises(RuntimeError, match="another event loop: open one in each"):
        asyncio.run(memory.utter("I like it.", speaker="Ann"))
    assert len(script.seen) == 1


async def test_what_may_be_lost_is_sent_again_and_is_the_same():
    away = problem(503, "Kafka does not answer now; try again later", {"Retry-After": "0"})
    memory, script = scripted(httpx2.ConnectError("refused"), away, httpx2.ReadTimeout("slow"), ACCEPTED)
    said = await memory.utter("I moved to Lyon.", speaker="Ann", session_id="s1")
    assert script.bodies == [script.bodies[0]] * 4
    first = script.bodies[0]
    assert (first["utterance_id"], first["text"], first["session_id"]) == (said.utterance_id, said.text, "s1")
    assert first["at"] == said.at.isoformat()
    assert {request.headers["authorization"] for request in script.seen} == {"Bearer eu_key"}


async def test_an_utterance_is_sent_by_the_clock_of_its_time():
    memory, script = scripted(ACCEPTED)
    at = datetime(2026, 6, 1, 20, tzinfo=ZoneInfo("America/Los_Angeles"))
    said = await memory.utter("See you tomorrow.", speaker="Ann", at=at)
    assert script.bodies[0]["at"] == "2026-06-01T20:00:00-07:00"
    assert (said.at, said.at.date()) == (at, at.date())


async def test_the_pause_is_that_of_the_server():
    memory, _ = scripted(problem(429, "too many requests", {"Retry-After": "1"}), ACCEPTED)
    begun = time.monotonic()
    await memory.utter("hi", speaker="Ann")
    assert time.monotonic() - begun >= 1


async def test_a_pause_beyond_the_time_limit_is_an_error_at_once():
    memory, script = scripted(problem(429, "too many requests with this key", {"Retry-After": "3600"}))
    with pytest.raises(Unavailable, match=r"http://gateway: 429: too many requests with this key"):
        await memory.utter("hi", speaker="Ann")
    assert len(script.seen) == 1


async def test_a_gateway_that_stays_away():
    memory, _ = scripted(*[httpx2.ConnectError("nobody listens")] * 50, timeout=0.4)
    with pytest.raises(Unavailable, match="no answer from http://gateway: nobody listens"):
        await memory.end_session()


@pytest.mark.parametrize("address", ["http://gateway/#key=eu_x", "http://ann:eu_x@gateway"])
async def test_the_key_in_an_address_is_in_no_error(address):
    seen: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(request.url.path)
        raise httpx2.ConnectError("nobody listens")

    made = GatewayConnection(address, "eu_x", transport=httpx2.MockTransport(answer), patient=False)
    async with made, HttpMemoryClient(made, conversation_id="c") as memory:
        with pytest.raises(Unavailable) as away:
            await memory.end_session()
    assert (str(away.value), away.value.server) == ("no answer from http://gateway: nobody listens", "http://gateway")
    assert seen == ["/v1/conversations/c/events"]


async def test_a_thousand_utterances_at_once_take_their_turns_on_few_connections():
    open_ = most = 0

    async def answer(_: httpx2.Request) -> httpx2.Response:
        nonlocal open_, most
        open_ += 1
        most = max(most, open_)
        await asyncio.sleep(0)
        open_ -= 1
        return ACCEPTED

    made = GatewayConnection("http://gateway", "eu_x", transport=httpx2.MockTransport(answer))
    async with made, HttpMemoryClient(made, conversation_id="c") as memory:
        said = await asyncio.gather(*(memory.utter(f"line {number}", speaker="Ann") for number in range(1000)))
    assert len(said) == 1000
    assert 1 < most <= 100


async def test_a_thousand_asks_and_recalls_at_once_take_their_turns_on_few_connections():
    open_ = most = 0

    async def answer(request: httpx2.Request) -> httpx2.Response:
        nonlocal open_, most
        open_ += 1
        most = max(most, open_)
        await asyncio.sleep(0)
        open_ -= 1
        recalled = request.url.path.endswith("/recall")
        return problem(422, "no query") if recalled else stream(("1", "reply", REPLY.to_json().decode()))

    made = GatewayConnection("http://gateway", "eu_x", transport=httpx2.MockTransport(answer))
    async with made, HttpMemoryClient(made, conversation_id="c", utter_replies=False) as memory:
        asked = [memory.ask("Where?", speaker="Ann", timeout=60) for _ in range(500)]
        found = await asyncio.gather(
            *asked, *(memory.recall("", timeout=60) for _ in range(500)), return_exceptions=True
        )
    assert found.count(REPLY) == 500
    assert 1 < most <= 100


async def begins_when_it_is_sent(*, waits: bool) -> None:
    """Of 201 requests at once, the last one is sent later than it may take; ``waits``: it waits for a reply."""
    gate, seen = asyncio.Event(), 0

    async def answer(_: httpx2.Request) -> httpx2.Response:
        nonlocal seen
        seen += 1
        await gate.wait()
        return ACCEPTED if not waits else stream(("1", "reply", REPLY.to_json().decode()))

    made = GatewayConnection("http://gateway", "eu_x", transport=httpx2.MockTransport(answer))
    async with made:
        memory = HttpMemoryClient(made, conversation_id="c", timeout=60, utter_replies=False)
        hasty = HttpMemoryClient(made, conversation_id="c", timeout=2, utter_replies=False)

        async def send(client: HttpMemoryClient, timeout: float) -> object:
            if waits:
                return await client.ask("Where?", speaker="Ann", timeout=timeout)
            return await client.utter("Here.", speaker="Ann")

        first = [asyncio.ensure_future(send(memory, 60)) for _ in range(200)]
        last = asyncio.ensure_future(send(hasty, 2))
        done, _ = await asyncio.wait([last], timeout=2.5)  # longer than it may take, and it has not been sent
        assert not done
        assert seen <= 100
        gate.set()
        await asyncio.gather(*first, last)


async def test_the_time_of_a_request_begins_when_it_is_sent():
    await asyncio.gather(begins_when_it_is_sent(waits=False), begins_when_it_is_sent(waits=True))


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (problem(401, "the key is unknown, revoked or expired"), "401: the key is unknown"),
        (problem(403, "this key lacks the scope 'ask'"), "403: this key lacks"),
        (problem(409, "this id was used before"), "409: this id was used before"),
        (
            problem(422, "the body does not match", errors=[{"field": "at", "message": "must lie between"}]),
            "422: the body does not match; at: must lie between",
        ),
        (httpx2.Response(404, html="<h1>nginx</h1>"), "not from a gateway of eunoe: check the address"),
        (
            httpx2.Response(301, headers={"location": "https://gateway/v1"}),
            "address, which redirects to https://gateway$",
        ),
    ],
)
async def test_a_refusal_says_why_and_is_not_tried_again(answer, text):
    memory, script = scripted(answer)
    with pytest.raises(Refused, match=text) as caught:
        await memory.utter("hi", speaker="Ann")
    assert isinstance(caught.value, GatewayRefused)
    assert caught.value.status == answer.status_code
    assert len(script.seen) == 1


async def test_a_stream_that_breaks_goes_on_behind_its_last_event():
    reply = REPLY.to_json().decode()
    for end in (("", "closing", "{}"), ("", "ping", "{}")):
        broken = stream(("3:17", "accepted", "{}"), end)
        away = problem(503, "this replica stops now", {"Retry-After": "0"})
        memory, script = scripted(broken, away, stream(("3:18", "reply", reply)), ACCEPTED)
        assert await memory.ask("Where?", speaker="Ben", request_id="r/1") == REPLY
        assert [request.method for request in script.seen] == ["POST", "GET", "GET", "POST"]
        assert [request.headers.get("last-event-id") for request in script.seen] == [None, "3:17", "3:17", None]
        assert script.seen[1].url.raw_path == b"/v1/conversations/c/asks/r%2F1"
        assert script.bodies[-1]["reply_id"] == "p1"


async def test_an_ask_whose_answer_is_gone_failed():
    gone = problem(410, "the answer is gone: ask again, with another request_id and utterance_id")
    memory, script = scripted(stream(("0:3", "accepted", "{}"), ("", "closing", "{}")), gone)
    with pytest.raises(ReplyFailed, match="ask again, with another request_id"):
        await memory.ask("Where?", speaker="Ben", timeout=5)
    assert script.seen[1].headers["last-event-id"] == "0:3"


async def test_an_ask_that_is_not_known_to_be_accepted_is_sent_again():
    memory, script = scripted(
        httpx2.RemoteProtocolError("gone"), stream(), stream(("3:18", "reply", REPLY.to_json().decode()))
    )
    await memory.ask("Where?", speaker="Ben", record=False)
    assert script.bodies == [script.bodies[0]] * 3
    assert {"utterance_id", "request_id", "at"} <= script.bodies[0].keys()


async def test_the_errors_of_a_stream():
    failed = {"title": "T", "status": 502, "detail": "the responder could not answer: no model"}
    reply = REPLY.model_copy(update={"text": "", "error": "no model"})
    newer = {"type": "reply", "schema_version": 99}
    for given, found in ((None, None), (json.loads(reply.to_json()), reply), (newer, None)):
        document = json.dumps({**failed, "reply": given})
        memory, _ = scripted(stream(("3:17", "accepted", "{}"), ("3:18", "error", document)))
        with pytest.raises(ReplyFailed, match=r"request r1: .*no model") as caught:
            await memory.ask("Where?", speaker="Ben", request_id="r1")
        assert caught.value.reply == found
    late = json.dumps({"title": "T", "status": 504, "detail": "no answer within 120 seconds"})
    memory, script = scripted(*[stream(("3:17", "accepted", "{}"), ("", "error", late))] * 50)
    with pytest.raises(ReplyTimeout, match="request r1"):
        await memory.ask("Where?", speaker="Ben", request_id="r1", timeout=0.5)
    assert len(script.seen) > 1


def bearer(http: httpx.AsyncClient) -> str:
    """The key of a client of the tests."""
    return http.headers["authorization"].split()[1]


def session(number: int, **more: object) -> str:
    return json.dumps({"conversation_id": "c", "session": number, "changes": {"added": 1}, "applied": {}, **more})


async def test_the_feed_goes_on_behind_its_last_event_wherever_it_breaks():
    away = problem(503, "this replica stops now", {"Retry-After": "0"})
    lost = json.dumps({"title": "T", "status": 503, "detail": "Kafka does not answer now"})
    memory, script = scripted(
        stream(("v1:0:5", "ready", "{}"), ("v1:0:6", "remembered", session(1)), ("", "closing", "{}")),
        httpx2.ConnectError("refused"),
        away,
        stream(("v1:0:6", "ready", "{}"), ("v1:0:8", "remembered", session(2)), ("", "error", lost)),
        stream(("v1:0:8", "ready", "{}"), ("", "reset", "{}")),
        stream(("v2:0:3", "reset", "{}"), ("v2:0:4", "remembered", session(3, skipped=True))),
        problem(403, "this key lacks the scope 'memory:read'"),
    )
    feed = memory.remembered()
    found = [await anext(feed) for _ in range(4)]
    with pytest.raises(GatewayRefused, match="403: this key lacks"):
        await anext(feed)
    assert [(event.place, event.session and event.session.session) for event in found] == [
        ("v1:0:6", 1),
        ("v1:0:8", 2),
        ("v2:0:3", None),
        ("v2:0:4", 3),
    ]
    places = [request.headers.get("last-event-id") for request in script.seen]
    assert places == [None, "v1:0:6", "v1:0:6", "v1:0:6", "v1:0:8", "v1:0:8", "v2:0:4"]


async def test_the_feed_names_a_conversation_that_was_derived_again():
    derived = json.dumps({"conversation_id": "c", "reason": "erased"})
    memory, script = scripted(
        stream(("v1:0:5", "ready", "{}"), ("v1:0:6", "derived", derived), ("v1:0:7", "of a later version", "{}")),
        stream(("v1:0:7", "ready", "{}"), ("v1:0:8", "remembered", session(2))),
        problem(403, "this key lacks the scope 'memory:read'"),
    )
    feed = memory.remembered()
    first, second = [await anext(feed) for _ in range(2)]
    assert (first.place, first.session) == ("v1:0:6", None)
    assert (first.derived.conversation_id, first.derived.reason) == ("c", DerivedReason.ERASED)
    assert (second.place, second.session.session, second.derived) == ("v1:0:8", 2, None)
    assert script.seen[1].headers["last-event-id"] == "v1:0:7"


@pytest.mark.parametrize("waits", [False, True])
async def test_a_function_gives_each_request_the_key_of_its_time(waits):
    given = iter(range(9))

    async def awaited() -> SecretStr:
        return SecretStr(f"token-{next(given)}")

    expired = json.dumps({"title": "T", "status": 401, "detail": "the token is not valid: Signature has expired"})
    script = Script([
        httpx2.ConnectError("refused"),
        ACCEPTED,
        stream(("v1:0:5", "ready", "{}"), ("v1:0:6", "remembered", session(1)), ("", "error", expired)),
        stream(("v1:0:6", "ready", "{}"), ("v1:0:7", "remembered", session(2))),
        problem(401, "the token is not valid"),
    ])  # fmt: skip
    key = awaited if waits else lambda: f" token-{next(given)} "
    memory = HttpMemoryClient(GatewayConnection("http://gateway", key, transport=script), conversation_id="c")
    await memory.utter("hello", speaker="Ann")
    feed = memory.remembered()
    assert [(await anext(feed)).place for _ in range(2)] == ["v1:0:6", "v1:0:7"]
    with pytest.raises(GatewayRefused, match="401"):  # a new one that is refused, too, is no matter of time
        await anext(feed)
    assert [request.headers["authorization"] for request in script.seen] == [f"Bearer token-{n}" for n in range(5)]


async def test_a_fault_of_the_function_that_gives_keys_is_the_callers():
    def key() -> str:
        raise LookupError("signed out")

    memory = HttpMemoryClient("http://gateway", key=key, conversation_id="c")
    with pytest.raises(LookupError, match="signed out"):
        await memory.utter("hello", speaker="Ann")
    memory = HttpMemoryClient("http://gateway", key=lambda: "", conversation_id="c")
    with pytest.raises(ValueError, match="expected an API key"):
        await memory.recall("hello")


async def test_the_feed_of_all_conversations_begins_where_it_is_told_to():
    memory, script = scripted(stream(("v1:0:9,1:4", "remembered", session(1))), *[httpx2.ConnectError("gone")] * 50)
    feed = remembered_feed(memory._gateway, after="v1:0:8,1:4", timeout=0.3)
    assert (await anext(feed)).place == "v1:0:9,1:4"
    with pytest.raises(Unavailable, match="gone"):
        await anext(feed)
    assert script.seen[0].url.raw_path == b"/v1/remembered"
    assert [request.headers["last-event-id"] for request in script.seen[:2]] == ["v1:0:8,1:4", "v1:0:9,1:4"]


async def test_sessions_are_told_to_a_client_over_a_connection(tmp_path):
    gateway = make_gateway(tmp_path)
    async with gateway.served() as http:
        key = http.headers["authorization"].split()[1]
        async with HttpMemoryClient(str(http.base_url), key=key, conversation_id="a/b", tenant="acme") as memory:
            for text in ("I moved to Lyon in March.", "My sister Eva works in Rome."):
                await memory.utter(text, speaker="Ann")
                await memory.end_session()
            partition = partition_of(memory.key.encode(), gateway.log.log.partitions)
            async with aclosing(memory.remembered(after=f"v1:{partition}:0")) as feed:
                first = await anext(feed)
            async with aclosing(memory.remembered(after=first.place)) as feed:
                second = await anext(feed)
    assert [(one.session.conversation_id, one.session.session) for one in (first, second)] == [("a/b", 1), ("a/b", 2)]
    assert sum(first.session.changes.values()) > 0


async def test_what_becomes_memory_between_a_read_and_the_feed_is_told_behind_the_place(tmp_path):
    gateway = make_gateway(tmp_path)
    async with gateway.served() as http, GatewayConnection(str(http.base_url), bearer(http)) as connection:
        memory = HttpMemoryClient(connection, conversation_id="c", tenant="acme")
        await memory.utter("I moved to Lyon in March.", speaker="Ann")
        await memory.end_session()
        places = await memory.place(), await remembered_place(connection)
        assert await memory.place() == places[0], "nothing came"
        read = await memory.profile(person="Ann")
        await memory.utter("My sister Eva works in Rome.", speaker="Ann")
        await memory.end_session()
        feeds = memory.remembered(after=places[0]), remembered_feed(connection, after=places[1])
        for feed in feeds:
            async with aclosing(feed):
                assert (await anext(feed)).session.session == 2
    assert [item.text for item in read.items] == ["Ann moved to Lyon in March."]


async def test_a_reply_is_uttered_by_the_clock_of_its_question(tmp_path):
    gateway = make_gateway(tmp_path)
    clock = timezone(timedelta(hours=-7))
    async with gateway.served() as http, GatewayConnection(str(http.base_url), bearer(http)) as connection:
        memory = HttpMemoryClient(connection, conversation_id="c", tenant="acme", utter_replies=True)
        await memory.utter("I moved to Lyon in March.", speaker="Ann")
        await memory.end_session()
        await memory.ask("Where does Ann live?", speaker="Ben", at=datetime.now(clock))
    said = [one for one in gateway.pipeline.events(Topic.CONVERSATIONS) if isinstance(one, Utterance)]
    assert [one.reply_id is None for one in said] == [True, True, False]
    assert [one.at.utcoffset() for one in said[1:]] == [timedelta(hours=-7)] * 2


async def test_the_place_is_that_of_the_first_event():
    closing = stream(("", "closing", "{}"))
    refused = json.dumps({"title": "T", "status": 401, "detail": "this key was revoked"})
    memory, script = scripted(
        closing, stream(("v1:0:5", "ready", "{}"), ("v1:0:6", "remembered", session(1))), stream(("", "error", refused))
    )
    assert await memory.place() == "v1:0:5"
    assert [request.url.raw_path for request in script.seen] == [b"/v1/conversations/c/remembered"] * 2
    with pytest.raises(GatewayRefused, match="this key was revoked"):
        await memory.place()


@pytest.mark.parametrize(
    "make",
    [lambda: GatewayConnection("http://gateway", " "), lambda: HttpMemoryClient("http://gateway", conversation_id="c")],
)
def test_no_client_without_a_key(make: Callable[[], object]):
    with pytest.raises(ValueError, match="key: "):
        make()


async def test_an_address_that_is_none():
    async with HttpMemoryClient("gateway:8700", key="eu_x", conversation_id="c") as memory:
        with pytest.raises(Refused, match="gateway:8700: not the address of a gateway"):
            await memory.utter("hi", speaker="Ann")


@pytest.mark.parametrize("conversation_id", ["..", "a/b", "a%2Fb", "지민 & Ann?#"])
async def test_memory_is_recalled_by_any_id(tmp_path, conversation_id):
    gateway = make_gateway(tmp_path)
    async with gateway.served() as http:
        key = http.headers["authorization"].split()[1]
        async with HttpMemoryClient(
            str(http.base_url), key=key, conversation_id=conversation_id, tenant="acme"
        ) as memory:
            said = await memory.utter("I moved to Lyon in March.", speaker="Ann")
            before = await memory.recall("Where does Ann live?")
            await memory.end_session()
            recalled = await memory.recall("Where does Ann live?", budget_tokens=200)
            reply = await memory.ask("Where does Ann live?", speaker="Ben", timeout=20)
            profile = await memory.profile(person="Ann", budget_tokens=100, at=said.at)
    assert [(item.text, item.sources) for item in profile.items] == [
        ("Ann moved to Lyon in March.", (said.utterance_id,))
    ]
    assert profile.at == said.at
    assert [line.utterance_id for line in before.dialogue] == [said.utterance_id]
    assert "Lyon" in recalled.text
    assert (recalled.conversation_id, recalled.tenant, reply.conversation_id) == (
        conversation_id,
        "acme",
        conversation_id,
    )


async def test_a_recall_waits_as_long_as_its_caller_and_no_memory_in_time_is_unavailable():
    late = problem(504, "no memory within 89 seconds")
    memory, script = scripted(late)
    with pytest.raises(Unavailable, match="504: no memory within 89 seconds"):
        await memory.recall("hi", timeout=90)
    assert [request.headers["prefer"] for request in script.seen] == ["wait=89.000"]
    broken, _ = scripted(problem(502, "the responder could not answer"))
    with pytest.raises(GatewayFailed):
        await broken.recall("hi")


async def test_a_recall_of_a_client_sees_the_lines_of_its_own_chat(tmp_path):
    gateway = make_gateway(tmp_path)
    async with gateway.served() as http:
        key = http.headers["authorization"].split()[1]
        async with HttpMemoryClient(str(http.base_url), key=key, conversation_id="c") as memory:
            said = [await memory.utter("hi", speaker="Ann", session_id=chat) for chat in ("phone", "laptop")]
            recalled = [await memory.recall("hi", session_id=chat) for chat in ("phone", "laptop")]
    assert [[line.utterance_id for line in one.dialogue] for one in recalled] == [[one.utterance_id] for one in said]


async def test_a_recall_of_a_client_is_as_of_its_own_time(tmp_path):
    gateway = make_gateway(tmp_path)
    west = timezone(timedelta(hours=-7))
    async with gateway.served() as http:
        key = http.headers["authorization"].split()[1]
        async with HttpMemoryClient(str(http.base_url), key=key, conversation_id="c") as memory:
            await memory.utter(
                "I am on a strict diet until 10 March 2026.", speaker="Ann", at=datetime(2026, 3, 1, 20, tzinfo=west)
            )
            await memory.end_session()
            during = await memory.recall("Which diet?", at=datetime(2026, 3, 10, 20, tzinfo=west))
            after = await memory.recall("Which diet?", at=datetime(2026, 3, 11, 20, tzinfo=west))
            with pytest.raises(ValueError, match="at: "):
                await memory.recall("Which diet?", at=datetime(2026, 3, 11, 20))  # noqa: DTZ001 - without a zone
    assert "held until" not in during.text
    assert "held until 10 March 2026" in after.text


async def test_clients_share_a_connection_and_one_stays_open_for_all(tmp_path):
    gateway = make_gateway(tmp_path)
    async with (
        gateway.served() as http,
        GatewayConnection(str(http.base_url), http.headers["authorization"].split()[1]) as connection,
    ):

        async def tell(number: int) -> int:
            async with HttpMemoryClient(connection, conversation_id=f"c{number}") as memory:
                await memory.utter("hi", speaker="Ann")
                return len((await memory.recall("hi")).dialogue)

        assert await asyncio.gather(*(tell(number) for number in range(10))) == [1] * 10


async def test_an_erasure_of_no_utterances_is_a_mistake_and_one_without_ids_is_of_all():
    memory, script = scripted(httpx2.Response(202, json={"request_id": "e"}))
    async with memory:
        with pytest.raises(ValueError, match="leave it out to erase the whole conversation"):
            await memory.erase([])
        assert script.seen == []
        await memory.erase()
    (body,) = script.bodies
    assert "utterance_ids" not in body


@pytest.mark.parametrize("ids", ["12", b"12"])
async def test_one_text_is_no_list_of_ids_to_erase(ids):
    memory, script = scripted()
    async with memory:
        with pytest.raises(ValueError, match="is one text; give a list of ids"):
            await memory.erase(ids)
    assert script.seen == []


LATER, FAR = datetime(2026, 3, 1, 9), datetime(1500, 1, 1, tzinfo=UTC)  # noqa: DTZ001 - it has no zone


@pytest.mark.parametrize(
    "call",
    [
        lambda memory, at: memory.utter("I moved.", speaker="Ann", at=at),
        lambda memory, at: memory.ask("Where?", speaker="Ann", at=at),
        lambda memory, at: memory.end_session(at=at),
        lambda memory, at: memory.erase(["u1"], at=at),
    ],
)
async def test_a_time_that_intake_would_refuse_is_refused_before_anything_is_sent(call):
    memory, script = scripted()
    async with memory:
        with pytest.raises(ValueError, match=r"^at: must be a time with a zone, like datetime\.now\(UTC\)$"):
            await call(memory, LATER)
        with pytest.raises(ValueError, match=r"^at: is over 200 years from now$"):
            await call(memory, FAR)
    assert script.seen == []


async def test_a_profile_of_a_time_without_a_zone_is_refused():
    memory, script = scripted()
    async with memory:
        with pytest.raises(ValueError, match=r"^at: must be a time with a zone"):
            await memory.profile(at=LATER)
    assert script.seen == []


async def test_an_option_that_does_not_exist_is_refused_before_anything_is_sent():
    memory, script = scripted()
    misspelt = {"utterance": "u1"}
    async with memory:
        with pytest.raises(TypeError, match="'utterance'"):
            await memory.utter("I moved.", speaker="Ann", **misspelt)
        with pytest.raises(TypeError, match="'utterance'"):
            await memory.ask("Where?", speaker="Ann", **misspelt)
    assert script.seen == []


async def test_answers_of_a_newer_gateway_are_read_without_what_they_add(tmp_path, monkeypatch):
    gateway = make_gateway(tmp_path)
    async with gateway.served() as http:
        key = http.headers["authorization"].split()[1]
        async with HttpMemoryClient(str(http.base_url), key=key, conversation_id="c", tenant="acme") as memory:
            await memory.utter("I moved to Lyon in March.", speaker="Ann")
            await memory.end_session()
            request = memory._gateway.request

            async def newer(*words: object) -> bytes:
                answer = orjson.loads(await request(*words))
                told = answer.get("profile", answer)
                for item in (told, *told.get("items", ())):
                    item["mood"] = "gay"
                return orjson.dumps(answer)

            before = await memory.profile(), await memory.recall("Where does Ann live?")
            monkeypatch.setattr(memory._gateway, "request", newer)
            after = await memory.profile(), await memory.recall("Where does Ann live?")
    assert [item.text for item in after[0].items] == [item.text for item in before[0].items]
    assert after[1].text == before[1].text
