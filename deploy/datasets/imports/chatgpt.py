"""Reads the export of ChatGPT: ``conversations.json``, or the ZIP file that holds it.

Each chat is a tree of messages, of which the path from ``current_node`` back to the root is what the person sees.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from eunoe.deploy.datasets.imports.imported import (
    ImportFile,
    ImportSession,
    ImportTarget,
    KnownLines,
    SourceLine,
    check_time,
    cut,
    session_of,
)
from eunoe.schemas.errors import Refused

CONVERSATION: Final = "chatgpt"
TEXTS: Final = ("text", "multimodal_text")
_ROLES: Final = ("user", "assistant")
_UNSEEN_CHANNELS: Final = ("analysis", "commentary")
_UNSEEN: Final = "thought or call of a tool"
_SHOWN: Final = {"image_asset_pointer": "[image]", "file_asset_pointer": "[file]"}

Node = Mapping[str, Any]


def read_chats(chats: object, path: Path, target: ImportTarget) -> ImportFile:
    """All chats as one conversation of the person: a session for each stretch of a chat without a long silence.

    A chat that is there twice counts once. Raises `Refused` with the number of the chat that is none, or has another
    message under an id of one before.
    """
    if not isinstance(chats, list):
        raise Refused(f"{path}: not a list of chats; give the conversations.json of an export of ChatGPT")
    left_out: Counter[str] = Counter()
    conversation_id = target.conversation_id or CONVERSATION
    sessions: list[ImportSession] = []
    known = KnownLines()
    for number, chat in enumerate(chats, 1):
        name, said = _chat(chat, f"{path}, chat {number}", target, left_out)
        lines = [line for line in said if known.is_new(conversation_id, line, path, _place(number, line))]
        sessions += [session_of(f"chatgpt\n{name}\n{part[0].id}", part, target, conversation_id) for part in cut(lines)]
    ordered = sorted(sessions, key=lambda session: (session.utterances[0].at, session.session_id))
    return ImportFile(tuple(ordered), left_out)


def _place(number: int, line: SourceLine) -> str:
    _, _, node_id = line.id.rpartition("\n")
    return f"chat {number}, message {node_id[:40]!r}"


def _chat(chat: object, where: str, target: ImportTarget, left_out: Counter[str]) -> tuple[str, list[SourceLine]]:
    """Id and lines of a chat in the order shown, which times are not where the person's clock is ahead."""
    if not isinstance(chat, dict) or not isinstance(chat.get("mapping"), dict):
        raise Refused(
            f"{where}: has no 'mapping' of messages, as chats of ChatGPT have; make others into JSON lines or CSV"
        )
    name = str(chat.get("conversation_id") or chat.get("id") or where.rpartition(" ")[2])
    lines: list[SourceLine] = []
    before = chat.get("create_time")
    for node_id, message in _shown(chat, where):
        text = _text(message, left_out)
        at = message.get("create_time") or before
        before = at
        if text:
            role = _role(message)
            place = f"{where}, message {node_id[:40]!r}"
            time = _time(at, place)
            check_time(time, place)
            lines.append(SourceLine(f"{name}\n{node_id}", target.speaker, text, time, is_reply=role == "assistant"))
    return name, lines


def _shown(chat: Node, where: str) -> Iterator[tuple[str, Node]]:
    """Id and message of each node of the path that is shown, the first one first."""
    mapping = chat["mapping"]
    id_ = chat.get("current_node") or next(reversed(mapping), None)
    path: dict[str, Node] = {}
    while id_ is not None and str(id_) not in path:
        node = mapping.get(id_) if isinstance(id_, str) else None
        if not isinstance(node, dict):
            raise Refused(f"{where}: message {str(id_)[:40]!r} is missing; export again, the file is not whole")
        path[id_] = node
        id_ = node.get("parent")
    for found, node in reversed(path.items()):
        if isinstance(node.get("message"), dict):
            yield found, node["message"]


def _role(message: Node) -> str:
    author = message.get("author")
    return str(author.get("role")) if isinstance(author, dict) else ""


def _text(message: Node, left_out: Counter[str]) -> str:
    """The text that a person saw of a message; empty where it showed none."""
    content = message.get("content")
    kind = str(content.get("content_type")) if isinstance(content, dict) else "none"
    metadata = message.get("metadata")
    hidden = isinstance(metadata, dict) and metadata.get("is_visually_hidden_from_conversation")
    if _role(message) not in _ROLES or hidden or message.get("weight") == 0:
        return ""
    if kind not in TEXTS or message.get("recipient", "all") != "all" or message.get("channel") in _UNSEEN_CHANNELS:
        left_out[_UNSEEN if kind in TEXTS else kind] += 1
        return ""
    parts = content.get("parts") if isinstance(content, dict) else None
    shown = (_part(part, left_out) for part in parts) if isinstance(parts, list) else ()
    return "\n".join(filter(None, shown)).strip()


def _part(part: object, left_out: Counter[str]) -> str:
    if isinstance(part, str):
        return part.strip()
    kind = str(part.get("content_type")) if isinstance(part, dict) else "unknown"
    if kind == "audio_transcription" and isinstance(part, dict):
        return str(part.get("text") or "").strip()
    left_out[kind] += 1
    return _SHOWN.get(kind, "")


def _time(seconds: object, where: str) -> datetime:
    if isinstance(seconds, int | float) and not isinstance(seconds, bool) and math.isfinite(seconds):
        try:
            return datetime.fromtimestamp(seconds, UTC)
        except (OverflowError, OSError, ValueError):
            pass
    raise Refused(f"{where}: its create_time is no time in seconds since 1970: {seconds!r:.40}")
