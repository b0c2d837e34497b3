"""The routes of the gateway, in this process over the pipeline in memory."""

import asyncio
import base64
import re

import httpx
import pytest

from eunoe.deploy.inspect.history import bounded_history
from eunoe.schemas.base import write_spoken_time
from eunoe.schemas.events import SessionEnded, Utterance
from eunoe.streams.settings import partition_of
from eunoe.streams.topics import Topic
from eunoe.workers.update.reads import all_memories, history_of
from tests.support.gateway import LATER, SESSION, TestGateway, make_gateway, told

C = "/v1/conversations/c"


@pytest.fixture
def gateway(tmp_path) -> TestGateway:
    return make_gateway(tmp_path)


def said(gateway: TestGateway) -> list:
    return gateway.pipeline.events(Topic.CONVERSATIONS)


# ---- events


@pytest.mark.parametrize("route", ["events", "asks"])
async def test_a_time_is_in_the_log_by_the_clock_of_the_speaker(gateway, route):
    body = {"utterance_id": "u1", "speaker": "Ann", "text": "See you tomorrow.", "at": "2026-06-01T20:00:00-07:00"}
    body |= {"type": "utterance"} if route == "events" else {}
    async with gateway.client() as client:
        first = await client.post(f"{C}/{route}", json=body)
        again = await client.post(f"{C}/{route}", json={**body, "at": "2026-06-02T03:00:00Z"})
    assert first.is_success
    assert again.json() == first.json(), "the same instant is the same request"
    assert [write_spoken_time(one.at) for one in said(gateway)] == ["2026-06-01T20:00:00-07:00"]


async def test_an_event_is_in_the_log_where_the_answer_says(gateway):
    async with gateway.client() as client:
        answers = await told(client)
    assert [one["utterance_id"] for one in answers] == ["u1", "u2", "u3", None]
    for answer in answers:
        place = answer["position"]
        record = gateway.log.log.after(place["topic"], place["partition"], place["offset"])
        assert record.key == b"acme/c"
    first, *_, last = said(gateway)
    assert isinstance(first, Utterance)
    assert isinstance(last, SessionEnded)
    assert (first.tenant, first.conversation_id, first.text) == ("acme", "c", SESSION[0]["text"])
    assert gateway.pipeline.dead_letters() == 0


async def test_an_utterance_without_an_id_gets_one(gateway):
    async with gateway.client() as client:
        answer = await client.post(f"{C}/events", json={"type": "utterance", "speaker": "Ann", "text": "hello"})
    assert answer.status_code == 202
    assert said(gateway)[0].utterance_id == answer.json()["utterance_id"]


async def test_the_same_utterance_again_gets_the_same_answer_and_another_is_a_conflict(gateway):
    event = {"type": "utterance", "utterance_id": "u1", "speaker": "Ann", "text": "hello"}
    async with gateway.client() as client:
        first, again = [await client.post(f"{C}/events", json=event) for _ in range(2)]
        other = await client.post(f"{C}/events", json={**event, "text": "bye"})
        elsewhere = await client.post("/v1/conversations/d/events", json={**event, "text": "bye"})
    assert (first.status_code, again.json()) == (202, first.json())
    assert (other.status_code, elsewhere.status_code) == (409, 202)
    assert len(said(gateway)) == 2


async def test_an_utterance_that_a_dead_replica_noted_is_sent_again_at_the_same_time(gateway):
    event = {"type": "utterance", "utterance_id": "u1", "speaker": "Ann", "text": "hello"}
    async with gateway.client() as client:
        gateway.log.away = True
        assert (await client.post(f"{C}/events", json=event)).status_code == 503
        gateway.log.away = False
        answer = await client.post(f"{C}/events", json=event)
    assert answer.status_code == 202
    assert len(said(gateway)) == 1
    assert gateway.pipeline.dead_letters() == 0


async def test_a_batch_is_taken_whole_and_in_order(gateway):
    lines = [
        f'{{"type":"utterance","conversation_id":"c{n % 3}","speaker":"Ann","text":"line {n}","session_id":"s"}}'
        for n in range(30)
    ]
    async with gateway.client() as client:
        answer = await client.post(
            "/v1/events", content="\n".join(lines) + "\n\n", headers={"Content-Type": "application/x-ndjson"}
        )
    assert answer.status_code == 202
    assert len(answer.json()["results"]) == 30
    by_conversation = [event.text for event in said(gateway) if event.conversation_id == "c1"]
    assert by_conversation == [f"line {n}" for n in range(30) if n % 3 == 1]


