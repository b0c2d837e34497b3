"""Packs what holds of a person into a profile, without a model."""

from collections.abc import Iterable, Sequence, Set
from datetime import UTC, datetime
from itertools import zip_longest
from typing import Final

from eunoe.schemas.memory import ChangeKind, Memory, MemoryKind
from eunoe.schemas.ports import StateStore
from eunoe.schemas.profile import HEADINGS, PROFILE_TOKENS, PersonProfile, ProfileItem, line_of
from eunoe.workers.text.expiry import expiry_of
from eunoe.workers.text.kinds import kind_of
from eunoe.workers.text.tokens import count_tokens
from eunoe.workers.update.memories import MemoryStats, Step
from eunoe.workers.update.reads import (
    MAX_SESSIONS_AT_ONCE,
    latest_current,
    read_memories,
    read_memory_stats,
    read_steps,
    updated_session,
)

MAX_READ: Final = 400
"""Memories that are read for a profile, the latest: a few times as many as any budget holds."""
_TURNS: Final = {MemoryKind.STATE: 4, MemoryKind.PREFERENCE: 2, MemoryKind.PLAN: 2, MemoryKind.EVENT: 2}
"""Items of a kind in each round of the packing, while it has any."""
_ENDINGS: Final = {ChangeKind.SUPERSEDED, ChangeKind.RETIRED}
_NEVER: Final = datetime.max.replace(tzinfo=UTC)


def profile_item(memory: Memory, later: Set[str] = frozenset()) -> ProfileItem:
    """The item of a memory; kind and end of one that was stored without are told from its text.

    ``later``: ids of memories that are not yet known, and so contradict nothing.
    """
    kind = memory.kind or kind_of(memory.text)
    expires_at = memory.expires_at if memory.kind else expiry_of(memory.text, memory.at, kind)
    return ProfileItem(
        kind=kind,
        text=memory.text,
        at=memory.at,
        expires_at=expires_at,
        perhaps_outdated=any(note.by not in later for note in memory.suspected),
        speaker=memory.speaker,
        memory_id=memory.memory_id,
        session=memory.session,
        sources=tuple(dict.fromkeys(line.utterance_id for line in memory.evidence)),
    )


def pack_profile(
    memories: Iterable[Memory],
    *,
    session: int,
    at: datetime,
    person: str | None = None,
    budget_tokens: int = PROFILE_TOKENS,
    unread: int = 0,
) -> PersonProfile:
    """The profile of a person at a time, from the memories of a conversation that held then.

    What was said after ``at`` is not in it, and ends nothing. In rounds each kind gives its latest items, states most,
    until the next one does not fit. ``unread``: number of further memories that hold, counted as left out.
    """
    known, later = _by_time(memories, at)
    held = (one for one in known if one.ending is None or one.ending.at > at)
    items = [profile_item(one, later) for one in held if person in (None, one.speaker)]
    holding = [item for item in items if item.expires_at is None or item.expires_at > at]
    chosen: list[ProfileItem] = []
    tokens, opened = 0, set[MemoryKind]()
    for item in _in_rounds(holding):
        cost = count_tokens(line_of(item)) + (0 if item.kind in opened else count_tokens(HEADINGS[item.kind]))
        if tokens + cost > budget_tokens:
            continue
        tokens += cost
        opened.add(item.kind)
        chosen.append(item)
    return PersonProfile(
        session=session,
        at=at,
        person=person,
        budget_tokens=budget_tokens,
        tokens=tokens,
        items=tuple(item for kind in HEADINGS for item in _latest_first(chosen) if item.kind is kind),
        left_out=len(holding) - len(chosen) + unread,
        past=len(items) - len(holding),
    )


def _by_time(memories: Iterable[Memory], at: datetime) -> tuple[list[Memory], frozenset[str]]:
    """The memories of what was said up to a time, and the ids of the others."""
    found = list(memories)
    return [one for one in found if one.at <= at], frozenset(one.memory_id for one in found if one.at > at)


