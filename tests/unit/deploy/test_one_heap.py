"""The memory of a process with many threads."""

import os
import platform
import subprocess
import sys
from collections.abc import Mapping

import pytest

HEAPS = """
import ctypes, os, sys, tempfile, threading
from eunoe.deploy.event_loop import share_one_heap
share_one_heap()
barrier, kept = threading.Barrier(12), []
def work():
    barrier.wait()
    kept.append([bytearray(2_000) for _ in range(1_000)])
    barrier.wait()
threads = [threading.Thread(target=work) for _ in range(12)]
for thread in threads: thread.start()
for thread in threads: thread.join()
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
with tempfile.NamedTemporaryFile() as file:
    stream = ctypes.c_void_p(libc.fopen(file.name.encode(), b"w"))
    libc.malloc_info(0, stream)
    libc.fclose(stream)
    print(file.read().count(b"<heap nr"))
"""

FREED = """
from pathlib import Path
from eunoe.deploy.event_loop import give_back_free_memory
def pages():
    return int(Path("/proc/self/statm").read_text().split()[1])
kept = [bytearray(2_000) for _ in range(20_000)]
del kept[:-1]
held = pages()
give_back_free_memory()
print(held - pages())
"""

CYCLES = """
import gc
from collections import deque
from eunoe.deploy.event_loop import collect_seldom
collect_seldom()
recent = deque(maxlen=50_000)
for _ in range(3_000_000):
    cycle = []
    cycle.append(cycle)
    recent.append(cycle)
gc.disable()
print(sum(type(one) is list for one in gc.get_objects()))
"""
glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have no such option")


def heaps(**variables: str) -> int:
    return number_of(HEAPS, variables)


def number_of(program: str, variables: Mapping[str, str]) -> int:
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return int(done.stdout)


@glibc
def test_what_one_small_object_held_goes_back_to_the_system() -> None:
    assert number_of(FREED, {}) * os.sysconf("SC_PAGE_SIZE") > 30_000_000


@glibc
def test_threads_share_one_heap_unless_the_environment_says_otherwise() -> None:
    assert heaps() == 1
    assert heaps(MALLOC_ARENA_MAX="3") > 1


def test_a_command_that_runs_for_long_lets_go_of_what_it_used_before() -> None:
    assert 50_000 <= number_of(CYCLES, {}) < 1_500_000