async def test_a_batch_with_a_wrong_line_names_it_and_sends_nothing(gateway):
    lines = [
        '{"type":"utterance","conversation_id":"c","speaker":"Ann","text":"x"}',
        '{"type":"utterance"}',
        "nonsense",
    ]
    async with gateway.client() as client:
        answer = await client.post(
            "/v1/events", content="\n".join(lines), headers={"Content-Type": "application/x-ndjson"}
        )
    assert answer.status_code == 422
    assert {fault["line"] for fault in answer.json()["errors"]} == {2, 3}
    assert not said(gateway)


# ---- asks and recalls


async def test_an_ask_is_answered(gateway):
    async with gateway.client() as client:
        await told(client)
        answer = await client.post(f"{C}/asks", json={"text": "Where does Ann live?", "speaker": "Ben"})
        reply = answer.json()
        again = await client.get(f"{C}/asks/{reply['request_id']}")
        shown = await client.get(f"{C}/replies/{reply['reply_id']}")
    assert answer.status_code == 200, answer.text
    assert "Lyon" in reply["context"]
    assert reply["known_session"] == 1
    assert again.json() == shown.json() == reply


async def test_an_answer_is_found_where_its_place_was_noted_before_the_replies_got_more_partitions(gateway):
    body = {"text": "Where does Ann live?", "speaker": "Ben", "request_id": "r1"}
    async with gateway.client() as client:
        await told(client)
        reply = (await client.post(f"{C}/asks", json=body)).json()
        partition = partition_of(b"acme/c", gateway.log.log.partitions)
        place = re.compile(rf'(^|"){partition}:(\d+)')
        moved = {name: place.sub(r"\g<1>99:\2", text) for name, text in gateway.notes.texts.items()}
        assert sum("99:" in text for text in moved.values()) == 3, "the ask, its utterance and its reply"
        gateway.notes.texts.update(moved)
        again = await client.get(f"{C}/asks/r1")
        shown = await client.get(f"{C}/replies/{reply['reply_id']}")
    assert again.json() == shown.json() == reply


async def test_the_same_ask_again_is_answered_once(gateway):
    body = {"text": "Where does Ann live?", "speaker": "Ben", "request_id": "r1"}
    async with gateway.client() as client:
        await told(client)
        first, again = [(await client.post(f"{C}/asks", json=body)) for _ in range(2)]
        other = await client.post(f"{C}/asks", json={**body, "text": "Where?"})
    assert first.status_code == 200
    assert again.json() == first.json()
    assert other.status_code == 409
    assert other.json()["detail"].endswith("choose another request_id")
    assert len(gateway.pipeline.replies()) == 1


async def test_an_ask_with_the_id_of_another_utterance_is_a_conflict_and_nothing_is_sent(gateway):
    said_before = {"type": "utterance", "utterance_id": "u9", "speaker": "Ann", "text": "I moved to Rome."}
    asked = {"text": "Where does Ann live?", "speaker": "Ben"}
    async with gateway.client() as client:
        await told(client, events=[said_before])
        first = await client.post(f"{C}/asks", json={**asked, "request_id": "r1", "utterance_id": "q1"})
        again = await client.post(f"{C}/asks", json={**asked, "request_id": "r1", "utterance_id": "q1"})
        logged = len(said(gateway))
        others = [
            await client.post(f"{C}/asks", json={**asked, **ids})
            for ids in ({"request_id": "r2", "utterance_id": "q1"}, {"request_id": "r3", "utterance_id": "u9"})
        ]
        others.append(await client.post(f"{C}/events", json={**said_before, "utterance_id": "q1"}))
    assert (first.status_code, again.json()) == (200, first.json())
    for other in others:
        assert other.status_code == 409, other.text
        assert other.json()["detail"].endswith("choose another utterance_id")
    assert len(said(gateway)) == logged


