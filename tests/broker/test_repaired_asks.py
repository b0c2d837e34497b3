"""Asks on their way while a conversation is derived again: answered, also where the repair was killed halfway."""

import signal

import pytest

from eunoe.deploy.clients.bootstrap import open_clients
from eunoe.schemas.decisions import Scope
from eunoe.schemas.events import Ask, Utterance
from eunoe.schemas.replies import Reply
from eunoe.streams.codec import decode
from eunoe.streams.topics import Topic
from tests.support.command import run_module, until
from tests.support.in_memory import START
from tests.support.killed_repair import repair_fenced
from tests.support.pipeline import Pipeline, sealed_pipeline

pytestmark = [pytest.mark.broker, pytest.mark.timeout(300)]

KEY = "default/c1"


def asked(number: int) -> str:
    ask = Ask(request_id=f"r{number}")
    text = f"I moved to Lyon in May, {number} times; where do I live?"
    said = Utterance(conversation_id="c1", utterance_id=f"u{number}", speaker="Ann", text=text, at=START, ask=ask)
    return said.model_dump_json() + "\n"


async def answered(pipeline: Pipeline) -> list[str]:
    replies = [decode(record.value) for record in await pipeline.records(Topic.REPLIES)]
    return sorted(one.request_id for one in replies if isinstance(one, Reply))


async def waiting_for_blend(pipeline: Pipeline, count: int) -> None:
    async def there() -> bool:
        return len(await pipeline.records(Topic.REPLY_REQUESTS)) == count

    await until(there)


@pytest.mark.slow
@pytest.mark.parametrize(("kept", "tried_again"), [("plain", False), ("sealed", True)])
async def test_asks_on_their_way_are_answered_also_where_the_repair_was_killed_after_the_swap(
    pipeline: Pipeline, kept: str, *, tried_again: bool
) -> None:
    pipeline = pipeline if kept == "plain" else sealed_pipeline(pipeline)
    async with pipeline.servers():
        async with pipeline.worker("intake"):
            await pipeline.produce(asked(1), asked(2))
            await waiting_for_blend(pipeline, 2)
        killed = await run_module("tests.support.killed_repair", KEY, cwd=pipeline.cwd, **pipeline.variables)
        assert killed.code == -signal.SIGKILL, killed.err
        async with open_clients(pipeline.settings) as clients:
            left = await clients.store.ledger(Scope("blend", KEY))
        assert left.outbox is not None
        assert left.applied == len(left.outbox.messages) == 2
        assert await pipeline.records(Topic.REPLY_CONTEXTS) == []
        if tried_again:
            assert (await repair_fenced(pipeline.settings, KEY)).asked == 2
            assert len(await pipeline.records(Topic.REPLY_CONTEXTS)) == 2
        async with pipeline.worker("blend", "respond"):

            async def all_answered() -> bool:
                return len(await answered(pipeline)) >= 2

            await until(all_answered)
        assert await answered(pipeline) == ["r1", "r2"]
