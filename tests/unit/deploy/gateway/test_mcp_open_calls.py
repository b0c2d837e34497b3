"""A program that closes its output behind its last request to the tools gets the answers all the same."""

import asyncio
import json
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from anyio import EndOfStream
from mcp.shared.message import SessionMessage
from mcp_types.jsonrpc import JSONRPCNotification, JSONRPCRequest

from eunoe.deploy.gateway.mcp.malformed import AnsweredInput
from eunoe.deploy.gateway.mcp.open_calls import OpenCalls
from tests.support.gateway import make_gateway
from tests.unit.deploy.gateway.test_mcp_malformed import GREETING, PING

pytestmark = pytest.mark.timeout(60)

CALLS = 12


def remember(number: int) -> bytes:
    arguments = {"text": f"I bought {number} apples.", "speaker": "Ann", "utterance_id": f"u{number}"}
    params = {"name": "remember", "arguments": {**arguments, "conversation_id": "c"}}
    return json.dumps({"jsonrpc": "2.0", "id": f"r{number}", "method": "tools/call", "params": params}).encode()


async def test_what_is_to_be_remembered_before_the_input_ends_is_remembered(tmp_path):
    gateway = make_gateway(tmp_path)
    async with gateway.served() as http:
        key = http.headers["authorization"].split()[1]
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "eunoe.deploy.cli", "mcp",
            stdin=PIPE, stdout=PIPE, cwd=tmp_path,
            env={"EUNOE_MCP__URL": str(http.base_url), "EUNOE_MCP__KEY": key, "PATH": ""},
        )  # fmt: skip
        told, _ = await process.communicate(b"\n".join([GREETING, *map(remember, range(CALLS)), b""]))
        recalled = (await http.post("/v1/conversations/c/recall", json={"query": "apples"})).json()
    answered = {one["id"]: one.get("result", {}).get("isError") for one in map(json.loads, told.splitlines()[1:])}
    assert answered == {f"r{number}": False for number in range(CALLS)}
    assert {line["utterance_id"] for line in recalled["dialogue"]} == {f"u{number}" for number in range(CALLS)}
    assert process.returncode == 0


@asynccontextmanager
async def greeted(folder: Path) -> AsyncIterator[Process]:
    """A process that serves tools, and has answered the greeting."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "eunoe.deploy.cli", "mcp", stdin=PIPE, stdout=PIPE, stderr=PIPE, cwd=folder,
        env={"EUNOE_MCP__URL": "http://127.0.0.1:1", "EUNOE_MCP__KEY": "eu_x", "PATH": ""},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(GREETING + b"\n")
        assert b"serverInfo" in await process.stdout.readline()
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_an_interrupt_ends_the_tools_although_their_input_is_open(tmp_path):
    async with greeted(tmp_path) as process:
        process.send_signal(signal.SIGINT)
        assert await asyncio.wait_for(process.wait(), 10) == -signal.SIGINT


async def test_a_program_that_leaves_without_its_answers_is_no_fault(tmp_path):
    async with greeted(tmp_path) as process:
        process._transport.get_pipe_transport(1).close()  # type: ignore[attr-defined]  # asyncio closes no output alone
        assert await process.communicate(PING + b"\n") == (b"", b"")
    assert process.returncode == 0


async def test_tools_whose_answers_nobody_reads_end_although_their_input_is_open(tmp_path):
    async with greeted(tmp_path) as process:
        process._transport.get_pipe_transport(1).close()  # type: ignore[attr-defined]  # asyncio closes no output alone
        assert await asyncio.wait_for(process.wait(), 20) == 0


class Ended:
    """A stream of messages that ends behind these."""

    def __init__(self, *messages: Any) -> None:
        self._left = [SessionMessage(one) for one in messages]

    async def receive(self) -> SessionMessage:
        if not self._left:
            raise EndOfStream
        return self._left.pop(0)


@pytest.mark.parametrize("seconds", [0.0, 3600.0])
async def test_a_cancelled_request_is_not_waited_for_and_another_only_so_long(seconds):
    asked = JSONRPCRequest(jsonrpc="2.0", id=1, method="tools/call", params={})
    cancelled = JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params={"requestId": 1})
    messages = (asked,) if seconds == 0.0 else (asked, cancelled)
    reading = AnsweredInput(Ended(*messages), OpenCalls(None), seconds)
    assert [(await reading.receive()).message for _ in messages] == list(messages)
    with pytest.raises(EndOfStream):
        await reading.receive()