@pytest.mark.parametrize(
    ("used", "named", "instead"),
    [
        ({"request_id": "r2", "utterance_id": "q1"}, "utterance_id", {"request_id": "r2", "utterance_id": "q2"}),
        ({"request_id": "r1", "utterance_id": "q2"}, "request_id", {"request_id": "r2", "utterance_id": "q2"}),
    ],
)
async def test_a_refused_ask_is_taken_with_another_id_in_place_of_the_one_that_is_named(gateway, used, named, instead):
    first, next_ = ({"text": f"Where does Ann {verb}?", "speaker": "Ben"} for verb in ("live", "work"))
    async with gateway.client() as client:
        await told(client)
        await client.post(f"{C}/asks", json={**first, "request_id": "r1", "utterance_id": "q1"})
        refused = await client.post(f"{C}/asks", json={**next_, **used})
        taken = await client.post(f"{C}/asks", json={**next_, **instead})
    assert (refused.status_code, refused.json()["detail"].endswith(f"choose another {named}")) == (409, True)
    assert taken.status_code == 200, taken.text


async def test_an_ask_with_an_id_that_was_used_before_the_notes_is_a_conflict(gateway):
    async with gateway.client() as client:
        await told(client)
        gateway.notes.texts.clear()
        body = {"text": "Where does Ann live?", "speaker": "Ben", "utterance_id": "u1"}
        other = await client.post(f"{C}/asks", json=body)
    problem = other.json()
    assert other.status_code == 409, other.text
    assert problem["detail"].endswith("choose another utterance_id")
    assert (problem["request_id"], problem["reply"]["request_id"]) == ("u1", "u1")
    assert problem["reply"]["error"].endswith("was used before with another content")


async def test_an_ask_that_nobody_answers_in_time_is_fetched_later(gateway):
    body = {"text": "Where does Ann live?", "speaker": "Ben", "record": False}
    async with gateway.client() as client:
        await told(client)
        gateway.log.lagging = True
        late = await client.post(f"{C}/asks", json=body, headers={"Prefer": "wait=0.05"})
        assert late.status_code == 202
        accepted = late.json()
        assert accepted["resume"].count(":") == 1
        await gateway.log.catch_up()
        for headers in ({}, {"Last-Event-ID": accepted["resume"]}):
            found = await client.get(f"{C}/asks/{accepted['request_id']}", headers=headers)
            assert found.status_code == 200
            assert found.json()["request_id"] == accepted["request_id"]


async def test_a_resumed_ask_names_its_utterance_or_none(gateway):
    body = {"text": "Where does Ann live?", "speaker": "Ben", "record": False}
    soon = {"Prefer": "wait=0.05"}
    async with gateway.client() as client:
        gateway.log.lagging = True
        named = {**body, "request_id": "r1", "utterance_id": "q1"}
        for sent in (body, named):
            accepted = (await client.post(f"{C}/asks", json=sent, headers=soon)).json()
            path = f"{C}/asks/{accepted['request_id']}"
            assert (await client.get(path, headers=soon)).json() == accepted
            unnoted = await client.get(path, headers={**soon, "Last-Event-ID": accepted["resume"]})
            assert unnoted.json() == {**accepted, "position": None, "utterance_id": None}


async def test_an_ask_without_a_preference_fails_with_504_that_names_the_request(tmp_path):
    gateway = make_gateway(tmp_path)
    gateway.app.gateway.settings.__dict__["wait_seconds"] = 0.05
    gateway.log.lagging = True
    async with gateway.client() as client:
        late = await client.post(f"{C}/asks", json={"text": "Where?", "speaker": "Ben", "request_id": "r1"})
        assert (late.status_code, late.json()["request_id"]) == (504, "r1")
        await gateway.log.catch_up()
        gateway.app.gateway.settings.__dict__["wait_seconds"] = 30.0
        assert (await client.get(f"{C}/asks/r1")).status_code == 200


async def test_a_recall_gives_memory_and_the_open_session(gateway):
    async with gateway.client() as client:
        await told(client)
        await told(client, events=[{"type": "utterance", "utterance_id": "u9", "speaker": "Ann", "text": "I like it."}])
        answer = await client.post(f"{C}/recall", json={"query": "Where does Ann live?", "budget_tokens": 200})
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert "Lyon" in found["text"]
    assert found["tokens"] <= 200
    assert found["known_session"] == 1
    assert [line["utterance_id"] for line in found["dialogue"]] == ["u9"]
    assert {id_ for row in found["rows"] for id_ in row["cites"]} <= {"u1", "u2", "u3"}
    assert not gateway.pipeline.replies()


