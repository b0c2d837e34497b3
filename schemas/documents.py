"""Reads documents of the state store; tells those that are damaged from those that a newer version wrote."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, overload

from pydantic import ValidationError
from pydantic_core import from_json

from eunoe.schemas.base import Value
from eunoe.schemas.errors import NewerVersion, StateDamaged
from eunoe.schemas.versions import describe, newer_fault

ValueT = TypeVar("ValueT", bound=Value)
T = TypeVar("T")


@overload
def read_document(form: type[ValueT], text: str, key: str) -> ValueT: ...


@overload
def read_document(form: type[Value], text: str, key: str, parse: Callable[[str], T]) -> T: ...


def read_document(form: type[Value], text: str, key: str, parse: Callable[[str], Any] | None = None) -> Any:
    """The value of a document of conversation ``key``; ``parse`` reads the form, and may cache.

    Raises `NewerVersion` for one with fields or words that a newer version added, `StateDamaged` for any other text.
    """
    try:
        return (parse or form.from_json)(text)
    except ValidationError as error:
        newer = newer_fault(error)
        if newer is not None and _is_of_form(form, text, error):
            raise NewerVersion(
                f"{key}: a newer version of eunoe wrote what is stored: update this process, or, where you went back"
                f" for good, run `eunoe repair` ({newer})"
            ) from None
        raise damaged_document(form, key, describe(error)) from None


@contextmanager
def reading_raw(form: type[Value], key: str) -> Iterator[None]:
    """Raise `StateDamaged` where the block reads the JSON of a document of ``key``, and it is not of the form."""
    try:
        yield
    except (ValueError, LookupError, TypeError, AttributeError) as fault:
        raise damaged_document(form, key, type(fault).__name__) from fault


def _is_of_form(form: type[Value], text: str, error: ValidationError) -> bool:
    """Whether a document with unknown fields or words is one of this form all the same.

    A newer version only adds fields: so it lacks none, and most of its fields are known. One of another table is not.
    """
    if any(fault["type"] == "missing" for fault in error.errors(include_url=False, include_context=False)):
        return False
    document = from_json(text)
    if not isinstance(document, dict):
        return False
    known = document.keys() & form.model_fields.keys()
    return bool(known) and 2 * len(known) >= len(document)


def damaged_document(form: type[Value], key: str, fault: str) -> StateDamaged:
    """The error of a document of conversation ``key`` that is none of its form; ``fault`` quotes nothing of users."""
    return StateDamaged(
        f"a document of {key} is no {form.__name__}, and should be one ({fault}): it was changed or moved; run"
        " `eunoe repair` to derive the conversation again",
        "Redis",
    )
