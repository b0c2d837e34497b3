"""The notice that a running stack leaves in its data directory, by which other commands find its servers."""

from pathlib import Path

from pydantic import ValidationError

from eunoe.deploy.local.kept import write_durably
from eunoe.deploy.local.lock import DirectoryLock
from eunoe.schemas.base import Value

_NOTICE = "stack.json"


class StackUrls(Value):
    """The addresses of a running stack, and its owner."""

    kafka: str
    """``host:port`` of the broker."""
    redis_url: str
    qdrant_url: str
    epoch: int
    """Number of this start of the data directory: 1, 2, 3 …"""
    pid: int
    """Id of the process that owns the servers."""


def find_stack(directory: Path) -> StackUrls | None:
    """The stack that runs over a data directory; `None` where none does.

    A notice without an owner, as a crash leaves it, counts as none.
    """
    try:
        urls = StackUrls.from_json((directory / _NOTICE).read_bytes())
    except (OSError, ValidationError):
        return None
    return urls if DirectoryLock(directory).is_held else None


def write_notice(directory: Path, urls: StackUrls) -> None:
    """Announce a stack; the notice is on disk when this returns."""
    write_durably(directory / _NOTICE, urls.to_json())


def remove_notice(directory: Path) -> None:
    """Withdraw the notice, where there is one."""
    (directory / _NOTICE).unlink(missing_ok=True)
