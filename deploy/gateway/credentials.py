"""Checks credentials: API keys, and tokens (JWT) signed with a key of a JWKS."""

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any, Final

import httpx2
import jwt

from eunoe.deploy.gateway.keys import Caller, KeyFile, KeyScope
from eunoe.deploy.gateway.problems import Problem
from eunoe.deploy.settings.sections import GatewaySettings
from eunoe.schemas.errors import Refused

log = logging.getLogger(__name__)

REFETCH_S: Final = 30.0
"""Least time between two reads of the JWKS for keys that are not in it."""
_FETCH_S: Final = 5.0
_MAX_JWKS_BYTES: Final = 1_000_000

Now = Callable[[], datetime]


def utc_now() -> datetime:
    """The time now, in UTC."""
    return datetime.now(UTC)


def unauthorized(detail: str) -> Problem:
    """401."""
    return Problem(401, detail, headers={"WWW-Authenticate": "Bearer"})


@dataclass(slots=True)
class Credentials:
    """Finds the caller of a request by its ``Authorization`` header."""

    keys: KeyFile
    tokens: "TokenChecker | None" = None
    now: Now = utc_now

    async def caller(self, header: str | None) -> Caller:
        """The caller; raises `Problem` (401) where there is no valid credential."""
        kind, _, secret = (header or "").partition(" ")
        if kind.lower() != "bearer" or not secret.strip():
            raise unauthorized("send a key: `Authorization: Bearer eu_…` (`eunoe keys create` makes one)")
        secret = secret.strip()
        if secret.startswith("eu_"):
            return self._of_key(secret)
        if self.tokens is None:
            raise unauthorized("the key is unknown, revoked or expired")
        return await self.tokens.caller(secret)

    def _of_key(self, secret: str) -> Caller:
        try:
            key = self.keys.find(secret, self.now())
        except Refused as fault:
            log.error("%s", fault)  # noqa: TRY400 - the operator's fault, in one line
            raise Problem(503, "the keys cannot be read now", headers={"Retry-After": "5"}) from None
        if key is None:
            raise unauthorized("the key is unknown, revoked or expired")
        return Caller(key.id, key.tenant, key.scopes, key.conversations)


@dataclass(slots=True)
class TokenChecker:
    """Checks tokens; ``source`` is the file or URL of the JWKS."""

    source: str
    issuer: str
    audience: str
    algorithms: tuple[str, ...]
    tenant_claim: str
    _keys: Mapping[str, jwt.PyJWK] = field(default_factory=dict)
    _read_at: float = float("-inf")
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @classmethod
    def of(cls, settings: GatewaySettings) -> "TokenChecker | None":
        """The checker of these settings; `None` without a JWKS. Raises `Refused` for incomplete settings."""
        if settings.jwks is None:
            return None
        if not (settings.jwt_issuer and settings.jwt_audience):
            raise Refused("EUNOE_GATEWAY__JWKS needs EUNOE_GATEWAY__JWT_ISSUER and EUNOE_GATEWAY__JWT_AUDIENCE")
        algorithms = tuple(name.strip() for name in settings.jwt_algorithms.split(","))
        if any(name.startswith("HS") or name.lower() == "none" for name in algorithms):
            raise Refused("EUNOE_GATEWAY__JWT_ALGORITHMS: algorithms with public keys alone, like ES256")
        return cls(
            source=settings.jwks,
            issuer=settings.jwt_issuer,
            audience=settings.jwt_audience,
            algorithms=algorithms,
            tenant_claim=settings.jwt_tenant_claim,
        )

    async def caller(self, token: str) -> Caller:
        """The caller that a token names; raises `Problem` (401)."""
        try:
            key = await self._key(str(jwt.get_unverified_header(token).get("kid", "")))
            if key is None:
                raise unauthorized("the token is signed with a key that is not in the JWKS")
            claims = jwt.decode(
                token,
                key,
                algorithms=list(self.algorithms),
                audience=self.audience,
                issuer=self.issuer,
                options={"require": ["exp", "iss", "aud"]},
            )
        except jwt.PyJWTError as fault:
            raise unauthorized(f"the token is not valid: {fault!s:.200}") from None
        return self._of_claims(claims)

    def _of_claims(self, claims: Mapping[str, Any]) -> Caller:
        tenant = claims.get(self.tenant_claim)
        if not isinstance(tenant, str) or not tenant or tenant == "*":
            raise unauthorized(f"the token has no claim {self.tenant_claim!r} that names a tenant")
        scope = claims.get("scope", "")
        words = scope.split() if isinstance(scope, str) else []
        scopes = frozenset(KeyScope(word) for word in words if word in set(KeyScope))
        prefix = claims.get("conversations", "")
        if not isinstance(prefix, str):
            raise unauthorized("the claim 'conversations' of the token is not a text")
        return Caller(f"jwt:{tenant}:{claims.get('sub', '')}"[:200], tenant, scopes, prefix)

    async def _key(self, kid: str) -> jwt.PyJWK | None:
        if kid not in self._keys:
            async with self._lock:
                if kid not in self._keys and monotonic() - self._read_at >= REFETCH_S:
                    await self._refetch()
        return self._keys.get(kid)

    async def _refetch(self) -> None:
        self._read_at = monotonic()
        try:
            document = json.loads(await self._text())
            self._keys = {key.key_id: key for key in jwt.PyJWKSet.from_dict(document).keys if key.key_id}
        except (OSError, ValueError, httpx2.HTTPError, jwt.PyJWTError) as fault:
            log.warning("JWKS not read: %s: %s", self.source, fault)

    async def _text(self) -> bytes:
        if not self.source.startswith(("https://", "http://")):
            return await asyncio.to_thread(Path(self.source).read_bytes)
        async with httpx2.AsyncClient(timeout=_FETCH_S) as client:
            answer = await client.get(self.source)
            answer.raise_for_status()
            return answer.content[:_MAX_JWKS_BYTES]
