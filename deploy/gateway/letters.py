"""The index of dead letters: their descriptions in memory, read on where it ended."""

import asyncio
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Final
from urllib.parse import quote

from eunoe.deploy.gateway.keys import ANY_TENANT
from eunoe.deploy.gateway.ports import GatewayLog
from eunoe.deploy.inspect.dead_letters import letter_id
from eunoe.schemas.identity import split_key
from eunoe.schemas.keys import Destroyed, KeyStore
from eunoe.schemas.versions import ContractError
from eunoe.streams.dead_letters import (
    CONTENT_HEADER,
    Filed,
    LetterClosed,
    LetterIdentity,
    letter_identity,
    read_closed,
    read_dead_letter,
)
from eunoe.streams.record import Record
from eunoe.streams.sealed.letters import SEALED_LETTER_HEADER, open_letter
from eunoe.streams.sealed.records import read_key_id
from eunoe.streams.topics import Topic

MAX_LETTERS: Final = 50_000
"""Letters in the index; the oldest are left out."""


@dataclass(slots=True)
class LetterIndex:
    """Finds the dead letters of a tenant."""

    log: Callable[[], GatewayLog]
    keys: KeyStore | None = None
    """The keys that letters are sealed with; `None`: they are plain."""
    _letters: OrderedDict[LetterIdentity, Filed] = field(default_factory=OrderedDict)
    _closed: dict[LetterIdentity, LetterClosed] = field(default_factory=dict)
    _sealed_with: dict[LetterIdentity, str] = field(default_factory=dict)
    """The ids of the data keys of letters that are sealed."""
    _next: dict[int, int] = field(default_factory=dict)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def of_tenant(self, tenant: str, conversations: str = "") -> list[Filed]:
        """The letters of a tenant, the latest last; `ANY_TENANT` means all, also those without a valid key.

        Those that were erased since they were read are left out, and forgotten. ``conversations`` is a prefix of
        conversation ids. Raises `Unavailable`.
        """
        async with self._lock:
            async with aclosing(self.log().read_all(Topic.DEAD_LETTERS, dict(self._next))) as records:
                async for record in records:
                    await self._take(record)
            await self._forget_erased(tenant, conversations)
            found = self._of(tenant, conversations)
        return [replace(filed, closed=self._closed.get(letter_identity(filed.letter))) for filed in found]

    def _of(self, tenant: str, conversations: str) -> list[Filed]:
        return [filed for filed in self._letters.values() if is_of(filed.letter.key, tenant, conversations)]

    async def _forget_erased(self, tenant: str, conversations: str) -> None:
        """Forget the letters of a tenant whose data keys were destroyed since they were read."""
        if self.keys is None:
            return
        of_key: defaultdict[str, list[LetterIdentity]] = defaultdict(list)
        for filed in self._of(tenant, conversations):
            identity = letter_identity(filed.letter)
            if (key_id := self._sealed_with.get(identity)) is not None:
                of_key[key_id].append(identity)
        for key_id, identities in of_key.items():
            if isinstance(await self.keys.get(key_id), Destroyed):
                for identity in identities:
                    self._forget(identity)

    def _forget(self, identity: LetterIdentity) -> None:
        self._letters.pop(identity, None)
        self._closed.pop(identity, None)
        self._sealed_with.pop(identity, None)

    async def opened(self, record: Record) -> Record | None:
        """The record of a letter, unsealed; `None` for an erased or a changed one. Raises `Unavailable`."""
        try:
            return await open_letter(record, self.keys)
        except ContractError:
            return None

    async def find(self, tenant: str, conversations: str, id_: str) -> Filed | None:
        """The latest letter of a tenant with this id; `None` where there is none."""
        found = [each for each in await self.of_tenant(tenant, conversations) if letter_id(each.letter) == id_]
        return found[-1] if found else None

    async def _take(self, record: Record) -> None:
        opened = await self.opened(record)
        self._next[record.partition] = record.offset + 1
        if opened is None:
            return
        if closed := read_closed(opened):
            if closed.identity in self._letters:
                self._closed[closed.identity] = closed
            return
        try:
            letter, _ = read_dead_letter(opened)
        except ContractError:
            return
        identity = letter_identity(letter)
        if identity in self._letters:
            return
        content = {name: value for name, value in opened.headers.items() if name == CONTENT_HEADER}
        self._letters[identity] = Filed(replace(opened, value=b"", headers=content), letter)
        if key_id := read_key_id(record.headers.get(SEALED_LETTER_HEADER, b"")):
            self._sealed_with[identity] = key_id
        if len(self._letters) > MAX_LETTERS:
            self._forget(next(iter(self._letters)))


def is_of(key: str | None, tenant: str, conversations: str) -> bool:
    """Whether a letter with this key belongs to a tenant; only a valid key belongs to one, or begins with a prefix."""
    if tenant == ANY_TENANT and not conversations:
        return True
    if key is None or not (tenant == ANY_TENANT or key.startswith(f"{quote(tenant, safe='')}/")):
        return False
    try:
        return split_key(key)[1].startswith(conversations)
    except ValueError:
        return False
