"""Requests that fail for want of a server: a line for each cause now and then."""

import logging

import pytest

from eunoe.deploy.gateway.fault_log import EVERY_S, FaultLog


def test_many_failures_of_one_cause_are_a_line_at_each_interval(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    faults = FaultLog(lambda: now[0])
    with caplog.at_level(logging.WARNING):
        for _ in range(100):
            faults.note("Redis", logging.WARNING, "Redis is away")
        faults.note("Kafka", logging.WARNING, "Kafka is away")
        now[0] = EVERY_S
        faults.note("Redis", logging.WARNING, "Redis is away")
        now[0] = 2 * EVERY_S
        faults.note("Redis", logging.WARNING, "Redis is away")
    assert caplog.messages == [
        "503: Redis is away",
        "503: Kafka is away",
        "503: Redis is away (and 99 more since the last line)",
        "503: Redis is away",
    ]
