"""Opens the models that the settings name."""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack

from eunoe.deploy.settings import Language, Settings
from eunoe.schemas.errors import Refused
from eunoe.schemas.ports import Compressor, Embedder, LanguageModel
from eunoe.workers.models.compression import LLMLinguaCompressor, LLMLinguaSettings, OfflineCompressor
from eunoe.workers.models.embedding import FastembedEmbedder, FastembedSettings, WordLlamaEmbedder
from eunoe.workers.models.embedding_endpoint import EndpointEmbedder, EndpointEmbedderSettings
from eunoe.workers.models.endpoint import OPENAI_URL, Endpoint
from eunoe.workers.models.openai import OpenAIModel, OpenAISettings
from eunoe.workers.models.recording import Answers, RecordedModel

Environment = Mapping[str, str]


def uses_endpoint(settings: Settings, environment: Environment) -> bool:
    """Whether a language model is asked: by ``EUNOE_LANGUAGE``, or because ``OPENAI_BASE_URL`` is set."""
    if settings.language is Language.AUTO:
        return bool(environment.get("OPENAI_BASE_URL"))
    return settings.language is Language.OPENAI


def endpoint(settings: Settings, environment: Environment, model: str) -> Endpoint:
    """The endpoint of ``OPENAI_BASE_URL`` and ``OPENAI_API_KEY``."""
    return Endpoint(
        model=model,
        base_url=environment.get("OPENAI_BASE_URL") or OPENAI_URL,
        key=environment.get("OPENAI_API_KEY"),
        timeout_s=settings.model_timeout_seconds,
        in_flight=settings.model_in_flight,
    )


async def open_language(
    settings: Settings, environment: Environment, answers: Answers, closing: AsyncExitStack
) -> LanguageModel | None:
    """The chat model with its recorded answers; `None` where offline implementations decide."""
    if not uses_endpoint(settings, environment):
        return None
    options = OpenAISettings(endpoint(settings, environment, settings.model), prices=settings.prices)
    model = OpenAIModel(options)
    closing.push_async_callback(model.aclose)
    return RecordedModel(model, answers, options.parameters)


async def open_embedder(settings: Settings, environment: Environment, closing: AsyncExitStack) -> Embedder:
    """The embedder that ``EUNOE_EMBEDDING`` names; raises `Refused` for an unknown name."""
    kind, _, rest = settings.embedding.partition(":")
    embedder: WordLlamaEmbedder | FastembedEmbedder | EndpointEmbedder
    if kind == "wordllama" and not rest:
        embedder = await asyncio.to_thread(WordLlamaEmbedder)
    elif kind == "fastembed":
        embedder = await asyncio.to_thread(
            FastembedEmbedder, FastembedSettings(model=rest) if rest else FastembedSettings()
        )
    elif kind == "endpoint":
        embedder = _endpoint_embedder(settings, environment, rest)
    else:
        raise Refused(
            f"EUNOE_EMBEDDING is {settings.embedding!r}: use wordllama, fastembed:MODEL or endpoint:MODEL:DIMENSIONS"
        )
    closing.push_async_callback(embedder.aclose)
    return embedder


def _endpoint_embedder(settings: Settings, environment: Environment, name: str) -> EndpointEmbedder:
    model, _, dimensions = name.rpartition(":")
    if not model or not dimensions.isdecimal():
        raise Refused(f"EUNOE_EMBEDDING is endpoint:{name}: use endpoint:MODEL:DIMENSIONS")
    return EndpointEmbedder(EndpointEmbedderSettings(endpoint(settings, environment, model), int(dimensions)))


async def open_compressor(settings: Settings, closing: AsyncExitStack) -> Compressor:
    """The compressor that ``EUNOE_COMPRESSION`` names."""
    if settings.compression == "offline":
        return OfflineCompressor()
    compressor = await asyncio.to_thread(LLMLinguaCompressor, LLMLinguaSettings())
    closing.push_async_callback(compressor.aclose)
    return compressor
