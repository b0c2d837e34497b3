"""Records of processes in memory."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(slots=True)
class MemoryRecords:
    """`RedisProcesses` in memory."""

    texts: dict[str, str] = field(default_factory=dict)

    async def read(self) -> Mapping[str, str]:
        """Name → record of all processes."""
        return dict(self.texts)

    async def write(self, name: str, text: str) -> None:
        """Write the record of a process."""
        self.texts[name] = text

    async def remove(self, name: str) -> None:
        """Remove the record of a process."""
        self.texts.pop(name, None)
