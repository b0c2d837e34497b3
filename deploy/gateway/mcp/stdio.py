"""MCP over stdin and stdout: the tools as requests to a gateway elsewhere."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from eunoe.deploy.gateway.keys import GATEWAY_KEY
from eunoe.deploy.gateway.mcp.server import make_server
from eunoe.deploy.gateway.mcp.tools import ToolContext
from eunoe.deploy.local.notice import find_stack
from eunoe.deploy.settings import reveal
from eunoe.deploy.settings.sections import McpSettings
from eunoe.schemas.base import Identifier
from eunoe.schemas.errors import Refused
from eunoe.schemas.versions import describe
from eunoe.streams.gateway import GatewayConnection

_CONVERSATION: TypeAdapter[str] = TypeAdapter(Identifier)


def find_gateway(settings: McpSettings, data: Path) -> GatewayConnection:
    """The gateway of the settings, else of the `eunoe up` that runs over ``data``, with its key.

    Raises `Refused` where there is none, or no key for it. Nothing is sent yet.
    """
    url, key = settings.url, reveal(settings.key)
    if url is None:
        stack = find_stack(data)
        url = None if stack is None else stack.gateway
        if url is None:
            raise Refused(
                f"no gateway: set EUNOE_MCP__URL and EUNOE_MCP__KEY, or start `eunoe up`; none runs over {data}"
            )
        key = key or _kept_key(data / GATEWAY_KEY)
    if key is None:
        raise Refused(f"no key for {url}: set EUNOE_MCP__KEY to one that `eunoe keys create` made")
    try:
        return GatewayConnection(url, key)
    except ValueError as fault:
        raise Refused(f"EUNOE_MCP__KEY: {fault}") from None


def _kept_key(file: Path) -> str | None:
    try:
        return file.read_text().strip() or None
    except FileNotFoundError:
        return None


async def serve_stdio(gateway: GatewayConnection, conversation: str | None) -> None:
    """Serve until the input ends; raises `Refused` for a conversation that cannot be."""
    if conversation is not None:
        try:
            _CONVERSATION.validate_python(conversation)
        except ValidationError as error:
            raise Refused(f"conversation: {describe(error)}") from None

    @asynccontextmanager
    async def connected(_: ToolContext) -> AsyncIterator[GatewayConnection]:
        yield gateway

    async with gateway:
        await make_server(connected, conversation).run_stdio_async()
