"""Base classes of all contracts, and the types of ids, names, texts and times."""

import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from enum import StrEnum
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Self, TypeVar

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    StringConstraints,
    model_validator,
)

MAX_ID_CHARS = 200
MAX_NAME_CHARS = 100
MAX_AGE = timedelta(days=365 * 200)
"""The most by which a client's time may differ from that of the log."""

_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)")
_NO_TIME = "must be an RFC 3339 time with a zone, like 2026-03-01T09:30:00Z"
_NO_ZONE = "must be a time with a zone, like datetime.now(UTC)"
_MINUTE = timedelta(minutes=1)
_WRITTEN_CHARS = (20, 27)
"""Characters of a time in UTC without and with microseconds."""
# C0 and C1 controls, and the line and paragraph separators that would break a line of a prompt or a log
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def _encodable(value: str) -> str:
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ValueError("must not contain lone surrogates: they have no UTF-8 form") from None
    return value


def _no_controls(value: str) -> str:
    if value.isascii() and value.isprintable() and value[:1] != " " != value[-1:]:
        return value  # nearly all of them, at a tenth of the time
    _encodable(value)
    if _CONTROL.search(value):
        raise ValueError("must not contain control characters")
    if value != value.strip():
        raise ValueError("must not begin or end with white space")
    return value


def _not_blank(value: str) -> str:
    _encodable(value)
    if not value.strip():
        raise ValueError("must not be empty or blank")
    return value


def _rfc3339(value: object) -> object:
    if isinstance(value, datetime):
        if value.utcoffset() is None:
            raise ValueError(_NO_ZONE)
        return value
    if not isinstance(value, str):
        raise ValueError(_NO_TIME)  # noqa: TRY004 - pydantic reports it as a fault of the value
    return _read_time(value)


# cached: each stage reads the times of the same lines again
@lru_cache(maxsize=4_096)
def _read_time(text: str) -> datetime | str:
    """The time of a text as `write_time` writes it; any other RFC 3339 time as a text for pydantic."""
    if not _RFC3339.fullmatch(text):
        raise ValueError(_NO_TIME)
    plain = text.upper().replace(" ", "T")
    if len(plain) in _WRITTEN_CHARS and plain.endswith("Z"):
        with suppress(ValueError):  # such as a leap second: pydantic says what is wrong
            return datetime.fromisoformat(plain)
    return plain


def _to_utc(value: datetime) -> datetime:
    if value.tzinfo is UTC:
        return value
    try:
        return value.astimezone(UTC)
    except OverflowError:  # the first or last hours of the calendar, in a distant zone
        raise ValueError("must lie in the years 1 to 9999 in UTC, too") from None


def _by_own_clock(value: datetime) -> datetime:
    """The time with its offset in whole minutes; in UTC where that is 0."""
    instant = _to_utc(value)
    if instant is value:
        return value
    minutes = int((value.utcoffset() or timedelta()) / _MINUTE)
    return value.astimezone(timezone(timedelta(minutes=minutes))) if minutes else instant


# cached: each stage writes the times of the same lines again
@lru_cache(maxsize=4_096)
def write_time(value: datetime) -> str:
    """The RFC 3339 text of an aware time, in UTC with a ``Z``, with microseconds only where they are not 0."""
    return f"{(value if value.tzinfo is UTC else value.astimezone(UTC)).isoformat()[:-6]}Z"


def write_spoken_time(value: datetime) -> str:
    """The RFC 3339 text of a `SpokenTime`: as `write_time`, and in its own offset where that is not UTC's."""
    # not cached: the same instant by another clock would be the same key
    return write_time(value) if value.tzinfo is UTC or not value.utcoffset() else value.isoformat()


Identifier = Annotated[str, StringConstraints(min_length=1, max_length=MAX_ID_CHARS), AfterValidator(_no_controls)]
"""An id that a client chose: 1 to 200 characters, no control characters."""

Name = Annotated[str, StringConstraints(min_length=1, max_length=MAX_NAME_CHARS), AfterValidator(_no_controls)]
"""A participant's name: 1 to 100 characters, no control characters."""

