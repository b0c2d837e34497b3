"""Collections on disk, each with one engine shard and one thread."""

import asyncio
import logging
import re
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

import qdrant_edge as edge

from eunoe.deploy.local.kept import sync_directory, write_durably
from eunoe.deploy.local.qdrant.errors import RequestError, check_room, missing, wrong_input
from eunoe.deploy.local.qdrant.models import models
from eunoe.deploy.local.qdrant.schema import engine_config
from eunoe.deploy.local.room import taken_by
from eunoe.schemas.errors import Refused

logger = logging.getLogger(__name__)

R = TypeVar("R")

_NAME = re.compile(r'[^<>:"/\\|?*\x00-\x1f]{1,200}')
_SPEC = "collection.json"
_SHARD, _NEW, _OLD = "shard", "shard.new", "shard.old"
_PAGE = 1_000


class LocalCollection:
    """An open shard; all calls into the engine run one after another on its own thread."""

    def __init__(self, path: Path, spec: models.CreateCollection, shard: edge.EdgeShard) -> None:
        self.path = path
        self.spec = spec
        self.shard = shard
        self.writes = 0
        self._flushed = 0
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="shard")

    async def run(self, call: Callable[["LocalCollection", bytes], R], body: bytes) -> R:
        """The result of ``call(self, body)``, computed on the shard's thread."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, call, self, body)

    def update(self, operation: edge.UpdateOperation) -> None:
        """Apply an update; only on the shard's thread. It is in the write-ahead log when this returns.

        Raises the fault 507 where the disk is nearly full: the engine would end with the process.
        """
        check_room(self.path)
        self.shard.update(operation)
        self.writes += 1

    async def flush(self) -> None:
        """Write changes since the last flush into the segments, so that the write-ahead log stays short."""
        if self.writes != self._flushed:
            await self.run(LocalCollection._flush, b"")

    def _flush(self, _: bytes) -> None:
        check_room(self.path)
        self.shard.flush()
        self._flushed = self.writes

    def abandon(self) -> None:
        """Stop without writing anything: the files are gone."""
        self._thread.shutdown(wait=True)

    def close(self) -> None:
        """Finish what is queued and close the shard."""
        self._thread.shutdown(wait=True)
        self.shard.close()


class Collections:
    """All collections, in one directory.

    A collection's specification is written last and removed first. A directory without one is left from an interrupted
    creation or deletion, and is removed at the start.
    """

    def __init__(self, directory: Path, *, replaceable: bool) -> None:
        """``replaceable``: all points are about to be written again; what cannot be opened is then removed."""
        self._directory = directory
        self._replaceable = replaceable
        self._open: dict[str, LocalCollection] = {}
        self._changing = asyncio.Lock()

    def load(self) -> None:
        """Open all collections that are on disk; raises `Refused` for a damaged one."""
        self._directory.mkdir(parents=True, exist_ok=True)
        for path in sorted(self._directory.iterdir()):
            specification = path / _SPEC
            if not specification.exists():
                shutil.rmtree(path)
                continue
            try:
                self._open[path.name] = _load(path)
            except Exception as fault:  # the engine has no exceptions of its own
                said = f"the collection {path.name} cannot be opened: {' '.join(str(fault).split()):.300}"
                if not self._replaceable:
                    raise Refused(f"{said}; remove {path}, start again, and run `eunoe reindex`") from fault
                logger.warning("%s; it is removed", said)
                shutil.rmtree(path)

    def names(self) -> list[str]:
        """Names of all collections, ascending."""
        return sorted(filter(self._is_there, self._open))

    def _is_there(self, name: str) -> bool:
        """Whether a collection is open and on disk: somebody may have removed the directory."""
        return name in self._open and (self._directory / name / _SPEC).exists()

    def get(self, name: str) -> LocalCollection:
        """The collection; raises the fault 404 for an unknown name."""
        if not self._is_there(name):
            raise missing(name)
        return self._open[name]

    async def create(self, name: str, body: bytes) -> bool:
        """Create a collection; raises the fault 409 for an existing name."""
        spec = models.CreateCollection.model_validate_json(body)
        config = engine_config(spec)
        if not _NAME.fullmatch(name) or name in {".", ".."}:
            raise wrong_input(f"not a collection's name: {name!r:.60}")
        async with self._changing:
            check_room(self._directory)
            if self._is_there(name):
                raise RequestError(409, f"Wrong input: Collection `{name}` already exists!")
            if name in self._open:
                self._open.pop(name).abandon()
            self._open[name] = await asyncio.to_thread(_make, self._directory / name, spec, config)
        return True

    async def rewrite(self, name: str) -> int:
        """Write the points of a collection into new files and remove the old ones, which keep what was deleted.

        Returns the number of points; raises the fault 404 for an unknown name. A crash leaves the old files or the new
        ones, whole.
        """
        async with self._changing:
            collection = self.get(name)
            return await collection.run(partial(_rewrite, self._directory / name), b"")

    async def drop(self, name: str) -> bool:
        """Remove a collection; returns whether it existed."""
        async with self._changing:
            collection = self._open.pop(name, None)
            if collection is None:
                return False
            await asyncio.to_thread(_remove, self._directory / name, collection)
        return True

    async def flush(self) -> None:
        """Flush changed collections; a failure is only logged, because the write-ahead log still has the data."""
        for name, collection in list(self._open.items()):
            try:
                await collection.flush()
            except RequestError as fault:
                logger.warning("flush of collection %s waits: %s", name, fault)
            except Exception:
                logger.exception("flush failed: collection %s", name)

    def close(self) -> None:
        """Close all shards."""
        for collection in self._open.values():
            collection.close()
        self._open.clear()


def _load(path: Path) -> LocalCollection:
    spec = models.CreateCollection.model_validate_json((path / _SPEC).read_bytes())
    _mend(path)
    return LocalCollection(path, spec, edge.EdgeShard.load(str(path / _SHARD)))


def _make(path: Path, spec: models.CreateCollection, config: edge.EdgeConfig) -> LocalCollection:
    shutil.rmtree(path, ignore_errors=True)
    (path / _SHARD).mkdir(parents=True)
    shard = edge.EdgeShard.create(str(path / _SHARD), config)
    write_durably(path / _SPEC, spec.model_dump_json(exclude_none=True).encode())
    return LocalCollection(path, spec, shard)


def _rewrite(path: Path, collection: LocalCollection, _: bytes) -> int:
    new, old, shard = path / _NEW, path / _OLD, path / _SHARD
    _mend(path)
    check_room(path, taken_by(shard))
    new.mkdir()
    copy = edge.EdgeShard.create(str(new), engine_config(collection.spec))
    for name, index in collection.shard.info().payload_schema.items():
        schema = index.data_type if index.params is None else index.params
        copy.update(edge.UpdateOperation.create_field_index(name, schema))
    moved = _copy_points(collection.shard, copy)
    copy.flush()
    copy.close()
    collection.shard.close()
    try:
        shard.rename(old)
        new.rename(shard)
    finally:
        _undo(path)
        collection.shard = edge.EdgeShard.load(str(shard))
    shutil.rmtree(old)
    sync_directory(path)
    return moved


def _copy_points(source: edge.EdgeShard, target: edge.EdgeShard) -> int:
    moved, offset = 0, None
    while True:
        request = edge.ScrollRequest(offset=offset, limit=_PAGE, with_payload=True, with_vector=True)
        found, offset = source.scroll(request)
        points = [edge.Point(id=one.id, vector=one.vector or {}, payload=one.payload or {}) for one in found]
        if points:
            target.update(edge.UpdateOperation.upsert_points(points))
        moved += len(points)
        if offset is None:
            return moved


def _mend(path: Path) -> None:
    """Finish or undo a rewrite that was interrupted."""
    _undo(path)
    for name in (_NEW, _OLD):
        shutil.rmtree(path / name, ignore_errors=True)


def _undo(path: Path) -> None:
    """Put the old files back where a rewrite has not put new ones into their place."""
    if not (path / _SHARD).exists() and (path / _OLD).exists():
        (path / _OLD).rename(path / _SHARD)


def _remove(path: Path, collection: LocalCollection) -> None:
    (path / _SPEC).unlink(missing_ok=True)
    collection.close()
    shutil.rmtree(path, ignore_errors=True)
