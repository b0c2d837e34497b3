"""The doctor's checks of servers, without servers."""

import asyncio
import importlib.util
import re
import threading
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import cast

import httpx
import pytest
from pydantic import SecretStr
from qdrant_client import AsyncQdrantClient
from qdrant_client.http.exceptions import UnexpectedResponse
from redis.asyncio import Redis

from eunoe.deploy.doctor import checks
from eunoe.deploy.doctor.brief import brief_checks
from eunoe.deploy.doctor.broker import check_in_sync, check_limits, check_replicas
from eunoe.deploy.doctor.checks import PARTS, all_checks
from eunoe.deploy.doctor.erasures import check_erasures
from eunoe.deploy.doctor.findings import Check, Findings, Level, exit_of, run_checks
from eunoe.deploy.doctor.qdrant import check_writes as check_points
from eunoe.deploy.doctor.redis import check_durability
from eunoe.deploy.doctor.redis_writes import check_server
from eunoe.deploy.exits import Exit
from eunoe.deploy.settings import Settings
from eunoe.schemas.erasure import Erasure, ErasureDone, ErasureLevel, ErasureRefused, ErasureRequest
from eunoe.schemas.errors import Refused, Unavailable
from eunoe.streams.topic_settings import TopicDetail
from eunoe.streams.topics import TOPICS, Topic
from eunoe.workers.stores.erasures.sqlite_ledger import SqliteErasures

MIB = 2**20
HOUR_MS = 3_600_000
GOOD = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1", "max.message.bytes": "1048576"}


@pytest.mark.parametrize(
    ("topic", "changed", "levels"),
    [
        (Topic.CONVERSATIONS, {}, [Level.OK]),
        (Topic.CONVERSATIONS, {"retention.ms": "604800000"}, [Level.FAULT]),
        (Topic.CONVERSATIONS, {"retention.bytes": "1000"}, [Level.FAULT]),
        (Topic.CONVERSATIONS, {"cleanup.policy": "compact"}, [Level.FAULT]),
        (Topic.CONVERSATIONS, {"max.message.bytes": "1000"}, [Level.OK, Level.FAULT]),
        (Topic.SESSIONS, {"retention.ms": "604800000"}, []),
        (Topic.SESSIONS, {"retention.ms": "60000"}, [Level.WARNING]),
        (Topic.SESSIONS, {"retention.bytes": "1000"}, [Level.WARNING]),
        (Topic.CONVERSATIONS, {"message.timestamp.type": "LogAppendTime"}, [Level.OK]),
        (Topic.CONVERSATIONS, {"message.timestamp.type": "CreateTime"}, [Level.OK, Level.WARNING]),
        (Topic.SESSIONS, {"message.timestamp.type": "CreateTime"}, []),
        (Topic.ANSWERS, {}, [Level.WARNING]),
        (Topic.ANSWERS, {"cleanup.policy": "compact"}, []),
    ],
)
def test_settings_of_topics_that_lose_records_are_named(topic: Topic, changed: dict[str, str], levels: list[Level]):
    findings = Findings("broker")
    check_limits(TopicDetail("t", 3, 0, GOOD | changed), TOPICS[topic], findings)
    assert [one.level for one in findings.found] == levels


@pytest.mark.parametrize(
    ("retention_ms", "level"), [(24 * HOUR_MS, Level.OK), (48 * HOUR_MS, Level.OK), (HOUR_MS, Level.WARNING)]
)
def test_a_door_that_closes_sooner_than_the_setting_says_is_named(retention_ms: int, level: Level):
    findings = Findings("broker")
    kept = {**GOOD, "retention.ms": str(retention_ms)}
    check_limits(TopicDetail("t", 3, 0, kept), TOPICS[Topic.CONVERSATIONS], findings, door_ms=24 * HOUR_MS)
    (found,) = findings.found
    assert found.level is level
    assert f"kept for {retention_ms // HOUR_MS} h" in found.text
    assert ("retention.ms to 86400000" in found.text) is (level is Level.WARNING)


