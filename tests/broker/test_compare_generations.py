"""What a rebuild would cost, and what it changed, as people ask for it."""

import json
from pathlib import Path

import pytest
from aiokafka.admin import AIOKafkaAdminClient

from eunoe.deploy.clients.shared import open_store
from eunoe.deploy.inspect.view import remembered_session
from eunoe.schemas.events import ConversationEvent, Utterance
from eunoe.schemas.replies import Reply
from eunoe.streams.admin import create_topics
from eunoe.streams.codec import decode
from eunoe.streams.settings import client_options
from eunoe.streams.topics import Topic
from tests.support.command import running, until
from tests.support.model_server.server import ModelServer, ServerSettings
from tests.support.pipeline import PARTITIONS, Pipeline
from tests.support.talk import talk

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.timeout(400)]

ENDED = 5
"""Sessions of the talk."""


def lines(events: list[ConversationEvent]) -> list[str]:
    return [event.model_dump_json() + "\n" for event in events]


async def test_a_rebuild_is_estimated_made_and_compared(pipeline: Pipeline, tmp_path: Path):
    async with ModelServer(ServerSettings()) as model:
        asking = {"OPENAI_BASE_URL": model.base_url, "OPENAI_API_KEY": "none"}
        async with pipeline.up(**asking):
            await pipeline.produce(*lines(talk("c")), *lines(talk("d")))
            for name in ("c", "d"):
                await pipeline.remembered(ENDED, name)

            await pipeline.answered(2 * ENDED)
            asked = model.stats["chat"]
            prices = {"EUNOE_MODEL_PROMPT_PRICE": "1", "EUNOE_MODEL_COMPLETION_PRICE": "2", **asking}
            words = ("rebuild", "--into", "v2", "--set", "link.associative=1", "--dry-run", "--json")
            same = await pipeline.eunoe(*(word for word in words if "link" not in word and word != "--set"), **prices)
            assert same.code == 0, same.err
            assert (same.json["calls"], same.json["cost"], same.json["exact"]) == (0, 0.0, True)
            assert same.json["recorded"] > 2 * ENDED
            again = await pipeline.eunoe(*words, "--ask-again", **prices)
            assert again.code == 0, again.err
            assert again.json["calls"] > 2 * ENDED
            assert again.json["cost"] > 0
            assert (again.json["conversations"], again.json["sessions"]) == (2, 2 * ENDED)
            assert model.stats["chat"] == asked
            made = await pipeline.eunoe("generations", "--json")
            assert [one["name"] for one in made.json] == ["v1"]

            for into, changes in (("v2", ()), ("v3", ("--set", "link.associative=1"))):
                rebuilt = await pipeline.eunoe("rebuild", "--into", into, *changes, "--json", timeout_s=200, **asking)
                assert rebuilt.code == 0, rebuilt.err

            questions = tmp_path / "questions.jsonl"
            questions.write_text(json.dumps({"conversation": "c", "question": "Where does Ann work?"}) + "\n")
            equal = await pipeline.eunoe("diff", "v1", "v2", "--questions", str(questions), "--json")
            assert equal.code == 0, equal.err + equal.out
            assert equal.json["equal"]
            assert equal.json["sessions"] == [2 * ENDED, 2 * ENDED]
            assert equal.json["questions"][0]["shared"] == 1
            assert equal.json["questions"][0]["tokens"][0] > 0
            other = await pipeline.eunoe("diff", "v1", "v3", "--json")
            differing = {kind for kind, found in other.json["kinds"].items() if found["old"] or found["new"]}
            assert any(kind.startswith("edges: ") for kind in differing)
            changed = {
                kind
                for kind, found in other.json["kinds"].items()
                if found["only_old"] or found["only_new"] or found["changed"]
            }
            assert all(kind.startswith("edges: ") for kind in changed), changed
            assert other.code == (0 if other.json["equal"] else 1)
            told = await pipeline.eunoe("diff", "v1", "v3", "--conversation", "c")
            assert "sessions" in told.out
            for words in (("diff", "v1", "v9"), ("diff", "v1", "v2", "--conversation", "nobody")):
                refused = await pipeline.eunoe(*words)
                assert refused.code == 2
                assert len(refused.err.strip().splitlines()) == 1


