"""Encodes contracts as JSON bytes and decodes them."""

import logging

import orjson
from pydantic_core import PydanticSerializationError

from eunoe.schemas.base import Contract
from eunoe.schemas.records import DeadLetterReason
from eunoe.schemas.versions import ContractError, read_contract

log = logging.getLogger(__name__)


def encode(event: Contract) -> bytes:
    """The UTF-8 JSON of an event; raises `ContractError` for text with a lone surrogate."""
    try:
        return event.to_json()
    except (PydanticSerializationError, UnicodeEncodeError):
        raise ContractError(
            DeadLetterReason.INVALID, f"{event.type_tag()}: holds a lone surrogate, which has no UTF-8 form"
        ) from None


def decode(value: bytes) -> Contract:
    """The contract in a record's value, migrated to its latest version.

    Raises `ContractError` with reason ``not_json`` for bytes that are no UTF-8 JSON text, which includes ``NaN`` and
    lone surrogates; otherwise with the faults that `read_contract` finds. It raises nothing else, so that no bytes of
    a producer end a consumer.
    """
    try:
        return read_contract(orjson.loads(value))
    except orjson.JSONDecodeError as error:
        raise ContractError(DeadLetterReason.NOT_JSON, f"no UTF-8 JSON text: {error}") from None
    except RecursionError:
        # a fault quotes the value, whose nesting may be deeper than repr() can follow
        raise ContractError(DeadLetterReason.INVALID, "nested too deeply") from None
    except ContractError:
        raise
    except Exception as error:
        log.exception("decoding failed unexpectedly: value of %d bytes", len(value))
        raise ContractError(DeadLetterReason.INVALID, f"cannot be decoded: {type(error).__name__}") from None