@pytest.mark.parametrize(
    ("replicas", "least", "levels"),
    [
        (3, "2", []),
        (1, "1", []),
        (3, "1", [Level.WARNING]),
        (1, "2", [Level.FAULT]),
        (3, "", []),  # the broker does not tell
    ],
)
def test_copies_that_an_acknowledged_record_needs_are_compared_with_those_there_are(
    replicas: int, least: str, levels: list[Level]
):
    findings = Findings("broker")
    topics = [TopicDetail(name, replicas, 0, {"min.insync.replicas": least}) for name in ("one", "two")]
    check_in_sync(topics, findings)
    assert [one.level for one in findings.found] == levels
    assert all("one, two" in one.text for one in findings.found)


def test_one_copy_of_a_topic_is_told_without_a_setting_that_one_broker_cannot_fulfil():
    findings = Findings("broker")
    check_replicas([TopicDetail("one", 1, 0, {}), TopicDetail("two", 3, 0, {})], Settings(), findings)
    (found,) = findings.found
    assert (found.level, dict(found.settings)) == (Level.WARNING, {})
    assert "a lost disk loses the log" in found.text


@pytest.mark.parametrize(
    ("fsync", "embedded", "level", "told"),
    [
        ("always", False, Level.OK, "keeps what it acknowledges: "),
        ("everysec", False, Level.WARNING, "a power failure loses up to about a second"),
        ("everysec", True, Level.OK, "but for the last second before a power failure"),
        ("no", False, Level.WARNING, "half a minute"),
    ],
)
def test_a_redis_that_forgets_in_a_power_failure_is_not_said_to_keep_everything(
    fsync: str, embedded: bool, level: Level, told: str
):
    findings = Findings("redis")
    config = {"appendonly": "yes", "appendfsync": fsync, "maxmemory-policy": "noeviction"}
    check_durability("r:1", config, findings, embedded=embedded)
    (found,) = findings.found
    assert found.level is level
    assert told in found.text


async def test_a_check_that_hangs_ends_and_keeps_what_it_found():
    async def hang(findings: Findings) -> None:
        findings.ok("it was there")
        await asyncio.Event().wait()

    found = await run_checks([Check("redis", hang, 0.05)], lambda *_: None)
    assert [one.level for one in found] == [Level.OK, Level.AWAY]
    assert "within 0.05 s" in found[1].text
    assert exit_of(found) is Exit.UNAVAILABLE


async def test_other_checks_go_on_while_the_client_of_qdrant_is_imported(monkeypatch: pytest.MonkeyPatch):
    gone_on = threading.Event()

    async def look(_settings: Settings, findings: Findings) -> None:
        findings.ok("they went on")

    def imported():
        assert gone_on.wait(5), "the import holds up the event loop"
        return look

    monkeypatch.setattr(checks, "_load_qdrant_check", imported)
    settings = Settings(qdrant_url="http://127.0.0.1:9")
    (check,) = (one for one in all_checks(settings, {}, thorough=False, model_limit_s=1) if one.part == "qdrant")
    asyncio.get_running_loop().call_later(0.01, gone_on.set)
    (found,) = await run_checks([check], lambda *_: None)
    assert (found.level, found.text) == (Level.OK, "they went on")


async def test_faults_outweigh_absence():
    async def refuse(findings: Findings) -> None:
        raise Refused("wrong")

    async def absent(findings: Findings) -> None:
        raise Unavailable("away", "x")

    steps: list[tuple[str, int, int, str]] = []
    found = await run_checks([Check("a", refuse, 1), Check("b", absent, 1)], lambda *step: steps.append(step))
    assert [(one.part, one.level, one.text) for one in found] == [
        ("a", Level.FAULT, "wrong"),
        ("b", Level.AWAY, "away"),
    ]
    assert exit_of(found) is Exit.FAILED
    assert ("a", 1, 1, "done") in steps


async def test_without_servers_only_notes_are_made():
    found = await run_checks(all_checks(Settings(), {}, thorough=False, model_limit_s=5), lambda *_: None)
    assert {one.level for one in found} == {Level.NOTE, Level.OK}
    assert exit_of(found) is Exit.OK


