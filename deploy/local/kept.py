"""What a data directory says about itself: starts, partitions, and whether the last stop was clean."""

import os
from pathlib import Path

from pydantic import Field, ValidationError

from eunoe.schemas.base import Value
from eunoe.schemas.errors import Refused

_BOOK = "kept.json"
_CLEAN = "clean"


class KeptFacts(Value):
    """The facts that must outlive a start."""

    epoch: int = Field(default=0, ge=0)
    """How often the broker began here."""
    partitions: int | None = Field(default=None, ge=1)
    """Of ``conversations``; None: not known yet."""


class KeptData:
    """A data directory between starts. Its owner holds the `eunoe.deploy.local.lock.DirectoryLock` of it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    @property
    def journal(self) -> Path:
        """Where the journal of ``conversations`` lies."""
        return self._directory / "journal"

    def begin(self) -> tuple[int, bool]:
        """Count a start: its epoch (1, 2, 3 …), and whether the stop before it was clean, as a first start is.

        The marker of the clean stop is gone afterwards. Raises `Refused` where the directory's facts are unreadable.
        """
        book = self._read()
        clean = book.epoch == 0 or self.was_clean()
        self._write(book.model_copy(update={"epoch": book.epoch + 1}))
        (self._directory / _CLEAN).unlink(missing_ok=True)
        _sync_directory(self._directory)
        return book.epoch + 1, clean

    def was_clean(self) -> bool:
        """True: the last stop drained everything, and nothing was started since."""
        return (self._directory / _CLEAN).exists()

    def mark_clean(self) -> None:
        """Say that all stages were drained and all servers stopped by themselves."""
        (self._directory / _CLEAN).touch()
        _sync_directory(self._directory)

    def check_partitions(self, partitions: int) -> None:
        """Remember the number of partitions of ``conversations``; raises `Refused` when it was another before."""
        book = self._read()
        if book.partitions not in (None, partitions):
            raise Refused(
                f"{self._directory} was made with {book.partitions} partitions of conversations, not {partitions}: "
                f"positions are per partition, so set {book.partitions} again, or choose another data directory"
            )
        self._write(book.model_copy(update={"partitions": partitions}))

    def _read(self) -> KeptFacts:
        path = self._directory / _BOOK
        try:
            return KeptFacts.from_json(path.read_bytes())
        except FileNotFoundError:
            return KeptFacts()
        except ValidationError:
            raise Refused(f"{path} is damaged: restore it, or choose another data directory") from None

    def _write(self, book: KeptFacts) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        write_durably(self._directory / _BOOK, book.to_json())


def write_durably(path: Path, content: bytes) -> None:
    """Replace a file in one step; it is on disk when this returns."""
    draft = path.with_name(f"{path.name}.draft")
    with draft.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    _sync_directory(path.parent)


def _sync_directory(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
