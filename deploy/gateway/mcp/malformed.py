"""Answers what comes over stdin and is no message of MCP: the library drops it, and the sender would wait in vain."""

import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, Self

from anyio import EndOfStream
from mcp.shared.message import SessionMessage
from mcp_types import ErrorData
from mcp_types.jsonrpc import JSONRPCError, JSONRPCNotification, jsonrpc_message_adapter
from pydantic import ValidationError

from eunoe.deploy.gateway.mcp.open_calls import OpenCalls

_MARK: Final = "\ufeff"
_NO_JSON: Final = -32_700
_INVALID: Final = -32_600
_NO_ID: Final = JSONRPCError(
    jsonrpc="2.0",
    id=None,
    error=ErrorData(code=_INVALID, message="a request without an id that is a text or a whole number, written as such"),
)


class AnsweredInput:
    """A stream of messages, of which a malformed one is answered with an error and passed over.

    ``messages`` has an exception in the place of each malformed one; ``calls`` is the stream back. The stream ends when
    all requests have their answers, ``finish_s`` seconds after its last message at the latest.
    """

    def __init__(self, messages: Any, calls: OpenCalls, finish_s: float) -> None:  # noqa: ANN401 - private in the library
        self._messages = messages
        self._calls = calls
        self._finish_s = finish_s

    async def receive(self) -> SessionMessage:
        """The next message; raises as the stream does at its end."""
        return await self._next(self._messages.receive)

    async def aclose(self) -> None:
        """Close the stream."""
        await self._messages.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage:
        return await self._next(self._messages.__anext__)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *fault: object) -> None:
        await self.aclose()

    async def _next(self, receive: Callable[[], Awaitable[SessionMessage | Exception]]) -> SessionMessage:
        while (error := _refused(found := await self._received(receive))) is not None or isinstance(found, Exception):
            if error is not None:
                await self._calls.send(SessionMessage(error))
        self._calls.take(found)
        return found

    async def _received(
        self, receive: Callable[[], Awaitable[SessionMessage | Exception]]
    ) -> SessionMessage | Exception:
        try:
            return _unmarked(await receive())
        except (EndOfStream, StopAsyncIteration):
            await self._calls.finish(self._finish_s)
            raise


def _unmarked(found: SessionMessage | Exception) -> SessionMessage | Exception:
    """The message of a line that begins with a byte order mark, as the first one of some programs does."""
    line = found.errors(include_url=False)[0]["input"] if isinstance(found, ValidationError) else None
    if not isinstance(line, str) or not line.startswith(_MARK):
        return found
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line.removeprefix(_MARK), by_name=False))
    except ValidationError as fault:
        return fault


def _refused(found: SessionMessage | Exception) -> JSONRPCError | None:
    """The answer to what the library would drop; `None` for a message, and for a blank line."""
    if isinstance(found, Exception):
        return None if _is_blank(found) else error_for(found)
    message = found.message
    if isinstance(message, JSONRPCNotification) and not message.method.startswith("notifications/"):
        return _NO_ID  # with an id like 1.0 the library takes a request for a notification
    return None


def _is_blank(fault: Exception) -> bool:
    """Whether a line without anything raised ``fault``."""
    return isinstance(fault, ValidationError) and not str(fault.errors(include_url=False)[0]["input"]).strip()


def error_for(fault: Exception) -> JSONRPCError:
    """The answer to what raised ``fault`` when it was read; with the id of the request where it has one."""
    code, text, sent = _INVALID, "no message of JSON-RPC 2.0 that MCP has", None
    if isinstance(fault, ValidationError):
        details = fault.errors(include_url=False)
        inputs = [detail["input"] for detail in details]
        sent = next((given for given in inputs if isinstance(given, dict) and "id" in given), None)
        if details[0]["type"] == "json_invalid":
            reason = str(details[0]["ctx"]["error"])
            is_half = "hex escape" in reason  # half of a surrogate pair: programs cut texts there
            text = "a text ends in half of a character: cut it elsewhere" if is_half else f"no JSON text: {reason}"
            code = _NO_JSON
            with suppress(ValueError, RecursionError):
                sent = json.loads(inputs[0])  # takes halves
    id_ = sent.get("id") if isinstance(sent, dict) else None
    known = id_ if isinstance(id_, str | int) else None
    return JSONRPCError(jsonrpc="2.0", id=known, error=ErrorData(code=code, message=text))
