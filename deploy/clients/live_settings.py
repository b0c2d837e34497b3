"""Settings of a generation, with the changes of its rebuild; without a named one, of the live generation."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from eunoe.deploy.clients.shared import open_redis
from eunoe.deploy.settings import Settings
from eunoe.deploy.settings.deciding import DECIDING
from eunoe.schemas.errors import Refused
from eunoe.schemas.versions import describe
from eunoe.workers.stores.records.generations import FIRST, RedisGenerations


async def live_settings(settings: Settings) -> Settings:
    """The settings of the named generation, by default the live one, with its log and the changes of its rebuild.

    Raises `Refused` where this version has no such settings, `NewerVersion` where it cannot read the generation's
    record, `Unavailable` when Redis does not answer.
    """
    async with open_redis(settings) as redis:
        return await settings_in(RedisGenerations(redis, settings.prefix), settings)


async def settings_in(registry: RedisGenerations, settings: Settings) -> Settings:
    """`live_settings`, with the generations from ``registry``."""
    live = (await registry.pointer()).live
    name = settings.generation or live or FIRST
    made = await registry.find(name)
    # the environment may name the log where Redis has lost the generations
    known = (settings.log or 0) if live in (None, name) else 0
    placed = settings.model_copy(update={"log": known if made is None else made.log})
    changes = {} if made is None else made.changes
    try:
        return of_generation(placed, name, changes)
    except Refused as fault:
        built = ", ".join(f"{setting}={value}" for setting, value in changes.items())
        raise Refused(
            f"generation {name} was built with {built}, which this version of eunoe does not take ({fault}): run the"
            " version that built it, also to let another generation answer (`eunoe promote`)"
        ) from None


async def placed_settings(settings: Settings) -> Settings:
    """`live_settings` where Redis is set, otherwise the settings unchanged."""
    return settings if settings.redis_url is None else await live_settings(settings)


async def client_settings(settings: Settings) -> Settings:
    """The settings with the log that clients produce into: the named one, by default that of the live generation.

    Without Redis the default is the first log. Raises `Unavailable` when Redis does not answer.
    """
    if settings.redis_url is None or settings.log is not None:
        return settings
    async with open_redis(settings) as redis:
        registry = RedisGenerations(redis, settings.prefix)
        live = await settings_in(registry, settings.model_copy(update={"generation": None}))
    return settings.model_copy(update={"log": live.log})


def of_generation(settings: Settings, name: str, changes: Mapping[str, str]) -> Settings:
    """The settings of a generation on the same log, changed by ``changes`` (``link.associative`` → ``5``).

    Raises `Refused` as `with_changes` does.
    """
    return with_changes(settings.model_copy(update={"generation": name}), changes)


def with_changes(settings: Settings, changes: Mapping[str, str]) -> Settings:
    """The settings with changes; raises `Refused` for an unknown name or an invalid value."""
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
    """Names and values of texts like ``link.associative=5``; raises `Refused` for any other form or setting."""
    changes: dict[str, str] = {}
    for text in given:
        name, sign, value = text.partition("=")
        if not sign or name.partition(".")[0] not in DECIDING:
            stages = ", ".join(sorted(DECIDING))
            raise Refused(f"--set {text!r:.100}: expected STAGE.SETTING=VALUE, with a stage of {stages}")
        changes[name.strip()] = value.strip()
    return changes


def _change(document: dict[str, Any], name: str, text: str) -> None:
    *parts, last = name.split(".")
    for part in parts:
        document = document.get(part, {})
        if not isinstance(document, dict):
            raise Refused(f"--set {name}: unknown setting")
    if last not in document:
        raise Refused(f"--set {name}: unknown setting; known are: {', '.join(document) or 'none'}")
    document[last] = _value(text)


def _value(text: str) -> Any:  # noqa: ANN401 - the type of the setting
    """The JSON value of a text; a text that is no JSON stands for itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text
