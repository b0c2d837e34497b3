"""Erasures over HTTP: asked for once, followed to the receipt or the refusal; each bad request is one clear line."""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from eunoe.deploy.cli import erase
from eunoe.deploy.gateway import plans as planning
from eunoe.deploy.gateway.erasures import read_entries
from eunoe.deploy.gateway.plans import PlanCommand
from eunoe.deploy.gateway.problems import Problem
from eunoe.deploy.generations.erase.sites import NotNow
from eunoe.schemas.erasure import Erasure, ErasureDone, ErasureLevel, ErasureRefused, ErasureRequest, Numbers, hashed_id
from eunoe.schemas.errors import Misconfigured, Refused, RequestRefused, Unavailable
from eunoe.schemas.identity import conversation_key
from eunoe.schemas.position_ports import ReadPartition
from eunoe.streams.position import position
from eunoe.streams.record import Record
from eunoe.streams.settings import partition_of
from eunoe.streams.topics import Topic
from eunoe.workers.stores.records.generations import Generation, GenerationState
from tests.support.gateway import LATER, TestGateway, make_gateway, told
from tests.support.memory.erasures import MemoryErasures
from tests.support.memory.handled_positions import MemoryHandledPositions

C = "/v1/conversations/c"
NOW = datetime(2026, 1, 2, tzinfo=UTC)
RECEIPT = '{"request_id":"e1","not_covered":[{"place":"replies","why":"sent","until":"7 days"}]}'


@pytest.fixture
def gateway(tmp_path: Path) -> TestGateway:
    return make_gateway(tmp_path)


def begun(*ids: str, whole: bool = False) -> Erasure:
    return Erasure(
        request_id="e1",
        key="acme/c",
        level=ErasureLevel.CONVERSATION if whole else ErasureLevel.UTTERANCES,
        at=NOW,
        until=9,
        salt="salt",
        refused=tuple(hashed_id("salt", id_) for id_ in ids),
        numbers=Numbers(remembered=3) if whole else None,
    )


def detail(answer: httpx.Response, status: int) -> str:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    return str(answer.json()["detail"])


async def test_a_request_is_followed_to_its_receipt(gateway: TestGateway) -> None:
    ledger = gateway.app.gateway.erasures
    assert ledger is not None
    async with gateway.client() as client:
        await told(client)
        asked = await client.post(f"{C}/erasures", json={"utterance_ids": ["u1"], "request_id": "e1"})
        assert asked.status_code == 202
        where = asked.headers["location"]
        assert (asked.json()["state"], asked.json()["utterance_ids"]) == ("requested", ["u1"])
        assert "where one does not, it is refused and erases nothing" in asked.json()["not_done"][-1]
        (kept,) = await ledger.requests()
        assert (kept.key, kept.utterance_ids) == ("acme/c", ("u1",))
        await ledger.begin(begun("u1"))
        assert (await client.get(where)).json()["state"] == "begun"
        await ledger.finish(ErasureDone(request_id="e1", key="acme/c", at=NOW, receipt=RECEIPT))
        done = (await client.get(where)).json()
        (listed,) = (await client.get(f"{C}/erasures")).json()["erasures"]
    assert (done["state"], done["utterances"], done["receipt"]["request_id"]) == ("done", 1, "e1")
    assert done["not_done"] == ["replies: sent; until 7 days"]
    assert "u1" not in str(done)
    assert (listed["state"], "receipt" in listed and listed["receipt"]) in (("done", None), ("done", False))


async def test_the_same_request_again_is_kept_once_and_another_is_refused(gateway: TestGateway) -> None:
    ledger = gateway.app.gateway.erasures
    assert ledger is not None
    body = {"utterance_ids": ["u1"], "request_id": "e/1"}
    async with gateway.client() as client:
        await told(client)
        first = await client.post(f"{C}/erasures", json=body)
        again = await client.post(f"{C}/erasures", json=body)
        assert "request_id" in detail(await client.post(f"{C}/erasures", json={**body, "utterance_ids": ["u2"]}), 409)
        await ledger.begin(begun("u1").model_copy(update={"request_id": "e/1"}))
        await ledger.finish(ErasureDone(request_id="e/1", key="acme/c", at=NOW, receipt=RECEIPT))
        later = await client.post(f"{C}/erasures", json=body)
    assert first.json() == again.json()
    assert (later.status_code, later.json()["state"]) == (202, "done")
    assert len(await ledger.requests()) == 1


