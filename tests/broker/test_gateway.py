"""The gateway on real servers: feeds from Kafka, state in Redis, processes that end; and the README's commands."""

import asyncio
import json
import os
import re
import signal
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import psutil
import pytest

from eunoe.schemas.events import Utterance
from eunoe.streams.codec import decode
from eunoe.streams.feed import Feed
from eunoe.streams.reader import offset_at, read_range
from eunoe.streams.topics import Topic
from tests.support import command
from tests.support.gateway import LATER, SESSION, told
from tests.support.pipeline import Pipeline, pipeline_at_work
from tests.support.replica import made_key, replica
from tests.support.session import SessionServers

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.timeout(240)]

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def at_work(servers: SessionServers, tmp_path_factory: pytest.TempPathFactory):
    with pipeline_at_work(tmp_path_factory.mktemp("gateway"), servers) as pipeline:
        yield pipeline


async def test_an_event_becomes_memory_is_recalled_and_answers_an_ask_at_any_replica(at_work: Pipeline, tmp_path: Path):
    async with replica(at_work, tmp_path) as one, replica(at_work, tmp_path) as other:
        *_, ended = await told(one, "a/b".replace("/", "%2F"))
        where = {"wait": "memory", "after": ended["position"]["offset"], "timeout": 60}
        session = (await other.get("/v1/conversations/a%2Fb/sessions/last", params=where)).json()
        assert (session["session"], session["remembered"], session["status"]) == (1, True, "remembered")
        recalled = (await other.post("/v1/conversations/a%2Fb/recall", json={"query": "Where does Ann live?"})).json()
        assert "Lyon" in recalled["text"]
        asked = {"text": "Where does Ann live?", "speaker": "Ben", "request_id": "r1"}
        reply = (await one.post("/v1/conversations/a%2Fb/asks", json=asked)).json()
        for replica_ in (one, other):
            assert (await replica_.get("/v1/conversations/a%2Fb/asks/r1")).json() == reply
            assert (await replica_.post("/v1/conversations/a%2Fb/asks", json=asked)).json() == reply
        shown = await other.get(f"/v1/conversations/a%2Fb/replies/{reply['reply_id']}")
        assert shown.json() == reply
        state = (await other.get("/v1/conversations/a%2Fb/state")).json()
        assert state["index_findings"] == []
        listed = (await one.get("/v1/conversations")).json()["conversations"]
        assert [each["conversation_id"] for each in listed] == ["a/b"]


async def test_sessions_are_told_and_a_broken_stream_misses_none(at_work: Pipeline, tmp_path: Path):
    async with replica(at_work, tmp_path, "feeds") as client:
        found: list[dict] = []
        last = None
        for events in (SESSION, LATER):
            headers = {} if last is None else {"Last-Event-ID": last}
            if last is not None:  # it happens while nobody listens
                await told(client, "c", events)
            async with client.stream("GET", "/v1/remembered", headers=headers) as answer:
                lines = answer.aiter_lines()
                ready = [await anext(lines) for _ in range(3)]
                assert ready[1] == "event: ready"
                if last is None:
                    await told(client, "c", events)
                name = ""
                async for line in lines:
                    if line.startswith("id: "):
                        last = line.removeprefix("id: ")
                    elif line.startswith("event: "):
                        name = line.removeprefix("event: ")
                    elif line.startswith("data: ") and name == "remembered":
                        found.append(json.loads(line.removeprefix("data: ")))
                        break
        assert [(each["conversation_id"], each["session"]) for each in found] == [("c", 1), ("c", 2)]


async def test_a_feed_begins_where_it_is_told_to(at_work: Pipeline, tmp_path: Path):
    settings = at_work.settings
    kafka, names = settings.kafka_settings, settings.names
    begun = datetime.now(UTC) - timedelta(minutes=5)
    async with replica(at_work, tmp_path, "feed") as client:
        first = (await told(client, "f"))[0]["position"]
        where = first["partition"]
        feed = Feed(kafka, names, Topic.CONVERSATIONS)
        try:
            async with feed.subscribe({where: first["offset"]}, lambda key: key == b"feed/f") as late:
                more = (await told(client, "f", LATER))[-1]["position"]
                offsets = [(await late.next()).offset for _ in range(7)]
            async with feed.subscribe({where: None}, lambda key: key == b"feed/f") as fresh:
                assert (fresh.begin, fresh.lost_place) == ({where: more["offset"] + 1}, False)
            async with feed.subscribe({where: more["offset"] + 2}, lambda key: key == b"feed/f") as lost:
                assert (lost.begin, lost.lost_place) == ({where: more["offset"] + 1}, True)
        finally:
            await feed.stop()
    assert (offsets[0], offsets[-1], sorted(offsets)) == (first["offset"], more["offset"], offsets)
    assert await offset_at(kafka, names, Topic.CONVERSATIONS, where, round(begun.timestamp() * 1000)) <= first["offset"]
    later = round((datetime.now(UTC) + timedelta(hours=1)).timestamp() * 1000)
    end = await offset_at(kafka, names, Topic.CONVERSATIONS, where, later)
    assert end == more["offset"] + 1
    assert [each async for each in read_range(kafka, names, Topic.CONVERSATIONS, where, (end, end + 9))] == []


