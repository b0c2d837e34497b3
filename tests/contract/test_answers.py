"""`AnswerCache`, and what the removal of a generation leaves."""

import pytest

from eunoe.schemas.decisions import Commit, Put, Scope
from eunoe.schemas.keys import Destruction
from eunoe.schemas.records import RecordedAnswer
from eunoe.streams.codec import decode, encode
from eunoe.streams.memory_log import MemoryLog
from eunoe.streams.record import Message
from eunoe.streams.sealed.answers import split_request
from eunoe.streams.sealed.messages import sealed
from eunoe.streams.topics import Topic
from eunoe.workers.stores.data_keys.cached import CachedKeys
from eunoe.workers.stores.records.answers import AnswerCache, LoggedAnswers, RedisAnswers
from eunoe.workers.stores.records.generations import forget_generation
from eunoe.workers.stores.redis.connection import RedisClient
from eunoe.workers.stores.redis.keys import Keys
from eunoe.workers.stores.state.redis_store import RedisStore
from tests.support.memory.key_store import MemoryKeyStore


async def test_an_answer_comes_back(answers: AnswerCache, keys: Keys) -> None:
    name = f"{keys.generation}-1"
    assert await answers.get(name) is None
    await answers.put(name, "first {안녕}")
    await answers.put(name, "second")
    assert await answers.get(name) == "second"
    assert await answers.get(f"{keys.generation}-2") is None


async def test_answers_live_as_long_as_they_are_told_to(redis: RedisClient | None, keys: Keys) -> None:
    if redis is None:
        return
    name = f"{keys.generation}-1"
    await RedisAnswers(redis, keys, ttl_s=100).put(name, "x")
    assert 0 < await redis.ttl(keys.answer(name)) <= 100
    await RedisAnswers(redis, keys).put(name, "x")
    assert await redis.ttl(keys.answer(name)) == -1
    await redis.delete(keys.answer(name))


async def test_a_generation_is_forgotten_and_nothing_else(redis: RedisClient | None, keys: Keys) -> None:
    if redis is None:
        return
    other = Keys(keys.prefix, f"{keys.generation}x")
    for names in (keys, other):
        store = RedisStore(redis, names)
        for number in range(60):
            scope = Scope("segment", f"acme/{number}")
            await store.park(scope, 2, "s", "x")
            await store.commit(scope, Commit(expect=0, applied=1, writes=(Put(table="t", id="1", text="x"),)))
    answers = RedisAnswers(redis, keys, ttl_s=60)
    await answers.put(keys.generation, "kept")
    assert await forget_generation(redis, keys, batch=50) == 4 * 60
    assert await forget_generation(redis, keys) == 0
    assert await answers.get(keys.generation) == "kept"
    assert (await RedisStore(redis, other).ledger(Scope("segment", "acme/59"))).applied == 1
    assert await forget_generation(redis, other) == 4 * 60


async def test_a_logged_answer_stands_in_the_topic_before_it_can_be_found(answers: AnswerCache, keys: Keys) -> None:
    log = MemoryLog(partitions=1)
    logged = LoggedAnswers(answers, log)
    await logged.put(f"{keys.generation}-3", "first")
    await logged.put(f"{keys.generation}-3", "second")
    assert await logged.get(f"{keys.generation}-3") == "second"
    told = [(record.key, decode(record.value)) for record in log.records(Topic.ANSWERS)]
    assert told == [
        (f"{keys.generation}-3".encode(), RecordedAnswer(request=f"{keys.generation}-3", text=text))
        for text in ("first", "second")
    ]


REQUEST, TEXT = "5e" * 32, '{"said": "Leo sings in the choir"}'


@pytest.fixture
def sealing(redis: RedisClient | None, keys: Keys) -> tuple[RedisAnswers, CachedKeys]:
    if redis is None:
        pytest.skip("answers in memory are not sealed")
    data_keys = CachedKeys(MemoryKeyStore())
    return RedisAnswers(redis, keys, ttl_s=60, data_keys=data_keys), data_keys


