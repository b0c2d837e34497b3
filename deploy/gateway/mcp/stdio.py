"""MCP over stdin and stdout: the tools as requests to a gateway elsewhere."""

import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from mcp.server.stdio import stdio_server
from pydantic import SecretStr, TypeAdapter, ValidationError

from eunoe.deploy.exits import Exit
from eunoe.deploy.gateway.keys import GATEWAY_KEY
from eunoe.deploy.gateway.mcp.malformed import AnsweredInput
from eunoe.deploy.gateway.mcp.open_calls import OpenCalls
from eunoe.deploy.gateway.mcp.server import make_server
from eunoe.deploy.gateway.mcp.tools import ANSWER_S, ToolContext
from eunoe.deploy.gateway.mcp.unread import when_unread
from eunoe.deploy.local.notice import find_stack
from eunoe.deploy.settings.sections import McpSettings
from eunoe.schemas.base import Identifier
from eunoe.schemas.errors import Refused
from eunoe.schemas.redact import without_login
from eunoe.schemas.versions import describe
from eunoe.streams.gateway import GatewayConnection

log = logging.getLogger(__name__)

_CONVERSATION: TypeAdapter[str] = TypeAdapter(Identifier)


class GatewayAddress(NamedTuple):
    """The URL of a gateway, and a key for it."""

    url: str
    key: SecretStr


def find_address(settings: McpSettings, data: Path) -> GatewayAddress:
    """The gateway of the settings, else of the `eunoe up` that runs over ``data``, with its key.

    Raises `Refused` where there is none, or no key for it.
    """
    url, key = settings.url, settings.key
    if url is None:
        stack = find_stack(data)
        url = None if stack is None else stack.gateway
        if url is None:
            raise Refused(
                f"no gateway: set EUNOE_MCP__URL and EUNOE_MCP__KEY, or start `eunoe up`; none runs over {data}"
            )
        key = key or _kept_key(data / GATEWAY_KEY)
    if key is None:
        raise Refused(f"no key for {without_login(url)}: set EUNOE_MCP__KEY to one that `eunoe keys create` made")
    return GatewayAddress(url, key)


@dataclass(slots=True)
class FoundGateway:
    """Connections to the gateway that is found at each call: a new start of `eunoe up` has another address.

    ``closing`` closes them.
    """

    find: Callable[[], GatewayAddress]
    closing: AsyncExitStack
    _address: GatewayAddress | None = None
    _connection: GatewayConnection | None = None

    async def connection(self) -> GatewayConnection:
        """The connection to the gateway of now; raises `Refused` as `find_address` does. Nothing is sent yet."""
        address = self.find()
        if self._connection is None or address != self._address:
            try:
                made = GatewayConnection(address.url, address.key)
            except ValueError as fault:
                raise Refused(f"EUNOE_MCP__KEY: {fault}") from None
            self._connection = await self.closing.enter_async_context(made)
            self._address = address
        return self._connection


def _kept_key(file: Path) -> SecretStr | None:
    try:
        kept = file.read_text().strip()
        return SecretStr(kept) if kept else None
    except FileNotFoundError:
        return None


async def serve_stdio(find: Callable[[], GatewayAddress], conversation: str | None) -> None:
    """Serve until the input ends, or nobody reads the answers; ``find`` is called for each call of a tool.

    The latter ends the process: a thread may wait for a line of the input, which nothing but a line wakes.
    Raises `Refused` for a conversation that cannot be, and where no gateway is found at the start.
    """
    if conversation is not None:
        try:
            _CONVERSATION.validate_python(conversation)
        except ValidationError as error:
            raise Refused(f"conversation: {describe(error)}") from None

    async with AsyncExitStack() as closing:
        found = FoundGateway(find, closing)
        await found.connection()

        @asynccontextmanager
        async def connected(_: ToolContext) -> AsyncIterator[GatewayConnection]:
            yield await found.connection()

        server = make_server(connected, conversation)._lowlevel_server  # noqa: SLF001 - the only one that takes streams
        unread = asyncio.Event()
        try:
            with when_unread(sys.stdout.fileno(), unread.set):
                async with stdio_server() as (messages, answers):
                    calls = OpenCalls(answers)
                    closing.callback(asyncio.create_task(_end_unread(unread, calls)).cancel)
                    options = server.create_initialization_options()
                    try:
                        await server.run(AnsweredInput(messages, calls, ANSWER_S), calls, options)
                    finally:
                        calls.forget()
        except* BrokenPipeError:
            log.info("nobody reads the answers any more")


async def _end_unread(unread: asyncio.Event, calls: OpenCalls) -> None:
    """End the process once nobody reads its answers, and the requests under way are carried out."""
    await unread.wait()
    log.info("nobody reads the answers any more")
    calls.is_read = False
    await calls.finish(ANSWER_S)
    os._exit(Exit.OK)
