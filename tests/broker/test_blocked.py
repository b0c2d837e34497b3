"""Blocked conversations are counted with their age; a record that stops one is passed over while all run."""

from typing import Any

import pytest

from eunoe.deploy.clients.shared import open_redis, store_keys
from eunoe.schemas.decisions import Scope
from eunoe.schemas.events import Ask, ConversationEvent
from eunoe.schemas.records import DeadLetterReason
from eunoe.streams.dead_letters import read_dead_letter
from eunoe.streams.topics import Topic
from eunoe.workers.registry import STAGES
from tests.support.bystanders import drained
from tests.support.command import until
from tests.support.in_memory import ended, utterance
from tests.support.model_server.server import PLAUSIBLE, ChatRequest, ModelServer, Refusal, ServerSettings
from tests.support.pipeline import Pipeline
from tests.support.workers import Worker

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.timeout(300)]

POISON = "Zanzibar"
"""A word that the model's server cannot bear: it answers 429 for ever, and the stage waits for it."""


def segments(question: ChatRequest) -> Any:
    """The answer to stage segment."""
    if POISON in question.user:
        raise Refusal(429, "rate_limit_exceeded", "try again later")
    return PLAUSIBLE["Starts"](question)


def session(name: str, number: int, city: str, *, asks: bool = False) -> list[ConversationEvent]:
    """A session of three utterances; with ``asks`` its last one is blended."""
    ask = {"ask": Ask(request_id=f"{name}-{number}")} if asks else {}
    return [
        utterance(3 * number, f"I moved to {city} and I work at the harbour.", conversation=name),
        utterance(3 * number + 1, "My sister bought two horses.", conversation=name),
        utterance(3 * number + 2, "Where do I work now?", conversation=name, **ask),
        ended(conversation=name),
    ]


async def produce(pipeline: Pipeline, *sessions: list[ConversationEvent]) -> None:
    await pipeline.produce(*(event.model_dump_json() + "\n" for events in sessions for event in events))


async def lose_ledger(pipeline: Pipeline, name: str) -> None:
    """Let Redis forget what stage update has applied of a conversation."""
    async with open_redis(pipeline.settings) as redis:
        assert await redis.delete(store_keys(pipeline.settings).ledger(Scope("update", f"default/{name}")))


async def blocked(worker: Worker, kind: str) -> tuple[float, bool]:
    """The conversations at stage update that a worker counts, and whether the oldest has an age."""
    count = await worker.metric(rf'eunoe_{kind}\{{stage="update"\}}')
    return count, await worker.metric(rf'eunoe_{kind}_oldest_seconds\{{stage="update"\}}') > 0


async def counted(worker: Worker, kind: str, wanted: int) -> None:
    """Wait until a worker counts so many, and an age of the oldest if there is one."""

    async def there() -> bool:
        return await blocked(worker, kind) == (wanted, wanted > 0)

    await until(there, 60, worker.said)


async def test_what_stands_still_is_counted_and_a_record_is_passed_over_while_its_stage_runs(pipeline: Pipeline):
    server = ServerSettings(scripts={**PLAUSIBLE, "Starts": segments})
    async with ModelServer(server) as model, pipeline.servers():
        asking = {"OPENAI_BASE_URL": model.base_url, "OPENAI_API_KEY": "none"}
        variables = {**pipeline.variables, **asking}
        most = Worker(tuple(name for name in STAGES if name != "blend"), pipeline.cwd / "most.log", variables)
        blend = Worker(("blend",), pipeline.cwd / "blend.log", variables)
        try:
            await most.start()
            await most.until_status("ready", 200)
            await produce(pipeline, session("held", 1, "Lyon"), session("other", 1, "Oslo"))
            await pipeline.remembered(1, "held")
            await drained(pipeline)  # a ledger that is gone before its acknowledgement is noticed at once
            await lose_ledger(pipeline, "held")
            await produce(
                pipeline,
                session("held", 2, "Porto"),
                session("parked", 1, "Turin", asks=True),
                session("stuck", 1, POISON),
                session("stuck", 2, "Ghent"),
                session("other", 2, "Bergen"),
            )
            await pipeline.remembered(2, "other")
            await counted(most, "held", 1)
            await counted(most, "parked", 1)
            await blend.start()
            await pipeline.remembered(1, "parked")
            await counted(most, "parked", 0)
            await passed_over(pipeline, most)
            repaired = await pipeline.eunoe("repair", "held", "--json", **asking)
            assert repaired.code == 0, repaired.err
            await pipeline.remembered(2, "held")
            await counted(most, "held", 0)
            await a_rebuild_passes_over_it_too(pipeline, model, asking)
        finally:
            for worker in (most, blend):
                await worker.over()


async def passed_over(pipeline: Pipeline, worker: Worker) -> None:
    """The first session of a conversation is passed over, and its second one is remembered."""
    first, _ = [record for record in await pipeline.records(Topic.SESSIONS) if record.key == b"default/stuck"]
    where = f"sessions/{first.partition}@{first.offset}"
    assert await worker.metric(r'eunoe_commits_total\{stage="segment"\}') == 5, "stuck waits"
    skipped = await pipeline.eunoe("skip", where, "--reason", "the model chokes on it", "--yes", "--json")
    assert (skipped.code, skipped.json["stages"]) == (0, ["segment"]), skipped.err
    view = await pipeline.remembered(2, "stuck")
    told = {line.text for segment in view.segments for line in segment.lines}
    assert not any(POISON in text for text in told)
    assert any("Ghent" in text for text in told)
    letters = [read_dead_letter(record) for record in await pipeline.records(Topic.DEAD_LETTERS)]
    ((letter, value),) = [(letter, value) for letter, value in letters if letter.stage == "segment"]
    assert (letter.topic, letter.partition, letter.offset) == ("sessions", first.partition, first.offset)
    assert (letter.reason, value) == (DeadLetterReason.FAILED, first.value)
    assert "the model chokes on it" in letter.error


async def a_rebuild_passes_over_it_too(pipeline: Pipeline, model: ModelServer, asking: dict[str, str]) -> None:
    """A generation that is built again has the same memory, and asks no model."""
    await drained(pipeline)
    before = model.stats["chat"]
    built = await pipeline.eunoe("rebuild", "--into", "v2", "--json", **asking)
    assert (built.code, built.json["calls"], model.stats["chat"]) == (0, 0, before), built.err
    compared = await pipeline.eunoe("diff", "v1", "v2", "--json")
    assert (compared.code, compared.json["equal_conversations"]) == (0, 4), compared.out
