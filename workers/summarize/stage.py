"""Stage `summarize`: memory sentences of a segmented session."""

from eunoe.schemas.decisions import Decision, Work
from eunoe.schemas.events import SessionSegmented
from eunoe.schemas.memory import MemoriesFormed
from eunoe.workers.summarize.summarizer import Summarizer

NAME = "summarize"


class SummarizeStage:
    """Makes memory sentences of each session, each with its source utterances; keeps no state."""

    def __init__(self, summarizer: Summarizer) -> None:
        self._summarizer = summarizer

    async def decide(self, work: Work[SessionSegmented]) -> Decision:
        """Decide the session's memories, perhaps none; raises `Unavailable` if the model's endpoint is unavailable."""
        event = work.event
        summary = await self._summarizer.summarize(event.lines, event.spans)
        return Decision(
            events=(
                MemoriesFormed(
                    tenant=event.tenant,
                    conversation_id=event.conversation_id,
                    session=event.session,
                    drafts=summary.drafts,
                    known_from=event.known_from,
                    turns=event.turns,
                    own_turns=event.own_turns,
                    made_by=summary.made_by,
                ),
            )
        )
