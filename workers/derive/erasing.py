"""Resolves a request for erasure in a conversation: gives the entry for the ledger of erasures, or refuses."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from eunoe.schemas.erasure import (
    Asked,
    ErasedPart,
    Erasure,
    ErasureLevel,
    ErasureRequest,
    Numbers,
    Placeholder,
    hashed_id,
)
from eunoe.schemas.errors import ErasedAlready, RequestRefused
from eunoe.schemas.events import SessionClosed, Utterance, Wants
from eunoe.schemas.versions import ContractError
from eunoe.streams.codec import decode
from eunoe.streams.position import record_log_time, record_position
from eunoe.streams.record import Record
from eunoe.streams.topics import Topic
from eunoe.workers.derive.erased import is_erased
from eunoe.workers.derive.pipeline import Derived
from eunoe.workers.intake.erased import lines_of
from eunoe.workers.intake.head import Head
from eunoe.workers.intake.state import HEAD, LINES
from eunoe.workers.intake.turns import line_of


@dataclass(frozen=True, slots=True)
class LoggedUtterance:
    """An utterance in the log."""

    position: int
    log_time: datetime
    event: Utterance


@dataclass(frozen=True, slots=True)
class SpokenSession:
    """A session of a conversation, closed or open."""

    session_id: str | None
    utterance_ids: tuple[str, ...]
    number: int | None = None
    """`None` while it is open."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """The view of intake on a conversation's log, without erased utterances."""

    key: str
    until: int
    """Position of the last record that intake has handled."""
    said: tuple[LoggedUtterance, ...]
    head: Head
    sessions: tuple[SpokenSession, ...] = ()
    erased: ErasedPart | None = None
    cited: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Reply id → the utterances that the reply rests on."""

    def with_cited(self, cited: Mapping[str, Sequence[str]]) -> "Conversation":
        """The same with the utterances that replies rest on."""
        return replace(self, cited=cited)

    def with_replies(self, ids: Collection[str]) -> set[str]:
        """The utterances with the replies to clients that rest on one of them."""
        resting = {reply_id for reply_id, cited in self.cited.items() if not set(ids).isdisjoint(cited)}
        return {*ids, *(one.event.utterance_id for one in self.said if one.event.reply_id in resting)}

    def without(self, erasure: Erasure, erased: ErasedPart | None) -> "Conversation | None":
        """The same without what an erasure takes that began since; `None` where only the log tells, as of a whole one.

        ``erased``: all that is erased now. Placeholders give no lines and move no numbers: only what is erased goes.
        """
        if erasure.is_whole:
            return None
        places = {place.position for place in erasure.placeholders}
        said = tuple(one for one in self.said if one.position not in places)
        left = {one.event.utterance_id for one in said}
        gone = {one.event.utterance_id for one in self.said} - left
        sessions = tuple(
            replace(one, utterance_ids=tuple(id_ for id_ in one.utterance_ids if id_ not in gone))
            for one in self.sessions
        )
        return replace(self, said=said, sessions=sessions, erased=erased)

    @classmethod
    def of(
        cls, records: Sequence[Record], derived: Derived, until: int, epoch: int, erased: ErasedPart | None
    ) -> "Conversation":
        """``records`` as read from the log; ``derived`` by intake alone, or by all stages."""
        records = [record for record in records if not is_erased(record, erased, epoch)]
        tables = derived.standing.tables
        text = tables.get(("intake", HEAD), {}).get(HEAD)
        head = Head() if text is None else Head.from_json(text)
        sessions = (*_closed(derived), *_open(head, tables.get(("intake", LINES), {}), derived.key))
        return cls(derived.key, until, tuple(_said(records, epoch)), head, sessions, erased)


def erasure_of(wanted: ErasureRequest, there: Conversation, salt: str) -> Erasure:
    """The entry of a request. Raises `RequestRefused`, with everything that is unknown named, and changes nothing."""
    every = {one.event.utterance_id for one in there.said}
    if wanted.is_whole and not every and there.erased is not None:
        raise ErasedAlready(f"{there.key}: already erased: nothing was said in it since")
    ids = every if wanted.is_whole else there.with_replies(_ids(wanted, there))
    whole = wanted.is_whole or (wanted.erases is ErasureLevel.RETENTION and ids == every)
    salt = salt if there.erased is None else there.erased.salt
    head = there.head
    return Erasure(
        request_id=wanted.request_id,
        key=there.key,
        level=wanted.erases,
        at=wanted.at,
        older_than=wanted.older_than,
        until=there.until,
        salt=salt,
        placeholders=() if whole else tuple(_placeholders(there, ids, salt)),
        refused=tuple(sorted(hashed_id(salt, id_) for id_ in ids)),
        numbers=Numbers(opened=head.opened, closed=head.closed, turn=head.turn, remembered=head.remembered)
        if whole
        else None,
    )


def _ids(wanted: ErasureRequest, there: Conversation) -> set[str]:
    """The ids of the utterances that go."""
    if wanted.older_than is not None:
        return _ids_before(wanted.older_than, there)
    known = {one.event.utterance_id for one in there.said}
    if unknown := sorted(set(wanted.utterance_ids) - known):
        gone = [id_ for id_ in unknown if there.erased is not None and there.erased.hashed(id_) in there.erased.refused]
        if gone == unknown:
            raise RequestRefused(f"{there.key}: already erased: {', '.join(gone)}")
        missing = ", ".join(id_ for id_ in unknown if id_ not in gone)
        raise RequestRefused(f"{there.key}: no such utterance in what intake has handled: {missing}")
    return set(wanted.utterance_ids) if wanted.session is None else _ids_in_session(wanted.session, there)


def _ids_in_session(session: str, there: Conversation) -> set[str]:
    found = [one for one in there.sessions if one.session_id == session]
    if not found and session.isdecimal():
        found = [one for one in there.sessions if one.number == int(session)]
    named = {one.session_id for one in found} - {None}
    # an ask that is no part of a session was asked in one nevertheless
    beside = {one.event.utterance_id for one in there.said if one.event.session_id in named}
    ids = {id_ for one in found for id_ in one.utterance_ids} | beside
    if not found:
        raise RequestRefused(f"{there.key}: no session {session!r:.80}, neither as an id of a client nor as a number")
    if not ids:
        raise RequestRefused(f"{there.key}: session {session!r:.80} was erased already")
    return ids


def _ids_before(time: datetime, there: Conversation) -> set[str]:
    """The ids of all that was said before a time, in sessions whose last utterance was, or in none."""
    times = {one.event.utterance_id: one.log_time for one in there.said}
    old = {id_ for id_, said_at in times.items() if said_at < time}
    kept = {
        id_
        for one in there.sessions
        if one.number is None or any(id_ in times and id_ not in old for id_ in one.utterance_ids)
        for id_ in one.utterance_ids
    }
    if not old - kept:
        raise RequestRefused(f"{there.key}: no session in it is that old")
    return old - kept


def _placeholders(there: Conversation, ids: set[str], salt: str) -> Iterator[Placeholder]:
    for one in there.said:
        event = one.event
        recalls = event.ask is not None and event.ask.wants is Wants.MEMORY
        if event.utterance_id not in ids:
            continue
        yield Placeholder(
            position=one.position,
            log_time=one.log_time,
            utterance_id=hashed_id(salt, event.utterance_id),
            session_id=event.session_id,
            size=len(line_of(event).model_dump_json().encode()),
            text_bytes=len(event.text.encode()),
            asked=Asked.RECALL if recalls else _asked(event),
            is_reply=event.reply_id is not None,
        )


def _asked(event: Utterance) -> Asked:
    if event.ask is None:
        return Asked.NOTHING
    return Asked.RECORDED if event.ask.record else Asked.ASIDE


def _said(records: Sequence[Record], epoch: int) -> Iterator[LoggedUtterance]:
    for record in records:
        try:
            event = decode(record.value)
            position, log_time = record_position(record, epoch), record_log_time(record)
        except ContractError:
            continue
        if isinstance(event, Utterance):
            yield LoggedUtterance(position, log_time, event)


def _closed(derived: Derived) -> Iterator[SpokenSession]:
    for record in derived.records:
        event = decode(record.value) if record.topic == Topic.SESSIONS else None
        if isinstance(event, SessionClosed):
            ids = tuple(line.utterance_id for line in event.lines)
            yield SpokenSession(event.session_id, ids, event.session)


def _open(head: Head, rows: Mapping[str, str], key: str) -> Iterator[SpokenSession]:
    for session in head.open:
        ids = tuple(line.utterance_id for line in lines_of(session, rows, key))
        yield SpokenSession(session.session_id, ids)
