"""Requests to a gateway over HTTP: retries, limits of time, and errors that say what to do. Knows no Kafka."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from inspect import isawaitable
from typing import Any, Final, Self, TypeVar
from urllib.parse import quote

import httpx2
from pydantic import SecretStr, ValidationError

from eunoe.schemas.base import Value
from eunoe.schemas.errors import EunoeError, Refused, Unavailable
from eunoe.schemas.redact import redirect_target, without_login
from eunoe.streams.attempts import TryAgain, attempted
from eunoe.streams.own_loop import OwnLoop
from eunoe.streams.tracing import TRACE_HEADER, current
from eunoe.streams.trust import trusted_servers

T = TypeVar("T")

Key = str | SecretStr
"""An API key (``eu_…``) or a token of an identity provider."""
KeySource = Key | Callable[[], Key | Awaitable[Key]]
"""A key, or a function that gives one that is valid now, called for each request in the event loop."""

_CONNECT_S: Final = 5.0
_READ_S: Final = 15.0
_STREAM_READ_S: Final = 45.0
"""Three comments of a silent stream are missing."""
_WAIT_LESS_S: Final = 1.0
_LONGEST_WAIT_S: Final = 99_999.0
"""The longest wait that the header ``Prefer`` can name; the gateway has a limit of its own."""
_AT_ONCE: Final = 32
"""Requests that are under way at once: a thousand connections opened together would all be too slow to open."""
_WAITING_AT_ONCE: Final = 100
"""Asks and recalls that are under way at once: they take seconds, in which their connections are silent."""


class GatewayProblem(EunoeError):
    """An error that the gateway answered (RFC 9457)."""

    def __init__(
        self, status: int, detail: str, instance: str | None = None, reply: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(f"{status}: {detail}")
        self.status = status
        self.detail = detail
        self.instance = instance
        """The id of the request, to find it in the gateway's log."""
        self.reply = reply
        """The reply that says why there is no answer to an ask, as JSON."""


class GatewayRefused(GatewayProblem, Refused):
    """The gateway refuses the key, or the request; sent again it would be refused again."""


class GatewayFailed(GatewayProblem):
    """The gateway, or the responder behind it, could not answer."""


class _FieldReport(Value, extra="ignore"):
    field: str = ""
    message: str = ""
    line: int | None = None


class _ProblemReport(Value, extra="ignore"):
    status: int = 500
    title: str = ""
    detail: str = ""
    instance: str | None = None
    reply: dict[str, Any] | None = None
    errors: tuple[_FieldReport, ...] = ()


@dataclass(frozen=True, slots=True)
class GatewayRequest:
    """A request."""

    method: str
    path: str
    """Percent-encoded, from ``/v1`` on."""
    body: Mapping[str, Any] | None = None
    query: Mapping[str, str] | None = None
    headers: Mapping[str, str] | None = None
    waits: bool = False
    """Whether the gateway waits for the answer: nearly as long as the client, which so learns that there is none."""

    def headers_of(self, timeout: float) -> Mapping[str, str] | None:
        """The headers of the request, of a client that waits ``timeout`` seconds."""
        if not self.waits:
            return self.headers
        wait_s = min(max(timeout - _WAIT_LESS_S, timeout / 2), _LONGEST_WAIT_S)
        return {**(self.headers or {}), "Prefer": f"wait={wait_s:.3f}"}


def _checked(key: Key) -> str:
    """The text of a key; raises ``ValueError`` for what cannot be one."""
    secret = key.get_secret_value() if isinstance(key, SecretStr) else key
    if not secret.strip() or not secret.isascii():
        raise ValueError("key: expected an API key (eu_…) or a token")
    return secret.strip()


