"""The logs of child processes where the disk takes no more: lines are left out, and their writer goes on."""

import asyncio
import os
from pathlib import Path

import pytest

from eunoe.deploy.generations.rebuild import processes
from eunoe.deploy.local.log_file import LogFile
from eunoe.deploy.local.tansu.activity import TRACE_TARGET, BrokerOutput
from eunoe.deploy.process.supervisor import WorkerProcess
from tests.support.disk import room_for


def test_lines_that_the_disk_does_not_take_are_counted_in_the_next(tmp_path: Path) -> None:
    with LogFile(tmp_path / "log") as log:
        log.write([b"one\n"])
        with room_for(6):  # of the next lines the disk takes two bytes
            log.write([b"two\n", b"three\n"])
            log.write([b"four\n"])
        log.write([b"five\n"])
        log.write([b"six\n"])
    assert (tmp_path / "log").read_text().splitlines() == [
        "one",
        "(3 lines left out: the disk did not take them)",
        "five",
        "six",
    ]


async def test_a_worker_whose_log_cannot_be_written_is_heard_all_the_same(tmp_path: Path) -> None:
    said = asyncio.StreamReader()
    said.feed_data(b"a warning\nready: all stages\nthe last words\n")
    said.feed_eof()
    worker = WorkerProcess(["all"], {}, tmp_path / "log")
    with room_for(0):
        assert await worker._listen(said) == "the last words"


@pytest.mark.parametrize("size", [100_000, 1_000_000])
async def test_a_worker_that_logs_a_line_without_measure_is_heard_out(tmp_path: Path, size: int) -> None:
    said = asyncio.StreamReader()
    said.feed_data(b"a warning\n" + b"x" * size + b"\nthe last words\n")
    said.feed_eof()
    assert await WorkerProcess(["all"], {}, tmp_path / "log")._listen(said) == "the last words"
    lines = (tmp_path / "log").read_text().splitlines()
    assert (lines[0], lines[-1]) == ("a warning", "the last words")


async def test_a_process_of_a_rebuild_that_logs_a_line_without_measure_is_heard_out() -> None:
    said = asyncio.StreamReader()
    said.feed_data(b"x" * 1_000_000 + b"\nthe last words\n")
    said.feed_eof()
    assert await processes._told(said) == "the last words"


async def test_a_broker_whose_log_cannot_be_written_still_wakes_those_who_wait(tmp_path: Path) -> None:
    woken = asyncio.Event()
    output = BrokerOutput(LogFile(tmp_path / "log"), woken.set)
    with room_for(0):
        os.write(output.writer, f"a warning\n{TRACE_TARGET}\n".encode())
        await asyncio.wait_for(woken.wait(), 10)
        output.detach()
        output.close()
