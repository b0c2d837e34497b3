"""An OpenAI-compatible endpoint: its address, its client, and the meaning of its faults.

The SDK is imported where an endpoint is asked: it takes 0.7 s of processor time and 20 MB, which a process without a
model saves.
"""

import math
import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

import httpx2

from eunoe.schemas.errors import AnswerFault, AnswerInvalid, Refused, Unavailable
from eunoe.schemas.redact import redirect_target, without_login
from eunoe.workers.models.endpoint.refusals import (
    RefusalKind,
    RefusalReading,
    is_about_credit,
    is_passing,
    is_redirect,
    read_refusal,
)
from eunoe.workers.models.endpoint.retrying import NoAnswerInTime, Transient

if TYPE_CHECKING:
    from openai import APIConnectionError, APIStatusError, AsyncOpenAI

MAX_ANSWER_BYTES: Final = 8 * 2**20
"""Bytes of an answer in words; as a stream of events, with its thoughts, it has 300 for each of 25,000 tokens."""
OPENAI_URL = "https://api.openai.com/v1"
_FAILED = 500
_PAGE = re.compile(r"\A\s*<(?:!doctype|html|head|body)\b", re.IGNORECASE)
"""The beginning of a web page."""


class EndpointRefused(Refused, Unavailable):
    """The endpoint refuses the deployment's key, model or address.

    It is `Refused` at start and `Unavailable` to a running stage, which therefore waits and drops no session.
    """


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of a model, and the bounds of calls to it."""

    model: str
    base_url: str = field(default=OPENAI_URL, repr=False)
    key: str | None = field(default=None, repr=False)
    timeout_s: float = 60.0
    in_flight: int = 200
    """Concurrent calls; also the size of the HTTP pool."""

    @property
    def server(self) -> str:
        """The name of the endpoint in faults."""
        return f"{self.model} at {self.address}"

    @property
    def address(self) -> str:
        """The URL, without a password that it may have."""
        return without_login(self.base_url)

    def open(self, most_bytes: int = MAX_ANSWER_BYTES) -> "AsyncOpenAI":
        """Open a client that neither retries nor queues by itself; raises `Refused` where a key is missing.

        An answer of over ``most_bytes`` is not read to its end. The client runs over aiohttp, which takes half the
        processor time of the SDK's own pool with 200 connections.
        """
        from openai import AsyncOpenAI  # noqa: PLC0415 - see above

        from eunoe.workers.models.endpoint.bounded_client import BoundedClient  # noqa: PLC0415 - it imports the SDK

        if self.key is None and self.base_url.rstrip("/") == OPENAI_URL:
            raise Refused(f"{OPENAI_URL} needs a key: set OPENAI_API_KEY, or OPENAI_BASE_URL for an endpoint without")
        limits = httpx2.Limits(max_connections=self.in_flight, max_keepalive_connections=self.in_flight)
        # callers bound the whole call; this timeout only ends requests that they abandoned
        timeout = httpx2.Timeout(self.timeout_s + 1, connect=min(10.0, self.timeout_s))
        address = urlsplit(self.base_url)
        login, _, host = address.netloc.rpartition("@")
        return AsyncOpenAI(
            api_key=self.key or "none",
            base_url=address._replace(netloc=host, query="").geturl(),
            default_query=dict(parse_qsl(address.query, keep_blank_values=True)),
            default_headers=_basic(login) if login else None,
            max_retries=0,
            timeout=timeout,
            http_client=BoundedClient(most_bytes, limits=limits, timeout=timeout),
        )


def _basic(login: str) -> dict[str, str]:
    """The header of the login in an address, which takes the place of the key."""
    return {"Authorization": f"Basic {b64encode(unquote(login).encode()).decode()}"}


def call_attributes(operation: str, endpoint: Endpoint) -> dict[str, str]:
    """The attributes of the span of a call, by OpenTelemetry's conventions for generative models, 1.38."""
    return {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": endpoint.model,
        "server.address": urlsplit(endpoint.base_url).hostname or "",
    }


def code_of(error: "APIStatusError") -> str:
    """The endpoint's short error code, or "". Its messages are not used: they may repeat a key or a prompt."""
    code = str(error.code or error.type or "")
    return code if re.fullmatch(r"[A-Za-z0-9_.-]{1,60}", code) else ""


def fault_of(error: Exception, endpoint: Endpoint, now: float) -> Exception:
    """Translate an error of the SDK into `Transient`, `EndpointRefused` or `AnswerInvalid`; else return ``error``.

    ``now``: seconds since the epoch.
    """
    from openai import APIConnectionError, APIResponseValidationError, APIStatusError  # noqa: PLC0415 - see above

    where = endpoint.server
    if isinstance(error, APIStatusError) and is_redirect(error.status_code):
        return EndpointRefused(_redirected(error, where), where)
    if isinstance(error, APIStatusError):
        return _status_fault(error, where, now)
    if isinstance(error, APIConnectionError):
        return _connection_fault(error, endpoint)
    if isinstance(error, APIResponseValidationError | ValueError):
        return Transient(f"{where} answered with something other than JSON: is the address right?")
    return error


