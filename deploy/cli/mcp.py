"""`eunoe mcp`."""

import asyncio
import signal
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from eunoe.deploy.cli.output import set_log_level
from eunoe.deploy.clients.connect import DATA
from eunoe.deploy.gateway.mcp.stdio import find_address, serve_stdio
from eunoe.deploy.settings import read_settings


def mcp(
    conversation: Annotated[
        str | None,
        typer.Option(help="The conversation of calls that name none; default: EUNOE_MCP__CONVERSATION, none."),
    ] = None,
    data: Annotated[Path, typer.Option(help="Data directory of the `eunoe up` to use.")] = DATA,
    log_level: Annotated[str, typer.Option(help="Log level: debug, info, warning or error.")] = "warning",
) -> None:
    """Serve the memory as tools of an agent (MCP) over stdin and stdout.

    Talks to the gateway of EUNOE_MCP__URL with the key of EUNOE_MCP__KEY, else to that of the `eunoe up` that runs in
    the data directory, also after a new start of that. Ends with its input.
    """
    set_log_level(log_level)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # else Ctrl-C waits for a thread that reads the next line
    settings = read_settings().mcp
    asyncio.run(serve_stdio(partial(find_address, settings, data), conversation or settings.conversation))
