"""`AnswerCache`, and what the removal of a generation leaves."""

from eunoe.schemas.decisions import Commit, Put, Scope
from eunoe.schemas.events import RecordedAnswer
from eunoe.streams.codec import decode
from eunoe.streams.memory_log import MemoryLog
from eunoe.streams.topics import Topic
from eunoe.workers.stores.answers import AnswerCache, LoggedAnswers, RedisAnswers
from eunoe.workers.stores.connection import RedisClient
from eunoe.workers.stores.keys import Keys
from eunoe.workers.stores.redis import RedisStore, forget_generation


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