async def test_a_refused_request_says_why(gateway: TestGateway) -> None:
    ledger = gateway.app.gateway.erasures
    assert ledger is not None
    async with gateway.client() as client:
        await told(client)
        asked = await client.post(f"{C}/erasures", json={"utterance_ids": ["ghost"], "request_id": "e1"})
        await ledger.refuse(ErasureRefused(request_id="e1", key="acme/c", at=NOW, reason="no such utterance: ghost"))
        found = (await client.get(asked.headers["location"])).json()
    assert (found["state"], found["reason"]) == ("refused", "no such utterance: ghost")


async def test_an_erasure_by_command_is_listed_too(gateway: TestGateway) -> None:
    ledger = gateway.app.gateway.erasures
    assert ledger is not None
    await ledger.begin(begun("u1", "u2"))
    async with gateway.client() as client:
        (one,) = (await client.get(f"{C}/erasures")).json()["erasures"]
    assert (one["state"], one["utterances"]) == ("begun", 2)


async def test_sessions_are_named_by_number_or_id(gateway: TestGateway) -> None:
    async with gateway.client() as client:
        await told(client)
        for session in ("1", "s1"):
            asked = await client.post(f"{C}/erasures", json={"session": session})
            assert (asked.status_code, asked.json()["level"]) == (202, "session")
        for session in ("2", "0", "s2", "9" * 150):
            assert "session" in detail(await client.post(f"{C}/erasures", json={"session": session}), 404)
        both = await client.post(f"{C}/erasures", json={"session": "1", "utterance_ids": ["u1"]})
        assert "not both" in detail(both, 422)


@pytest.mark.parametrize("path", ["erasures", "erasure-plans"])
async def test_a_list_of_no_utterances_does_not_erase_the_conversation(gateway: TestGateway, path: str) -> None:
    async with gateway.client() as client:
        await told(client)
        assert "utterance_ids" in str((refused := await client.post(f"{C}/{path}", json={"utterance_ids": []})).json())
        assert refused.status_code == 422
        assert (await client.get(f"{C}/erasures")).json()["erasures"] == []


async def test_what_was_said_since_an_erasure_is_erased_though_intake_is_behind(gateway: TestGateway) -> None:
    ledger = gateway.app.gateway.erasures
    assert ledger is not None
    async with gateway.client() as client:
        await told(client)
        await ledger.begin(begun("u1", "u2", "u3", whole=True))
        gateway.log.lagging = True
        assert (await client.post(f"{C}/erasures", json={})).status_code == 409
        await told(client, "d")
        assert (await client.post(f"{C}/erasures", json={})).status_code == 409, "said in another conversation"
        await told(client, events=LATER)
        again = await client.post(f"{C}/erasures", json={})
    assert (again.status_code, again.json()["state"]) == (202, "requested")


@pytest.mark.parametrize("path", ["erasures", "erasure-plans"])
@pytest.mark.parametrize("part", [{}, {"utterance_ids": ["u1"]}, {"session": "s1"}])
async def test_a_conversation_of_which_intake_has_handled_nothing_yet_is_erased(
    gateway: TestGateway, path: str, part: dict[str, object]
) -> None:
    async with gateway.client() as client:
        gateway.log.lagging = True
        await told(client)
        assert (await client.post(f"{C}/{path}", json=part)).status_code < 300
        assert (await client.post(f"/v1/conversations/none/{path}", json=part)).status_code == 404


async def test_a_session_that_intake_has_not_opened_yet_is_erased(gateway: TestGateway) -> None:
    async with gateway.client() as client:
        await told(client)
        assert (await client.post(f"{C}/erasures", json={"session": "s2"})).status_code == 404
        gateway.log.lagging = True
        await told(client, events=LATER)
        assert (await client.post(f"{C}/erasures", json={"session": "s2"})).status_code == 202