@pytest.mark.parametrize(
    ("minutes", "at_work", "level", "told"),
    [
        (0.2, False, Level.OK, "oldest for 0 minutes"),
        (1.2, True, Level.OK, "oldest for 1 minute; a process erases"),
        (5, True, Level.OK, "a process erases"),
        (5, False, Level.WARNING, "no process erases"),
        (90, False, Level.FAULT, "no process erases"),
        (90, True, Level.FAULT, "a process erases"),
    ],
)
async def test_erasures_that_nobody_carries_out_are_told(
    tmp_path: Path, minutes: float, at_work: bool, level: Level, told: str
):
    settings = Settings(erasures=SecretStr(str(tmp_path / "ledger.sqlite")))
    ledger = SqliteErasures(tmp_path / "ledger.sqlite")
    at = datetime.now(UTC) - timedelta(minutes=minutes)
    await ledger.request(ErasureRequest(request_id="r", key="default/a", at=at))
    if at_work:
        assert await ledger.lease("another", 60)
    (found,) = await run_checks([Check("erasures", partial(check_erasures, settings), 5)], lambda *_: None)
    assert found.level is level
    assert "erasures that wait: 1" in found.text
    assert told in found.text
    assert await ledger.lease("eraser", 60) is not at_work, "the doctor keeps nobody away"


async def test_erasures_that_are_done_or_refused_wait_no_more(tmp_path: Path):
    settings = Settings(erasures=SecretStr(str(tmp_path / "ledger.sqlite")))
    ledger, at = SqliteErasures(tmp_path / "ledger.sqlite"), datetime.now(UTC) - timedelta(days=1)
    for name in ("done", "refused"):
        await ledger.request(ErasureRequest(request_id=name, key="default/a", at=at))
    begun = Erasure(request_id="done", key="default/a", level=ErasureLevel.CONVERSATION, at=at, until=0, salt="s")
    await ledger.begin(begun)
    await ledger.finish(ErasureDone(request_id="done", key="default/a", at=at, receipt="{}"))
    await ledger.refuse(ErasureRefused(request_id="refused", key="default/a", at=at, reason="unknown"))
    findings = Findings("erasures")
    await check_erasures(settings, findings)
    assert [(one.level, one.text) for one in findings.found] == [
        (Level.OK, "the ledger of erasures answers; no erasure waits")
    ]


@pytest.mark.parametrize(
    ("in_redis", "in_ledger", "told"),
    [
        ({"a"}, {"a"}, []),
        (set(), {"a"}, ["Redis has not seen 1 of 1 finished erasures.*eunoe erase replay"]),
        ({"a", "b"}, {"a"}, ["the ledger of erasures lacks 1 of 2.*restore the latest"]),
        ({"a"}, None, [r"erasures were carried out on these servers \(1\), but there is no ledger"]),
        (set(), None, []),
    ],
)
async def test_a_ledger_and_a_redis_that_tell_of_different_erasures_are_a_fault(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, in_redis: set[str], in_ledger: set[str] | None, told: list[str]
):
    file, at = tmp_path / "ledger.sqlite", datetime.now(UTC)
    ledger = SqliteErasures(file)
    for name in in_ledger or ():
        await ledger.begin(
            Erasure(request_id=name, key="default/a", level=ErasureLevel.CONVERSATION, at=at, until=0, salt="s")
        )
        await ledger.finish(ErasureDone(request_id=name, key="default/a", at=at, receipt="{}"))

    async def applied(_: object) -> set[tuple[str, str]]:
        return {("default/a", name) for name in in_redis}

    monkeypatch.setattr("eunoe.deploy.clients.erasures.open_redis", lambda _settings: nullcontext(Redis()))
    monkeypatch.setattr("eunoe.deploy.clients.erasures.AppliedErasures.all", applied)
    settings = Settings(
        redis_url=SecretStr("redis://127.0.0.1:1/0"),
        erasures=None if in_ledger is None else SecretStr(str(file)),
    )
    findings = Findings("erasures")
    await check_erasures(settings, findings)
    faults = [one.text for one in findings.found if one.level is Level.FAULT]
    assert len(faults) == len(told)
    assert all(re.search(words, text) for words, text in zip(told, faults, strict=True)), faults


SOUND = {"role": "master", "used_memory": 50 * MIB, "maxmemory": 100 * MIB, "maxmemory_policy": "noeviction"}


