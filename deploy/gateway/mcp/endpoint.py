"""MCP over streamable HTTP at /mcp: requests with a valid credential are handed to the MCP server.

The MCP library is imported at the first request. A tool calls the gateway's own routes in this process with the
credential of its caller: tenant, scopes and prefixes are checked there, as for any other request.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import httpx2
import orjson
from starlette.responses import Response
from starlette.types import ASGIApp, Message

from eunoe.deploy.gateway.calls import JSON_TYPE, Call, read_body, while_connected
from eunoe.deploy.gateway.problems import Problem
from eunoe.streams.gateway import GatewayConnection

if TYPE_CHECKING:
    from eunoe.deploy.gateway.mcp.tools import ToolContext

MCP_PATH: Final = "/mcp"
_INSIDE: Final = "http://gateway"
_REFUSED: Final = -32_000
"""JSON-RPC leaves this code to servers."""
_INVALID: Final = -32_600
_REFUSED_TEXT: Final = "the request is not one of MCP that this server takes"


@dataclass(slots=True)
class McpEndpoint:
    """Hands requests to an MCP server, which starts with the first one; ``stop`` ends it."""

    routes: ASGIApp
    """The gateway's routes, for the tools; they count no call of a tool again, but what it costs beyond one request."""
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _ending: asyncio.Event = field(default_factory=asyncio.Event)
    _app: ASGIApp | None = None
    _running: "asyncio.Task[None] | None" = None

    async def handle(self, call: Call) -> Response:
        """The response of the MCP server; raises `Problem` (403, 405, 408, 413)."""
        if call.request.method != "POST":
            raise Problem(405, "this address takes POST: it keeps no sessions", headers={"Allow": "POST"})
        settings = call.gateway.settings
        body = await read_body(call.request, settings.body_bytes, settings.body_seconds)
        app = await self._started()
        found = await while_connected(call, _collected(app, call, body))
        return Response(status_code=499) if found is None else found

    async def stop(self) -> None:
        """End the MCP server, where it was started."""
        self._ending.set()
        if self._running is not None:
            await self._running

    async def _started(self) -> ASGIApp:
        async with self._lock:
            if self._app is None:
                await asyncio.to_thread(import_module, "eunoe.deploy.gateway.mcp.server")
                ready: asyncio.Future[ASGIApp] = asyncio.get_running_loop().create_future()
                self._running = asyncio.create_task(self._run(ready))
                self._app = await ready
        return self._app

    async def _run(self, ready: "asyncio.Future[ASGIApp]") -> None:
        """Run the session manager: one task has to enter and to leave it."""
        from eunoe.deploy.gateway.mcp.server import open_manager  # noqa: PLC0415 - takes most of a second

        async with open_manager(self._connected) as app:
            ready.set_result(app)
            await self._ending.wait()

    @asynccontextmanager
    async def _connected(self, context: "ToolContext") -> AsyncIterator[GatewayConnection]:
        """The routes of this process, with the credential of the request that calls the tool."""
        request: Any = context.request_context.request
        secret = request.headers["authorization"].partition(" ")[2]
        transport = httpx2.ASGITransport(app=self.routes)
        async with GatewayConnection(_INSIDE, secret, transport=transport, patient=False) as connection:
            yield connection


def rpc_response(problem: Problem, instance: str) -> Response:
    """A problem as clients of MCP show it: a JSON-RPC error with the status of the problem."""
    document = problem.document(instance).model_dump(mode="json", exclude_defaults=True)
    error = {"code": _REFUSED, "message": f"{problem.status}: {problem.detail}", "data": document}
    body = orjson.dumps({"jsonrpc": "2.0", "id": None, "error": error})
    return Response(body, problem.status, problem.headers, media_type=JSON_TYPE)


async def _collected(app: ASGIApp, call: Call, body: bytes) -> Response:
    """The whole response of an ASGI application to a request whose body was read."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
    response = Response()
    chunks: list[bytes] = []

    async def receive() -> Message:
        if not messages:
            await asyncio.Event().wait()  # whoever waits for the end of the connection is cancelled at it
        return messages.pop()

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            response.status_code = message["status"]
            response.raw_headers = [
                (name, value) for name, value in message.get("headers", ()) if name.lower() != b"content-length"
            ]
        else:
            chunks.append(message.get("body", b""))

    await app(call.request.scope, receive, send)
    response.body = b"".join(chunks)
    if response.status_code == HTTPStatus.ACCEPTED and _is_dropped(body):
        response.status_code = HTTPStatus.BAD_REQUEST
    if response.status_code >= HTTPStatus.BAD_REQUEST:
        response.body = _plain_error(response.body, refusal(response.status_code, call.request.headers, body))
        response.headers["Content-Type"] = JSON_TYPE
    response.headers["Content-Length"] = str(len(response.body))
    return response


def refusal(status: int, headers: Mapping[str, str], body: bytes) -> str:
    """The reason why the MCP library refused a request, with what to send; nothing of the request is repeated."""
    from mcp_types.version import SUPPORTED_PROTOCOL_VERSIONS  # noqa: PLC0415 - the library is there by now

    if status == HTTPStatus.NOT_ACCEPTABLE:
        return f"send `Accept: {JSON_TYPE}, text/event-stream`"
    if headers.get("content-type", "").partition(";")[0].strip().lower() != JSON_TYPE:
        return f"send `Content-Type: {JSON_TYPE}`"
    if headers.get("mcp-protocol-version", SUPPORTED_PROTOCOL_VERSIONS[0]) not in SUPPORTED_PROTOCOL_VERSIONS:
        return f"MCP-Protocol-Version must be one of {', '.join(SUPPORTED_PROTOCOL_VERSIONS)}"
    if body.lstrip()[:1] == b"[":
        return "send one message, for batches are not taken"
    try:
        orjson.loads(body)
    except ValueError:
        return "the body is no JSON text"
    if _is_dropped(body):
        return "send an id that is a text or a whole number, written as such"
    return "the body is no message of JSON-RPC 2.0 that MCP has"


def _is_dropped(body: bytes) -> bool:
    """Whether the MCP library takes a request for a notification, as one with an id like 1.0, and drops it."""
    sent = orjson.loads(body)
    return isinstance(sent, dict) and "method" in sent and not str(sent["method"]).startswith("notifications/")


def _plain_error(sent: bytes, reason: str) -> bytes:
    """The error of the MCP library with its code and a ``reason``: its own messages repeat what the caller sent."""
    id_, code = None, _INVALID
    with suppress(ValueError, TypeError, KeyError, AttributeError):
        found = orjson.loads(sent)
        id_, code = found.get("id"), int(found["error"]["code"])
    error = {"code": code, "message": f"{_REFUSED_TEXT}: {reason}"}
    return orjson.dumps({"jsonrpc": "2.0", "id": id_, "error": error})
