"""The embedders that ``EUNOE_EMBEDDING`` may name."""

from dataclasses import dataclass
from enum import StrEnum

from eunoe.schemas.errors import Refused

FORMS = "wordllama, fastembed:MODEL or endpoint:MODEL:DIMENSIONS"
"""All that the setting may be."""


class EmbedderKind(StrEnum):
    """The kinds of embedders: the first word of the setting."""

    WORDLLAMA = "wordllama"
    FASTEMBED = "fastembed"
    ENDPOINT = "endpoint"


@dataclass(frozen=True, slots=True)
class EmbedderName:
    """An embedder as the setting names it."""

    kind: EmbedderKind
    model: str = ""
    """Empty means the kind's default."""
    dimensions: int = 0
    """Of an endpoint's vectors; 0 means that the setting does not say it."""


def embedder_name(text: str) -> EmbedderName:
    """The embedder that a text names; raises `Refused` where there is none of its kind."""
    word, _, rest = text.partition(":")
    kind = next((kind for kind in EmbedderKind if kind == word), None)
    if kind is None or (kind is EmbedderKind.WORDLLAMA and rest):
        raise Refused(f"EUNOE_EMBEDDING is {text!r}: use {FORMS}")
    if kind is not EmbedderKind.ENDPOINT:
        return EmbedderName(kind, rest)
    model, _, dimensions = rest.rpartition(":")
    if not model or not dimensions.isdecimal():
        return EmbedderName(kind, rest.rstrip(":"))
    return EmbedderName(kind, model, int(dimensions))


def asks_endpoint(text: str) -> bool:
    """Whether the embedder that a text names is one behind an endpoint."""
    return text.partition(":")[0] == EmbedderKind.ENDPOINT
