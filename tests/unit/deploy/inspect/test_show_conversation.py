"""What `eunoe show` says of a conversation, also of one of which a part was erased."""

from datetime import UTC, datetime

import pytest

from eunoe.deploy.inspect.drawing import conversation_tree
from eunoe.deploy.inspect.view import (
    ConversationView,
    GraphView,
    MemoriesView,
    view_graph,
    view_history,
    view_memories,
    view_tree,
)
from eunoe.schemas.errors import Refused
from eunoe.schemas.events import Line, Provenance
from eunoe.schemas.memory import Segment
from eunoe.workers.intake.head import Head
from tests.support.in_memory import make_pipeline, utterance

AT = datetime(2026, 3, 1, tzinfo=UTC)


def view(sessions: int, remembered: int, kept: list[int]) -> ConversationView:
    """A conversation of so many closed sessions, of which some have a segment."""
    segments = tuple(
        Segment(
            segment_id=f"s{number}",
            session=number,
            index=0,
            lines=(Line(utterance_id="u", speaker="Ann", text="Hello.", at=AT),),
            denoised="",
            known_from=AT,
            made_by=Provenance(code="x", model="y"),
        )
        for number in kept
    )
    return ConversationView("default/ann", Head(opened=sessions, closed=sessions), remembered, 0, segments)


@pytest.mark.parametrize(
    ("known", "told"),
    [
        (view(2, 2, [1, 2]), "2 of 2 sessions remembered, no session is open"),
        (view(2, 1, [1, 2]), "1 of 2 sessions remembered, no session is open"),
        (view(2, 2, []), "2 of 2 sessions remembered, nothing is kept of them (erased or skipped), no session is open"),
        (
            view(3, 3, [1]),
            "3 of 3 sessions remembered, nothing is kept of 2 of them (erased or skipped), no session is open",
        ),
        (view(2, 0, []), "0 of 2 sessions remembered, no session is open"),
    ],
)
def test_sessions_of_which_nothing_is_kept_are_not_told_as_remembered(known: ConversationView, told: str) -> None:
    assert conversation_tree(known, denoised=False).label == f"[bold]default/ann[/]: {told}"


async def test_a_conversation_without_memories_is_known_to_every_view() -> None:
    pipeline, said = make_pipeline(), utterance(0, "Hello there.")
    await pipeline.produce(said)
    store = pipeline.store
    assert await view_memories(store, said.key, None, all_=True) == MemoriesView((), None)
    assert await view_graph(store, said.key) == GraphView((), ())
    assert await view_tree(store, said.key) == {}
    with pytest.raises(Refused, match="no memory of this conversation has an id"):
        await view_history(store, said.key, "ab")


async def test_an_unknown_conversation_is_unknown_to_every_view() -> None:
    store, key = make_pipeline().store, "default/nobody"
    assert await view_memories(store, key, None, all_=True) is None
    assert await view_graph(store, key) is None
    assert await view_tree(store, key) is None
    assert await view_history(store, key, "ab") is None