async def test_made_again_from_a_stage_on_while_the_live_one_goes_on(pipeline: Pipeline):
    async with ModelServer(ServerSettings()) as model:
        asking = {"OPENAI_BASE_URL": model.base_url, "OPENAI_API_KEY": "none"}
        async with pipeline.up(**asking):
            said = [*talk("c"), *talk("d")[:10]]
            await pipeline.produce(*lines(said))
            await pipeline.remembered(ENDED, "c")
            await pipeline.remembered(2, "d")
            await pipeline.answered(sum(isinstance(event, Utterance) and event.ask is not None for event in said))
            asked = model.stats["chat"]
            words = ("rebuild", "--from-stage", "link", "--json")
            made = await pipeline.eunoe(*words, "--into", "v2", timeout_s=200, **asking)
            assert made.code == 0, made.err
            assert (made.json["state"], made.json["calls"], made.json["note"]) == ("built", 0, "")
            assert (made.json["conversations"], model.stats["chat"]) == (2, asked)
            equal = await pipeline.eunoe("diff", "v1", "v2", "--json")
            assert (equal.code, equal.json["equal_conversations"]) == (0, 2), equal.out
            assert len(await pipeline.listed()) == 2
            assert await pipeline.listed("v2") == await pipeline.listed()
            refused = await pipeline.eunoe(*words, "--into", "v3", "--set", "segment.threshold=1")
            assert refused.code == 2
            assert "--from-stage segment" in refused.err
            await pipeline.produce(*lines(talk("d"))[10:])
            await pipeline.remembered(ENDED, "d")
            await pipeline.answered(2 * ENDED)
            more = {"EUNOE_GENERATION": "v2", **asking}
            async with running("worker", "all", cwd=pipeline.cwd, **pipeline.variables, **more):
                settings = pipeline.settings.model_copy(update={"generation": "v2"})
                async with open_store(settings) as store:

                    async def caught_up() -> bool:
                        return await remembered_session(store, "default/d") == ENDED

                    await until(caught_up, 120)
            after = await pipeline.eunoe("diff", "v1", "v2", "--json")
            assert (after.code, after.json["sessions"]) == (0, [2 * ENDED, 2 * ENDED]), after.out
            replies = [decode(record.value) for record in await pipeline.records(Topic.REPLIES)]
            asked_for = sorted(f"{name}-{session}" for name in ("c", "d") for session in range(ENDED))
            assert sorted(reply.request_id for reply in replies if isinstance(reply, Reply)) == asked_for


async def _lose(pipeline: Pipeline, topic: Topic) -> None:
    """Delete what the live generation holds of a topic."""
    settings = pipeline.settings
    admin = AIOKafkaAdminClient(**client_options(settings.kafka_settings))
    await admin.start()
    try:
        await admin.delete_topics([settings.names.name(topic)])
    finally:
        await admin.close()
    await create_topics(settings.kafka_settings, settings.names, PARTITIONS, settings.replication)


async def test_where_retention_has_passed_it_begins_earlier_and_says_so(pipeline: Pipeline):
    async with pipeline.servers():
        async with pipeline.worker("all"):
            await pipeline.produce(*lines(talk("c")))
            await pipeline.remembered(ENDED, "c")
        for into, lost, start in (("v2", Topic.MEMORIES, "summarize"), ("v3", Topic.REPLY_REQUESTS, "the log")):
            await _lose(pipeline, lost)
            made = await pipeline.eunoe("rebuild", "--from-stage", "link", "--into", into, "--json", timeout_s=200)
            assert made.code == 0, made.err
            assert f"again from {start} on" in made.json["note"]
            assert str(lost) in made.json["note"]
            equal = await pipeline.eunoe("diff", "v1", into, "--json")
            assert (equal.code, equal.json["sessions"]) == (0, [ENDED, ENDED]), equal.out
