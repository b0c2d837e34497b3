"""The notice that a running stack leaves in its data directory, by which other commands find its servers."""

from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from eunoe.deploy.local.kept import write_durably
from eunoe.deploy.local.lock import DirectoryLock
from eunoe.schemas.base import Value
from eunoe.schemas.errors import Refused
from eunoe.schemas.versions import newer_fault

NOTICE = "stack.json"
MODEL_FAULT = "model-fault.txt"
"""The file beside the notice that says what is wrong with the language model of the stack's workers."""


class StackUrls(Value):
    """The addresses of a running stack, and its owner."""

    kafka: str
    """``host:port`` of the broker."""
    redis_url: str = Field(repr=False)
    """With the password."""
    qdrant_url: str
    qdrant_api_key: str | None = Field(default=None, repr=False)
    epoch: int
    """Number of this start of the data directory: 1, 2, 3 …"""
    pid: int
    """Id of the process that owns the servers."""
    erasures: str | None = None
    """File of the ledger of erasures."""
    keys: str | None = None
    """File of the key store; `None` where text is stored plain: in a temporary directory."""
    kek_file: str | None = None
    """File of the operator's key that wraps the keys in it."""
    cold: str | None = None
    """Folder of conversations that are idle; `None` where all stay in Redis."""
    gateway: str | None = None
    """URL of the HTTP gateway; `None` where none runs."""
    model_endpoint: str | None = None
    """URL, without a password, of the models' endpoint that its workers ask; `None` where none is set."""
    generation: str | None = None
    """The generation of its workers; `None` where it runs none."""
    settings: dict[str, Any] = Field(default={})
    """Settings that decide what is remembered, as far as the stack was started with them, as `Settings` writes them."""


def find_stack(directory: Path) -> StackUrls | None:
    """The stack that runs over a data directory; `None` where none does.

    A notice without an owner, as a crash leaves it, counts as none. Raises `Refused` where a newer version runs it:
    what this one does not know of it may be how texts are to be kept.
    """
    path = directory / NOTICE
    try:
        text = path.read_bytes()
    except OSError:
        return None
    if not DirectoryLock(directory).is_held:
        return None
    try:
        return StackUrls.from_json(text)
    except ValidationError as fault:
        if (newer := newer_fault(fault)) is None:
            return None
        raise Refused(f"a newer version of eunoe runs in {directory} ({newer}): use its commands") from None


def write_notice(directory: Path, urls: StackUrls) -> None:
    """Announce a stack; the notice is on disk when this returns."""
    write_durably(directory / NOTICE, urls.to_json())


def remove_notice(directory: Path) -> None:
    """Withdraw the notice, where there is one."""
    (directory / NOTICE).unlink(missing_ok=True)


def write_model_fault(directory: Path, text: str) -> None:
    """Say what is wrong with the model of the stack's workers; an empty text withdraws it."""
    path = directory / MODEL_FAULT
    if text:
        write_durably(path, text.encode())
    else:
        path.unlink(missing_ok=True)


def read_model_fault(directory: Path) -> str:
    """The fault that the running stack over a data directory found with its model; empty where none is known."""
    if find_stack(directory) is None:
        return ""
    try:
        return (directory / MODEL_FAULT).read_text(encoding="utf-8")
    except OSError:
        return ""
