"""A repair writes the points of a long conversation in parts."""

from collections.abc import Mapping, Sequence

import pytest

from eunoe.deploy.generations import repaired_index
from eunoe.deploy.generations.repaired_index import write_index
from eunoe.schemas.decisions import Collection, Ledger, Point
from eunoe.streams.record import Record
from eunoe.workers.derive.in_memory import as_message
from eunoe.workers.derive.pipeline import Derived, Deriver
from eunoe.workers.registry import STAGES, StageSettings
from eunoe.workers.runner.decider import RunnerSettings
from eunoe.workers.runner.recorded_outcomes import RecordedOutcomes
from eunoe.workers.stores.vectors.memory_index import MemoryIndex
from tests.bench.load import LoadPlan, session_events
from tests.support.in_memory import Stores, make_dependencies

AT_ONCE = 7


class BoundedIndex(MemoryIndex):
    """An index that takes few points at once."""

    async def upsert(
        self, points: Sequence[Point], fence: int = 0, *, mark: bool = False, over: Mapping[str, int] | None = None
    ) -> None:
        assert len(points) <= AT_ONCE, "a long conversation has more points than fit into memory"
        await super().upsert(points, fence, mark=mark, over=over)


async def derived() -> Derived:
    messages = [as_message(event) for s in (1, 2, 3) for event in session_events(LoadPlan(), 0, s)]
    records = [Record(m.topic, 0, offset, m.key, m.value, 1_760_000_000_000) for offset, m in enumerate(messages)]
    deriver = Deriver(make_dependencies(Stores(), StageSettings()), RunnerSettings(), RecordedOutcomes())
    return await deriver.derive("default/bench-00000", records, epoch=0)


async def test_all_points_are_written_in_parts_and_stale_ones_removed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(repaired_index, "POINTS_AT_ONCE", AT_ONCE)
    made = await derived()
    ledgers = {stage: made.standing.ledgers.get(stage, Ledger()) for stage in STAGES}
    index = BoundedIndex()
    stale = made.points[Collection.TREE][0].model_copy(update={"id": "00000000-0000-0000-0000-000000000001"})
    await index.upsert([stale])
    assert await write_index(index, made, ledgers, None) == 1
    for collection in Collection:
        assert await index.points(collection, made.key) == list(made.points[collection])
    assert len(made.points[Collection.TREE]) > AT_ONCE
