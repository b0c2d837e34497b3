"""The vector of a fixed sentence that a generation began with: it tells of another model behind an embedder's name."""

import base64
from typing import Final

import numpy as np
from numpy.typing import NDArray

from eunoe.workers.stores.redis.connection import RedisClient, RedisConnection, as_bytes
from eunoe.workers.stores.redis.keys import Keys

PROBE_TEXT: Final = "She moved to Lyon last spring."
"""The sentence that is embedded; a change of it would look like a change of every model."""
SAME_FROM: Final = 0.99
"""The cosine from which two vectors of the sentence are of one model: batches and processors change the last digits."""

Vector = NDArray[np.float32]


class RedisEmbedderProbe:
    """The vector that a generation began with, by the embedder's name. Every method raises `Unavailable`."""

    def __init__(self, client: RedisClient, keys: Keys) -> None:
        self._redis = RedisConnection(client)
        self._key = keys.embedder_probe()

    async def first(self, embedder: str) -> Vector | None:
        """The vector that was kept; `None` before the first one."""
        found = await self._redis.command("HGET", self._key, embedder)
        return None if found is None else np.frombuffer(base64.b64decode(as_bytes(found)), "<f4")

    async def keep(self, embedder: str, vector: Vector) -> Vector:
        """Keep a vector unless there is one already; returns the one that is kept."""
        packed = base64.b64encode(np.asarray(vector, "<f4").tobytes())
        await self._redis.command("HSETNX", self._key, embedder, packed)
        first = await self.first(embedder)
        return vector if first is None else first


def changed_model(first: Vector, now: Vector) -> str | None:
    """The fault where two vectors of the sentence are of different models, with what to do; `None` where there is none.

    A vector that `says_nothing` is of no model.
    """
    if first.shape != now.shape or says_nothing(first) or says_nothing(now):
        return None
    cosine = float(first @ now / (np.linalg.norm(first) * np.linalg.norm(now)))
    if cosine >= SAME_FROM:
        return None
    return (
        f"another model answers under the name of EUNOE_EMBEDDING than the one that this generation's vectors are of"
        f" (a fixed sentence has a cosine of {cosine:.2f}): searches compare what cannot be compared. Set back the"
        " server or the model; or embed all anew, `eunoe rebuild --into v2` (any new name for v2), then"
        " `eunoe promote v2`"
    )


def says_nothing(vector: Vector) -> bool:
    """Whether a vector has no direction, or is the first axis, which a text without a vector gets."""
    return not vector[1:].any()
