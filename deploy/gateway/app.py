"""The ASGI application: lets requests in, and turns faults into problem documents."""

import logging
import re
from contextlib import suppress
from dataclasses import dataclass, field
from time import perf_counter
from typing import Final
from uuid import uuid4

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from eunoe.deploy.gateway.calls import Call, Gateway, answer
from eunoe.deploy.gateway.fault_log import FaultLog
from eunoe.deploy.gateway.keys import ANY_TENANT, Caller
from eunoe.deploy.gateway.mcp.discovery import (
    METADATA_PATH,
    ResourceMetadata,
    challenge,
    is_metadata_path,
    resource_metadata,
)
from eunoe.deploy.gateway.mcp.endpoint import MCP_PATH, McpEndpoint, rpc_response
from eunoe.deploy.gateway.meter import GatewayMeter
from eunoe.deploy.gateway.openapi import openapi_bytes
from eunoe.deploy.gateway.page.assets import assets
from eunoe.deploy.gateway.problems import Problem, unavailable
from eunoe.deploy.gateway.routing import ROUTES, Found, Route, find_route
from eunoe.deploy.gateway.sse import EventStream
from eunoe.schemas.errors import EunoeError, Refused, StateLost, Unavailable
from eunoe.schemas.versions import newer_fault
from eunoe.streams.publisher import MessageTooLarge
from eunoe.streams.tracing import TRACE_HEADER, SpanKind, TraceSpan, span

log = logging.getLogger(__name__)

_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")
OPENAPI_PATH: Final = "/v1/openapi.json"
_ALLOWED_HEADERS: Final = (
    "Authorization, Content-Type, Last-Event-ID, MCP-Protocol-Version, Mcp-Method, Mcp-Name, Prefer, traceparent,"
    " X-Request-Id"
)


@dataclass(slots=True)
class GatewayApp:
    """All routes over one set of services."""

    gateway: Gateway
    meter: GatewayMeter = field(default_factory=GatewayMeter)
    mcp: McpEndpoint | None = None
    """`None` for the routes that the tools of MCP call."""
    faults: FaultLog = field(default_factory=FaultLog)

    @classmethod
    def with_mcp(cls, gateway: Gateway) -> "GatewayApp":
        """The routes with their metrics, and the tools of agents; stop ``mcp`` at the end."""
        meter = GatewayMeter(f"{route.method} {route.path}" for route in ROUTES)
        meter.watch_open(lambda: gateway.streams.open, lambda: gateway.waits.open)
        faults = FaultLog()
        return cls(gateway, meter, McpEndpoint(cls(gateway, meter, faults=faults)), faults)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        outside = None if self.mcp is None else ""  # what a tool calls belongs to the call of the tool
        parent = request.headers.get(TRACE_HEADER) or outside
        with span(request.method, kind=SpanKind.SERVER, parent=parent) as traced:
            await self._answer(request, (scope, receive, send), traced)

    async def _answer(self, request: Request, wire: tuple[Scope, Receive, Send], traced: TraceSpan) -> None:
        id_ = _request_id(request)
        begun = perf_counter()
        try:
            route, response = await self._respond(request, id_)
        except ClientDisconnect:
            return
        self._mark(request, response, id_)
        if request.method == "HEAD":
            response = await _without_body(response)
        self.meter.count(route, response.status_code, perf_counter() - begun)
        traced.name(route)
        traced.set("http.request.method", request.method)
        traced.set("http.route", route.partition(" ")[2] or route)
        traced.set("http.response.status_code", response.status_code)
        await response(*wire)

    async def _respond(self, request: Request, id_: str) -> tuple[str, Response | EventStream]:
        """The name of the route for the metrics, and the response."""
        name = "none"
        try:
            plain = self._plain(request)
            if plain is not None:
                path = request.url.path
                return METADATA_PATH if is_metadata_path(path) else path, plain
            if self.mcp is not None and request.url.path == MCP_PATH:
                name = f"{request.method} {MCP_PATH}"
                return name, await self._to_mcp(self.mcp, request, id_)
            found = find_route(request.method, request.scope.get("raw_path") or request.url.path.encode())
            name = f"{found.route.method} {found.route.path}"
            call = await self._admitted(request, found, id_)
            return name, await found.route.handle(call)
        except Problem as problem:
            return name, problem.response(id_)
        except ClientDisconnect:
            raise
        except Exception as fault:
            return name, _problem_of(fault, self.faults).response(id_)

    def _plain(self, request: Request) -> Response | None:
        """The response to a request that needs no credential."""
        if request.method == "OPTIONS" and request.headers.get("origin") is not None:
            self._check_origin(request)
            headers = {
                "Access-Control-Allow-Methods": "GET, POST",
                "Access-Control-Allow-Headers": _ALLOWED_HEADERS,
                "Access-Control-Max-Age": "600",
            }
            return Response(status_code=204, headers=headers)
        asset = assets().get(request.url.path)
        metadata = self._metadata(request) if is_metadata_path(request.url.path) else None
        if asset is None and metadata is None and request.url.path != OPENAPI_PATH:
            return None
        if request.method not in ("GET", "HEAD"):
            raise Problem(405, "this address takes GET", headers={"Allow": "GET, HEAD"})
        if asset is not None:
            return asset.response(request.headers.get("if-none-match", ""), body=request.method == "GET")
        if metadata is not None:
            return answer(metadata)
        return Response(openapi_bytes(), media_type="application/json")

    async def _admitted(self, request: Request, found: Found, id_: str) -> Call:
        caller = await self._caller(request)
        _check_reach(caller, found)
        call = Call(request, self.gateway, caller, found.path, id_)
        if self.mcp is not None:  # else it was counted at /mcp, as the call of a tool
            await call.admit(1)
        with suppress(EunoeError):  # the log of before takes events on while the live one is not known
            await call.live()  # what only adds to the log would go into a closed one for ever
        return call

    async def _caller(self, request: Request) -> Caller:
        return await self.gateway.credentials.caller(request.headers.get("authorization"))

    async def _to_mcp(self, mcp: McpEndpoint, request: Request, id_: str) -> Response:
        try:
            self._check_origin(request)
            call = Call(request, self.gateway, await self._caller(request), {}, id_)
            await call.admit(1)
            return await mcp.handle(call)
        except Problem as problem:
            if problem.status == 401:
                problem.headers["WWW-Authenticate"] = challenge(self._metadata(request))
            return rpc_response(problem, id_)

    def _metadata(self, request: Request) -> ResourceMetadata | None:
        return resource_metadata(self.gateway.credentials.tokens, request, MCP_PATH)

    def _origin(self, request: Request) -> str | None:
        """The origin of a web page that may call."""
        origin = request.headers.get("origin")
        allowed = {one.strip() for one in self.gateway.settings.cors_origins.split(",")}
        return origin if origin and origin in allowed else None

    def _check_origin(self, request: Request) -> None:
        """Raise `Problem` (403) for a web page of an origin that is not allowed."""
        if request.headers.get("origin") is not None and self._origin(request) is None:
            raise Problem(403, "web pages of this origin may not call: see EUNOE_GATEWAY__CORS_ORIGINS")

    def _mark(self, request: Request, response: Response | EventStream, id_: str) -> None:
        response.headers["X-Request-Id"] = id_
        if "Cache-Control" not in response.headers:  # all but the page: what somebody said, or a fault of now
            response.headers["Cache-Control"] = "no-store"
            response.headers["X-Content-Type-Options"] = "nosniff"
        if request.headers.get("origin") is not None:
            response.headers["Vary"] = "Origin"
        origin = self._origin(request)
        if origin is not None:
            response.headers["Access-Control-Allow-Origin"] = origin
            response.headers["Access-Control-Expose-Headers"] = "X-Request-Id, Retry-After, Location, WWW-Authenticate"


