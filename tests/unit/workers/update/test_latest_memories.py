"""The latest current memories are those of a scan of all, however many sessions it takes to find them."""

from collections.abc import Sequence
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunoe.schemas.decisions import Commit, Put, Scope
from eunoe.schemas.memory import ChangeKind
from eunoe.workers.stores.state.memory_store import MemoryStore
from eunoe.workers.update.memories import CurrentRef, SessionSteps, Step, session_row
from eunoe.workers.update.reads import SESSIONS_AT_ONCE, latest_current
from eunoe.workers.update.tables import CHANGES, CURRENT, NAME
from tests.support.in_memory import START

KEY = "default/c"
Added = list[tuple[str, bool]]
"""Of one session: speaker, and whether the memory is still current."""


class Reading(MemoryStore):
    """Notes the ids that are read."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[str] = []
        self.reads: list[int] = []
        """The number of ids of each read."""

    async def fetch(self, stage: str, key: str, table: str, ids: Sequence[str]) -> list[str | None]:
        if table == CHANGES:
            self.read += ids
            self.reads.append(len(ids))
        return await super().fetch(stage, key, table, ids)


async def stored(sessions: list[Added]) -> Reading:
    store = Reading()
    writes = list(chain.from_iterable(_writes(number, added) for number, added in enumerate(sessions, 1)))
    assert await store.commit(Scope(NAME, KEY), Commit(expect=0, applied=len(sessions), writes=tuple(writes)))
    return store


def _writes(session: int, added: Added) -> list[Put]:
    ids = [f"{session:03d}-{place}" for place in range(len(added))]
    steps = [Step(kind=ChangeKind.ADDED, memory_id=id_, at=START) for id_ in ids]
    ended = Step(kind=ChangeKind.SUPERSEDED, memory_id="001-0", at=START)
    row = SessionSteps(session=session, known_from=START, steps=(*steps, ended))
    current = [
        Put.of(CURRENT, id_, CurrentRef(session=session, index=place, speaker=speaker))
        for place, (id_, (speaker, holds)) in enumerate(zip(ids, added, strict=True))
        if holds
    ]
    return [Put.of(CHANGES, session_row(session), row), *current]


def holding_in(sessions: list[Added]) -> dict[str, int]:
    speakers = [speaker for added in sessions for speaker, holds in added if holds]
    return {speaker: speakers.count(speaker) for speaker in speakers}


async def scanned(store: MemoryStore, speaker: str | None) -> list[str]:
    rows = {id_: CurrentRef.from_json(row) for id_, row in (await store.scan(NAME, KEY, CURRENT)).items()}
    wanted = [id_ for id_, row in rows.items() if speaker in (None, row.speaker)]
    return sorted(wanted, key=lambda id_: (rows[id_].session, rows[id_].index, id_), reverse=True)


@given(
    st.lists(st.lists(st.tuples(st.sampled_from("AB"), st.booleans()), max_size=3), max_size=4 * SESSIONS_AT_ONCE),
    st.integers(0, 60),
    st.sampled_from([None, "A", "B", "C"]),
)
async def test_they_are_those_of_a_scan(sessions: list[Added], count: int, speaker: str | None) -> None:
    store = await stored(sessions)
    found = await latest_current(store, KEY, len(sessions), count, holding_in(sessions), speaker)
    assert found == (await scanned(store, speaker))[:count]


@pytest.mark.parametrize("sessions", [100, 1_000])
async def test_a_long_conversation_is_read_no_further_than_needed(sessions: int) -> None:
    played = [[("A", True)] * 4] * sessions
    store = await stored(played)
    assert len(await latest_current(store, KEY, sessions, 100, holding_in(played))) == 100
    assert store.read == [session_row(session) for session in range(sessions, sessions - SESSIONS_AT_ONCE, -1)]


async def test_old_memories_are_found_in_few_reads() -> None:
    held, ended = [("A", True)], [("A", False)]
    played = [held] * 10 + [ended] * 1_500
    store = await stored(played)
    assert len(await latest_current(store, KEY, len(played), 10, holding_in(played))) == 10
    assert store.reads == [32, 64, 128, 256, 512, 512, 6]
