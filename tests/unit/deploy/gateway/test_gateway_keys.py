"""API keys, tokens, rate limits and the description of the routes."""

import fcntl
import json
import stat
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from jsonschema import Draft202012Validator
from jwt.algorithms import ECAlgorithm

from eunoe.deploy.cli import keys as commands
from eunoe.deploy.cli.main import _run, _run_called
from eunoe.deploy.gateway import keys as keys_module
from eunoe.deploy.gateway.credentials import TokenChecker
from eunoe.deploy.gateway.keys import ANY_TENANT, Caller, KeyFile, KeyPlan, KeyScope, kept_key, new_key, write_private
from eunoe.deploy.gateway.limits import ProcessLimiter, Rate
from eunoe.deploy.gateway.openapi import openapi_document
from eunoe.deploy.gateway.problems import Problem
from eunoe.deploy.gateway.routing import ROUTES
from eunoe.deploy.settings.sections import GatewaySettings
from eunoe.schemas.errors import Refused
from tests.support.disk import synced
from tests.support.gateway import make_gateway

NOW = datetime(2026, 3, 1, tzinfo=UTC)
PLAN = KeyPlan("acme", frozenset({KeyScope.ASK}))


# ---- the file


def test_a_key_is_kept_as_a_hash_in_a_file_of_its_owner(tmp_path):
    keys = KeyFile(tmp_path / "new" / "keys.json")
    secret, kept = new_key(PLAN, NOW)
    keys.add(kept)
    assert secret not in keys.path.read_text()
    assert secret.split("_", 2)[2] not in keys.path.read_text()
    assert {stat.S_IMODE(file.stat().st_mode) for file in keys.path.parent.iterdir()} == {0o600}
    assert keys.find(secret, NOW) == kept
    assert keys.find(secret[:-1], NOW) is None
    assert keys.find("eu_x", NOW) is None


def test_a_change_of_the_file_is_seen_by_a_gateway_that_runs(tmp_path):
    keys, other = KeyFile(tmp_path / "keys.json"), KeyFile(tmp_path / "keys.json")
    first, one = new_key(PLAN, NOW)
    assert keys.find(first, NOW) is None
    other.add(one)
    assert keys.find(first, NOW) == one
    other.revoke([one.id])
    assert keys.find(first, NOW) is None


def test_an_unknown_key_is_not_revoked_and_nor_are_the_others(tmp_path):
    keys = KeyFile(tmp_path / "keys.json")
    _, kept = new_key(PLAN, NOW)
    keys.add(kept)
    with pytest.raises(Refused, match="no key nothing"):
        keys.revoke([kept.id, "nothing"])
    assert keys.all() == [kept]


def test_a_damaged_file_is_named_with_what_helps(tmp_path):
    keys, (_, kept) = KeyFile(tmp_path / "keys.json"), new_key(PLAN, NOW)
    (tmp_path / "keys.json").write_text("{")
    with pytest.raises(Refused, match="remove it and make keys with `eunoe keys create`"):
        keys.add(kept)
    (tmp_path / "keys.json").unlink()
    keys.add(kept)
    (tmp_path / "keys.json").write_text("{")
    for path in (tmp_path / "keys.json", Path("/dev/zero")):  # the second one never ends
        with pytest.raises(Refused, match="not a file of keys"):
            KeyFile(path).all()


def test_a_write_that_fails_leaves_the_keys_as_they_were_and_no_other_file(tmp_path):
    (tmp_path / "keys.json").write_text("kept")
    with pytest.raises(UnicodeEncodeError):
        write_private(tmp_path / "keys.json", "\ud800")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("keys.json", "kept")]


def test_a_change_is_on_disk_when_it_is_said_to_be_made(tmp_path, monkeypatch):
    keys, (_, kept) = KeyFile(tmp_path / "keys.json"), new_key(PLAN, NOW)
    for change in (lambda: keys.add(kept), lambda: keys.revoke([kept.id])):
        with monkeypatch.context() as watched:
            paths = synced(watched)
            change()
        assert [path.name.partition(".json")[0] for path in paths] == [".keys", tmp_path.name]


def test_a_change_waits_for_another_and_not_for_ever(tmp_path, monkeypatch):
    keys, (_, kept) = KeyFile(tmp_path / "keys.json"), new_key(PLAN, NOW)
    monkeypatch.setattr(keys_module, "_LOCKED_S", 0.05)
    with (tmp_path / "keys.lock").open("a") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(Refused, match=r"keys\.json is being changed by a process that has .*keys\.lock open"):
            keys.add(kept)
    keys.add(kept)
    assert keys.all() == [kept]


def test_the_key_of_a_data_directory_is_made_once(tmp_path):
    keys, secret_file = KeyFile(tmp_path / "keys.json"), tmp_path / "gateway-key"
    first = kept_key(keys, secret_file, PLAN)
    assert kept_key(keys, secret_file, PLAN) == first
    assert stat.S_IMODE(secret_file.stat().st_mode) == 0o600
    keys.revoke([keys.all()[0].id])
    assert kept_key(keys, secret_file, PLAN) != first