class GatewayConnection:
    """A gateway and a key, shared by any number of `HttpMemoryClient` in an event loop.

    Methods raise ``RuntimeError`` in another loop than that of the first request.
    """

    def __init__(
        self,
        url: str,
        key: KeySource,
        *,
        transport: httpx2.AsyncBaseTransport | None = None,
        patient: bool = True,
    ) -> None:
        """``key`` is a function where tokens expire; what it raises, the methods raise.

        ``transport`` replaces the connections of httpx2, for TLS settings or proxies of your own. Unless ``patient``,
        no request is sent again. Raises ``ValueError`` for what cannot be a key, as methods do for what ``key`` gives.
        """
        self._key = key if callable(key) else _checked(key)
        self.url = without_login(url).rstrip("/")
        """For messages: without the key of the page's address, `…/#key=…`, and without a login."""
        self._patient = patient
        self._loop = OwnLoop()
        self._http = httpx2.AsyncClient(
            base_url=url.partition("#")[0].rstrip("/"),
            transport=transport,
            verify=trusted_servers(),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=100),
        )
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self.waiting = asyncio.Semaphore(_WAITING_AT_ONCE)
        """The turns of requests whose answer is waited for."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *fault: object) -> None:
        await self.stop()

    async def stop(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def request(self, request: GatewayRequest, timeout: float) -> bytes:
        """The body of the answer; sends again what may succeed then, for at most ``timeout`` seconds.

        A bounded number is under way at once; the time of the others begins when they are sent. Raises
        `GatewayRefused`, `GatewayFailed` (504 where the gateway itself had no answer in time), and `Unavailable` where
        none came from it.
        """
        self._loop.check()

        async def attempt() -> bytes:
            headers = await self._headers(request.headers_of(timeout))
            limits = httpx2.Timeout(timeout, connect=_CONNECT_S, read=None if request.waits else _READ_S)
            with self._transient():
                answer = await self._http.request(
                    request.method,
                    request.path,
                    json=request.body,
                    params=request.query,
                    headers=headers,
                    timeout=limits,
                )
            if not answer.is_success:
                raise self._fault(answer)
            if request.waits and answer.status_code == HTTPStatus.ACCEPTED:  # no answer by the time that it was given
                raise GatewayFailed(HTTPStatus.GATEWAY_TIMEOUT, "no answer in time; it may still come")
            return answer.content

        return await self.retried(attempt, timeout, self.waiting if request.waits else self._turns)

    @asynccontextmanager
    async def events(self, request: GatewayRequest) -> AsyncIterator[AsyncIterator[httpx2.ServerSentEvent]]:
        """The server-sent events of an answer. Raises as `request` does, but sends once: `TryAgain` for the caller."""
        self._loop.check()
        headers = await self._headers(request.headers)
        limits = httpx2.Timeout(_STREAM_READ_S, connect=_CONNECT_S)
        opening = self._http.sse(
            request.path, method=request.method, json=request.body, headers=headers, timeout=limits
        )
        with self._transient():
            async with AsyncExitStack() as open_:
                async with self._turns:
                    source = await open_.enter_async_context(opening)
                if not source.response.is_success:
                    await source.response.aread()
                    raise self._fault(source.response)
                yield aiter(source)

    async def retried(
        self, attempt: Callable[[], Awaitable[T]], timeout: float, turns: asyncio.Semaphore | None = None
    ) -> T:
        """The result of the first attempt that does not raise `TryAgain`, as `attempted` makes them."""
        return await attempted(attempt, timeout, turns, where=self.url, patient=self._patient)

    def ended_early(self) -> TryAgain:
        """The fault of a stream that ended before its last event."""
        return TryAgain(Unavailable(f"{self.url}: the stream ended before the answer", self.url))

    def stream_problem(self, document: str) -> Exception:
        """The exception for an error event; `TryAgain` where the token of the stream expired and there is another."""
        fault = self.problem(document)
        if callable(self._key) and isinstance(fault, GatewayProblem) and fault.status == HTTPStatus.UNAUTHORIZED:
            return TryAgain(Unavailable(f"{self.url}: {fault}", self.url))
        return fault

    def problem(self, document: str | bytes, retry_after: str | None = None) -> Exception:
        """The exception for a problem document."""
        try:
            report = _ProblemReport.from_json(document)
        except ValidationError:
            report = _ProblemReport(detail="an answer that is no problem document")
        text = "; ".join([report.detail or report.title, *(_field_text(one) for one in report.errors)])
        if report.status in (429, 503):
            after_s = float(retry_after) if retry_after is not None and retry_after.isdecimal() else None
            return TryAgain(Unavailable(f"{self.url}: {report.status}: {text}", self.url), after_s)
        kind = GatewayRefused if 400 <= report.status < 500 else GatewayFailed
        return kind(report.status, text, report.instance, report.reply)

    async def _headers(self, more: Mapping[str, str] | None) -> Mapping[str, str]:
        """The headers of a request, with the key of now and the current span, where there is one."""
        key = self._key() if callable(self._key) else self._key
        secret = _checked(await key if isawaitable(key) else key)
        here = current().traceparent
        traced = {} if here is None else {TRACE_HEADER: here}
        return {"Authorization": f"Bearer {secret}", **(more or {}), **traced}

    def _fault(self, answer: httpx2.Response) -> Exception:
        if "problem+json" in answer.headers.get("content-type", ""):
            return self.problem(answer.content, answer.headers.get("retry-after"))
        what = f"{self.url}: {answer.status_code} {answer.reason_phrase}, and not from a gateway of eunoe"
        if answer.status_code in (429, 502, 503, 504):
            return TryAgain(Unavailable(what, self.url))
        target = redirect_target(answer.headers.get("location"), str(answer.request.url))
        towards = "" if target is None else f", which redirects to {target}"
        return GatewayRefused(answer.status_code, f"{what}: check the address{towards}")

    def _transient(self) -> "_Transient":
        return _Transient(self.url)


class _Transient:
    """Turns faults of the connection into `TryAgain`."""

    def __init__(self, url: str) -> None:
        self._url = url

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, trace: object) -> None:
        if isinstance(fault, httpx2.UnsupportedProtocol | httpx2.InvalidURL):
            raise Refused(f"{self._url}: not the address of a gateway: {fault}") from None
        if isinstance(fault, httpx2.HTTPError):
            text = str(fault) or type(fault).__name__
            raise TryAgain(Unavailable(f"no answer from {self._url}: {text}", self._url)) from None


def _field_text(report: _FieldReport) -> str:
    line = "" if report.line is None else f"line {report.line}: "
    return f"{line}{report.field}: {report.message}"


def path_of(*parts: str) -> str:
    """The path of these parts below ``/v1``; ids may hold slashes and dots."""
    return "/v1/" + "/".join(quoted(part) for part in parts)


def quoted(part: str) -> str:
    """One part of a path, percent-encoded."""
    text = quote(part, safe="")
    return text if text.strip(".") else text.replace(".", "%2E")  # else clients resolve . and ..