async def stored(redis: RedisClient, keys: Keys, conversation: str) -> dict[bytes, bytes]:
    """Everything that Redis holds of the answers of a conversation."""
    names = [name async for name in redis.scan_iter(match=keys.answers_of(conversation))]
    return {name: await redis.get(name) for name in names}


async def test_an_answer_of_a_conversation_is_sealed_and_found_by_it_alone(sealing, redis, keys: Keys) -> None:
    answers, _ = sealing
    mine, other = f"{keys.generation}/a", f"{keys.generation}/b"
    await answers.put(REQUEST, TEXT, mine)
    assert await answers.get(REQUEST, mine) == TEXT
    assert await answers.get(REQUEST, other) is None
    assert await redis.get(keys.answer(REQUEST)) is None
    found = await stored(redis, keys, mine)
    assert len(found) == 1
    assert not any(word in part for row in found.items() for part in row for word in (b"Leo", REQUEST.encode()))
    await answers.put(REQUEST, "second", mine)
    assert await answers.get(REQUEST, mine) == "second"
    assert await answers.forget(mine) == 1
    assert await answers.get(REQUEST, mine) is None


async def test_a_plain_answer_from_before_is_still_found(sealing, redis, keys: Keys) -> None:
    answers, _ = sealing
    request = f"{keys.generation}-plain"
    await RedisAnswers(redis, keys, ttl_s=60).put(request, TEXT)
    assert await answers.get(request, f"{keys.generation}/a") == TEXT
    await answers.put(request, "own", f"{keys.generation}/a")
    assert await answers.get(request, f"{keys.generation}/a") == "own"
    assert await answers.get(request) == TEXT


async def test_answers_that_are_still_asked_for_move_to_the_next_key_and_the_others_die(sealing, redis, keys) -> None:
    answers, data_keys = sealing
    mine, log = f"{keys.generation}/a", MemoryLog(partitions=1)
    logged = LoggedAnswers(answers, log)
    for request in ("kept", "erased"):
        await logged.put(request, f"{request} text", mine)
    first = await data_keys.current(mine)
    second = await data_keys.replace(mine)
    assert await logged.get("kept", mine) == "kept text"  # as the next derivation asks
    assert [record.key for record in log.records(Topic.ANSWERS)] == [b"kept", b"erased", b"kept"]
    await data_keys.destroy(first.id, Destruction.REPLACED)
    assert await logged.get("kept", mine) == "kept text"
    assert await logged.get("erased", mine) is None
    assert await answers.forget(mine, keep=second.id) == 2
    assert await logged.get("kept", mine) == "kept text"
    assert await answers.forget(mine) == 1


async def test_the_topic_fills_the_look_up_with_what_is_not_erased(sealing, redis, keys: Keys) -> None:
    answers, data_keys = sealing
    mine, gone, log = f"{keys.generation}/a", f"{keys.generation}/b", MemoryLog(partitions=1)
    for conversation in (mine, gone, None):
        answer = encode(RecordedAnswer(request=f"{keys.generation}-q", text=f"of {conversation}"))
        message = Message(Topic.ANSWERS, f"{keys.generation}-q".encode(), answer, conversation=conversation)
        log.append(await sealed(message, data_keys))
    await data_keys.destroy((await data_keys.current(gone)).id, Destruction.ERASED)
    records = log.records(Topic.ANSWERS)
    assert [split_request(record.key) is not None for record in records] == [True, True, False]
    assert b"of " not in records[0].value
    entries = [await answers.entry(record) for record in records]
    assert entries[1] is None
    await answers.fill(dict(entry for entry in entries if entry is not None))
    assert await answers.get(f"{keys.generation}-q", mine) == f"of {mine}"
    assert await answers.get(f"{keys.generation}-q", gone) == "of None"
    assert await answers.forget(mine) == 1
