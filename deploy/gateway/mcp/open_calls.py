"""Requests of a program that has closed its output: they are answered before the connection ends.

The library cancels what is under way when its input ends: an utterance that was just to be remembered would be lost.
"""

import asyncio
from contextlib import suppress
from typing import Any, Self

from mcp.shared.message import SessionMessage
from mcp_types.jsonrpc import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse


class OpenCalls:
    """The stream of answers; knows which requests have none yet.

    A program that wants no answer any more ends this one by a signal.
    """

    def __init__(self, answers: Any) -> None:  # noqa: ANN401 - the library's types of streams are private
        self._answers = answers
        self._ids: set[str | int] = set()
        self._answered = asyncio.Event()
        self.is_read = True
        """Whether somebody reads the answers; else they are dropped."""

    def take(self, received: SessionMessage) -> None:
        """Note a request, or that one is cancelled: it gets no answer."""
        message = received.message
        if isinstance(message, JSONRPCRequest):
            self._ids.add(message.id)
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            self._leave((message.params or {}).get("requestId"))

    async def finish(self, seconds: float) -> None:
        """Wait until all requests have their answers, for so long at most."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._ids:
                    self._answered.clear()
                    await self._answered.wait()

    async def send(self, answer: SessionMessage) -> None:
        """Send an answer, or another message."""
        if self.is_read:
            await self._answers.send(answer)
        if isinstance(answer.message, JSONRPCResponse | JSONRPCError):
            self._leave(answer.message.id)

    def forget(self) -> None:
        """Wait for no request any more: none is under way."""
        self._ids.clear()
        self._answered.set()

    def _leave(self, id_: object) -> None:
        if isinstance(id_, str | int):
            self._ids.discard(id_)
        self._answered.set()

    async def aclose(self) -> None:
        """Close the stream."""
        await self._answers.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *fault: object) -> None:
        await self.aclose()
