"""Reads LoCoMo's format (Maharana et al., "Evaluating very long-term conversational memory of LLM agents", 2024)."""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
from pydantic import ValidationError

from eunoe.deploy.datasets.loaded import EvalQuestion, LoadedConversation, Played
from eunoe.schemas.errors import Refused
from eunoe.schemas.events import SessionEnded, Utterance
from eunoe.schemas.versions import describe

Sample = Mapping[str, Any]

TURN_SECONDS = 30
CATEGORIES = {"1": "multi-hop", "2": "temporal", "3": "open-domain", "4": "single-hop", "5": "adversarial"}

_SESSION = re.compile(r"session_(\d+)")
_EVIDENCE = re.compile(r"D:?(\d+):(\d+)")


def samples_in(data: bytes, path: Path) -> list[Sample] | None:
    """The samples of a LoCoMo file (a list of them, or one alone); `None` for another format.

    Raises `Refused` for a list that is not JSON or holds something else.
    """
    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        if data.lstrip().startswith(b"["):
            raise Refused(f"{path}, line {error.lineno}: not JSON: {error.msg}") from None
        return None
    if isinstance(document, dict) and "conversation" not in document:
        return None
    samples = document if isinstance(document, list) else [document]
    for place, sample in enumerate(samples, 1):
        if not (isinstance(sample, dict) and isinstance(sample.get("conversation"), dict)):
            raise Refused(f"{path}: entry {place} is not a LoCoMo sample: it has no 'conversation' object")
    return samples


def read_sample(samples: Sequence[Sample], path: Path, name: str | None) -> LoadedConversation:
    """The sample ``name`` as events and questions; `None` means the only one. Raises `Refused`."""
    names = [str(sample.get("sample_id", f"sample-{place}")) for place, sample in enumerate(samples, 1)]
    chosen = choose(names, path, name)
    sample = samples[names.index(chosen)]
    events = tuple(_events(sample["conversation"], chosen, f"{path}, {chosen}"))
    known = {event.utterance_id for event in events if isinstance(event, Utterance)}
    return LoadedConversation(chosen, events, tuple(_questions(sample.get("qa") or [], known, f"{path}, {chosen}")))


def choose(names: Sequence[str], path: Path, wanted: str | None) -> str:
    """The wanted name, or the only one; raises `Refused` where it is missing, or several leave the choice open."""
    shown = ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
    if wanted is None and len(names) > 1:
        raise Refused(f"{path}: holds {len(names)} conversations; choose one with --sample: {shown}")
    if wanted is not None and wanted not in names:
        raise Refused(f"{path}: holds no conversation {wanted!r}; it has: {shown}")
    if not names:
        raise Refused(f"{path}: holds no conversation")
    return wanted or names[0]


def _events(conversation: Sample, conversation_id: str, where: str) -> Iterator[Played]:
    numbers = sorted(
        int(match[1])
        for name, turns in conversation.items()
        if (match := _SESSION.fullmatch(name)) and isinstance(turns, list)
    )
    if not numbers:
        raise Refused(f"{where}: has no session_1, session_2, … lists")
    for number in numbers:
        spot = f"{where}, session_{number}"
        yield from _session(conversation, number, conversation_id, spot)


def _session(conversation: Sample, number: int, conversation_id: str, where: str) -> Iterator[Played]:
    start = _time(conversation.get(f"session_{number}_date_time"), where)
    session_id = f"session-{number}"
    turns = conversation[f"session_{number}"]
    for place, turn in enumerate(turns):
        at = start + timedelta(seconds=place * TURN_SECONDS)
        yield _utterance(turn, f"{where}, turn {place + 1}", conversation_id, session_id, at)
    end = start + timedelta(seconds=len(turns) * TURN_SECONDS)
    yield SessionEnded(conversation_id=conversation_id, session_id=session_id, at=end)


def _time(text: object, where: str) -> datetime:
    try:
        return datetime.strptime(str(text), "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
    except ValueError:
        raise Refused(f"{where}: no time like '1:56 pm on 8 May, 2023' in its _date_time: {text!r:.60}") from None


def _utterance(turn: object, where: str, conversation_id: str, session_id: str, at: datetime) -> Utterance:
    fields = turn if isinstance(turn, dict) else {}
    try:
        return Utterance(
            conversation_id=conversation_id,
            session_id=session_id,
            utterance_id=fields.get("dia_id", ""),
            speaker=fields.get("speaker", ""),
            text=_text(fields),
            at=at,
        )
    except ValidationError as error:
        raise Refused(f"{where}: {describe(error)} (a turn has speaker, dia_id and text)") from None


def _text(turn: Sample) -> str:
    said, photo = str(turn.get("text") or "").strip(), turn.get("blip_caption")
    shared = f"[photo: {str(photo).strip()}]" if photo else ""
    return f"{said} {shared}".strip()


def _questions(rows: object, known: set[str], where: str) -> Iterator[EvalQuestion]:
    if not isinstance(rows, list):
        raise Refused(f"{where}: 'qa' is not a list")
    for place, row in enumerate(rows, 1):
        yield _question(row if isinstance(row, dict) else {}, known, f"{where}, question {place}")


def _question(row: Sample, known: set[str], where: str) -> EvalQuestion:
    answer, evidence = row.get("answer"), row.get("evidence")
    try:
        return EvalQuestion(
            question=row.get("question", ""),
            evidence=evidence_ids(evidence if isinstance(evidence, list) else [evidence], known),
            category=CATEGORIES.get(str(row.get("category"))),
            answer=None if answer is None else str(answer),
        )
    except ValidationError as error:
        raise Refused(f"{where}: {describe(error)}") from None


def evidence_ids(rows: Sequence[object], known: set[str]) -> tuple[str, ...]:
    """The utterance ids in evidence strings, each once, in order; malformed and unknown ids are left out.

    One string may hold several (``"D8:6; D9:17"``) or another spelling (``"D:11:26"``).
    """
    found = (f"D{session}:{turn}" for row in rows for session, turn in _EVIDENCE.findall(str(row)))
    return tuple(dict.fromkeys(id_ for id_ in found if id_ in known))
