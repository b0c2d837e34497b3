"""Seals messages, each as its topic wants it."""

from eunoe.schemas.keys import KeyStore
from eunoe.streams.record import Message
from eunoe.streams.sealed.answers import seal_answer
from eunoe.streams.sealed.letters import seal_letter
from eunoe.streams.sealed.records import seal_message
from eunoe.streams.topics import Topic


async def sealed(message: Message, keys: KeyStore) -> Message | None:
    """The message as it is sent where there is a key store; `None` where what it tells of was erased: do not send it.

    Raises `Unavailable` when the key store does not answer.
    """
    if message.topic == Topic.ANSWERS:
        return await seal_answer(message, keys)
    if message.topic == Topic.DEAD_LETTERS:
        return await seal_letter(message, keys)
    return await seal_message(message, keys)