async def test_only_what_intake_has_not_handled_is_searched_for_an_unknown_conversation(
    gateway: TestGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    handled, begins = MemoryHandledPositions(gateway.log.pipeline.store), list[int]()
    gateway.states.state = replace(gateway.states.state, handled=handled)
    read_range = gateway.log.read_range

    def seen(topic: Topic, partition: int, begin: int) -> AsyncGenerator[Record]:
        begins.append(begin)
        return read_range(topic, partition, begin)

    monkeypatch.setattr(gateway.log, "read_range", seen)
    async with gateway.client() as client:
        partition = partition_of(conversation_key("acme", "c").encode(), gateway.log.log.partitions)
        await handled.store(ReadPartition("intake", Topic.CONVERSATIONS, partition), "me", position(0, 6), {})
        assert (await client.post(f"{C}/erasures", json={})).status_code == 404
    assert begins == [7]


@pytest.mark.parametrize("path", ["erasures", "erasure-plans"])
async def test_what_cannot_be_erased_is_said_at_once(gateway: TestGateway, path: str) -> None:
    ledger = gateway.app.gateway.erasures
    assert ledger is not None
    async with gateway.client() as client, gateway.client("other") as stranger:
        await told(client)
        unknown = detail(await client.post(f"/v1/conversations/nobody/{path}", json={}), 404)
        assert detail(await stranger.post(f"{C}/{path}", json={}), 404) == unknown
        await ledger.begin(begun("u1"))
        gone = await client.post(f"{C}/{path}", json={"utterance_ids": ["u1", "u2"]})
        assert detail(gone, 409) == "erased already: u1"
        await ledger.begin(begun("u1", "u2", "u3", whole=True).model_copy(update={"request_id": "e2"}))
        assert "erased already" in detail(await client.post(f"{C}/{path}", json={}), 409)
    assert await ledger.requests() == []


async def test_while_a_generation_is_made_a_request_has_to_wait(gateway: TestGateway) -> None:
    async with gateway.client() as client:
        await told(client)
        made = Generation(name="v2", state=GenerationState.BUILDING, made_at=NOW, source="v1")
        await gateway.states.book.write(made)
        refused = await client.post(f"{C}/erasures", json={})
    assert "v2 is being made" in detail(refused, 409)
    assert int(refused.headers["retry-after"]) > 0


async def test_without_a_ledger_nothing_is_promised(tmp_path: Path) -> None:
    gateway = make_gateway(tmp_path)
    object.__setattr__(gateway.app.gateway, "erasures", None)
    async with gateway.client() as client:
        await told(client)
        for answer in (await client.post(f"{C}/erasures", json={}), await client.get(f"{C}/erasures")):
            assert "EUNOE_ERASURES" in detail(answer, 503)


async def test_a_plan_changes_nothing(gateway: TestGateway) -> None:
    ledger = gateway.app.gateway.erasures
    assert ledger is not None
    async with gateway.client() as client:
        await told(client)
        found = await client.post(f"{C}/erasure-plans", json={"utterance_ids": ["u1"]})
    assert found.json() == {"level": "utterances", "utterances": 1, "places": {"redis:update/memories": 1}}
    assert await ledger.requests() == []


REQUEST = ErasureRequest(request_id="e", key="acme/--c", at=NOW, utterance_ids=("-u",))
PLANS = {
    "shown": "import json,sys; print(json.dumps([{'level': 'utterances', 'utterances': 1, 'places': {}}]))",
    "refused": (
        "import json,sys; print(json.dumps({'refused': 'no such utterance'}));"
        "sys.stderr.write('noise\\neunoe: no such utterance\\n'); sys.exit(2)"
    ),
    "misconfigured": "import sys; sys.stderr.write('eunoe: Kafka at k:9092 refuses the login\\n'); sys.exit(2)",
    "away": "import sys; sys.exit(69)",
    "slow": "import time; time.sleep(60)",
}


async def test_a_plan_is_made_by_a_command_of_its_own() -> None:
    def command(name: str, seconds: float = 30.0) -> PlanCommand:
        return PlanCommand((sys.executable, "-c", PLANS[name]), seconds)

    assert (await command("shown").plan("acme", "--c", REQUEST)).utterances == 1
    with pytest.raises(Problem, match=r"^no such utterance$"):
        await command("refused").plan("acme", "--c", REQUEST)
    with pytest.raises(Refused, match="Kafka at k:9092 refuses the login"):
        await command("misconfigured").plan("acme", "--c", REQUEST)
    with pytest.raises(Unavailable, match="69"):
        await command("away").plan("acme", "--c", REQUEST)
    with pytest.raises(Unavailable, match="no plan within"):
        await command("slow", 0.3).plan("acme", "--c", REQUEST)


@pytest.mark.parametrize(
    ("plan", "status", "words"),
    [
        ("refused", 409, "no such utterance"),
        ("misconfigured", 503, "not set up"),
        ("away", 503, "The planner does not answer now"),
    ],
)
async def test_a_plan_is_refused_for_its_content_alone(
    gateway: TestGateway, plan: str, status: int, words: str
) -> None:
    object.__setattr__(gateway.app.gateway, "plans", PlanCommand((sys.executable, "-c", PLANS[plan])))
    async with gateway.client() as client:
        await told(client)
        told_ = detail(await client.post(f"{C}/erasure-plans", json={"utterance_ids": ["u1"]}), status)
    assert words in told_
    assert "k:9092" not in told_


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (RequestRefused("no such utterance"), {"refused": "no such utterance"}),
        (NotNow("a generation is being made"), {"refused": "a generation is being made"}),
        (Misconfigured("Kafka refuses the login", "Kafka"), None),
    ],
)
def test_the_command_tells_what_is_wrong_with_a_request_as_json(monkeypatch, capsys, fault, said) -> None:
    async def refused(_wanted: object) -> None:
        raise fault

    monkeypatch.setattr(erase, "_plan", refused)
    for as_json in (False, True):
        with pytest.raises(type(fault)):
            erase.plan("c", as_json=as_json)
        printed = capsys.readouterr().out
        assert (json.loads(printed) if printed else None) == (said if as_json else None)


