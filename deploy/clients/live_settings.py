"""Settings of a generation: the live one where none is named, with what its rebuild changed."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import ValidationError

from eunoe.deploy.clients.shared import open_redis
from eunoe.deploy.settings import Settings
from eunoe.schemas.errors import Refused
from eunoe.schemas.versions import describe
from eunoe.workers.registry import StageSettings
from eunoe.workers.stores.generations import FIRST, Generations, RedisGenerations

CHANGEABLE: Final = frozenset({*StageSettings.model_fields, "embedding", "compression", "language", "model"})
"""What a rebuild may change: what memory is made with, never where the servers are."""
_ROOMS: Final = sorted(CHANGEABLE)


async def live_settings(settings: Settings) -> Settings:
    """The settings with their generation: the one that is named, or else the one that readers see; and with its log.

    What a rebuild changed for it is changed in them. Raises `Unavailable` when Redis does not answer.
    """
    async with open_redis(settings) as redis:
        return await settings_in(RedisGenerations(redis, settings.prefix), settings)


async def settings_in(book: Generations, settings: Settings) -> Settings:
    """`live_settings`, of an open book."""
    live = (await book.pointer()).live
    name = settings.generation or live or FIRST
    made = await book.find(name)
    # where nothing is known (Redis was lost) the environment may say which log it is
    known = (settings.log or 0) if live in (None, name) else 0
    placed = settings.model_copy(update={"log": known if made is None else made.log})
    return of_generation(placed, name, {} if made is None else made.changes)


async def placed_settings(settings: Settings) -> Settings:
    """`live_settings` where a Redis is named, else the settings as they are."""
    return settings if settings.redis_url is None else await live_settings(settings)


async def client_settings(settings: Settings) -> Settings:
    """The settings with the log that clients produce into: the one that is named, or else the live generation's.

    Without Redis it is the first one. Raises `Unavailable` when Redis does not answer.
    """
    if settings.redis_url is None or settings.log is not None:
        return settings
    async with open_redis(settings) as redis:
        book = RedisGenerations(redis, settings.prefix)
        live = await settings_in(book, settings.model_copy(update={"generation": None}))
    return settings.model_copy(update={"log": live.log})


def of_generation(settings: Settings, name: str, changes: Mapping[str, str]) -> Settings:
    """The settings of a generation on the same log that differs in ``changes`` (``link.j`` → ``5``).

    Raises `Refused`.
    """
    return with_changes(settings.model_copy(update={"generation": name}), changes)


def with_changes(settings: Settings, changes: Mapping[str, str]) -> Settings:
    """The settings with some of them changed; raises `Refused` for a name that is none or a value that does not fit."""
    if not changes:
        return settings
    document = settings.model_dump()
    for name, text in changes.items():
        _change(document, name, text)
    try:
        return Settings.model_validate(document)
    except ValidationError as error:
        raise Refused(f"--set: {describe(error)}") from None


def parse_changes(given: Sequence[str]) -> dict[str, str]:
    """``link.j=5`` → name and value of each; raises `Refused` for what is not of this form, or not to be changed."""
    changes: dict[str, str] = {}
    for text in given:
        name, sign, value = text.partition("=")
        if not sign or name.partition(".")[0] not in CHANGEABLE:
            raise Refused(f"--set {text!r:.100}: expected ROOM.SETTING=VALUE, with a room of {', '.join(_ROOMS)}")
        changes[name.strip()] = value.strip()
    return changes


def _change(document: dict[str, Any], name: str, text: str) -> None:
    *rooms, last = name.split(".")
    for room in rooms:
        document = document.get(room, {})
        if not isinstance(document, dict):
            raise Refused(f"--set {name}: there is no such setting")
    if last not in document:
        raise Refused(f"--set {name}: there is no such setting; of these: {', '.join(document) or 'none'}")
    document[last] = _value(text)


def _value(text: str) -> Any:  # noqa: ANN401 - whatever the setting takes
    """Numbers, true, false, null and lists as JSON has them; anything else is text."""
    try:
        return json.loads(text)
    except ValueError:
        return text
