"""Cold stores: a folder, and an object store."""

import asyncio
import os
import re
import secrets
from collections.abc import AsyncIterable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from eunoe.schemas.errors import FileUnreadable, Refused, Unavailable
from eunoe.schemas.ports import ColdStore
from eunoe.workers.stores.cold.file_reading import read_first

T = TypeVar("T")

_NAME: Final = re.compile(r"[A-Za-z0-9._-]+(?:/[A-Za-z0-9._-]+)*")
_UNFINISHED: Final = ".part"
_PRIVATE: Final = 0o700
_NO_STORES: Final = {
    "memory": "it is gone with its process",
    "file": "name a folder by its path alone",  # obstore does not wait until a file is on the disk
}
"""Scheme that obstore knows → the reason for which no conversation may go there."""
_MACHINE_LOGIN: Final = "http://169.254.169.254/"
TIMEOUT_S: Final = 20
"""Seconds that a request to an object store may take, its retries included."""


def check_name(name: str) -> str:
    """The name; raises ``ValueError`` for one that could lead out of the store."""
    if not _NAME.fullmatch(name) or ".." in name.split("/"):
        raise ValueError(f"{name!r:.120} is no name of a file: letters, digits, '.', '_' and '-' between slashes")
    return name


_THREADS: Final = 8
"""Threads for files, apart from all others: a network drive that hangs may hold these, and nothing else."""


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_THREADS, "cold store")


