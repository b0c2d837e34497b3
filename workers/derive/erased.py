"""Reads the log of a conversation of which something was erased: as if that had never been said.

An erased utterance becomes a placeholder (`eunoe.workers.intake.erased`), whether or not its record can still be read;
so no number of a session or turn moves, and nothing is derived from it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from eunoe.schemas.base import write_time
from eunoe.schemas.decisions import Ledger
from eunoe.schemas.erasure import ErasedPart, Numbers, Placeholder
from eunoe.schemas.events import Erase, SessionEnded, Utterance, UtteranceErased
from eunoe.schemas.identity import split_key
from eunoe.schemas.ports import StoredConversation
from eunoe.schemas.versions import ContractError
from eunoe.streams.codec import decode, encode
from eunoe.streams.position import LOG_TIME_HEADER, POSITION_HEADER, record_position, split_position
from eunoe.streams.record import Record
from eunoe.streams.topics import Topic
from eunoe.workers.intake.erased import ERASED
from eunoe.workers.intake.head import Head
from eunoe.workers.intake.state import HEAD
from eunoe.workers.registry import MEMORY_STAGES, STAGES
from eunoe.workers.stage import ApplyOrder

INTAKE: Final = "intake"


def without_erased(records: Iterable[Record], part: ErasedPart | None, epoch: int, behind: int = 0) -> Iterable[Record]:
    """The records of a conversation in log order, with placeholders in place of the erased ones.

    ``epoch`` is that of the log that they were read from. Records that were destroyed may be missing from ``records``.
    ``behind`` is the position in front of the first one, 0 for a conversation from its beginning.
    """
    return records if part is None else _merged(records, part, epoch, behind)


def is_erased(record: Record, part: ErasedPart | None, epoch: int) -> bool:
    """Whether a record of the conversation was erased, so that nobody reads it any more."""
    if part is None:
        return False
    at = _position(record, epoch)
    return 0 < at <= part.until or any(place.position == at for place in part.placeholders)


def start_of(part: ErasedPart | None) -> StoredConversation | None:
    """The state that a conversation with erased records is derived from; `None` means the empty one."""
    if part is None:
        return None
    numbers = part.numbers
    head = Head(salt=part.salt)
    if numbers is not None:
        head = head.model_copy(update={**numbers.model_dump(), "turn_closed": numbers.turn})
    # a stage whose ledger is empty has no documents, and intake would not look for what is erased
    begun = {INTAKE: Ledger(lates=1)}
    return StoredConversation(
        ledgers=begun if numbers is None else {stage: _ledger(stage, part.until, numbers) for stage in MEMORY_STAGES},
        tables={
            (INTAKE, HEAD): {HEAD: head.model_dump_json()},
            (INTAKE, ERASED): dict.fromkeys(sorted(part.refused), "{}"),
        },
        parked={},
    )


def _ledger(stage: str, until: int, numbers: Numbers) -> Ledger:
    by_order = {ApplyOrder.POSITION: until, ApplyOrder.TURN: numbers.turn}
    return Ledger(applied=by_order.get(STAGES[stage].order, numbers.closed))


def _merged(records: Iterable[Record], part: ErasedPart, epoch: int, behind: int) -> Iterator[Record]:
    waiting = [place for place in part.placeholders if place.position > behind or not behind]
    erased = {place.position for place in waiting}
    for record in records:
        at = _position(record, epoch)
        while waiting and 0 < waiting[0].position <= at:
            yield _record(waiting.pop(0), part.key, epoch)
        if at > part.until and at not in erased:
            yield replace(record, value=renamed(record.value, part))
    for place in waiting:
        yield _record(place, part.key, epoch)


def _position(record: Record, epoch: int) -> int:
    """The record's position; 0 for a malformed one, which intake dead-letters."""
    try:
        return record_position(record, epoch)
    except ContractError:
        return 0


def placeholder(place: Placeholder, key: str) -> bytes:
    """The value of the record that stands for an erased utterance."""
    tenant, conversation_id = split_key(key)
    fields = place.model_dump(exclude={"position", "log_time"})
    return encode(UtteranceErased(tenant=tenant, conversation_id=conversation_id, **fields))


def _record(place: Placeholder, key: str, epoch: int) -> Record:
    first_epoch, offset = split_position(place.position)
    first = {
        POSITION_HEADER: f"{first_epoch}:{offset}".encode(),
        LOG_TIME_HEADER: write_time(place.log_time).encode(),
    }
    milliseconds = round(place.log_time.timestamp() * 1000)
    headers = {} if first_epoch == epoch else first
    return Record(Topic.CONVERSATIONS, 0, offset, key.encode(), placeholder(place, key), milliseconds, headers)


def renamed(value: bytes, part: ErasedPart) -> bytes:
    """A record's value; an end or a request to erase that names an erased utterance names its hash instead."""
    try:
        event = decode(value)
    except ContractError:
        return value
    if isinstance(event, Erase):
        return encode(event.model_copy(update={"utterance_ids": _hashed(event, part)}))
    if not isinstance(event, SessionEnded) or event.after_utterance_id is None:
        return value
    hashed = part.hashed(event.after_utterance_id)
    if not any(place.utterance_id == hashed for place in part.placeholders):
        return value
    return encode(event.model_copy(update={"after_utterance_id": hashed}))


def is_refused(value: bytes, part: ErasedPart) -> bool:
    """Whether a record's value is an utterance that is not taken again."""
    try:
        event = decode(value)
    except ContractError:
        return False
    return isinstance(event, Utterance) and part.hashed(event.utterance_id) in part.refused


def _hashed(event: Erase, part: ErasedPart) -> tuple[str, ...]:
    pairs = ((id_, part.hashed(id_)) for id_ in event.utterance_ids)
    return tuple(hashed if hashed in part.refused else id_ for id_, hashed in pairs)
