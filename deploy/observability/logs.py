"""Log messages of a process: as lines of text, or as lines of JSON with the ids of the trace that they belong to."""

import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import orjson

from eunoe.deploy.observability.log_throttle import quiet_libraries
from eunoe.streams.tracing import current_ids
from eunoe.workers.runner.faults import describe_fault, fault_frames

VARIABLE: Final = "EUNOE_LOG_FORMAT"
"""Read from the environment: messages are written before settings are known, and commands begin without them."""
JSON: Final = "json"
_TEXT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class JsonLines(logging.Formatter):
    """Writes a message as one line of JSON.

    ``time`` (RFC 3339, UTC), ``level``, ``logger``, ``message``, ``pid``; inside a span ``trace_id`` and ``span_id``;
    of an exception ``error``, its class and place, and ``stack``, without its text, which may quote a user's.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "pid": record.process,
        }
        ids = current_ids()
        if ids is not None:
            line["trace_id"], line["span_id"] = ids
        if record.exc_info and record.exc_info[1] is not None:
            line["error"], line["stack"] = describe_fault(record.exc_info[1]), fault_frames(record.exc_info[1])
        return orjson.dumps(line, default=str).decode()


def writes_json(variables: Mapping[str, str]) -> bool:
    """Whether the environment asks for lines of JSON."""
    return variables.get(VARIABLE, "").strip() == JSON


def set_up_logs(variables: Mapping[str, str]) -> None:
    """Write warnings and above to stderr in the form that the environment asks for.

    The Kafka libraries may say the same dozens of times a second while a broker is away; that is written seldom.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if writes_json(variables) else logging.Formatter(_TEXT))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    quiet_libraries()
