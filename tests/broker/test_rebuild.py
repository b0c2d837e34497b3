"""Memory made again while the old one serves: the same memory, no model asked, no ask unanswered."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from eunoe.deploy.demo.bundled import CONVERSATION
from eunoe.schemas.events import Ask, SessionEnded, Utterance
from eunoe.streams.codec import decode
from eunoe.streams.topics import Topic
from tests.support.asking import asked_all_the_time, asked_over_http
from tests.support.command import running
from tests.support.in_memory import START
from tests.support.model_server.server import ModelServer, ServerSettings
from tests.support.pipeline import Pipeline
from tests.support.replica import replica

pytestmark = [pytest.mark.broker, pytest.mark.timeout(400)]

NAME = "mina-and-jonas"
LINES = CONVERSATION.read_text().splitlines(keepends=True)
CROWD = 20


def small_talk(number: int, time: int = 0) -> list[str]:
    """Two sessions of a generated conversation, one turn asked; the ``time``-th."""
    key = {"conversation_id": f"c{number}"}
    told = (
        f"I moved to town {number} and I work as a baker.",
        "My brother Leo sings.",
        f"I quit and left town {number}.",
    )
    events: list[Utterance | SessionEnded] = [
        Utterance(
            **key,
            utterance_id=f"u{time}-{index}",
            session_id=f"s{time}-{index // 2}",
            speaker="Ann",
            text=text,
            at=START,
            ask=Ask(request_id=f"r{number}-{time}") if index == 2 else None,
        )
        for index, text in enumerate(told)
    ]
    events += [
        SessionEnded(**key, session_id=f"s{time}-{session}", at=START + timedelta(minutes=time)) for session in (0, 1)
    ]
    return [event.model_dump_json() + "\n" for event in events]


async def digest(pipeline: Pipeline, **more: str) -> dict[str, str]:
    """Conversation → hash, the log's times included."""
    result = await pipeline.eunoe("state", "--all", "--digest", "--log-times", **more)
    assert result.code == 0, result.err
    return dict(reversed(line.split("  ", 1)) for line in result.out.splitlines())


@asynccontextmanager
async def remembered(pipeline: Pipeline, **more: str) -> AsyncIterator[None]:
    """A pipeline at work that has remembered the bundled conversation and a crowd of small ones."""
    async with pipeline.up(**more):
        crowd = [line for number in range(CROWD) for line in small_talk(number)]
        await pipeline.produce(*LINES, *crowd)
        await pipeline.remembered(5, NAME)
        for number in range(CROWD):
            await pipeline.remembered(2, f"c{number}")
        await pipeline.answered(CROWD)
        yield


async def test_rebuilt_with_nothing_changed_it_is_the_same_and_no_model_is_asked(pipeline: Pipeline):
    async with ModelServer(ServerSettings()) as model:
        asking = {"OPENAI_BASE_URL": model.base_url, "OPENAI_API_KEY": "none"}
        async with remembered(pipeline, **asking):
            before = await digest(pipeline)
            asked = model.stats["chat"]
            result = await pipeline.eunoe("rebuild", "--into", "v2", "--json", timeout_s=200, **asking)
            assert result.code == 0, result.err
            assert model.stats["chat"] == asked > CROWD
            assert (result.json["calls"], result.json["state"]) == (0, "built")
            assert (result.json["conversations"], result.json["sessions"]) == (CROWD + 1, 5 + 2 * CROWD)
            assert await digest(pipeline, EUNOE_GENERATION="v2") == before
            listed = await pipeline.listed()
            assert len(listed) == CROWD + 1
            assert await pipeline.listed("v2") == listed
            again = await pipeline.eunoe("rebuild", "--into", "v2", **asking)
            assert again.code == 2
            assert "eunoe drop v2" in again.err
            for more in ((), ("--dry-run",)):
                wrong = await pipeline.eunoe(
                    "rebuild", "--into", "v3", "--conversation", "c0", "--conversation", "C", *more
                )
                assert (wrong.code, "holds nothing of default/C " in wrong.err) == (2, True), wrong.err
            assert {one["name"] for one in (await pipeline.eunoe("generations", "--json")).json} == {"v1", "v2"}


