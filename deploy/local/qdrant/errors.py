"""Faults of a request, in the words of Qdrant."""

from collections.abc import Iterable
from pathlib import Path

from pydantic import BaseModel

from eunoe.deploy.local.room import lacking_room


class RequestError(Exception):
    """A failed request, with its HTTP status; the text names the fault."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def wrong_input(text: str) -> RequestError:
    """The fault of an invalid request (400)."""
    return RequestError(400, f"Wrong input: {text}")


def unsupported(what: str) -> RequestError:
    """The fault of a request that Qdrant supports and this server does not (400)."""
    return RequestError(400, f"Wrong input: {what} is not supported by the embedded Qdrant; use a Qdrant server")


def missing(name: str) -> RequestError:
    """The fault of an unknown collection (404)."""
    return RequestError(404, f"Not found: Collection `{name:.100}` doesn't exist!")


def check_room(directory: Path, more: int = 0) -> None:
    """Raise the fault 507 where the disk of ``directory`` has too little room to write there, or for ``more`` bytes."""
    if lacking := lacking_room(directory, more):
        raise RequestError(507, f"No space left on device: {lacking}")


def only(model: BaseModel, where: str, allowed: Iterable[str]) -> None:
    """Raise the `unsupported` fault for the first field of ``model`` that is set and not in ``allowed``."""
    known = frozenset(allowed)
    for field in type(model).model_fields:
        if field not in known and getattr(model, field) is not None:
            raise unsupported(f"`{field}` in {where}")