def test_the_commands_make_list_and_revoke_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["eunoe", "keys", *words])
        code = _run(_run_called)
        return code, *capsys.readouterr()

    made = json.loads(run("create", "--tenant", "acme", "--scope", "ask", "--expires", "30d", "--json")[1])
    assert made["key"].startswith(f"eu_{made['id']}_")
    assert made["scopes"] == ["ask"]
    code, listed, _ = run("list")
    assert (code, made["id"] in listed, made["key"] in listed) == (0, True, False)
    assert run("revoke", made["id"])[0] == 0
    assert made["id"] not in run("list")[1]
    code, _, wrong = run("create", "--expires", "soon")
    assert (code, len(wrong.splitlines())) == (2, 1)
    code, _, beyond = run("create", "--expires", "9999-12-31T23:59:59-01:00")
    assert (code, "outside of the calendar" in beyond) == (2, True)


# ---- tokens


class Signer:
    """Signs tokens, and writes the JWKS with its key."""

    def __init__(self, path, kid: str = "k1") -> None:
        self.kid = kid
        self._key = ec.generate_private_key(ec.SECP256R1())
        public = json.loads(ECAlgorithm(ECAlgorithm.SHA256).to_jwk(self._key.public_key()))
        path.write_text(json.dumps({"keys": [{**public, "kid": kid, "alg": "ES256", "use": "sig"}]}))

    def token(self, **changed: object) -> str:
        claims = {
            "iss": "https://issuer", "aud": "memory", "sub": "ann", "tenant": "acme", "scope": "ask memory:read other",
            "exp": datetime.now(UTC) + timedelta(minutes=1),
        }  # fmt: skip
        claims |= changed
        own = {name: value for name, value in claims.items() if value is not None}
        return jwt.encode(own, self._key, algorithm="ES256", headers={"kid": self.kid})


@pytest.fixture
def jwks(tmp_path):
    return tmp_path / "jwks.json"


@pytest.fixture
def signer(jwks) -> Signer:
    return Signer(jwks)


@pytest.fixture
def checker(jwks) -> TokenChecker:
    found = TokenChecker.of(GatewaySettings(jwks=str(jwks), jwt_issuer="https://issuer", jwt_audience="memory"))
    assert found is not None
    return found


async def test_a_token_names_tenant_scopes_and_prefix(signer, checker):
    caller = await checker.caller(signer.token(conversations="team-"))
    assert caller == Caller("jwt:acme:ann", "acme", frozenset({KeyScope.ASK, KeyScope.MEMORY_READ}), "team-")


@pytest.mark.parametrize(
    "changed",
    [
        {"exp": datetime(2026, 1, 1, tzinfo=UTC)}, {"exp": None}, {"iss": "https://other"}, {"iss": None},
        {"aud": "other"}, {"aud": None}, {"tenant": None}, {"tenant": "*"}, {"tenant": 7}, {"conversations": 7},
        {"tenant": ""}, {"tenant": " acme"}, {"tenant": "a\0"}, {"tenant": "a" * 201}, {"tenant": "\ud800"},
    ],
    ids=ascii,
)  # fmt: skip
async def test_a_wrong_token_is_401(signer, checker, changed):
    with pytest.raises(Problem) as refused:
        await checker.caller(signer.token(**changed))
    assert refused.value.status == 401


async def test_the_clock_of_the_issuer_may_be_half_a_minute_ahead(signer, checker):
    def soon(seconds: int) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=seconds)

    for claim in ("iat", "nbf"):
        assert (await checker.caller(signer.token(**{claim: soon(20)}))).tenant == "acme"
        with pytest.raises(Problem, match="not yet valid"):
            await checker.caller(signer.token(**{claim: soon(90)}))
    assert (await checker.caller(signer.token(exp=soon(-20)))).tenant == "acme"
    with pytest.raises(Problem, match="expired"):
        await checker.caller(signer.token(exp=soon(-90)))


async def test_no_two_holders_of_tokens_share_a_name(signer, checker):
    holders = [("acme", "ann"), ("acme:ann", ""), ("acme", "ann:"), *((("a" * 200), sub) for sub in ("1", "2"))]
    names = [(await checker.caller(signer.token(tenant=tenant, sub=sub))).id for tenant, sub in holders]
    names += [(await checker.caller(signer.token(sub=sub))).id for sub in ("\ud800", "\ud801", "\ufffd")]
    assert len(set(names)) == len(names)
    assert all(len(name.encode()) <= 700 for name in names)


