"""Ports of stages to models; each has an offline implementation, too."""

from collections.abc import Sequence
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from eunoe.schemas.base import Value

Vectors = NDArray[np.float32]
"""Shape (n, dimensions), rows of length 1."""

AnswerT = TypeVar("AnswerT", bound=Value)


class Prompt(Value):
    """A request to a language model."""

    name: str
    """Name and version of the prompt: ``segment/1``."""
    system: str
    user: str
    max_tokens: int = 1024
    correcting: bool = False
    """Whether it is the second request, which names the fault of the first answer; counted apart."""


class LanguageModel(Protocol):
    """A chat model with structured answers."""

    @property
    def name(self) -> str:
        """Name of the model in provenance."""
        ...

    async def answer(self, prompt: Prompt, form: type[AnswerT], *, urgent: bool = False) -> AnswerT:
        """The answer of the model, parsed.

        ``urgent`` is for replies, for which somebody waits. Raises `AnswerInvalid` when the answer does not fit the
        form, `Unavailable` when the endpoint does not answer after its retries.
        """
        ...


class Embedder(Protocol):
    """A model that embeds texts as vectors of length 1."""

    @property
    def name(self) -> str:
        """Name and version of the model; vectors of different names are never compared."""
        ...

    @property
    def dimensions(self) -> int:
        """Number of dimensions of a vector."""
        ...

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """One row of length 1 per text; a text without a known word gets a fixed one."""
        ...


class Compressor(Protocol):
    """A model that removes words that retrieval does not need (SeCom, section 2.3)."""

    @property
    def name(self) -> str:
        """Name of the model in provenance."""
        ...

    async def compress(self, texts: Sequence[str], keep: float) -> list[str]:
        """Each text with about a share ``keep`` (0 to 1) of its tokens, in their order."""
        ...
