"""Reads contracts from documents of any known schema version."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from eunoe.schemas.base import Contract
from eunoe.schemas.errors import NewerVersion
from eunoe.schemas.events import (
    Erase,
    ReplyContext,
    ReplyRequested,
    SessionClosed,
    SessionEnded,
    SessionSegmented,
    SessionSkipped,
    Utterance,
    UtteranceErased,
)
from eunoe.schemas.memory import InsightsProposed, MemoriesChanged, MemoriesDerived, MemoriesFormed
from eunoe.schemas.records import DeadLetter, DeadLetterReason, GenerationPromoted, RecordedAnswer
from eunoe.schemas.replies import Recalled, Reply

WHOLE: Final = "document"
"""The place of a fault that is of no single field."""

Document = Mapping[str, Any]

CONTRACTS: Mapping[str, type[Contract]] = {
    contract.type_tag(): contract
    for contract in (
        Utterance,
        SessionEnded,
        Erase,
        UtteranceErased,
        GenerationPromoted,
        SessionClosed,
        SessionSegmented,
        SessionSkipped,
        MemoriesFormed,
        InsightsProposed,
        MemoriesChanged,
        MemoriesDerived,
        ReplyRequested,
        ReplyContext,
        Reply,
        Recalled,
        DeadLetter,
        RecordedAnswer,
    )
}

_UNKNOWN_MEMBER: Final = frozenset({"enum", "literal_error"})
"""Pydantic's names of the faults of a word that an enumeration does not have."""


class ContractError(ValueError):
    """A document that is no valid contract; ``reason`` is the kind of fault.

    ``has_unknown_word``: an enumeration lacks a word of it, which a newer version may have, or a client has misspelt.
    """

    def __init__(self, reason: DeadLetterReason, message: str, *, has_unknown_word: bool = False) -> None:
        super().__init__(message)
        self.reason = reason
        self.has_unknown_word = has_unknown_word


def read_contract(document: object, contracts: Mapping[str, type[Contract]] = CONTRACTS) -> Contract:
    """The contract in a decoded JSON document, of any version up to the latest: a later one only adds fields.

    Raises `ContractError` with reason ``invalid``, ``unknown_type`` or ``newer_version``.
    """
    if not isinstance(document, dict):
        raise ContractError(DeadLetterReason.INVALID, f"expected a JSON object, got {type(document).__name__}")
    tag = document.get("type")
    contract = contracts.get(tag) if isinstance(tag, str) else None
    if contract is None:
        fault = "has no type, like utterance" if tag is None else f"unknown type {tag!r:.80}"
        raise ContractError(DeadLetterReason.UNKNOWN_TYPE, fault)
    _check_version(document, contract)
    try:
        return contract.model_validate(document, strict=False)
    except ValidationError as error:
        unknown = any(_is_unknown_word(fault) for fault in error.errors(include_url=False, include_context=False))
        raise ContractError(DeadLetterReason.INVALID, describe(error), has_unknown_word=unknown) from None


def _check_version(document: Mapping[str, Any], contract: type[Contract]) -> None:
    version = document.get("schema_version", 1)
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ContractError(
            DeadLetterReason.INVALID, f"schema_version must be a whole number from 1, got {version!r:.40}"
        )
    if version > contract.LATEST:
        raise ContractError(
            DeadLetterReason.NEWER_VERSION,
            f"{contract.type_tag()} of schema version {version}; the newest known here is {contract.LATEST}",
        )


def describe(error: ValidationError) -> str:
    """One line with the first five wrong fields and their faults, never with a value."""
    faults = (
        f"{'.'.join(map(str, fault['loc'])) or WHOLE}: {fault['msg'].removeprefix('Value error, ')}"
        for fault in error.errors()[:5]
    )
    return "; ".join(faults)


def newer_fault(error: Exception) -> str | None:
    """The fault of a document that only a newer version can have written, without values; `None` for any other fault.

    A field that this version does not know counts as such, and so does a word that an enumeration lacks: its own
    processes write none.
    """
    if isinstance(error, ContractError):
        return str(error) if error.reason is DeadLetterReason.NEWER_VERSION else None
    if not isinstance(error, ValidationError):
        return None
    faults = error.errors(include_url=False, include_context=False)
    is_newer = any(fault["type"] == "extra_forbidden" or _is_unknown_word(fault) for fault in faults)
    return f"{error.title}: {describe(error)}" if is_newer else None


def _is_unknown_word(fault: ErrorDetails) -> bool:
    """Whether an enumeration lacks the word at the place of a fault; what is no word at all is wrong in any version."""
    return fault["type"] in _UNKNOWN_MEMBER and isinstance(fault["input"], str)


@contextmanager
def waiting_for_newer(name: object) -> Iterator[None]:
    """Raise `NewerVersion` where the block meets what a newer version has stored or sent; ``name`` says of what."""
    try:
        yield
    except (ContractError, ValidationError) as error:
        fault = newer_fault(error)
        if fault is None:
            raise
        raise NewerVersion(f"{name}: {fault}") from None