async def test_a_token_of_another_signer_or_of_no_algorithm_is_401(tmp_path, signer, checker):
    other = Signer(tmp_path / "other.json")
    unsigned = jwt.encode({"tenant": "acme"}, None, algorithm="none", headers={"kid": "k1"})
    for token in (other.token(), unsigned, "x", "a.b.c", Signer(tmp_path / "third.json", kid="k9").token()):
        with pytest.raises(Problem) as refused:
            await checker.caller(token)
        assert refused.value.status == 401


async def test_a_new_key_of_the_issuer_is_read_but_not_at_each_unknown_one(jwks, signer, checker):
    await checker.caller(signer.token())
    rotated = Signer(jwks, kid="k2")
    with pytest.raises(Problem):
        await checker.caller(rotated.token())
    checker.keys._tried_at = float("-inf")
    assert (await checker.caller(rotated.token())).tenant == "acme"


def test_incomplete_or_dangerous_settings_of_tokens_are_refused():
    with pytest.raises(Refused, match="JWT_ISSUER"):
        TokenChecker.of(GatewaySettings(jwks="x"))
    with pytest.raises(Refused, match="ALGORITHMS"):
        TokenChecker.of(GatewaySettings(jwks="x", jwt_issuer="i", jwt_audience="a", jwt_algorithms="ES256,HS256"))


# ---- rates


async def test_the_process_limits_as_the_rate_says():
    now = [0.0]
    limiter, rate = ProcessLimiter(clock=lambda: now[0]), Rate(10, 5)
    assert [await limiter.wait_s("a", rate, 1) for _ in range(5)] == [0.0] * 5
    wait = await limiter.wait_s("a", rate, 1)
    assert wait == pytest.approx(0.1)
    assert await limiter.wait_s("b", rate, 1) == 0
    now[0] += wait
    assert await limiter.wait_s("a", rate, 1) == 0
    assert await limiter.wait_s("a", rate, 3) == pytest.approx(0.3)


def test_a_script_gets_the_key_alone(tmp_path, capsys):
    commands.create(file=tmp_path / "keys.json")
    printed, told = capsys.readouterr()
    assert printed.startswith("eu_")
    assert len(printed.split()) == 1
    assert "is not shown again" in " ".join(told.split())


def test_a_key_of_all_tenants_has_the_scopes_that_it_can_use(tmp_path, capsys):
    kept = tmp_path / "keys.json"
    commands.create(tenant=ANY_TENANT, scope=[KeyScope.LETTERS_READ, KeyScope.PROCESSES_READ], file=kept)
    key = KeyFile(kept).find(capsys.readouterr().out.strip(), datetime.now(UTC))
    assert key is not None
    assert key.scopes == {KeyScope.LETTERS_READ, KeyScope.PROCESSES_READ}
    with pytest.raises(Refused, match="it cannot have operate;"):
        commands.create(tenant=ANY_TENANT, scope=[KeyScope.LETTERS_READ, KeyScope.OPERATE], file=kept)
    assert len(KeyFile(kept).all()) == 1


# ---- the description


def test_the_description_is_valid_and_has_every_route():
    document = openapi_document()
    operations = {(method.upper(), path) for path, item in document["paths"].items() for method in item}
    assert operations == {(route.method, route.path) for route in ROUTES} | {("GET", "/v1/openapi.json")}
    ids = [operation["operationId"] for item in document["paths"].values() for operation in item.values()]
    assert len(set(ids)) == len(ids)
    for schema in document["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)


def test_the_description_says_of_each_operation_why_it_may_answer_429():
    document = openapi_document()
    operations = {one["operationId"]: one for item in document["paths"].values() for one in item.values()}
    told = {name: one["responses"]["429"] for name, one in operations.items() if name != "openapi"}
    assert all(one["headers"]["Retry-After"]["required"] for one in told.values())
    texts = {name: one["description"] for name, one in told.items()}
    assert texts["list_memories"] == "Too many requests with this key."
    assert "open streams of this key or of its tenant" in texts["follow_all"]
    assert "requests that wait of this key or of its tenant" in texts["show_session"]
    assert all(word in texts["resume_ask"] for word in ("open streams", "requests that wait", "lookups"))
    assert "lookups" in texts["explain_reply"]
    assert "a plan of this tenant is being made" in texts["plan_erasure"]
    assert "Retry-After" in operations["recall"]["responses"]["503"]["headers"]


def test_the_description_says_what_comes_where_an_answer_is_late():
    document = openapi_document()
    prefer = {
        one["operationId"]: header["description"]
        for item in document["paths"].values()
        for one in item.values()
        for header in one.get("parameters", ())
        if header["name"] == "Prefer"
    }
    assert {name: text[-4:] for name, text in prefer.items()} == {"ask": "202.", "resume_ask": "202.", "recall": "504."}


async def test_what_the_document_describes_is_what_is_served(tmp_path):
    gateway = make_gateway(tmp_path)
    async with gateway.client() as client:
        assert (await client.get("/v1/openapi.json")).json() == openapi_document()
