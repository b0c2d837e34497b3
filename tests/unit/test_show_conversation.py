"""What `eunoe show` says of a conversation, also of one of which a part was erased."""

from datetime import UTC, datetime

import pytest

from eunoe.deploy.cli.show import conversation_tree
from eunoe.deploy.inspect.view import ConversationView
from eunoe.schemas.events import Line, Provenance
from eunoe.schemas.memory import Segment
from eunoe.workers.intake.head import Head

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
