"""Recorded answers of a conversation: filed under a keyed digest of the question's hash, sealed with its data key.

Prompts and answers are made of the conversation's text, and the plain hash of a prompt can be guessed. Answers that
belong to no conversation, and those from before there was a key store, stay plain.
"""

import re
from dataclasses import replace
from typing import Final

from eunoe.schemas.keys import DataKey, KeyStore
from eunoe.streams.record import Message
from eunoe.streams.sealed.envelope import sealed_name
from eunoe.streams.sealed.records import key_for, seal_with

_NAME: Final = re.compile(rb"([^{}:]+/[^{}:]*):([0-9a-f]{32})")
"""``<conversation key>:<digest>``. Conversation keys are percent-encoded: they have no colon."""


def sealed_request(key: DataKey, conversation: str, request: str) -> str:
    """The key under which a conversation's answer stands in the topic; nobody can guess the request from it."""
    return f"{conversation}:{sealed_name(key, request)}"


def split_request(name: bytes | None) -> tuple[str, str] | None:
    """Conversation and digest of a `sealed_request`; `None` for any other key."""
    found = None if name is None else _NAME.fullmatch(name)
    return None if found is None else (found[1].decode(errors="replace"), found[2].decode())


async def seal_answer(message: Message, keys: KeyStore) -> Message | None:
    """The message of an answer, sealed where it belongs to a conversation; `None` where its key is destroyed.

    Raises `Unavailable` when the key store does not answer.
    """
    if not message.conversation or message.key is None:
        return message
    key = await key_for(message, message.conversation, keys)
    if key is None:
        return None
    name = sealed_request(key, message.conversation, message.key.decode())
    return seal_with(key, replace(message, key=name.encode()))
