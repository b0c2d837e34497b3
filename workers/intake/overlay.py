"""A conversation's tables with uncommitted writes on top."""

from collections.abc import Iterable, Sequence

from eunoe.schemas.decisions import Clear, Drop, Put, Write
from eunoe.schemas.ports import Tables


class TableOverlay:
    """`Tables` of one stage and conversation: writes made here hide what is stored.

    Each document is read once. Nothing else writes while a batch is decided; if something does, the fence rejects the
    commit.
    """

    def __init__(self, kept: Tables) -> None:
        self._kept = kept
        self._rows: dict[str, dict[str, str | None]] = {}
        self._whole: set[str] = set()

    async def fetch(self, stage: str, key: str, table: str, ids: Sequence[str]) -> list[str | None]:
        """The documents of a table by id, in the given order; `None` for missing ones."""
        rows = self._rows.setdefault(table, {})
        unknown = [] if table in self._whole else [id_ for id_ in dict.fromkeys(ids) if id_ not in rows]
        if unknown:
            found = await self._kept.fetch(stage, key, table, unknown)
            rows.update(zip(unknown, found, strict=True))
        return [rows.get(id_) for id_ in ids]

    async def scan(self, stage: str, key: str, table: str) -> dict[str, str]:
        """A whole table: id → document."""
        if table not in self._whole:
            kept = await self._kept.scan(stage, key, table)
            self._rows[table] = {**kept, **self._rows.get(table, {})}
            self._whole.add(table)
        return {id_: text for id_, text in self._rows[table].items() if text is not None}

    def write(self, writes: Iterable[Write]) -> None:
        """Apply the writes of one decision to the overlay."""
        writes = tuple(writes)
        for table in (write.table for write in writes if isinstance(write, Clear)):
            self._rows[table] = {}
            self._whole.add(table)
        for write in writes:
            match write:
                case Put():
                    self._rows.setdefault(write.table, {})[write.id] = write.text
                case Drop():
                    self._rows.setdefault(write.table, {})[write.id] = None
                case Clear():
                    pass
