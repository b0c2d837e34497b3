"""Erasures: the entries of their ledger, and the port to it."""

import hashlib
import hmac
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, Self

from pydantic import Field

from eunoe.schemas.base import Identifier, Time, Value, absent

_HASH_DIGITS = 32


class ErasureLevel(StrEnum):
    """The part of memory that a request erases."""

    UTTERANCES = "utterances"
    SESSION = "session"
    CONVERSATION = "conversation"
    TENANT = "tenant"
    RETENTION = "retention"
    """The sessions that are older than the tenant keeps."""


class Asked(StrEnum):
    """The answer that an utterance asked for."""

    NOTHING = "nothing"
    RECORDED = "recorded"
    """A reply; the utterance was part of a session."""
    ASIDE = "aside"
    """A reply; the utterance was no part of a session."""
    RECALL = "recall"
    """The memory of something; the utterance left no trace in memory."""


class Placeholder(Value):
    """An erased utterance: all that is needed so that no number of a session or turn moves."""

    position: int = Field(ge=1)
    """Of its record in the log; see `eunoe.streams.position`."""
    log_time: Time
    utterance_id: Identifier
    """`hashed_id` of its id."""
    session_id: Identifier | None = absent()
    size: int
    """Bytes of its line as JSON."""
    text_bytes: int
    asked: Asked = Asked.NOTHING
    is_reply: bool = False
    """Whether it was a reply of the responder."""


class Numbers(Value):
    """The numbers that a wholly erased conversation goes on from."""

    opened: int = 0
    closed: int = 0
    turn: int = 0
    remembered: int = 0


class ErasureRequest(Value):
    """A request to erase something of one conversation: utterances, a session, or all where neither is given."""

    request_id: Identifier
    key: str
    """Of the conversation."""
    at: Time
    utterance_ids: tuple[Identifier, ...] = ()
    session: str | None = absent()
    """The client's id of a session, or the number of a closed one."""
    level: ErasureLevel | None = absent()
    """`None` means the level of what is given."""
    older_than: Time | None = absent()
    """For retention: the sessions whose last utterance came before this time of the log."""

    @property
    def erases(self) -> ErasureLevel:
        """The level of the request."""
        if self.level is not None:
            return self.level
        if self.older_than is not None:
            return ErasureLevel.RETENTION
        if self.session is not None:
            return ErasureLevel.SESSION
        return ErasureLevel.UTTERANCES if self.utterance_ids else ErasureLevel.CONVERSATION

    @property
    def is_whole(self) -> bool:
        """Whether all of the conversation is to go."""
        return self.erases in (ErasureLevel.CONVERSATION, ErasureLevel.TENANT)


class Count(Value):
    """A number of things found at a place."""

    place: str
    """``redis:update/memories``, ``qdrant:segments``, ``dead-letters`` …"""
    count: int = Field(ge=0)


class Erasure(Value):
    """An entry of the ledger: what of one conversation is erased from now on; it is never changed."""

    request_id: Identifier
    key: str
    """Of the conversation."""
    level: ErasureLevel
    at: Time
    until: int = Field(ge=0)
    """Position of the last record in the log that intake had handled."""
    salt: str
    """Key of `hashed_id`, the same in all entries of a conversation."""
    placeholders: tuple[Placeholder, ...] = ()
    refused: tuple[str, ...] = ()
    """`hashed_id` of utterances that are not taken again."""
    before: tuple[Count, ...] = ()
    """Traces of it, by place, in the generation that was live."""
    numbers: Numbers | None = absent()
    """Set where all up to ``until`` is erased."""
    older_than: Time | None = absent()
    """That of the request."""
    keys: tuple[str, ...] = ()
    """Ids of the data keys that the conversation had; they are destroyed when it is carried out."""

    @property
    def is_whole(self) -> bool:
        """Whether all of the conversation up to ``until`` is erased."""
        return self.numbers is not None


class ErasureDone(Value):
    """An entry of the ledger: a request was carried out in one conversation."""

    request_id: Identifier
    key: str
    at: Time
    receipt: str
    """The signed receipt, as JSON."""


class ErasureRefused(Value):
    """An entry of the ledger: a request will not be carried out."""

    request_id: Identifier
    key: str
    at: Time
    reason: str


class RetentionPolicy(Value):
    """An entry of the ledger: how long a tenant keeps sessions; the latest of a tenant counts."""

    request_id: Identifier
    """Of this change."""
    key: str
    """The tenant."""
    at: Time
    days: int | None = Field(default=None, ge=1)
    """Sessions whose last utterance came longer ago, by the times of the log, are erased; `None`: kept for ever."""


