"""The rate limit for the logs of the Kafka libraries."""

import logging

import pytest

from eunoe.deploy.observability.log_throttle import Throttle
from eunoe.schemas.errors import Refused


def test_an_error_of_our_own_is_left_out_of_the_libraries_log(caplog: pytest.LogCaptureFixture) -> None:
    throttle = Throttle()
    for fault in (Refused("wrong"), ValueError("odd")):
        info = (type(fault), fault, None)
        throttle.emit(logging.LogRecord("faust.tables", logging.ERROR, "", 0, "Crashed reason=%r", (fault,), info))
    assert [one.getMessage() for one in caplog.records] == ["Crashed reason=ValueError('odd')"]


def test_the_same_library_message_is_logged_once_per_interval(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    throttle = Throttle(every_s=10, clock=lambda: now)

    def say(message: str, *args: object) -> None:
        throttle.emit(logging.LogRecord("aiokafka.conn", logging.ERROR, "", 0, message, args, None))

    for number in range(100):
        say("no connection to %d", number)
    say("something else")
    now = 10.0
    say("no connection to %d", 7)
    assert [one.getMessage() for one in caplog.records] == [
        "no connection to 0",
        "something else",
        "no connection to 7",
    ]
