"""Reads the chats of an export of Claude (claude.ai).

Each chat is a list of messages. Those of one that was edited are a tree, of which the path from the last message back
to the first is what the person sees.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from eunoe.deploy.datasets.imports.chats import Chat, ChatMessage, Node
from eunoe.schemas.errors import Refused

NAME: Final = "claude"
_PERSON: Final = ("human", "user")
_ASSISTANT: Final = "assistant"
_FIRST: Final = "00000000-0000-4000-8000-000000000000"
"""The id that a first message names as the one before."""
_UNSEEN: Final = "```\nThis block is not supported on your current device yet.\n```"
"""The mark of a call of a tool in the text of a message without parts."""
_IMAGES: Final = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".heic")


def read_chat(chat: object, where: str, left_out: Counter[str]) -> Chat:
    """A chat with the messages that are shown, first to last; raises `Refused` where it is none."""
    if not isinstance(chat, dict) or not isinstance(chat.get("chat_messages"), list):
        hint = (
            "give --from chatgpt"
            if isinstance(chat, dict) and "mapping" in chat
            else "make others into JSON lines or CSV"
        )
        raise Refused(f"{where}: has no list 'chat_messages', as chats of Claude have; {hint}")
    messages = [one for one in chat["chat_messages"] if isinstance(one, dict)]
    shown = _branch(messages, chat.get("current_leaf_message_uuid"))
    left_out += Counter(
        {"unknown": len(chat["chat_messages"]) - len(messages), "of another branch": len(messages) - len(shown)}
    )
    name = str(chat.get("uuid") or where.rpartition(" ")[2])
    read = [
        ChatMessage(
            str(messages[place].get("uuid") or place),
            _text(messages[place], left_out),
            messages[place].get("created_at"),
            messages[place].get("sender") == _ASSISTANT,
        )
        for place in shown
    ]
    return Chat(name, chat.get("created_at"), read)


def _branch(messages: Sequence[Node], last: object) -> list[int]:
    """The places of the messages that are shown: those that lead to the message ``last``, else to that of the list.

    A message that names none of the others as the one before follows the one that the list has before it.
    """
    places = {str(message.get("uuid")): place for place, message in enumerate(messages) if message.get("uuid")}
    parents = [str(message.get("parent_message_uuid")) for message in messages]
    is_tree = any(parent in places for parent in parents)
    path: dict[int, None] = {}
    place = places.get(str(last), len(messages) - 1)
    while place >= 0 and place not in path:
        path[place] = None
        first = is_tree and parents[place] == _FIRST
        place = -1 if first else places.get(parents[place], place - 1)
    return list(reversed(path))


def _text(message: Node, left_out: Counter[str]) -> str:
    """The text that a person wrote or saw of a message; empty where it showed none."""
    sender = message.get("sender")
    if sender != _ASSISTANT and sender not in _PERSON:
        left_out[f"of the sender {sender!r:.40}"] += 1
        return ""
    attached = [*_attached(message.get("attachments"), left_out), *_attached(message.get("files"), left_out)]
    return "\n".join(filter(None, (*attached, *_said(message, left_out)))).strip()


def _said(message: Node, left_out: Counter[str]) -> Iterator[str]:
    """The parts that are text; where there are no parts, the whole text, which else has thoughts among the words."""
    content = message.get("content")
    parts = content if isinstance(content, list) else [content] if isinstance(content, str) else []
    texts = [_part(part, left_out) for part in parts]
    if any(texts) or any(isinstance(part, dict) and part.get("type") != "text" for part in parts):
        yield from texts
    elif isinstance(message.get("text"), str):
        yield message["text"].replace(_UNSEEN, "").strip()


def _part(part: object, left_out: Counter[str]) -> str:
    if isinstance(part, str):
        return part.strip()
    kind = f"{part.get('type')!s:.60}" if isinstance(part, dict) else "unknown"
    if kind == "text" and isinstance(part, dict) and isinstance(part.get("text"), str):
        return str(part["text"]).strip()
    left_out[kind] += 1
    return ""


def _attached(files: object, left_out: Counter[str]) -> Iterator[str]:
    """A mark for each file; what was pasted into the field, a file without a name, is what the person wrote."""
    for file in files if isinstance(files, list) else ():
        name = str(file.get("file_name") or "") if isinstance(file, dict) else "unknown"
        pasted = file.get("extracted_content") if isinstance(file, dict) and not name else None
        if isinstance(pasted, str) and pasted.strip():
            yield pasted.strip()
        else:
            kind = "image" if name.lower().endswith(_IMAGES) else "file"
            left_out[f"attached {kind}"] += 1
            yield f"[{kind}]"
