"""What became of events that nobody could decide: sent back, discarded, or derived again from the log."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from eunoe.deploy.clients.shared import open_publisher, open_redis, open_store, store_keys
from eunoe.schemas.decisions import Scope
from eunoe.schemas.events import SessionEnded, Utterance
from eunoe.streams.codec import encode
from eunoe.streams.record import Message
from eunoe.streams.settings import partition_of
from eunoe.streams.topics import Topic
from eunoe.workers.update.reads import all_memories
from tests.support.bystanders import drained
from tests.support.command import until
from tests.support.in_memory import START
from tests.support.pipeline import PARTITIONS, Pipeline, sealed_pipeline

pytestmark = [pytest.mark.broker, pytest.mark.timeout(400)]

CITIES = ("Lyon", "Oslo", "Porto", "Turin", "Ghent", "Bergen")


def names_of_one_partition() -> tuple[str, str, str]:
    """Three conversations that share a partition."""
    wanted = partition_of(b"default/held", PARTITIONS)
    names = (f"other-{number}" for number in range(1000))
    first, second = [name for name in names if partition_of(f"default/{name}".encode(), PARTITIONS) == wanted][:2]
    return "held", first, second


def utterance(name: str, number: int, text: str) -> Utterance:
    return Utterance(conversation_id=name, utterance_id=f"u{number}", speaker="Ann", text=text, at=START)


def session(name: str, number: int) -> list[str]:
    city = CITIES[number - 1]
    events = [
        utterance(name, 10 * number, f"I moved to {city} in spring, and I work at the harbour there."),
        utterance(name, 10 * number + 1, f"My dentist in {city} hurts me, and I bought {number} horses."),
        SessionEnded(conversation_id=name, at=START + timedelta(minutes=number)),
    ]
    return [event.model_dump_json() + "\n" for event in events]


async def applied(pipeline: Pipeline, name: str, sessions: int) -> None:
    """Wait until every stage has applied so many sessions."""
    async with open_store(pipeline.settings) as store:

        async def there() -> bool:
            stages = ("segment", "compress", "summarize", "update", "link", "tree")
            ledgers = [await store.ledger(Scope(stage, f"default/{name}")) for stage in stages]
            return all(ledger.applied == sessions and ledger.outbox is None for ledger in ledgers)

        await until(there, 120)


async def letters(pipeline: Pipeline, *words: str) -> list[dict[str, Any]]:
    result = await pipeline.eunoe("dead-letters", "list", "--json", *words)
    assert result.code == 0, result.err
    found: list[dict[str, Any]] = result.json
    return found


async def held(pipeline: Pipeline, count: int) -> None:
    async def there() -> bool:
        return len(await letters(pipeline, "--reason", "held")) >= count

    await until(there, 120)


async def told(pipeline: Pipeline, name: str) -> list[tuple[int, int, str, str]]:
    async with open_store(pipeline.settings) as store:
        memories = await all_memories(store, f"default/{name}")
    return [(memory.session, memory.index, memory.text, memory.status.value) for memory in memories]


@pytest.mark.slow
@pytest.mark.parametrize("kept", ["plain", "sealed"])
async def test_a_conversation_whose_ledger_was_lost_is_held_and_repaired_while_the_others_go_on(
    pipeline: Pipeline, kept: str
):
    pipeline = pipeline if kept == "plain" else sealed_pipeline(pipeline)
    name, other, same = names_of_one_partition()
    key = f"default/{name}"
    async with pipeline.up():
        for number in (1, 2, 3):
            await pipeline.produce(*session(name, number), *session(other, number), *session(same, number))
        await asyncio.gather(*(applied(pipeline, one, 3) for one in (name, other, same)))
        await drained(pipeline)  # a ledger that is gone before its acknowledgement is noticed at once
        async with open_redis(pipeline.settings) as redis:
            assert await redis.delete(store_keys(pipeline.settings).ledger(Scope("update", key)))
        await pipeline.produce(*session(name, 4), *session(other, 4), *session(same, 4))
        await asyncio.gather(applied(pipeline, other, 4), applied(pipeline, same, 4), held(pipeline, 1))
        ((letter,)) = await letters(pipeline, "--conversation", key)
        assert (letter["stage"], letter["reason"], letter["closed"]) == ("update", "held", None)
        refused = await pipeline.eunoe("dead-letters", "retry", letter["id"], "--yes")
        assert (refused.code, "eunoe repair" in refused.err) == (1, True)
        repairing = asyncio.create_task(pipeline.eunoe("repair", "--all-held", "--json", timeout_s=200))
        await pipeline.produce(*session(name, 5), *session(same, 5))
        result = await repairing
        assert result.code == 0, result.err
        (report,) = result.json
        assert (report["key"], report["skipped"], report["sessions"] >= 4) == (key, 0, True)
        assert report["letters"] >= 1
        await pipeline.produce(*session(name, 6), *session(same, 6))
        await applied(pipeline, same, 6)
        if await letters(pipeline, "--reason", "held"):  # session 5 was set aside before the repair had read it
            assert (await pipeline.eunoe("repair", name, timeout_s=200)).code == 0
        await applied(pipeline, name, 6)
        assert await told(pipeline, name) == await told(pipeline, same)
        assert await letters(pipeline) == []
        state = await pipeline.eunoe("state", name)
        assert state.code == 0, state.out + state.err


@pytest.mark.slow
async def test_a_conversation_with_damaged_documents_is_held_and_repaired_while_the_others_go_on(pipeline: Pipeline):
    name, other, same = names_of_one_partition()
    async with pipeline.up():
        await pipeline.produce(*session(name, 1), *session(other, 1), *session(same, 1))
        await asyncio.gather(*(applied(pipeline, one, 1) for one in (name, other, same)))
        async with open_redis(pipeline.settings) as redis:
            table = store_keys(pipeline.settings).table("update", f"default/{name}", "memories")
            for id_ in await redis.hkeys(table):
                await redis.hset(table, id_, b"\x02rotten")
        await pipeline.produce(*session(name, 2), *session(other, 2), *session(same, 2))
        await asyncio.gather(applied(pipeline, other, 2), applied(pipeline, same, 2), held(pipeline, 1))
        asked = await pipeline.eunoe("ask", name, "Where does Ann work?")
        assert (asked.code, "run `eunoe repair`" in asked.err) == (1, True)
        result = await pipeline.eunoe("repair", "--all-held", timeout_s=200)
        assert result.code == 0, result.err
        await applied(pipeline, name, 2)
        assert await told(pipeline, name) == await told(pipeline, same)
        assert await letters(pipeline) == []
        assert (await pipeline.eunoe("ask", name, "Where does Ann work?")).code == 0


async def test_letters_are_sent_back_or_discarded_and_not_listed_any_more(pipeline: Pipeline):
    said = utterance("lost", 1, "I moved to Lyon in spring, and I work at the harbour there.")
    ending = SessionEnded(conversation_id="lost", at=START)
    right = partition_of(said.key.encode(), PARTITIONS)
    wrong = Message(Topic.CONVERSATIONS, said.key.encode(), encode(said), partition=(right + 1) % PARTITIONS)
    async with pipeline.up():
        async with open_publisher(pipeline.settings) as publisher:
            await publisher.publish([wrong, Message(Topic.CONVERSATIONS, said.key.encode(), b"no json")])

        async def both() -> bool:
            return len(await letters(pipeline)) == 2

        await until(both, 120)
        found = await letters(pipeline)
        assert {letter["reason"] for letter in found} == {"wrong_partition", "not_json"}
        assert (await pipeline.eunoe("dead-letters", "retry", "--yes")).code == 2
        assert (await pipeline.eunoe("dead-letters", "retry", "--all", "--json")).code == 2
        planned = await pipeline.eunoe("dead-letters", "retry", "--reason", "wrong_partition", "--dry-run", "--json")
        assert (len(planned.json["retried"]), planned.json["dry_run"]) == (1, True)
        assert len(await letters(pipeline)) == 2
        sent = await pipeline.eunoe("dead-letters", "retry", "--reason", "wrong_partition", "--yes")
        assert sent.code == 0, sent.err
        await pipeline.produce(ending.model_dump_json() + "\n")
        view = await pipeline.remembered(1, "lost")
        assert [line.text for segment in view.segments for line in segment.lines] == [said.text]
        discarded = await pipeline.eunoe("dead-letters", "discard", "--error", "json", "--yes", "--json")
        assert len(discarded.json["discarded"]) == 1, discarded.err
        assert await letters(pipeline) == []
        closed = {letter["reason"]: letter["closed"]["how"] for letter in await letters(pipeline, "--all")}
        assert closed == {"wrong_partition": "retried", "not_json": "discarded"}