class ErasureLedger(Protocol):
    """The append-only ledger of erasures, in a store apart from derived state and its backups.

    Every method raises `Unavailable` when the store does not answer.
    """

    async def secret(self) -> bytes:
        """32 random bytes that sign receipts; made at the first call."""
        ...

    async def request(self, *requests: ErasureRequest) -> None:
        """Append requests; a second one of the same id and conversation changes nothing."""
        ...

    async def requests(self, key: str | None = None) -> list[ErasureRequest]:
        """The requests about a conversation, or all, in their order."""
        ...

    async def begin(self, erasure: Erasure) -> None:
        """Append an erasure; a second one of the same request and conversation changes nothing."""
        ...

    async def finish(self, done: ErasureDone) -> None:
        """Append that an erasure was carried out; a second one of the same request and conversation changes nothing.

        The request keeps its level alone: the ids in it are erased, too.
        """
        ...

    async def refuse(self, refused: ErasureRefused) -> None:
        """Append that a request will not be carried out; a second one of the same request changes nothing."""
        ...

    async def refusals(self, key: str | None = None) -> list[ErasureRefused]:
        """The requests that will not be carried out, of a conversation or of all, in their order."""
        ...

    async def set_retention(self, policy: RetentionPolicy) -> None:
        """Append a tenant's policy, which counts from now on."""
        ...

    async def retentions(self, tenant: str | None = None) -> list[RetentionPolicy]:
        """All policies that were ever set, of a tenant or of all, in their order."""
        ...

    async def lease(self, owner: str, seconds: float) -> bool:
        """Take the right to erase, or keep it, for so long; `False` while another owner has it."""
        ...

    async def release(self, owner: str) -> None:
        """Give the right to erase back; does nothing where another owner has it."""
        ...

    async def erasures(self, key: str | None = None) -> list[Erasure]:
        """The erasures of a conversation, or of all, in the order in which they were begun."""
        ...

    async def done(self, key: str | None = None) -> list[ErasureDone]:
        """The erasures that were carried out, of a conversation or of all, in their order."""
        ...


def without_ids(request: ErasureRequest) -> ErasureRequest:
    """A request without the ids that it names."""
    return request.model_copy(update={"level": request.erases, "utterance_ids": (), "session": None})


def current_policies(policies: Iterable[RetentionPolicy]) -> dict[str, RetentionPolicy]:
    """Tenant → the policy that counts now; those without one are left out. ``policies``: in their order."""
    latest = {policy.key: policy for policy in policies}
    return {tenant: policy for tenant, policy in latest.items() if policy.days is not None}


def hashed_id(salt: str, utterance_id: str) -> str:
    """The id under which an erased utterance is remembered: an HMAC-SHA-256 under the conversation's salt."""
    digest = hmac.new(salt.encode(), utterance_id.encode(), hashlib.sha256).hexdigest()
    return f"erased-{digest[:_HASH_DIGITS]}"


@dataclass(frozen=True, slots=True)
class ErasedPart:
    """All that is erased of one conversation."""

    key: str
    salt: str
    placeholders: tuple[Placeholder, ...] = ()
    """In log order, of records after ``until``."""
    refused: frozenset[str] = frozenset()
    until: int = 0
    """All records up to this position are erased; 0: none."""
    numbers: Numbers | None = None
    """The numbers to go on from behind ``until``."""

    @classmethod
    def of(cls, erasures: Sequence[Erasure]) -> Self | None:
        """The sum of a conversation's erasures; `None` for none."""
        if not erasures:
            return None
        whole = max((one for one in erasures if one.numbers is not None), key=lambda one: one.until, default=None)
        until = 0 if whole is None else whole.until
        by_position = {
            place.position: place for one in erasures for place in one.placeholders if place.position > until
        }
        return cls(
            key=erasures[0].key,
            salt=erasures[0].salt,
            placeholders=tuple(place for _, place in sorted(by_position.items())),
            refused=frozenset(id_ for one in erasures for id_ in one.refused),
            until=until,
            numbers=None if whole is None else whole.numbers,
        )

    def hashed(self, utterance_id: str) -> str:
        """`hashed_id` under this conversation's salt."""
        return hashed_id(self.salt, utterance_id)


def erased_parts(erasures: Iterable[Erasure]) -> dict[str, ErasedPart]:
    """Key → all that is erased of the conversation."""
    by_key: dict[str, list[Erasure]] = {}
    for erasure in erasures:
        by_key.setdefault(erasure.key, []).append(erasure)
    parts = {key: ErasedPart.of(found) for key, found in by_key.items()}
    return {key: part for key, part in parts.items() if part is not None}
