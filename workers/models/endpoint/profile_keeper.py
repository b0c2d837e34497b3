"""Keeps the profile of one endpoint and model in this process, and saves what it learns."""

import logging
from enum import StrEnum
from typing import Final

from eunoe.schemas.errors import Unavailable
from eunoe.workers.models.endpoint.dialect import Dialect
from eunoe.workers.models.endpoint.limit_trust import LimitTrust
from eunoe.workers.models.endpoint.profile import DEFAULT_RATIO, MAX_RATIO, Profile, Profiles, read_profile, script_of

log = logging.getLogger(__name__)
_INFLATED = 1.2
_LEARNING: Final = 32
"""Prompts of a process whose tokens are all counted: the ratios are known then."""
_COUNTED_EVERY: Final = 16
"""Of later prompts one in so many is counted: a count takes a twentieth of a session's processor time."""


class Limited(StrEnum):
    """The limits of a profile, by their fields."""

    CAP = "cap"
    CONTEXT = "context"


class ProfileKeeper:
    """The current profile; ``name`` and ``store``: where it is read at first and saved. Without a store it is lost."""

    def __init__(self, name: str = "", store: Profiles | None = None) -> None:
        self._name = name
        self._store = store
        self._now = Profile()
        self._loaded = store is None
        self._counted = 0
        self._trusts = {limit: LimitTrust() for limit in Limited}

    @property
    def now(self) -> Profile:
        """The profile as it is known now."""
        return self._now

    async def load(self) -> None:
        """Read the stored profile at the first call; what is learned while the store is away is added to it later."""
        if self._loaded or self._store is None:
            return
        try:
            found = read_profile(await self._store.get(self._name))
        except Unavailable:
            return
        if not self._loaded:
            self._loaded, self._now = True, found.and_learned(self._now)

    async def learn(
        self,
        *,
        cap: int | None = None,
        context: int | None = None,
        thinking_tokens: int | None = None,
        dialect: Dialect | None = None,
    ) -> None:
        """Keep what was measured, or what an answer told. A limit is only lowered here: a server may name two."""
        learned = Profile(cap=cap, context=context, thinking_tokens=thinking_tokens or 0)
        changed = self._now.and_learned(learned)
        await self._replace(changed.model_copy(update={"dialect": dialect or self._now.dialect}))

    def took(self, limit: Limited, tokens: int) -> None:
        """Note that a request of so many tokens, as this limit counts them, was taken."""
        self._trusts[limit] = self._trusts[limit].after_taking(tokens)

    async def refused(self, limit: Limited, told: int) -> bool:
        """Learn a limit that a refusal told; returns whether it is believed: otherwise it may be asked again."""
        self._trusts[limit], believed = self._trusts[limit].after_refusal(told)
        if believed:
            await self._replace(self._now.and_learned(Profile.model_validate({limit: told})))
        return believed

    async def hold_back(self, limit: Limited) -> None:
        """Note that a learned limit makes a question smaller; after many it is forgotten, and learned anew if true."""
        self._trusts[limit], lapses = self._trusts[limit].after_holding_back()
        if lapses:
            await self._replace(self._now.model_copy(update={limit: None}))

    async def count(self, text: str, tokens: int) -> None:
        """Keep the endpoint's count of the tokens of a prompt."""
        self._counted += 1
        if self._counted <= _LEARNING or self._counted % _COUNTED_EVERY == 0:
            await self._replace(self._now.with_count(text, tokens))

    async def underestimated(self, text: str) -> None:
        """Raise the ratio of a text's script: a prompt that should have fitted was too long."""
        script, ratios = script_of(text), self._now.ratios
        raised = min(MAX_RATIO, max(1.0, ratios.get(script, DEFAULT_RATIO)) * _INFLATED)
        await self._replace(self._now.model_copy(update={"ratios": {**ratios, script: round(raised, 3)}}))

    async def forget(self) -> None:
        """Begin anew, as a check of the endpoint does."""
        self._loaded = True
        self._trusts = {limit: LimitTrust() for limit in Limited}
        await self._replace(Profile())

    async def _replace(self, profile: Profile) -> None:
        if profile == self._now:
            return
        self._now = profile
        await self.load()
        if self._store is None or not self._loaded:
            return
        try:
            await self._store.put(self._name, self._now.model_dump_json())
        except Unavailable:
            log.warning("the profile of the model's endpoint could not be saved: the store is away")
