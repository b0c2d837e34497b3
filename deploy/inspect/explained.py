"""Finds a reply and the answers behind it in the log, and draws the reasons as a tree in the terminal."""

import json
from collections.abc import Collection, Iterable, Iterator

from rich.markup import escape
from rich.tree import Tree

from eunoe.deploy.clients.data_keys import open_data_keys
from eunoe.deploy.inspect.answers import read_answers
from eunoe.deploy.inspect.counted import counted
from eunoe.deploy.inspect.drawing import memory_line
from eunoe.deploy.inspect.explain import ExplainedLeftOut, ExplainedLine, ExplainedMemory, Explanation
from eunoe.deploy.settings import Settings
from eunoe.schemas.events import Provenance
from eunoe.schemas.memory import ChangeKind
from eunoe.schemas.records import RecordedAnswer
from eunoe.schemas.replies import LeftOutReason, Reply
from eunoe.schemas.versions import ContractError
from eunoe.streams.codec import decode
from eunoe.streams.reader import read_all
from eunoe.streams.record import Record
from eunoe.streams.topics import Topic

MAX_ANSWERS = 20
"""Recorded answers that are shown."""


async def find_reply(settings: Settings, id_: str) -> Reply | None:
    """The last reply with this id, or to the ask with this id; reads all replies that are kept.

    Raises `Unavailable` when no broker answers.
    """
    found = None
    async for record in read_all(settings.kafka_settings, settings.names, Topic.REPLIES):
        event = _decoded(record)
        if isinstance(event, Reply) and id_ in (event.reply_id, event.request_id):
            found = event
    return found


async def recorded_answers(settings: Settings, texts: Collection[str]) -> list[RecordedAnswer]:
    """The model's answers that hold one of these texts; reads all that are recorded. Raises `Unavailable`."""
    found: dict[str, RecordedAnswer] = {}
    async with open_data_keys(settings) as keys:
        async for answer, _ in read_answers(settings, keys):
            if holds(answer.text, texts) and len(found) < MAX_ANSWERS:
                found[answer.request] = answer
    return list(found.values())


def holds(answer: str, texts: Iterable[str]) -> bool:
    """Whether an answer, a JSON text, holds one of these texts."""
    return any(
        json.dumps(text)[1:-1] in answer or json.dumps(text, ensure_ascii=False)[1:-1] in answer for text in texts
    )


def _decoded(record: Record) -> object:
    try:
        return decode(record.value)
    except ContractError:
        return None


# ---- drawing


def explanation_tree(found: Explanation) -> Tree:
    """The reasons of a reply: cited lines, the memories behind them, what was shown besides."""
    reply = found.reply
    root = Tree(f"[bold]{escape(reply.text or reply.error or '(no text)')}[/] [dim]({_decided(reply.made_by)})[/]")
    cited = root.add(f"[bold]cites[/] [dim]knew {counted(reply.known_session, 'session')}[/]")
    for line in found.lines:
        if line.cited:
            cited.add(_line(line))
    behind = root.add("[bold]behind these[/]")
    for memory in found.memories:
        if memory.cited:
            _add_memory(behind, memory)
    if not behind.children:
        behind.add("[dim]no memory rests on these lines[/]")
    _add_rest(root, found)
    return root


def _add_rest(root: Tree, found: Explanation) -> None:
    rest = [line for line in found.lines if not line.cited]
    shown = root.add(f"[bold]shown, but not cited[/]: {counted(len(rest), 'utterance')}")
    for line in rest:
        shown.add(f"[dim]{_line(line)}[/]")
    ended = [memory for memory in found.memories if not memory.cited and memory.memory.ending]
    if ended:
        branch = root.add(f"[bold]superseded or ended, and not cited[/]: {counted(len(ended), 'memory')}")
        for memory in ended:
            _add_memory(branch, memory)
    if found.left_out:
        branch = root.add(f"[bold]found, and not in the prompt[/]: the best {len(found.left_out)}")
        for one in found.left_out:
            branch.add(_left_out(one))


_REASONS = {
    LeftOutReason.BUDGET: "too long for what was left of the budget",
    LeftOutReason.RANK: "ranked below all that is shown",
    LeftOutReason.SUPERSEDED: "no longer holds",
}


def _left_out(one: ExplainedLeftOut) -> str:
    said = " / ".join(f"{line.speaker}: {line.text}" for line in one.lines)
    memories = " / ".join(memory.text for memory in one.memories)
    return f"[cyan]{_REASONS[one.reason]}[/]: {escape(said or memories or '(gone)')} [dim](session {one.session})[/dim]"


def _line(line: ExplainedLine) -> str:
    if line.line is None:
        return f"[dim]{escape(line.utterance_id)}: in no session that is remembered[/]"
    where = f"session {line.session}" if line.session else "the open session"
    said = f"{escape(line.line.speaker)}: {escape(line.line.text)}"
    return f"{said} [dim]({line.line.at:%Y-%m-%d}, {escape(line.utterance_id)} in {where})[/dim]"


def _add_memory(branch: Tree, memory: ExplainedMemory) -> None:
    leaf = branch.add(memory_line(memory.memory))
    for text in _changes(memory):
        leaf.add(text)


def _changes(memory: ExplainedMemory) -> Iterator[str]:
    for change in memory.changes:
        what = "" if change.memory == memory.memory else f" {escape(change.memory.text)}"
        kind = "formed" if change.kind is ChangeKind.ADDED else change.kind.value
        by = "" if change.by is None else f" by {escape(change.by.text)}"
        because = f"; because: {escape(change.because)}" if change.because else ""
        when = f"session {change.session}, known since {change.known_from:%Y-%m-%d %H:%M} UTC"
        yield f"[cyan]{kind}[/]{what}{by}{because} [dim]({when}; {_decided(change.decided_by)})[/dim]"


def _decided(by: Provenance | None) -> str:
    if by is None:
        return "nothing to decide"
    model = by.prompt is not None and not by.fallback
    who = f"model {by.model}, prompt {by.prompt}" if model else f"offline rules {by.model}"
    return escape(f"{who}, {by.code}")
