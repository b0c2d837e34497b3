"""Reads the chats of an export of ChatGPT.

Each chat is a tree of messages, of which the path from ``current_node`` back to the root is what the person sees.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from eunoe.deploy.datasets.imports.chats import Chat, ChatMessage, Node
from eunoe.schemas.errors import Refused

NAME: Final = "chatgpt"
TEXTS: Final = ("text", "multimodal_text")
_ROLES: Final = ("user", "assistant")
_UNSEEN_CHANNELS: Final = ("analysis", "commentary")
_UNSEEN: Final = "thought or call of a tool"
_SHOWN: Final = {"image_asset_pointer": "[image]", "file_asset_pointer": "[file]"}


def read_chat(chat: object, where: str, left_out: Counter[str]) -> Chat:
    """A chat with the messages of the branch that is shown, first to last; raises `Refused` where it is none."""
    if not isinstance(chat, dict) or not isinstance(chat.get("mapping"), dict):
        hint = (
            "give --from claude"
            if isinstance(chat, dict) and "chat_messages" in chat
            else "make others into JSON lines or CSV"
        )
        raise Refused(f"{where}: has no 'mapping' of messages, as chats of ChatGPT have; {hint}")
    name = str(chat.get("conversation_id") or chat.get("id") or where.rpartition(" ")[2])
    messages = [
        ChatMessage(id_, _text(message, left_out), message.get("create_time"), _role(message) == "assistant")
        for id_, message in _shown(chat, where)
    ]
    return Chat(name, chat.get("create_time"), messages)


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
    kind = f"{content.get('content_type')!s:.60}" if isinstance(content, dict) else "none"
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
    kind = f"{part.get('content_type')!s:.60}" if isinstance(part, dict) else "unknown"
    if kind == "audio_transcription" and isinstance(part, dict):
        return str(part.get("text") or "").strip()
    left_out[kind] += 1
    return _SHOWN.get(kind, "")
