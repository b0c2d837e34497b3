"""Facts that a data directory keeps: number of starts, partitions, and whether the last stop was clean."""

import base64
import os
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from pydantic import Field, ValidationError

from eunoe.deploy.local.private import open_private
from eunoe.schemas.base import Value
from eunoe.schemas.errors import Refused
from eunoe.schemas.keys import KEY_BYTES
from eunoe.schemas.versions import newer_fault

_FACTS = "kept.json"
_CLEAN = "clean"


@dataclass(frozen=True, slots=True)
class Secrets:
    """The login of the embedded servers."""

    redis_password: str = field(repr=False)
    qdrant_key: str = field(repr=False)

    @classmethod
    def make(cls) -> Self:
        """Random ones, of letters that need no encoding in a URL."""
        return cls(secrets.token_urlsafe(24), secrets.token_urlsafe(24))


class KeptFacts(Value):
    """Facts that outlive a run."""

    epoch: int = Field(default=0, ge=0)
    """Number of starts of the broker."""
    partitions: int | None = Field(default=None, ge=1)
    """Partitions of ``conversations``; `None` means not known yet."""
    redis_password: str | None = Field(default=None, repr=False)
    """Password of the embedded Redis; `None` before the first start."""
    qdrant_key: str | None = Field(default=None, repr=False)
    """API key of the embedded Qdrant; `None` before the first start."""


class KeptData:
    """A data directory across starts; only the holder of its `eunoe.deploy.local.lock.DirectoryLock` may change it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    @property
    def journal(self) -> Path:
        """Directory of the journal of ``conversations``."""
        return self._directory / "journal"

    def begin(self) -> tuple[int, bool]:
        """Count a start; returns its epoch (1, 2, 3 …) and whether the stop before it was clean.

        A first start counts as clean. The marker of the clean stop is removed. Raises `Refused` where the facts are
        unreadable.
        """
        facts = self._read()
        clean = facts.epoch == 0 or self.was_clean()
        self._write(facts.model_copy(update={"epoch": facts.epoch + 1}))
        (self._directory / _CLEAN).unlink(missing_ok=True)
        sync_directory(self._directory)
        return facts.epoch + 1, clean

    def secrets(self) -> Secrets:
        """The login of the servers: made at the first start, kept for all later ones."""
        facts = self._read()
        if facts.redis_password is None or facts.qdrant_key is None:
            made = Secrets.make()
            facts = facts.model_copy(update={"redis_password": made.redis_password, "qdrant_key": made.qdrant_key})
            self._write(facts)
        return Secrets(facts.redis_password or "", facts.qdrant_key or "")

    def was_clean(self) -> bool:
        """Whether the last stop was clean and nothing was started since."""
        return (self._directory / _CLEAN).exists()

    def mark_clean(self) -> None:
        """Mark the stop as clean: all stages were drained, and all servers stopped by themselves."""
        (self._directory / _CLEAN).touch(mode=0o600)
        sync_directory(self._directory)

    def check_partitions(self, partitions: int) -> None:
        """Remember the number of partitions of ``conversations``; raises `Refused` when it differs from before."""
        facts = self._read()
        if facts.partitions not in (None, partitions):
            raise Refused(
                f"{self._directory} was made with {facts.partitions} partitions of conversations, not {partitions}: "
                f"positions are per partition; set EUNOE_PARTITIONS={facts.partitions}, or choose another directory"
            )
        self._write(facts.model_copy(update={"partitions": partitions}))

    def _read(self) -> KeptFacts:
        path = self._directory / _FACTS
        try:
            return KeptFacts.from_json(path.read_bytes())
        except FileNotFoundError:
            return KeptFacts()
        except ValidationError as fault:
            if (newer := newer_fault(fault)) is not None:
                raise Refused(f"a newer version of eunoe wrote {path} ({newer}): use that one") from None
            raise Refused(f"{path} is damaged: restore it, or choose another data directory") from None

    def _write(self, facts: KeptFacts) -> None:
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_durably(self._directory / _FACTS, facts.to_json())


def make_kek(path: Path, store: Path) -> None:
    """Make the operator's key of a data directory, which its owner alone reads, where there is none.

    Raises `Refused` where it is gone and its key store is there: what that has sealed nobody could read.
    """
    if path.exists():
        return
    if store.exists():
        raise Refused(f"{path} is missing, without which nobody reads what {store} has sealed: restore it")
    path.parent.mkdir(mode=0o700, exist_ok=True)
    write_durably(path, base64.b64encode(secrets.token_bytes(KEY_BYTES)) + b"\n")


def write_durably(path: Path, content: bytes) -> None:
    """Replace a file atomically, readable by its owner alone; the content is on disk when this returns."""
    draft = path.with_name(f"{path.name}.draft")
    with open_private(draft, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """Bring to the disk which files a directory has, under which names."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