async def test_what_a_killed_gateway_accepted_is_in_the_log(at_work: Pipeline, tmp_path: Path):
    key, accepted = made_key(tmp_path, "killed"), []
    own = {**at_work.variables, "EUNOE_GATEWAY__KEYS": str(tmp_path / "keys.json")}
    async with command.running("gateway", "--address", "127.0.0.1:0", cwd=tmp_path, **own) as process:
        url = await _address_of(process)
        async with httpx.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {key}"}) as client:

            async def tell(number: int) -> None:
                for place in range(10_000):
                    body = {"type": "utterance", "speaker": "Ann", "text": f"{number} {place}"}
                    answer = await client.post(f"/v1/conversations/k{number}/events", json=body)
                    if answer.status_code == 202:
                        accepted.append(answer.json()["utterance_id"])

            telling = [asyncio.ensure_future(tell(number)) for number in range(8)]

            async def enough() -> bool:
                return len(accepted) > 200

            await command.until(enough)
            process.send_signal(signal.SIGKILL)
            await process.wait()
            ends = await asyncio.gather(
                *telling, return_exceptions=True
            )  # cancelling would leave sockets open in httpx
            assert {isinstance(end, httpx.TransportError) for end in ends} == {True}
    events = [decode(record.value) for record in await at_work.records(Topic.CONVERSATIONS)]
    logged = {event.utterance_id for event in events if isinstance(event, Utterance)}
    assert len(accepted) > 200
    assert set(accepted) <= logged


async def _address_of(process: asyncio.subprocess.Process) -> str:
    """The address at which the only socket of a process listens."""
    (listening,) = [each for each in psutil.Process(process.pid).net_connections() if each.status == "LISTEN"]
    return f"http://127.0.0.1:{listening.laddr.port}"


async def test_a_gateway_ends_as_it_should(at_work: Pipeline, tmp_path: Path):
    key = made_key(tmp_path, "ending")
    own = {**at_work.variables, "EUNOE_GATEWAY__KEYS": str(tmp_path / "keys.json")}
    async with command.running("gateway", "--address", "127.0.0.1:0", cwd=tmp_path, **own) as process:
        headers = {"Authorization": f"Bearer {key}"}
        async with (
            httpx.AsyncClient(base_url=await _address_of(process), headers=headers, timeout=30) as client,
            client.stream("GET", "/v1/remembered") as answer,
        ):
            lines = answer.aiter_lines()
            assert (await anext(lines)).startswith("id: ")
            process.send_signal(signal.SIGTERM)
            assert "event: closing" in [line async for line in lines]
        assert await process.wait() == 0


async def test_an_address_in_use_is_one_line(at_work: Pipeline, tmp_path: Path):
    async with replica(at_work, tmp_path) as client:
        done = await at_work.eunoe("gateway", "--address", f"127.0.0.1:{client.base_url.port}", timeout_s=60)
    assert done.code == 2
    assert "EUNOE_GATEWAY__ADDRESS: cannot listen" in done.err


@pytest.mark.needs("idempotence")  # which the embedded broker is without
async def test_the_options_of_the_embedded_broker_at_another_are_one_line(at_work: Pipeline, tmp_path: Path):
    done = await at_work.eunoe("gateway", "--address", "127.0.0.1:0", timeout_s=60, EUNOE_BROKER__EMBEDDED="true")
    assert done.code == 2
    (line,) = done.err.strip().splitlines()
    assert re.match(r"eunoe: EUNOE_BROKER__EMBEDDED is set, but .* is not the broker of `eunoe up`", line)


async def test_the_commands_of_the_readme_do_what_they_say(at_work: Pipeline, tmp_path: Path):
    commands = re.findall(r"^curl .*$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert len(commands) == 2
    async with replica(at_work, tmp_path, "readme") as client:
        own = {
            **os.environ,
            "ADDRESS": str(client.base_url).rstrip("/"),
            "KEY": client.headers["authorization"].split()[1],
        }

        async def run(line: str) -> dict:
            work = asyncio.to_thread(
                subprocess.run, line, shell=True, env=own, capture_output=True, check=True, timeout=60
            )
            found: dict = json.loads((await work).stdout)
            if found.get("status") == 504:  # on a busy machine, as its detail says: recall again
                return await run(line)
            assert "status" not in found, found
            return found

        told_, recalled = [await run(line) for line in commands]
        assert told_["position"]["topic"] == "conversations"
        assert [line["text"] for line in recalled["dialogue"]] == ["I moved to Lyon."]
        await client.post("/v1/conversations/ann/events", json={"type": "session_ended"})
        await client.get("/v1/conversations/ann/sessions/1", params={"wait": "memory", "timeout": 60})
        assert "Lyon" in (await run(commands[1]))["text"]
