"""Opens the models that the settings name."""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import assert_never

from eunoe.deploy.clients.connect import DATA
from eunoe.deploy.local.notice import find_stack
from eunoe.deploy.settings import Settings
from eunoe.deploy.settings.embedders import EmbedderKind, EmbedderName, asks_endpoint, embedder_name
from eunoe.deploy.settings.sections import Language
from eunoe.schemas.errors import Refused
from eunoe.schemas.model_ports import Compressor, Embedder, LanguageModel
from eunoe.schemas.redact import without_login
from eunoe.workers.models.endpoint.client import OPENAI_URL, Endpoint
from eunoe.workers.models.endpoint.dialect import Sampling
from eunoe.workers.models.endpoint.embedding_endpoint import EndpointEmbedder, EndpointEmbedderSettings
from eunoe.workers.models.endpoint.language_model import OpenAIModel, OpenAISettings, SharedClient
from eunoe.workers.models.endpoint.profile import Profiles, profile_name
from eunoe.workers.models.endpoint.profile_keeper import ProfileKeeper
from eunoe.workers.models.local.compression import LLMLINGUA_MODEL, LLMLinguaCompressor, OfflineCompressor
from eunoe.workers.models.local.embedding import FastembedEmbedder, FastembedSettings, WordLlamaEmbedder
from eunoe.workers.models.questions.recording import Answers, RecordedModel

Environment = Mapping[str, str]


def uses_endpoint(settings: Settings, environment: Environment) -> bool:
    """Whether a language model is asked: by ``EUNOE_LANGUAGE``, or because ``OPENAI_BASE_URL`` is set."""
    if settings.language is Language.AUTO:
        return bool(environment.get("OPENAI_BASE_URL"))
    return settings.language is Language.OPENAI


def own_endpoint(settings: Settings, environment: Environment) -> str | None:
    """The URL of ``OPENAI_BASE_URL``, without a password, where models are asked there; `None` where they are not."""
    url = environment.get("OPENAI_BASE_URL")
    return without_login(url) if url and _asks(settings, environment) else None


def endpoint_of_stack(settings: Settings, environment: Environment) -> str | None:
    """The endpoint that the `eunoe up` of these servers asks, where this environment would ask elsewhere or nobody.

    `None` where all is as it should be: an endpoint is named here, or ``EUNOE_LANGUAGE=offline`` says that none is
    wanted.
    """
    wanted = settings.language is not Language.OFFLINE or _asks(settings, environment)
    if environment.get("OPENAI_BASE_URL") or not wanted:
        return None
    found = find_stack(DATA)
    return found.model_endpoint if found is not None and found.kafka == settings.kafka else None


def check_endpoint_of_stack(settings: Settings, environment: Environment) -> None:
    """Raise `Refused` where memory would be derived by other models than the workers of a running `eunoe up` ask."""
    if url := endpoint_of_stack(settings, environment):
        raise Refused(
            f"`eunoe up` asks models at {url}, and OPENAI_BASE_URL is not set here: set it, and OPENAI_API_KEY where it"
            " needs one, or EUNOE_LANGUAGE=offline to decide by the offline rules"
        )


def _asks(settings: Settings, environment: Environment) -> bool:
    return uses_endpoint(settings, environment) or asks_endpoint(settings.embedding)


def endpoint(settings: Settings, environment: Environment, model: str) -> Endpoint:
    """The endpoint of ``OPENAI_BASE_URL`` and ``OPENAI_API_KEY``."""
    return Endpoint(
        model=model,
        base_url=environment.get("OPENAI_BASE_URL") or OPENAI_URL,
        key=environment.get("OPENAI_API_KEY"),
        timeout_s=settings.model_timeout_seconds,
        in_flight=settings.model_in_flight,
    )


def model_settings(settings: Settings, environment: Environment, stage: str | None = None) -> OpenAISettings:
    """The settings of the chat model, or of that of one stage."""
    options = settings.model_options(stage)
    place = endpoint(settings, environment, options.model or settings.model)
    return OpenAISettings(
        replace(place, timeout_s=options.timeout_seconds or place.timeout_s),
        sampling=Sampling(
            temperature=options.temperature,
            seed=options.seed,
            reasoning_effort=options.reasoning_effort,
            thinking_tokens=options.thinking_tokens or 0,
            max_output=options.max_output,
            context_window=options.context_window,
            language=options.language,
        ),
        prices=settings.prices,
        memory_limit_s=settings.model_decision_seconds,
        reply_limit_s=settings.model_reply_seconds,
    )


