"""Faults of a request, as Qdrant tells them."""

from collections.abc import Iterable

from pydantic import BaseModel


class RequestError(Exception):
    """A request that was not carried out; ``status`` is the HTTP status, the text says what is wrong."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def wrong_input(text: str) -> RequestError:
    """The request can never succeed as it is (400)."""
    return RequestError(400, f"Wrong input: {text}")


def unsupported(what: str) -> RequestError:
    """Qdrant can do it, this local server cannot (400)."""
    return RequestError(400, f"Wrong input: {what} is not supported by the embedded Qdrant; use a Qdrant server")


def missing(name: str) -> RequestError:
    """There is no such collection (404)."""
    return RequestError(404, f"Not found: Collection `{name:.100}` doesn't exist!")


def only(model: BaseModel, where: str, allowed: Iterable[str]) -> None:
    """Raises the `unsupported` fault of the first field of ``model`` that is set and not in ``allowed``."""
    known = frozenset(allowed)
    for field in type(model).model_fields:
        if field not in known and getattr(model, field) is not None:
            raise unsupported(f"`{field}` in {where}")
