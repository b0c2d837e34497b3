"""Reads conversations from files: JSON lines of events as clients produce them, or LoCoMo's format."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import orjson
from pydantic import ValidationError

from eunoe.deploy.datasets import locomo
from eunoe.deploy.datasets.chunks import lines_of, read_chunks
from eunoe.deploy.datasets.loaded import ClientEvent, EvalQuestion, LoadedConversation, Played
from eunoe.deploy.progress import ReportCount
from eunoe.schemas.errors import Refused
from eunoe.schemas.events import Erase, SessionEnded, Utterance
from eunoe.schemas.versions import ContractError, describe, read_contract

EXPECTED: Final = "one JSON event on each line"
"""The content of a file of events, for messages."""


def load_conversation(path: Path, sample: str | None = None) -> LoadedConversation:
    """Read one conversation: JSON lines of `Utterance` and `SessionEnded`, or a LoCoMo file.

    ``sample`` names the conversation where the file holds several. The questions of ``x-conversation.jsonl`` are read
    from ``x-questions.jsonl`` beside it, and their gold passages and roles from ``x-gold.jsonl`` where there is one,
    line by line; a LoCoMo file contains its own questions. Raises `Refused` with the file, the line and
    the fault.
    """
    data = read_bytes(path)
    samples = locomo.samples_in(data, path)
    if samples is not None:
        return locomo.read_sample(samples, path, sample)
    conversation_id, events = _one_conversation(read_numbered_events([data], path), path, sample)
    known = {event.utterance_id for event in events if isinstance(event, Utterance)}
    questions = _questions(path, conversation_id, known)
    return LoadedConversation(conversation_id, events, questions)


def read_events(path: Path) -> tuple[ClientEvent, ...]:
    """The events of a file of JSON lines, of any number of conversations, in the file's order.

    Blank lines are skipped. Raises `Refused` as `load_conversation` does.
    """
    return tuple(event for _, event in read_numbered_events(read_chunks(path, EXPECTED), path))


def read_bytes(path: Path, expected: str = EXPECTED, report: ReportCount = lambda _: None) -> bytes:
    """The bytes of a file, without a byte order mark; raises `Refused` where it cannot be read or is empty.

    ``expected``: the content that the message asks for. ``report`` is called with the bytes read.
    """
    return b"".join(read_chunks(path, expected, report))


def json_fault(data: bytes, error: orjson.JSONDecodeError) -> str:
    """Words for what is wrong with JSON that was not read."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return "not in UTF-8; save the file in that encoding"
    return f"not JSON: {error.msg}"


def _rows(chunks: Iterable[bytes], path: Path) -> Iterator[tuple[int, object]]:
    for number, line in enumerate(lines_of(chunks), 1):
        if line.strip():
            try:
                yield number, orjson.loads(line)
            except orjson.JSONDecodeError as error:
                raise Refused(f"{path}, line {number}: {json_fault(line, error)}") from None


def read_numbered_events(chunks: Iterable[bytes], path: Path) -> Iterator[tuple[int, ClientEvent]]:
    """The events of JSON lines, given in pieces, with the numbers of their lines; raises `Refused` with the line."""
    return ((number, _event(row, f"{path}, line {number}")) for number, row in _rows(chunks, path))


def _event(row: object, where: str) -> ClientEvent:
    try:
        event = read_contract(row)
    except ContractError as error:
        raise Refused(f"{where}: {error}") from None
    if isinstance(event, Utterance | SessionEnded | Erase):
        return event
    raise Refused(f"{where}: clients do not produce events of type {event.type_tag()!r}")


def _one_conversation(
    numbered: Iterable[tuple[int, ClientEvent]], path: Path, sample: str | None
) -> tuple[str, tuple[Played, ...]]:
    events = list(numbered)
    names = list(dict.fromkeys(event.conversation_id for _, event in events))
    chosen = locomo.choose(names, path, sample)
    played: list[Played] = []
    for number, event in events:
        if isinstance(event, Erase):
            raise Refused(f"{path}, line {number}: an erase cannot be played as part of a conversation")
        if event.conversation_id == chosen:
            played.append(event)
    return chosen, tuple(with_ends(played))


def with_ends(events: Sequence[Played]) -> Iterator[Played]:
    """The events, with an end behind each session that is left open before another one goes on.

    A product's session ends by silence, which a file that is played at once does not have.
    """
    ended = {event.session_id for event in events if isinstance(event, SessionEnded)}
    last = {event.session_id: place for place, event in enumerate(events)}
    for place, event in enumerate(events):
        yield event
        left_open = event.session_id is not None and event.session_id not in ended
        if left_open and last[event.session_id] == place and place + 1 < len(events):
            yield SessionEnded(
                tenant=event.tenant,
                conversation_id=event.conversation_id,
                session_id=event.session_id,
                at=event.at,
            )


def _questions(path: Path, conversation_id: str, known: set[str]) -> tuple[EvalQuestion, ...]:
    """The questions about a conversation whose utterances have the ids ``known``."""
    beside = path.with_name(path.name.replace("conversation", "questions"))
    if beside == path or not beside.is_file():
        return ()
    gold = _gold(path.with_name(path.name.replace("conversation", "gold")))
    found: list[EvalQuestion] = []
    for number, row in _rows(read_chunks(beside, EXPECTED), beside):
        where = f"{beside}, line {number}"
        question = _with_gold(_question(row, where), gold.get(number), where)
        if question.conversation_id in (None, conversation_id):
            _check_evidence(question, where, known)
            found.append(question)
    return tuple(found)


def _gold(path: Path) -> Mapping[int, object]:
    """The rows of a file of gold passages by the numbers of their lines; empty where there is no such file."""
    return dict(_rows(read_chunks(path, EXPECTED), path)) if path.is_file() else {}


def _with_gold(question: EvalQuestion, row: object, where: str) -> EvalQuestion:
    """The question with the gold passages and roles of the line with the same number."""
    if not isinstance(row, dict):
        return question
    if row.get("question") != question.question:
        raise Refused(f"{where}: the line of gold with the same number is about another question")
    gold = {name: row[name] for name in ("gold_text", "roles") if row.get(name)}
    return _question(question.model_dump(exclude_defaults=True) | gold, where)


def _question(row: object, where: str) -> EvalQuestion:
    try:
        return EvalQuestion.model_validate(row)
    except ValidationError as error:
        raise Refused(f"{where}: {describe(error)}") from None


def _check_evidence(question: EvalQuestion, where: str, known: set[str]) -> None:
    unknown: Mapping[str, None] = dict.fromkeys(id_ for id_ in question.evidence if id_ not in known)
    if unknown:
        raise Refused(f"{where}: no such utterance in the conversation: {', '.join(unknown)}")