def open_shared(settings: Settings, environment: Environment) -> SharedClient:
    """The connections of the chat models, with the longest of their time limits; raises `Refused` without a key."""
    each = [model_settings(settings, environment, stage) for stage in (None, *settings.models)]
    slowest = max(one.endpoint.timeout_s for one in each)
    return SharedClient.open(replace(each[0], endpoint=replace(each[0].endpoint, timeout_s=slowest)))


async def open_language(
    settings: Settings,
    environment: Environment,
    answers: Answers,
    closing: AsyncExitStack,
    profiles: Profiles | None = None,
    *,
    asks_refused: bool = False,
) -> LanguageModel | None:
    """The chat model and those of single stages, with their recorded answers; `None` where the stages decide offline.

    ``profiles``: where the limits of endpoints are kept. ``asks_refused``: whether questions without a valid answer are
    asked again.
    """
    if not uses_endpoint(settings, environment):
        return None
    by_stage = {stage: model_settings(settings, environment, stage) for stage in sorted(settings.models)}
    options = model_settings(settings, environment)
    shared = open_shared(settings, environment)
    closing.push_async_callback(shared.aclose)
    keepers: dict[str, ProfileKeeper] = {}

    def opened(one: OpenAISettings) -> OpenAIModel:
        name = profile_name(one.endpoint.base_url, one.endpoint.model)
        keeper = keepers.setdefault(name, ProfileKeeper(name, profiles))
        return OpenAIModel(one, keeper, shared)

    stages = {
        stage: RecordedModel(opened(one), answers, one.parameters, asks_refused=asks_refused)
        for stage, one in by_stage.items()
    }
    return RecordedModel(opened(options), answers, options.parameters, asks_refused=asks_refused, stages=stages)


async def open_embedder(settings: Settings, environment: Environment, closing: AsyncExitStack) -> Embedder:
    """The embedder that ``EUNOE_EMBEDDING`` names; raises `Refused` for an unknown name."""
    named = embedder_name(settings.embedding)
    embedder: WordLlamaEmbedder | FastembedEmbedder | EndpointEmbedder
    match named.kind:
        case EmbedderKind.WORDLLAMA:
            embedder = await asyncio.to_thread(WordLlamaEmbedder)
        case EmbedderKind.FASTEMBED:
            options = FastembedSettings(model=named.model) if named.model else FastembedSettings()
            embedder = await asyncio.to_thread(FastembedEmbedder, options)
        case EmbedderKind.ENDPOINT:
            embedder = _endpoint_embedder(settings, environment, named)
        case _:
            assert_never(named.kind)
    closing.push_async_callback(embedder.aclose)
    return embedder


def _endpoint_embedder(settings: Settings, environment: Environment, named: EmbedderName) -> EndpointEmbedder:
    if not named.model or not named.dimensions:
        raise Refused(f"EUNOE_EMBEDDING is {settings.embedding}: use endpoint:MODEL:DIMENSIONS")
    check_endpoint_of_stack(settings, environment)
    return EndpointEmbedder(EndpointEmbedderSettings(endpoint(settings, environment, named.model), named.dimensions))


def llmlingua_model(settings: Settings) -> str | None:
    """The model of the compressor llmlingua; `None` where ``EUNOE_COMPRESSION`` names the offline one."""
    kind, _, model = settings.compression.partition(":")
    return None if kind == "offline" else model or LLMLINGUA_MODEL


async def open_compressor(settings: Settings, closing: AsyncExitStack) -> Compressor:
    """The compressor that ``EUNOE_COMPRESSION`` names."""
    model = llmlingua_model(settings)
    if model is None:
        return OfflineCompressor()
    compressor = await asyncio.to_thread(LLMLinguaCompressor, model)
    closing.push_async_callback(compressor.aclose)
    return compressor
