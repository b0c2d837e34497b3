"""The receipt of an erasure: what went from where, what was not reached, signed."""

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pydantic import Field, ValidationError

from eunoe.schemas.base import Identifier, Time, Value
from eunoe.schemas.erasure import Count, Erasure, ErasureLevel, hashed_id
from eunoe.schemas.errors import Refused
from eunoe.schemas.keys import Destruction

VERSION: Final = 1


class PlaceCount(Value):
    """A place where something told of what was erased."""

    place: str
    before: int
    after: int
    how: str
    """The things that were counted."""


class NotCovered(Value):
    """A place that the erasure did not reach."""

    place: str
    why: str
    until: str
    """The event or time at which it is gone."""


class Remains(Value):
    """The memory that is left of a conversation in one generation."""

    generation: str
    digest: str
    """SHA-256 of its state, as `eunoe state` prints it."""
    memories: int
    sessions: int
    """Closed ones, those of which everything was erased included."""


class DestroyedKey(Value):
    """A data key of the conversation that is gone for good."""

    id: str
    created: Time | None
    destroyed: Time
    why: Destruction
    """``erased``, or ``replaced``: what remains is sealed anew."""


class Receipt(Value):
    """The result of one request in one conversation."""

    version: int = VERSION
    request_id: Identifier
    level: ErasureLevel
    subject: str
    """A hash of the conversation's key under a salt that only the ledger of erasures holds."""
    requested: Time
    done: Time
    utterances: int
    """Number of erased utterances; of a whole conversation, those in its log."""
    places: tuple[PlaceCount, ...] = ()
    remains: tuple[Remains, ...] = ()
    keys: tuple[DestroyedKey, ...] = ()
    """The data keys that were destroyed: what they sealed nobody can read, wherever it lies."""
    not_covered: tuple[NotCovered, ...] = ()
    signature: str = Field(default="")
    """HMAC-SHA-256, in hex, of all the rest under the secret of the ledger."""

    @property
    def body(self) -> bytes:
        """The signed text: the receipt without its signature, as compact JSON in the order of its fields."""
        return self.model_copy(update={"signature": ""}).to_json()


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of erasures that were carried out together in one conversation."""

    after: Mapping[bool, Mapping[str, int]]
    """Whether all of the conversation went → counts by place, as they are now."""
    remains: tuple[Remains, ...]
    keys: tuple[DestroyedKey, ...]

    def receipt_of(self, erasure: Erasure, done: datetime, not_covered: Sequence[NotCovered]) -> Receipt:
        """The receipt of one of them, not signed yet; ``not_covered``: the places that hold it after that."""
        return Receipt(
            request_id=erasure.request_id,
            level=erasure.level,
            subject=subject_of(erasure),
            requested=erasure.at,
            done=done,
            utterances=len(erasure.refused),
            places=places_of(erasure.before, self.after.get(erasure.is_whole, {}), whole=erasure.is_whole),
            remains=self.remains,
            keys=self.keys,
            not_covered=tuple(not_covered),
        )


def signed(receipt: Receipt, secret: bytes) -> Receipt:
    """The receipt with its signature."""
    return receipt.model_copy(update={"signature": _sign(receipt, secret)})


def read_receipt(text: bytes, secret: bytes) -> Receipt:
    """A receipt that this deployment has signed; raises `Refused` for any other text."""
    try:
        receipt = Receipt.from_json(text)
    except ValidationError:
        raise Refused("not a receipt of an erasure: give the JSON that `eunoe erase` printed") from None
    if not hmac.compare_digest(receipt.signature, _sign(receipt, secret)):
        raise Refused(
            f"receipt {receipt.request_id}: the signature is wrong: it was changed, or another deployment wrote it"
        )
    return receipt


def _sign(receipt: Receipt, secret: bytes) -> str:
    return hmac.new(secret, receipt.body, hashlib.sha256).hexdigest()


def subject_of(erasure: Erasure) -> str:
    """The subject of the receipt of an erasure."""
    return hashed_id(erasure.salt, erasure.key)


def places_of(before: tuple[Count, ...], after: Mapping[str, int], *, whole: bool) -> tuple[PlaceCount, ...]:
    """The places of a receipt, from the counts before and after."""
    counted = {one.place: one.count for one in before}
    return tuple(
        PlaceCount(place=place, before=counted.get(place, 0), after=after.get(place, 0), how=_how(place, whole=whole))
        for place in sorted({*counted, *after})
    )


def _how(place: str, *, whole: bool) -> str:
    if place.startswith("qdrant:"):
        return "points of the conversation"
    if place == "dead-letters":
        return "open letters of the conversation"
    return "documents of the conversation" if whole else "documents that name an erased utterance"
