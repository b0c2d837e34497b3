"""Checks credentials: API keys, and tokens (JWT) signed with a key of a JWKS."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Final
from urllib.parse import quote

import jwt
from pydantic import TypeAdapter, ValidationError

from eunoe.deploy.gateway.jwks import KeySet
from eunoe.deploy.gateway.keys import ANY_TENANT, Caller, KeyFile, KeyScope
from eunoe.deploy.gateway.problems import Problem
from eunoe.deploy.settings.sections import GatewaySettings
from eunoe.schemas.base import Identifier
from eunoe.schemas.errors import Refused

SKEW_S: Final = 30
"""Seconds by which the clock of an identity provider may differ: a token of just now is not one of the future."""
_NAME_CHARS: Final = 200
"""Characters of a caller's name."""
_SCOPE_CLAIMS: Final = ("scope", "scp", "roles")
"""Each holds words or a list. ``scp`` is that of Okta and Entra ID, which gives programs ``roles`` and no other."""
_NO_KEY: Final = "the token is signed with a key that is not in the JWKS"
_NO_ID: Final = "the token names no key (`kid`), and the JWKS has not exactly one for its algorithm"
_ID: Final[TypeAdapter[str]] = TypeAdapter(Identifier)

log = logging.getLogger(__name__)

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


@dataclass(frozen=True, slots=True)
class TokenChecker:
    """Checks tokens."""

    keys: KeySet
    issuer: str
    audience: str
    algorithms: tuple[str, ...]
    tenant_claim: str

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
            keys=KeySet(settings.jwks, settings.jwks_seconds, max(settings.jwks_seconds, settings.jwks_max_seconds)),
            issuer=settings.jwt_issuer,
            audience=settings.jwt_audience,
            algorithms=algorithms,
            tenant_claim=settings.jwt_tenant_claim,
        )

    async def caller(self, token: str) -> Caller:
        """The caller that a token names; raises `Problem` (401; 503 where the JWKS was not read for too long)."""
        try:
            key = await self._key(jwt.get_unverified_header(token))
            claims = jwt.decode(
                token,
                key,
                algorithms=list(self.algorithms),
                audience=self.audience,
                issuer=self.issuer,
                leeway=SKEW_S,
                options={"require": ["exp", "iss", "aud"]},
            )
        except jwt.PyJWTError as fault:
            raise unauthorized(f"the token is not valid: {fault!s:.200}") from None
        return self._of_claims(claims)

    async def _key(self, header: Mapping[str, Any]) -> jwt.PyJWK:
        """The key that a header names; raises `Problem` (401) where it names none that may sign."""
        algorithm, id_ = str(header.get("alg")), str(header.get("kid") or "")
        if algorithm not in self.algorithms:
            raise unauthorized("the token's algorithm is none of EUNOE_GATEWAY__JWT_ALGORITHMS")
        key = await self.keys.find(id_, algorithm)
        if key is None:
            raise unauthorized(_NO_KEY if id_ else _NO_ID)
        return key

    def _of_claims(self, claims: Mapping[str, Any]) -> Caller:
        tenant = self._tenant(claims)
        prefix = claims.get("conversations", "")
        if not isinstance(prefix, str):
            raise unauthorized("the claim 'conversations' of the token is not a text")
        return Caller(_name(tenant, claims.get("sub", "")), tenant, _scopes(claims), prefix)

    def _tenant(self, claims: Mapping[str, Any]) -> str:
        given = claims.get(self.tenant_claim)
        if isinstance(given, list) and len(given) == 1:  # organizations come as a list, of one where one is chosen
            given = given[0]
        try:
            tenant = _ID.validate_python(given)
        except ValidationError:
            tenant = ANY_TENANT
        if tenant == ANY_TENANT:
            form = "1 to 200 characters, without control characters or white space at its ends"
            raise unauthorized(f"the token has no claim {self.tenant_claim!r} that names a tenant: {form}")
        return tenant


def _scopes(claims: Mapping[str, Any]) -> frozenset[KeyScope]:
    """The scopes of a token, by the first of its claims that can name them."""
    given = next((claims[name] for name in _SCOPE_CLAIMS if claims.get(name) is not None), "")
    words = given.split() if isinstance(given, str) else given
    return frozenset(one for one in KeyScope if isinstance(words, list) and one.value in words)


def _name(tenant: str, subject: str) -> str:
    """The name of a caller in limits and logs: that of no other tenant or subject, however long they are."""
    name = f"jwt:{quote(tenant, safe='')}:{subject}"
    sent = name.encode(errors="surrogatepass")  # JSON can hold half a character
    if len(name) > _NAME_CHARS or name != sent.decode(errors="replace"):
        return f"jwt:{sha256(sent).hexdigest()}"
    return name
