"""The verdicts of a session that comes after its turn."""

import pytest

from eunoe.schemas.events import InsightKind
from eunoe.schemas.memory import Memory, MemoryStatus
from eunoe.workers.update.applying import apply_summary
from eunoe.workers.update.late import add_outdated, in_log_order, late_verdicts, without_claims
from eunoe.workers.update.lifecycle import Lifecycle
from eunoe.workers.update.memories import summary_memories
from eunoe.workers.update.operator import Operation, OperationPair, OperationVerdict
from tests.support.updates import formed, insight


def memory(session: int, text: str) -> Memory:
    return summary_memories(formed(session, text))[0]


def settle(older: Memory, newer: Memory, late: Memory, judged: dict[tuple[str, str], Operation]) -> Lifecycle:
    """What a late session's one sentence comes to beside an older and a newer memory."""
    pairs = [OperationPair(older, late), OperationPair(newer, late)]
    verdicts = {ids: OperationVerdict(operation, "judged", fused="both") for ids, operation in judged.items()}
    found = late_verdicts(pairs, verdicts)
    life = Lifecycle(late.session, [older, newer])
    add_outdated(life, [late], found.outdated)
    apply_summary(life, [] if found.outdated else [late], pairs, found.kept)
    return life


OLDER, LATE, NEWER = memory(1, "Ann lives in Lyon."), memory(2, "Ann lives in Oslo."), memory(4, "Ann lives in Turin.")


def test_a_newer_memory_is_the_new_one_of_a_pair():
    assert in_log_order(OperationPair(NEWER, LATE)) == OperationPair(LATE, NEWER)
    assert in_log_order(OperationPair(OLDER, LATE)) == OperationPair(OLDER, LATE)


@pytest.mark.parametrize("operation", list(Operation))
def test_whatever_is_judged_older_and_newer_memories_still_hold(operation: Operation):
    judged = {(OLDER.memory_id, LATE.memory_id): operation, (LATE.memory_id, NEWER.memory_id): operation}
    life = settle(OLDER, NEWER, LATE, judged)
    assert life.is_current(OLDER.memory_id)
    assert life.is_current(NEWER.memory_id)
    added = life.get(LATE.memory_id)
    assert added is not None
    assert added.status is not MemoryStatus.RETIRED
    assert life.was_added(LATE.memory_id)


def test_what_a_newer_memory_replaces_held_until_its_session():
    life = settle(OLDER, NEWER, LATE, {(LATE.memory_id, NEWER.memory_id): Operation.REPLACE})
    ended = life.get(LATE.memory_id)
    assert ended is not None
    assert ended.ending is not None
    assert (ended.ending.by, ended.ending.session, ended.ending.at) == (NEWER.memory_id, 4, NEWER.at)


def test_what_a_memory_says_already_is_born_superseded():
    for judged in (
        {(OLDER.memory_id, LATE.memory_id): Operation.PASS},
        {(LATE.memory_id, NEWER.memory_id): Operation.PASS},
    ):
        ended = settle(OLDER, NEWER, LATE, judged).get(LATE.memory_id)
        assert ended is not None
        assert ended.ending is not None
        assert ended.ending.session == LATE.session
        assert ended.ending.by in {OLDER.memory_id, NEWER.memory_id}


def test_nobody_judging_the_sentence_is_added():
    assert settle(OLDER, NEWER, LATE, {}).is_current(LATE.memory_id)


def test_an_insight_that_comes_late_replaces_nothing():
    for kind in InsightKind:
        late = without_claims(insight(kind, "Ann lives in Oslo.", 2, *([OLDER.memory_id] if kind != "new" else [])))
        assert (late.kind, late.replaces) == (InsightKind.NEW, ())
