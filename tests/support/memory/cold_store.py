"""A cold store in memory."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from eunoe.workers.stores.cold.stores import check_name


@dataclass(slots=True)
class MemoryColdStore:
    """`ColdStore` in memory."""

    files: dict[str, bytes] = field(default_factory=dict)

    async def put(self, name: str, data: bytes) -> None:
        """Keep a file."""
        self.files[check_name(name)] = data

    async def get(self, name: str, most: int) -> bytes | None:
        """The first bytes of a file, if there is one."""
        found = self.files.get(check_name(name))
        return None if found is None else found[:most]

    async def names(self, folder: str) -> list[str]:
        """The names of all files below a folder."""
        begin = f"{check_name(folder)}/"
        return sorted(name for name in self.files if name.startswith(begin))

    async def remove(self, names: Sequence[str]) -> None:
        """Delete files."""
        for name in names:
            self.files.pop(check_name(name), None)
