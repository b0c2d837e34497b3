"""Log messages as lines of JSON."""

import json
import logging
import subprocess
import sys

import pytest

from eunoe.deploy.observability.logs import JSON, VARIABLE, JsonLines
from eunoe.deploy.settings import Settings, read_settings
from eunoe.deploy.settings.sections import LogFormat
from eunoe.schemas.errors import Refused
from eunoe.streams.tracing import span
from tests.support.spans import traced


def line(message: str, *words: object, fault: BaseException | None = None) -> dict[str, str]:
    info = None if fault is None else (type(fault), fault, fault.__traceback__)
    record = logging.LogRecord("eunoe.test", logging.WARNING, __file__, 7, message, words, info)
    written = JsonLines().format(record)
    assert "\n" not in written
    read: dict[str, str] = json.loads(written)
    return read


def test_a_message_is_one_line_with_its_time_level_and_logger():
    found = line("waiting for %s\nstill", "Redis")
    assert found["message"] == "waiting for Redis\nstill"
    assert (found["level"], found["logger"]) == ("WARNING", "eunoe.test")
    assert found["time"].endswith("+00:00")
    assert "trace_id" not in found


def test_inside_a_span_a_message_names_its_trace():
    with traced(), span("work") as here:
        found = line("working")
    assert f"00-{found['trace_id']}-{found['span_id']}-" == (here.traceparent or "")[:-2]


def test_the_text_of_an_exception_is_left_out():
    try:
        raise ValueError("my secret is xylophone")
    except ValueError as fault:
        found = line("stage failed", fault=fault)
    assert found["error"].startswith("ValueError at test_logs.py:")
    assert "test_the_text_of_an_exception" in found["stack"]
    assert "is xylophone" not in str(found).replace('raise ValueError("my secret is xylophone")', "")


@pytest.mark.parametrize(("form", "is_json"), [("text", False), ("json", True)])
def test_a_process_writes_the_form_that_it_is_told(form: str, is_json: bool):
    code = (
        "import logging; from eunoe.deploy.cli.main import run_to_exit\n"
        "from eunoe.schemas.errors import Refused\n"
        "def work():\n"
        "    logging.getLogger('a').warning('odd: %s', 1)\n"
        "    raise Refused('no servers')\n"
        "run_to_exit(work)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env={VARIABLE: form}
    )
    lines = ended.stderr.strip().splitlines()
    assert ended.returncode > 0
    assert len(lines) == 2
    if is_json:
        assert [json.loads(one)["message"] for one in lines] == ["odd: 1", "no servers"]
    else:
        assert lines[0].endswith("WARNING a: odd: 1")
        assert lines[1] == "eunoe: no servers"


def test_the_setting_and_what_is_read_at_the_start_are_the_same():
    assert LogFormat(JSON) is LogFormat.JSON
    assert "EUNOE_" + next(name for name in Settings.model_fields if name == "log_format").upper() == VARIABLE


def test_a_wrong_form_is_refused(monkeypatch: pytest.MonkeyPatch):

    monkeypatch.setenv(VARIABLE, "xml")
    with pytest.raises(Refused, match="log_format"):
        read_settings()


def test_every_process_says_seldom_what_the_kafka_libraries_say_again_and_again():
    code = (
        "import logging; from eunoe.deploy.cli.main import run_to_exit\n"
        "def work():\n"
        "    for node in range(100):\n"
        "        logging.getLogger('aiokafka').error('Unable connect to node with id %s', node)\n"
        "run_to_exit(work)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env={})
    (line,) = ended.stderr.strip().splitlines()
    assert line.endswith("ERROR aiokafka: Unable connect to node with id 0")
