"""What tests need of a broker, and what the brokers that they run on are capable of.

``EUNOE_TEST_BROKER=kafka`` runs them on Apache Kafka, started for the run; where EUNOE_KAFKA and its like are set they
run on those servers; else on the embedded broker. Every broker must pass every test whose needs it meets.
"""

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

import pytest

from tests.support import given

VARIABLE = "EUNOE_TEST_BROKER"


class Broker(StrEnum):
    """What the tests run on."""

    EMBEDDED = "the embedded servers"
    KAFKA = "Apache Kafka"
    GIVEN = "the given servers"


NEEDS: Mapping[str, str] = {
    "append-time": "the log's own time on a record",
    "idempotence": "idempotent producers",
    "transactions": "producers with transactions",
    "compaction": "topics that keep the last record of each key",
    "broker-files": "what the broker has written to disk",
    "own-broker": "a broker of the test's own, which it may kill",
    "secured-broker": "a broker of the test's own with SASL and TLS",
    "three-brokers": "three brokers of the test's own",
    "java": "a Java compiler, and the jars of Apache Kafka",
    "node": "Node.js and npm",
}
"""Everything that a test can say it needs."""

_CAPABLE: Mapping[Broker, frozenset[str]] = {
    # Tansu 0.6.0: producers' times only, neither idempotence nor transactions, memory only, one process
    Broker.EMBEDDED: frozenset({"own-broker", "node"}),
    Broker.KAFKA: frozenset(NEEDS),
    Broker.GIVEN: frozenset({"append-time", "idempotence", "transactions"}),
}

_PROGRAMS: Mapping[str, Sequence[str]] = {"java": ("javac",), "node": ("node", "npm")}
"""What must be installed beside the broker."""


def under_test() -> Broker:
    """What this run is on; raises ``pytest.UsageError`` for a wish that cannot be."""
    wish = os.environ.get(VARIABLE, "")
    if wish not in ("", "embedded", "kafka"):
        raise pytest.UsageError(f"{VARIABLE} is embedded or kafka, not {wish!r}")
    if wish == "kafka":
        return Broker.KAFKA
    return Broker.GIVEN if given.are_given() else Broker.EMBEDDED


def lacking(broker: Broker, wanted: Iterable[str]) -> list[str]:
    """What ``broker``, or this machine, does not have of what is wanted; raises ``KeyError`` for an unknown need."""
    missing = (need for need in wanted if need not in _CAPABLE[broker] or not _is_installed(need))
    return [f"{need} ({NEEDS[need]})" for need in missing]


def _is_installed(need: str) -> bool:
    return all(shutil.which(program) for program in _PROGRAMS.get(need, ()))