async def test_a_recall_sees_the_lines_of_its_own_chat(gateway):
    lines = [
        {
            "type": "utterance",
            "utterance_id": chat,
            "session_id": chat,
            "speaker": "Ann",
            "text": f"I am at the {chat}.",
        }
        for chat in ("phone", "laptop")
    ]
    async with gateway.client() as client:
        await told(client, events=lines)
        recalls = [{"query": "Where?", "session_id": chat} for chat in ("phone", "laptop", "unknown")]
        found = [(await client.post(f"{C}/recall", json=body)).json() for body in ({"query": "Where?"}, *recalls)]
    shown = [[line["utterance_id"] for line in one["dialogue"]] for one in found]
    assert shown == [["laptop"], ["phone"], ["laptop"], []]


DIET = (
    {
        "type": "utterance",
        "speaker": "Ann",
        "text": "I am on a strict diet without sugar until 10 March 2026.",
        "at": "2026-03-01T20:00:00-07:00",
    },
    {"type": "session_ended"},
)


async def test_a_recall_is_as_of_its_own_time(gateway):
    async with gateway.client() as client:
        await told(client, events=DIET)
        during, after, now = [
            (await client.post(f"{C}/recall", json={"query": "What may Ann eat on her diet?", **at})).json()["text"]
            for at in ({"at": "2026-03-10T20:00:00-07:00"}, {"at": "2026-03-11T20:00:00-07:00"}, {})
        ]
        wrong = await client.post(f"{C}/recall", json={"query": "Diet?", "at": "2026-03-10T20:00:00"})
    assert "diet" in during
    assert "held until" not in during
    assert "held until 10 March 2026" in after
    assert now == after
    assert wrong.status_code == 422


# ---- reads


async def test_conversations_are_listed_page_by_page(gateway):
    async with gateway.client() as client, gateway.client("other") as other:
        for name in "abcde":
            await told(client, name)
        await told(other, "hidden")
        first = (await client.get("/v1/conversations?limit=3")).json()
        rest = (await client.get("/v1/conversations", params={"cursor": first["next"], "limit": 3})).json()
    names = [one["conversation_id"] for page in (first, rest) for one in page["conversations"]]
    assert names == ["e", "d", "c", "b", "a"]
    assert rest.get("next") is None


async def test_a_key_with_a_prefix_sees_its_conversations_only(gateway):
    async with gateway.client() as client, gateway.client(conversations="team-") as narrow:
        for name in ("a", "team-1", "b", "c", "team-2", "d"):
            await told(client, name)
        found, cursor = [], None
        while True:
            page = (
                await narrow.get("/v1/conversations", params={"limit": 1, **({"cursor": cursor} if cursor else {})})
            ).json()
            found += [one["conversation_id"] for one in page["conversations"]]
            cursor = page.get("next")
            if cursor is None:
                break
        assert found == ["team-2", "team-1"]
        assert (await narrow.get("/v1/conversations/a")).status_code == 403
        assert (await narrow.get("/v1/conversations/team-1")).status_code == 200


async def test_a_conversation_and_its_sessions(gateway):
    async with gateway.client() as client:
        assert (await client.get(C)).status_code == 404
        await told(client)
        last = (await told(client, events=LATER[:2]))[-1]
        whole = (await client.get(C)).json()
        sessions = (await client.get(f"{C}/sessions")).json()
        one = (await client.get(f"{C}/sessions/1")).json()
        opened = (await client.get(f"{C}/sessions/open")).json()
        named = (await client.get(f"{C}/sessions/id:s1")).json()
        missing = [await client.get(f"{C}/sessions/{name}") for name in ("2", "0", "id:s9", "x", "²")]
    assert (whole["sessions"], whole["remembered"], whole["segments"]) == (1, 1, len(one["segments"]))
    assert [(one["session_id"], one["lines"]) for one in whole["open"]] == [("s2", 2)]
    assert whole["position"] == last["position"]
    (item,) = sessions["sessions"]
    times = [line["at"] for segment in one["segments"] for line in segment["lines"]]
    assert item == {
        "session": 1, "session_id": "s1", "status": "remembered", "first_at": min(times), "last_at": max(times),
        "lines": 3, "segments": len(one["segments"]),
    }  # fmt: skip
    assert [line["utterance_id"] for segment in one["segments"] for line in segment["lines"]] == ["u1", "u2", "u3"]
    assert (one["remembered"], opened["remembered"], opened["status"]) == (True, False, "open")
    assert [line["utterance_id"] for line in opened["lines"]] == ["u4", "u5"]
    assert one["session_id"] == "s1"
    assert named == one
    assert [answer.status_code for answer in missing] == [404] * 5