async def test_plans_of_one_tenant_stand_before_no_other_and_waiting_costs_no_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop, ahead_s = asyncio.get_running_loop(), 0.0
    now = loop.time

    async def turns() -> None:
        for _ in range(5):
            await asyncio.sleep(0)

    async def long(_command: object) -> tuple[int, bytes, str]:
        nonlocal ahead_s
        await turns()  # the other one waits by then
        ahead_s += 40
        await turns()  # what is due by then happens
        return 0, json.dumps([{"level": "utterances", "utterances": 1, "places": {}}]).encode(), ""

    monkeypatch.setattr(loop, "time", lambda: now() + ahead_s)
    monkeypatch.setattr(planning, "_run", long)
    plans = PlanCommand(seconds=60)
    first, other = (asyncio.ensure_future(plans.plan(tenant, "c", REQUEST)) for tenant in ("acme", "other"))
    await asyncio.sleep(0)
    with pytest.raises(Problem, match="being made") as refused:
        await plans.plan("acme", "c", REQUEST)
    assert refused.value.status == 429
    assert [(await plan).utterances for plan in (first, other)] == [1, 1]
    assert (await plans.plan("acme", "c", REQUEST)).utterances == 1


@pytest.mark.parametrize("read", ["requests", "erasures", "done", "refusals"])
async def test_who_looks_while_an_erasure_ends_is_not_shown_what_it_erased_as_done(
    read: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = MemoryErasures()
    await ledger.request(ErasureRequest(request_id="e1", key="acme/c", at=NOW, utterance_ids=("u1",)))
    await ledger.begin(begun("u1"))
    before = getattr(ledger, read)

    async def ends_after(key: str | None = None) -> object:
        found = await before(key)
        await ledger.finish(ErasureDone(request_id="e1", key="acme/c", at=NOW, receipt=RECEIPT))
        return found

    monkeypatch.setattr(ledger, read, ends_after)
    (shown,) = await read_entries(ledger, "acme/c")
    assert shown.request is not None
    assert not (shown.done is not None and shown.request.utterance_ids)
