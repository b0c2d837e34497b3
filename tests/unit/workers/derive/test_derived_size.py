"""A bound for what is held of each session while a long conversation is derived, so that it cannot creep back."""

import gc
import sys
import types
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from eunoe.streams.record import Record
from eunoe.streams.topics import Topic
from eunoe.workers.derive.in_memory import as_message
from eunoe.workers.derive.pipeline import Derived, Deriver
from eunoe.workers.models.local.embedding import WordLlamaEmbedder
from eunoe.workers.registry import StageSettings
from eunoe.workers.runner.decider import RunnerSettings
from eunoe.workers.runner.recorded_outcomes import RecordedOutcomes
from eunoe.workers.stores.state import spilling
from eunoe.workers.stores.vectors import spilling_index
from tests.bench.load import LoadPlan, session_events
from tests.support.in_memory import Stores, make_dependencies

FIRST, SESSIONS = 20, 50
HELD_BYTES = 200_000
A_SESSION = 4_000
"""Bytes held of a session of ten lines once all is derived: ids of its points. It was 4,400 with its packed records in
memory, about 25,000 with all points, and 80,000 with documents and records as they are."""
_SHARED = (type, types.ModuleType, types.FunctionType, types.MethodType, types.BuiltinFunctionType)


def records(sessions: int) -> Iterator[Record]:
    plan = LoadPlan(conversations=1, sessions=sessions)
    events = (event for session in range(1, sessions + 1) for event in session_events(plan, 0, session))
    for offset, message in enumerate(map(as_message, events)):
        yield Record(Topic.CONVERSATIONS, 0, offset, message.key, message.value, 1_760_000_000_000 + offset * 1000)


def held(thing: object) -> int:
    """Bytes of an object and of all that it leads to."""
    seen: set[int] = set()
    size, left = 0, [thing]
    while left:
        one = left.pop()
        if id(one) in seen or isinstance(one, _SHARED):
            continue
        seen.add(id(one))
        if isinstance(one, np.ndarray):
            size += one.nbytes
        else:
            size += sys.getsizeof(one)
            left += gc.get_referents(one)
    return size


@pytest.fixture(scope="module")
def embedder() -> WordLlamaEmbedder:
    return WordLlamaEmbedder()


async def derive(embedder: WordLlamaEmbedder, sessions: int) -> Derived:
    dependencies = replace(make_dependencies(Stores(), StageSettings()), embedder=embedder)
    deriver = Deriver(dependencies, RunnerSettings(), RecordedOutcomes())
    return await deriver.derive("default/bench-00000", records(sessions), epoch=0)


@pytest.mark.slow
async def test_a_session_more_takes_little_memory(monkeypatch: pytest.MonkeyPatch, embedder: WordLlamaEmbedder):
    monkeypatch.setattr(spilling, "HELD_BYTES", HELD_BYTES)
    monkeypatch.setattr(spilling_index, "HELD_BYTES", HELD_BYTES)
    shorter, longer = await derive(embedder, FIRST), await derive(embedder, SESSIONS)
    assert (shorter.sessions, longer.sessions) == (FIRST, SESSIONS)
    grown = (held(longer) - held(shorter)) / (SESSIONS - FIRST)
    assert grown < A_SESSION


async def test_documents_that_were_spilled_are_those_that_stay_in_memory(
    monkeypatch: pytest.MonkeyPatch, embedder: WordLlamaEmbedder
):
    plain = await derive(embedder, FIRST)
    monkeypatch.setattr(spilling, "HELD_BYTES", HELD_BYTES)
    monkeypatch.setattr(spilling_index, "HELD_BYTES", HELD_BYTES)
    spilled = await derive(embedder, FIRST)
    assert plain.standing == spilled.standing
    assert [(one.topic, one.value) for one in plain.records] == [(one.topic, one.value) for one in spilled.records]
    for collection, points in plain.points.items():
        assert list(points) == list(spilled.points[collection])
