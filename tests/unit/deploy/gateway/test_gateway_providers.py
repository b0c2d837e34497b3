"""Tokens as identity providers issue them: the claims and headers that their documents show."""

import json
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from eunoe.deploy.gateway.credentials import TokenChecker
from eunoe.deploy.gateway.keys import KeyScope
from eunoe.deploy.gateway.problems import Problem
from eunoe.deploy.settings.sections import GatewaySettings

ALLOWED = "RS256,PS256"
READS = {KeyScope.ASK, KeyScope.MEMORY_READ}


@lru_cache
def rsa_key(number: int) -> rsa.RSAPrivateKey:
    """A key that the tests of this file share; ``number`` tells it from others."""
    del number
    return rsa.generate_private_key(65537, 2048)


def entry(number: int = 1, **more: object) -> dict[str, Any]:
    """The entry of a key in a JWKS."""
    return {**json.loads(RSAAlgorithm.to_jwk(rsa_key(number).public_key())), **more}


def token(*, kid: str | None = "k1", algorithm: str = "RS256", key: int = 1, **claims: object) -> str:
    """A token with these claims beside those that all have."""
    soon = datetime.now(UTC) + timedelta(minutes=1)
    own = {"iss": "https://issuer", "aud": "memory", "sub": "ann", "exp": soon, "tenant": "acme", **claims}
    headers = {} if kid is None else {"kid": kid}
    return jwt.encode(own, rsa_key(key), algorithm=algorithm, headers=headers)


def checker(path, *entries: dict[str, Any], **settings: str) -> TokenChecker:
    """The checker over a JWKS with these entries."""
    path.write_text(json.dumps({"keys": entries}))
    own = GatewaySettings(
        jwks=str(path), jwt_issuer="https://issuer", jwt_audience="memory", jwt_algorithms=ALLOWED, **settings
    )
    found = TokenChecker.of(own)
    assert found is not None
    return found


@pytest.fixture
def path(tmp_path):
    return tmp_path / "jwks.json"


@pytest.mark.parametrize(
    "claims",
    [
        {"scope": "openid ask memory:read"},  # Auth0, Keycloak, Cognito
        {"scope": ["openid", "ask", "memory:read"]},  # Duende IdentityServer
        {"scp": ["openid", "ask", "memory:read"]},  # Okta, Ory
        {"scp": "ask memory:read"},  # Entra ID, for a person
        {"roles": ["ask", "memory:read"]},  # Entra ID, for a program
    ],
    ids=str,
)
async def test_scopes_are_read_where_a_provider_names_them(path, claims):
    checks = checker(path, entry(kid="k1", use="sig"))
    assert (await checks.caller(token(**claims))).scopes == READS


@pytest.mark.parametrize("claims", [{"scope": "ask", "roles": ["erase"]}, {"scp": ["ask"], "roles": ["erase"]}])
async def test_roles_add_nothing_to_scopes(path, claims):
    assert (await checker(path, entry(kid="k1")).caller(token(**claims))).scopes == {KeyScope.ASK}


@pytest.mark.parametrize("scope", ["", [], 7, {"ask": True}, [["ask"], 7], "asks", ["ask memory:read"], None])
async def test_what_names_no_scope_gives_none(path, scope):
    assert (await checker(path, entry(kid="k1")).caller(token(scope=scope))).scopes == frozenset()


@pytest.mark.parametrize("kid", [None, "k1"])
async def test_a_token_without_a_key_id_is_checked_by_the_only_key(path, kid):
    other = {"kty": "RSA", "use": "enc", "alg": "RSA-OAEP", "n": entry(2)["n"], "e": "AQAB", "kid": "for-encryption"}
    named = {} if kid is None else {"kid": kid}
    checks = checker(path, entry(alg="RS256", **named), other, entry(2, kid="encrypts", use="enc"))
    assert (await checks.caller(token(kid=None))).tenant == "acme"
    with pytest.raises(Problem, match="Signature"):
        await checks.caller(token(kid=None, key=2))


async def test_a_token_without_a_key_id_is_refused_where_there_are_several_keys(path):
    checks = checker(path, entry(kid="k1"), entry(2, kid="k2"))
    assert (await checks.caller(token())).tenant == "acme"
    with pytest.raises(Problem, match="names no key") as refused:
        await checks.caller(token(kid=None))
    assert refused.value.status == 401


async def test_a_key_without_an_algorithm_serves_all_that_are_allowed(path):
    checks = checker(path, entry(kid="k1"))
    for algorithm in ("RS256", "PS256"):
        assert (await checks.caller(token(algorithm=algorithm))).tenant == "acme"
    with pytest.raises(Problem, match="JWT_ALGORITHMS"):
        await checks.caller(token(algorithm="PS512"))


async def test_a_key_with_an_algorithm_serves_no_other(path):
    with pytest.raises(Problem, match="not in the JWKS"):
        await checker(path, entry(kid="k1", alg="RS256")).caller(token(algorithm="PS256"))


async def test_an_organization_of_a_list_of_one_is_the_tenant(path):
    checks = checker(path, entry(kid="k1"), jwt_tenant_claim="organization")
    assert (await checks.caller(token(organization=["acme"]))).tenant == "acme"
    for several in ([], ["acme", "other"], [["acme"]], {"acme": {}}):
        with pytest.raises(Problem, match="'organization'"):
            await checks.caller(token(organization=several))


async def test_an_entry_that_is_no_key_harms_no_other(path):
    odd = [entry(kid=["k1"]), entry(kid=7), entry(alg=["RS256"]), {"kty": "RSA"}, {"kty": "oct", "k": "c2VjcmV0"}]
    assert (await checker(path, *odd, entry(kid="k1")).caller(token())).tenant == "acme"