class _Verdict:
    """The outcome of a write that a thread does while its caller waits: the first of the two to give one decides it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._given = False

    @property
    def is_given(self) -> bool:
        """Whether one of them has decided."""
        return self._given

    def give(self) -> bool:
        """Decide, unless the other one has; returns whether this call did."""
        with self._lock:
            first, self._given = not self._given, True
            return first


@dataclass(frozen=True, slots=True)
class FolderColdStore:
    """`ColdStore` in a folder, which all processes must see; files are on disk before `put` returns.

    ``timeout_s``: seconds that the folder may take for one request.
    """

    root: Path
    timeout_s: float = TIMEOUT_S

    async def put(self, name: str, data: bytes) -> None:
        """Write a file: beside its place first, then moved there; one that came too late is deleted again.

        So a name whose write may have been given up is not to be used again: the late file would take its place.
        """
        verdict = _Verdict()
        try:
            await self._off_loop(self._put, self.root / check_name(name), data, verdict)
        except asyncio.CancelledError:
            verdict.give()
            raise
        except Unavailable:
            if verdict.give():
                raise

    async def get(self, name: str, most: int) -> bytes | None:
        """The first bytes of a file, if there is one."""
        return await self._off_loop(self._read, self.root / check_name(name), most)

    async def names(self, folder: str) -> list[str]:
        """The names of all files below a folder, also of those that a killed process left half written."""
        return await self._off_loop(self._names, self.root / check_name(folder))

    async def remove(self, names: Sequence[str]) -> None:
        """Delete files, and folders that they leave empty; on disk when this returns."""
        for name in names:
            await self._off_loop(self._remove, self.root / check_name(name))

    async def _off_loop(self, work: Callable[..., T], *args: object) -> T:
        """Run work on files in a thread; raises `Unavailable` where the folder cannot be used, or hangs."""
        where = f"the cold store {self.root}"
        running = asyncio.get_running_loop().run_in_executor(_threads(), work, *args)
        try:
            async with asyncio.timeout(self.timeout_s):
                return await running
        except TimeoutError as fault:
            raise Unavailable(f"{where}: no answer for {self.timeout_s:g} s", where) from fault
        except OSError as fault:
            raise Unavailable(f"{where}: {fault.strerror or fault}", where) from fault

    def _check_there(self) -> None:
        if not self.root.is_dir():  # as where a disk is not mounted: nothing may be written in its place
            raise OSError(f"{self.root} is no folder: mount it, or make it")

    def _read(self, path: Path, most: int) -> bytes | None:
        self._check_there()
        return read_first(path, most)

    def _put(self, path: Path, data: bytes, verdict: _Verdict) -> None:
        self._check_there()
        folders = (*path.parents[: len(path.relative_to(self.root).parts) - 1], self.root)
        for folder in reversed(folders[:-1]):
            folder.mkdir(mode=_PRIVATE, exist_ok=True)
        part = path.with_name(f"{path.name}{_UNFINISHED}{secrets.token_hex(4)}")
        try:
            with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            if verdict.is_given:
                return
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
        self._confirm(path, folders, verdict)

    def _confirm(self, path: Path, folders: Sequence[Path], verdict: _Verdict) -> None:
        """Bring the place of a file to the disk; deletes the file again where the caller has given up meanwhile."""
        counts = False
        try:
            for folder in folders:  # new ones, too
                _sync_folder(folder)
            counts = verdict.give()
        finally:
            # the drive hung, and the caller gave up: what has been erased since would stand here again
            if not counts and verdict.is_given:
                self._remove(path)

    def _names(self, folder: Path) -> list[str]:
        self._check_there()
        # pipes and links too, which have taken a file's place: they would stay for ever
        files = (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
        return sorted(path.relative_to(self.root).as_posix() for path in files)

    def _remove(self, path: Path) -> None:
        self._check_there()
        path.unlink(missing_ok=True)
        folder = path.parent
        while folder != self.root and _remove_empty(folder):
            folder = folder.parent
        with suppress(FileNotFoundError):  # another process has just removed it
            _sync_folder(folder)  # or a power failure would bring back what has been erased


def _remove_empty(folder: Path) -> bool:
    """Remove a folder that is empty; returns whether it is gone."""
    try:
        folder.rmdir()
    except OSError:  # not empty, or another process was first
        return not folder.exists()
    return True


def _sync_folder(folder: Path) -> None:
    place = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(place)
    finally:
        os.close(place)


@dataclass(frozen=True, slots=True)
class ObjectColdStore:
    """`ColdStore` in S3, Google Cloud Storage, Azure and what speaks their protocols, by the library obstore."""

    store: Any
    """A store of obstore."""
    where: str
    """Its address, without credentials."""

    async def put(self, name: str, data: bytes) -> None:
        """Write an object."""
        await self._asked(self.store.put_async(check_name(name), data))

    async def get(self, name: str, most: int) -> bytes | None:
        """The first bytes of an object, if there is one; any fault may be of this one alone, as of its rights."""
        try:
            found = await self._asked(self.store.get_async(check_name(name)), missing=True)
            first: bytes = await self._asked(_first_of(found.stream(), most))
        except FileNotFoundError:
            return None
        except Unavailable as fault:
            raise FileUnreadable(str(fault), fault.server) from fault
        return first

    async def names(self, folder: str) -> list[str]:
        """The names of all objects below a folder."""
        found = self.store.list(f"{check_name(folder)}/")
        return sorted(one["path"] for one in await self._asked(found.collect_async()))

    async def remove(self, names: Sequence[str]) -> None:
        """Delete objects."""
        for name in names:
            try:
                await self._asked(self.store.delete_async(check_name(name)), missing=True)
            except FileNotFoundError:
                continue

    async def _asked(self, request: Any, *, missing: bool = False) -> Any:  # noqa: ANN401 - each has its own answer
        """The answer to a request; raises `Unavailable`, and ``FileNotFoundError`` for an object where ``missing``."""
        from obstore.exceptions import BaseError, NotFoundError  # noqa: PLC0415 - the library is an option

        where = f"the cold store {self.where}"
        try:
            return await request
        except (FileNotFoundError, NotFoundError) as fault:
            if missing:
                raise FileNotFoundError(str(fault)) from fault
            # a server says the same of a bucket that does not exist
            raise Unavailable(f"{where}: {_reason(fault):.300}; see whether its bucket exists", where) from fault
        except BaseError as fault:
            reason = _reason(fault)
            # without a key the library asks the machine for a login, as the machines of all three clouds have one
            hint = f"; {self._login_wanted}" if _MACHINE_LOGIN in reason else ""
            raise Unavailable(f"{where}: {reason:.300}{hint}", where) from fault

    @property
    def _login_wanted(self) -> str:
        if self.where.startswith("s3:"):
            return "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        return "set a login by the variables of the store's own tools"


async def _first_of(chunks: AsyncIterable[bytes], most: int) -> bytes:
    found = bytearray()
    async for chunk in chunks:
        found += chunk[: most - len(found)]
        if len(found) == most:
            break
    return bytes(found)


def _reason(fault: Exception) -> str:
    return " ".join(str(fault).partition("Debug source:")[0].split())


def cold_store(address: str) -> ColdStore:
    """The cold store at a path, or at a URL that obstore knows: s3://BUCKET/FOLDER, gs://, az://.

    Credentials of an object store come from the environment, as its own tools read them. Raises `Refused` for an
    address that is none, and without the library.
    """
    scheme = urlsplit(address).scheme
    if "://" not in address:
        return FolderColdStore(Path(address))
    shown = f"{scheme}://{urlsplit(address).hostname or ''}{urlsplit(address).path}"
    if scheme in _NO_STORES:
        raise Refused(f"EUNOE_COLD__STORE={shown} is no object store: {_NO_STORES[scheme]}")
    try:
        from obstore.exceptions import BaseError  # noqa: PLC0415 - the library is an option
        from obstore.store import from_url  # noqa: PLC0415
    except ImportError:
        raise Refused(f"EUNOE_COLD__STORE={shown} needs the library obstore: pip install 'eunoe[cold]'") from None
    limit = timedelta(seconds=TIMEOUT_S)
    try:
        store = from_url(
            address,
            # http only where the operator's own endpoint says so
            client_options={"timeout": limit, "allow_http": True},
            retry_config={"max_retries": 3, "retry_timeout": limit},
        )
    except (BaseError, ValueError, TypeError) as fault:
        reason = _reason(fault)
        raise Refused(f"EUNOE_COLD__STORE={shown} is no object store: {reason:.200}") from fault
    return ObjectColdStore(store, shown)
