"""Servers that the environment gives to the tests: EUNOE_KAFKA, EUNOE_REDIS_URL and EUNOE_QDRANT_URL.

All three or none. Where they are given, tests keep to names of their own there, and what they made is removed at the
end of the run.
"""

import os
import secrets
from collections.abc import Mapping
from itertools import count

SERVERS = ("EUNOE_KAFKA", "EUNOE_REDIS_URL", "EUNOE_QDRANT_URL")
RUN = f"test-{secrets.token_hex(4)}"
_numbers = count(1)


def missing() -> list[str]:
    """The servers that are not given."""
    return [name for name in SERVERS if not os.environ.get(name)]


def are_given() -> bool:
    """Whether the tests run on servers that were there before."""
    return not missing()


def variables() -> Mapping[str, str]:
    """What tells a command of the given servers, and how to talk to them."""
    wanted = (*SERVERS, "EUNOE_QDRANT_API_KEY", "EUNOE_REPLICATION")
    return {name: text for name, text in os.environ.items() if name in wanted or name.startswith("EUNOE_BROKER__")}


def qdrant_key() -> str | None:
    """The API key of the given Qdrant; `None` without one, and for embedded servers."""
    return os.environ.get("EUNOE_QDRANT_API_KEY") if are_given() else None


def own_prefix() -> str:
    """A prefix for names that no other test, and no other run, has."""
    return f"{RUN}-{next(_numbers)}"
