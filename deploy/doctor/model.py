"""The check of the chat model's endpoint."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from eunoe.deploy.clients.models import Environment, endpoint, endpoint_of_stack, uses_endpoint
from eunoe.deploy.doctor.endpoint.abilities import Abilities, find_abilities
from eunoe.deploy.doctor.endpoint.limits import find_limits
from eunoe.deploy.doctor.endpoint.measures import EndpointMeasures, measure_endpoint
from eunoe.deploy.doctor.endpoint.probe import Prober
from eunoe.deploy.doctor.endpoint.reach import Reached, reach
from eunoe.deploy.doctor.findings import Findings
from eunoe.deploy.doctor.profile import LearnedProfile, keep_profile, thoughts_of
from eunoe.deploy.settings import Settings
from eunoe.deploy.settings.sections import Language
from eunoe.workers.models.endpoint.client import OPENAI_URL

REPLY_PROMPT, REPLY_TOKENS = 2_000, 300
"""Tokens of the prompt of a reply, and of the reply."""
DECISION_PROMPT, DECISION_TOKENS = 2_500, 600
"""Tokens of the prompt of a decision about memory, and of its answer."""
LONGEST_ANSWER = 4096
"""Tokens of the longest answer that a stage asks for."""
FILL_TOKENS, FILL_TOKENS_THOROUGH = 9_000, 34_000
"""Length of the long prompt, in tokens; the longest prompts of the stages are about the latter."""


async def check_model(settings: Settings, environment: Environment, findings: Findings, *, thorough: bool) -> None:
    """Add everything that can be learned of the endpoint with about twenty small questions and one long.

    Raises `Refused` for a wrong key, model or address, `Unavailable` without an answer.
    """
    if not _is_asked(settings, environment, findings):
        return
    async with _open_prober(settings, environment) as prober:
        reached = await reach(prober, findings)
        fill = FILL_TOKENS_THOROUGH if thorough else FILL_TOKENS
        abilities = await find_abilities(prober, reached, findings)
        measures = await measure_endpoint(
            prober, findings, timeout_s=settings.model_timeout_seconds, longest=LONGEST_ANSWER
        )
        limits = await find_limits(prober, reached, findings, fill_tokens=fill, read_a_second=measures.read_a_second)
        _tell_waits(abilities, measures, settings, findings)
        await keep_profile(settings, prober, LearnedProfile(abilities, limits, measures), findings)
        _tell_rate(prober, reached, settings, findings)
    await _reach_others(settings, environment, findings)


async def check_model_briefly(settings: Settings, environment: Environment, findings: Findings) -> None:
    """Ask for one word: names a wrong key, model or address. Raises as `check_model` does."""
    if not _is_asked(settings, environment, findings):
        return
    async with _open_prober(settings, environment) as prober:
        await reach(prober, findings)
    await _reach_others(settings, environment, findings)


async def _reach_others(settings: Settings, environment: Environment, findings: Findings) -> None:
    """Ask each other model of EUNOE_MODELS for one word."""
    for name in sorted({options.model for options in settings.models.values() if options.model} - {settings.model}):
        async with _open_prober(settings.model_copy(update={"model": name}), environment) as prober:
            await reach(prober, findings)


@asynccontextmanager
async def _open_prober(settings: Settings, environment: Environment) -> AsyncIterator[Prober]:
    # in a thread: on the loop of a slow machine it would take longer than the other checks may need to connect
    await asyncio.to_thread(_import_client)
    prober = Prober(endpoint(settings, environment, settings.model))
    try:
        yield prober
    finally:
        await prober.aclose()


def _import_client() -> None:
    import openai  # noqa: F401, PLC0415 - see eunoe.workers.models.endpoint.client


def _is_asked(settings: Settings, environment: Environment, findings: Findings) -> bool:
    """Whether there is an endpoint to ask; if not, add why."""
    if url := endpoint_of_stack(settings, environment):
        findings.warn(f"`eunoe up` asks models at {url}, and OPENAI_BASE_URL is not set here: not checked")
        return False
    if not uses_endpoint(settings, environment):
        _tell_offline(settings, environment, findings)
        return False
    return True


def _tell_offline(settings: Settings, environment: Environment, findings: Findings) -> None:
    if settings.language is Language.OFFLINE:
        findings.note("no model is asked: EUNOE_LANGUAGE is offline, the offline rules decide")
    elif environment.get("OPENAI_API_KEY"):
        findings.warn(
            "no model is asked: OPENAI_API_KEY alone spends no money. Name the endpoint, too",
            {"OPENAI_BASE_URL": OPENAI_URL},
        )
    elif "model" in settings.model_fields_set:
        findings.warn("no model is asked: EUNOE_MODEL is set, OPENAI_BASE_URL is not")
    else:
        findings.note("no model is set: the offline rules decide. With a model: OPENAI_BASE_URL, EUNOE_MODEL")


def _tell_waits(abilities: Abilities, measures: EndpointMeasures, settings: Settings, findings: Findings) -> None:
    """Warn where the model has no time for a reply, or for a decision: the offline rules would do its work unseen."""
    if not measures.tokens_a_second:
        return
    reading_s = 0.0 if not measures.read_a_second else 1 / measures.read_a_second
    thoughts = thoughts_of(abilities)
    for what, prompt, answer, limit_s, setting in (
        ("a reply", REPLY_PROMPT, REPLY_TOKENS, settings.model_reply_seconds, "REPLY"),
        ("a decision about memory", DECISION_PROMPT, DECISION_TOKENS, settings.model_decision_seconds, "DECISION"),
    ):
        needed_s = prompt * reading_s + (thoughts + answer) / measures.tokens_a_second
        if needed_s > limit_s:
            findings.warn(
                f"{what}{' with its thoughts' if thoughts else ''} may take {needed_s:.0f} s; after {limit_s:g} s the"
                " offline rules make it",
                {f"EUNOE_MODEL_{setting}_SECONDS": f"{needed_s * 1.5:.0f}"},
            )


def _tell_rate(prober: Prober, reached: Reached, settings: Settings, findings: Findings) -> None:
    """Tell how often the endpoint was too busy, and the rate that it allows."""
    headers = {name.lower(): value for name, value in reached.answer.headers.items()}
    told = {unit: headers[name] for unit in ("requests", "tokens") if (name := f"x-ratelimit-limit-{unit}") in headers}
    if prober.throttled:
        findings.warn(
            f"{prober.throttled} of these few questions were refused as too many (429): allow fewer at once",
            {"EUNOE_MODEL_IN_FLIGHT": str(max(1, settings.model_in_flight // 8))},
        )
    if told:
        findings.note("rate limits: " + ", ".join(f"{value} {unit}" for unit, value in told.items()))