async def _without_body(response: Response | EventStream) -> Response:
    """The answer to HEAD: the headers of that to GET, also the length of its body."""
    if isinstance(response, EventStream):
        return await response.head()
    response.body = b""
    return response


def _request_id(request: Request) -> str:
    given = request.headers.get("x-request-id", "")
    return given if _REQUEST_ID.fullmatch(given) else str(uuid4())


def _check_reach(caller: Caller, found: Found) -> None:
    """Raise `Problem` (403) where the credential does not reach the route or the conversation."""
    route: Route = found.route
    if route.scope not in caller.scopes:
        raise Problem(403, f"this key lacks the scope {route.scope.value!r}")
    if caller.tenant == ANY_TENANT and route.of_tenant:
        raise Problem(403, "this key is of no tenant; it sees dead letters and processes alone")
    conversation = found.path.get("conversation")
    if conversation is not None and not caller.may_use(conversation):
        raise Problem(403, "this key reaches only conversations whose ids begin as it says")


def _problem_of(fault: Exception, faults: FaultLog) -> Problem:
    if isinstance(fault, MessageTooLarge):
        return Problem(413, "the event is larger than the log takes")
    if isinstance(fault, StateLost):
        faults.note("state", logging.ERROR, fault)
        return Problem(503, "the memory of this conversation is damaged; its operator finds why in the log")
    if isinstance(fault, Unavailable):
        faults.note(fault.server, logging.WARNING, fault)
        return unavailable(fault.server)
    if isinstance(fault, Refused):
        faults.note("settings", logging.ERROR, fault)
        return Problem(503, "the memory is not set up for this request; its operator finds why in the log")
    if (newer := newer_fault(fault)) is not None:
        why = f"a newer version wrote what was read; update this replica: {newer}"
        faults.note("version", logging.WARNING, why)
        return Problem(503, "this replica reads what a newer version wrote: try again", headers={"Retry-After": "2"})
    log.error("500", exc_info=fault)
    return Problem(500, "a fault of the gateway; its log has more under this instance")