Text = Annotated[str, StringConstraints(min_length=1), AfterValidator(_not_blank)]
"""The text of an utterance: any text that is not blank."""

Time = Annotated[
    AwareDatetime,
    BeforeValidator(_rfc3339, json_schema_input_type=AwareDatetime),
    AfterValidator(_to_utc),
    PlainSerializer(write_time, return_type=str, when_used="json"),
]
"""An instant: read as RFC 3339 with a zone, held and written in UTC."""

SpokenTime = Annotated[
    AwareDatetime,
    BeforeValidator(_rfc3339, json_schema_input_type=AwareDatetime),
    AfterValidator(_by_own_clock),
    PlainSerializer(write_spoken_time, return_type=str, when_used="json"),
]
"""An instant by the clock of who spoke then: held and written with the offset that it was read with.

Its day is the day that "today" meant. Order and differences are those of the instants, whatever the offsets. One that
was sent in UTC is a `Time`.
"""


class Value(BaseModel):
    """A frozen part of a contract; unknown fields are refused, so that a misspelt one is noticed."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        ser_json_bytes="base64",
        val_json_bytes="base64",
        allow_inf_nan=False,
    )

    def to_json(self) -> bytes:
        """The UTF-8 JSON of this value."""
        return self.model_dump_json().encode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """The value of a JSON text by `to_json`; raises pydantic's ``ValidationError`` for any other text."""
        return cls.model_validate_json(text)


ValueT = TypeVar("ValueT", bound=Value)


def by_instant(value: ValueT) -> ValueT:
    """The value with its ``at`` in UTC, where it has one: the same for every clock by which it was sent."""
    at = getattr(value, "at", None)
    return value if at is None or at.tzinfo is UTC else value.model_copy(update={"at": at.astimezone(UTC)})


def absent() -> Any:  # noqa: ANN401 - like pydantic's Field
    """The default of a field in `Contract.ADDED`: `None`, which is not written."""
    return Field(default=None, exclude_if=lambda value: value is None)


class Tier(StrEnum):
    """The part of the settings page that lists a setting, as metadata of its field: ``Annotated[int, Tier.TUNE]``.

    A setting without a tier is one to leave.
    """

    SET = "set"
    """Differs between installations: addresses, names, models."""
    TUNE = "tune"
    """Trades cost, time and quality against each other."""
    LEAVE = "leave"
    """Comes from a paper or a measurement, or belongs to a command."""


def field_at(document: object, path: str) -> object:
    """The field at a path of a document whose parts are mappings or values; `None` where there is none.

    Of a list, that of its first part that has one.
    """
    name, _, rest = path.partition(".")
    found = document.get(name) if isinstance(document, dict) else getattr(document, name, None)
    if not rest or found is None:
        return found
    if isinstance(found, list | tuple):
        return next((value for part in found if (value := field_at(part, rest)) is not None), None)
    return field_at(found, rest)


class Contract(Value):
    """A record of a topic: carries its type and the version of its schema.

    A subclass declares ``type: Literal["…"] = "…"``. ``schema_version`` is the lowest version that has all its fields.

    A field that a later version adds stands in ``ADDED`` and has the default `absent`: a record in which it is not set
    is written without it, in the version before. Stages that do not know it yet go on reading all other records.
    """

    LATEST: ClassVar[int] = 1
    ADDED: ClassVar[Mapping[str, int]] = {}
    """Field that may be missing → the version that added it; ``ask.wants`` is a field of the value in ``ask``."""

    schema_version: int = 1

    @model_validator(mode="before")
    @classmethod
    def _lowest_version(cls, document: object) -> object:
        """The document with the lowest version that has all its fields."""
        if not cls.ADDED or not isinstance(document, dict):
            return document
        versions = (version for path, version in cls.ADDED.items() if field_at(document, path) is not None)
        return {**document, "schema_version": max(versions, default=1)}

    @classmethod
    def type_tag(cls) -> str:
        """The ``type`` that a record of this contract carries."""
        tag: Any = cls.model_fields["type"].default
        return str(tag)
