"""A request that was let in, and the services that its handler uses."""

import asyncio
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TypeVar
from urllib.parse import quote

from pydantic import TypeAdapter, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from eunoe.deploy.gateway.credentials import Credentials
from eunoe.deploy.gateway.feed_sharing import FeedSharing
from eunoe.deploy.gateway.keys import Caller
from eunoe.deploy.gateway.letters import LetterIndex
from eunoe.deploy.gateway.limits import Limiter, Rate
from eunoe.deploy.gateway.lookups import Lookups
from eunoe.deploy.gateway.open_requests import OpenRequests
from eunoe.deploy.gateway.plans import PlanCommand
from eunoe.deploy.gateway.ports import ErasurePlans, GatewayLog, LiveState, LiveStates, Notes
from eunoe.deploy.gateway.problems import Problem, invalid, is_no_json
from eunoe.deploy.gateway.sse import EventStream
from eunoe.deploy.settings.sections import GatewaySettings
from eunoe.schemas.base import Value
from eunoe.schemas.erasure import ErasureLedger
from eunoe.schemas.errors import Unavailable
from eunoe.schemas.identity import conversation_key
from eunoe.workers.stores.records.processes import RedisProcesses

T = TypeVar("T")
ValueT = TypeVar("ValueT", bound=Value)

JSON_TYPE = "application/json"
NDJSON_TYPES = ("application/x-ndjson", "application/jsonl", "application/ndjson")


@dataclass(frozen=True, slots=True)
class Gateway:
    """The services of all handlers."""

    settings: GatewaySettings
    prefix: str
    log: Callable[[], GatewayLog]
    states: LiveStates
    notes: Notes
    limiter: Limiter
    credentials: Credentials
    letters: LetterIndex
    streams: OpenRequests
    waits: OpenRequests
    """Requests that wait for an answer or a session."""
    processes: RedisProcesses
    epoch: int = 0
    """The count of the broker's beginnings: places in the topics of another epoch mean nothing."""
    erasures: ErasureLedger | None = None
    """`None` where the operator has set none."""
    plans: ErasurePlans = field(default_factory=PlanCommand)
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    feeds: FeedSharing = field(default_factory=FeedSharing)
    lookups: Lookups = field(default_factory=Lookups)
    resumptions: Lookups = field(default_factory=Lookups)
    """Turns of streams that read what they missed; apart, so that no reply waits behind them."""
    later: set["asyncio.Future[None]"] = field(default_factory=set)
    """Work that no answer waits for."""

    def do_later(self, work: Coroutine[object, object, None]) -> None:
        """Begin work that no answer waits for."""
        task = asyncio.ensure_future(work)
        self.later.add(task)
        task.add_done_callback(self.later.discard)


@dataclass(frozen=True, slots=True)
class Call:
    """A request whose caller may make it."""

    request: Request
    gateway: Gateway
    caller: Caller
    path: Mapping[str, str]
    id: str
    """The id of the HTTP request."""

    @property
    def conversation_id(self) -> str:
        """The conversation of the path."""
        return self.path["conversation"]

    @property
    def sent_path(self) -> str:
        """The path as it was sent, percent-encoded; only so may a header hold it."""
        raw: bytes = self.request.scope.get("raw_path") or quote(self.request.url.path).encode()
        return raw.partition(b"?")[0].decode("ascii", "replace")

    @property
    def key(self) -> str:
        """The conversation key; its tenant is that of the credential."""
        return conversation_key(self.caller.tenant, self.conversation_id)

    async def live(self) -> LiveState:
        """The live state."""
        return await self.gateway.states.live()

    def query(self, form: type[ValueT]) -> ValueT:
        """The parameters of the query; raises `Problem` (422)."""
        try:
            return form.model_validate(dict(self.request.query_params))
        except ValidationError as error:
            detail = "the query has wrong parameters"
            if " " in self.request.query_params.get("at", ""):
                detail += "; the + in the zone of a time is written %2B there"  # sent as it is, it means a space
            raise Problem(422, detail, errors=invalid(error)) from None

    async def body(self, form: TypeAdapter[T]) -> T:
        """The JSON body; raises `Problem` (413, 415, 422, 408)."""
        self.require_type(JSON_TYPE)
        raw = await read_body(self.request, self.gateway.settings.body_bytes, self.gateway.settings.body_seconds)
        try:
            return form.validate_json(raw)
        except ValidationError as error:
            text = "the body is no JSON text" if is_no_json(error) else "the body does not match its schema"
            raise Problem(422, text, errors=invalid(error)) from None
        except (ValueError, RecursionError):
            raise Problem(422, "the body is no JSON text") from None

    def require_type(self, *types: str) -> None:
        """Raise `Problem` (415) for a body of another type."""
        given = self.request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if given not in types:
            raise Problem(415, f"send `Content-Type: {types[0]}`", headers={"Accept-Post": types[0]})
        if self.request.headers.get("content-encoding", "identity").strip().lower() != "identity":
            raise Problem(
                415, "send the body as it is: no Content-Encoding is read", headers={"Accept-Encoding": "identity"}
            )

    def stream(self, events: AsyncGenerator[bytes], resources: AsyncExitStack) -> EventStream:
        """The response that streams events; ``resources`` are closed at its end."""
        return EventStream(events, resources, self.gateway.closing, self.gateway.settings.ping_seconds)

    async def admit(self, cost: float) -> None:
        """Count requests of this cost; raises `Problem` (429) where the key has made too many."""
        settings = self.gateway.settings
        wait_s = await self.gateway.limiter.wait_s(self.caller.id, Rate(settings.rate, settings.burst), cost)
        if wait_s > 0:
            retry = {"Retry-After": str(math.ceil(wait_s))}
            raise Problem(429, f"too many requests with this key; wait {wait_s:.3f} seconds", headers=retry)


Handler = Callable[[Call], Awaitable[Response | EventStream]]


def answer(value: Value, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A JSON response."""
    return Response(value.to_json(), status, dict(headers or {}), media_type=JSON_TYPE)


async def read_body(request: Request, limit: int, seconds: float) -> bytes:
    """The body, counted while it comes; raises `Problem` (413, 408) where it is too large or too slow."""
    too_large = Problem(413, f"the body is larger than {limit:,} bytes", headers={"Connection": "close"})
    declared = request.headers.get("content-length", "0")
    if declared.isdecimal() and int(declared) > limit:
        raise too_large
    chunks: list[bytes] = []
    left = limit
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.stream():
                left -= len(chunk)
                if left < 0:
                    raise too_large
                chunks.append(chunk)
    except TimeoutError:
        raise Problem(
            408, f"the body did not come within {seconds:g} seconds", headers={"Connection": "close"}
        ) from None
    return b"".join(chunks)


async def while_connected(call: Call, work: Awaitable[T]) -> T | None:
    """The result of work for a client that waits; `None`, with the work cancelled, where it leaves first."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_disconnected(call.request))
    closing = asyncio.ensure_future(call.gateway.closing.wait())
    try:
        await asyncio.wait({task, gone, closing}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        if closing.done():
            raise Unavailable("this replica stops now", "the gateway")
        return None
    finally:
        for other in (task, gone, closing):
            other.cancel()
        await asyncio.wait({task, gone, closing})  # what the work holds is closed before the answer is given


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
