"""The tools: each is one request to a gateway, with the rights of the caller's key."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Annotated, Any, Final, TypeVar
from uuid import uuid4

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp_types import CallToolResult, ToolAnnotations
from pydantic import Field

from eunoe.deploy.gateway.bodies import MAX_BUDGET_TOKENS, MAX_ERASED
from eunoe.deploy.gateway.erasures import ErasureView
from eunoe.deploy.gateway.mcp.arguments import CheckedTool
from eunoe.deploy.gateway.mcp.forms import (
    UNTRUSTED,
    AskResult,
    ForgetResult,
    HistoryResult,
    RecallResult,
    RememberResult,
    TimelineResult,
    ToolChange,
    ToolRelation,
)
from eunoe.deploy.gateway.mcp.outcomes import outcome_of
from eunoe.deploy.gateway.mcp.parameters import ConversationId, MemoryId, Query, SaidAt, SessionId, Speaker
from eunoe.deploy.gateway.mcp.results import (
    change_line,
    forget_text,
    memory_ids,
    result_of,
    short_memory,
    timeline_text,
)
from eunoe.deploy.gateway.mcp.shown import said_line
from eunoe.deploy.gateway.results import EventAccepted, MemoryHistory, TimelineView
from eunoe.schemas.base import Identifier, Name, Text, Value, write_spoken_time, write_time
from eunoe.schemas.errors import EunoeError
from eunoe.schemas.events import DEFAULT_AGENT, Strategy
from eunoe.schemas.replies import Recalled, Reply
from eunoe.streams.gateway import GatewayConnection, GatewayFailed, GatewayRequest, path_of, quoted

REQUEST_S: Final = 30.0
"""Longest time of a request, with all attempts."""
ANSWER_S: Final = 60.0
"""Longest time of an ask and a recall, which wait for the pipeline."""

ToolContext = Context[Any, Any]
Connect = Callable[[ToolContext], AbstractAsyncContextManager[GatewayConnection]]
"""The gateway that a call of a tool talks to, with the credential of its caller."""

FormT = TypeVar("FormT", bound=Value)


@dataclass(frozen=True, slots=True)
class Tools:
    """The six tools. ``conversation`` stands in where a call names none."""

    connect: Connect
    conversation: str | None = None

    def all(self) -> list[Tool]:
        """The tools, for a server."""
        hinted: tuple[tuple[Callable[..., Any], ToolAnnotations], ...] = (
            (self.remember, ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)),
            (self.ask, ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)),
            (self.recall, _READS),
            (self.timeline, _READS),
            (self.history, _READS),
            (self.forget, ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=False)),
        )
        return [CheckedTool.of(tool, _described(tool), hints) for tool, hints in hinted]

    async def remember(  # noqa: PLR0913, PLR0917 - the fields of the tool, given by name
        self,
        text: Annotated[Text, Field(description="The words, as they were said; at most 32 KiB of UTF-8.")],
        speaker: Speaker,
        context: ToolContext,
        conversation_id: ConversationId = None,
        session_id: SessionId = None,
        utterance_id: Annotated[
            Identifier | None, Field(description="An id of yours: the same utterance sent again counts once.")
        ] = None,
        at: SaidAt = None,
    ) -> Annotated[CallToolResult, RememberResult]:
        """Add an utterance to a conversation. It becomes memory when its session ends, by itself after some silence.

        What is remembered is what a speaker said: give the speaker's words and name, not a summary. Leave out your own
        words: they would be remembered as a person's.
        """
        id_ = utterance_id or str(uuid4())
        body = {"type": "utterance", "speaker": speaker, "text": text, "utterance_id": id_, "session_id": session_id}
        body["at"] = None if at is None else write_spoken_time(at)
        async with self._gateway(context, conversation_id) as (gateway, path):
            request = GatewayRequest("POST", f"{path}/events", _given(body))
            accepted = EventAccepted.from_json(await gateway.request(request, REQUEST_S))
        return result_of(
            RememberResult(utterance_id=id_, offset=accepted.position.offset), f"remembered as utterance {id_}"
        )

    async def ask(  # noqa: PLR0913, PLR0917 - the fields of the tool, given by name
        self,
        question: Annotated[Text, Field(description="The question, as the speaker asks it.")],
        speaker: Speaker,
        context: ToolContext,
        conversation_id: ConversationId = None,
        record: Annotated[
            bool, Field(description="Whether the question becomes part of the conversation; default: false.")
        ] = False,
        speak_as: Annotated[Name, Field(description="The participant that the reply speaks as.")] = DEFAULT_AGENT,
        session_id: SessionId = None,
        at: SaidAt = None,
    ) -> Annotated[CallToolResult, AskResult]:
        """Ask the memory a question: its own language model replies, with the utterances that the reply rests on.

        Use recall instead to get the memory itself without a model's reply.
        """
        body = {"text": question, "speaker": speaker, "record": record, "speak_as": speak_as, "session_id": session_id}
        body |= {"request_id": str(uuid4()), "at": write_spoken_time(at or datetime.now(UTC))}
        async with self._gateway(context, conversation_id) as (gateway, path):
            reply = await _answered(gateway, f"{path}/asks", body, Reply)
        found = AskResult(
            reply_id=reply.reply_id,
            text=reply.text,
            cited=reply.cited,
            memory_ids=memory_ids(reply.sources),
            known_session=reply.known_session,
        )
        return result_of(found, f"{UNTRUSTED}\n\n{reply.text}")

    async def recall(  # noqa: PLR0913, PLR0917 - the fields of the tool, given by name
        self,
        query: Annotated[Text, Field(description="What to find: a question, or the words of the matter.")],
        context: ToolContext,
        conversation_id: ConversationId = None,
        speaker: Annotated[
            Name, Field(description="The participant who asks; names are read from this view.")
        ] = "user",
        budget_tokens: Annotated[
            int | None, Field(ge=1, le=MAX_BUDGET_TOKENS, description="Most tokens of memory.")
        ] = None,
        strategy: Annotated[
            Strategy | None, Field(description="The way to search; unset: that of the deployment.")
        ] = None,
        session_id: SessionId = None,
        at: SaidAt = None,
    ) -> Annotated[CallToolResult, RecallResult]:
        """Recall what is remembered that fits a query, in time order, with its sources. No model is asked."""
        body = {"query": query, "speaker": speaker, "budget_tokens": budget_tokens, "strategy": strategy}
        body |= {"session_id": session_id, "at": None if at is None else write_spoken_time(at)}
        async with self._gateway(context, conversation_id) as (gateway, path):
            found = await _answered(gateway, f"{path}/recall", body, Recalled)
        result = RecallResult(
            text=found.text,
            tokens=found.tokens,
            rows=found.rows,
            dialogue=found.dialogue,
            memory_ids=memory_ids(found.sources),
            known_session=found.known_session,
        )
        said = "\n".join(said_line(line.speaker, line.text) for line in found.dialogue)
        nothing = "" if found.text or said else "Nothing that fits is remembered in this conversation."
        parts = (UNTRUSTED, found.text, said and f"Open session:\n{said}", nothing)
        return result_of(result, "\n\n".join(part for part in parts if part))

    async def timeline(
        self,
        context: ToolContext,
        query: Query = None,
        memory_id: MemoryId = None,
        conversation_id: ConversationId = None,
    ) -> Annotated[CallToolResult, TimelineResult]:
        """Show the memories that are linked to a memory, the oldest first: what led to it, and what came of it."""
        async with self._gateway(context, conversation_id) as (gateway, path):
            id_ = quoted(memory_id or await _fitting(gateway, path, query))
            view = TimelineView.from_json(await _read(gateway, f"{path}/timelines/{id_}"))
        result = TimelineResult(
            size=view.size,
            memories=tuple(short_memory(memory) for memory in view.memories),
            relations=tuple(
                ToolRelation(older=edge.older, relation=edge.relation.value, newer=edge.newer) for edge in view.edges
            ),
        )
        return result_of(result, timeline_text(result))

    async def history(
        self,
        context: ToolContext,
        query: Query = None,
        memory_id: MemoryId = None,
        conversation_id: ConversationId = None,
    ) -> Annotated[CallToolResult, HistoryResult]:
        """Show how a memory came to be and changed: what it superseded, what superseded or confirmed it, and why."""
        async with self._gateway(context, conversation_id) as (gateway, path):
            id_ = quoted(memory_id or await _fitting(gateway, path, query))
            found = MemoryHistory.from_json(await _read(gateway, f"{path}/memories/{id_}/history"))
        changes = tuple(
            ToolChange(
                at=write_spoken_time(one.at),
                session=one.session,
                kind=one.kind,
                memory=short_memory(one.memory),
                by=None if one.by is None else short_memory(one.by),
                because=one.because,
            )
            for one in found.changes
        )
        return result_of(HistoryResult(changes=changes), "\n".join((UNTRUSTED, "", *map(change_line, changes))))

    async def forget(
        self,
        context: ToolContext,
        utterance_ids: Annotated[
            tuple[Identifier, ...],
            Field(max_length=MAX_ERASED, description="The utterances to erase; history shows those of a memory."),
        ] = (),
        whole_conversation: Annotated[
            bool, Field(description="Erase all of the conversation; then name no utterances.")
        ] = False,
        conversation_id: ConversationId = None,
    ) -> Annotated[CallToolResult, ForgetResult]:
        """Erase utterances of a conversation, or all of it. Ask the person first.

        Waits until it is carried out, for 45 seconds at most; the request is kept and goes on by itself. The result
        says what is done and what is still there: tell the person both.
        """
        if whole_conversation == bool(utterance_ids):
            raise ToolError(
                "name utterance_ids, or set whole_conversation: one of both; history shows the utterances of a memory"
            )
        part = {} if whole_conversation else {"utterance_ids": list(utterance_ids)}
        body = {**part, "request_id": str(uuid4()), "at": write_time(datetime.now(UTC))}
        async with self._gateway(context, conversation_id) as (gateway, path):
            request = GatewayRequest("POST", f"{path}/erasures", body)
            asked = ErasureView.from_json(await gateway.request(request, REQUEST_S))
            view = await outcome_of(gateway, f"{path}/erasures/{quoted(asked.request_id)}", asked)
        if view.reason is not None:
            raise ToolError(f"nothing was erased: {view.reason}")
        result = ForgetResult(
            request_id=view.request_id,
            utterance_ids=utterance_ids,
            state=view.state,
            done=view.done,
            not_done=view.not_done,
        )
        return result_of(result, forget_text(result))

    @asynccontextmanager
    async def _gateway(
        self, context: ToolContext, conversation_id: str | None
    ) -> AsyncIterator[tuple[GatewayConnection, str]]:
        """The gateway, and the path of the conversation; its refusals become errors that the model reads."""
        named = conversation_id or self.conversation
        if named is None:
            raise ToolError("conversation_id: name the conversation")
        try:
            async with self.connect(context) as gateway:
                yield gateway, path_of("conversations", named)
        except EunoeError as fault:
            raise ToolError(str(fault)) from None


_READS: Final = ToolAnnotations(read_only_hint=True, destructive_hint=False, open_world_hint=False)


def _described(tool: Callable[..., Any]) -> str:
    """The docstring, and the declaration about texts of memory."""
    text = "\n".join(line.strip() for line in str(tool.__doc__).strip().splitlines())
    return f"{text}\n\n{UNTRUSTED}"


async def _read(gateway: GatewayConnection, path: str) -> bytes:
    return await gateway.request(GatewayRequest("GET", path), REQUEST_S)


async def _answered(gateway: GatewayConnection, path: str, body: dict[str, Any], form: type[FormT]) -> FormT:
    request = GatewayRequest("POST", path, _given(body), waits=True)
    try:
        return form.from_json(await gateway.request(request, ANSWER_S))
    except GatewayFailed as fault:
        if fault.status == HTTPStatus.GATEWAY_TIMEOUT:  # its detail names an address, which no tool fetches
            raise ToolError("504: no answer came in time, the memory may be behind: try again later") from None
        raise


async def _fitting(gateway: GatewayConnection, path: str, query: str | None) -> str:
    """The id of the current memory that fits a query best; raises `ToolError` where none does."""
    if query is None:
        raise ToolError("name a query or a memory_id")
    body = {"query": query, "strategy": Strategy.CURRENT.value, "budget_tokens": MAX_BUDGET_TOKENS}
    found = await _answered(gateway, f"{path}/recall", body, Recalled)
    best = max((source for source in found.sources if source.memory_ids), key=lambda source: source.score, default=None)
    if best is None:
        raise ToolError("no memory fits the query")
    return best.memory_ids[0]


def _given(body: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if value is not None}
