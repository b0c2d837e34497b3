"""The mark by which a cold store is known as the one that a generation's conversations went to.

Without it an empty folder, as where a disk is not mounted, would pass for a store that has lost its snapshots.
"""

import secrets
from dataclasses import dataclass

from eunoe.schemas.errors import Unavailable
from eunoe.schemas.ports import ColdStore
from eunoe.workers.stores.redis.connection import RedisConnection, as_text
from eunoe.workers.stores.redis.keys import Keys

COLD = "the cold store"
"""Its name in messages and metrics of waits."""


def generation_folder(keys: Keys) -> str:
    """The folder of all that a generation keeps in the cold store."""
    return f"{keys.prefix}/{keys.generation}"


@dataclass(frozen=True, slots=True)
class ColdMark:
    """A file in the cold store whose name Redis knows."""

    redis: RedisConnection
    keys: Keys
    store: ColdStore

    async def check(self) -> None:
        """Raise `Unavailable` where this store is not the one that conversations went to, or does not answer."""
        mark = await self._known()
        if mark is None or await self.store.get(self._name(mark), 1) is None:
            raise Unavailable(
                f"this cold store is not the one that conversations of {self.keys.generation} went to: see whether"
                " EUNOE_COLD__STORE is right, and mounted; if the right one is lost for good, run"
                f" `EUNOE_GENERATION={self.keys.generation} eunoe cold adopt`",
                COLD,
            )

    async def ensure(self) -> None:
        """Mark a store to which nothing has gone yet; raises `Unavailable` as `check`."""
        if await self._known() is None:
            await self._mark("NX")
        await self.check()

    async def adopt(self) -> None:
        """Take this store for the one to go on with. Raises `Unavailable`."""
        await self._mark()

    async def _mark(self, *options: str) -> None:
        """Mark the store. The name is new each time: a write that was given up may end late, and deletes its file."""
        mark = secrets.token_hex(8)
        await self.store.put(self._name(mark), self.keys.generation.encode())  # before Redis tells of it
        await self.redis.command("SET", self.keys.cold_mark(), mark, *options)

    async def _known(self) -> str | None:
        mark = await self.redis.command("GET", self.keys.cold_mark())
        return None if mark is None else as_text(mark)

    def _name(self, mark: str) -> str:
        return f"{generation_folder(self.keys)}/store-{mark}"
