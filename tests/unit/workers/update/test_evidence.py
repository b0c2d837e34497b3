"""The invariant of evidence: what spoke for a memory stays cited, and a writer that breaks that is refused. Pure."""

from typing import Any

import pytest
from hypothesis import given

from eunoe.schemas.memory import Change, ChangeKind, Ending, Memory, MemoryStatus
from eunoe.workers.update.applying import apply_summary
from eunoe.workers.update.evidence import EvidenceLost, check_evidence, lost_evidence
from eunoe.workers.update.lifecycle import ENDED, Cause, Lifecycle
from eunoe.workers.update.memories import SessionSteps, Step, summary_memories
from eunoe.workers.update.reads import all_endings, all_memories, all_steps
from tests.support.in_memory import START, make_pipeline, utterance
from tests.support.in_memory import ended as ended_session
from tests.support.updates import KEY, Updates, formed
from tests.support.whole_state import read_states
from tests.unit.workers.update.test_update_lifecycle import conversations

OLD, NEW = summary_memories(formed(1, "Ann a.", "Ann b."))
LATER = summary_memories(formed(2, "Ann c."))[0]
WHY = Cause(START, "why", NEW.memory_id)


def ended(memory: Memory, by: str | None, because: str) -> Memory:
    ending = Ending(status=MemoryStatus.SUPERSEDED if by else MemoryStatus.RETIRED, by=by, session=2, at=START,
                    because=because)  # fmt: skip
    return memory.model_copy(update={"ending": ending})


def changed_to(memory: Memory) -> Lifecycle:
    """A lifecycle in which a stored memory was changed past all its rules."""
    life = Lifecycle(2, [OLD, NEW])
    life._memories[memory.memory_id] = memory
    life._changes.append(Change(kind=ChangeKind.REINFORCED, memory=memory))
    return life


def test_what_the_lifecycle_allows_keeps_the_evidence():
    life = Lifecycle(2, [OLD, NEW])
    life.add(LATER)
    life.supersede(OLD.memory_id, WHY)
    life.retire(NEW.memory_id, Cause(START, ""))
    check_evidence(life, [LATER])
    after = {memory.memory_id: memory for memory in life.touched}
    assert lost_evidence({id_: memory.ending for id_, memory in after.items()}, []) == []
    retired = after[NEW.memory_id].ending
    assert retired is not None
    assert retired.because == ENDED


@pytest.mark.parametrize(
    ("life", "told"),
    [
        (changed_to(OLD.model_copy(update={"evidence": LATER.evidence})), "no longer cites"),
        (changed_to(ended(OLD, None, "")), "retired without a reason"),
        (changed_to(ended(OLD, "nobody", "why")), "superseded by nobody, which is not stored"),
    ],
)
def test_a_change_that_loses_evidence_is_refused(life: Lifecycle, told: str):
    with pytest.raises(EvidenceLost, match=told):
        check_evidence(life, [])


def test_what_a_session_brings_must_be_stored():
    life = Lifecycle(2, [OLD])
    with pytest.raises(EvidenceLost, match=f"{LATER.memory_id} is not stored with its evidence"):
        check_evidence(life, [LATER])


def test_a_whole_conversation_is_searched_for_lost_evidence():
    added = [Step(kind=ChangeKind.ADDED, memory_id=memory.memory_id, at=START) for memory in (OLD, NEW, LATER)]
    steps = [SessionSteps(session=1, known_from=START, steps=tuple(added))]
    known = {one.memory_id: one.ending for one in (ended(OLD, "nobody", "x"), ended(NEW, None, ""))}
    assert lost_evidence(known, steps) == sorted(
        [
            f"{LATER.memory_id} was added and is not stored",
            f"{OLD.memory_id} was superseded by nobody, which is not stored",
            f"{NEW.memory_id} was retired without a reason",
        ]
    )


@given(conversations())
async def test_no_conversation_loses_evidence(drawn: tuple[list[list[str]], dict[tuple[str, str], str]]):
    sessions, script = drawn
    updates = Updates(script=script)
    await updates.hear(*(formed(number, *texts) for number, texts in enumerate(sessions, 1)))
    assert lost_evidence(await all_endings(updates.store, KEY), await all_steps(updates.store, KEY)) == []
    said = {line.utterance_id for number, texts in enumerate(sessions, 1) for draft in formed(number, *texts).drafts
            for line in draft.evidence}  # fmt: skip
    assert {line.utterance_id for memory in await all_memories(updates.store, KEY) for line in memory.evidence} == said


async def test_a_writer_that_drops_a_sentence_writes_nothing(monkeypatch: pytest.MonkeyPatch):
    def forgetful(life: Lifecycle, sentences: list[Memory], *others: Any) -> object:
        return apply_summary(life, sentences[1:], *others)

    monkeypatch.setattr("eunoe.workers.update.stage.apply_summary", forgetful)
    updates = Updates()
    await updates.hear(formed(1, "Ann a.", "Ann b."))
    assert await all_memories(updates.store, KEY) == []


async def test_the_state_of_a_conversation_tells_what_is_lost():
    pipeline = make_pipeline()
    said = [utterance(1, "I moved to Lyon in May and I work at the harbour."), utterance(2, "My dentist hurts me.")]
    await pipeline.produce(*said, ended_session())
    (sound,) = await read_states(pipeline.store, pipeline.index, [KEY])
    assert (sound.lost_evidence, sound.findings) == ((), [])
    memory = (await all_memories(pipeline.store, KEY))[0]
    del pipeline.store._tables["update", KEY, "memories"][memory.memory_id]
    (broken,) = await read_states(pipeline.store, pipeline.index, [KEY])
    assert broken.lost_evidence == (f"{memory.memory_id} was added and is not stored",)