def _connection_fault(error: "APIConnectionError", endpoint: Endpoint) -> Transient:
    """The fault of a request without a whole answer: too slow, too long, or not reached."""
    from eunoe.workers.models.endpoint.bounded_client import AnswerTooLong  # noqa: PLC0415 - it imports the SDK

    # not by the SDK's APITimeoutError: it is also raised where a connection is not made, or breaks off
    if isinstance(error.__cause__, httpx2.ReadTimeout):
        return NoAnswerInTime(endpoint.server, endpoint.timeout_s)
    cause = _root(error)
    if isinstance(cause, AnswerTooLong):
        return Transient(f"{endpoint.server} sent an answer that is none: {cause}", may_be_of_request=True)
    return Transient(f"{endpoint.server} cannot be reached: {type(cause).__name__}")


def _redirected(error: "APIStatusError", where: str) -> str:
    """The fault of an endpoint that redirects. It is not followed: prompts would reach a place that nobody chose."""
    response = error.response
    target = redirect_target(response.headers.get("location"), str(response.request.url))
    said = f"{where} said {error.status_code}" + (f" and redirects to {target}" if target else "")
    return f"{said}: redirections are not followed; set OPENAI_BASE_URL to the address that answers by itself"


def _root(error: BaseException) -> BaseException:
    """The first cause of ``error``; of a time limit the limit itself, not what it broke off."""
    while error.__cause__ is not None and not isinstance(error, TimeoutError):
        error = error.__cause__
    return error


def _status_fault(error: "APIStatusError", where: str, now: float) -> Exception:
    status, code = error.status_code, code_of(error)
    said = f"{where} said {status}{f' ({code})' if code else ''}"
    if is_about_credit(code, error.message):
        return EndpointRefused(f"{said}: {_ADVICE[402]}", where)
    kind = refusal_of(error).kind
    if is_passing(status) and kind is not RefusalKind.TOO_LARGE:
        # 502 to 504 are those of a proxy or of a server that is busy
        return Transient(said, retry_after_of(error.response.headers, now), may_be_of_request=status == _FAILED)
    if kind is RefusalKind.TOO_LARGE:
        return AnswerInvalid("the question is longer than the model takes", AnswerFault.TOO_LARGE)
    if kind is RefusalKind.CONTENT:
        return AnswerInvalid("the endpoint's content filter refused the prompt", AnswerFault.REFUSED)
    return EndpointRefused(f"{said}: {_ADVICE.get(status, _ADVICE[400])}", where)


def refusal_of(error: "APIStatusError") -> RefusalReading:
    """The meaning of a refused request."""
    # some servers put the text elsewhere than OpenAI does: the whole body is searched. But the page of a proxy says
    # nothing of the model, though it names styles such as "truncate"
    text = error.response.text[:20_000]
    message = "" if _PAGE.match(text) else f"{error.message} {text}"
    return read_refusal(error.status_code, str(error.code or error.type or ""), error.param or "", message)


def status_error(told: Mapping[str, Any], request: httpx2.Request) -> "APIStatusError":
    """The refusal or failure that an error document tells, though it came with status 200.

    Its code is a status where it is a number. Else it is a refusal where its words are those of one, or a failure.
    """
    from openai import APIStatusError  # noqa: PLC0415 - see above

    code, message = str(told.get("code") or ""), str(told.get("message") or "")
    status = int(code) if re.fullmatch(r"[45]\d\d", code) else _FAILED
    if status == _FAILED and read_refusal(400, code, "", message).kind is not RefusalKind.NOT_UNDERSTOOD:
        status = 400
    response = httpx2.Response(status, json={"error": told}, request=request)
    return APIStatusError(message, response=response, body=told)


_ADVICE: Mapping[int, str] = {
    400: "it does not know the model, or does not understand our requests; check the model's name and the key",
    401: "the key is missing or wrong; set OPENAI_API_KEY",
    402: "the account has no credit left, or has reached its limit",
    403: "the key may not use this model; choose another key or model",
    404: "it knows no such model or address; check the model's name and OPENAI_BASE_URL",
    405: "no chat model answers at this address; check OPENAI_BASE_URL (it usually ends in /v1)",
}


def retry_after_of(headers: Mapping[str, str], now: float) -> float | None:
    """The seconds that a server asks callers to wait (Retry-After: seconds or a date; retry-after-ms), or `None`."""
    millis = _number(headers.get("retry-after-ms"))
    if millis is not None:
        return millis / 1000
    value = headers.get("retry-after")
    seconds = _number(value)
    if seconds is not None or value is None:
        return seconds
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - now)
    except (ValueError, OverflowError):
        return None


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None