async def test_waiting_until_a_session_is_in_memory(gateway):
    async with gateway.client() as client:
        gateway.log.lagging = True
        *_, ended = await told(client)
        where = {"wait": "memory", "after": ended["position"]["offset"], "timeout": 0.05}
        early = await client.get(f"{C}/sessions/last", params=where)
        assert (early.status_code, early.json()["status"], early.json()["remembered"]) == (200, "accepted", False)
        waiting = asyncio.ensure_future(client.get(f"{C}/sessions/last", params={**where, "timeout": 20}))
        await asyncio.sleep(0)
        await gateway.log.catch_up()
        found = await waiting
    assert found.status_code == 200
    assert found.json()["remembered"] is True
    assert found.json().get("missing", []) == []


async def test_memories_now_as_of_a_time_and_their_history(gateway):
    async with gateway.client() as client:
        await told(client)
        first = (await client.get(f"{C}/memories")).json()["memories"]
        time = first[-1]["memory"]["known_from"]
        await told(client, events=LATER)
        now = (await client.get(f"{C}/memories", params={"status": "all"})).json()["memories"]
        then = (await client.get(f"{C}/memories", params={"at": time})).json()["memories"]
        pages, after = [], 0
        while after is not None:
            page = (
                await client.get(f"{C}/memories", params={"status": "all", "limit": 1, "after_session": after})
            ).json()
            pages += page["memories"]
            after = page.get("next")
        ids = [one["memory"]["memory_id"] for one in now]
        histories = [(await client.get(f"{C}/memories/{id_}/history")).json()["changes"] for id_ in ids]
        assert (await client.get(f"{C}/memories/nothing/history")).status_code == 404
    assert first
    assert then == first
    assert pages == now
    assert len(now) > len(first)
    assert all(history[0]["kind"] == "added" for history in histories)


async def test_texts_for_prompts_hold_nothing_that_is_not_shown(gateway):
    hidden = "".join(chr(0xE0000 + ord(char)) for char in "obey") + "\u202e\x1b"
    moved = {**SESSION[0], "text": f"I moved to Lyon in March.{hidden}"}
    async with gateway.client() as client:
        await told(client, events=[moved, *SESSION[1:]])
        recalled = (await client.post(f"{C}/recall", json={"query": "Where does Ann live?"})).json()
        profile = (await client.get(f"{C}/profile")).json()
    for text in (recalled["text"], profile["text"]):
        assert "Lyon" in text
        assert not set(hidden) & set(text)
    assert any(hidden in row["text"] for row in recalled["rows"])  # as it was said


async def test_a_profile_holds_what_the_current_memories_say(gateway):
    async with gateway.client() as client:
        await told(client)
        memories = (await client.get(f"{C}/memories")).json()["memories"]
        whole = (await client.get(f"{C}/profile")).json()
        speaker = memories[0]["memory"]["speaker"]
        own = (await client.get(f"{C}/profile", params={"person": speaker})).json()["profile"]
        small = (await client.get(f"{C}/profile", params={"budget_tokens": 1})).json()
        assert (await client.get("/v1/conversations/nobody/profile")).status_code == 404
        assert (await client.get(f"{C}/profile", params={"budget_tokens": 0})).status_code == 422
    items = whole["profile"]["items"]
    assert {one["memory_id"] for one in items} == {one["memory"]["memory_id"] for one in memories}
    assert all(one["text"] in whole["text"] and one["sources"] for one in items)
    assert {one["speaker"] for one in own["items"]} == {speaker}
    assert (small["text"], small["profile"]["left_out"]) == ("", len(memories))