def _latest_first(items: Iterable[ProfileItem]) -> list[ProfileItem]:
    return sorted(items, key=lambda item: (item.at, item.session, item.memory_id), reverse=True)


def _in_rounds(items: Sequence[ProfileItem]) -> list[ProfileItem]:
    """The items in the order in which they get room."""
    of_kind = {kind: [item for item in _latest_first(items) if item.kind is kind] for kind in HEADINGS}
    shares = [
        [found[at : at + _TURNS[kind]] for at in range(0, len(found), _TURNS[kind])] for kind, found in of_kind.items()
    ]
    return [item for round_ in zip_longest(*shares, fillvalue=[]) for share in round_ for item in share]


async def read_profile(
    store: StateStore, key: str, *, at: datetime, person: str | None = None, budget_tokens: int = PROFILE_TOKENS
) -> PersonProfile:
    """The profile of a person in a conversation; reads the latest `MAX_READ` memories that held at the event time.

    Raises `Unavailable`. A time before the last session closed takes a look at the changes of all sessions.
    """
    session = await updated_session(store, key)
    stats = await read_memory_stats(store, key)
    memories, unread = await _current(store, key, session, stats, person)
    if (stats.known_from is not None and at < stats.known_from) or any(one.at > at for one in memories):
        held, later = await _held_at(store, key, session, at)
        found, unread = await _of_person(store, key, held, person)
        memories = [_without_suspicions(memory, later) for memory in found]
    return pack_profile(memories, session=session, at=at, person=person, budget_tokens=budget_tokens, unread=unread)


def _without_suspicions(memory: Memory, by: Set[str]) -> Memory:
    kept = tuple(note for note in memory.suspected if note.by not in by)
    return memory.model_copy(update={"suspected": kept})


async def _current(
    store: StateStore, key: str, session: int, stats: MemoryStats, person: str | None
) -> tuple[list[Memory], int]:
    """The latest memories that hold after all sessions, and the number of the others."""
    holding = stats.holding
    latest = await latest_current(store, key, session, MAX_READ, holding, person)
    known = sum(holding.values()) if person is None else holding.get(person, 0)
    return await read_memories(store, key, latest), known - len(latest)


async def _held_at(store: StateStore, key: str, last: int, at: datetime) -> tuple[list[str], Set[str]]:
    """The ids of the memories that held at an event time, the latest first, and of those of what was said later."""
    held: list[str] = []
    later: set[str] = set()
    ended: dict[str, datetime] = {}
    for first in range(last, 0, -MAX_SESSIONS_AT_ONCE):  # backwards: a memory ends in its own session or a later one
        numbers = range(first, max(0, first - MAX_SESSIONS_AT_ONCE), -1)
        rows = await read_steps(store, key, numbers)
        steps = [step for number in numbers if number in rows for step in reversed(rows[number].steps)]
        ended |= {step.memory_id: step.at for step in steps if step.kind in _ENDINGS}
        added: list[Step] = [step for step in steps if step.kind is ChangeKind.ADDED]
        later |= {step.memory_id for step in added if step.at > at}
        held += [step.memory_id for step in added if step.at <= at < ended.get(step.memory_id, _NEVER)]
    return held, later


async def _of_person(store: StateStore, key: str, ids: Sequence[str], person: str | None) -> tuple[list[Memory], int]:
    """The first `MAX_READ` of these memories that are of a person, or of anybody, and the number of the others."""
    if person is None:
        return await read_memories(store, key, ids[:MAX_READ]), len(ids[MAX_READ:])
    found: list[Memory] = []
    count = 0
    for start in range(0, len(ids), MAX_READ):
        some = await read_memories(store, key, ids[start : start + MAX_READ])
        own = [one for one in some if one.speaker == person]
        found += own[: MAX_READ - len(found)]
        count += len(own)
    return found, count - len(found)
