"""The asks that a repair sends again: those that blend had not sent to the responder."""

import pytest

from eunoe.deploy.generations.repaired_asks import Asks, with_asks
from eunoe.schemas.decisions import Commit, Ledger, Outbox, Scope
from eunoe.schemas.events import Ask, ReplyContext
from eunoe.schemas.ports import StoredConversation
from eunoe.streams.codec import decode
from eunoe.streams.topics import Topic
from eunoe.workers.derive.in_memory import InMemoryPipeline, select_stages
from eunoe.workers.derive.pipeline import Derived
from eunoe.workers.intake.settings import BlendMode, IntakeSettings
from eunoe.workers.registry import StageSettings
from tests.support.in_memory import make_pipeline, utterance

KEY = "default/c"


async def derived() -> tuple[InMemoryPipeline, Derived]:
    """A conversation of three asks, answered by nobody."""
    pipeline = make_pipeline(
        StageSettings(intake=IntakeSettings(blend=BlendMode.BEFORE_REPLY)),
        stages=select_stages(("intake", "blend")),
    )
    for number in (1, 2, 3):
        await pipeline.produce(utterance(number, "Where do I live?", ask=Ask(request_id=f"r{number}")))
    return pipeline, await Derived.of(pipeline, KEY)


def ids(asks: list[ReplyContext]) -> list[str]:
    return [one.request.request_id for one in asks]


@pytest.mark.parametrize(
    ("blend", "held", "expected"),
    [
        pytest.param(Ledger(3), set(), [], id="all were sent"),
        pytest.param(Ledger(1), set(), ["r2", "r3"], id="two were not decided"),
        pytest.param(Ledger(2, outbox=Outbox(number=2)), set(), ["r2", "r3"], id="one more was decided and not sent"),
        pytest.param(Ledger(3, outbox=Outbox(number=-4)), set(), [], id="another outbox"),
        pytest.param(Ledger(3), {1}, ["r1"], id="one is held"),
        pytest.param(Ledger(), {2}, ["r2"], id="the ledger was lost: only held ones are known"),
    ],
)
async def test_asks_that_the_responder_never_got_are_found(blend: Ledger, held: set, expected: list[str]) -> None:
    pipeline, conversation = await derived()
    asks = Asks(pipeline.store, held, may_be_lost=True)
    assert ids(await asks.unanswered(conversation, blend)) == expected


async def test_a_ledger_that_no_store_can_have_lost_has_sent_nothing() -> None:
    pipeline, conversation = await derived()
    asks = Asks(pipeline.store, set(), may_be_lost=False)
    assert ids(await asks.unanswered(conversation, Ledger())) == ["r1", "r2", "r3"]


async def test_an_answered_ask_is_not_sent_again() -> None:
    pipeline, conversation = await derived()
    assert await pipeline.store.commit(Scope("respond", KEY, "r2"), Commit(expect=0, applied=1))
    asks = Asks(pipeline.store, set(), may_be_lost=True)
    assert ids(await asks.unanswered(conversation, Ledger(1))) == ["r3"]


async def test_an_interrupted_repair_finds_the_same_asks_in_the_outbox_that_it_left() -> None:
    pipeline, conversation = await derived()
    asks = Asks(pipeline.store, set(), may_be_lost=True)
    found = await asks.unanswered(conversation, Ledger(1))
    standing = with_asks(StoredConversation({"blend": Ledger(3, lates=5)}, {}, {}), found, 2)
    left = standing.ledgers["blend"]
    assert left.outbox is not None
    assert (left.applied, left.outbox.number, left.outbox.partition) == (3, -5, 2)
    assert [(one.topic, one.key, decode(one.value)) for one in left.outbox.messages] == [
        (Topic.REPLY_CONTEXTS, KEY, context) for context in found
    ]
    assert await asks.unanswered(conversation, left) == found


def test_without_asks_the_state_is_as_it_was() -> None:
    standing = StoredConversation({"blend": Ledger(3, lates=5)}, {}, {})
    assert with_asks(standing, [], 0) is standing
