"""Keeps what was learned of an endpoint where all processes find it, or prints it as settings."""

from dataclasses import dataclass

from eunoe.deploy.clients.shared import open_redis
from eunoe.deploy.doctor.endpoint.abilities import Abilities
from eunoe.deploy.doctor.endpoint.limits import EndpointLimits
from eunoe.deploy.doctor.endpoint.measures import SAMPLES, EndpointMeasures
from eunoe.deploy.doctor.endpoint.probe import Prober
from eunoe.deploy.doctor.findings import Findings
from eunoe.deploy.settings import Settings
from eunoe.schemas.errors import Unavailable
from eunoe.workers.models.endpoint.dialect import Dialect
from eunoe.workers.models.endpoint.profile import profile_name
from eunoe.workers.models.endpoint.profile_keeper import ProfileKeeper
from eunoe.workers.stores.records.profiles import RedisProfiles

LEAST_THOUGHTS = 1024


@dataclass(frozen=True, slots=True)
class LearnedProfile:
    """All that was learned of an endpoint."""

    abilities: Abilities
    limits: EndpointLimits
    measures: EndpointMeasures


def thoughts_of(abilities: Abilities) -> int:
    """Tokens to allow for thoughts before an answer; 0 for a model that does not think."""
    return max(LEAST_THOUGHTS, 2 * abilities.thinking_tokens) if abilities.thinks else 0


async def keep_profile(settings: Settings, prober: Prober, learned: LearnedProfile, findings: Findings) -> None:
    """Write the profile into Redis in place of the one before; without Redis, name the settings that say the same."""
    if settings.redis_url is None:
        _tell_settings(learned, findings)
        return
    findings.step("profile")
    try:
        await _write(settings, prober, learned)
    except Unavailable as fault:
        findings.warn(f"the profile of the endpoint could not be written: {fault}")
        _tell_settings(learned, findings)
    else:
        findings.ok("all of this is written to Redis as the profile of the endpoint: every process uses it")


async def _write(settings: Settings, prober: Prober, learned: LearnedProfile) -> None:
    abilities, limits = learned.abilities, learned.limits
    name = profile_name(prober.endpoint.base_url, prober.endpoint.model)
    dialect = Dialect(
        formatting=abilities.formatting,
        length_field=prober.length_field,
        temperature=abilities.temperature,
        seed=abilities.seed,
    )
    async with open_redis(settings) as redis:
        store = RedisProfiles(redis, settings.prefix)
        await store.get(name)  # a server that is away is told here: the keeper only logs it
        keeper = ProfileKeeper(name, store)
        await keeper.load()
        await keeper.forget()
        await keeper.learn(
            cap=limits.output, context=limits.context, thinking_tokens=thoughts_of(abilities), dialect=dialect
        )
        for script, tokens in learned.measures.counts.items():
            await keeper.count(SAMPLES[script], tokens)


def _tell_settings(learned: LearnedProfile, findings: Findings) -> None:
    values = {
        "EUNOE_MODEL_MAX_OUTPUT": learned.limits.output,
        "EUNOE_MODEL_CONTEXT_WINDOW": learned.limits.context,
        "EUNOE_MODEL_THINKING_TOKENS": thoughts_of(learned.abilities) or None,
    }
    if found := {name: str(value) for name, value in values.items() if value is not None}:
        findings.note("workers learn this by their first questions; these settings say it at once", found)