@pytest.mark.parametrize(
    ("changed", "levels"),
    [
        ({}, [Level.OK]),
        ({"maxmemory": 0}, []),
        ({"used_memory": 84 * MIB}, [Level.OK]),
        ({"used_memory": 85 * MIB}, [Level.WARNING]),
        ({"used_memory": 100 * MIB}, [Level.FAULT]),
        ({"used_memory": 100 * MIB, "mem_not_counted_for_evict": 20 * MIB}, [Level.OK]),
        ({"used_memory": 100 * MIB, "maxmemory_policy": "allkeys-lru"}, [Level.WARNING]),
        ({"role": "slave"}, [Level.OK, Level.FAULT]),
        ({"evicted_keys": 0}, [Level.OK]),
        ({"evicted_keys": 3}, [Level.OK, Level.FAULT]),
        ({"aof_last_write_status": "err"}, [Level.OK, Level.FAULT]),
        ({"rdb_last_bgsave_status": "err"}, [Level.OK, Level.WARNING]),
        ({"aof_last_write_status": "ok", "rdb_last_bgsave_status": "ok"}, [Level.OK]),
    ],
    ids=str,
)
def test_a_redis_that_is_full_or_cannot_write_is_told(changed: dict[str, object], levels: list[Level]):
    findings = Findings("redis")
    check_server("r:1", {**SOUND, **changed}, findings)
    assert [one.level for one in findings.found] == levels


@pytest.mark.parametrize(("policy", "told"), [("noeviction", "refuses writes"), ("allkeys-lru", "throws state away")])
def test_what_a_redis_does_that_is_nearly_full_is_told_by_its_policy(policy: str, told: str):
    findings = Findings("redis")
    check_server("r:1", {**SOUND, "used_memory": 90 * MIB, "maxmemory_policy": policy}, findings)
    (found,) = findings.found
    assert told in found.text


class RefusingQdrant:
    """A Qdrant whose disk is full: it reads, and writes nothing."""

    def __init__(self, status: int | None) -> None:
        self.status, self.asked = status, list[tuple[str, list[str]]]()

    async def delete(self, name: str, points: list[str], *, wait: bool) -> None:
        assert wait
        self.asked.append((name, points))
        if self.status is not None:
            raise UnexpectedResponse(self.status, "", b"No space left on device", httpx.Headers())


@pytest.mark.parametrize(
    ("status", "collections", "levels"),
    [
        (None, ["a", "b"], [Level.OK]),
        (None, [], []),
        (500, ["a", "b"], [Level.FAULT]),
        (403, ["a"], [Level.FAULT]),
    ],
)
async def test_a_qdrant_that_refuses_writes_is_told(status: int | None, collections: list[str], levels: list[Level]):
    findings, client = Findings("qdrant"), RefusingQdrant(status)
    await check_points(cast("AsyncQdrantClient", client), collections, findings)
    assert [one.level for one in findings.found] == levels
    assert all(f"{status} No space left" in one.text for one in findings.found if one.level is Level.FAULT)


def test_the_brief_form_checks_only_what_is_meant():
    def parts(settings: Settings, **environment: str) -> list[str]:
        return [check.part for check in brief_checks(settings, environment)]

    assert parts(Settings()) == []
    assert parts(Settings(), OPENAI_API_KEY="x") == ["model"]
    assert parts(Settings(model="m")) == ["model"]
    assert parts(Settings(embedding="endpoint:e:8"), OPENAI_BASE_URL="http://h/v1") == ["model", "embedder"]


# ---- the models that run in the workers


@pytest.mark.parametrize(
    ("settings", "part", "told"),
    [
        (Settings(embedding="fastembed"), "embedder", "pip install 'eunoe[fastembed]'"),
        (Settings(embedding="fastembed:m"), "embedder", "pip install 'eunoe[fastembed]'"),
        (Settings(embedding="wordlama"), "embedder", "use wordllama, fastembed:MODEL or endpoint:MODEL:DIMENSIONS"),
        (Settings(compression="llmlingua"), "compressor", "pip install 'eunoe[llmlingua]'"),
        (Settings(compression="llmlingua:m"), "compressor", "m contains none of"),
    ],
)
async def test_a_model_that_a_worker_could_not_load_is_told(
    settings: Settings, part: str, told: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    checks = [one for one in all_checks(settings, {}, thorough=False, model_limit_s=5) if one.part == part]
    (found,) = await run_checks(checks, lambda *_: None)
    assert found.level is Level.FAULT
    assert told in found.text


async def test_models_that_need_no_package_of_their_own_are_there():
    checks = all_checks(Settings(), {}, thorough=False, model_limit_s=5)
    assert tuple(one.part for one in checks) == PARTS
    found = await run_checks(checks[-2:], lambda *_: None)
    assert [(one.part, one.level) for one in found] == [("embedder", Level.OK), ("compressor", Level.OK)]
