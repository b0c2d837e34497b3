"""Checks records by the written documents alone: the AsyncAPI document and the JSON Schemas, as clients have them."""

import json
import re
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from eunoe.streams.record import Record

CONTRACTS = Path(__file__).parents[2] / "deploy" / "contracts"


class LogContract:
    """What ``asyncapi.json`` says of one channel."""

    def __init__(self, channel: str) -> None:
        document = json.loads((CONTRACTS / "asyncapi.json").read_text())
        named = {ref["$ref"].rpartition("/")[2] for ref in document["channels"][channel]["messages"].values()}
        self._messages = {
            message["name"]: message for name, message in document["components"]["messages"].items() if name in named
        }

    def check(self, record: Record) -> None:
        """Pass for a record whose key and body the channel allows; raises ``AssertionError`` or ``ValidationError``."""
        body = json.loads(record.value)
        message = self._messages.get(body.get("type"))
        assert message is not None, f"the channel has no message {body.get('type')!r}"
        pattern = message["bindings"]["kafka"]["key"]["pattern"]
        assert re.fullmatch(pattern, (record.key or b"").decode()), record.key
        _validator(message["payload"]["$ref"]).validate(body)


def _validator(reference: str) -> Draft202012Validator:
    schema: dict[str, Any] = json.loads((CONTRACTS / reference).read_text())
    return Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
