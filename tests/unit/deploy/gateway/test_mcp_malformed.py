"""What a program sends to the tools over stdin and is no message: it is answered, with the id where it has one."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

PING = b'{"jsonrpc": "2.0", "id": "last", "method": "ping"}'
GREETING = (
    b'{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18",'
    b' "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}}'
)
CUT = (
    b'{"jsonrpc": "2.0", "id": 12, "method": "tools/call", "params": {"name": "remember",'
    b' "arguments": {"text": "cut \\ud83d"}}}'
)


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., list[dict]]]:
    """A function that sends lines to one `eunoe mcp`; returns the answers to them, the last one to a ping behind."""
    with subprocess.Popen(
        [sys.executable, "-m", "eunoe.deploy.cli", "mcp"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tmp_path_factory.mktemp("mcp"),
        env={"EUNOE_MCP__URL": "http://127.0.0.1:1", "EUNOE_MCP__KEY": "eu_x", "PATH": ""},
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None

        def send(*lines: bytes) -> list[dict]:
            process.stdin.write(b"\n".join([*lines, b""]))
            process.stdin.flush()
            found: list[dict] = []
            while not found or found[-1]["id"] != "last":
                found.append(json.loads(process.stdout.readline()))
            return found

        send(GREETING, PING)
        yield lambda *lines: send(*lines, PING)


def test_what_is_no_message_is_answered_and_what_comes_behind_it_is_too(answers):
    found = answers(
        CUT,
        b'{"id": 13, "method": "tools/list"}',
        b'{"jsonrpc": "2.0", "id": "s", "method": "tools/list", "params": [1]}',
        b"hello",
        b"",
        b"[]",
    )
    errors = {(one["id"], one["error"]["code"]): one["error"]["message"] for one in found if "error" in one}
    assert len(found) == len(errors) + 1
    assert set(errors) == {(12, -32700), (13, -32600), ("s", -32600), (None, -32700), (None, -32600)}
    assert errors[12, -32700] == "a text ends in half of a character: cut it elsewhere"
    assert "hello" not in errors[None, -32700]
    assert found[-1] == {"jsonrpc": "2.0", "id": "last", "result": {}}


def test_a_request_whose_id_the_library_cannot_read_is_answered_and_a_notification_is_not(answers):
    ids = (b"1.0", b"null", b"true", b"[1]")
    found = answers(
        *(b'{"jsonrpc": "2.0", "id": %b, "method": "tools/list"}' % id_ for id_ in ids),
        b'{"jsonrpc": "2.0", "method": "notifications/initialized"}',
        b'{"jsonrpc": "2.0", "method": "notifications/of_a_later_version"}',
    )
    assert [(one["id"], one.get("error", {}).get("code")) for one in found] == [
        *((None, -32600) for _ in ids),
        ("last", None),
    ]


def test_a_byte_order_mark_before_a_message_is_passed_over(answers):
    named, broken = PING.replace(b"last", b"marked"), b"{"
    found = answers(b"\xef\xbb\xbf" + named, b"\xef\xbb\xbf" + broken)
    assert {"jsonrpc": "2.0", "id": "marked", "result": {}} in found
    assert [one["error"]["code"] for one in found if "error" in one] == [-32700]
