"""A conversation is copied as of one moment, whatever the live stages do meanwhile."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from eunoe.deploy.generations.rebuild.copying import CopyFile, copy_conversation
from eunoe.deploy.generations.rebuild.plan import RebuildPlan, check_from_stage
from eunoe.deploy.generations.rebuild.share import is_whole
from eunoe.schemas.decisions import Ledger, Scope
from eunoe.schemas.errors import Refused, Unavailable
from eunoe.schemas.ports import StoredConversation
from eunoe.streams.topics import Topic
from eunoe.workers.derive.dependents import made_again
from eunoe.workers.derive.in_memory import InMemoryPipeline
from tests.support.in_memory import utterance
from tests.unit.workers.derive.test_continuing import KEY, kept_of, live

AGAIN = made_again("link")


class Disturbed:
    """Somebody speaks while the first copies are made."""

    def __init__(self, pipeline: InMemoryPipeline, times: int) -> None:
        self.pipeline, self.left = pipeline, times

    async def export(self, key: str, tables: Mapping[str, Sequence[str]]) -> StoredConversation:
        found = await self.pipeline.store.export(key, tables)
        if self.left:
            self.left -= 1
            await self.pipeline.produce(utterance(100 + self.left, "And another thing."))
        return found

    async def swap(self, *_: object) -> bool:
        raise NotImplementedError


async def test_what_changed_meanwhile_is_copied_again():
    pipeline = await live()
    state, index = pipeline.store, pipeline.index
    kept = await copy_conversation(state, Disturbed(pipeline, 2), index, KEY, AGAIN)
    assert kept == await kept_of(pipeline, AGAIN)
    assert [session.lines for session in kept.head.open] == [3]


async def test_what_never_rests_is_given_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("eunoe.deploy.generations.rebuild.copying._TRIES", 2)
    pipeline = await live()
    with pytest.raises(Unavailable, match="changed during each of"):
        await copy_conversation(pipeline.store, Disturbed(pipeline, 9), pipeline.index, KEY, AGAIN)


async def test_a_copy_is_read_as_it_was_written(tmp_path: Path):
    pipeline = await live()
    kept = await kept_of(pipeline, AGAIN)
    file = CopyFile(tmp_path / "copies")
    file.add(KEY, kept)
    file.finish()
    assert file.conversations() == [KEY]
    assert file.read(KEY) == kept
    file.close()


@pytest.mark.parametrize(
    ("plan", "told"),
    [
        (RebuildPlan("v2", from_stage="nothing"), "the stages are intake"),
        (RebuildPlan("v2", from_stage="link", changes={"segment.threshold": "1"}), "--from-stage segment"),
        (RebuildPlan("v2", from_stage="tree", changes={"embedding": "x"}), "--from-stage segment"),
        (RebuildPlan("v2", from_stage="link", stages=("intake", "segment")), "cannot be combined with --stages"),
    ],
)
def test_a_partial_rebuild_that_would_miss_what_changed_is_refused(plan: RebuildPlan, told: str):
    with pytest.raises(Refused, match=told):
        check_from_stage(plan)


def test_a_change_in_what_is_made_again_passes():
    check_from_stage(RebuildPlan("v2", from_stage="link", changes={"link.associative": "1", "timeline.retrieved": "4"}))
    check_from_stage(RebuildPlan("v2"))


async def test_what_an_earlier_run_derived_is_kept_only_if_the_log_has_not_grown():
    pipeline = await live()
    records = pipeline.log.records(Topic.CONVERSATIONS)
    ledger = await pipeline.store.ledger(Scope("intake", KEY))
    assert is_whole(ledger, records, epoch=0)
    assert not is_whole(Ledger(), records, epoch=0)
    await pipeline.produce(utterance(91, "And a dog."))
    assert not is_whole(ledger, pipeline.log.records(Topic.CONVERSATIONS), epoch=0)
