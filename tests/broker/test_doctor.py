"""`eunoe doctor` on servers."""

from functools import partial
from pathlib import Path

import pytest
from pydantic import SecretStr

from eunoe.deploy.clients.shared import open_redis
from eunoe.deploy.doctor.checks import all_checks
from eunoe.deploy.doctor.findings import Check, CheckResult, Level, exit_of, run_checks
from eunoe.deploy.doctor.redis import check_redis
from eunoe.deploy.exits import Exit
from eunoe.deploy.settings import Settings
from eunoe.workers.models.endpoint.dialect import Dialect, Formatting
from eunoe.workers.models.endpoint.profile import profile_name, read_profile
from eunoe.workers.stores.records.profiles import RedisProfiles
from tests.support.pipeline import Pipeline
from tests.support.probed_endpoint import ProbedEndpoint
from tests.support.valkeys import durable, valkey_cluster

pytestmark = pytest.mark.broker
SERVERS = {"broker", "redis", "qdrant"}


async def test_the_doctor_finds_servers_and_says_what_is_missing(pipeline: Pipeline):
    settings = pipeline.settings
    checks = all_checks(settings, {}, thorough=False, model_limit_s=5)
    found = await run_checks([one for one in checks if one.part in SERVERS], lambda *_: None)
    assert {one.part for one in found if one.level is Level.OK} == SERVERS
    assert "every master takes writes" in [one.text for one in found]
    assert [one.text for one in found if one.level is Level.FAULT] == [
        f"no topic of prefix {settings.prefix!r} exists: run `eunoe topics create`"
    ]
    assert exit_of(found) is Exit.FAILED


async def test_what_was_learned_of_an_endpoint_is_kept_for_all_processes(pipeline: Pipeline):
    endpoint = ProbedEndpoint(
        schema="unbounded",
        refuses=frozenset({"seed"}),
        length_field="max_completion_tokens",
        cap=4096,
        thoughts="<think>Let me see.</think>",
    )
    settings = pipeline.settings.model_copy(update={"model": "m"})
    async with endpoint.running() as running:
        checks = all_checks(settings, {"OPENAI_BASE_URL": running.url}, thorough=False, model_limit_s=60)
        found = await run_checks([one for one in checks if one.part == "model"], lambda *_: None)
    assert [one.text for one in found if "profile" in one.text] != []
    async with open_redis(settings) as redis:
        store = RedisProfiles(redis, settings.prefix)
        profile = read_profile(await store.get(profile_name(endpoint.url, "m")))
    assert (profile.cap, profile.thinking_tokens) == (4096, 1024)
    assert profile.dialect == Dialect(
        formatting=Formatting.PLAIN, length_field="max_completion_tokens", temperature=True, seed=False
    )
    assert profile.ratios


async def redis_findings(url: str) -> list[CheckResult]:
    check = Check("redis", partial(check_redis, Settings(redis_url=SecretStr(url))), 30)
    return await run_checks([check], lambda *_: None)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("CONFIG", "SET", "maxmemory", "1kb"), "used memory > 'maxmemory'"),
        (("CONFIG", "SET", "min-replicas-to-write", "1"), "Not enough good replicas"),
        (("REPLICAOF", "127.0.0.1", "1"), "read only replica"),
    ],
    ids=lambda found: found[-2] if isinstance(found, tuple) else "",
)
async def test_a_redis_that_answers_and_refuses_every_write_is_a_fault(
    words: tuple[str, ...], told: str, tmp_path: Path
):
    server = durable(tmp_path / "valkey")
    server.start()
    try:
        well = await redis_findings(f"redis://127.0.0.1:{server.port}/0")
        assert server.ask("DBSIZE") == 0, "the key of the doctor is gone"
        assert server.ask(*words) is not None
        found = await redis_findings(f"redis://127.0.0.1:{server.port}/0")
    finally:
        server.kill()
    assert {one.level for one in well} == {Level.OK}
    faults = [one.text for one in found if one.level is Level.FAULT]
    assert any("refuses writes" in text and told in text for text in faults), found


async def test_a_user_with_the_documented_rights_is_told_what_cannot_be_seen(tmp_path: Path):
    server = durable(tmp_path / "valkey")
    server.start()
    try:
        assert server.ask("ACL", "SETUSER", "op", "on", "+@all", "-@dangerous", "~eunoe*", ">secret") is not None
        found = await redis_findings(f"redis://op:secret@127.0.0.1:{server.port}/0")
    finally:
        server.kill()
    assert [one.level for one in found] == [Level.NOTE, Level.OK, Level.NOTE]
    assert ["INFO is forbidden" in found[0].text, "takes writes" in found[1].text] == [True, True]
    assert "CONFIG is forbidden" in found[2].text


async def test_of_a_cluster_each_master_is_tried(tmp_path: Path):
    with valkey_cluster(tmp_path / "cluster") as cluster:
        cluster.be_patient()
        well = await redis_findings(cluster.url)
        cluster.nodes[1].ask("CONFIG", "SET", "min-replicas-to-write", "1")
        found = await redis_findings(cluster.url)
    assert "every master takes writes" in [one.text for one in well]
    faults = [one.text for one in found if one.level is Level.FAULT]
    assert len(faults) == 1
    assert faults[0].startswith(f"127.0.0.1:{cluster.nodes[1].port} refuses writes")
