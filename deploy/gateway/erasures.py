"""Erasures as the gateway tells of them: requested, begun, done or refused, by the entries of the ledger."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import orjson

from eunoe.schemas.base import Identifier, Time, Value
from eunoe.schemas.erasure import (
    Erasure,
    ErasureDone,
    ErasureLedger,
    ErasureLevel,
    ErasureRefused,
    ErasureRequest,
)

_UNKNOWN: Final = (
    "whether the utterances exist is found when it is carried out: where one does not, it is refused and erases nothing"
)


class ErasureState(StrEnum):
    """The progress of an erasure."""

    REQUESTED = "requested"
    """It is kept in the ledger; an eraser carries it out."""
    BEGUN = "begun"
    """No reader of the log brings it back; memory is derived again without it."""
    DONE = "done"
    """There is a receipt."""
    REFUSED = "refused"
    """It cannot be carried out, and nothing was erased."""


class ErasureView(Value):
    """An erasure, and how far it has come."""

    request_id: Identifier
    level: ErasureLevel
    state: ErasureState
    at: Time
    """The time of the request."""
    utterance_ids: tuple[Identifier, ...] = ()
    """Those that the request names; a finished one keeps no id."""
    session: str | None = None
    """The session that the request names, until it is finished."""
    utterances: int | None = None
    """The number that is erased, with the replies that rest on them; `None` until it has begun."""
    reason: str | None = None
    """The reason of a refusal."""
    done: tuple[str, ...]
    not_done: tuple[str, ...]
    """The rest that is still there, for people; of a finished one the places that the receipt does not cover."""
    receipt: dict[str, Any] | None = None
    """The signed receipt, as `eunoe erase verify` takes it; lists leave it out."""


class ErasurePage(Value):
    """The erasures of a conversation, the latest last."""

    erasures: tuple[ErasureView, ...]
    more: bool
    """Whether older ones were left out."""


class ErasurePlan(Value):
    """The extent of an erasure; nothing was changed."""

    level: ErasureLevel
    utterances: int
    """The number that would go, with the replies that rest on them."""
    places: dict[str, int]
    """Place → documents or points there that tell of it."""


@dataclass(slots=True)
class Entries:
    """The entries of the ledger about one erasure."""

    request: ErasureRequest | None = None
    """`None` for one that the operator began by a command."""
    begun: Erasure | None = None
    done: ErasureDone | None = None
    refused: ErasureRefused | None = None

    def view(self, *, with_receipt: bool = False) -> ErasureView:
        """The erasure as an answer shows it."""
        given = self.begun or self.request
        assert given is not None
        receipt = None if self.done is None else orjson.loads(self.done.receipt)
        done, not_done = self._told(receipt)
        return ErasureView(
            request_id=given.request_id,
            level=given.level if isinstance(given, Erasure) else given.erases,
            state=self.state,
            at=given.at,
            utterance_ids=() if self.request is None else self.request.utterance_ids,
            session=None if self.request is None else self.request.session,
            utterances=None if self.begun is None else len(self.begun.refused),
            reason=None if self.refused is None else self.refused.reason,
            done=done,
            not_done=not_done,
            receipt=receipt if with_receipt else None,
        )

    @property
    def state(self) -> ErasureState:
        """Its progress."""
        if self.done is not None:
            return ErasureState.DONE
        if self.begun is not None:
            return ErasureState.BEGUN
        return ErasureState.REQUESTED if self.refused is None else ErasureState.REFUSED

    def is_for(self, request: ErasureRequest) -> bool:
        """Whether this is the same request, sent again; of a finished one, only the level is still known."""
        mine = self.request
        if mine is None or mine.erases is not request.erases:
            return False
        named = (set(mine.utterance_ids), mine.session)
        return self.done is not None or named == (set(request.utterance_ids), request.session)

    def _told(self, receipt: Mapping[str, Any] | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
        if receipt is not None:
            there = (f"{one['place']}: {one['why']}; until {one['until']}" for one in receipt["not_covered"])
            return ("it is erased from the memory, and the receipt says where it was",), tuple(there)
        if self.refused is not None:
            return (), (f"nothing was erased: {self.refused.reason}",)
        if self.begun is not None:
            return ("whoever reads the log leaves it out",), ("memory is being derived again without it",)
        asked = self.request
        return ("the request is kept until it is carried out",), (
            "nothing is erased yet: the utterances stay in the log",
            "memory that was derived from them stays, and replies may show it",
            *((_UNKNOWN,) if asked is not None and asked.utterance_ids else ()),
        )


async def read_entries(ledger: ErasureLedger, key: str) -> list[Entries]:
    """The erasures of a conversation, in the order in which they were requested. Raises `Unavailable`."""
    found: dict[str, Entries] = {}

    def entry(one: ErasureRequest | Erasure | ErasureDone | ErasureRefused) -> Entries:
        return found.setdefault(one.request_id, Entries())

    # the end first: what was erased leaves the request before its end is entered
    refusals, ended = await ledger.refusals(key), await ledger.done(key)
    erasures, requests = await ledger.erasures(key), await ledger.requests(key)
    for request in requests:
        entry(request).request = request
    for begun in erasures:
        entry(begun).begun = begun
    for done in ended:
        entry(done).done = done
    for refused in refusals:
        entry(refused).refused = refused
    return _in_order(found.values())


def _in_order(entries: Iterable[Entries]) -> list[Entries]:
    known = [(given, one) for one in entries if (given := one.request or one.begun) is not None]
    return [one for _, one in sorted(known, key=lambda pair: pair[0].at)]
