"""The doctor's checks of servers, without servers."""

import asyncio

import pytest

from eunoe.deploy.doctor.brief import brief_checks
from eunoe.deploy.doctor.broker import check_limits
from eunoe.deploy.doctor.checks import all_checks
from eunoe.deploy.doctor.findings import Check, Findings, Level, exit_of, run_checks
from eunoe.deploy.exits import Exit
from eunoe.deploy.settings import Settings
from eunoe.schemas.errors import Refused, Unavailable
from eunoe.streams.admin import TopicDetail
from eunoe.streams.topics import TOPICS, Topic

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
        (Topic.ANSWERS, {}, [Level.WARNING]),
        (Topic.ANSWERS, {"cleanup.policy": "compact"}, []),
    ],
)
def test_settings_of_topics_that_lose_records_are_named(topic: Topic, changed: dict[str, str], levels: list[Level]):
    findings = Findings("broker")
    check_limits(TopicDetail("t", 3, 0, GOOD | changed), TOPICS[topic], findings)
    assert [one.level for one in findings.found] == levels


async def test_a_check_that_hangs_ends_and_keeps_what_it_found():
    async def hang(findings: Findings) -> None:
        findings.ok("it was there")
        await asyncio.Event().wait()

    found = await run_checks([Check("redis", hang, 0.05)], lambda *_: None)
    assert [one.level for one in found] == [Level.OK, Level.AWAY]
    assert "within 0.05 s" in found[1].text
    assert exit_of(found) is Exit.UNAVAILABLE


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


def test_the_brief_form_checks_only_what_is_meant():
    def parts(settings: Settings, **environment: str) -> list[str]:
        return [check.part for check in brief_checks(settings, environment)]

    assert parts(Settings()) == []
    assert parts(Settings(), OPENAI_API_KEY="x") == ["model"]
    assert parts(Settings(model="m")) == ["model"]
    assert parts(Settings(embedding="endpoint:e:8"), OPENAI_BASE_URL="http://h/v1") == ["model", "embedder"]
