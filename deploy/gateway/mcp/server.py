"""The MCP server: instructions and tools, whatever carries its messages."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import ASGIApp

from eunoe.deploy.gateway.mcp.forms import UNTRUSTED
from eunoe.deploy.gateway.mcp.tools import Connect, Tools

INSTRUCTIONS = f"""\
Long-term memory of conversations. Before you answer about a person's past, recall. Add what people say with remember,
in their words. Memory grows when a session ends; recall sees the lines of the open one, too.
{UNTRUSTED}
"""


def make_server(connect: Connect, conversation: str | None = None) -> MCPServer[Any]:
    """The server; ``conversation`` stands in where a call of a tool names none."""
    logging.getLogger("mcp").setLevel(logging.WARNING)  # else it logs each request
    named = "" if conversation is None else f"\nWithout conversation_id, tools use the conversation {conversation!r}.\n"
    return MCPServer[Any](
        name="eunoe",
        title="eunoe memory",
        version=version("eunoe"),
        instructions=INSTRUCTIONS + named,
        subscriptions=False,
        log_level="WARNING",
        tools=Tools(connect, conversation).all(),
    )


@asynccontextmanager
async def open_manager(connect: Connect) -> AsyncIterator[ASGIApp]:
    """The server over streamable HTTP, without sessions: any replica answers any request."""
    server = make_server(connect)
    unchecked = TransportSecuritySettings(enable_dns_rebinding_protection=False)  # keys and origins are checked before
    server.streamable_http_app(json_response=True, stateless_http=True, transport_security=unchecked)
    manager: StreamableHTTPSessionManager = server.session_manager
    async with manager.run():
        yield manager.asgi_app