@pytest.mark.slow
async def test_another_temperature_asks_anew_and_once(pipeline: Pipeline):
    async with ModelServer(ServerSettings()) as model:
        asking = {"OPENAI_BASE_URL": model.base_url, "OPENAI_API_KEY": "none"}
        warmer = {**asking, "EUNOE_MODEL_TEMPERATURE": "0.7"}
        async with pipeline.up(**asking):
            await pipeline.produce(*small_talk(1))
            await pipeline.remembered(2, "c1")
            await pipeline.answered(1)
            before, asked, paid = await digest(pipeline), model.stats["chat"], []
            for generation in ("v2", "v3"):
                result = await pipeline.eunoe("rebuild", "--into", generation, "--json", timeout_s=200, **warmer)
                assert result.code == 0, result.err
                paid.append(result.json["calls"])
                # the server answers by the prompt alone
                assert await digest(pipeline, EUNOE_GENERATION=generation) == before
            assert paid[0] > 0
            assert paid[1] == 0
            assert model.stats["chat"] == asked + paid[0]


@pytest.mark.slow
async def test_until_a_time_it_knows_what_was_known_then(pipeline: Pipeline):
    async with pipeline.up():
        await pipeline.produce(*small_talk(1))
        await pipeline.remembered(2, "c1")
        (*_, last) = await pipeline.records(Topic.CONVERSATIONS)
        then = await digest(pipeline)
        await pipeline.produce(*small_talk(2), *small_talk(1, time=1))
        await pipeline.remembered(2, "c2")
        await pipeline.remembered(4, "c1")
        time = last.appended.isoformat()
        result = await pipeline.eunoe("rebuild", "--into", "then", "--until", time, "--json")
        assert result.code == 0, result.err
        assert await digest(pipeline, EUNOE_GENERATION="then") == then
        refused = await pipeline.eunoe("promote", "then")
        assert (refused.code, "holds only a part of the memory" in refused.err) == (2, True)


@pytest.mark.slow
async def test_every_ask_is_answered_once_while_another_generation_takes_over(pipeline: Pipeline, tmp_path: Path):
    async with remembered(pipeline), replica(pipeline, tmp_path) as client:
        async with (
            asked_all_the_time(pipeline, NAME, "When is the birthday?", "Jonas") as asking,
            asked_over_http(client, [f"c{number}" for number in range(4)], "Where do I work?", "Ann") as over_http,
        ):
            result = await pipeline.eunoe("rebuild", "--into", "v2", "--set", "link.associative=1", timeout_s=200)
            assert result.code == 0, result.err
            assert asking.answered
            async with running("worker", "all", cwd=pipeline.cwd, **pipeline.variables, EUNOE_GENERATION="v2"):
                promoted = await pipeline.eunoe("promote", "v2", "--json", timeout_s=200)
                assert promoted.code == 0, promoted.err
                assert promoted.json == {"live": "v2", "before": "v1"}
                await asyncio.gather(asking.more(5), over_http.more(5))
                assert (await client.get("/v1/conversations/c1")).status_code == 200  # the gateway follows
                back = await pipeline.eunoe("promote", "v1", timeout_s=200)
                assert back.code == 0, back.err
                assert (await client.get("/v1/conversations/c1")).status_code == 200
                await asyncio.gather(asking.more(5), over_http.more(5))
        replies = [decode(record.value) for record in await pipeline.records(Topic.REPLIES)]
        requests = [reply.request_id for reply in replies]  # type: ignore[attr-defined]
        assert len(requests) == len(set(requests)) >= len(asking.answered) + len(over_http.answered)
        assert not [reply for reply in replies if reply.error]  # type: ignore[attr-defined]
        gone = await pipeline.eunoe("drop", "v2", "--yes", "--json")
        assert gone.json["dropped"] == "v2"
        assert (await pipeline.eunoe("drop", "v1", "--yes")).code == 2


@pytest.mark.slow
@pytest.mark.embedded("restarts eunoe up")
async def test_an_older_generation_can_be_promoted_after_a_restart_of_eunoe_up(standalone: Pipeline):
    async with standalone.up():
        await standalone.produce(*small_talk(1))
        await standalone.remembered(2, "c1")
        assert (await standalone.eunoe("rebuild", "--into", "v2")).code == 0
        promoted = await standalone.eunoe("promote", "v2")
        assert (promoted.code, "runs workers of v1, not of v2" in promoted.err) == (0, True), promoted.err
        checked = await standalone.eunoe("doctor", "--only", "broker")
        assert "runs workers of v1, not of v2" in checked.out
    async with standalone.up():
        checked = await standalone.eunoe("doctor", "--only", "broker")
        assert "runs workers of" not in checked.out
        older = {"EUNOE_GENERATION": "v1"}
        repaired = await standalone.eunoe("repair", "c1", **older)
        assert repaired.code == 0, repaired.err
        async with running("worker", "all", cwd=standalone.cwd, **standalone.variables, **older):
            back = await standalone.eunoe("promote", "v1")
            assert (back.code, "runs workers of v2, not of v1" in back.err) == (0, True), back.err
