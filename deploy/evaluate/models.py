"""The models of an evaluation, opened as the settings name them."""

import os
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from eunoe.deploy.clients.models import open_compressor, open_embedder, open_language
from eunoe.deploy.settings import Settings
from eunoe.schemas.model_ports import Compressor, Embedder, LanguageModel
from eunoe.workers.models.local.compression import OfflineCompressor
from eunoe.workers.stores.records.answers import MemoryAnswers


@dataclass(frozen=True, slots=True)
class EvalModels:
    """The models that memory is made with."""

    embedder: Embedder
    language: LanguageModel | None = None
    """`None` means that the offline implementations decide."""
    compressor: Compressor = field(default_factory=OfflineCompressor)


async def open_eval_models(settings: Settings, closing: AsyncExitStack, *, with_language: bool = True) -> EvalModels:
    """The models that the settings name, closed at the end.

    Without ``with_language`` no language model is opened. Raises `Refused` for unusable settings.
    """
    language = await open_language(settings, os.environ, MemoryAnswers(), closing) if with_language else None
    embedder = await open_embedder(settings, os.environ, closing)
    return EvalModels(embedder, language, await open_compressor(settings, closing))
