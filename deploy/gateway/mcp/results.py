"""Results of tools, as data for programs and as text for models."""

from mcp_types import CallToolResult, TextContent

from eunoe.deploy.gateway.erasures import ErasureState
from eunoe.deploy.gateway.mcp.forms import UNTRUSTED, ForgetResult, TimelineResult, ToolChange, ToolMemory
from eunoe.deploy.gateway.mcp.shown import folded, said_line, visible, visible_fields
from eunoe.schemas.base import Value, write_spoken_time
from eunoe.schemas.memory import Memory
from eunoe.schemas.replies import Source


def result_of(value: Value, text: str) -> CallToolResult:
    """The result, for programs as data and for models, which may read both, as text."""
    return CallToolResult(
        content=[TextContent(type="text", text=visible(text))],
        structured_content=visible_fields(value.model_dump(mode="json")),
    )


def memory_ids(sources: tuple[Source, ...]) -> tuple[str, ...]:
    """The ids of the memories behind sources, without duplicates."""
    return tuple(dict.fromkeys(id_ for source in sources for id_ in source.memory_ids))


def timeline_text(found: TimelineResult) -> str:
    """A timeline as text; where not all of it is shown, that is told."""
    shown = len(found.memories)
    part = [f"{shown} of its {found.size} memories, those nearest by links:"] if shown < found.size else []
    return "\n".join((UNTRUSTED, "", *part, *map(_memory_line, found.memories)))


def forget_text(found: ForgetResult) -> str:
    """An erasure as text; of one that is still under way, that it needs no other request."""
    late = "" if found.state is ErasureState.DONE else " It goes on by itself: do not request it again."
    return f"Done: {'; '.join(found.done) or 'nothing'}. Not done: {'; '.join(found.not_done) or 'nothing'}.{late}"


def short_memory(memory: Memory) -> ToolMemory:
    """A memory as tools show it: without its provenance and the texts of its evidence."""
    return ToolMemory(
        memory_id=memory.memory_id,
        status=memory.status,
        speaker=memory.speaker,
        text=memory.text,
        at=write_spoken_time(memory.at),
        utterance_ids=tuple(line.utterance_id for line in memory.evidence),
    )


def _memory_line(memory: ToolMemory) -> str:
    return f"{memory.at} [{memory.memory_id}, {memory.status.value}] {said_line(memory.speaker, memory.text)}"


def change_line(change: ToolChange) -> str:
    """A change of a memory in one line, with the utterances behind it."""
    because = f" ({folded(change.because)})" if change.because else ""
    said = ", ".join(change.memory.utterance_ids)
    return f"{change.at} {change.kind.value}: {folded(change.memory.text)}{because} [utterances {said}]"
