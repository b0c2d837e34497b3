"""Finds what of an import is not in its conversations yet: whole sessions, and later lines of sessions that are."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from eunoe.deploy.datasets.imports.imported import ImportSession, source_id
from eunoe.schemas.documents import read_document
from eunoe.schemas.erasure import hashed_id
from eunoe.schemas.events import Utterance
from eunoe.schemas.memory import Segment
from eunoe.schemas.ports import StateStore
from eunoe.workers.compress.tables import SEGMENTS
from eunoe.workers.intake.erased import ERASED
from eunoe.workers.intake.head import Head
from eunoe.workers.intake.state import CLOSED, HEAD, SEEN, ClosedSession

_CHUNK: Final = 500


@dataclass(frozen=True, slots=True)
class MissingSessions:
    """The part of an import that is to be sent."""

    sessions: tuple[ImportSession, ...]
    """Sessions that are not there, and the later lines of those that are, as sessions of their own."""
    present: int
    """Sessions of which all is there."""
    erased: int
    """Utterances that were erased: intake does not take them again."""


@dataclass(frozen=True, slots=True)
class KnownIds:
    """The ids that a conversation knows."""

    closed: frozenset[str]
    """Client's ids of closed sessions."""
    said: frozenset[str]
    """Ids of utterances of closed sessions."""
    erased: frozenset[str]
    """Ids of utterances that were erased."""


async def missing_sessions(store: StateStore, sessions: Sequence[ImportSession]) -> MissingSessions:
    """The part of ``sessions`` that is not there yet, in their order. Raises `Unavailable`."""
    known = {key: await _known_ids(store, key, own) for key, own in _by_key(sessions).items()}
    return choose_missing(sessions, known)


def choose_missing(sessions: Sequence[ImportSession], known: Mapping[str, KnownIds]) -> MissingSessions:
    """The part of ``sessions`` that is not ``known``, by conversation key.

    A session that did not end is sent again whole: intake knows the ids of what came of it.
    """
    missing: list[ImportSession] = []
    present = erased = 0
    for session in sessions:
        ids = known[session.key]
        lines = [line for line in session.utterances if line.utterance_id not in ids.erased]
        erased += len(session.utterances) - len(lines)
        is_closed = session.session_id in ids.closed
        if is_closed:
            present += all(line.utterance_id in ids.said for line in lines)
            lines = [line for line in lines if line.utterance_id not in ids.said]
        if lines:
            missing.append(_continued(session, lines) if is_closed else replace(session, utterances=tuple(lines)))
    return MissingSessions(tuple(missing), present, erased)


def _continued(session: ImportSession, lines: Sequence[Utterance]) -> ImportSession:
    """The later lines of a closed session as a session of their own: another id, for the first one has ended."""
    session_id = source_id("session", session.key, session.session_id, lines[0].utterance_id)
    said = tuple(line.model_copy(update={"session_id": session_id}) for line in lines)
    return ImportSession(session_id, said, session.end.model_copy(update={"session_id": session_id}))


async def closed_sessions(store: StateStore, key: str, ids: Sequence[str]) -> dict[str, int]:
    """Client's id → number, of those sessions of a conversation that are closed already. Raises `Unavailable`."""
    rows = await _fetched(store, key, CLOSED, ids)
    return {id_: read_document(ClosedSession, text, key).session for id_, text in rows.items()}


async def _known_ids(store: StateStore, key: str, sessions: Sequence[ImportSession]) -> KnownIds:
    closed = frozenset(await closed_sessions(store, key, [session.session_id for session in sessions]))
    ids = [line.utterance_id for session in sessions for line in session.utterances]
    within = [line.utterance_id for one in sessions if one.session_id in closed for line in one.utterances]
    said = frozenset(await _fetched(store, key, SEEN, within))
    if not said.issuperset(within):  # intake forgets the oldest ids
        said |= await _segmented(store, key)
    return KnownIds(closed, said, await _erased(store, key, ids))


async def _segmented(store: StateStore, key: str) -> frozenset[str]:
    rows = await store.scan("compress", key, SEGMENTS)
    return frozenset(id_ for row in rows.values() for id_ in read_document(Segment, row, key).utterance_ids)


async def _erased(store: StateStore, key: str, ids: Sequence[str]) -> frozenset[str]:
    (row,) = await store.fetch("intake", key, HEAD, [HEAD])
    salt = None if row is None else read_document(Head, row, key).salt
    if salt is None:
        return frozenset()
    hashes = {hashed_id(salt, id_): id_ for id_ in ids}
    return frozenset(hashes[found] for found in await _fetched(store, key, ERASED, list(hashes)))


async def _fetched(store: StateStore, key: str, table: str, ids: Sequence[str]) -> dict[str, str]:
    """The documents of a table of intake that are there, by id."""
    found: dict[str, str] = {}
    for start in range(0, len(ids), _CHUNK):
        chunk = ids[start : start + _CHUNK]
        rows = zip(chunk, await store.fetch("intake", key, table, chunk), strict=True)
        found |= {id_: text for id_, text in rows if text is not None}
    return found


def _by_key(sessions: Iterable[ImportSession]) -> dict[str, list[ImportSession]]:
    by_key: dict[str, list[ImportSession]] = defaultdict(list)
    for session in sessions:
        by_key[session.key].append(session)
    return by_key
