"""Random records and batches on all topics of a pipeline at work, while others talk and ask.

``FUZZ_SECONDS`` says for how long, ``FUZZ_SEED`` which records come first (0: drawn anew). A failure names the seed
that repeats it.
"""

import itertools
import os
import time
from dataclasses import replace

import pytest

from eunoe.streams.topics import TOPICS, Topic
from tests.fuzz.cases import batches, drawn, records
from tests.support.bystanders import Bystanders, bystanders, drained, judge, memory_of
from tests.support.pipeline import PARTITIONS, Pipeline
from tests.support.wire import HostileProducer, HostileRecord, Sent

SECONDS = float(os.environ.get("FUZZ_SECONDS", "30"))
SEED = int(os.environ.get("FUZZ_SEED", "1"))
"""The same records in every run of the suite; `make test-fuzz` looks for others."""
RECORDS, BATCHES, PEOPLE = 120, 20, 4
IMPATIENT = {"EUNOE_PATIENCE_SECONDS": "20"}
"""A forged event that claims the memories of a session is waited for so long, and then held."""
MAX_GROWTH = 700 << 20
"""Bytes by which the worker of all stages may grow."""

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.timeout(SECONDS * 2 + 600)]


async def test_nothing_on_the_wire_keeps_others_from_their_answers(pipeline: Pipeline):
    first = SEED or time.time_ns() % 2**32
    end, rounds, sent = time.monotonic() + SECONDS, 0, 0
    async with pipeline.up(**IMPATIENT) as process, bystanders(pipeline, PEOPLE) as people:
        await people.everyone_speaks()
        await people.wave(0)
        before = memory_of(process.pid)
        producer = HostileProducer(pipeline.settings.kafka_settings, pipeline.settings.names, PARTITIONS)
        for seed in itertools.count(first):
            try:
                found = await _round(pipeline, producer, people, seed)
                assert process.returncode is None, "the worker ended"
                assert memory_of(process.pid) - before < MAX_GROWTH
            except BaseException:
                print(f"\nThese records again: FUZZ_SEED={seed} FUZZ_SECONDS=1 make test-fuzz")
                raise
            rounds, sent = rounds + 1, sent + len(found)
            if time.monotonic() > end:
                break
        await people.end_sessions()
        assert len(await people.digests()) == PEOPLE
        for words in (("dead-letters", "list"), ("show", people.name(0)), ("state", people.name(0))):
            done = await pipeline.eunoe(*words)
            assert done.code == 0, f"eunoe {' '.join(words)}: {done.err[-1000:]}"
        growth = (memory_of(process.pid) - before) >> 20
    print(f"\n{rounds} rounds from seed {first}: {sent} hostile records and batches, {len(producer.refused)} refused;")
    print(f"{people.answered} asks answered, nothing lost; the worker grew by {growth} MiB")


async def _round(pipeline: Pipeline, producer: HostileProducer, people: Bystanders, seed: int) -> list[Sent]:
    named = [replace(one, name=f"{seed}.{at}") for at, one in enumerate(drawn(records(), seed, RECORDS))]
    sent = producer.send(named)
    damaged = [replace(one, name=f"{seed}.b{at}") for at, one in enumerate(drawn(batches, seed, BATCHES))]
    sent += await producer.send_batches(damaged)
    await people.wave(seed, after=f"seed {seed}")
    # a batch that cannot be read counts as one record: the next one shows that its rest was passed over
    sent += producer.send(
        HostileRecord("settling", b"", topic=topic, partition=partition)
        for topic in Topic
        if not TOPICS[topic].compacted
        for partition in range(PARTITIONS)
    )
    await drained(pipeline)
    verdict = await judge(pipeline, sent)
    by_name = {one.what.name: one.what for one in sent}
    shown = [f"{fault}\n    {by_name[fault.partition(':')[0]]!r:.1500}" for fault in verdict.faults]
    assert not shown, "\n".join(shown[:10])
    return sent
