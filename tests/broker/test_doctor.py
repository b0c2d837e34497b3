"""`eunoe doctor` on servers."""

import pytest

from eunoe.deploy.clients.shared import open_redis
from eunoe.deploy.doctor.checks import all_checks
from eunoe.deploy.doctor.findings import Level, exit_of, run_checks
from eunoe.deploy.exits import Exit
from eunoe.workers.models.dialect import Dialect, Formatting
from eunoe.workers.models.profile import profile_name, read_profile
from eunoe.workers.stores.profiles import RedisProfiles
from tests.support.pipeline import Pipeline
from tests.support.probed_endpoint import ProbedEndpoint

pytestmark = pytest.mark.broker
SERVERS = {"broker", "redis", "qdrant"}


async def test_the_doctor_finds_servers_and_says_what_is_missing(pipeline: Pipeline):
    settings = pipeline.settings
    checks = all_checks(settings, {}, thorough=False, model_limit_s=5)
    found = await run_checks([one for one in checks if one.part in SERVERS], lambda *_: None)
    assert {one.part for one in found if one.level is Level.OK} == SERVERS
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
