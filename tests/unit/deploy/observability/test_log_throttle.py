"""The rate limit for the logs of libraries."""

import logging
import subprocess
import sys

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


@pytest.mark.parametrize(
    ("library", "message"),
    [("aiokafka.conn", "no connection"), ("uvicorn.error", "Invalid HTTP request received.")],
)
def test_what_a_client_can_repeat_does_not_fill_the_log_of_a_process(library: str, message: str) -> None:
    script = (
        "import logging; from eunoe.deploy.observability.logs import set_up_logs; set_up_logs({})\n"
        f"for _ in range(60): logging.getLogger({library!r}).warning({message!r})"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stderr.count(message) == 1
