"""Ports for test servers: none is given to two."""

import subprocess
import sys
from pathlib import Path

from eunoe.deploy.local.ports import PortReservations, free_port

HOLDER = """
import sys
from pathlib import Path
from eunoe.deploy.local.ports import PortReservations
reservations = PortReservations(Path(sys.argv[1]))
print(reservations.reserve(20_000), flush=True)
sys.stdin.read()
"""


def test_a_port_is_given_once() -> None:
    ports = [free_port() for _ in range(100)]
    assert len(set(ports)) == 100


def test_a_port_is_reserved_while_its_process_lives(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "ports")]
    reservations = PortReservations(tmp_path / "ports")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == "True\n"
        assert not reservations.reserve(20_000)
        assert reservations.reserve(20_001)
        other.stdin.close()
        other.wait()
    assert reservations.reserve(20_000)
    assert not reservations.reserve(20_000)
