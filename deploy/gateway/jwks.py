"""The public keys of an identity provider (JWKS), read again while they are used."""

import asyncio
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Final

import httpx2
import jwt

from eunoe.deploy.gateway.problems import Problem
from eunoe.schemas.redact import redirect_target
from eunoe.streams.trust import trusted_servers

log = logging.getLogger(__name__)

REFETCH_S: Final = 30.0
"""Least time between two reads for keys that are not there, or after a read that failed."""
_FETCH_S: Final = 5.0
_MAX_BYTES: Final = 1_000_000

_OF_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
"""The algorithms of an RSA key whose entry names none."""

Keys = Mapping[tuple[str, str], jwt.PyJWK]
"""Key id, empty where it has none, and algorithm → key."""


@dataclass(slots=True)
class KeySet:
    """The keys of a JWKS. One that was withdrawn there is believed for ``max_age_s`` at most.

    While the JWKS cannot be read, the keys read last are believed up to ``hard_age_s``.
    """

    source: str
    """A file or a URL."""
    max_age_s: float
    hard_age_s: float
    clock: Callable[[], float] = monotonic
    _keys: Keys = field(default_factory=dict)
    _read_at: float = float("-inf")
    """The begin of the last read that succeeded."""
    _tried_at: float = float("-inf")
    _failed: bool = False
    """Whether the last read failed."""
    _reading: "asyncio.Task[None] | None" = None

    async def find(self, kid: str, algorithm: str) -> jwt.PyJWK | None:
        """The key with this id, for this algorithm; without an id the only one there is.

        `None` where there is none. Raises `Problem` (503) where none was read for long.
        """
        if self._age() > self.max_age_s:
            # while the provider is away nobody waits for it: the read goes on beside
            await self._read_again(wait=not self._failed or self._age() > self.hard_age_s)
        if self._known(kid, algorithm) is None:
            await self._read_again(wait=True)
        if self._age() > self.hard_age_s:
            retry = {"Retry-After": f"{REFETCH_S:.0f}"}
            raise Problem(503, "the keys of the identity provider cannot be read now", headers=retry)
        return self._known(kid, algorithm)

    def _known(self, kid: str, algorithm: str) -> jwt.PyJWK | None:
        if kid:
            return self._keys.get((kid, algorithm))
        fitting = [key for (_, name), key in self._keys.items() if name == algorithm]
        return fitting[0] if len(fitting) == 1 else None

    def _age(self) -> float:
        return self.clock() - self._read_at

    async def _read_again(self, *, wait: bool) -> None:
        """Read, unless that was tried just now; all who ask meanwhile share one read."""
        if self._reading is None:
            # a read that succeeded is repeated when it is too old, so that short ages hold, too
            rest = REFETCH_S if self._failed else min(REFETCH_S, self.max_age_s)
            if self.clock() - self._tried_at < rest:
                return
            self._reading = asyncio.create_task(self._read())
        if wait:
            await asyncio.shield(self._reading)  # whoever leaves ends the read of nobody else

    async def _read(self) -> None:
        begun = self._tried_at = self.clock()
        try:
            self._keys = await asyncio.to_thread(_keys_in, await self._text())
            self._read_at, self._failed = begun, False
        except (OSError, ValueError, RecursionError, httpx2.HTTPError, httpx2.InvalidURL) as fault:
            self._failed = True
            log.warning("JWKS not read: %s: %s", self.source, _reason(fault))
        finally:
            self._reading = None

    async def _text(self) -> bytes:
        if not self.source.startswith(("https://", "http://")):
            return await asyncio.to_thread(_read_file, Path(self.source))
        async with (
            asyncio.timeout(_FETCH_S),
            httpx2.AsyncClient(timeout=_FETCH_S, verify=trusted_servers()) as client,
            client.stream("GET", self.source) as answer,
        ):
            answer.raise_for_status()
            found = bytearray()
            async for piece in answer.aiter_bytes():
                found += piece
                _check_size(len(found))
        return bytes(found)


def _reason(fault: Exception) -> str:
    """The reason why a JWKS was not read, in one line."""
    if isinstance(fault, TimeoutError | httpx2.TimeoutException):
        return f"no answer within {_FETCH_S:g} seconds"
    if isinstance(fault, httpx2.HTTPStatusError):
        answer = fault.response
        target = redirect_target(answer.headers.get("location"), str(answer.request.url))
        return f"it answered {answer.status_code}" + (
            f" and redirects to {target}: name that address" if target else ""
        )
    if isinstance(fault, json.JSONDecodeError | UnicodeDecodeError):
        return "what it holds is no JSON"
    return str(fault) or type(fault).__name__


def _read_file(path: Path) -> bytes:
    with path.open("rb") as file:
        found = file.read(_MAX_BYTES + 1)
    _check_size(len(found))
    return found


def _check_size(size: int) -> None:
    if size > _MAX_BYTES:
        raise ValueError(f"more than {_MAX_BYTES:,} bytes")


def _keys_in(text: bytes) -> Keys:
    """The keys of a document; those of another kind are left out. Raises ``ValueError`` for another document.

    A document without keys is one, too: all were withdrawn.
    """
    document = json.loads(text)
    entries = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise ValueError("no list of keys")  # noqa: TRY004 - callers know one fault
    found = (key for entry in entries for key in _keys_of(entry))
    return {(key.key_id or "", key.algorithm_name): key for key in found}


def _keys_of(entry: object) -> Iterator[jwt.PyJWK]:
    """The key of an entry, once for each algorithm; nothing for one of another kind."""
    if not isinstance(entry, dict) or entry.get("use", "sig") != "sig" or not isinstance(entry.get("kid", ""), str):
        return
    unnamed = entry.get("kty") == "RSA" and not entry.get("alg")
    for algorithm in _OF_RSA if unnamed else (None,):
        with suppress(jwt.PyJWTError, ValueError, TypeError, NotImplementedError):
            yield jwt.PyJWK(entry, algorithm)
