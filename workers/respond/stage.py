"""Stage `respond`: recalls memory and replies."""

from collections.abc import Mapping, Sequence

from eunoe.schemas.base import Contract, Identifier, Value
from eunoe.schemas.decisions import Decision, Put, Work
from eunoe.schemas.documents import read_document
from eunoe.schemas.events import Line, Provenance, ReplyContext, Strategy, Wants
from eunoe.schemas.identity import derive_id
from eunoe.schemas.ports import StateStore
from eunoe.schemas.replies import Freshness, Recalled, RecalledRow, Reply
from eunoe.workers.compress.reads import SegmentStats, read_stats
from eunoe.workers.respond.context import Context, Row, latest
from eunoe.workers.respond.freshness import read_freshness
from eunoe.workers.respond.recall.sources import Query, RecallSource
from eunoe.workers.respond.replier import CODE, DraftReply, Replier, ReplyTask
from eunoe.workers.respond.settings import RespondSettings
from eunoe.workers.respond.tables import CITED, NAME
from eunoe.workers.text.invisible import without_invisible
from eunoe.workers.text.queries import texts_around


class Cited(Value):
    """The utterances that a reply rests on; citing the reply cites these."""

    utterance_ids: tuple[Identifier, ...]


class RespondStage:
    """Retrieves by the ask's strategy within its budget, and replies."""

    def __init__(
        self,
        store: StateStore,
        sources: Mapping[Strategy, RecallSource],
        replier: Replier,
        settings: RespondSettings,
    ) -> None:
        self._store = store
        self._sources = sources
        self._replier = replier
        self._settings = settings

    async def decide(self, work: Work[ReplyContext]) -> Decision:
        """Decide one `Reply` and the record of its citations, or one `Recalled`."""
        event = work.event
        strategy = event.request.strategy or self._settings.strategy
        stats = await read_stats(self._store, work.key)
        query = Query(
            key=work.key,
            text=event.question.text,
            speakers=stats.speakers,
            budget_tokens=min(
                event.request.budget_tokens or self._settings.budget_tokens, self._settings.max_budget_tokens
            ),
            asker=event.question.speaker,
            at=event.question.at,
            session=event.session,
            insights=event.insights,
            around=texts_around(
                event.question.text,
                [line.text for line in event.dialogue],
                event.looked_up.question if event.looked_up else "",
                stats.speakers,
            ),
            looked_up=event.looked_up.memory_ids if event.looked_up else (),
        )
        context = await self._sources[strategy].recall(query)
        dialogue = latest(event.dialogue, self._settings.dialogue_tokens, len(context.rows) + 1, event.question.text)
        if event.request.wants is Wants.MEMORY:
            fresh = await read_freshness(self._store, event, stats.session)
            return Decision(events=(recalled(event, context, dialogue, strategy, fresh),))
        return await self._reply(work, context, dialogue, stats)

    async def _reply(
        self, work: Work[ReplyContext], context: Context, dialogue: tuple[Row, ...], stats: SegmentStats
    ) -> Decision:
        event = work.event
        task = ReplyTask(
            speak_as=event.request.speak_as,
            question=event.question,
            dialogue=dialogue,
            context=context,
            speakers=stats.speakers,
            persona=self._settings.persona,
        )
        answer = await self._replier.reply(task)
        reply = Reply(
            tenant=event.tenant,
            conversation_id=event.conversation_id,
            reply_id=reply_id(event),
            request_id=event.request.request_id,
            speaker=event.request.speak_as,
            text=answer.text,
            cited=await self._resolve(work.key, answer),
            sources=context.sources,
            context=context.text,
            context_tokens=context.tokens,
            strategy=event.request.strategy or self._settings.strategy,
            known_session=stats.session,
            freshness=await read_freshness(self._store, event, stats.session),
            left_out=context.left_out or None,
            made_by=answer.made_by,
        )
        record = Put.of(CITED, reply.reply_id, Cited(utterance_ids=reply.cited))
        return Decision(writes=(record,), events=(reply,))

    def failure_events(self, work: Work[ReplyContext], error: str) -> tuple[Contract, ...]:
        """The error reply to an ask; names the strategy that was asked for, or else the one of the settings."""
        return error_reply(work, error, self._settings)

    async def _resolve(self, key: str, answer: DraftReply) -> tuple[str, ...]:
        """The ids of the cited utterances; a cited reply is resolved to those that it cited."""
        replies = [row.reply_id for row in answer.cited if row.reply_id is not None]
        found = await self._store.fetch(NAME, key, CITED, replies) if replies else []
        known = {
            id_: read_document(Cited, text, key) for id_, text in zip(replies, found, strict=True) if text is not None
        }
        return tuple(dict.fromkeys(id_ for row in answer.cited for id_ in _evidence_of(row, known)))


def _evidence_of(row: Row, known: Mapping[str, Cited]) -> tuple[str, ...]:
    if row.reply_id is None:
        return row.cites
    return known[row.reply_id].utterance_ids if row.reply_id in known else ()


def reply_id(event: ReplyContext) -> str:
    """The id of the reply to a request."""
    return derive_id(event.key, event.session, NAME, event.ask_id)


def recalled(
    event: ReplyContext, context: Context, dialogue: Sequence[Row], strategy: Strategy, fresh: Freshness | None
) -> Recalled:
    """The answer to an ask that wants memory; ``dialogue``: the rows of the open session, latest last.

    ``fresh`` is `None` where nothing could be recalled.
    """
    return Recalled(
        tenant=event.tenant,
        conversation_id=event.conversation_id,
        request_id=event.request.request_id,
        text=without_invisible(context.text),  # for a prompt that is not ours
        tokens=context.tokens,
        rows=tuple(map(_recalled_row, context.rows)),
        sources=context.sources,
        dialogue=_shown_lines(event.dialogue, dialogue),
        strategy=strategy,
        session=event.session,
        known_session=0 if fresh is None else fresh.session,
        freshness=fresh,
        left_out=context.left_out or None,
    )


def _shown_lines(lines: Sequence[Line], rows: Sequence[Row]) -> tuple[Line, ...]:
    """The last lines as their rows show them: whole, or in excerpts."""
    shown = lines[len(lines) - len(rows) :]
    return tuple(
        line.model_copy(update={"text": row.text}) if row.excerpts else line
        for line, row in zip(shown, rows, strict=True)
    )


def _recalled_row(row: Row) -> RecalledRow:
    return RecalledRow(
        speaker=row.speaker,
        text=row.text,
        at=row.at,
        cites=row.cites,
        reply_id=row.reply_id,
        is_memory=row.is_memory,
        holds=row.is_current,
    )


def error_reply(work: Work[ReplyContext], error: str, settings: RespondSettings | None = None) -> tuple[Contract, ...]:
    """A reply that carries the error, so that no client waits for one.

    An ask that names no strategy got the one of ``settings``; `None` means the default settings.
    """
    event = work.event
    strategy = event.request.strategy or (settings or RespondSettings()).strategy
    if event.request.wants is Wants.MEMORY:
        nothing = recalled(event, Context(), (), strategy, None)
        return (nothing.model_copy(update={"error": error}),)
    return (
        Reply(
            tenant=event.tenant,
            conversation_id=event.conversation_id,
            reply_id=reply_id(event),
            request_id=event.request.request_id,
            speaker=event.request.speak_as,
            text="",
            strategy=strategy,
            known_session=0,
            made_by=Provenance(code=CODE, model="none"),
            error=error,
        ),
    )
