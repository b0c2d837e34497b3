"""Stage `segment`: topic segments of a closed session."""

from eunoe.schemas.decisions import Decision, Work
from eunoe.schemas.events import SessionClosed, SessionSegmented
from eunoe.workers.segment.segmenter import Segmenter

NAME = "segment"


class SegmentStage:
    """Splits each session into topic segments that tile it (SeCom, section 2.2); keeps no state."""

    def __init__(self, segmenter: Segmenter) -> None:
        self._segmenter = segmenter

    async def decide(self, work: Work[SessionClosed]) -> Decision:
        """Decide the session's segments; raises `Unavailable` if the model's endpoint is unavailable."""
        event = work.event
        found = await self._segmenter.segment(event.lines)
        return Decision(
            events=(
                SessionSegmented(
                    tenant=event.tenant,
                    conversation_id=event.conversation_id,
                    session=event.session,
                    session_id=event.session_id,
                    lines=event.lines,
                    known_from=event.known_from,
                    turns=event.turns,
                    own_turns=event.own_turns,
                    spans=found.spans,
                    made_by=found.made_by,
                ),
            )
        )
