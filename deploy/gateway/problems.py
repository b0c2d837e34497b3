"""Errors as RFC 9457 problem documents."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Final

import orjson
from pydantic import ValidationError
from pydantic_core import ErrorDetails
from starlette.responses import Response

from eunoe.schemas.base import Value
from eunoe.schemas.replies import Reply

PROBLEM_TYPE: Final = "application/problem+json"
_TYPES: Final = ("utterance", "session_ended")
"""The forms of an event."""
_FIELD_CHARS: Final = 200
"""Characters of a field's name that are repeated: an unknown one is the client's."""


class FieldFault(Value):
    """A fault of one field; the value is never repeated."""

    line: int | None = None
    """The line of a batch, from 1."""
    field: str
    message: str


class ProblemDocument(Value):
    """An error (RFC 9457)."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    """The fault, and what to do."""
    instance: str
    """The id of the request, as in ``X-Request-Id``."""
    request_id: str | None = None
    """The id of the ask."""
    reply: Reply | None = None
    """The reply that says why the responder could not answer."""
    errors: tuple[FieldFault, ...] = ()


class Problem(Exception):
    """An error that the client gets as a problem document."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        errors: Sequence[FieldFault] = (),
        headers: Mapping[str, str] | None = None,
        request_id: str | None = None,
        reply: Reply | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.errors = tuple(errors)
        self.headers = dict(headers or {})
        self.request_id = request_id
        self.reply = reply

    def document(self, instance: str) -> ProblemDocument:
        """The document; ``instance`` is the id of the HTTP request."""
        return ProblemDocument(
            title=HTTPStatus(self.status).phrase,
            status=self.status,
            detail=self.detail,
            instance=instance,
            request_id=self.request_id,
            reply=self.reply,
            errors=self.errors,
        )

    def response(self, instance: str) -> Response:
        """The response with the document."""
        body = self.document(instance).model_dump(mode="json", exclude_defaults=True)
        return Response(
            orjson.dumps({"type": "about:blank", **body}), self.status, self.headers, media_type=PROBLEM_TYPE
        )


def not_found(what: str) -> Problem:
    """404: unknown, or of another tenant."""
    return Problem(404, f"there is no such {what} among those of this key's tenant")


def unavailable(server: str) -> Problem:
    """503 for a server that does not answer."""
    name = server.partition(" at ")[0] or "a server"  # its address is not for clients
    return Problem(
        503, f"{name[0].upper()}{name[1:]} does not answer now; try again later", headers={"Retry-After": "2"}
    )


def invalid(error: ValidationError, line: int | None = None) -> list[FieldFault]:
    """The wrong fields of a body or a query, at most ten, without their values."""
    return [_field_fault(fault, line) for fault in error.errors(include_url=False, include_input=False)[:10]]


def is_no_json(error: ValidationError) -> bool:
    """Whether the body cannot be read at all."""
    return error.errors(include_url=False, include_input=False)[0]["type"] == "json_invalid"


def _field_fault(fault: ErrorDetails, line: int | None) -> FieldFault:
    loc, message = list(fault["loc"]), fault["msg"].removeprefix("Value error, ")
    if loc and loc[0] in _TYPES:  # pydantic names the form of an event before the field
        del loc[0]
    match fault["type"]:
        case "union_tag_not_found" | "union_tag_invalid":  # pydantic repeats the value
            loc, message = ["type"], f"must be {' or '.join(map(repr, _TYPES))}"
        case "extra_forbidden" if loc == ["tenant"]:
            message = "is not given: the tenant is that of the key"
        case "extra_forbidden":
            message = "is unknown here; /v1/openapi.json lists the fields"
        case "missing":
            message = "is missing"
    name = ".".join(map(str, loc))[:_FIELD_CHARS]
    return FieldFault(line=line, field=name or "body", message=message[:300])