async def test_history_is_that_of_a_full_scan(gateway):
    async with gateway.client() as client:
        for round_ in range(3):
            for events in (SESSION, LATER):
                own = [
                    {**event, "session_id": f"{event['session_id']}-{round_}"}
                    | ({"utterance_id": f"{event['utterance_id']}-{round_}"} if "utterance_id" in event else {})
                    for event in events
                ]
                await told(client, events=own)
    store = gateway.pipeline.store
    memories = await all_memories(store, "acme/c")
    assert any(memory.ending for memory in memories)
    for memory in memories:
        assert await bounded_history(store, "acme/c", memory.memory_id) == await history_of(
            store, "acme/c", memory.memory_id
        )


async def by_pages(client, path: str) -> tuple[list[dict], list[dict]]:
    """The memories and links of a timeline, one memory of the conversation after the other looked at."""
    memories, edges, after = [], [], 0
    while after is not None:
        page = (await client.get(path, params={"after_session": after, "limit": 1})).json()
        memories, edges, after = [*memories, *page["memories"]], [*edges, *page["edges"]], page["next"]
    return memories, edges


async def test_timelines_tree_and_state(gateway):
    async with gateway.client() as client:
        await told(client)
        again = [
            {**event, "session_id": "s3"}
            | ({"utterance_id": f"{event['utterance_id']}b"} if "speaker" in event else {})
            for event in SESSION
        ]
        await told(client, events=LATER)
        await told(client, events=again)
        timelines = (await client.get(f"{C}/timelines")).json()["timelines"]
        for one in timelines:
            whole = (await client.get(f"{C}/timelines/{one['root']}")).json()
            assert len(whole["memories"]) == whole["size"] == one["size"]
            assert len(whole["edges"]) >= whole["size"] - 1
            assert whole["next"] is None
            assert await by_pages(client, f"{C}/timelines/{one['oldest']}") == (whole["memories"], whole["edges"])
        root = (await client.get(f"{C}/tree")).json()
        below = [await client.get(f"{C}/tree", params={"node": child["node_id"]}) for child in root["children"]]
        state = (await client.get(f"{C}/state")).json()
    assert root["node"]["node_id"] == "root"
    assert root["children"]
    assert all(answer.status_code == 200 for answer in below)
    assert timelines
    assert len(state["digest"]) == 64
    assert state["index_findings"] == []


async def test_a_fresh_conversation_is_read_as_empty(gateway):
    async with gateway.client() as client:
        await told(client, events=SESSION[:1])
        root = await client.get(f"{C}/tree")
        statuses = [(await client.get(f"{C}/{rest}")).status_code for rest in ("memories", "timelines", "sessions")]
        node = await client.get(f"{C}/tree", params={"node": "n"})
        unknown = await client.get("/v1/conversations/nobody/tree")
    assert (root.status_code, root.json()["node"]["node_id"], root.json()["children"]) == (200, "root", [])
    assert statuses == [200, 200, 200]
    assert node.status_code == 404
    assert unknown.status_code == 404
    assert "no such conversation" in unknown.json()["detail"]


async def test_dead_letters_are_shown_to_their_tenant(gateway):
    too_long = {"type": "session_ended", "session_id": "never opened"}
    async with gateway.client() as client, gateway.client("other") as other, gateway.client("*") as operator:
        await told(client)
        await told(client, events=[too_long])
        await told(other, events=[too_long])
        page = (await client.get("/v1/dead-letters")).json()
        (letter,) = page["letters"]
        one = (await client.get(f"/v1/dead-letters/{letter['id']}")).json()
        assert one["letter"]["key"] == "acme/c"
        assert "never opened" in base64.b64decode(one["value"]).decode()
        assert len((await operator.get("/v1/dead-letters")).json()["letters"]) == 2
        assert (await operator.get("/v1/conversations")).status_code == 403
        assert (await other.get(f"/v1/dead-letters/{letter['id']}")).status_code in (404, 200)
        retried = await client.post(f"/v1/dead-letters/{letter['id']}/retry")
        assert retried.status_code == 200
        assert (await client.post(f"/v1/dead-letters/{letter['id']}/discard")).status_code in (200, 409)


async def test_the_address_without_a_key(gateway):
    transport = httpx.ASGITransport(app=gateway.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
        assert (await client.get("/v1/openapi.json")).json()["openapi"] == "3.1.0"
        assert (await client.get("/v1/conversations")).status_code == 401
